"""The codec: any content comes back, always from the same archive, and faults come in their order."""

from __future__ import annotations

import array
import gc
import io
import json
import random
import signal
import struct
import threading
import time
import zlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brevis import codec, errors, frame
from brevis.codec import Encoder
from brevis.frame import CHUNK, LAYOUT, Block, Entry
from brevis.sources import Kind

MIB = 1 << 20


def noise(size: int) -> bytes:
    """Bytes that do not compress, the same every time."""
    return random.Random(1).randbytes(size)


def compress(content: Any, split: int | None = None, **options: Any) -> bytes:
    encoder = Encoder(**options)
    view = memoryview(content)
    step = split or len(view) or 1
    parts = [part for i in range(0, len(view), step) for part in encoder.write(view[i : i + step])]
    return b"".join([*parts, *encoder.finish()])


def reader(
    archive: bytes, most: int | None = None, asked: list[int] | None = None
) -> Callable[[int], memoryview]:
    """Read from memory, at most so many bytes at a time."""
    view = memoryview(archive)

    def read(size: int) -> memoryview:
        nonlocal view
        if asked is not None:
            asked.append(size)
        size = min(size, most or size)
        piece, view = view[:size], view[size:]
        return piece

    return read


def decompress(archive: bytes, **options: Any) -> bytes:
    return b"".join(codec.decode_blocks(reader(archive), **options))


def blocks(archive: bytes) -> list[Block]:
    return [event for event in codec.events(reader(archive)) if isinstance(event, Block)]


def chunk_lengths(archive: bytes) -> list[int]:
    return [block.content_length for block in blocks(archive) if block.tag == CHUNK]


def layout(archive: bytes) -> list[Entry]:
    return [e for block in blocks(archive) if block.tag == LAYOUT for e in codec.decode_layout(block)]


def checkpoint(*tensors: tuple[str, str, list[int], bytes], metadata: dict[str, str] | None = None) -> bytes:
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    position = 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [position, position + len(data)]}
        position += len(data)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(tensor[3] for tensor in tensors)


SAMPLE = checkpoint(
    ("embedding", "F32", [300, 100], noise(120_000)),
    ("bias", "F32", [25], noise(100)),
    ("norm", "BF16", [50], noise(100)),
    ("none", "F32", [0, 4], b""),
    ("packed", "F4", [60_001, 2], noise(60_001)),
    ("ids", "I64", [300], bytes(2400)),
    metadata={"format": "pt"},
)
CONTENTS = {
    "nothing": b"",
    "a byte": b"x",
    "eight bytes": bytes(8),
    "text": b"the quick brown fox jumps over the lazy dog. " * 3000,
    "zeros": bytes(300_000),
    "noise": noise(100_000),
    "checkpoint": SAMPLE,
    "checkpoint cut short": SAMPLE[:100_001],
    "checkpoint cut in the header": SAMPLE[:100],
    "checkpoint with more behind": SAMPLE + noise(10_001),
    "header without tensors": struct.pack("<Q", 2) + b"{}",
    "header that never comes": struct.pack("<Q", 90_000_000) + b'{"' + bytes(50_000),
}
contents = pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())


# Round trips


@contents
def test_content_comes_back(content: bytes) -> None:
    archive = compress(content)
    assert decompress(archive) == content
    assert decompress(archive, threads=1) == content


@contents
def test_archive_is_the_same_for_any_threads_and_pieces(content: bytes) -> None:
    archive = compress(content, chunk_size=8192, threads=1)
    for threads, split in ((1, 1000), (2, None), (3, 4097), (2, 65_536)):
        assert compress(content, split, chunk_size=8192, threads=threads) == archive
    assert compress(bytearray(content), chunk_size=8192, threads=2) == archive
    assert decompress(archive, threads=2) == content


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, len(SAMPLE)), max_size=8).map(sorted))
def test_pieces_of_any_size_make_the_same_archive(ends: list[int]) -> None:
    encoder = Encoder(chunk_size=16_384, threads=2)
    parts: list[frame.Buffer] = []
    for begin, end in zip([0, *ends], [*ends, len(SAMPLE)], strict=True):
        parts += encoder.write(SAMPLE[begin:end])
    assert b"".join([*parts, *encoder.finish()]) == compress(SAMPLE, chunk_size=16_384, threads=1)


def test_larger_content_in_default_chunks() -> None:
    content = noise(50_000) * 200
    archive = compress(content)
    assert chunk_lengths(archive) == [4 * MIB, 4 * MIB, len(content) - 8 * MIB]
    assert decompress(archive) == content


def test_nothing_is_an_empty_member() -> None:
    assert [type(event) for event in codec.events(reader(compress(b"")))] == [
        frame.MemberStart,
        frame.MemberEnd,
    ]


def test_members_are_joined() -> None:
    assert decompress(compress(b"one") + compress(b"") + compress(SAMPLE)) == b"one" + SAMPLE


# What an encoder makes of its input


def test_checkpoint_is_named_and_cut_by_its_layout() -> None:
    archive = compress(SAMPLE)
    start = SAMPLE.index(noise(120_000))
    assert layout(archive) == [
        Entry("embedding", "F32", (300, 100), start, start + 120_000),
        Entry("bias", "F32", (25,), start + 120_000, start + 120_100),
        Entry("norm", "BF16", (50,), start + 120_100, start + 120_200),
        Entry("none", "F32", (0, 4), start + 120_200, start + 120_200),
        Entry("packed", "F4", (60_001, 2), start + 120_200, start + 180_201),
        Entry("ids", "I64", (300,), start + 180_201, start + 182_601),
    ]
    assert {"source": b"safetensors"} in list(codec.events(reader(archive)))
    assert chunk_lengths(archive) == [start, 120_000, 200, 60_001, 2400]


def test_bytes_have_no_layout() -> None:
    assert [
        event.tag for event in codec.events(reader(compress(noise(999)))) if isinstance(event, Block)
    ] == [CHUNK]


def test_array_is_a_tensor_without_a_name() -> None:
    content = noise(24_000)
    archive = compress(content, kind=Kind("BF16", (30, 400)), chunk_size=8192)
    assert layout(archive) == [Entry("", "BF16", (30, 400), 0, 24_000)]
    assert chunk_lengths(archive) == [8000, 8000, 8000]
    assert decompress(archive) == content
    empty = compress(b"", kind=Kind("F32", (0, 3)))
    assert layout(empty) == [Entry("", "F32", (0, 3), 0, 0)] and decompress(empty) == b""


def test_kind_is_not_asked_of_bytes_that_have_one() -> None:
    assert layout(compress(SAMPLE, kind=Kind(None, ()))) == []
    assert decompress(compress(SAMPLE, kind=Kind("F6_E2M3", ()), chunk_size=4096)) == SAMPLE


def test_long_layouts_are_split() -> None:
    tensors = [(f"{i:0200}", "U8", [1, 1], b"x") for i in range(3000)]
    content = checkpoint(*tensors, ("n" * 65_535, "U8", [1] * 255, b"y"))
    archive = compress(content, chunk_size=4096)
    assert sum(block.tag == LAYOUT for block in blocks(archive)) > 4
    assert [e.name for e in layout(archive)] == [t[0] for t in tensors] + ["n" * 65_535]
    assert decompress(archive) == content


def test_holds_back_until_the_source_is_known() -> None:
    encoder = Encoder()
    size = struct.unpack("<Q", SAMPLE[:8])[0] + 8
    assert encoder.write(SAMPLE[: size - 1]) == []
    assert encoder.write(SAMPLE[size - 1 :]) != []
    assert Encoder().write(b"plain text") != []
    encoder.close()


def test_content_may_change_after_the_call() -> None:
    content = bytearray(noise(50_000))
    encoder = Encoder(chunk_size=4096, threads=2)
    expected = bytes(content) * 2
    parts = encoder.write(content)
    content[:] = bytes(50_000)
    content.clear()  # nor is it still held
    parts += encoder.write(array.array("B", expected[50_000:]))
    assert decompress(b"".join([*parts, *encoder.finish()])) == expected


def test_stable_content_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = Scripted(monkeypatch)
    content = bytearray(noise(20_000))
    content[:8] = bytes([255] * 8)
    encoder = Encoder(chunk_size=4096, threads=1)
    encoder.write(memoryview(content)[:9])
    encoder.write(memoryview(content)[9:], stable=True)
    encoder.finish()
    assert [getattr(view, "obj", None) is content for view in scripted.contents] == [
        False,
        True,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    "data",
    [
        array.array("d", [1.5, 2.5]),
        memoryview(bytes(24)).cast("B", (2, 3, 4)),
        memoryview(bytes(8)).cast("d", ()),
        memoryview(bytes(16)).cast("?"),
        b"",
    ],
)
def test_takes_any_buffer(data: Any) -> None:
    encoder = Encoder()
    assert decompress(b"".join([*encoder.write(data), *encoder.finish()])) == memoryview(data).tobytes()


def test_refuses_what_is_no_buffer_and_goes_on() -> None:
    encoder = Encoder()
    with pytest.raises(BufferError):
        encoder.write(memoryview(b"abcd")[::2])
    with pytest.raises(TypeError):
        encoder.write("text")
    assert decompress(b"".join([*encoder.write(b"right"), *encoder.finish()])) == b"right"


@pytest.mark.parametrize("options", [{"threads": -1}, {"chunk_size": 4095}, {"chunk_size": (1 << 24) + 1}])
def test_refuses_impossible_options(options: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        Encoder(**options)  # type: ignore[arg-type]


def test_finished_is_finished() -> None:
    encoder = Encoder()
    encoder.finish()
    for call in (encoder.flush, encoder.finish, lambda: encoder.write(b"x")):
        with pytest.raises(ValueError, match="finished"):
            call()
    encoder.close()


# Flush


@pytest.mark.parametrize("content", [SAMPLE, noise(30_000), noise(3)], ids=["checkpoint", "noise", "short"])
@pytest.mark.parametrize("threads", [1, 2])
def test_flush_gives_all_till_now(content: bytes, threads: int) -> None:
    encoder = Encoder(chunk_size=8192, threads=threads)
    archive = b""
    for begin in range(0, len(content), 7001):
        archive += b"".join([*encoder.write(content[begin : begin + 7001]), *encoder.flush()])
        found = []
        with pytest.raises(errors.TruncatedError):
            for piece in codec.decode_blocks(reader(archive)):
                found.append(piece)
        assert b"".join(found) == content[: begin + 7001]
    assert decompress(archive + b"".join(encoder.finish())) == content


def test_flush_of_nothing_is_nothing() -> None:
    encoder = Encoder()
    assert encoder.flush() == []
    parts = [*encoder.write(SAMPLE), *encoder.flush()]
    assert encoder.flush() == []
    assert decompress(b"".join([*parts, *encoder.finish()])) == SAMPLE


# Search, as the encoder uses it


class Scripted:
    """Stands in for the search: programs are raw literals, and what happens is written down."""

    class Unfit(Exception):
        """The shape does not fit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.chosen: list[Kind] = []
        self.contents: list[Any] = []
        self.fallbacks = 0
        self.encode: Callable[[Any], bytes] = lambda content: b"\x01" + bytes(content)
        self.fail: Exception | None = None
        monkeypatch.setattr(codec, "search", self)

    def choose(self, content: Any, kind: Kind, level: int) -> Any:
        self.chosen.append(kind)
        if self.fail:
            raise self.fail
        return SimpleNamespace(width=8, encode=self._encode)

    def encode_fallback(self, content: Any, kind: Kind, level: int) -> tuple[int, bytes]:
        self.fallbacks += 1
        return 8, b"\x01" + bytes(content)

    def _encode(self, content: Any) -> bytes:
        self.contents.append(content)
        return self.encode(content)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_series_has_one_shape(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    scripted = Scripted(monkeypatch)
    content = checkpoint(("a", "F32", [400, 100], noise(160_000)), ("b", "F32", [200, 100], noise(80_000)))
    archive = compress(content, chunk_size=16_384, threads=threads)
    assert decompress(archive) == content
    assert sorted(k for k in scripted.chosen if k.dtype) == [Kind("F32", (40, 100))] * 2
    assert len(scripted.contents) == len(chunk_lengths(archive)) == 16


def test_what_does_not_fit_or_grows_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = Scripted(monkeypatch)

    def encode(content: Any) -> bytes:
        if content[0] == 1:
            raise Scripted.Unfit
        return b"\x01" + bytes(content) + (b"x" if content[0] == 2 else b"")

    scripted.encode = encode
    content = b"".join(bytes([i]) * 4096 for i in range(4))
    assert decompress(compress(content, chunk_size=4096, threads=2)) == content
    assert scripted.fallbacks == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_failure_ends_the_encoder(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    Scripted(monkeypatch).fail = MemoryError()
    encoder = Encoder(chunk_size=4096, threads=threads, kind=Kind("F32", (10_000, 8)))
    with pytest.raises(MemoryError):
        encoder.write(bytes(320_000))
        encoder.finish()
    with pytest.raises(ValueError, match="given up"):
        encoder.finish()


def test_work_in_flight_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = Scripted(monkeypatch)
    encoder = Encoder(chunk_size=4096, threads=2)
    written: list[int] = []

    def encode(content: Any) -> bytes:
        time.sleep(0.001)
        written.append(len(content))
        return b"\x01" + bytes(content)

    scripted.encode = encode
    for i in range(1, 40):
        encoder.write(bytes(4096))
        assert i - len(written) <= 5
    encoder.finish()


def test_interrupt_ends_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = Scripted(monkeypatch)
    began = []

    def encode(content: Any) -> bytes:
        began.append(content)
        time.sleep(0.2)
        return b"\x01" + bytes(content)

    scripted.encode = encode
    encoder = Encoder(chunk_size=4096, threads=2)
    timer = threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        encoder.write(bytes(4096 * 100))
    assert time.monotonic() - start < 1
    with pytest.raises(ValueError, match="given up"):
        encoder.finish()
    time.sleep(0.3)
    assert len(began) < 12


def test_threads_end_with_the_work() -> None:
    before = threading.active_count()
    compress(noise(100_000), chunk_size=4096, threads=4)
    pieces = codec.decode_blocks(reader(compress(noise(100_000), chunk_size=4096)), threads=4)
    next(pieces)
    pieces.close()
    encoder = Encoder(chunk_size=4096, threads=4)
    encoder.write(noise(100_000))
    del encoder, pieces
    gc.collect()
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_single_chunks_need_no_threads() -> None:
    before = threading.active_count()
    encoder = Encoder(threads=4)
    encoder.write(b"small")
    assert threading.active_count() == before
    archive = b"".join(encoder.finish())
    for piece in codec.decode_blocks(reader(compress(b"small")), threads=4):
        assert bytes(piece) == b"small" and threading.active_count() == before
    assert archive


# Decoding


def raw(*pieces: bytes, wrong: int | None = None, bad_program: int | None = None) -> bytes:
    """An archive of raw literals, of which one may not hold what its record says, or be no program."""
    writer = frame.Writer()
    parts: list[frame.Buffer] = [writer.header()]
    for i, piece in enumerate(pieces):
        program = (b"\x7f" if i == bad_program else b"\x01") + piece
        parts += writer.chunk(len(piece), zlib.crc32(piece) ^ (i == wrong), 8, program)
    return b"".join([*parts, writer.finish()])


PIECES = [bytes([i]) * 1000 for i in range(20)]


def verdict(archive: bytes, **options: Any) -> tuple[int, type[Exception], int | None]:
    """Count the pieces that come before the fault, and tell it."""
    count = 0
    try:
        for piece in codec.decode_blocks(reader(archive), **options):
            assert piece == PIECES[count]
            count += 1
    except errors.Error as error:
        return count, type(error), error.offset
    raise AssertionError("no fault was found")


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_first_fault_in_reading_order_decides(threads: int) -> None:
    places = [block.offset for block in blocks(raw(*PIECES))]
    good = raw(*PIECES)
    assert verdict(raw(*PIECES, wrong=7), threads=threads) == (7, errors.CorruptError, places[7])
    bad = raw(*PIECES, bad_program=5)
    assert verdict(bad, threads=threads) == (5, errors.UnsupportedError, places[5] + 25)
    cut = places[9] + 100
    assert verdict(good[:cut], threads=threads) == (9, errors.TruncatedError, cut)
    assert verdict(raw(*PIECES, wrong=7)[:cut], threads=threads) == (7, errors.CorruptError, places[7])
    damaged = bytearray(raw(*PIECES, wrong=11, bad_program=12))
    damaged[places[10] + 50] ^= 1
    assert verdict(bytes(damaged), threads=threads) == (10, errors.CorruptError, places[10])
    assert verdict(good + b"rest", threads=threads) == (20, errors.MalformedError, len(good))
    assert verdict(b"", threads=threads) == (0, errors.TruncatedError, 0)


def test_faults_of_the_reader_wait_for_their_turn() -> None:
    read = reader(raw(*PIECES)[:5000])

    def failing(size: int) -> memoryview:
        piece = read(size)
        if not piece:
            raise OSError("the disk is gone")
        return piece

    found = []
    with pytest.raises(OSError, match="disk"):
        for piece in codec.decode_blocks(failing, threads=2):
            found.append(bytes(piece))
    assert found == PIECES[:4]


def test_decodes_into_given_memory() -> None:
    out = bytearray(20_000)
    used = 0

    def into(size: int) -> memoryview:
        nonlocal used
        used += size
        return memoryview(out)[used - size : used]

    for i, piece in enumerate(codec.decode_blocks(reader(raw(*PIECES)), into=into, threads=2)):
        assert piece.obj is out and piece == PIECES[i]
    assert out == b"".join(PIECES)


def test_memory_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="999"):
        decompress(raw(*PIECES), into=lambda size: bytearray(size - 1))


@pytest.mark.parametrize("threads", [1, 2])
def test_limit_is_met_at_its_place(threads: int) -> None:
    left = 3500

    def into(size: int) -> bytearray:
        nonlocal left
        left -= size
        if left < 0:
            raise errors.LimitError("enough")
        return bytearray(size)

    place = blocks(raw(*PIECES))[3].offset
    assert verdict(raw(*PIECES), into=into, threads=threads) == (3, errors.LimitError, place)


def test_short_reads_are_read_on() -> None:
    archive = compress(SAMPLE)
    for most in (1, 1000):
        assert b"".join(codec.decode_blocks(reader(archive, most))) == SAMPLE


def test_asks_for_little_before_bytes_have_come() -> None:
    archive = raw(noise(4 * MIB))
    asked: list[int] = []
    assert b"".join(codec.decode_blocks(reader(archive, None, asked))) == noise(4 * MIB)
    assert asked[2:5] == [MIB, MIB, 2 * MIB]
    asked.clear()
    with pytest.raises(errors.TruncatedError):
        list(codec.decode_blocks(reader(archive[:100], None, asked)))
    assert max(asked) == MIB
    asked.clear()
    list(codec.decode_blocks(reader(archive, None, asked), read_size=None))
    assert asked == [32, 16, 4 * MIB + 14, 16, 15, 16, 40, 32]


def test_reads_no_further_ahead_than_it_must() -> None:
    asked: list[int] = []
    pieces = codec.decode_blocks(reader(raw(*PIECES), None, asked), threads=2)
    next(pieces)
    assert len(asked) <= 1 + 2 * 5
    pieces.close()


@pytest.mark.parametrize("threads", [1, 2])
def test_layouts_are_handed_over(threads: int) -> None:
    archive = compress(SAMPLE) + compress(SAMPLE, chunk_size=8192)
    found: list[Entry] = []
    assert decompress(archive, on_layout=found.extend, threads=threads) == SAMPLE * 2
    assert found == layout(compress(SAMPLE)) * 2


@pytest.mark.parametrize(
    "content, program, kind",
    [
        (b"\0\1", b"\x01\0\1", errors.MalformedError),
        (b"\0\0", b"\x7f", errors.UnsupportedError),
        (b"\0\0", b"\x01", errors.InvalidProgramError),
        (b"\0\0", b"\x01\0\1", errors.CorruptError),
        (b"\0\0", b"\x01\0\0\0", errors.InvalidProgramError),
    ],
)
def test_faults_of_layouts_are_found_by_those_who_look(
    content: bytes, program: bytes, kind: type[errors.Error]
) -> None:
    writer = frame.Writer()
    parts = [writer.header(), *writer.layout(2, zlib.crc32(content), 8, program), writer.finish()]
    archive = b"".join(parts)
    assert decompress(archive) == b""
    with pytest.raises(kind) as caught:
        decompress(archive, on_layout=lambda entries: None)
    assert caught.value.offset == (
        57 if kind in (errors.UnsupportedError, errors.InvalidProgramError) else 32
    ) + (kind is errors.InvalidProgramError)


def test_chunks_can_be_had_by_the_index() -> None:
    archive = compress(SAMPLE, chunk_size=8192)
    (member,) = frame.read_members(lambda offset, size: archive[offset : offset + size], len(archive))
    for place in reversed(member.chunks):
        record = archive[place.offset : place.offset + place.size]
        block = frame.read_block(record, place.offset, member.chunk_log2)
        assert codec.decode_chunk(block) == SAMPLE[place.begin : place.begin + place.content_length]
    later = [b for b in blocks(archive) if b.tag == CHUNK][5:]
    assert b"".join(codec.decode_each(later, threads=2)) == SAMPLE[member.chunks[5].begin :]


def test_a_program_that_fails_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should the encoder ever be wrong: the bytes as they are, and a warning."""
    content = bytes(range(256)) * 64
    wrong = b"\x10\x07"  # all sevens
    monkeypatch.setattr(codec.search.Shape, "encode", lambda self, content: wrong)
    with pytest.warns(RuntimeWarning, match="stored as it is"):
        encoder = codec.Encoder(threads=1, kind=Kind("U8", (64, 256)))
        archive = b"".join([*encoder.write(content), *encoder.finish()])
    assert b"".join(codec.decode_blocks(io.BytesIO(archive).read, threads=1)) == content
