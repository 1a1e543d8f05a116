"""The container: header, records, index, footer and their checksums (FORMAT.md, section 3).

It may assume nothing of the bytes that it is given: all are checked, in the order and with the class and
offset that the specification demands. It does not know what a program means, nor where bytes come from or go.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from struct import Struct
from typing import NamedTuple, NoReturn, TypeAlias

from zlib_ng.zlib_ng import crc32 as crc32  # chosen here once: other rooms take it from this one

from brevis.errors import CorruptError, MalformedError, TruncatedError, UnsupportedError

Buffer: TypeAlias = "bytes | bytearray | memoryview"

MAGIC = b"\x89BRV\r\n\x1a\n"
VERSION = 1
MIN_CHUNK_LOG2, MAX_CHUNK_LOG2 = 12, 24
SYNC = b"\xab\x72\xc6"

CHUNK, INDEX, FOOTER, LAYOUT, METADATA, PAD = 0x01, 0x02, 0x03, 0x81, 0x82, 0x83
SKIPPABLE = 0x80  # the bit of a tag that lets a decoder skip a record that it does not know

_HEADER = Struct("<8sBB2sQQ")
_RECORD = Struct("<3sBQ")
_BLOCK = Struct("<IIB")
_FOOTER = Struct("<QQQQI")
_U32 = Struct("<I")

HEADER_SIZE = _HEADER.size + 4
RECORD_HEADER_SIZE = _RECORD.size + 4
RECORD_OVERHEAD = RECORD_HEADER_SIZE + 4
FOOTER_SIZE = RECORD_OVERHEAD + _FOOTER.size
MIN_INDEX_SIZE = RECORD_OVERHEAD + 2

MIN_BLOCK_LENGTH = _BLOCK.size + 1
MAX_LAYOUT_CONTENT = 1 << 20
MAX_NOTE_LENGTH = 1 << 24  # of a metadata or pad record's body
MAX_NAME_SIZE = 65_535
MAX_DTYPE_SIZE = 255
MAX_RANK = 255
MAX_U64 = (1 << 64) - 1

SKIM_SIZE = 1 << 20  # skipped bodies may be of any length, so they pass through in pieces of this size

_DAMAGED = "the file was damaged, so fetch it again or restore a copy"
_SHORT = "it was cut short, so fetch it again"
_LATER = "get a later version of brevis"
_FOREIGN = "this is something else, or bytes were lost or added"
_WRITER = "its checksum is right, so whatever wrote it is at fault"


# What is in an archive


class MemberStart(NamedTuple):
    """A member's header was read; no chunk of it has more than 2^chunk_log2 bytes."""

    offset: int
    chunk_log2: int


class Block(NamedTuple):
    """A chunk or layout record whose stored bytes are sound; its program is not looked at yet."""

    tag: int
    offset: int
    size: int
    content_length: int
    content_crc: int
    width: int
    program: memoryview

    @property
    def program_offset(self) -> int:
        """Where in the archive the program's code begins."""
        return self.offset + RECORD_HEADER_SIZE + _BLOCK.size


class Metadata(dict[str, bytes]):
    """The pairs of a metadata record."""


class MemberEnd(NamedTuple):
    """A member's footer was read and agrees with everything before it."""

    offset: int
    size: int
    content_length: int


class Entry(NamedTuple):
    """A name for the bytes [begin, end) of a member's content."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


Event: TypeAlias = "MemberStart | Block | Metadata | MemberEnd"
Parser: TypeAlias = "Generator[int | Event, Buffer, None]"


# varint


def varint(value: int) -> bytes:
    """Write `value` in the shortest form [V1]."""
    if value < 0x80:
        return value.to_bytes(1, "little")
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


class _Cursor:
    """Reads varints and texts out of a record's content; all that is wrong there is the record's fault."""

    def __init__(self, data: Buffer, offset: int, what: str) -> None:
        self.data = bytes(data)
        self.position = 0
        self.offset = offset
        self.what = what

    def fail(self, found: str) -> NoReturn:
        raise MalformedError(f"{found} in the {self.what}: {_WRITER}", self.offset)

    def more(self) -> bool:
        return self.position < len(self.data)

    def varint(self) -> int:
        """Read a varint [V1]."""
        value = 0
        for shift in range(0, 70, 7):
            if self.position == len(self.data):
                break
            group = self.data[self.position]
            self.position += 1
            value |= (group & 0x7F) << shift
            if group < 0x80:
                if (group or not shift) and value <= MAX_U64:
                    return value
                break
        self.fail("a number that is cut short, too large or not in the shortest form")

    def text(self, limit: int = MAX_U64) -> bytes:
        """Read a size and as many bytes."""
        size = self.varint()
        if size > limit:
            self.fail(f"a text of {size} bytes where {limit} are allowed")
        if size > len(self.data) - self.position:
            self.fail("a text that is cut short")
        self.position += size
        return self.data[self.position - size : self.position]

    def string(self, encoding: str, limit: int = MAX_U64) -> str:
        """Read a text of characters."""
        try:
            return self.text(limit).decode(encoding)
        except UnicodeDecodeError:
            self.fail(f"a text that is not {encoding}")


# The parts of a member, one check after the other


def check_header(data: Buffer, offset: int) -> int:
    """Check a member's header [H1 to H7] and return the log2 of its largest chunk."""
    data = bytes(data)
    if data[: len(MAGIC)] != MAGIC[: len(data)]:
        raise MalformedError(f"{data[:8].hex(' ')} is not the start of an archive: {_FOREIGN}", offset)
    if len(data) < HEADER_SIZE:
        raise TruncatedError(f"the archive ends inside a header: {_SHORT}", offset + len(data))
    if crc32(data[: _HEADER.size]) != _U32.unpack_from(data, _HEADER.size)[0]:
        raise CorruptError(f"the checksum of a header is wrong: {_DAMAGED}", offset)
    _, version, chunk_log2, reserved, must, _may = _HEADER.unpack_from(data)
    if version != VERSION:
        raise UnsupportedError(f"the archive has version {version} of the format: {_LATER}", offset)
    if must:
        raise UnsupportedError(f"the archive needs the unknown features {must:#x}: {_LATER}", offset)
    if any(reserved) or not MIN_CHUNK_LOG2 <= chunk_log2 <= MAX_CHUNK_LOG2:
        raise MalformedError(f"a header breaks the rules: {_WRITER}", offset)
    return int(chunk_log2)


def _lengths(tag: int, chunk_log2: int) -> range:
    """Tell the body lengths that [R5] allows; those of an index are known only from what it lists."""
    if tag in (CHUNK, LAYOUT):
        return range(MIN_BLOCK_LENGTH, (2 << chunk_log2) + 65_536 + 1)
    if tag == FOOTER:
        return range(_FOOTER.size, _FOOTER.size + 1)
    if tag in (METADATA, PAD):
        return range(MAX_NOTE_LENGTH + 1)
    return range(MAX_U64 + 1)


def check_record_header(data: Buffer, offset: int, chunk_log2: int) -> tuple[int, int]:
    """Check a record's header [R1 to R5] and return the tag and the length of the body."""
    data = bytes(data)
    if data[: len(SYNC)] != SYNC[: len(data)]:
        raise MalformedError(f"{data[:3].hex(' ')} is not the start of a record: {_FOREIGN}", offset)
    if len(data) < RECORD_HEADER_SIZE:
        raise TruncatedError(f"the archive ends before its footer: {_SHORT}", offset + len(data))
    if crc32(data[: _RECORD.size]) != _U32.unpack_from(data, _RECORD.size)[0]:
        raise CorruptError(f"the checksum of a record's header is wrong: {_DAMAGED}", offset)
    _, tag, length = _RECORD.unpack_from(data)
    if tag not in (CHUNK, INDEX, FOOTER) and tag < SKIPPABLE:
        raise UnsupportedError(f"a record has the unknown tag {tag:#04x}: {_LATER}", offset)
    if length not in _lengths(tag, chunk_log2):
        raise MalformedError(f"a record with tag {tag:#04x} has {length} bytes: {_WRITER}", offset)
    return tag, length


def _ends_inside(end: int) -> TruncatedError:
    return TruncatedError(f"the archive ends inside a record: {_SHORT}", end)


def check_body(data: Buffer, offset: int, length: int) -> memoryview:
    """Check a record's body, the CRC behind it included [R6, R7], and return it without the CRC."""
    view = memoryview(data)
    if len(view) < length + 4:
        raise _ends_inside(offset + RECORD_HEADER_SIZE + len(view))
    if crc32(view[:length]) != _U32.unpack_from(view, length)[0]:
        raise CorruptError(f"the checksum of a record is wrong: {_DAMAGED}", offset)
    return view[:length]


def _max_content(tag: int, chunk_log2: int) -> int:
    return min(1 << chunk_log2, MAX_LAYOUT_CONTENT) if tag == LAYOUT else 1 << chunk_log2


def _block(tag: int, offset: int, body: memoryview, chunk_log2: int) -> Block:
    """Take apart the body of a chunk or layout record [K1, L1]."""
    length, crc, width = _BLOCK.unpack_from(body)
    if not 1 <= length <= _max_content(tag, chunk_log2):
        raise MalformedError(f"a chunk claims {length} bytes of content: {_WRITER}", offset)
    if not 1 <= width <= 64 or 8 * length % width or (tag == LAYOUT and width != 8):
        raise MalformedError(f"a chunk of {length} bytes has words of {width} bits: {_WRITER}", offset)
    return Block(tag, offset, RECORD_OVERHEAD + len(body), length, crc, width, body[_BLOCK.size :])


def read_block(record: Buffer, offset: int, chunk_log2: int) -> Block:
    """Check a whole chunk or layout record that was fetched by the index, and take it apart."""
    view = memoryview(record)
    tag, length = check_record_header(view[:RECORD_HEADER_SIZE], offset, chunk_log2)
    if tag not in (CHUNK, LAYOUT) or len(view) > RECORD_OVERHEAD + length:
        raise MalformedError(f"the index leads to another record than this: {_FOREIGN}", offset)
    return _block(tag, offset, check_body(view[RECORD_HEADER_SIZE:], offset, length), chunk_log2)


def _read_metadata(body: memoryview, offset: int) -> Metadata:
    """Read the pairs of a metadata record [M1]."""
    cursor = _Cursor(body, offset, "metadata")
    pairs = Metadata()
    last: bytes | None = None
    while cursor.more():
        key = cursor.string("utf-8")
        raw = key.encode()
        if last is not None and raw <= last:
            cursor.fail(f"the key {key!r} out of order")
        last = raw
        pairs[key] = cursor.text()
    return pairs


class _Ledger:
    """What a member's index and footer have to say, gathered record by record; to write and to compare."""

    def __init__(self) -> None:
        self.size = HEADER_SIZE
        self.content_length = 0
        self._counts = {CHUNK: 0, LAYOUT: 0}
        self._ends = {CHUNK: HEADER_SIZE, LAYOUT: HEADER_SIZE}
        self._lists = {CHUNK: bytearray(), LAYOUT: bytearray()}
        self._crc = 0

    def note(self, tag: int, size: int, content_length: int = 0, content_crc: int = 0) -> None:
        """Note a record of `size` bytes."""
        if tag in self._lists:
            items = self._lists[tag]
            items += varint(self.size - self._ends[tag])
            items += varint(size)
            self._counts[tag] += 1
            self._ends[tag] = self.size + size
            if tag == CHUNK:
                items += varint(content_length)
                self.content_length += content_length
                self._crc = crc32(_U32.pack(content_crc), self._crc)
        self.size += size

    def index(self) -> bytes:
        """Return the body of the index [I1]."""
        return b"".join(varint(self._counts[tag]) + self._lists[tag] for tag in (CHUNK, LAYOUT))

    def footer(self, index_position: int) -> bytes:
        """Return the body of the footer [F1], which is the next record."""
        size = self.size + FOOTER_SIZE
        return _FOOTER.pack(size, self.content_length, self._counts[CHUNK], index_position, self._crc)


# Reading in order


def parse() -> Parser:
    """Take an archive apart, wherever it comes from.

    Yields either a number, to be answered by `send()` with exactly so many bytes, or with all that are left
    where the archive ends earlier; or an event, where the answer is ignored. Asks for no body before its
    length was found right. Bytes that were sent must not change afterwards.
    """
    offset = 0
    while True:
        data = yield HEADER_SIZE
        if offset and not data:
            return
        offset = yield from _member(offset, check_header(data, offset))


def _member(offset: int, chunk_log2: int) -> Generator[int | Event, Buffer, int]:
    """Take apart a member behind its header, and return where it ends."""
    yield MemberStart(offset, chunk_log2)
    ledger = _Ledger()
    index_position: int | None = None
    while True:
        start = offset + ledger.size
        tag, length = check_record_header((yield RECORD_HEADER_SIZE), start, chunk_log2)
        if tag == INDEX and length != len(ledger.index()):
            raise MalformedError(f"the index lists other records than there are: {_WRITER}", start)
        if tag not in (CHUNK, INDEX, FOOTER, LAYOUT, METADATA):
            body = yield from _skim(tag, start, length)
        else:
            body = check_body((yield length + 4), start, length)
        if (tag == FOOTER) != (index_position is not None):
            raise MalformedError(f"a record with tag {tag:#04x} is out of order: {_WRITER}", start)
        if tag in (CHUNK, LAYOUT):
            block = _block(tag, start, body, chunk_log2)
            ledger.note(tag, block.size, block.content_length, block.content_crc)
            yield block
            continue
        if tag == METADATA:
            yield _read_metadata(body, start)
        elif tag == INDEX:
            if body != ledger.index():
                raise MalformedError(f"the index lists other records than there are: {_WRITER}", start)
            index_position = ledger.size
        elif index_position is not None:
            break
        ledger.note(tag, RECORD_OVERHEAD + length)
    if body != ledger.footer(index_position):
        raise MalformedError(f"the footer tells of another member than this: {_WRITER}", start)
    size = ledger.size + FOOTER_SIZE
    yield MemberEnd(offset, size, ledger.content_length)
    return offset + size


def _skim(tag: int, start: int, length: int) -> Generator[int, Buffer, memoryview]:
    """Let a body pass that nobody needs, but for its checks [R6, R7, M2]; stands for it as an empty one."""
    crc, zero, left = 0, True, length
    while left:
        asked = min(left, SKIM_SIZE)
        piece = yield asked
        if len(piece) < asked:
            raise _ends_inside(start + RECORD_HEADER_SIZE + length - left + len(piece))
        crc = crc32(piece, crc)
        zero = zero and not bytes(piece).strip(b"\0")
        left -= asked
    stored = yield 4
    if len(stored) < 4:
        raise _ends_inside(start + RECORD_HEADER_SIZE + length + len(stored))
    if crc != _U32.unpack(stored)[0]:
        raise CorruptError(f"the checksum of a record is wrong: {_DAMAGED}", start)
    if tag == PAD and not zero:
        raise MalformedError(f"padding is not zero: {_WRITER}", start)
    return memoryview(b"")


# Reading by the index


class Place(NamedTuple):
    """Where an index says that a record is, and which part of the member's content it holds."""

    offset: int
    size: int
    begin: int
    content_length: int


class Member(NamedTuple):
    """A member as its footer and index tell; `begin` is where its content begins in that of the archive."""

    offset: int
    size: int
    begin: int
    content_length: int
    chunk_log2: int
    chunks: list[Place]
    layouts: list[Place]


def read_members(read_at: Callable[[int, int], Buffer], size: int) -> list[Member]:
    """Walk the members of an archive of `size` bytes backwards, by `read_at(offset, length)`.

    Reads headers, indexes and footers only. Where they break a rule, this raises, but only reading the
    archive in order gives the verdict on it: a fault that comes earlier in the file decides.
    """
    members: list[Member] = []
    end = size
    while end or not members:
        members.append(_member_before(read_at, end))
        end = members[-1].offset
    members.reverse()
    begin = 0
    for i, member in enumerate(members):
        members[i] = member._replace(begin=begin)
        begin += member.content_length
    return members


def _member_before(read_at: Callable[[int, int], Buffer], end: int) -> Member:
    """Read the member that ends at `end`."""
    start = end - FOOTER_SIZE
    if start < HEADER_SIZE + MIN_INDEX_SIZE:
        raise TruncatedError(f"the archive is shorter than any: {_SHORT}", end)
    footer = _fetch(read_at, FOOTER, start, FOOTER_SIZE)
    size, content_length, count, index_position, _ = _FOOTER.unpack(footer)
    offset, index_size = end - size, start - (end - size) - index_position
    if offset < 0 or index_position < HEADER_SIZE or index_size < MIN_INDEX_SIZE:
        raise MalformedError(f"the footer tells of another file than this: {_FOREIGN}", start)
    chunk_log2 = check_header(read_at(offset, HEADER_SIZE), offset)
    index = offset + index_position
    cursor = _Cursor(_fetch(read_at, INDEX, index, index_size), index, "index")
    chunks = _read_places(cursor, offset, index, 1 << chunk_log2)
    layouts = _read_places(cursor, offset, index, None)
    total = chunks[-1].begin + chunks[-1].content_length if chunks else 0
    if cursor.more() or count != len(chunks) or content_length != total:
        cursor.fail("something that the footer does not agree with")
    return Member(offset, size, 0, content_length, chunk_log2, chunks, layouts)


def _fetch(read_at: Callable[[int, int], Buffer], tag: int, offset: int, size: int) -> memoryview:
    """Read a record of known tag and size, check it, and return its body."""
    record = memoryview(read_at(offset, size))
    found, length = check_record_header(record[:RECORD_HEADER_SIZE], offset, MAX_CHUNK_LOG2)
    if found != tag or RECORD_OVERHEAD + length != size:
        raise MalformedError(f"a record with tag {found:#04x} is out of place: {_FOREIGN}", offset)
    return check_body(record[RECORD_HEADER_SIZE:], offset, length)


def _read_places(cursor: _Cursor, offset: int, end: int, max_content: int | None) -> list[Place]:
    """Read one of the index's two lists; only that of the chunks knows lengths of content."""
    places = []
    position, begin = offset + HEADER_SIZE, 0
    for _ in range(cursor.varint()):
        position += cursor.varint()
        size = cursor.varint()
        length = 0 if max_content is None else cursor.varint()
        if size < RECORD_OVERHEAD + MIN_BLOCK_LENGTH or position + size > end:
            cursor.fail("a record that lies outside the member")
        if max_content is not None and not 1 <= length <= max_content:
            cursor.fail(f"a chunk of {length} bytes")
        places.append(Place(position, size, begin, length))
        position += size
        begin += length
    return places


# Writing


class Writer:
    """Writes one member: returns the bytes of its parts, to be joined in the order of the calls."""

    def __init__(self, chunk_log2: int = 22) -> None:
        if not MIN_CHUNK_LOG2 <= chunk_log2 <= MAX_CHUNK_LOG2:
            raise ValueError(f"chunks of up to 2^{chunk_log2} bytes are outside the format")
        self.chunk_log2 = chunk_log2
        self._ledger = _Ledger()

    def header(self) -> bytes:
        """Write the member's header, which comes first."""
        header = _HEADER.pack(MAGIC, VERSION, self.chunk_log2, b"", 0, 0)
        return header + _U32.pack(crc32(header))

    def chunk(self, content_length: int, content_crc: int, width: int, program: Buffer) -> list[Buffer]:
        """Write a chunk record, as buffers to be joined; the program is not copied."""
        return self._block(CHUNK, content_length, content_crc, width, program)

    def layout(self, content_length: int, content_crc: int, width: int, program: Buffer) -> list[Buffer]:
        """Write a layout record, as buffers to be joined."""
        return self._block(LAYOUT, content_length, content_crc, width, program)

    def metadata(self, pairs: Mapping[str, bytes]) -> bytes:
        """Write a metadata record."""
        texts = sorted((key.encode(), value) for key, value in pairs.items())
        return b"".join(self._record(METADATA, b"".join(_text(key) + _text(value) for key, value in texts)))

    def finish(self) -> bytes:
        """Write index and footer, which come last."""
        position = self._ledger.size
        index = self._record(INDEX, self._ledger.index())
        return b"".join([*index, *self._record(FOOTER, self._ledger.footer(position))])

    def _block(self, tag: int, length: int, crc: int, width: int, program: Buffer) -> list[Buffer]:
        if not 1 <= length <= _max_content(tag, self.chunk_log2):
            raise ValueError(f"a chunk can't have {length} bytes of content")
        return self._record(tag, _BLOCK.pack(length, crc, width), program, length, crc)

    def _record(
        self, tag: int, head: bytes, rest: Buffer = b"", content_length: int = 0, content_crc: int = 0
    ) -> list[Buffer]:
        length = len(head) + len(rest)
        if length not in _lengths(tag, self.chunk_log2):
            raise ValueError(f"a record with tag {tag:#04x} can't have {length} bytes")
        start = _RECORD.pack(SYNC, tag, length)
        start += _U32.pack(crc32(start)) + head
        self._ledger.note(tag, RECORD_OVERHEAD + length, content_length, content_crc)
        return [start, rest, _U32.pack(crc32(rest, crc32(head)))]


def _text(value: bytes) -> bytes:
    return varint(len(value)) + value


# The content of layout records


def write_layout(base: int, entries: Sequence[Entry]) -> bytes:
    """Write the content of a layout record; entries are in the order of their bytes, none before `base`."""
    parts = [varint(base), varint(len(entries))]
    position = base
    for entry in entries:
        parts += varint(entry.begin - position), varint(entry.end - entry.begin)
        parts += _text(entry.name.encode()), _text(entry.dtype.encode("ascii")), varint(len(entry.shape))
        parts += map(varint, entry.shape)
        position = entry.end
    return b"".join(parts)


def read_layout(content: Buffer, offset: int) -> list[Entry]:
    """Read the content of the layout record at `offset` [L2]."""
    cursor = _Cursor(content, offset, "layout")
    entries = []
    position = cursor.varint()
    for _ in range(cursor.varint()):
        begin = position + cursor.varint()
        position = begin + cursor.varint()
        name = cursor.string("utf-8", MAX_NAME_SIZE)
        dtype = cursor.string("ascii", MAX_DTYPE_SIZE)
        rank = cursor.varint()
        if rank > MAX_RANK:
            cursor.fail(f"a tensor with {rank} dimensions")
        shape = tuple(cursor.varint() for _ in range(rank))
        if position > MAX_U64:
            cursor.fail(f"the tensor {name!r}, which would end behind any file,")
        entries.append(Entry(name, dtype, shape, begin, position))
    if cursor.more():
        cursor.fail("something behind the last tensor")
    return entries
