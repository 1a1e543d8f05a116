"""Damage of every kind, by every way to read: no wrong byte, no crash, no memory for what isn't there."""

from __future__ import annotations

import io
import os
import random
import resource
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brevis import errors, file, frame
from brevis.codec import Encoder
from brevis.reader import Source
from brevis.stream import Decompressor

CONTENT = b"".join(b"line %d of %d\n" % (i, i * i) for i in range(500))[:9000]


def archive_of(content: bytes) -> bytes:
    encoder = Encoder(chunk_size=4096, threads=1)
    return b"".join([*encoder.write(content), *encoder.finish()])


ARCHIVE = archive_of(CONTENT)


def whole(cut: int) -> int:
    """Tell how much content the chunks have that end before a cut."""
    (member,) = Source(io.BytesIO(ARCHIVE)).members()
    return max((p.begin + p.content_length for p in member.chunks if p.offset + p.size <= cut), default=0)


def into(f: Any, once: bool) -> bytes:
    buffer = bytearray(3000)
    return bytes(buffer[: (f.readinto1 if once else f.readinto)(buffer)])


METHODS: dict[str, Callable[[Any], bytes]] = {
    "read": lambda f: f.read(3000),
    "read1": lambda f: f.read1(3000),
    "readinto": lambda f: into(f, once=False),
    "readinto1": lambda f: into(f, once=True),
    "peek": lambda f: f.read(len(f.peek())),
    "readline": lambda f: f.readline(),
    "readlines": lambda f: b"".join(f.readlines(2000)),
    "iteration": lambda f: next(f, b""),
}


@pytest.mark.parametrize("name", METHODS)
def test_cut_at_every_byte_by_every_method(name: str) -> None:
    """All chunks that are whole come first, then EOFError, again and again."""
    method = METHODS[name]
    for cut in range(len(ARCHIVE)):
        f = file.open(io.BytesIO(ARCHIVE[:cut]), threads=1)
        got = b""
        try:
            while piece := method(f):
                got += piece
        except EOFError as error:
            assert isinstance(error, errors.TruncatedError)
        else:
            pytest.fail(f"a cut at {cut} was not seen")
        expected = CONTENT[: whole(cut)]
        # What a call had when it met the fault is lost only where it has to return several lines.
        assert got == expected or (name == "readlines" and expected.startswith(got))
        with pytest.raises(EOFError):
            f.read()


@pytest.mark.parametrize("step", [1, 700])
def test_cut_at_every_byte_by_text_and_seeks(step: int) -> None:
    for cut in range(0, len(ARCHIVE), 5):
        f = file.open(io.BytesIO(ARCHIVE[:cut]), "rt", threads=1)
        with pytest.raises(EOFError):
            f.read()
        g = file.open(io.BytesIO(ARCHIVE[:cut]), threads=1)
        g.seek(step)
        expected = CONTENT[step : whole(cut)]
        if expected:
            assert g.read(len(expected)) == expected
        with pytest.raises(EOFError):
            g.read(1)


def test_every_flipped_bit_of_a_small_archive() -> None:
    """Files, pieces and the command's way agree on the class of the fault, and nothing wrong comes out."""
    content = random.Random(1).randbytes(1500) + bytes(3000)
    original = archive_of(content)
    assert 1500 < len(original) < 2048
    unseen = 0
    for bit in range(8 * len(original)):
        broken = bytearray(original)
        broken[bit // 8] ^= 1 << bit % 8
        verdicts = set()
        for read in (by_memory, by_file, by_pieces):
            try:
                assert read(bytes(broken)) == content
                verdicts.add(None)
            except errors.Error as error:
                verdicts.add(type(error))
        assert len(verdicts) == 1
        unseen += None in verdicts
    assert unseen == 0


def by_memory(archive: bytes) -> bytes:
    return file.decompress(archive, threads=1)


def by_file(archive: bytes) -> bytes:
    return file.open(io.BytesIO(archive), threads=1).read()


def by_pieces(archive: bytes) -> bytes:
    decompressor, got, position = Decompressor(threads=1), b"", 0
    while not decompressor.eof:
        if decompressor.needs_input and position >= len(archive):
            raise errors.TruncatedError("there's no more")
        got += decompressor.decompress(archive[position : position + 300])
        position += 300
    if decompressor.unused_data:
        raise errors.MalformedError("there's more")
    return got


# Lengths that claim too much, with every checksum right


EXTREMES = [0, 1, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]


def sealed(data: bytearray, begin: int, end: int) -> None:
    """Put the right checksum behind a range."""
    struct.pack_into("<I", data, end, frame.crc32(bytes(data[begin:end])))


def lies() -> list[bytes]:
    """Make archives in which one length is extreme, and all checksums are as they should be."""
    (member,) = Source(io.BytesIO(ARCHIVE)).members()
    footer = len(ARCHIVE) - frame.FOOTER_SIZE
    index = member.offset + struct.unpack_from("<Q", ARCHIVE, footer + 16 + 24)[0]
    records = [member.chunks[0].offset, index, footer]
    made = []
    for value in EXTREMES:
        for record in records:
            for tag in (None, 0x01, 0x02, 0x03, 0x81, 0x82, 0x83, 0x90):
                data = bytearray(ARCHIVE)
                struct.pack_into("<Q", data, record + 4, value)
                data[record + 3] = data[record + 3] if tag is None else tag
                sealed(data, record, record + 12)
                made.append(bytes(data))
        for field in range(4):
            data = bytearray(ARCHIVE)
            struct.pack_into("<Q", data, footer + 16 + 8 * field, value)
            sealed(data, footer + 16, footer + 16 + 36)
            made.append(bytes(data))
        made += [with_index(value, place) for place in range(8)]
        data = bytearray(ARCHIVE)
        chunk = member.chunks[0]
        struct.pack_into("<I", data, chunk.offset + 16, value & 0xFFFFFFFF)
        sealed(data, chunk.offset + 16, chunk.offset + chunk.size - 4)
        made.append(bytes(data))
    return made


def with_index(value: int, place: int) -> bytes:
    """Put a number into the index; the footer still points to it."""
    footer = len(ARCHIVE) - frame.FOOTER_SIZE
    begin = struct.unpack_from("<Q", ARCHIVE, footer + 16 + 24)[0]
    numbers, body, i = [], ARCHIVE[begin + 16 : footer - 4], 0
    while i < len(body):
        number = shift = 0
        while True:
            number |= (body[i] & 0x7F) << shift
            shift += 7
            i += 1
            if body[i - 1] < 0x80:
                break
        numbers.append(number)
    numbers[place % len(numbers)] = value
    index = b"".join(map(frame.varint, numbers))
    head = frame.SYNC + b"\x02" + struct.pack("<Q", len(index))
    record = head + struct.pack("<I", frame.crc32(head)) + index + struct.pack("<I", frame.crc32(index))
    tail = bytearray(ARCHIVE[footer:])
    struct.pack_into("<Q", tail, 16, begin + len(record) + len(tail))
    sealed(tail, 16, 16 + 36)
    return ARCHIVE[:begin] + record + bytes(tail)


PROBE = """
import io, resource, sys
from brevis import errors, file, reader, salvage
from brevis.stream import Decompressor
content = open(sys.argv[2], "rb").read()
blob = open(sys.argv[1], "rb").read()
archives = []
while blob:
    size = int.from_bytes(blob[:4], "little")
    archives.append(blob[4:4 + size])
    blob = blob[4 + size:]
file.decompress(file.compress(content))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (160 << 20), used + (160 << 20)))

def seeking(archive):
    f = file.open(io.BytesIO(archive), threads=1)
    f.seek(5000)
    return content[:5000] + f.read()

def pieces(archive):
    d = Decompressor(threads=1)
    got = d.decompress(archive)
    while not d.eof:
        if d.needs_input:
            raise EOFError
        got += d.decompress(b"")
    return got

def salvaging(archive):
    for piece in salvage.salvage(reader.Source(io.BytesIO(archive))):
        pass
    return content

ways = [file.decompress, lambda a: file.open(io.BytesIO(a), threads=1).read(), seeking, pieces, salvaging,
        lambda a: [content, reader.survey(io.BytesIO(a))][0]]
for archive in archives:
    for way in ways:
        try:
            assert way(archive) == content, way
        except (errors.Error, EOFError):
            pass
print(len(archives), "fine")
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the limit is set from /proc")
def test_extreme_lengths_with_right_checksums_take_no_memory(tmp_path: Path) -> None:
    made = lies()
    (tmp_path / "archives").write_bytes(b"".join(len(a).to_bytes(4, "little") + a for a in made))
    (tmp_path / "content").write_bytes(CONTENT)
    environment = {**os.environ, "PYTHONPATH": str(Path(file.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, tmp_path / "archives", tmp_path / "content"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == (f"{len(made)} fine\n", "")


def test_ten_thousand_bad_archives_leave_memory_flat() -> None:
    rng = random.Random(2)
    peaks = []
    for _ in range(4):
        for _ in range(500):
            broken = bytearray(ARCHIVE)
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
            for read in (by_memory, by_file):
                with pytest.raises(errors.Error):
                    read(bytes(broken[: rng.randrange(len(broken))]))
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert peaks[-1] - peaks[1] < 8 << 10  # KiB


def test_memory_for_the_whole_is_not_taken_on_an_indexs_word() -> None:
    """An archive of chunks of one value is small; its content is only made chunk by chunk until a fault."""
    encoder = Encoder(chunk_size=1 << 22, threads=1)
    archive = b"".join([*encoder.write(bytes(1 << 25)), *encoder.finish()])
    assert len(archive) < 2000
    assert file.decompress(archive) == bytes(1 << 25)
    with pytest.raises(errors.LimitError):
        file.decompress(archive, max_output_size=1 << 20)


def test_a_large_archive_decodes_in_place_and_finds_its_faults() -> None:
    content = random.Random(3).randbytes(300_000)
    archive = archive_of(content)
    assert len(archive) > 1 << 16
    assert file.decompress(archive) == content
    assert file.decompress(archive + archive, threads=2) == content + content
    assert file.decompress(archive, max_output_size=len(content)) == content
    for place in (40, len(archive) // 2, len(archive) - 30):
        broken = bytearray(archive)
        broken[place] ^= 4
        with pytest.raises(errors.Error):
            file.decompress(broken)
    with pytest.raises(errors.LimitError) as caught:
        file.decompress(archive, max_output_size=len(content) - 1)
    assert caught.value.offset
