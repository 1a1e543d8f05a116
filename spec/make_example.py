"""Make section 9 of FORMAT.md: a whole archive of two tensors, with a line for every few bytes.

The text stands between two marker comments. The words are encoded by vector_programs.py, from FORMAT.md.

    python spec/make_example.py            writes the section
    python spec/make_example.py --check    fails if the section is another
"""

import struct
import sys
from pathlib import Path
from zlib import crc32

from vector_programs import bytes_of_bits, huffman_codes, pack, table_bits, varint

FORMAT = Path(__file__).resolve().parent / "FORMAT.md"
BEGIN = "<!-- example: made by spec/make_example.py -->"
END = "<!-- end of the example -->"

# The content: `w`, a BF16 matrix of 2 x 4, then `b`, three F32 numbers that are all 1.
WEIGHTS = [0.5, 0.75, -0.625, 1.25, 0.8125, -0.5, 0.5, 0.9375]
ONES = [1.0] * 3
LENGTHS = {126: 1, 127: 2, 382: 2}  # of the codes for signs and exponents

Line = tuple[bytes, str]  # bytes, and what they are


def bfloat16(x: float) -> int:
    return struct.unpack("<I", struct.pack("<f", x))[0] >> 16


def content() -> bytes:
    return pack([bfloat16(x) for x in WEIGHTS], 16) + struct.pack(f"<{len(ONES)}f", *ONES)


def crc_line(covered: list[Line], what: str) -> Line:
    return struct.pack("<I", crc32(joined(covered))), f"CRC of {what}"


def joined(lines: list[Line]) -> bytes:
    return b"".join(data for data, _ in lines)


def header() -> list[Line]:
    lines = [
        (b"\x89BRV\r\n\x1a\n", "magic"),
        (b"\1", "version 1"),
        (b"\x0c", "c = 12: chunks of at most 4,096 bytes"),
        (bytes(2), "zero"),
        (bytes(8), "must-understand bits"),
        (bytes(8), "may-ignore bits"),
    ]
    return [*lines, crc_line(lines, "the 28 bytes above")]


def record(tag: int, name: str, body: list[Line]) -> list[Line]:
    size = len(joined(body))
    head = [(b"\xab\x72\xc6", "sync"), (bytes([tag]), name)]
    head.append((struct.pack("<Q", size), f"length of the body, {size}"))
    return [*head, crc_line(head, "the 12 bytes above"), *body, crc_line(body, "the body")]


def content_head(data: bytes, w: int) -> list[Line]:
    """The first fields of a chunk's or layout's body."""
    return [
        (struct.pack("<I", len(data)), f"D = {len(data)}"),
        (struct.pack("<I", crc32(data)), "CRC of the content"),
        (bytes([w]), f"w = {w}, so n = 8·{len(data)} / {w} = {8 * len(data) // w}"),
    ]


def layout() -> list[Line]:
    entries: list[Line] = [(varint(0), "base 0"), (varint(2), "2 entries")]
    for name, dtype, length, shape in (("w", "BF16", 16, [2, 4]), ("b", "F32", 12, [3])):
        entries.append((varint(0) + varint(length), f"gap 0, length {length}"))
        entries.append((varint(len(name)) + name.encode(), f'name "{name}"'))
        entries.append((varint(len(dtype)) + dtype.encode(), f'dtype "{dtype}"'))
        dimensions = " × ".join(map(str, shape))
        entries.append((b"".join(map(varint, [len(shape), *shape])), f"rank {len(shape)}: {dimensions}"))
    code = (b"\1", f"raw (8, {len(joined(entries))}): the payload is the list itself")
    return record(0x81, "layout", [*content_head(joined(entries), 8), code, *entries])


def code_table() -> str:
    return table_bits(list(LENGTHS), list(LENGTHS.values()), 9, None, 7, 0, len(LENGTHS))


def weights_chunk() -> list[Line]:
    """Signs and exponents, 9 bits of each word, by huffman; the 7 bits of mantissas as they are."""
    words = [bfloat16(x) for x in WEIGHTS]
    high, low = [x >> 7 for x in words], [x & 127 for x in words]
    table, codes = bytes_of_bits(code_table()), huffman_codes(list(LENGTHS), list(LENGTHS.values()))
    coded = " ".join(codes[word] for word in high)
    huffman = table + bytes_of_bits(coded.replace(" ", ""))
    return record(
        0x01,
        "chunk",
        [
            *content_head(pack(words, 16), 16),
            (b"\x15" + varint(2) + varint(9), "merge [2, 9] (16, 8): children of 9 and of 7 bits"),
            (b"\x03" + varint(len(huffman)), f"huffman [{len(huffman)}] (9, 8): a payload of that size"),
            (b"\x01", "raw (7, 8): a payload of 7 bytes"),
            (table, f"table of {len(LENGTHS)} symbols, see below"),
            (huffman[len(table) :], f"codes {coded}"),
            (pack(low, 7), f"mantissas {' '.join(map(str, low))}"),
        ],
    )


def ones_chunk() -> list[Line]:
    data = struct.pack(f"<{len(ONES)}f", *ONES)
    word = struct.unpack("<I", data[:4])[0]
    code = (b"\x10" + varint(word), f"const [0x{word:X}] (32, 3): no payload")
    return record(0x01, "chunk", [*content_head(data, 32), code])


def archive() -> list[tuple[str, list[Line]]]:
    """The units with their titles."""
    units = [("Header", header()), ("Layout", layout()), ("Chunk of `w`", weights_chunk())]
    units.append(("Chunk of `b`", ones_chunk()))
    sizes = [len(joined(lines)) for _, lines in units]
    rows: list[Line] = [(varint(2), "2 chunks")]
    for gap, size, length in ((sizes[1], sizes[2], 16), (0, sizes[3], 12)):
        row = b"".join(map(varint, (gap, size, length)))
        rows.append((row, f"gap {gap}, size {size}, content {length}"))
    rows += [(varint(1), "1 layout"), (varint(0) + varint(sizes[1]), f"gap 0, size {sizes[1]}")]
    units.append(("Index", record(0x02, "index", rows)))
    position, crcs = sum(sizes), b"".join(lines[5][0] for _, lines in units[2:4])
    end = position + len(joined(units[-1][1])) + 56
    fields: list[Line] = [
        (struct.pack("<Q", end), f"length of the member, {end}"),
        (struct.pack("<Q", 28), "length of the content, 28"),
        (struct.pack("<Q", 2), "2 chunks"),
        (struct.pack("<Q", position), f"position of the index record, {position}"),
        (struct.pack("<I", crc32(crcs)), "CRC of the two content CRCs"),
    ]
    units.append(("Footer", record(0x03, "footer", fields)))
    return units


def dump(units: list[tuple[str, list[Line]]]) -> str:
    """Offset, up to 8 bytes and what they are, line by line."""
    out, at = [], 0
    for title, lines in units:
        out.append(f"{'' if at == 0 else chr(10)}{title.replace('`', '')}")
        for data, what in lines:
            for start in range(0, len(data), 8):
                piece = data[start : start + 8]
                text = f"{at:4}  {piece.hex(' ').upper():23}  {'' if start else what}"
                out.append(text.rstrip())
                at += len(piece)
    return "\n".join(out)


TABLE = """
The table of the huffman literal, as a bit string, its first bit first: `010000000000` is s − 1 = 2;
`011111100` the first symbol, 126; `111000` the gap order, 7; `0000` the value order, 0. Then the runs: `11`
is EG(1) of 1, so 126 and 127; `0101011111` is EG(7) of 253, so 254 words are absent; `10` is EG(1) of 0, so
382 alone. Then the numbers, in EG(0): `011` is 2, the zigzag of 1; `011` is 1 more; `1` is 0 more. So the
lengths are 1, 2, 2 and the codes `0`, `10`, `11`. These are {size} bits, and zero bits fill {bytes} bytes.
"""


def section() -> str:
    units = archive()
    size = len(b"".join(joined(lines) for _, lines in units))
    bits = code_table()
    spelled = [part for part in TABLE.split("`")[1::2] if set(part) <= {"0", "1"}]
    if "".join(spelled[:10]) != bits:
        raise ValueError(f"the table's bits are not {spelled[:10]}, but {bits}")
    weights = ", ".join(map(str, WEIGHTS))
    return f"""
An archive of {size} bytes: one member with a layout and two chunks. Its content is 28 bytes: the tensor `w`
of 2 × 4 numbers in BF16, which are {weights};
and the tensor `b` of 3 numbers in F32, all of them 1. Each line has an offset, bytes, and what they are.

```
{dump(units)}
```
{TABLE.format(size=len(bits), bytes=-(-len(bits) // 8))}"""


def with_section(text: str) -> str:
    before, rest = text.split(BEGIN)
    return before + BEGIN + "\n" + section() + "\n" + END + rest.split(END)[1]


def main() -> int:
    text = FORMAT.read_text(encoding="utf-8")
    made = with_section(text)
    if "--check" not in sys.argv:
        FORMAT.write_text(made, encoding="utf-8")
    elif made != text:
        print("section 9 of FORMAT.md differs: run `python spec/make_example.py`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
