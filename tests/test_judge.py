"""The compiled core against spec/reference.py: same bytes, or the same error class at the same offset.

Random programs and archives are those of fuzz/gen.py, with the verdicts of fuzz/judge.py. Here they get
longer, and numbers, tables and heads go around their limits. JUDGE_SEEDS=1000 judges that many seeds instead
of a few.
"""

import os
import random
import struct
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fuzz"))

import gen
from gen import CHUNK_LOG2, changed, refitted
from judge import check_archive, check_program
from parts import const, header, layout, member, node, record, with_crc
from test_reference import rich_archive
from vector_programs import bit_field, bytes_of_bits, exp_golomb, varint

SEEDS = range(int(os.environ.get("JUDGE_SEEDS", "8")))
OPCODES = list(gen.NUMBERS.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_programs(seed):
    rng = random.Random(seed)
    verdicts = [judge_program(rng) for _ in range(40)]
    assert verdicts.count("content") > 25


def judge_program(rng, most=3000, least=1):
    w, content_length, code, payloads = gen.draw_program(rng, most, least)
    return check_program(w, content_length, code + payloads, rng.randrange(8))


@pytest.mark.parametrize("seed", SEEDS)
def test_changed_programs(seed):
    rng = random.Random(seed)
    seen = {verdict for _ in range(25) for verdict in judge_changed(rng, 8)}
    assert {"content", "corrupt", "invalid"} <= seen


def judge_changed(rng, times):
    drawn = gen.draw_program(rng, 800) if rng.random() < 0.9 else gen.draw_code(rng)
    w, content_length, code, payloads = drawn
    for _ in range(times):
        if rng.random() < 0.7:
            body = changed(rng, code) + payloads
        else:
            body = changed(rng, code + payloads, len(code))
        if rng.random() < 0.7:
            body = refitted(rng, w, content_length, body)
        yield check_program(w, content_length, body, rng.randrange(8))


@pytest.mark.parametrize("seed", SEEDS)
def test_long_programs(seed):
    """Streams of several tiles of the core."""
    rng = random.Random(seed)
    judge_program(rng, 60000, rng.randrange(16000, 60000))


def test_operands():
    """All small and all outstanding numbers as operands."""
    check_program(8, 1, b"")
    for w, n in ((8, 12), (1, 16), (16, 1), (64, 256)):
        numbers = [0, 1, 2, 3, 4, 5, 6, 8, 12, 63, 64, 256, 257, (1 << w) - 1, 1 << w, (1 << 64) - 1]
        for op in OPCODES:
            for first in numbers:
                for second in numbers:
                    code = bytes([op]) + varint(first) + varint(second)
                    for body in (code, code + b"\1\4" + b"\x10\0" * 9):
                        check_program(w, w * n // 8, refitted(random.Random(1), w, w * n // 8, body))
            for body in (b"\xff" * 9 + b"\2", b"\x80", b"\x80\0", b"\xff" * 12, b""):
                for first in (b"", b"\0", b"\1", b"\2", b"\6"):
                    check_program(w, w * n // 8, bytes([op]) + first + body)


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
    bits = bit_field(max(min(s - rng.choice([1] * 20 + [0, 2]), 4095), 0), 12)
    p, g, d, first = rng.randrange(16), rng.randrange(64), rng.randrange(16), about(rng, (1 << w) - span)
    bits += bit_field(p, 4) if is_rans else ""
    bits += bit_field(first % (1 << w), w) + bit_field(g, 6) + bit_field(d, 4)
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
    table = bytes_of_bits(bits)
    states = struct.pack("<I", rng.choice([65536] * 5 + [65535, rng.getrandbits(32)]))
    if is_rans:
        code = bytes([4, (k - 8) << 3, 1]) + varint(len(table)) + b"\4" + table + states
    else:
        rest = bytes(rng.randrange(3))
        code = b"\3" + varint(len(table) + len(rest)) + table + rest
    return check_program(w, w, code)


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
                    seen.append(check_program(8, len(content), node(5, len(payload))[0] + payload))
    assert seen.count("content") == 42
    for magic in (b"\x50\x2a\x4d\x18", *[bytes([x]) + b"\xb5\x2f\xfd" for x in range(0x1E, 0x2A)]):
        for size in range(1, 9):
            check_program(8, 1, b"\5" + bytes([size]) + (magic + bytes(4))[:size])


def test_limit_of_nodes_and_depth():
    """Trees of the greatest number of nodes and depth, and around them."""

    def row(k):
        return node(0x11, k, *[1] * (k - 1), children=[const(1)] * k)

    for k in range(250, 258):
        for last in range(250, 258):
            code = node(0x11, 4, 300, 300, 300, children=[row(k)] * 3 + [row(last)])[0]
            check_program(8, 1200, code)
    for depth in range(28, 36):
        check_program(8, 4, b"\x13\5" * depth + b"\x10\1")
        check_program(8, 4, b"\x13\5" * depth)


def test_limits_of_memory():
    """Words, buffer charges and blocks around their limits."""
    seen = set()
    for w, size in ((1, 100), (8, 4096), (8, 30000), (64, 24000)):
        n = 8 * size // w
        for maps in range(29):
            seen.add(check_program(w, size, b"\x13\5" * maps + b"\x10\0"))
            seen.add(check_program(w, size, b"\x12\2" * 3 + b"\x13\5" * maps + b"\x10\0"))
        for count in range(1, 12):
            table = bytes([0x18, 1]) + varint(n // 2)
            code = table * count + b"\x10\0" * (count + 1)
            seen.add(check_program(w, size, code))
    for more in range(-2, 3):
        table = b"\x18\1" + varint(2 * 32768 + 65536 + more)  # a byte for each of its words
        assert check_program(1, 32768, table + b"\x10\0\x10\0") == ("invalid" if more > 0 else "content")
        # 12 · 8,000 + 1,536 is 32 · 1,000 + 65,536
        code = b"\x13\5" * 10 + b"\x11\2" + varint(1536 + more) + b"\x13\5\x10\0" + b"\x10\1"
        assert check_program(1, 1000, code) == ("invalid" if more > 0 else "content")
    for blocks in range(65534, 65539):  # of which only the code is there, so the offset tells
        check_program(8, blocks, b"\4\0" + varint(blocks) + b"\1" + b"\4" * blocks)
    assert seen == {"content", "invalid"}


@pytest.mark.parametrize("lanes_log", range(8))
def test_words_for_each_lane(lanes_log):
    """Blocks of around 65,536 words a lane; only the code is there, so the offset tells."""
    most = 65536 << lanes_log
    for blocks in (1, 2, 3, 7):
        for n in {blocks * most + more for more in (-1, 0, 1, blocks)} | {blocks * 65536, blocks * 65536 + 1}:
            sizes = varint(4 << lanes_log) * blocks
            if n <= 1 << 24:
                check_program(8, n, b"\4" + bytes([lanes_log, blocks, 1]) + sizes)


def test_sums_of_sizes():
    """P3 where sizes sum to 2^64 or so, in one literal or two, and the rest of the sum is there or not."""
    near = [(1 << 63) + more for more in (-2, 0, 2)] + [(1 << 64) - more for more in (2, 4, 20)]
    for one in near:
        for two in [*near, 4, 6, 18, 20, 24]:
            for rest in (0, 1, 4, 14, 16):
                sizes = varint(two) + varint(one)
                check_program(8, 8, b"\4\0\2" + varint(10) + sizes + bytes(rest))
                check_program(
                    8, 8, b"\x11\2\4\3" + varint(one) + b"\4\0\1" + varint(1) + varint(two) + bytes(rest)
                )
                check_program(8, 8, b"\x11\2\4\4\0\2" + varint(10) + sizes + b"\x10\xff\2" + bytes(rest))
                check_program(8, 8, b"\x11\2\4\4\0\2" + varint(10) + sizes + b"\x42" + bytes(rest))


# Whole archives


@pytest.mark.parametrize("seed", SEEDS)
def test_archives(seed):
    rng = random.Random(seed)
    seen = {check_archive(data) for _ in range(8) for data in gen.archives(rng, 12)}
    assert {"content", "truncated", "corrupt", "malformed"} <= seen


def test_every_truncation_and_flip():
    data = member(*rich_archive()[1])
    for place in range(len(data)):
        check_archive(data[:place])
        for bit in range(8):
            check_archive(data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :])


def test_headers_of_members():
    good = header()[:28]
    for place in range(8, 28):
        for value in range(0, 256, 1 if place < 12 else 51):
            changed_header = with_crc(good[:place] + bytes([value]) + good[place + 1 :])
            check_archive(changed_header + member()[32:])
            check_archive(member() + changed_header)


def test_headers_of_records():
    lengths = [0, 2, 9, 10, 35, 36, 37, *[(1 << c) + 65536 + more for c in (12, 13) for more in (0, 1)]]
    lengths += [x + more for x in (1 << 24, 1 << 32, 1 << 63, (1 << 64) - 21) for more in (0, 1, 20)]
    for tag in range(256):
        for length in lengths:
            check_archive(header() + record(tag, b"", length=length))
        for body in (b"", bytes(2), bytes(10), bytes(36), b"\2\0\0", b"\0\x10\0\0\0\0\0\0\x08\x63"):
            check_archive(member(between=record(tag, body)))
            check_archive(header() + record(tag, body) + member())


@pytest.mark.parametrize("seed", SEEDS)
def test_layouts_and_metadata(seed):
    rng = random.Random(seed)
    seen = {judge_notes(rng) for _ in range(40)}
    assert {"content", "malformed"} <= seen


def judge_notes(rng):
    text, pairs = gen.draw_layout_text(rng), gen.draw_metadata(rng)
    if rng.random() < 0.5:
        text = changed(rng, text)
    if rng.random() < 0.5:
        pairs = changed(rng, pairs)
    first = layout(text[: 1 << CHUNK_LOG2] or b"\0")
    return check_archive(member(first, record(0x82, pairs), c=CHUNK_LOG2))


def test_heads_of_layouts():
    """L1, for who looks at layouts and who does not."""
    for c in (12, 19, 20, 21, 24):
        for size in (0, 1, 2, (1 << c) - 1, (1 << c) + 1, 1 << 20, (1 << 20) + 1, (1 << 32) - 1):
            for w in (0, 1, 7, 8, 16, 64, 65, 255):
                body = struct.pack("<IIB", size, 0, w) + b"\x63"
                check_archive(member(record(0x81, body), c=c))
