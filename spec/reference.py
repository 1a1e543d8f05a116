"""Reference decoder of the `.brv` format, version 1: FORMAT.md as a program, to read and to judge others by.

It follows FORMAT.md section by section and names rules by their ids. It is plain rather than fast, and needs
only the standard library (for `zstd` literals: `compression.zstd`, else the package `zstandard`).

    python spec/reference.py < archive.brv > content
"""

import importlib
import operator
import struct
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import accumulate, islice
from typing import Any
from zlib import crc32


# §6 Errors, ahead of the rest because everything refuses by them
class Fault(Exception):
    """A refusal. Without an offset it is at the first byte of the header or record being read [X1]."""

    def __init__(self, kind: str, message: str, offset: int | None = None):
        super().__init__(kind, message, offset)
        self.kind, self.message, self.offset = kind, message, offset


def demand(condition: bool, kind: str, message: str, offset: int | None = None) -> None:
    if not condition:
        raise Fault(kind, message, offset)


@dataclass
class Verdict:
    """The content of the chunks before the fault [X2], and the fault, if there was one."""

    content: bytes
    fault: str | None = None
    offset: int | None = None
    message: str = ""


# §1 Conventions
class Cursor:
    """Reads bytes, varints and texts; what it refuses is of one error class, and breaks one rule."""

    def __init__(self, data: memoryview, kind: str, rule: str, position: int = 0):
        self.data, self.kind, self.rule, self.position = data, kind, rule, position
        self.offset: int | None = None

    def demand(self, condition: bool, message: str, rule: str = "") -> None:
        demand(condition, self.kind, f"[{rule or self.rule}] {message}", self.offset)

    def take(self, size: int) -> memoryview:
        self.demand(size <= len(self.data) - self.position, "bytes are missing")
        self.position += size
        return self.data[self.position - size : self.position]

    def varint(self) -> int:
        """[V1]: below 2^64, in the shortest form."""
        value = shift = 0
        byte = 128
        while byte >= 128:
            self.demand(shift < 70, "a varint of more than 10 bytes")
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
        self.demand(byte > 0 or shift == 7, "a varint that is longer than needed")
        self.demand(value < 1 << 64, "a varint that is not below 2^64")
        return value

    def number(self, least: int, most: int) -> int:
        value = self.varint()
        self.demand(least <= value <= most, f"{value} is not in {least} … {most}")
        return value

    def text(self, most: int) -> bytes:
        return bytes(self.take(self.number(0, most)))


def varint_bytes(value: int) -> bytes:
    """The one encoding of a varint [V1]."""
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


class Bits:
    """Reads a bit string [V2] that is a table; it may not run past its bytes [T1]."""

    def __init__(self, data: memoryview):
        self.data, self.position = data, 0

    def field(self, k: int) -> int:
        start, end = self.position, self.position + k
        demand(end <= 8 * len(self.data), "corrupt", "[T1] a table runs past its bytes")
        self.position = end
        value = int.from_bytes(self.data[start >> 3 : (end + 7) >> 3], "little")
        return value >> (start & 7) & ((1 << k) - 1)

    def exp_golomb(self, k: int) -> int:
        """[V3]: EG(k)."""
        first = self.position >> 3
        ahead = int.from_bytes(self.data[first : first + 9], "little") >> (self.position & 7)
        zeros = (ahead & -ahead).bit_length() - 1  # -1 where no bit is set
        demand(0 <= zeros <= 63, "corrupt", "[V3] a run of zero bits that is too long, or has no end")
        self.field(zeros + 1)
        value = (((1 << zeros) + self.field(zeros) - 1) << k) + self.field(k)
        demand(value < 1 << 64, "corrupt", "[V3] an exp-Golomb code that is not below 2^64")
        return value

    def end(self) -> int:
        """The number of bytes used, after a look at the padding of the last one [V2]."""
        demand(self.field(-self.position % 8) == 0, "corrupt", "[V2] padding that is not zero")
        return self.position // 8


def unzigzag(value: int) -> int:
    """[V4]: 0, 1, 2, 3, 4 … stand for 0, −1, 1, −2, 2 …."""
    return -(value + 1) // 2 if value & 1 else value // 2


# §2 Words. A stream is an array whose items have size(w) bytes (§4.2), the least of 1, 2, 4, 8 that will do.
def size_of(w: int) -> int:
    return 1 if w <= 8 else 2 if w <= 16 else 4 if w <= 32 else 8


def stream(w: int, words: Any = ()) -> array:
    return array({1: "B", 2: "H", 4: "I", 8: "Q"}[size_of(w)], words)


def bytes_for(w: int, n: int) -> int:
    return (w * n + 7) // 8


def each_field(data: memoryview, w: int) -> Iterator[int]:
    """All fields of w bits; eight of them fill w bytes."""
    mask = (1 << w) - 1
    for start in range(0, len(data), w):
        group = int.from_bytes(data[start : start + w], "little")
        for shift in range(0, 8 * w, w):
            yield group >> shift & mask


def words_from_bytes(data: memoryview, w: int, n: int) -> array:
    """n fields of w bits from the bytes that hold just them; padding must be zero [V2]."""
    spare = 8 * len(data) - w * n
    demand(spare == 0 or data[-1] >> (8 - spare) == 0, "corrupt", "[V2] padding that is not zero")
    return stream(w, data if w == 8 else islice(each_field(data, w), n))


def bytes_from_words(words: array, w: int) -> bytes:
    """The bytes that a stream stands for, where w · n is a multiple of 8."""
    if w == 8:
        return words.tobytes()
    out = bytearray()
    for start in range(0, len(words), 8):
        group = 0
        for word in reversed(words[start : start + 8]):
            group = group << w | word
        out += group.to_bytes(w, "little")
    return bytes(out[: w * len(words) // 8])


# §3 Container

CHUNK, INDEX, FOOTER, LAYOUT, METADATA, PAD = 0x01, 0x02, 0x03, 0x81, 0x82, 0x83


@dataclass
class Entry:
    """A name for the bytes [start, start + length) of the content of the member of that number (§3.4)."""

    member: int
    start: int
    length: int
    name: str
    dtype: str
    dimensions: list[int]


@dataclass
class Member:
    """What the index and the footer must agree with. Positions are relative to `start`."""

    start: int
    c: int
    chunks: list[tuple[int, ...]] = field(default_factory=list)  # position and size of the record, content
    layouts: list[tuple[int, ...]] = field(default_factory=list)  # position and size of the record
    crcs: bytearray = field(default_factory=bytearray)  # the content CRCs
    index: int | None = None  # position


class Container:
    """Reads an archive; `released` and `entries` grow. `unit` is where the unit being read begins."""

    def __init__(self, data: memoryview, with_layouts: bool):
        self.data, self.with_layouts = data, with_layouts
        self.released: list[bytes] = []
        self.entries: list[Entry] = []
        self.members = self.unit = 0

    def archive(self) -> None:
        while self.unit < len(self.data) or self.members == 0:
            member = Member(self.unit, self.header())
            self.unit += 32
            while self.record(member) != FOOTER:
                pass
            self.members += 1

    # §3.1 Header, 32 bytes
    def header(self) -> int:
        """[H1] to [H7]; returns c."""
        header = self.data[self.unit : self.unit + 32]
        demand(header[:8] == b"\x89BRV\r\n\x1a\n"[: len(header)], "malformed", "[H1] no magic")
        demand(len(header) == 32, "truncated", "[H2] the file ends in a header, or [H7] has no bytes")
        version, c, zero, must_understand, _may_ignore, crc = struct.unpack("<8xBBHQQI", header)
        demand(crc32(header[:28]) == crc, "corrupt", "[H3] CRC of a header")
        demand(version == 1, "unsupported", f"[H4] version {version}")
        demand(must_understand == 0, "unsupported", f"[H5] must-understand bits {must_understand:#x}")
        demand(zero == 0 and 12 <= c <= 24, "malformed", "[H6] bytes 10–11 or c of a header")
        return int(c)

    # §3.2 Records
    def record_header(self, member: Member) -> tuple[int, int]:
        """[R1] to [R5]; returns the tag and the length of the body."""
        header = self.data[self.unit : self.unit + 16]
        demand(header[:3] == b"\xab\x72\xc6"[: len(header)], "malformed", "[R1] no sync bytes")
        demand(len(header) == 16, "truncated", "[R2] the file ends before or in a record header")
        tag, length, crc = struct.unpack("<3xBQI", header)
        demand(crc32(header[:12]) == crc, "corrupt", "[R3] CRC of a record header")
        demand(tag >= 0x80 or tag in (CHUNK, INDEX, FOOTER), "unsupported", f"[R4] record tag {tag:#04x}")
        sound = True
        if tag in (CHUNK, LAYOUT):
            sound = 10 <= length <= (2 << member.c) + 65536
        elif tag in (METADATA, PAD):
            sound = length <= 1 << 24
        elif tag in (INDEX, FOOTER):
            sound = length == (36 if tag == FOOTER else len(index_body(member)))
        demand(sound, "malformed", f"[R5] record {tag:#04x} with a body of {length} bytes")
        return tag, length

    def record(self, member: Member) -> int:
        """Read one record; returns its tag."""
        tag, length = self.record_header(member)
        origin = self.unit + 16
        end = origin + length + 4
        demand(end <= len(self.data), "truncated", "[R6] the file ends in a record")
        body, crc = self.data[origin : end - 4], self.data[end - 4 : end]
        demand(crc32(body) == int.from_bytes(crc, "little"), "corrupt", "[R7] CRC of a body")
        demand((tag == FOOTER) == (member.index is not None), "malformed", "[R8] index and footer not last")
        place = (self.unit - member.start, end - self.unit)
        if tag == CHUNK:
            check_content_head(body, 1 << member.c, range(1, 65), "K1")
            content = read_content(body, origin)
            self.released.append(content)
            member.crcs += body[4:8]
            member.chunks.append((*place, len(content)))
        elif tag == LAYOUT:
            check_content_head(body, 1 << min(20, member.c), range(8, 9), "L1")
            if self.with_layouts:
                self.entries += read_layout(read_content(body, origin), self.members)
            member.layouts.append(place)
        elif tag == METADATA:
            check_metadata(body)
        elif tag == PAD:
            demand(not any(body), "malformed", "[M2] a pad record that is not zero")
        elif tag == INDEX:
            demand(body == index_body(member), "malformed", "[I1] an index that differs from the records")
            member.index = place[0]
        elif tag == FOOTER:
            demand(body == footer_body(member, end), "malformed", "[F1] a footer that differs from the rest")
        self.unit = end
        return tag


# §3.3 Chunk. A layout's body has the same form.
def check_content_head(body: memoryview, most: int, widths: range, rule: str) -> None:
    content_length, w = struct.unpack("<I4xB", body[:9])
    demand(1 <= content_length <= most, "malformed", f"[{rule}] content length {content_length}")
    demand(w in widths and 8 * content_length % w == 0, "malformed", f"[{rule}] width {w}")


def read_content(body: memoryview, origin: int) -> bytes:
    """The content of a chunk or layout, whose body begins at byte `origin` of the file."""
    content_length, crc, w = struct.unpack("<IIB", body[:9])
    content = bytes_from_words(run(read_program(body, origin, w, content_length)), w)
    demand(crc32(content) == crc, "corrupt", "[K3] CRC of the content")
    return content


# §3.4 Layout
def read_layout(content: bytes, member: int) -> list[Entry]:
    cursor = Cursor(memoryview(content), "malformed", "L2")
    entries = []
    end, count = cursor.varint(), cursor.varint()
    for _ in range(count):
        start, length = end + cursor.varint(), cursor.varint()
        end = start + length
        name, dtype = cursor.text(65535), cursor.text(255)
        dimensions = [cursor.varint() for _ in range(cursor.number(0, 255))]
        cursor.demand(end < 1 << 64, "a range end that is not below 2^64")
        cursor.demand(is_utf8(name) and dtype.isascii(), "a name not UTF-8 or a dtype not ASCII")
        entries.append(Entry(member, start, length, name.decode(), dtype.decode(), dimensions))
    cursor.demand(cursor.position == len(content), "bytes are left over in a layout")
    return entries


def is_utf8(text: bytes) -> bool:
    return text.decode(errors="replace").encode() == text


# §3.5 Metadata and padding
def check_metadata(body: memoryview) -> None:
    cursor = Cursor(body, "malformed", "M1")
    before: bytes | None = None
    while cursor.position < len(body):
        key, _any_value = cursor.text(len(body)), cursor.text(len(body))
        cursor.demand(before is None or before < key, "keys that do not ascend")
        cursor.demand(is_utf8(key), "a key that is not UTF-8")
        before = key


# §3.6 Index
def index_body(member: Member) -> bytes:
    """The one index that the records read so far demand."""
    out = bytearray()
    for records in (member.chunks, member.layouts):
        out += varint_bytes(len(records))
        end = 32
        for position, size, *content in records:
            out += b"".join(map(varint_bytes, (position - end, size, *content)))
            end = position + size
    return bytes(out)


# §3.7 Footer
def footer_body(member: Member, end: int) -> bytes:
    content = sum(chunk[2] for chunk in member.chunks)
    fields = (end - member.start, content, len(member.chunks), member.index, crc32(member.crcs))
    return struct.pack("<QQQQI", *fields)


# §4 Program

Op = IntEnum("Op", {"RAW": 0x01, "PACKED": 0x02, "HUFFMAN": 0x03, "RANS": 0x04, "ZSTD": 0x05, "CONST": 0x10,
                    "CONCAT": 0x11, "REPEAT": 0x12, "MAP": 0x13, "SCAN": 0x14, "MERGE": 0x15, "STRETCH": 0x16,
                    "WEAVE": 0x17, "LOOKUP": 0x18})  # fmt: skip


@dataclass
class Node:
    """A node of type (w, n); `types` are those of its children."""

    op: int
    w: int
    n: int
    operands: list[int] = field(default_factory=list)
    types: list[tuple[int, int]] = field(default_factory=list)
    children: list["Node"] = field(default_factory=list)
    charge: int = 0
    payload_size: int = 0
    payload: memoryview = field(default_factory=lambda: memoryview(b""))


# §4.1 Code. It is read as a whole before any word is made. All that P2 refuses in a node is *invalid* at its
# opcode, so operands are checked against their rules one by one.
def read_program(body: memoryview, origin: int, w: int, content_length: int) -> Node:
    """Check all that the code allows to check, and give the literals their payloads."""
    reader = CodeReader(body, origin, content_length)
    root = reader.node(w, 8 * content_length // w, 1)
    position = reader.code.position
    reader.code.offset = origin + position
    payloads = sum(node.payload_size for node in reader.nodes)
    reader.code.demand(position + payloads == len(body), "payloads that do not fill the body", "P3")
    for node in reader.nodes:
        node.payload = body[position : position + node.payload_size]
        position += node.payload_size
    lacking = any(node.op == Op.ZSTD for node in reader.nodes) and zstd_library() is None
    demand(not lacking, "unsupported", "[Z1] this decoder lacks Zstandard")
    return root


class CodeReader:
    """Reads nodes in prefix order and counts what §4.2 limits."""

    def __init__(self, body: memoryview, origin: int, content_length: int):
        self.code = Cursor(body, "invalid", "P2", position=9)
        self.origin, self.content_length = origin, content_length
        self.nodes: list[Node] = []
        self.announced = 1  # the root, and all children of the nodes read
        self.charges = self.words = 0

    def node(self, w: int, n: int, depth: int) -> Node:
        self.code.offset = self.origin + self.code.position  # [X1]
        opcode = self.code.take(1)[0]
        demand(opcode in list(Op), "unsupported", f"[P1] opcode {opcode:#04x}", self.code.offset)
        node = Node(opcode, w, n)
        self.nodes.append(node)
        (read_literal if opcode <= Op.CONST else read_combination)(node, self.code)
        self.check_limits(node, depth)
        node.children = [self.node(child_w, child_n, depth + 1) for child_w, child_n in node.types]
        return node

    # §4.2 Limits
    def check_limits(self, node: Node, depth: int) -> None:
        self.announced += len(node.types)
        self.charges += node.charge
        self.words += node.n
        self.code.demand(self.announced <= 1024, "more than 1,024 nodes", "Q2")
        self.code.demand(depth <= 31 or not node.types, "children below a depth of 31", "Q3")
        self.code.demand(self.charges <= 2 * self.content_length + 65536, "too many buffer charges", "Q6")
        self.code.demand(self.words <= 32 * self.content_length + 65536, "too many words", "Q7")


# §4.3 Operators: first their operands, then their runs
def read_literal(node: Node, code: Cursor) -> None:
    """The literals and `const`: operands, payload size and buffer charge."""
    w, n = node.w, node.n
    match node.op:
        case Op.RAW:
            node.payload_size = bytes_for(w, n)
        case Op.PACKED:
            node.operands = [code.number(1, w - 1), code.number(0, (1 << w) - 1)]
            node.payload_size = bytes_for(node.operands[0], n)
        case Op.HUFFMAN | Op.ZSTD:
            node.payload_size = code.number(1, 1 << 64)
            node.charge = bytes_for(w, n) if node.op == Op.ZSTD else 0
        case Op.RANS:
            parameters, blocks = code.number(0, 63), code.number(1, 65536)
            lanes, k, q = 1 << (parameters & 7), 8 + (parameters >> 3), -(-n // blocks)
            code.demand(lanes <= 64 and blocks == -(-n // q), "lanes or blocks out of range")
            code.demand(lanes == 64 or q <= 65536 * lanes, "too many words of a block for its lanes")
            node.operands = [lanes, k, q, code.number(1, 1 << 64)]
            for _ in range(blocks):
                node.operands.append(code.number(4 * lanes, 1 << 64))
                code.demand(node.operands[-1] % 2 == 0, "a block size that is odd")
            node.payload_size = sum(node.operands[3:])
        case Op.CONST:
            node.operands = [code.number(0, (1 << w) - 1)]


def read_combination(node: Node, code: Cursor) -> None:
    """The operators with children: operands, types of the children and buffer charge."""
    w, n = node.w, node.n
    match node.op:
        case Op.CONCAT:
            node.types = [(w, part) for part in read_parts(n, 256, code)]
        case Op.REPEAT | Op.STRETCH:
            node.operands = [read_divisor(n, 2, code)]
            node.types = [(w, n // node.operands[0])]
            node.charge = size_of(w) * node.types[0][1] if node.op == Op.REPEAT else 0
        case Op.MAP:
            node.operands = [read_function(range(XOR, ORDERED + 1), code)]
            if node.operands[0] in (XOR, ADD):
                node.operands.append(code.number(0, (1 << w) - 1))
            if node.operands[0] == ROTATE:
                node.operands.append(code.number(1, w - 1))
            node.types = [(w, n)]
        case Op.SCAN:
            node.operands = [read_function(range(2), code), code.number(0, (1 << w) - 1)]
            code.demand(n >= 2, "a scan of one word")
            node.types = [(w, n - 1)]
        case Op.MERGE:
            node.types = [(part, n) for part in read_parts(w, w, code)]
        case Op.WEAVE:
            parts = read_parts(n, 256, code)
            node.types = [(ceil_log2(len(parts)), n)] + [(w, part) for part in parts]
        case Op.LOOKUP:
            r, m = read_divisor(n, 1, code), code.number(2, n)
            code.demand(m * r <= n, "more than n words to look up")
            node.operands = [r, m]
            node.types = [(ceil_log2(m), n // r), (w, m * r)]
            node.charge = size_of(w) * m * r


def read_function(listed: range, code: Cursor) -> int:
    function = code.varint()
    demand(function in listed, "unsupported", f"[P1] function {function}", code.offset)
    return function


def ceil_log2(x: int) -> int:
    return (x - 1).bit_length()


def read_parts(whole: int, most: int, code: Cursor) -> list[int]:
    """k, and k − 1 parts of the whole; the last one is what remains. Each is at least 1."""
    parts = [code.varint() for _ in range(code.number(2, most) - 1)]
    parts.append(whole - sum(parts))
    code.demand(min(parts) >= 1, "a part below 1")
    return parts


def read_divisor(n: int, least: int, code: Cursor) -> int:
    divisor = code.number(least, n)
    code.demand(n % divisor == 0, f"{divisor} does not divide {n}")
    return divisor


def run(node: Node) -> array:
    """The words of a node. Whatever goes wrong here is *corrupt* [E3]."""
    w, n, operands = node.w, node.n, node.operands
    match node.op:
        case Op.RAW:
            return words_from_bytes(node.payload, w, n)
        case Op.PACKED:
            (v, base), mask = operands, (1 << w) - 1
            return stream(w, (base + x & mask for x in words_from_bytes(node.payload, v, n)))
        case Op.HUFFMAN:
            return run_huffman(node)
        case Op.RANS:
            return run_rans(node)
        case Op.ZSTD:
            return words_from_bytes(run_zstd(bytes(node.payload), bytes_for(w, n)), w, n)
        case Op.CONST:
            return stream(w, operands) * n
    words, rest = run(node.children[0]), node.children[1:]
    match node.op:
        case Op.CONCAT:
            for child in rest:
                words.extend(run(child))
        case Op.REPEAT:
            words *= operands[0]
        case Op.MAP:
            return run_map(words, w, *operands)
        case Op.SCAN:
            return run_scan(words, w, *operands)
        case Op.MERGE:
            for child in rest:
                pairs = zip(words, run(child), strict=True)
                words = stream(w, (high << child.w | low for high, low in pairs))
        case Op.STRETCH:
            return stream(w, (x for x in words for _ in range(operands[0])))
        case Op.WEAVE:
            return run_weave(w, words, [run(child) for child in rest])
        case Op.LOOKUP:
            return run_lookup(w, words, run(rest[0]), *operands)
    return words


def zstd_library() -> Any:
    for name in ("compression.zstd", "zstandard"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


def check_zstd_header(frame: bytes, size: int) -> None:
    """The header of a frame, RFC 8878, 3.1.1.1. What it lacks behind the descriptor, the library refuses."""
    demand(frame[:4] == b"\x28\xb5\x2f\xfd" and len(frame) > 5, "corrupt", "[E3] no Zstandard frame")
    descriptor, window_descriptor = frame[4:6]
    single_segment = descriptor >> 5 & 1
    size_at, size_width = 6 - single_segment, (single_segment, 2, 4, 8)[descriptor >> 6]
    stated = int.from_bytes(frame[size_at : size_at + size_width], "little") + 256 * (size_width == 2)
    window = stated if single_segment else (8 + window_descriptor % 8) << (window_descriptor // 8 + 7)
    demand(descriptor & 0b1011 == 0, "corrupt", "[E3] the dictionary flag or the reserved bit")
    demand(size_width > 0 and stated == size, "corrupt", "[E3] a Zstandard frame without the right size")
    demand(window <= 1 << 24, "corrupt", "[E3] a Zstandard frame with too large a window")


def run_zstd(frame: bytes, size: int) -> memoryview:
    check_zstd_header(frame, size)
    library = zstd_library()
    decompressor = library.ZstdDecompressor()
    try:
        if library.__name__ == "zstandard":
            content = decompressor.decompress(frame, max_output_size=size, allow_extra_data=False)
            sound = True
        else:
            content = decompressor.decompress(frame, max_length=size + 1)
            sound = decompressor.eof and not decompressor.unused_data
    except library.ZstdError as error:
        raise Fault("corrupt", f"[E3] Zstandard: {error}") from None
    demand(sound and len(content) == size, "corrupt", "[E3] not exactly one Zstandard frame of that size")
    return memoryview(content)


XOR, ADD, ZIGZAG, GRAY, ROTATE, ORDERED = range(6)  # f of `map`


def run_map(words: array, w: int, f: int, c: int = 0) -> array:
    mask, half = (1 << w) - 1, 1 << (w - 1)
    if f == XOR:
        return stream(w, (x ^ c for x in words))
    if f == ADD:
        return stream(w, (x + c & mask for x in words))
    if f == ZIGZAG:
        return stream(w, ((1 << w) - (x + 1) // 2 if x & 1 else x // 2 for x in words))
    if f == ROTATE:
        return stream(w, (x << c & mask | x >> (w - c) for x in words))
    if f == ORDERED:
        return stream(w, (x - half if x >= half else mask - x for x in words))
    for j in range(ceil_log2(w)):  # GRAY: y is the exclusive or of all x >> i
        words = stream(w, (x ^ x >> (1 << j) for x in words))
    return words


def run_scan(words: array, w: int, op: int, init: int) -> array:
    mask = (1 << w) - 1
    step: Callable[[int, int], int] = (lambda a, b: a + b & mask) if op else operator.xor
    return stream(w, accumulate(words, step, initial=init))


def run_weave(w: int, selectors: array, children: list[array]) -> array:
    taken = Counter(selectors)  # these numbers and the children's lengths both sum to n: equal, or [E1]
    equal = all(taken[j] == len(words) for j, words in enumerate(children))
    demand(equal, "corrupt", "[E1] a selector names no child, or one that has no word left")
    untaken = [iter(words) for words in children]
    return stream(w, (next(untaken[j]) for j in selectors))


def run_lookup(w: int, indices: array, entries: array, r: int, m: int) -> array:
    demand(max(indices) < m, "corrupt", "[E2] an index that names no entry")
    if r == 1:
        return stream(w, (entries[t] for t in indices))
    words = stream(w)
    for t in indices:
        words.extend(entries[t * r : (t + 1) * r])
    return words


# §5 Entropy coders
# §5.1 Tables
def read_table(data: memoryview, w: int, is_rans: bool) -> tuple[list[int], list[int], int, int]:
    """The symbols, the numbers, the precision, and the size of the table in bytes."""
    bits = Bits(data)
    s = bits.field(12) + 1  # part 1
    demand(s >= 2, "corrupt", "[T1] a table of one symbol")
    precision = bits.field(4) if is_rans else 0  # part 2
    following = bits.field(w)  # part 3
    gap_order, value_order = bits.field(6), bits.field(4)  # part 4
    symbols: list[int] = []
    while len(symbols) < s:  # part 5
        if symbols:
            following += bits.exp_golomb(gap_order) + 1
        count = bits.exp_golomb(1) + 1
        demand(count <= s - len(symbols), "corrupt", "[T1] more symbols than s")
        demand(following + count <= 1 << w, "corrupt", "[T1] a symbol of 2^w or more")
        symbols.extend(range(following, following + count))
        following += count
    values = list(accumulate(unzigzag(bits.exp_golomb(value_order)) for _ in range(s)))  # part 6
    demand(min(values) >= 1 and max(values) <= 65535, "corrupt", "[T1] a number below 1 or above 65,535")
    return symbols, values, precision, bits.end()


# §5.2 Huffman
def code_table(symbols: list[int], lengths: list[int]) -> list[tuple[int, int]]:
    """(symbol, length) for all that the next bits can be, as many as the longest code has."""
    longest = max(lengths)
    demand(longest <= 12, "corrupt", "[U1] a length above 12")
    complete = sum(1 << (12 - length) for length in lengths) == 1 << 12
    demand(complete, "corrupt", "[U1] the sum of 2^−v is not 1")
    entries = [(0, 0)] * (1 << longest)
    code = 0  # the next code, with zero bits appended up to the longest length
    for length, symbol in sorted(zip(lengths, symbols, strict=True)):
        first = int(f"{code:0{longest}b}"[::-1], 2)  # a code's most significant bit comes first
        entries[first :: 1 << length] = [(symbol, length)] * (1 << (longest - length))
        code += 1 << (longest - length)
    return entries


def run_huffman(node: Node) -> array:
    symbols, lengths, _, table_size = read_table(node.payload, node.w, is_rans=False)
    entries = code_table(symbols, lengths)
    data, position, words = node.payload[table_size:], 0, stream(node.w)
    demand(node.n <= 8 * len(data), "corrupt", "[U1] a payload that is too short")
    mask = len(entries) - 1
    window = held = 0  # the bits read but not used, zeros beyond the end
    for _ in range(node.n):
        if held < 12:
            window |= int.from_bytes(data[position : position + 8], "little") << held
            position, held = position + 8, held + 64
        symbol, length = entries[window & mask]
        words.append(symbol)
        window >>= length
        held -= length
    used = bytes_for(1, 8 * position - held)
    demand(used == len(data) and window == 0, "corrupt", "[U1] a payload too short, too long or badly padded")
    return words


# §5.3 rANS
def frequencies(values: list[int], p: int, k: int) -> list[int]:
    """[N1]: they sum to 2^k."""
    f = []
    for v in values:
        shift = min((v >> p) - 1, k)  # k is already too much
        f.append(v if v < 2 << p else ((1 << p) + v % (1 << p)) << shift)
    demand(max(f) < 1 << k, "corrupt", "[N1] a frequency that is not below 2^k")
    j = f.index(max(f))
    f[j] += (1 << k) - sum(f)
    demand(f[j] >= 1, "corrupt", "[N1] frequencies that sum to too much")
    return f


def deal_slots(symbols: list[int], f: list[int], k: int) -> list[tuple[int, int, int]]:
    """For every slot its symbol, the symbol's frequency and the slot's rank, by the alias method."""
    a = ceil_log2(len(f))
    buckets, slots = 1 << a, 1 << (k - a)
    rest = f + [0] * (buckets - len(f))
    split, other = [slots] * buckets, list(range(buckets))
    small = [i for i in range(buckets) if rest[i] < slots]
    large = [i for i in range(buckets) if rest[i] >= slots]
    while small:
        i, h = small.pop(), large[-1]
        split[i], other[i] = rest[i], h
        rest[h] -= slots - rest[i]
        if rest[h] < slots:
            small.append(large.pop())
    dealt, next_rank = [], [0] * len(f)
    for i in range(buckets):
        for y in range(slots):
            owner = i if y < split[i] else other[i]
            dealt.append((symbols[owner], f[owner], next_rank[owner]))
            next_rank[owner] += 1
    return dealt


def run_rans(node: Node) -> array:
    lanes, k, q, position, *block_sizes = node.operands
    symbols, values, precision, table_size = read_table(node.payload[:position], node.w, is_rans=True)
    demand(table_size == position, "corrupt", "[T1] a table that does not fill its bytes")
    slots = deal_slots(symbols, frequencies(values, precision, k), k)
    words = stream(node.w)
    for size in block_sizes:
        block = node.payload[position : position + size]
        run_block(block, min(q, node.n - len(words)), lanes, k, slots, words)
        position += size
    return words


def run_block(block: memoryview, count: int, lanes: int, k: int, slots: list, words: array) -> None:
    """Append the words of one block [N2]."""
    states = list(struct.unpack_from(f"<{lanes}I", block))
    renormalisation = words_from_bytes(block[4 * lanes :], 16, len(block) // 2 - 2 * lanes)
    used, available, mask = 0, len(renormalisation), (1 << k) - 1
    demand(min(states) >= 1 << 16, "corrupt", "[N2] a state below 2^16 at the start of a block")
    for i in range(count):
        x = states[i % lanes]
        symbol, f, rank = slots[x & mask]
        words.append(symbol)
        x = f * (x >> k) + rank
        if x < 1 << 16:
            if used == available:
                raise Fault("corrupt", "[N2] a renormalisation word is missing")
            x = x << 16 | renormalisation[used]
            used += 1
        states[i % lanes] = x
    demand(used == available, "corrupt", "[N2] a renormalisation word is left over")
    demand(all(x == 1 << 16 for x in states), "corrupt", "[N2] a last state other than 2^16")


# Use


def read(data: bytes, with_layouts: bool) -> tuple[list[Entry], Verdict]:
    container = Container(memoryview(data), with_layouts)
    verdict = Verdict(b"")
    try:
        container.archive()
    except Fault as fault:
        unit = len(data) if fault.kind == "truncated" else container.unit  # [X1]
        offset = unit if fault.offset is None else fault.offset
        verdict = Verdict(b"", fault.kind, offset, fault.message)
    verdict.content = b"".join(container.released)
    return container.entries, verdict


def decode(data: bytes) -> Verdict:
    """Decode an archive. The programs of layouts are not looked at [L3]."""
    return read(data, with_layouts=False)[1]


def layouts(data: bytes) -> tuple[list[Entry], Verdict]:
    """The layout entries ahead of a fault, and the verdict on the archive together with its layouts."""
    return read(data, with_layouts=True)


def main() -> int:
    verdict = decode(sys.stdin.buffer.read())
    sys.stdout.buffer.write(verdict.content)
    sys.stdout.buffer.flush()
    if verdict.fault is not None:
        print(f"{verdict.fault} at byte {verdict.offset}: {verdict.message}", file=sys.stderr)
    return 0 if verdict.fault is None else 1


if __name__ == "__main__":
    sys.exit(main())
