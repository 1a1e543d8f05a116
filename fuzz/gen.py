"""Random programs and archives, by the operator table and the type rules of FORMAT.md, and changes to both.

All comes from the given generator of random numbers, so the same seed gives the same bytes. Nothing comes
from the encoder: literals are those of parts.py, and contents, for their CRCs, are those of the reference.
"""

import math
import struct
from zlib import crc32

import zstandard
from parts import (
    const,
    header,
    huffman,
    layout,
    member,
    node,
    rans,
    raw,
    record,
    reference,
    table_bits,
    units,
    with_crc,
)
from vector_programs import bytes_of_bits, frequencies, pack, varint

from brevis import ops

CHUNK_LOG2 = 12  # of the archives here
TABLE = ops.table()
NUMBERS = {name: number for number, name, *_ in TABLE}


def operation(name, *operands, **more):
    return node(NUMBERS[name], *operands, **more)


# Literals for given words, or None where they do not fit


def cut(rng, total, parts):
    """`parts` random numbers of at least 1 with this sum."""
    places = sorted(rng.sample(range(1, total), parts - 1))
    return [b - a for a, b in zip([0, *places], [*places, total], strict=True)]


def alphabet(rng, words, w, most):
    """The distinct words, and some that do not occur; None where these are too many or too few."""
    symbols = set(words)
    if len(symbols) > most:
        return None
    for _ in range(rng.choice([1, 1, 3])):
        if len(symbols) < min(2, most) or rng.random() < 0.2:
            near = rng.choice([*words, 0]) + rng.randrange(4)
            symbols.add(near % (1 << w) if rng.random() < 0.5 else rng.getrandbits(w))
    return sorted(symbols) if 2 <= len(symbols) <= most else None


def order(rng, most):
    """An order of an exp-Golomb code: a sensible one, or any."""
    return rng.randrange(4) if rng.random() < 0.7 else rng.randrange(most)


def huffman_literal(rng, words, w):
    symbols = alphabet(rng, words, w, rng.choice([40, 300, 4096]))
    if symbols is None:
        return None
    lengths = [1, 1]
    while len(lengths) < len(symbols):
        i = rng.randrange(len(lengths)) if rng.random() < 0.8 else lengths.index(min(lengths))
        if lengths[i] == 12:
            i = lengths.index(min(lengths))
        lengths[i] += 1
        lengths.append(lengths[i])
    rng.shuffle(lengths)
    lengths = dict(zip(symbols, lengths, strict=True))
    return huffman(words, lengths, w, g=order(rng, 64), d=order(rng, 16))


def rans_literal(rng, words, w):
    k = rng.randrange(8, 16)
    symbols = alphabet(rng, words, w, min(4096, 1 << k))
    if symbols is None:
        return None
    f = cut(rng, 1 << k, len(symbols))
    if rng.random() < 0.3:  # one that takes most, as in sparse words
        f = [1] * len(symbols)
        f[rng.randrange(len(f))] += (1 << k) - len(f)
    p = rng.randrange(16)
    numbers = []
    for x in f:
        e = max(x.bit_length() - 1 - p, 0)
        numbers.append((e << p) + (x >> e))
    table = bytes_of_bits(table_bits(symbols, numbers, w, p, g=order(rng, 64), d=order(rng, 16)))
    q = rng.randrange(len(words) // 40, len(words)) + 1
    blocks, lanes_log = -(-len(words) // q), rng.randrange(7)
    f = dict(zip(symbols, frequencies(numbers, p, k), strict=True))
    return rans(words, f, w, k, lanes_log, blocks, table)


def packed_literal(rng, words, w):
    base = max(min(words) - rng.choice([0, 0, 1, 5]), 0)
    if rng.random() < 0.3:
        base = rng.getrandbits(w)
    fields = [(x - base) % (1 << w) for x in words]
    least = max(max(fields).bit_length(), 1)
    if least >= w:
        return None
    v = rng.choice([least, rng.randrange(least, w)])
    return operation("packed", v, base, payload=pack(fields, v))


def zstd_literal(rng, words, w):
    content = pack(words, w)
    options = zstandard.ZstdCompressionParameters.from_level(
        rng.choice([-5, 1, 3, 19]),
        source_size=len(content),
        window_log=rng.choice([10, 17]),
        write_checksum=rng.random() < 0.5,
    )
    frame = zstandard.ZstdCompressor(compression_params=options).compress(content)
    return operation("zstd", len(frame), payload=frame)


def const_literal(rng, words, w):
    return const(words[0]) if len(set(words)) == 1 else None


def raw_literal(rng, words, w):
    return raw(pack(words, w))


LITERALS = {
    "raw": raw_literal,
    "packed": packed_literal,
    "huffman": huffman_literal,
    "rans": rans_literal,
    "zstd": zstd_literal,
    "const": const_literal,
}
# Entropy coders have most to get wrong.
DRAWN_LITERALS = [*LITERALS, "huffman", "rans", None]


def literal(rng, words, w):
    name = rng.choice(DRAWN_LITERALS)
    if name is None:  # under an xor
        c = rng.getrandbits(w)
        return operation("map", 0, c, children=[literal(rng, [x ^ c for x in words], w)])
    return LITERALS[name](rng, words, w) or raw_literal(rng, words, w)


def draw_words(rng, w, n):
    match rng.randrange(6):
        case 0:
            return [rng.getrandbits(w) for _ in range(n)]
        case 1:
            return [rng.choice([0, (1 << w) - 1, rng.getrandbits(w)])] * n
        case 2:
            base, spread = rng.getrandbits(w), rng.choice([2, 30, 500])
            return [(base + rng.randrange(spread)) % (1 << w) for _ in range(n)]
    some = [rng.getrandbits(w) for _ in range(rng.choice([2, 3, 8, 60, 300]))]
    weights = [rng.random() ** rng.choice([1, 5, 20]) for _ in some]
    return rng.choices(some, weights, k=n)


def drawn_literal(rng, w, n):
    return literal(rng, draw_words(rng, w, n), w)


def small_literal(rng, w, n):
    """Few bytes, however many words."""
    return drawn_literal(rng, w, n) if n <= 64 else const(rng.getrandbits(w))


# Programs, from the type rules: `leaf(rng, w, n)` makes the literals


def divisors(n):
    return [d for d in range(1, min(n, 5000)) if n % d == 0] + [n]


def parts(rng, total, most):
    k = rng.randrange(2, min(total, most if rng.random() < 0.02 else 4) + 1)
    return cut(rng, total, k)


def concat(rng, w, n, depth, leaf):
    if n >= 2:
        sizes = parts(rng, n, 256)
        depth = 1 if len(sizes) > 4 else depth
        children = [program(rng, w, size, depth, leaf) for size in sizes]
        return operation("concat", len(sizes), *sizes[:-1], children=children)


def repeat(rng, w, n, depth, leaf, name="repeat"):
    if n >= 2:
        k = rng.choice(divisors(n)[1:])
        return operation(name, k, children=[program(rng, w, n // k, depth, leaf)])


def stretch(rng, w, n, depth, leaf):
    return repeat(rng, w, n, depth, leaf, "stretch")


def mapped(rng, w, n, depth, leaf):
    f = rng.randrange(6)
    if f == 4 and w == 1:
        return None
    operands = [rng.getrandbits(w)] if f < 2 else [rng.randrange(1, w)] if f == 4 else []
    return operation("map", f, *operands, children=[program(rng, w, n, depth, leaf)])


def scan(rng, w, n, depth, leaf):
    if n >= 2:
        children = [program(rng, w, n - 1, depth, leaf)]
        return operation("scan", rng.randrange(2), rng.getrandbits(w), children=children)


def merge(rng, w, n, depth, leaf):
    if w >= 2:
        widths = parts(rng, w, w)
        depth = 1 if len(widths) > 4 else depth
        children = [program(rng, x, n, depth, leaf) for x in widths]
        return operation("merge", len(widths), *widths[:-1], children=children)


def weave(rng, w, n, depth, leaf):
    if n >= 2:
        sizes = parts(rng, n, 256)
        depth = 1 if len(sizes) > 4 else depth
        width = (len(sizes) - 1).bit_length()
        if leaf is small_literal or rng.random() < 0.03:  # any words: they fail, or run long until they do
            selector = program(rng, width, n, depth, leaf)
        else:
            selectors = [j for j, size in enumerate(sizes) for _ in range(size)]
            if rng.random() < 0.7:
                rng.shuffle(selectors)
            selector = literal(rng, selectors, width)
        children = [program(rng, w, size, depth, leaf) for size in sizes]
        return operation("weave", len(sizes), *sizes[:-1], children=[selector, *children])


def lookup(rng, w, n, depth, leaf):
    runs = [r for r in divisors(n) if 2 * r <= n]
    if runs:
        r = rng.choice([1, rng.choice(runs)])
        m = rng.choice([2, min(n // r, 256), rng.randrange(2, n // r + 1)])
        width = (m - 1).bit_length()
        if m == 1 << width or leaf is small_literal or rng.random() < 0.03:
            index = program(rng, width, n // r, depth, leaf)
        else:
            index = literal(rng, [rng.randrange(m) for _ in range(n // r)], width)
        return operation("lookup", r, m, children=[index, program(rng, w, m * r, depth, leaf)])


COMBINATIONS = {
    "concat": concat,
    "repeat": repeat,
    "stretch": stretch,
    "map": mapped,
    "scan": scan,
    "merge": merge,
    "weave": weave,
    "lookup": lookup,
}


def program(rng, w, n, depth, leaf=drawn_literal):
    """A program of type (w, n) and at most that depth, as a pair of code and payloads."""
    if depth > 1 and rng.random() < 0.8:
        made = COMBINATIONS[rng.choice(list(COMBINATIONS))](rng, w, n, depth - 1, leaf)
        if made:
            return made
    return leaf(rng, w, n)


def draw_program(rng, most=3000, least=1):
    """(width, content length, code, payloads), of about so many words."""
    w = rng.choice([1, 2, 4, 8, 8, 12, 16, 16, 32, 64, *[rng.randrange(1, 65)] * 5])
    step = 8 // math.gcd(w, 8)
    n = rng.choice([rng.randrange(1, 30), 24, 120, 360, 720, 2520, rng.randrange(1, most)])
    n = -(-max(min(n, most), least) // step) * step
    code, payloads = program(rng, w, n, rng.randrange(1, 7))
    if rng.random() < 0.01:  # depths around the limit
        for _ in range(rng.randrange(24, 33)):
            code = operation("map", rng.choice([2, 3, 5]))[0] + code
    return w, w * n // 8, code, payloads


def draw_bomb(rng):
    """(width, content length, code, payloads): few bytes that stand for many, within the limits or not."""
    w = rng.choice([1, 1, 2, 7, 8, 16, 64])
    size = (1 << rng.randrange(12, 25)) // (8 * w) * (8 * w)
    return w, size, *program(rng, w, 8 * size // w, rng.randrange(2, 32), small_literal)


def draw_operands(rng, form):
    """Operands of a layout (see the table in ops.pyx), with no regard for types."""

    def number():
        return rng.choice([0, 1, 2, 3, 4, 8, rng.randrange(256), rng.getrandbits(64)])

    out = []
    for letter in form:
        first = rng.randrange(1, 6) if letter in "PB" else rng.randrange(7) if letter in "FS" else number()
        more = {"P": first - 1, "B": first + 1, "F": int(first in (0, 1, 4))}.get(letter, 0)
        out += [first, *(number() for _ in range(more))]
    return out


def draw_code(rng):
    """Operators in any order, or any bytes, with more opcodes and small numbers among them than by chance."""
    w = rng.randrange(1, 65)
    if rng.random() < 0.5:
        code = b""
        for _ in range(rng.randrange(1, 20)):
            number, _, form, _ = rng.choice(TABLE)
            code += node(number, *draw_operands(rng, form))[0]
    else:
        small = [0, 1, 2, 3, 4, 8, rng.randrange(256)]
        choices = [[*NUMBERS.values()], small]
        code = bytes(rng.choice(rng.choice(choices)) for _ in range(rng.randrange(1, 60)))
    return w, w * rng.choice([1, 3, 12, 60]), code, b""


# Changes


def changed(rng, data, begin=0, end=None):
    """The bytes with a few changes between two places."""
    data = bytearray(data)
    end = len(data) if end is None else end
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        place = rng.randrange(begin, max(min(end, len(data)), begin + 1))
        match rng.randrange(8):
            case 0 | 1 | 2 if place < len(data):
                data[place] ^= 1 << rng.randrange(8)
            case 3 | 4 if place < len(data):
                data[place] = rng.choice([*NUMBERS.values(), 0, 127, 128, 255, rng.randrange(256)])
            case 5:
                data[place:place] = rng.choice([bytes(1), rng.randbytes(1), varint(rng.getrandbits(64))])
            case 6:
                del data[place : place + rng.choice([1, 1, 1, 4])]
            case 7:
                data[place:place] = data[place : place + rng.randrange(1, 9)]
    return bytes(data)


def refitted(rng, w, content_length, body):
    """The program with payloads of the length that its code asks for, where its code is right."""
    reader = reference.CodeReader(memoryview(bytes(9) + body), 0, content_length)
    try:
        reader.node(w, 8 * content_length // w, 1)
    except reference.Fault:
        return body
    size = reader.code.position - 9 + sum(node.payload_size for node in reader.nodes)
    return body[:size] + rng.randbytes(min(size - len(body), 10000)) if size > len(body) else body[:size]


# Archives. Theirs are layouts and metadata too.


def reference_verdict(w, content_length, body, offset=1000):
    """What the reference makes of a program: (error class or "content", offset or content)."""
    body = memoryview(bytes(9) + body)
    try:
        root = reference.read_program(body, offset + 16, w, content_length)
        return "content", reference.bytes_from_words(reference.run(root), w)
    except reference.Fault as fault:
        return fault.kind, offset if fault.offset is None else fault.offset


def with_content_crc(body):
    """The body of a chunk or layout with the right CRC of its content, where it has a content."""
    if len(body) < 10:
        return body
    content_length, _, w = struct.unpack("<IIB", body[:9])
    if not (1 <= content_length <= 1 << CHUNK_LOG2 and 1 <= w <= 64 and 8 * content_length % w == 0):
        return body
    verdict, content = reference_verdict(w, content_length, body[9:])
    return body[:4] + struct.pack("<I", crc32(content)) + body[8:] if verdict == "content" else body


def draw_layout_text(rng):
    count = rng.randrange(4)
    text = varint(rng.randrange(3)) + varint(count)
    for _ in range(count):
        name = rng.choice(["", "w", "é", "model.layers.0"]).encode()
        dtype = rng.choice([b"", b"BF16", b"F8_E4M3"])
        shape = [rng.choice([0, 1, 7, 300, rng.getrandbits(64)]) for _ in range(rng.randrange(4))]
        text += varint(rng.choice([0, 2, rng.getrandbits(40)]))
        text += varint(rng.choice([0, 9, rng.getrandbits(62), (1 << 64) - 1 - rng.randrange(5)]))
        text += varint(len(name)) + name + varint(len(dtype)) + dtype
        text += varint(len(shape)) + b"".join(map(varint, shape))
    return text


def draw_metadata(rng):
    keys = sorted(rng.sample([b"", b"a", b"ab", b"b", "é".encode(), "\U0001f600".encode(), b"source"], 3))
    values = [rng.randbytes(rng.randrange(4)) for _ in keys]
    return b"".join(varint(len(x)) + x for pair in zip(keys, values, strict=True) for x in pair)


def draw_chunk(rng):
    while True:
        w, content_length, code, payloads = draw_program(rng, 500)
        if content_length <= 1 << CHUNK_LOG2:
            body = struct.pack("<IIB", content_length, 0, w) + code + payloads
            return record(1, with_content_crc(body))


def draw_record(rng):
    match rng.randrange(9):
        case 0 | 1 | 2 | 3:
            return draw_chunk(rng)
        case 4 | 5:
            return layout(draw_layout_text(rng))
        case 6:
            return record(0x82, draw_metadata(rng))
        case 7:
            return record(0x83, bytes(rng.randrange(9)))
    return record(rng.choice([0x80, 0x84, 0xFF]), rng.randbytes(rng.randrange(9)))


def draw_records(rng):
    """The records of each member."""
    return [[draw_record(rng) for _ in range(rng.randrange(5))] for _ in range(rng.choice([1, 1, 2]))]


def archive(records):
    return b"".join(member(*row, c=CHUNK_LOG2) for row in records)


def bomb_archive(rng):
    """One chunk of a program that no decoder has run, so the CRC of its content is a guess: all zero."""
    w, size, code, payloads = draw_bomb(rng)
    body = struct.pack("<IIB", size, crc32(bytes(size)), w) + code + payloads
    return member(record(1, body), c=24)


def changed_unit(rng, unit):
    """A header or record with changes in it, and with right CRCs."""
    if unit[:1] == b"\x89":
        return with_crc(changed(rng, unit[:28])[:28].ljust(28, b"\0"))
    head, body = unit[:12], unit[16:-4]
    if rng.random() < 0.2:
        head = changed(rng, head)[:12].ljust(12, b"\0")
        return with_crc(head) + with_crc(body)
    begin = rng.choice([0, 0, min(9, len(body))])
    body = changed(rng, body, begin, begin + rng.choice([10, 40, 1000]))
    if head[3] in (1, 0x81) and rng.random() < 0.8:
        body = with_content_crc(body)
    return with_crc(head[:4] + struct.pack("<Q", len(body))) + with_crc(body)


def changed_archive(rng, records):
    data = archive(records)
    match rng.randrange(6):
        case 0:
            return data[: rng.randrange(len(data) + 1)]
        case 1:
            return changed(rng, data)
        case 2 | 3:  # a unit
            pieces = units(data)
            i = rng.randrange(len(pieces))
            pieces[i] = changed_unit(rng, pieces[i])
        case 4:  # their order
            pieces = units(data)
            i, j = rng.randrange(len(pieces)), rng.randrange(len(pieces))
            pieces[i:i] = rng.choice([[pieces[j]], [record(0x83, b"")], [header(CHUNK_LOG2)]])
            if rng.random() < 0.5:
                del pieces[rng.randrange(len(pieces))]
        case _:  # a record, with an index and a footer that know it
            row = rng.choice(records)
            pieces = [archive([other]) for other in records if other is not row]
            row = [changed_unit(rng, item) if rng.random() < 0.6 else item for item in row]
            sound = all(len(item) >= 30 for item in row if item[3] in (1, 0x81))
            pieces.insert(0, archive([row]) if sound else b"".join([header(CHUNK_LOG2), *row]))
    return b"".join(pieces)


def archives(rng, times):
    """An archive, and `times` that differ from it by changes."""
    records = draw_records(rng)
    data = archive(records)
    yield data
    for _ in range(times):
        made = data
        while made == data:
            made = changed_archive(rng, records)
        yield made
