"""The compiled core against spec/reference.py: same bytes, or the same error class at the same offset.

Programs are drawn straight from the grammar of FORMAT.md, with literals from the encoders of
test_reference.py, which share no code with either decoder. Then bytes of programs and of whole archives are
changed, and CRCs made right again. JUDGE_SEEDS=1000 judges that many seeds instead of a few.
"""

import io
import math
import os
import random
import struct
from zlib import crc32

import pytest
import zstandard
from test_reference import (
    const,
    exp_golomb,
    field,
    header,
    huffman,
    layout,
    member,
    node,
    pack,
    rans,
    raw,
    record,
    reference,
    rich_archive,
    table_bits,
    to_bytes,
    varint,
    with_crc,
)

from brevis import codec, errors
from brevis.interp import run
from brevis.program import Program, write

SEEDS = range(int(os.environ.get("JUDGE_SEEDS", "8")))
KINDS = {
    errors.MalformedError: "malformed",
    errors.TruncatedError: "truncated",
    errors.CorruptError: "corrupt",
    errors.UnsupportedError: "unsupported",
    errors.InvalidProgramError: "invalid",
}
OPCODES = [1, 2, 3, 4, 5, *range(0x10, 0x19)]

# Literals for given words


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
    for i, x in enumerate(f):
        e = max(x.bit_length() - 1 - p, 0)
        numbers.append((e << p) + (x >> e))
        f[i] = x >> e << e
    f[f.index(max(f))] += (1 << k) - sum(f)
    table = to_bytes(table_bits(symbols, numbers, w, p, g=order(rng, 64), d=order(rng, 16)))
    q = rng.randrange(len(words) // 40, len(words)) + 1
    blocks, lanes_log = -(-len(words) // q), rng.randrange(7)
    return rans(words, dict(zip(symbols, f, strict=True)), w, k, lanes_log, blocks, table)


def packed_literal(rng, words, w):
    base = max(min(words) - rng.choice([0, 0, 1, 5]), 0)
    if rng.random() < 0.3:
        base = rng.getrandbits(w)
    fields = [(x - base) % (1 << w) for x in words]
    least = max(max(fields).bit_length(), 1)
    if least >= w:
        return None
    v = rng.choice([least, rng.randrange(least, w)])
    return node(2, v, base, payload=pack(fields, v))


def zstd_literal(rng, words, w):
    content = pack(words, w)
    options = zstandard.ZstdCompressionParameters.from_level(
        rng.choice([-5, 1, 3, 19]),
        source_size=len(content),
        window_log=rng.choice([10, 17]),
        write_checksum=rng.random() < 0.5,
    )
    frame = zstandard.ZstdCompressor(compression_params=options).compress(content)
    return node(5, len(frame), payload=frame)


def const_literal(rng, words, w):
    return const(words[0]) if len(set(words)) == 1 else None


def mapped_literal(rng, words, w):
    c = rng.getrandbits(w)
    return node(0x13, 0, c, children=[literal(rng, [x ^ c for x in words], w)])


def raw_literal(rng, words, w):
    return raw(pack(words, w))


LITERALS = [
    raw_literal,
    packed_literal,
    huffman_literal,
    huffman_literal,
    rans_literal,
    rans_literal,
    zstd_literal,
    const_literal,
    mapped_literal,
]


def literal(rng, words, w):
    return rng.choice(LITERALS)(rng, words, w) or raw_literal(rng, words, w)


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


# Programs, from the grammar


def divisors(n):
    return [d for d in range(1, min(n, 5000)) if n % d == 0] + [n]


def parts(rng, total, most):
    k = rng.randrange(2, min(total, most if rng.random() < 0.02 else 4) + 1)
    return cut(rng, total, k)


def concat(rng, w, n, depth):
    if n >= 2:
        sizes = parts(rng, n, 256)
        depth = 1 if len(sizes) > 4 else depth
        return node(0x11, len(sizes), *sizes[:-1], children=[program(rng, w, x, depth) for x in sizes])


def repeat(rng, w, n, depth):
    if n >= 2:
        k = rng.choice(divisors(n)[1:])
        return node(rng.choice([0x12, 0x16]), k, children=[program(rng, w, n // k, depth)])


def mapped(rng, w, n, depth):
    f = rng.randrange(6)
    if f == 4 and w == 1:
        return None
    operands = [rng.getrandbits(w)] if f < 2 else [rng.randrange(1, w)] if f == 4 else []
    return node(0x13, f, *operands, children=[program(rng, w, n, depth)])


def scan(rng, w, n, depth):
    if n >= 2:
        return node(0x14, rng.randrange(2), rng.getrandbits(w), children=[program(rng, w, n - 1, depth)])


def merge(rng, w, n, depth):
    if w >= 2:
        widths = parts(rng, w, w)
        depth = 1 if len(widths) > 4 else depth
        children = [program(rng, x, n, depth) for x in widths]
        return node(0x15, len(widths), *widths[:-1], children=children)


def weave(rng, w, n, depth):
    if n >= 2:
        sizes = parts(rng, n, 256)
        selectors = [j for j, size in enumerate(sizes) for _ in range(size)]
        if rng.random() < 0.7:
            rng.shuffle(selectors)
        depth = 1 if len(sizes) > 4 else depth
        width = (len(sizes) - 1).bit_length()
        any_words = rng.random() < 0.03
        selector = program(rng, width, n, depth) if any_words else literal(rng, selectors, width)
        children = [program(rng, w, size, depth) for size in sizes]
        return node(0x17, len(sizes), *sizes[:-1], children=[selector, *children])


def lookup(rng, w, n, depth):
    runs = [r for r in divisors(n) if 2 * r <= n]
    if runs:
        r = rng.choice([1, rng.choice(runs)])
        m = rng.choice([2, min(n // r, 256), rng.randrange(2, n // r + 1)])
        width = (m - 1).bit_length()
        if m == 1 << width or rng.random() < 0.03:
            index = program(rng, width, n // r, depth)
        else:
            index = literal(rng, [rng.randrange(m) for _ in range(n // r)], width)
        return node(0x18, r, m, children=[index, program(rng, w, m * r, depth)])


COMBINATIONS = [concat, repeat, mapped, mapped, scan, merge, weave, lookup]


def program(rng, w, n, depth):
    """A program of type (w, n) and at most that depth, as a pair of code and payloads."""
    if depth > 1 and rng.random() < 0.8:
        made = rng.choice(COMBINATIONS)(rng, w, n, depth - 1)
        if made:
            return made
    return literal(rng, draw_words(rng, w, n), w)


def draw_program(rng, most=3000, least=1):
    """(width, content length, code, payloads), of about so many words."""
    w = rng.choice([1, 2, 4, 8, 8, 12, 16, 16, 32, 64, *[rng.randrange(1, 65)] * 5])
    step = 8 // math.gcd(w, 8)
    n = rng.choice([rng.randrange(1, 30), 24, 120, 360, 720, 2520, rng.randrange(1, most)])
    n = -(-max(min(n, most), least) // step) * step
    code, payloads = program(rng, w, n, rng.randrange(1, 7))
    if rng.random() < 0.01:  # depths around the limit
        for _ in range(rng.randrange(24, 33)):
            code = bytes([0x13, rng.choice([2, 3, 5])]) + code
    return w, w * n // 8, code, payloads


def draw_code(rng):
    """Any bytes, with more opcodes and small numbers among them than by chance."""
    code = bytes(
        rng.choice(OPCODES) if rng.random() < 0.5 else rng.choice([0, 1, 2, 3, 4, 8, rng.randrange(256)])
        for _ in range(rng.randrange(1, 60))
    )
    w = rng.randrange(1, 65)
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
                data[place] = rng.choice([*OPCODES, 0, 127, 128, 255, rng.randrange(256)])
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


# Verdicts: content, or error class and offset


def core_verdict(w, content_length, body, shift=0, offset=1000, program_offset=1025):
    room = bytearray(b"\xa5" * (content_length + shift + 16))
    try:
        run(body, w, memoryview(room)[shift : shift + content_length], offset, program_offset)
    except errors.Error as error:
        return KINDS[type(error)], error.offset
    finally:
        assert room[:shift] == b"\xa5" * shift and room[shift + content_length :] == b"\xa5" * 16
    assert write(Program.parse(body, w, content_length).term()) == body
    return "content", bytes(room[shift : shift + content_length])


def reference_verdict(w, content_length, body, offset=1000):
    body = memoryview(bytes(9) + body)
    try:
        root = reference.read_program(body, offset + 16, w, content_length)
        return "content", reference.bytes_from_words(reference.run(root), w)
    except reference.Fault as fault:
        return fault.kind, offset if fault.offset is None else fault.offset


def judge(w, content_length, body, shift=0):
    """The verdict of both; they must be the same."""
    core = core_verdict(w, content_length, body, shift)
    right = reference_verdict(w, content_length, body)
    assert core == right, f"w {w}, D {content_length}, program {body.hex()}"
    return right[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_programs(seed):
    rng = random.Random(seed)
    verdicts = [judge_program(rng) for _ in range(40)]
    assert verdicts.count("content") > 25


def judge_program(rng, most=3000, least=1):
    w, content_length, code, payloads = draw_program(rng, most, least)
    return judge(w, content_length, code + payloads, rng.randrange(8))


@pytest.mark.parametrize("seed", SEEDS)
def test_changed_programs(seed):
    rng = random.Random(seed)
    seen = {verdict for _ in range(25) for verdict in judge_changed(rng, 8)}
    assert {"content", "corrupt", "invalid"} <= seen


def judge_changed(rng, times):
    w, content_length, code, payloads = draw_program(rng, 800) if rng.random() < 0.9 else draw_code(rng)
    for _ in range(times):
        if rng.random() < 0.7:
            body = changed(rng, code) + payloads
        else:
            body = changed(rng, code + payloads, len(code))
        if rng.random() < 0.7:
            body = refitted(rng, w, content_length, body)
        yield judge(w, content_length, body, rng.randrange(8))


@pytest.mark.parametrize("seed", SEEDS)
def test_long_programs(seed):
    """Streams of several tiles of the core."""
    rng = random.Random(seed)
    judge_program(rng, 60000, rng.randrange(16000, 60000))


def test_operands():
    """All small and all outstanding numbers as operands."""
    judge(8, 1, b"")
    for w, n in ((8, 12), (1, 16), (16, 1), (64, 256)):
        numbers = [0, 1, 2, 3, 4, 5, 6, 8, 12, 63, 64, 256, 257, (1 << w) - 1, 1 << w, (1 << 64) - 1]
        for op in OPCODES:
            for first in numbers:
                for second in numbers:
                    code = bytes([op]) + varint(first) + varint(second)
                    for body in (code, code + b"\1\4" + b"\x10\0" * 9):
                        judge(w, w * n // 8, refitted(random.Random(1), w, w * n // 8, body))
            for body in (b"\xff" * 9 + b"\2", b"\x80", b"\x80\0", b"\xff" * 12, b""):
                for first in (b"", b"\0", b"\1", b"\2", b"\6"):
                    judge(w, w * n // 8, bytes([op]) + first + body)


@pytest.mark.parametrize("seed", SEEDS)
def test_tables(seed):
    """Tables around the limits of each of their parts, mostly with nothing of use behind them."""
    rng = random.Random(seed)
    for _ in range(40):
        judge_table(rng)


def about(rng, x, least=0):
    """The number, or one near it, or one of fewer bits."""
    near = x + rng.choice([-1, 0, 0, 0, 1])
    return max(rng.choice([near, near, rng.getrandbits(rng.randrange(1, 65))]), least)


def judge_table(rng):
    """A literal of eight words whose table is nearly right."""
    w, k, is_rans = rng.choice([1, 8, 9, 16, 16, 63, 64]), rng.randrange(8, 16), rng.random() < 0.6
    runs = [rng.choice([1, 1, 2, 3, rng.randrange(1, 200)]) for _ in range(rng.choice([1, 1, 2, 3, 9]))]
    gaps = [about(rng, rng.choice([0, 0, 1, 30, 1 << 62])) for _ in runs[1:]]
    s, span = sum(runs), sum(runs) + sum(gaps) + len(gaps)
    bits = field(max(min(s - rng.choice([1] * 20 + [0, 2]), 4095), 0), 12)
    p, g, d, first = rng.randrange(16), rng.randrange(64), rng.randrange(16), about(rng, (1 << w) - span)
    bits += field(p, 4) if is_rans else ""
    bits += field(first % (1 << w), w) + field(g, 6) + field(d, 4)
    for i, length in enumerate(runs):
        if i:
            bits += exp_golomb(gaps[i - 1], g) if gaps[i - 1] < (1 << 64) - (1 << g) else "0" * 64
        bits += exp_golomb(length - 1, 1)
    if is_rans:
        numbers = [rng.randrange(1, (2 << min(k, p + rng.randrange(6))) // s + 2) for _ in range(s)]
    else:
        numbers = [min(i + 1, s - 1) if s < 14 else s.bit_length() - 1 for i in range(s)]
    if rng.random() < 0.4:
        numbers[rng.randrange(s)] = rng.choice([0, 1, 11, 12, 13, 255, 65535, 65536, 1 << 62])
    for before, number in zip([0, *numbers], numbers, strict=False):
        step = number - before
        bits += exp_golomb(2 * step if step >= 0 else -2 * step - 1, d)
    if rng.random() < 0.2:
        place = rng.randrange(len(bits))
        bits = bits[:place] + rng.choice(["", "1", "0" * 63, "0" * 64]) + bits[place + 1 :]
    table, states = to_bytes(bits), struct.pack("<I", rng.choice([65536] * 5 + [65535, rng.getrandbits(32)]))
    if is_rans:
        code = bytes([4, (k - 8) << 3, 1]) + varint(len(table)) + b"\4" + table + states
    else:
        rest = bytes(rng.randrange(3))
        code = b"\3" + varint(len(table) + len(rest)) + table + rest
    return judge(w, w, code)


def test_zstd_frames():
    """All descriptors of a frame and some windows, with all that the descriptor says is there (RFC 8878)."""
    seen = []
    for content in (b"abcdefgh", bytes(300)):
        block = struct.pack("<I", 1 | len(content) << 3)[:3] + content
        for descriptor in range(256):
            single, many = descriptor >> 5 & 1, (descriptor >> 5 & 1, 2, 4, 8)[descriptor >> 6]
            stated = len(content) - 256 * (many == 2)
            size = (stated % (1 << 64)).to_bytes(8, "little")[:many]
            for window in (0, 7, 0x70, 0x71, 0xFF)[: 1 if single else 5]:
                frame = b"\x28\xb5\x2f\xfd" + bytes([descriptor]) + (b"" if single else bytes([window]))
                frame += bytes((0, 1, 2, 4)[descriptor & 3]) + size + block
                for payload in (frame, frame[:-1], frame + b"\0", frame + b"\x50\x2a\x4d\x18" + bytes(4)):
                    seen.append(judge(8, len(content), node(5, len(payload))[0] + payload))
    assert seen.count("content") == 42
    for magic in (b"\x50\x2a\x4d\x18", *[bytes([x]) + b"\xb5\x2f\xfd" for x in range(0x1E, 0x2A)]):
        for size in range(1, 9):
            judge(8, 1, b"\5" + bytes([size]) + (magic + bytes(4))[:size])


def test_limit_of_nodes_and_depth():
    """Trees of the greatest number of nodes and depth, and around them."""

    def row(k):
        return node(0x11, k, *[1] * (k - 1), children=[const(1)] * k)

    for k in range(250, 258):
        for last in range(250, 258):
            code = node(0x11, 4, 300, 300, 300, children=[row(k)] * 3 + [row(last)])[0]
            judge(8, 1200, code)
    for depth in range(28, 36):
        judge(8, 4, b"\x13\5" * depth + b"\x10\1")
        judge(8, 4, b"\x13\5" * depth)


def test_limits_of_memory():
    """Words, buffer charges and blocks around their limits."""
    seen = set()
    for w, size in ((1, 100), (8, 4096), (8, 30000), (64, 24000)):
        n = 8 * size // w
        for maps in range(29):
            seen.add(judge(w, size, b"\x13\5" * maps + b"\x10\0"))
            seen.add(judge(w, size, b"\x12\2" * 3 + b"\x13\5" * maps + b"\x10\0"))
        for count in range(1, 12):
            table = bytes([0x18, 1]) + varint(n // 2)
            code = table * count + b"\x10\0" * (count + 1)
            seen.add(judge(w, size, code))
    for more in range(-2, 3):
        table = b"\x18\1" + varint(2 * 32768 + 65536 + more)  # a byte for each of its words
        assert judge(1, 32768, table + b"\x10\0\x10\0") == ("invalid" if more > 0 else "content")
        # 12 · 8,000 + 1,536 is 32 · 1,000 + 65,536
        code = b"\x13\5" * 10 + b"\x11\2" + varint(1536 + more) + b"\x13\5\x10\0" + b"\x10\1"
        assert judge(1, 1000, code) == ("invalid" if more > 0 else "content")
    for blocks in range(65534, 65539):  # of which only the code is there, so the offset tells
        judge(8, blocks, b"\4\0" + varint(blocks) + b"\1" + b"\4" * blocks)
    assert seen == {"content", "invalid"}


@pytest.mark.parametrize("lanes_log", range(8))
def test_words_for_each_lane(lanes_log):
    """Blocks of around 65,536 words a lane; only the code is there, so the offset tells."""
    most = 65536 << lanes_log
    for blocks in (1, 2, 3, 7):
        for n in {blocks * most + more for more in (-1, 0, 1, blocks)} | {blocks * 65536, blocks * 65536 + 1}:
            sizes = varint(4 << lanes_log) * blocks
            if n <= 1 << 24:
                judge(8, n, b"\4" + bytes([lanes_log, blocks, 1]) + sizes)


def test_sums_of_sizes():
    """P3 where sizes sum to 2^64 or so, in one literal or two, and the rest of the sum is there or not."""
    near = [(1 << 63) + more for more in (-2, 0, 2)] + [(1 << 64) - more for more in (2, 4, 20)]
    for one in near:
        for two in [*near, 4, 6, 18, 20, 24]:
            for rest in (0, 1, 4, 14, 16):
                sizes = varint(two) + varint(one)
                judge(8, 8, b"\4\0\2" + varint(10) + sizes + bytes(rest))
                judge(8, 8, b"\x11\2\4\3" + varint(one) + b"\4\0\1" + varint(1) + varint(two) + bytes(rest))
                judge(8, 8, b"\x11\2\4\4\0\2" + varint(10) + sizes + b"\x10\xff\2" + bytes(rest))
                judge(8, 8, b"\x11\2\4\4\0\2" + varint(10) + sizes + b"\x42" + bytes(rest))


# Whole archives. Theirs are layouts and metadata too.

CHUNK_LOG2 = 12


def chunk_body(w, content_length, program, crc):
    return struct.pack("<IIB", content_length, crc, w) + program


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


def draw_record(rng):
    match rng.randrange(9):
        case 0 | 1 | 2 | 3:
            w, content_length, code, payloads = draw_program(rng, 500)
            if content_length <= 1 << CHUNK_LOG2:
                body = chunk_body(w, content_length, code + payloads, 0)
                return record(1, with_content_crc(body))
        case 4 | 5:
            return layout(draw_layout_text(rng))
        case 6:
            return record(0x82, draw_metadata(rng))
        case 7:
            return record(0x83, bytes(rng.randrange(9)))
    return record(rng.choice([0x80, 0x84, 0xFF]), rng.randbytes(rng.randrange(9)))


def draw_records(rng):
    return [[draw_record(rng) for _ in range(rng.randrange(5))] for _ in range(rng.choice([1, 1, 2]))]


def units(data):
    """Headers and records of a sound archive."""
    out = []
    while data:
        is_header = data[:1] == b"\x89"
        size = 32 if is_header else struct.unpack("<Q", data[4:12])[0] + 20
        out.append(data[:size])
        data = data[size:]
    return out


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
    data = b"".join(member(*row, c=CHUNK_LOG2) for row in records)
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
            pieces = [member(*other, c=CHUNK_LOG2) for other in records if other is not row]
            row = [changed_unit(rng, item) if rng.random() < 0.6 else item for item in row]
            sound = all(len(item) >= 30 for item in row if item[3] in (1, 0x81))
            pieces.insert(0, member(*row, c=CHUNK_LOG2) if sound else b"".join([header(CHUNK_LOG2), *row]))
    return b"".join(pieces)


def core_archive_verdict(data, with_layouts):
    """(content, error class, offset, layout entries)."""
    content, entries = b"", []
    blocks = codec.decode_blocks(
        io.BytesIO(data).read, threads=1, on_layout=entries.extend if with_layouts else None
    )
    fault, offset = None, None
    try:
        for block in blocks:
            content += block
    except errors.Error as error:
        fault, offset = KINDS[type(error)], error.offset
    return content, fault, offset, [(e.name, e.dtype, list(e.shape), e.begin, e.end) for e in entries]


def reference_archive_verdict(data, with_layouts):
    entries, verdict = reference.layouts(data) if with_layouts else ([], reference.decode(data))
    entries = [(e.name, e.dtype, e.dimensions, e.start, e.start + e.length) for e in entries]
    return verdict.content, verdict.fault, verdict.offset, entries


def judge_archive(data):
    for with_layouts in (False, True):
        core = core_archive_verdict(data, with_layouts)
        right = reference_archive_verdict(data, with_layouts)
        assert core == right, f"archive {data.hex()}, with layouts: {with_layouts}"
    return right[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_archives(seed):
    rng = random.Random(seed)
    seen = {verdict for _ in range(8) for verdict in judge_archives(rng, 12)}
    assert {None, "truncated", "corrupt", "malformed"} <= seen


def test_every_truncation_and_flip():
    data = member(*rich_archive()[1])
    for place in range(len(data)):
        judge_archive(data[:place])
        for bit in range(8):
            judge_archive(data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :])


def test_headers_of_members():
    good = header()[:28]
    for place in range(8, 28):
        for value in range(0, 256, 1 if place < 12 else 51):
            changed_header = with_crc(good[:place] + bytes([value]) + good[place + 1 :])
            judge_archive(changed_header + member()[32:])
            judge_archive(member() + changed_header)


def test_headers_of_records():
    lengths = [0, 2, 9, 10, 35, 36, 37, *[(1 << c) + 65536 + more for c in (12, 13) for more in (0, 1)]]
    lengths += [x + more for x in (1 << 24, 1 << 32, 1 << 63, (1 << 64) - 21) for more in (0, 1, 20)]
    for tag in range(256):
        for length in lengths:
            judge_archive(header() + record(tag, b"", length=length))
        for body in (b"", bytes(2), bytes(10), bytes(36), b"\2\0\0", b"\0\x10\0\0\0\0\0\0\x08\x63"):
            judge_archive(member(between=record(tag, body)))
            judge_archive(header() + record(tag, body) + member())


@pytest.mark.parametrize("seed", SEEDS)
def test_layouts_and_metadata(seed):
    rng = random.Random(seed)
    seen = {judge_notes(rng) for _ in range(40)}
    assert {None, "malformed"} <= seen


def judge_notes(rng):
    text, pairs = draw_layout_text(rng), draw_metadata(rng)
    if rng.random() < 0.5:
        text = changed(rng, text)
    if rng.random() < 0.5:
        pairs = changed(rng, pairs)
    first = layout(text[: 1 << CHUNK_LOG2] or b"\0")
    return judge_archive(member(first, record(0x82, pairs), c=CHUNK_LOG2))


def test_heads_of_layouts():
    """L1, for who looks at layouts and who does not."""
    for c in (12, 19, 20, 21, 24):
        for size in (0, 1, 2, (1 << c) - 1, (1 << c) + 1, 1 << 20, (1 << 20) + 1, (1 << 32) - 1):
            for w in (0, 1, 7, 8, 16, 64, 65, 255):
                body = struct.pack("<IIB", size, 0, w) + b"\x63"
                judge_archive(member(record(0x81, body), c=c))


def judge_archives(rng, times):
    records = draw_records(rng)
    yield judge_archive(b"".join(member(*row, c=CHUNK_LOG2) for row in records))
    for _ in range(times):
        yield judge_archive(changed_archive(rng, records))
