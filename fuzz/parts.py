"""What archives are made of: records, members, nodes and literals, written out from FORMAT.md.

Codes and entropy coders are those of spec/vector_programs.py, which share nothing with any decoder. Importing
this also puts spec/ on the path, for the reference decoder.
"""

import struct
import sys
from pathlib import Path
from zlib import crc32

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "spec"))

import reference as reference  # others take it from here
import vector_programs
from vector_programs import bytes_of_bits, huffman_codes, pack, rans_block, varint


def u32(x):
    return struct.pack("<I", x)


def u64(x):
    return struct.pack("<Q", x)


def with_crc(data):
    return data + u32(crc32(data))


# The container (§3)


def header(c=12, version=1, zero=0, must=0, may=0, magic=b"\x89BRV\r\n\x1a\n"):
    return with_crc(magic + bytes([version, c]) + struct.pack("<H", zero) + u64(must) + u64(may))


def record(tag, body, length=None, sync=b"\xab\x72\xc6"):
    return with_crc(sync + bytes([tag]) + u64(len(body) if length is None else length)) + with_crc(body)


def body(content, w, program, crc=None, length=None):
    code, payload = program
    length = len(content) if length is None else length
    return u32(length) + u32(crc32(content) if crc is None else crc) + bytes([w]) + code + payload


def chunk(content, w, program, tag=1, **changes):
    return record(tag, body(content, w, program, **changes))


def layout(content, w=8, program=None, **changes):
    return chunk(content, w, program or raw(content), tag=0x81, **changes)


def member(*records, c=12, index=None, footer=None, between=b"", behind=b""):
    """A member; `index` and `footer` change bodies, `between` and `behind` stand around the footer."""
    head, rows, names, crcs, length = header(c), [], [], b"", 0
    chunk_end = layout_end = position = 32
    for item in records:
        if item[3] == 1:
            size = struct.unpack("<I", item[16:20])[0]
            rows.append(varint(position - chunk_end) + varint(len(item)) + varint(size))
            chunk_end, length, crcs = position + len(item), length + size, crcs + item[20:24]
        if item[3] == 0x81:
            names.append(varint(position - layout_end) + varint(len(item)))
            layout_end = position + len(item)
        position += len(item)
    listing = varint(len(rows)) + b"".join(rows) + varint(len(names)) + b"".join(names)
    listing = record(2, index(listing) if index else listing)
    total = position + len(listing) + 56
    last = u64(total) + u64(length) + u64(len(rows)) + u64(position) + u32(crc32(crcs))
    return head + b"".join(records) + listing + between + record(3, footer(last) if footer else last) + behind


def units(data):
    """Headers and records of a sound archive."""
    out = []
    while data:
        is_header = data[:1] == b"\x89"
        size = 32 if is_header else struct.unpack("<Q", data[4:12])[0] + 20
        out.append(data[:size])
        data = data[size:]
    return out


# Programs (§4), as pairs of code and payloads


def node(opcode, *operands, children=(), payload=b""):
    code = bytes([opcode]) + b"".join(map(varint, operands)) + b"".join(child[0] for child in children)
    return code, payload + b"".join(child[1] for child in children)


def raw(data):
    return node(1, payload=data)


def literal(words, w):
    return raw(pack(words, w))


def const(c):
    return node(0x10, c)


def concat(sizes, *children):
    return node(0x11, len(children), *sizes, children=children)


# Entropy coders (§5)


def table_bits(symbols, values, w, precision=None, g=0, d=0, s=None):
    s = len(symbols) if s is None else s
    return vector_programs.table_bits(symbols, values, w, precision, g, d, s)


def huffman(words, lengths, w, tail="", **table):
    """`lengths` is a dict symbol -> length."""
    symbols = sorted(lengths)
    numbers = [lengths[x] for x in symbols]
    codes = huffman_codes(symbols, numbers)
    payload = bytes_of_bits(table_bits(symbols, numbers, w, **table))
    payload += bytes_of_bits("".join(codes[x] for x in words) + tail)
    return node(3, len(payload), payload=payload)


def rans(words, f, w, k=8, lanes_log=0, blocks=1, table=None, change=None, precision=15, **options):
    """`f` is a dict symbol -> frequency, summing to 2^k; precision 15 writes frequencies as they are."""
    symbols = sorted(f)
    frequencies = tuple(f[x] for x in symbols)
    table = table or bytes_of_bits(table_bits(symbols, frequencies, w, precision, **options))
    q = -(-len(words) // blocks)
    number = {x: i for i, x in enumerate(symbols)}
    indices = [number[x] for x in words]
    parts = [rans_block(indices[i : i + q], frequencies, k, 1 << lanes_log) for i in range(0, len(words), q)]
    parts = change(parts) if change else parts
    sizes = [len(part) for part in parts]
    parameters = lanes_log | (k - 8) << 3
    return node(4, parameters, len(parts), len(table), *sizes, payload=table + b"".join(parts))
