"""The container: what is written reads back, and every rule of section 3 has its class and offset."""

from __future__ import annotations

import pickle
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from brevis import errors, frame
from brevis.frame import CHUNK, FOOTER, INDEX, LAYOUT, METADATA, PAD, Entry

ENTRIES = [
    Entry("a", "BF16", (2, 3), 100, 112),
    Entry("b.é", "", (), 120, 2**40),
    Entry("", "F32", (0, 2**63), 2**40, 2**40),
]
RAW_LAYOUT = frame.write_layout(100, ENTRIES)


def header(
    version: int = 1, chunk_log2: int = 22, reserved: bytes = b"\0\0", must: int = 0, may: int = 0
) -> bytes:
    start = frame.MAGIC + struct.pack("<BB2sQQ", version, chunk_log2, reserved, must, may)
    return start + struct.pack("<I", zlib.crc32(start))


def record(tag: int, body: bytes, length: int | None = None) -> bytes:
    start = b"\xab\x72\xc6" + struct.pack("<BQ", tag, len(body) if length is None else length)
    return start + struct.pack("<I", zlib.crc32(start)) + body + struct.pack("<I", zlib.crc32(body))


def block(length: int = 5, width: int = 8, program: bytes = b"\x01hello", crc: int = 0x3610A686) -> bytes:
    return struct.pack("<IIB", length, crc, width) + program


def member(*records: bytes, chunk_log2: int = 22) -> bytes:
    """A member of any skippable records and good chunks, with the index and the footer that they demand."""
    head = header(chunk_log2=chunk_log2)
    lists, ends = {CHUNK: b"", LAYOUT: b""}, {CHUNK: 32, LAYOUT: 32}
    counts = {CHUNK: 0, LAYOUT: 0}
    position, content, crcs = 32, 0, b""
    for item in records:
        if (tag := item[3]) in lists:
            lists[tag] += frame.varint(position - ends[tag]) + frame.varint(len(item))
            ends[tag] = position + len(item)
            counts[tag] += 1
        if tag == CHUNK:
            length = int.from_bytes(item[16:20], "little")
            lists[tag] += frame.varint(length)
            content += length
            crcs += item[20:24]
        position += len(item)
    index = record(INDEX, b"".join(frame.varint(counts[tag]) + lists[tag] for tag in lists))
    size = position + len(index) + 56
    footer = struct.pack("<QQQQI", size, content, counts[CHUNK], position, zlib.crc32(crcs))
    return head + b"".join(records) + index + record(FOOTER, footer)


def events(archive: bytes, asked: list[int] | None = None) -> Iterator[Any]:
    """Drive the parser from memory."""
    parser = frame.parse()
    position, answer = 0, None
    while True:
        try:
            item = parser.send(answer)  # type: ignore[arg-type]
        except StopIteration:
            return
        answer = None
        if isinstance(item, int):
            if asked is not None:
                asked.append(item)
            answer = archive[position : position + item]
            position += len(answer)
        else:
            yield item


def walk(archive: bytes) -> list[frame.Member]:
    """Read the members from memory, backwards."""
    return frame.read_members(lambda offset, size: archive[offset : offset + size], len(archive))


def refused(archive: bytes, kind: type[errors.Error], offset: int) -> None:
    with pytest.raises(errors.Error) as caught:
        list(events(archive))
    assert (caught.type, caught.value.offset) == (kind, offset), caught.value


def sample() -> bytes:
    """A member with a record of every kind."""
    return member(
        record(METADATA, b"\x06source\x03abc"),
        record(LAYOUT, block(len(RAW_LAYOUT), 8, b"\x01" + RAW_LAYOUT, zlib.crc32(RAW_LAYOUT))),
        record(CHUNK, block()),
        record(0xE7, b"from the future"),
        record(PAD, bytes(40)),
        record(CHUNK, block(2, 16, b"\x01ab", zlib.crc32(b"ab"))),
        record(LAYOUT, block(2, 8, b"\x01\0\0", zlib.crc32(b"\0\0"))),
    )


# Writing and reading


def test_parts_come_in_order_with_their_places() -> None:
    archive = sample()
    start, metadata, layout, first, second, empty, end = events(archive)
    assert start == (0, 22)
    assert metadata == {"source": b"abc"}
    assert (layout.tag, layout.width, bytes(layout.program)) == (LAYOUT, 8, b"\x01" + RAW_LAYOUT)
    assert (first.tag, first.content_length, first.width, bytes(first.program)) == (CHUNK, 5, 8, b"\x01hello")
    assert (second.content_length, second.width, second.content_crc) == (2, 16, zlib.crc32(b"ab"))
    assert empty.tag == LAYOUT
    for item in (layout, first, second, empty):
        assert archive[item.offset : item.offset + 4] == bytes([0xAB, 0x72, 0xC6, item.tag])
        assert archive[item.program_offset :].startswith(bytes(item.program))
        assert archive[item.offset + item.size :].startswith(b"\xab\x72\xc6")
        assert frame.read_block(archive[item.offset : item.offset + item.size], item.offset, 22) == item
    assert end == (0, len(archive), 7)


def test_writer_writes_what_the_format_says() -> None:
    writer = frame.Writer()
    parts: list[frame.Buffer] = [writer.header(), writer.metadata({"source": b"abc"})]
    parts += writer.layout(len(RAW_LAYOUT), zlib.crc32(RAW_LAYOUT), 8, b"\x01" + RAW_LAYOUT)
    program = memoryview(b"\x01hello")
    chunk = writer.chunk(5, 0x3610A686, 8, program)
    assert any(part is program for part in chunk)
    parts += [*chunk, writer.finish()]
    assert b"".join(parts) == member(
        record(METADATA, b"\x06source\x03abc"),
        record(LAYOUT, block(len(RAW_LAYOUT), 8, b"\x01" + RAW_LAYOUT, zlib.crc32(RAW_LAYOUT))),
        record(CHUNK, block()),
    )


def test_writer_sorts_metadata() -> None:
    pairs = {"é": b"1", "z": b"2", "": b"3", "aa": b"4", "a": b"5"}
    written = frame.Writer().metadata(pairs)
    assert next(e for e in events(member(written)) if isinstance(e, frame.Metadata)) == pairs


@pytest.mark.parametrize("length", [0, 4097])
def test_writer_refuses_chunks_outside_the_format(length: int) -> None:
    with pytest.raises(ValueError, match="content"):
        frame.Writer(12).chunk(length, 0, 8, b"\x01")
    with pytest.raises(ValueError, match="bytes"):
        frame.Writer(12).chunk(1, 0, 8, bytes(80_000))


def test_members_follow_each_other() -> None:
    one, two = sample(), member(chunk_log2=12)
    found = [e for e in events(one + two + one) if isinstance(e, frame.MemberStart | frame.MemberEnd)]
    assert [e.offset for e in found] == [0, 0, len(one), len(one), len(one + two), len(one + two)]
    refused(one + two + b"x", errors.MalformedError, len(one + two))
    refused(one + two + frame.MAGIC, errors.TruncatedError, len(one + two) + 8)


def test_walks_members_backwards() -> None:
    archive = sample() + member() + sample()
    read: list[tuple[int, int]] = []

    def read_at(offset: int, size: int) -> bytes:
        read.append((offset, size))
        return archive[offset : offset + size]

    members = frame.read_members(read_at, len(archive))
    assert [(m.offset, m.size, m.begin, m.content_length) for m in members] == [
        (0, len(sample()), 0, 7),
        (len(sample()), len(member()), 7, 0),
        (len(sample() + member()), len(sample()), 7, 7),
    ]
    blocks = [e for e in events(archive) if isinstance(e, frame.Block)]
    places = [p for m in members for p in m.chunks]
    assert [(p.offset, p.size, p.content_length) for p in places] == [
        (b.offset, b.size, b.content_length) for b in blocks if b.tag == CHUNK
    ]
    assert [p.begin for p in places] == [0, 5, 0, 5]
    assert [p.offset for m in members for p in m.layouts] == [b.offset for b in blocks if b.tag == LAYOUT]
    assert sum(size for _, size in read) < 700


def test_backward_walk_refuses_damage_anywhere_it_reads() -> None:
    archive = sample()
    index = next(i for i in range(len(archive)) if archive[i : i + 4] == b"\xab\x72\xc6\x02")
    for i in [*range(32), *range(index, len(archive))]:
        damaged = bytearray(archive)
        damaged[i] ^= 0x10
        with pytest.raises(errors.Error):
            walk(bytes(damaged))
    for cut in range(len(archive)):
        with pytest.raises(errors.Error):
            walk(archive[:cut])


@pytest.mark.parametrize(
    "index",
    [
        b"\1\0\x1e\5\0\0",  # something behind
        b"\1\0\x1d\5\0",  # a record smaller than any
        b"\1\0\x40\5\0",  # ends behind the index
        b"\1\0\x1f\6\0",  # another length of content than in the footer
        b"\2\0\x1f\5\0",  # more chunks than listed
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\1" + b"\0\x1f\5\0",
    ],
)
def test_backward_walk_refuses_an_index_that_lies(index: bytes) -> None:
    chunk, listed = record(CHUNK, block()), record(INDEX, index)
    size = 32 + len(chunk + listed) + 56
    footer = struct.pack("<QQQQI", size, 5, 1, 32 + len(chunk), 0)
    archive = header() + chunk + listed + record(FOOTER, footer)
    with pytest.raises(errors.MalformedError) as caught:
        walk(archive)
    assert caught.value.offset == 32 + len(chunk)


# Faults, one rule after the other


def test_cut_at_every_byte() -> None:
    archive = sample()
    for cut in range(len(archive)):
        refused(archive[:cut], errors.TruncatedError, cut)


def test_finds_a_changed_bit_anywhere() -> None:
    archive = sample()
    spans = [(e.offset, e.size) for e in events(archive) if isinstance(e, frame.Block)]
    for i in range(len(archive)):
        damaged = bytearray(archive)
        damaged[i] ^= 1 << i % 8
        with pytest.raises(errors.Error) as caught:
            list(events(bytes(damaged)))
        assert caught.value.offset is not None and caught.value.offset <= i
        if span := next((s for s in spans if s[0] <= i < sum(s)), None):
            assert caught.type is (errors.MalformedError if i < span[0] + 3 else errors.CorruptError)
            assert caught.value.offset == span[0]


HEADER_RULES: list[tuple[str, bytes, type[errors.Error], int]] = [
    ("H1", b"\x88", errors.MalformedError, 0),
    ("H1 before H2", b"\x89BRv", errors.MalformedError, 0),
    ("H1 before H3", b"x" + header()[1:], errors.MalformedError, 0),
    ("H2", header()[:31], errors.TruncatedError, 31),
    ("H2 before H3", b"\x89BRV\r\n\x1a\n" + b"x" * 23, errors.TruncatedError, 31),
    ("H3", header()[:31] + b"x", errors.CorruptError, 0),
    ("H3 before H4", header(version=2)[:28] + header()[28:], errors.CorruptError, 0),
    ("H4", header(version=2), errors.UnsupportedError, 0),
    ("H4 before H6", header(version=0, chunk_log2=0), errors.UnsupportedError, 0),
    ("H5", header(must=1 << 63), errors.UnsupportedError, 0),
    ("H5 before H6", header(must=1, reserved=b"\1\0"), errors.UnsupportedError, 0),
    ("H6 reserved", header(reserved=b"\0\1"), errors.MalformedError, 0),
    ("H6 small", header(chunk_log2=11), errors.MalformedError, 0),
    ("H6 large", header(chunk_log2=25), errors.MalformedError, 0),
    ("H7", b"", errors.TruncatedError, 0),
    ("may-ignore bits are ignored", header(may=2**64 - 1), errors.TruncatedError, 32),
    ("extremes of c", header(chunk_log2=24), errors.TruncatedError, 32),
]


@pytest.mark.parametrize("archive, kind, offset", [pytest.param(*r[1:], id=r[0]) for r in HEADER_RULES])
def test_header_rule(archive: bytes, kind: type[errors.Error], offset: int) -> None:
    refused(archive, kind, offset)
    if archive:
        refused(member() + archive, kind, len(member()) + offset)


def bad_crc(good: bytes, at: int) -> bytes:
    return good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]


GOOD = record(CHUNK, block())
EMPTY_INDEX = record(INDEX, b"\0\0")
RECORD_RULES: list[tuple[str, bytes, type[errors.Error], int]] = [
    ("R1", b"\xab\x73", errors.MalformedError, 0),
    ("R1 before R3", b"\xab\x72\xc7" + bytes(13), errors.MalformedError, 0),
    ("R2", GOOD[:15], errors.TruncatedError, 15),
    ("R3", bad_crc(GOOD, 4), errors.CorruptError, 0),
    ("R3 before R4", bad_crc(record(0x7F, b""), 15), errors.CorruptError, 0),
    ("R4", record(0x7F, b""), errors.UnsupportedError, 0),
    ("R4 zero", record(0x00, b""), errors.UnsupportedError, 0),
    ("R4 before R6", record(0x04, b"", 2**64 - 1), errors.UnsupportedError, 0),
    ("R4 skips, checks length", record(0x80, b"", 2**64 - 1), errors.TruncatedError, 20),
    ("R4 skips, checks CRC", bad_crc(record(0xFF, bytes(99)), 50), errors.CorruptError, 0),
    ("R5 chunk short", record(CHUNK, bytes(9)), errors.MalformedError, 0),
    ("R5 chunk long", record(CHUNK, b"", (2 << 12) + 65_537), errors.MalformedError, 0),
    ("R5 chunk longest", record(CHUNK, b"", (2 << 12) + 65_536), errors.TruncatedError, 20),
    ("R5 layout", record(LAYOUT, b"", 2**64 - 1), errors.MalformedError, 0),
    ("R5 metadata", record(METADATA, b"", 2**24 + 1), errors.MalformedError, 0),
    ("R5 pad", record(PAD, b"", 2**24 + 1), errors.MalformedError, 0),
    ("R5 pad longest", record(PAD, b"", 2**24), errors.TruncatedError, 20),
    ("R5 footer", EMPTY_INDEX + record(FOOTER, bytes(37)), errors.MalformedError, 22),
    ("R5 footer before R8", record(FOOTER, b"", 35), errors.MalformedError, 0),
    ("R5 index", record(INDEX, b"", 2**60), errors.MalformedError, 0),
    ("R6", GOOD[:-1], errors.TruncatedError, len(GOOD) - 1),
    ("R6 no body", GOOD[:16], errors.TruncatedError, 16),
    ("R7", bad_crc(GOOD, len(GOOD) - 1), errors.CorruptError, 0),
    ("R7 before K1", bad_crc(record(CHUNK, block(0)), 30), errors.CorruptError, 0),
    ("R7 before R8", EMPTY_INDEX + bad_crc(GOOD, 20), errors.CorruptError, 22),
    ("R7 before M2", bad_crc(record(PAD, b"x"), 20), errors.CorruptError, 0),
    ("R8 chunk", EMPTY_INDEX + GOOD, errors.MalformedError, 22),
    ("R8 unknown", EMPTY_INDEX + record(0x99, b""), errors.MalformedError, 22),
    ("R8 index", EMPTY_INDEX + EMPTY_INDEX, errors.MalformedError, 22),
    ("R8 footer", record(FOOTER, bytes(36)), errors.MalformedError, 0),
    ("K1 empty", record(CHUNK, block(0)), errors.MalformedError, 0),
    ("K1 large", record(CHUNK, block(4097)), errors.MalformedError, 0),
    ("K1 width 0", record(CHUNK, block(8, 0)), errors.MalformedError, 0),
    ("K1 width 65", record(CHUNK, block(65, 65)), errors.MalformedError, 0),
    ("K1 part of a word", record(CHUNK, block(5, 16)), errors.MalformedError, 0),
    ("L1 width", record(LAYOUT, block(4, 16)), errors.MalformedError, 0),
    ("K1 layout", record(LAYOUT, block(4097)), errors.MalformedError, 0),
    ("M1 order", record(METADATA, b"\1b\0\1a\0"), errors.MalformedError, 0),
    ("M1 twice", record(METADATA, b"\1a\0\1a\0"), errors.MalformedError, 0),
    ("M1 UTF-8", record(METADATA, b"\1\xff\0"), errors.MalformedError, 0),
    ("M1 surrogate", record(METADATA, b"\3\xed\xa0\x80\0"), errors.MalformedError, 0),
    ("M1 no value", record(METADATA, b"\1a"), errors.MalformedError, 0),
    ("M1 cut", record(METADATA, b"\1a\2x"), errors.MalformedError, 0),
    ("M1 varint", record(METADATA, b"\x81\0a\0"), errors.MalformedError, 0),
    ("M2", record(PAD, bytes(7) + b"\1"), errors.MalformedError, 0),
    ("I1", record(INDEX, b"\0\1"), errors.MalformedError, 0),
    ("I1 chunk", GOOD + record(INDEX, b"\1\0\x24\5\0"), errors.MalformedError, len(GOOD)),
    ("F1", EMPTY_INDEX + record(FOOTER, bytes(36)), errors.MalformedError, 22),
]


@pytest.mark.parametrize("rest, kind, offset", [pytest.param(*r[1:], id=r[0]) for r in RECORD_RULES])
def test_record_rule(rest: bytes, kind: type[errors.Error], offset: int) -> None:
    refused(header(chunk_log2=12) + rest, kind, 32 + offset)


@pytest.mark.parametrize("field", range(5))
def test_footer_rule_holds_for_every_field(field: int) -> None:
    archive = member(record(CHUNK, block()))
    values = list(struct.unpack("<QQQQI", archive[-40:-4]))
    values[field] += 1
    forged = archive[:-56] + record(FOOTER, struct.pack("<QQQQI", *values))
    refused(forged, errors.MalformedError, len(archive) - 56)


def test_layouts_are_smaller_than_the_largest_chunks() -> None:
    for length, kind in ((2**20, errors.TruncatedError), (2**20 + 1, errors.MalformedError)):
        archive = header() + record(LAYOUT, block(length))
        refused(archive, kind, len(archive) if kind is errors.TruncatedError else 32)
    with pytest.raises(ValueError, match="content"):
        frame.Writer().layout(2**20 + 1, 0, 8, b"\x01")


def test_asks_for_no_more_than_it_may() -> None:
    asked: list[int] = []
    with pytest.raises(errors.TruncatedError):
        list(events(header() + record(0x80, b"", 2**64 - 1), asked))
    assert max(asked) <= 1 << 20
    asked.clear()
    with pytest.raises(errors.MalformedError):
        list(events(header() + record(CHUNK, b"", 2**40), asked))
    assert asked == [32, 16]
    archive = member(record(0x80, bytes(3 << 20)), record(PAD, bytes(3 << 20)))
    asked.clear()
    list(events(archive, asked))
    assert max(asked) <= 1 << 20 and sum(asked) == len(archive) + 32


@pytest.mark.parametrize(
    "change, kind",
    [
        (lambda good: good[:-1], errors.TruncatedError),
        (lambda good: bad_crc(good, 30), errors.CorruptError),
        (lambda good: record(PAD, b""), errors.MalformedError),
        (lambda good: good + b"x", errors.MalformedError),
        (lambda good: record(CHUNK, block(0)), errors.MalformedError),
    ],
)
def test_block_by_index_is_checked(change: Callable[[bytes], bytes], kind: type[errors.Error]) -> None:
    wanted = change(GOOD)
    with pytest.raises(kind) as caught:
        frame.read_block(wanted, 77, 22)
    assert caught.value.offset == (77 + len(wanted) if kind is errors.TruncatedError else 77)


# Numbers and layouts


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**32, 2**63 - 1, 2**63, 2**64 - 1])
def test_varint_reads_back(value: int) -> None:
    written = frame.varint(value)
    assert frame.read_layout(written + b"\0", 0) == []
    assert frame.read_layout(b"\0\1\0\0\0\0\1" + written, 0)[0].shape == (value,)


@pytest.mark.parametrize(
    "written",
    [b"", b"\x80", b"\x80\0", b"\xff\0", b"\x80" * 9 + b"\2", b"\x80" * 9 + b"\x81\0", b"\x80" * 10 + b"\1"],
)
def test_rejects_overlong_varint(written: bytes) -> None:
    with pytest.raises(errors.MalformedError):
        frame.read_layout(written + (b"\0" if len(written) > 1 else b""), 0)


def test_layout_reads_back() -> None:
    assert frame.read_layout(RAW_LAYOUT, 0) == ENTRIES
    many = [Entry(f"layer.{i}", "F32", (i, 4), 16 * i, 16 * i + 16) for i in range(1000)]
    assert frame.read_layout(frame.write_layout(0, many), 0) == many


def test_layout_cut_at_every_byte() -> None:
    for cut in range(len(RAW_LAYOUT)):
        with pytest.raises(errors.MalformedError) as caught:
            frame.read_layout(RAW_LAYOUT[:cut], 99)
        assert caught.value.offset == 99


HUGE = frame.varint(2**64 - 1)
LAYOUT_RULES = {
    "left over": RAW_LAYOUT + b"\0",
    "begin": HUGE + b"\1" + b"\1\0" + b"\0\0\0",
    "end": b"\0\1" + HUGE + b"\1" + b"\0\0\0",
    "second end": b"\0\2" + HUGE + b"\0\0\0\0" + b"\1\0\0\0\0",
    "name not UTF-8": b"\0\1\0\0\1\xff\0\0",
    "name too long": b"\0\1\0\0" + frame.varint(65_536) + b"a" * 65_536 + b"\0\0",
    "dtype not ASCII": b"\0\1\0\0\0\2\xc3\xa9\0",
    "dtype too long": b"\0\1\0\0\0" + frame.varint(256) + b"a" * 256 + b"\0",
    "rank": b"\0\1\0\0\0\0" + frame.varint(256) + b"\1" * 256,
    "count": b"\0" + HUGE + b"\0\0\0\0\0",
}


@pytest.mark.parametrize("content", LAYOUT_RULES.values(), ids=LAYOUT_RULES.keys())
def test_layout_rule(content: bytes) -> None:
    with pytest.raises(errors.MalformedError):
        frame.read_layout(content, 0)


def test_layout_accepts_its_limits() -> None:
    (entry,) = frame.read_layout(
        b"\0\1" + HUGE + b"\0" + frame.varint(65_535) + b"a" * 65_535 + frame.varint(255) + b"b" * 255
        + frame.varint(255) + b"\1" * 255,
        0,
    )  # fmt: skip
    assert (entry.begin, entry.end, len(entry.name), len(entry.dtype), len(entry.shape)) == (
        2**64 - 1, 2**64 - 1, 65_535, 255, 255,
    )  # fmt: skip


# Errors


@pytest.mark.parametrize(
    "kind, base",
    [
        (errors.MalformedError, ValueError),
        (errors.TruncatedError, EOFError),
        (errors.CorruptError, ValueError),
        (errors.UnsupportedError, ValueError),
        (errors.InvalidProgramError, ValueError),
        (errors.LimitError, ValueError),
    ],
)
def test_errors_tell_their_place_and_can_be_pickled(kind: type[errors.Error], base: type[Exception]) -> None:
    error = kind("bad", 7)
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(error, base) and isinstance(error, errors.Error)
    assert (type(again), again.offset, str(again)) == (kind, 7, "bad (at byte 7)")
    assert (str(kind("bad")), kind("bad").offset) == ("bad", None)
