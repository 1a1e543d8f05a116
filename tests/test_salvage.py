"""Salvage: every chunk that's intact comes out, in its place where that's known, and every loss is told."""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Fixtures and helpers of the command's own tests.
from test_cli import brevis, files, in_folder, make  # noqa: F401

from brevis import errors, file
from brevis.codec import Encoder
from brevis.frame import RECORD_HEADER_SIZE
from brevis.reader import Source
from brevis.salvage import Gap, salvage

CHUNK_SIZE = 4096
NOISE = random.Random(5).randbytes(40_000)
TEXT = b"".join(b"line %d of %d\n" % (i, i * i) for i in range(2000))


def archive_of(*contents: bytes) -> bytes:
    parts: list[Any] = []
    for content in contents:
        encoder = Encoder(chunk_size=CHUNK_SIZE, threads=1)
        parts += [*encoder.write(content), *encoder.finish()]
    return b"".join(parts)


def pieces(archive: bytes) -> tuple[bytes, list[Gap]]:
    """Return what the command would write, and the gaps."""
    content, gaps = b"", []
    for piece in salvage(Source(io.BytesIO(archive))):
        if isinstance(piece, Gap):
            gaps.append(piece)
            content += bytes(piece.length or 0)
        else:
            content += piece
    return content, gaps


def places(archive: bytes) -> Iterator[Any]:
    return (place for member in Source(io.BytesIO(archive)).members() for place in member.chunks)


def blanked(content: bytes, begin: int, end: int) -> bytes:
    return content[:begin] + bytes(end - begin) + content[end:]


def test_a_sound_archive_comes_out_whole() -> None:
    assert pieces(archive_of(TEXT)) == (TEXT, [])
    assert pieces(archive_of(TEXT, b"", NOISE)) == (TEXT + NOISE, [])
    assert pieces(archive_of(b"")) == (b"", [])


@pytest.mark.parametrize("where", ["header", "body", "end"])
def test_a_damaged_chunk_is_zeros(where: str) -> None:
    content = NOISE
    for number, place in enumerate(places(archive := archive_of(content))):
        broken = bytearray(archive)
        broken[place.offset + {"header": 5, "body": 100, "end": place.size - 1}[where]] ^= 1
        got, gaps = pieces(bytes(broken))
        assert got == blanked(content, place.begin, place.begin + place.content_length), number
        assert [(gap.offset, gap.begin, gap.length) for gap in gaps] == [
            (place.offset, place.begin, place.content_length)
        ]


def test_neighbours_are_one_gap() -> None:
    archive = bytearray(archive_of(NOISE))
    spots = list(places(archive))
    for place in spots[2:5]:
        archive[place.offset + 50] ^= 1
    got, gaps = pieces(bytes(archive))
    assert got == blanked(NOISE, spots[2].begin, spots[5].begin)
    assert [(gap.begin, gap.length) for gap in gaps] == [(spots[2].begin, spots[5].begin - spots[2].begin)]


@pytest.mark.parametrize("change", [-3000, -100, -1, 1, 77, 3000])
def test_lost_and_added_bytes_leave_the_rest_in_its_place(change: int) -> None:
    archive = archive_of(NOISE)
    for place in places(archive):
        middle = place.offset + 50
        broken = archive[:middle] + bytes(max(change, 0)) + archive[middle - min(change, 0) :]
        got, gaps = pieces(broken)
        assert len(got) == len(NOISE)
        same = [got[p.begin : p.begin + 4096] == NOISE[p.begin : p.begin + 4096] for p in places(archive)]
        assert same.count(False) == 1
        assert gaps[0].length == 0 and sum(gap.length or 0 for gap in gaps) == place.content_length


def test_a_cut_archive_gives_its_whole_chunks() -> None:
    archive = archive_of(NOISE)
    spots = list(places(archive))
    for cut in range(spots[0].offset + spots[0].size, len(archive), 997):
        got, gaps = pieces(archive[:cut])
        count = sum(place.offset + place.size <= cut for place in spots)
        assert got == NOISE[: spots[count].begin if count < len(spots) else None]
        assert gaps[-1].length in (None, 0)


def test_a_lost_beginning() -> None:
    archive = archive_of(NOISE)
    got, _ = pieces(bytes(1000) + archive[1000:])
    assert got == blanked(NOISE, 0, 4096)
    got, gaps = pieces(bytes(32) + archive[32:])
    assert got == NOISE
    assert [gap.length for gap in gaps] == [0]
    got, gaps = pieces(archive[1000:])
    assert got == blanked(NOISE, 0, 4096)


def test_a_damaged_index_or_footer_costs_no_chunk() -> None:
    archive = archive_of(NOISE)
    for place in (len(archive) - 100, len(archive) - 20):
        broken = bytearray(archive)
        broken[place] ^= 1
        got, gaps = pieces(bytes(broken))
        assert got == NOISE
        assert gaps


def test_members_are_apart() -> None:
    one, two, three = archive_of(NOISE[:20_000]), archive_of(TEXT), archive_of(NOISE[20_000:])
    got, gaps = pieces(one + b"garbage between" + two + three)
    assert got == NOISE[:20_000] + TEXT + NOISE[20_000:]
    assert [gap.length for gap in gaps] == [0, None]
    # The end of the first and the beginning of the second are lost.
    got, gaps = pieces(one[:-500] + two[500:])
    assert got.startswith(NOISE[:12_000]) and got.endswith(TEXT[4096:])
    got, gaps = pieces(one + two[:-10])
    assert got == NOISE[:20_000] + TEXT


def test_nothing_intact_is_an_error() -> None:
    for nothing in (b"", b"x" * 1000, random.Random(1).randbytes(100_000), archive_of(NOISE)[:500]):
        with pytest.raises(errors.Error):
            pieces(nothing)


@pytest.mark.parametrize("seed", range(40))
def test_any_damage_gives_only_right_chunks(seed: int) -> None:
    """Whatever happens to an archive, each block of the content that comes out is one of the original's."""
    rng = random.Random(seed)
    archive = bytearray(archive_of(NOISE, TEXT))
    for _ in range(rng.randrange(1, 6)):
        place, size = rng.randrange(len(archive)), rng.choice([1, 30, 500, 6000])
        kind = rng.randrange(3)
        if kind == 0:
            archive[place : place + size] = rng.randbytes(len(archive[place : place + size]))
        elif kind == 1:
            del archive[place : place + size]
        else:
            archive[place:place] = rng.randbytes(size)
    blocks = {bytes(c[i : i + 4096]) for c in (NOISE, TEXT) for i in range(0, len(c), 4096)}
    try:
        found = [bytes(p) for p in salvage(Source(io.BytesIO(archive))) if not isinstance(p, Gap)]
    except errors.Error:
        return
    assert set(found) <= blocks
    assert len(found) == len(set(found))
    # No chunk is overlooked whose record stands there as it was written.
    whole = archive_of(NOISE, TEXT)
    stands = sum(bytes(whole[p.offset : p.offset + p.size]) in archive for p in places(whole))
    assert len(found) == stands


# The command


def checkpoint() -> bytes:
    header = {
        f"layer{i}": {"dtype": "U8", "shape": [100_000], "data_offsets": [i * 100_000, (i + 1) * 100_000]}
        for i in range(4)
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + random.Random(3).randbytes(400_000)


def test_the_command_tells_what_is_lost() -> None:
    content = checkpoint()
    archive = bytearray(file.compress(content))
    spots = list(places(archive))
    hurt = spots[2]
    archive[hurt.offset + RECORD_HEADER_SIZE + 1000] ^= 1
    make("model.brv", archive)
    done = brevis("--salvage", "model.brv")
    assert (done.status, done.out) == (2, b"")
    end = hurt.begin + hurt.content_length
    assert done.err.startswith(
        f"brevis: model.brv: bytes {hurt.begin} to {end - 1} of the content are lost and left as zeros, "
        "in layer1: "
    )
    assert done.err.count("\n") == 1
    assert Path("model").read_bytes() == blanked(content, hurt.begin, end)
    assert brevis("--salvage", "model.brv").status == 1  # the target exists
    assert brevis("-f", "--salvage", "--rm", "-q", "model.brv").status == 2
    assert Path("model.brv").exists()
    for arguments, given in ((["--salvage", "-c", "model.brv"], None), (["--salvage"], bytes(archive))):
        done = brevis(*arguments, given=given)
        assert (done.status, done.out) == (2, blanked(content, hurt.begin, end))
    done = brevis("-t", "--salvage", "model.brv")
    assert done.status == 2 and "layer1" in done.err
    make("sound.brv", file.compress(content))
    assert vars(brevis("--salvage", "sound.brv")) == {"status": 0, "out": b"", "err": ""}
    assert Path("sound").read_bytes() == content


def test_the_command_leaves_nothing_where_nothing_is_intact() -> None:
    make("a.brv", b"nothing of an archive")
    make("b.brv", b"")
    done = brevis("--salvage", "a.brv", "b.brv")
    assert done.status == 1
    assert files().keys() == {"a.brv", "b.brv"}
