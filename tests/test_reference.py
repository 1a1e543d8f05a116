"""Tests of spec/reference.py on archives built here by hand, from FORMAT.md alone.

The builder (fuzz/parts.py) and the encoders behind it share no code with the reference decoder. What makes
programs gives (code, payloads) pairs; `member` wraps records.
"""

import random
import struct
import subprocess
import sys
import time
from pathlib import Path
from zlib import crc32

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fuzz"))

from parts import (
    chunk,
    concat,
    const,
    header,
    huffman,
    layout,
    literal,
    member,
    node,
    rans,
    raw,
    record,
    reference,
    table_bits,
    u32,
    u64,
    with_crc,
)
from vector_programs import bit_field as field
from vector_programs import bytes_of_bits as to_bytes
from vector_programs import exp_golomb, pack, rans_block, varint

PATH = Path(reference.__file__)

# Asking for verdicts


def decoded(data):
    verdict = reference.decode(data)
    assert verdict.fault is None, verdict
    return verdict.content


def check_words(words, w, program):
    """The program gives these words, which may need zero words behind them to fill bytes."""
    content = pack(words, w)
    assert decoded(member(chunk(content, w, program), c=16)) == content


def refused(data, kind, rule, offset, content=b""):
    for verdict in (reference.decode(data), reference.layouts(data)[1]):
        assert (verdict.fault, verdict.offset, verdict.content) == (kind, offset, content), verdict
        assert verdict.message.startswith(f"[{rule}]"), verdict


def refused_program(program, kind, rule, at=None, content=b"\1\2\3\4", w=8, first=b"good"):
    """Refused behind a good chunk. `at` is the place in the code, or None for the record's start."""
    good = chunk(first, 8, raw(first))
    data = member(good, chunk(content, w, program))
    start = 32 + len(good)
    refused(data, kind, rule, start if at is None else start + 25 + at, content=first)


# §3: what is valid


def test_no_records():
    assert decoded(member()) == b""
    assert len(member()) == 32 + (16 + 2 + 4) + 56


def test_bytes_of_a_whole_archive():
    """An archive written out byte by byte; only CRCs are computed."""
    head = bytes.fromhex("89 42 52 56 0D 0A 1A 0A 01 0C 00 00") + bytes(16)
    first = bytes.fromhex("AB 72 C6 01 0D 00 00 00 00 00 00 00")
    chunk_body = bytes.fromhex("03 00 00 00") + u32(crc32(b"abc")) + bytes([8, 1]) + b"abc"
    second = bytes.fromhex("AB 72 C6 02 05 00 00 00 00 00 00 00")
    index_body = bytes([1, 0, 33, 3, 0])
    third = bytes.fromhex("AB 72 C6 03 24 00 00 00 00 00 00 00")
    footer_body = u64(146) + u64(3) + u64(1) + u64(65) + u32(crc32(u32(crc32(b"abc"))))
    data = b"".join(map(with_crc, (head, first, chunk_body, second, index_body, third, footer_body)))
    assert len(data) == 146
    assert data == member(chunk(b"abc", 8, raw(b"abc")))
    assert decoded(data) == b"abc"


def test_members_records_and_may_ignore():
    extra = [record(0x83, bytes(5)), record(0x80, b"later"), record(0xFF, b"")]
    extra.append(record(0x82, b"\1a\0" + b"\1b\1\xff"))
    one = member(chunk(b"ab", 8, raw(b"ab")), *extra, chunk(b"c", 8, raw(b"c")), record(0x82, b""))
    two = member(chunk(b"d", 8, raw(b"d")), c=24)
    two = header(24, may=5) + two[32:]
    assert decoded(one + two + member()) == b"abcd"


@pytest.mark.parametrize("c", [12, 24])
def test_bounds_of_c(c):
    content = bytes(1 << c)
    assert decoded(member(chunk(content, 8, const(0)), c=c)) == content
    refused(member(chunk(content + b"\0", 8, const(0)), c=c), "malformed", "K1", 32)


def test_layouts():
    text = b"\2" + b"\2" + b"\1\4\3w.0\3F16\2\2\1" + b"\0\0\2\xc3\xa9\0\0"
    records = [chunk(b"abcdefgh", 8, raw(b"abcdefgh")), layout(text), record(0x83, b""), layout(b"\0\0")]
    entries, verdict = reference.layouts(member() + member(*records))
    assert verdict == reference.Verdict(b"abcdefgh")
    assert entries == [
        reference.Entry(1, 3, 4, "w.0", "F16", [2, 1]),
        reference.Entry(1, 7, 0, "é", "", []),
    ]


MOST = b"\xff" * 9 + b"\1"


@pytest.mark.parametrize(
    "text",
    [
        b"\0\0\0",  # left over
        b"\0\1",  # missing
        b"\0\1\0\0\1",
        b"\0\1\0\0\0\0\1",
        b"\0\x80\0",  # V1: not the shortest
        b"\0\1\0\0\1\xff\0\0",  # not UTF-8
        b"\0\1\0\0\3\xed\xa0\x80\0\0",  # a surrogate
        b"\0\1\0\0\0\1\x80\0",  # not ASCII
        b"\0\1\0\0\0\0\x80\2" + b"\1" * 256,  # rank
        b"\0\1\0\0\0\x80\2" + b"a" * 256 + b"\0",  # dtype
        MOST + b"\1\0\1\0\0\0",  # range end
        b"\0" + MOST,  # count
    ],
)
def test_bad_layouts(text):
    data = member(chunk(b"x", 8, raw(b"x")), layout(text))
    start = 32 + 16 + 11 + 4
    verdict = reference.layouts(data)[1]
    assert (verdict.fault, verdict.offset, verdict.content) == ("malformed", start, b"x")
    assert verdict.message.startswith("[L2]")
    assert decoded(data) == b"x"  # [L3]


def test_layouts_at_their_limits():
    long_name = b"\0\1\0\0" + varint(65535) + b"a" * 65535 + b"\0\0"
    assert len(reference.layouts(member(layout(long_name), c=24))[0][0].name) == 65535
    long_name = b"\0\1\0\0" + varint(65536) + b"a" * 65536 + b"\0\0"
    assert reference.layouts(member(layout(long_name), c=24))[1].fault == "malformed"
    large_product = b"\0\1\0\0\0\0\3" + MOST + b"\2\0"
    assert reference.layouts(member(layout(large_product)))[0][0].dimensions == [(1 << 64) - 1, 2, 0]
    large_product = b"\0\1\0\0\0\0\2" + MOST * 2
    assert reference.layouts(member(layout(large_product)))[1].fault is None


def test_layouts_are_programs():
    for program, kind, rule, offset in [
        (node(0x63), "unsupported", "[P1]", 32 + 25),
        (node(0x13, 6), "unsupported", "[P1]", 32 + 25),
        (node(0x10), "invalid", "[P2]", 32 + 25),
        (raw(b"\0"), "invalid", "[P3]", 32 + 26),
        (const(1), "corrupt", "[K3]", 32),
    ]:
        data = member(layout(b"\0\0", program=program))
        verdict = reference.layouts(data)[1]
        assert (verdict.fault, verdict.offset, verdict.message[:4]) == (kind, offset, rule)
        assert decoded(data) == b""  # [L3]


def test_heads_of_layouts():
    """[L1] holds even where nobody looks at layouts."""
    refused(member(layout(b"\0\0", w=16)), "malformed", "L1", 32)
    refused(member(layout(b"\0\0", w=7)), "malformed", "L1", 32)
    refused(member(layout(b"\0\0", length=0)), "malformed", "L1", 32)
    refused(member(layout(b"\0\0", length=4097)), "malformed", "L1", 32)
    refused(member(layout(b"\0\0", length=(1 << 20) + 1), c=21), "malformed", "L1", 32)
    refused(member(layout(b"\0\0", length=(1 << 20) + 1), c=20), "malformed", "L1", 32)
    text = b"\0\x10"
    for size in [65535] * 15 + [65437]:
        text += b"\0\0" + varint(size) + b"a" * size + b"\0\0"
    assert len(text) == 1 << 20
    entries, verdict = reference.layouts(member(layout(text), c=21))
    assert verdict.fault is None and len(entries) == 16


# §3: what is not


@pytest.mark.parametrize("before", [b"", member(chunk(b"one", 8, raw(b"one")))])
def test_header_rules(before):
    content, at = (b"one" if before else b""), len(before)
    rest = member()[32:]

    def no(data, kind, rule, offset=at):
        refused(before + data, kind, rule, offset, content)

    no(header(magic=b"\x89BRV\r\n\x1a\r") + rest, "malformed", "H1")
    no(b"\x88", "malformed", "H1")
    no(b"\x89B\0", "malformed", "H1")
    no(b"\x89B", "truncated", "H2", at + 2)
    no(header()[:31], "truncated", "H2", at + 31)
    no(header()[:28] + bytes(4) + rest, "corrupt", "H3")
    no(header(version=2, must=1, c=99) + rest, "unsupported", "H4")
    no(header(version=0) + rest, "unsupported", "H4")
    no(header(must=1 << 63, c=99) + rest, "unsupported", "H5")
    no(header(zero=256) + rest, "malformed", "H6")
    no(header(c=11) + rest, "malformed", "H6")
    no(header(c=25) + rest, "malformed", "H6")


def test_empty_file():
    refused(b"", "truncated", "H2", 0)


def test_record_rules():
    good = chunk(b"one", 8, raw(b"one"))
    before = header() + good
    at = len(before)

    def no(data, kind, rule, offset=at):
        refused(before + data, kind, rule, offset, b"one")

    no(b"\xab\x72\xc5", "malformed", "R1")
    no(b"\xab\x73", "malformed", "R1")
    no(b"", "truncated", "R2", at)
    no(good[:15], "truncated", "R2", at + 15)
    no(good[:12] + bytes(4) + good[16:], "corrupt", "R3")
    no(record(0x04, b"", length=1 << 63), "unsupported", "R4")
    no(record(0x00, b""), "unsupported", "R4")
    no(record(0x7F, b""), "unsupported", "R4")
    no(record(0x84, b"", length=(1 << 64) - 1), "truncated", "R6", at + 20)
    no(record(0x84, b"abc")[:-1] + b"\0", "corrupt", "R7")
    for tag in (0x01, 0x81):
        no(record(tag, bytes(9)), "malformed", "R5")
        no(record(tag, b"", length=(1 << 13) + 65537), "malformed", "R5")
        no(record(tag, b"", length=(1 << 13) + 65536), "truncated", "R6", at + 20)
    for tag in (0x82, 0x83):
        no(record(tag, b"", length=(1 << 24) + 1), "malformed", "R5")
        no(record(tag, b"", length=1 << 24), "truncated", "R6", at + 20)
    no(record(2, b"", length=4), "malformed", "R5")
    no(record(2, b"", length=5), "truncated", "R6", at + 20)
    no(record(3, b"", length=35), "malformed", "R5")
    no(good[:-1], "truncated", "R6", at + len(good) - 1)
    no(good[:-1] + bytes([good[-1] ^ 1]), "corrupt", "R7")
    no(record(3, bytes(36)), "malformed", "R8")


def test_index_and_footer_last():
    good = chunk(b"one", 8, raw(b"one"))
    listing_at = 32 + len(good)
    behind_index = listing_at + 16 + 5 + 4
    for extra in (good, record(0x83, b""), record(0x99, b""), record(2, bytes([1, 0, 33, 3, 0]))):
        refused(member(good, between=extra), "malformed", "R8", behind_index, b"one")
    refused(member(good, between=record(0x44, b"")), "unsupported", "R4", behind_index, b"one")
    refused(member(good, between=record(2, b"\0\0")), "malformed", "R5", behind_index, b"one")
    refused(member(good, behind=b"\0"), "malformed", "H1", behind_index + 56, b"one")
    refused(member(good, behind=good), "malformed", "H1", behind_index + 56, b"one")


def test_metadata_and_pad_rules():
    for text in (b"\1b\0\1a\0", b"\1a\0\1a\0", b"\1\xff\0", b"\1a", b"\2a", b"\1a\5x", b"\x81\0a\0"):
        refused(member(record(0x82, text)), "malformed", "M1", 32)
    refused(member(record(0x83, b"\0\0\1")), "malformed", "M2", 32)
    again = record(0x82, b"\1a\2\xff\x80")  # a value of any bytes; a later record replaces it
    assert decoded(member(again, record(0x82, b"\0\0\1a\0"))) == b""


def test_index_rules():
    records = [record(0x83, b"\0"), chunk(b"a", 8, raw(b"a")), layout(b"\0\0"), chunk(b"b", 8, raw(b"b"))]
    listing = bytes([2, 21, 31, 1, 32, 31, 1, 1, 52, 32])
    assert decoded(member(*records, index=lambda right: listing)) == b"ab"
    at = 32 + sum(map(len, records))
    for i in range(len(listing)):
        changed = bytearray(listing)
        changed[i] += 1
        refused(member(*records, index=lambda _, to=bytes(changed): to), "malformed", "I1", at, b"ab")
    refused(member(*records, index=lambda right: right + b"\0"), "malformed", "R5", at, b"ab")


def test_footer_rules():
    data = member(chunk(b"a", 8, raw(b"a")))
    for i in range(36):
        changed = member(
            chunk(b"a", 8, raw(b"a")),
            footer=lambda right, i=i: right[:i] + bytes([right[i] ^ 16]) + right[i + 1 :],
        )
        refused(changed, "malformed", "F1", len(data) - 56, b"a")


def test_chunk_rules():
    for changes in ({"length": 0}, {"length": 4097}, {"length": (1 << 32) - 1}):
        data = header() + chunk(b"abc", 8, raw(b"abc"), **changes)
        refused(data, "malformed", "K1", 32)
    for w in (0, 65, 255, 7):
        refused(header() + chunk(b"abc", w, raw(b"abc")), "malformed", "K1", 32)
    refused_program(raw(b"abcd"), "corrupt", "K3")


# §4.1 and §4.2


def test_code_rules():
    refused_program(node(0x00), "unsupported", "P1", 0)
    refused_program(node(0x19), "unsupported", "P1", 0)
    for operands in ((6,), (6, 1, 2), ((1 << 64) - 1,)):
        refused_program(node(0x13, *operands), "unsupported", "P1", 0)
    for operands in ((2,), (2, 256), (300, 0)):
        refused_program(node(0x14, *operands), "unsupported", "P1", 0)
    refused_program((b"\x13\x06\x80\0", b""), "unsupported", "P1", 0)  # what stands behind is not looked at
    refused_program((b"\x14\x02", b""), "unsupported", "P1", 0, w=32)  # n is 1
    refused_program((b"\x13\x86\0", b""), "invalid", "P2", 0)  # but the number is
    refused_program((b"\x13" + b"\xff" * 9 + b"\2", b""), "invalid", "P2", 0)
    refused_program((b"\x13\0", b""), "invalid", "P2", 0)
    refused_program(concat([2], const(1), node(0x63)), "unsupported", "P1", 5)
    refused_program(concat([2], const(1)), "invalid", "P2", 0)  # k is 1
    refused_program((b"\x11\2\2\x10\1", b""), "invalid", "P2", 5)  # the second child is missing
    refused_program((b"\x11\2", b""), "invalid", "P2", 0)
    refused_program((b"\x10\x81\0", b""), "invalid", "P2", 0)
    refused_program((b"\x10" + b"\xff" * 9 + b"\2", b""), "invalid", "P2", 0)
    refused_program((b"\x10" + b"\xff" * 10 + b"\0", b""), "invalid", "P2", 0)
    refused_program((b"\x10\x81", b""), "invalid", "P2", 0)
    refused_program(node(1, payload=b"abc"), "invalid", "P3", 1)
    refused_program(node(1, payload=b"abcde"), "invalid", "P3", 1)
    refused_program((const(1)[0], b"\0"), "invalid", "P3", 2)
    wrapping = node(4, 0, 2, 10, 1 << 63, 1 << 63, payload=bytes(10))  # 2^64 and what is there
    refused_program(wrapping, "invalid", "P3", 24)
    refused_program(concat([2], (wrapping[0], b""), const(256)), "invalid", "P2", 3 + 24)
    refused_program(concat([2], (wrapping[0], b""), node(0x42)), "unsupported", "P1", 3 + 24)


@pytest.mark.parametrize(
    ("program", "w"),
    [
        (node(2, 0, 0, payload=b""), 8),
        (node(2, 8, 0, payload=b"abcd"), 8),
        (node(2, 1, 0, payload=b"abcd"), 1),
        (node(2, 4, 256, payload=b"ab"), 8),
        (node(3, 0), 8),
        (node(5, 0), 8),
        (node(4, 64, 1, 1, 4, payload=bytes(5)), 8),
        (node(4, 7, 1, 1, 512, payload=bytes(513)), 8),
        (node(4, 0, 0, 1, payload=bytes(1)), 8),
        (node(4, 0, 3, 1, 4, 4, 4, payload=bytes(13)), 8),  # 4 words make 2 blocks of q = 2
        (node(4, 0, 5, 1, 4, 4, 4, 4, 4, payload=bytes(21)), 8),
        (node(4, 0, 1, 0, 4, payload=bytes(4)), 8),
        (node(4, 0, 1, 1, 5, payload=bytes(6)), 8),
        (node(4, 1, 1, 1, 6, payload=bytes(7)), 8),
        (const(256), 8),
        (const(2), 1),
        (concat([1], const(0)), 8),
        (concat([0], const(0), const(0)), 8),
        (concat([4], const(0), const(0)), 8),
        (concat([1, 1, 1, (1 << 64) - 1], *[const(0)] * 5), 8),
        (node(0x11, 257, *[1] * 256), 8),
        (node(0x12, 1, children=[const(0)]), 8),
        (node(0x12, 3, children=[const(0)]), 8),
        (node(0x12, 0, children=[const(0)]), 8),
        (node(0x13, 0, 256, children=[const(0)]), 8),
        (node(0x13, 4, 0, children=[const(0)]), 8),
        (node(0x13, 4, 8, children=[const(0)]), 8),
        (node(0x13, 4, 1, children=[const(0)]), 1),
        (node(0x14, 0, 256, children=[const(0)]), 8),
        (node(0x14, 0, 0, children=[const(0)]), 32),  # n is 1
        (node(0x15, 1, children=[const(0)]), 8),
        (node(0x15, 2, 0, children=[const(0), const(0)]), 8),
        (node(0x15, 2, 8, children=[const(0), const(0)]), 8),
        (node(0x15, 9, *[1] * 8, children=[const(0)] * 9), 8),
        (node(0x16, 1, children=[const(0)]), 8),
        (node(0x16, 3, children=[const(0)]), 8),
        (node(0x17, 1, children=[const(0), const(0)]), 8),
        (node(0x17, 2, 4, children=[const(0)] * 3), 8),
        (node(0x17, 257, *[1] * 256, children=[const(0)] * 258), 8),
        (node(0x18, 0, 2, children=[const(0)] * 2), 8),
        (node(0x18, 3, 2, children=[const(0)] * 2), 8),
        (node(0x18, 1, 1, children=[const(0)] * 2), 8),
        (node(0x18, 2, 3, children=[const(0)] * 2), 8),
        (node(0x18, 1, 5, children=[const(0)] * 2), 8),
    ],
)
def test_operand_rules(program, w):
    refused_program(program, "invalid", "P2", 0, w=w, content=bytes(4))


def test_every_part_of_code_may_be_missing():
    selectors = node(0x11, 2, 300, children=[const(0), const(1)])
    code, payload = node(
        0x17, 2, 300, children=[selectors, node(0x18, 1, 3, children=[const(0), raw(b"abc")]), const(5)]
    )
    content = b"a" * 300 + b"\5" * 700
    check_words(list(content), 8, (code, payload))
    for end in range(1, len(code)):
        data = member(chunk(content, 8, (code[:end], b"")))
        verdict = reference.decode(data)
        assert verdict.fault == "invalid"
        assert 32 + 25 <= verdict.offset <= 32 + 25 + end


def test_nodes_limit():
    def deep(count, n=4096):
        """`count` nodes (odd) in a balanced tree of Concats of 2; each leaf a const, all of them 7."""
        if count == 1:
            return const(7)
        half = (count - 1) // 2
        half -= 1 - half % 2
        return concat([n // 2], deep(half, n // 2), deep(count - 1 - half, n - n // 2))

    content = b"\7" * 4096
    program = concat([2048, 1], deep(511, 2048), const(7), deep(511, 2047))  # 1,024 nodes
    check_words(list(content), 8, program)
    last = node(0x12, 2, children=[const(7)])
    program = concat([2048, 2046], deep(511, 2048), deep(511, 2046), last)  # 1,025
    place = len(program[0]) - len(last[0])
    refused_program(program, "invalid", "Q2", place, content=content)
    refused_program((program[0][:-2], b""), "invalid", "Q2", place, content=content)  # announced is enough
    many = concat([1] * 255, *[const(7)] * 256)
    program = concat([1024] * 3, many, many, many, many)  # the last announces 773 + 256
    refused_program(program, "invalid", "Q2", 8 + 3 * len(many[0]), content=content)


def test_depth_limit():
    program = const(9)
    for _ in range(31):
        program = node(0x13, 0, 0, children=[program])
    check_words([9] * 4, 8, program)
    program = node(0x13, 0, 0, children=[program])
    refused_program(program, "invalid", "Q3", 3 * 31, content=b"\t" * 4)
    refused_program((program[0][: 3 * 32], b""), "invalid", "Q3", 3 * 31, content=b"\t" * 4)


def test_charges_limit():
    """Charges of w = 1: a byte a word. 2·D + 65,536 is 131,072 for D = 32,768, which has 262,144 words."""
    content = bytes(32768)
    half = node(0x12, 2, children=[const(0)])
    data = member(chunk(content, 1, half), c=15)
    assert decoded(data) == content
    table = node(0x18, 1, 2, children=[const(0), const(0)])
    less = concat([262142], half, table)  # charges 131,071 and 2
    refused(member(chunk(content, 1, less), c=15), "invalid", "Q6", 32 + 25 + 5 + 4)


def test_words_limit():
    """w = 1, D = 65,536: n = 524,288, and all nodes may have 2,162,688: 4 · n + 65,536."""
    content, program = bytes(65536), const(0)
    for _ in range(3):
        program = node(0x13, 1, 0, children=[program])
    data = member(chunk(content, 1, concat([524288 - 1], const(0), const(0))), c=16)
    assert decoded(data) == content
    assert decoded(member(chunk(content, 1, program), c=16)) == content
    program = node(0x13, 1, 0, children=[program])
    refused(member(chunk(content, 1, program), c=16), "invalid", "Q7", 32 + 25 + 12)


# §4.3 Operators


def test_raw_of_odd_widths():
    assert decoded(member(chunk(b"\x21\x43", 4, raw(b"\x21\x43")))) == b"\x21\x43"
    for w in range(1, 65):
        rng = random.Random(w)
        words = [rng.getrandbits(w) for _ in range(24)]
        check_words(words, w, literal(words, w))


def test_fields_are_in_order():
    """0x21 holds the 4-bit words 1, 2: seen through a lookup, which turns words into others."""
    program = node(0x18, 1, 16, children=[raw(b"\x21\x43\0\0\0\0\0\0"), raw(bytes(range(100, 116)))])
    check_words([101, 102, 103, 104] + [100] * 12, 8, program)


def test_packed():
    check_words([10, 11, 12, 13], 8, node(2, 2, 10, payload=b"\xe4"))  # 3 2 1 0 from the top
    check_words([254, 255, 0, 1], 8, node(2, 2, 254, payload=b"\xe4"))
    check_words([5, 6, 5], 8, node(2, 1, 5, payload=b"\2"))
    refused_program(node(2, 1, 5, payload=b"\x12"), "corrupt", "V2", content=b"\5\6\5\5")
    big = (1 << 64) - 1
    check_words([big, 0], 64, node(2, 63, big, payload=pack([0, 1], 63)))


def test_const():
    check_words([200] * 5, 8, const(200))
    check_words([(1 << 64) - 1] * 2, 64, const((1 << 64) - 1))
    check_words([5] * 8, 3, const(5))


def test_concat():
    check_words([1, 2, 9, 9, 3], 8, concat([2, 2], raw(b"\1\2"), const(9), raw(b"\3")))
    check_words(list(range(256)), 8, concat([1] * 255, *[const(i) for i in range(256)]))


def test_repeat_and_stretch():
    check_words([1, 2, 1, 2, 1, 2], 8, node(0x12, 3, children=[raw(b"\1\2")]))
    check_words([1, 1, 1, 2, 2, 2], 8, node(0x16, 3, children=[raw(b"\1\2")]))


@pytest.mark.parametrize(
    ("operands", "w", "before", "after"),
    [
        ((0, 0x0F), 8, [0x00, 0xFF, 0x35], [0x0F, 0xF0, 0x3A]),
        ((1, 255), 8, [0, 1, 255], [255, 0, 254]),
        ((2,), 8, [0, 1, 2, 3, 4, 254, 255], [0, 255, 1, 254, 2, 127, 128]),
        ((2,), 1, [0, 1] * 4, [0, 1] * 4),
        ((2,), 64, [(1 << 64) - 1, 1], [1 << 63, (1 << 64) - 1]),
        ((3,), 8, [0, 1, 3, 2, 6, 7, 5, 4, 0x80], [0, 1, 2, 3, 4, 5, 6, 7, 0xFF]),
        ((3,), 64, [1 << 63, 3 << 62], [(1 << 64) - 1, 1 << 63]),
        ((3,), 12, [0x800, 0xC00], [0xFFF, 0x800]),
        ((4, 1), 8, [0x80, 0x01, 0xA5], [0x01, 0x02, 0x4B]),
        ((4, 9), 10, [1, 2, 3, 1022], [512, 1, 513, 511]),
        ((5,), 8, [0, 127, 128, 255], [255, 128, 0, 127]),
        ((5,), 16, [0x7FFF, 0x8000, 0xBF80], [0x8000, 0x0000, 0x3F80]),
        ((5,), 1, [0, 1] * 4, [1, 0] * 4),
    ],
)
def test_map(operands, w, before, after):
    check_words(after, w, node(0x13, *operands, children=[literal(before, w)]))


def test_ordered_gives_floats():
    """Keys that ascend by 1 give half-precision floats that do not descend."""
    keys = range(0x7FF0, 0x8010)
    data = decoded(member(chunk(*floats_of(keys))))
    floats = struct.unpack(f"<{len(data) // 2}e", data)
    assert list(floats) == sorted(floats) and floats[0] < 0 < floats[-1]


def floats_of(keys):
    bits = [key - 0x8000 if key >= 0x8000 else 0xFFFF - key for key in keys]
    return pack(bits, 16), 16, node(0x13, 5, children=[literal(keys, 16)])


def test_scan():
    check_words([250, 255, 4, 4], 8, node(0x14, 1, 250, children=[raw(b"\5\5\0")]))
    check_words([1, 3, 0, 7], 8, node(0x14, 0, 1, children=[raw(b"\2\3\7")]))
    check_words([1, 0, 1, 1, 1, 1, 1, 1], 1, node(0x14, 1, 1, children=[literal([1, 1, 0, 0, 0, 0, 0], 1)]))


def test_merge():
    check_words([0xA1, 0xB2], 8, node(0x15, 2, 4, children=[raw(b"\xba"), raw(b"\x21")]))
    program = node(0x15, 3, 1, 8, children=[raw(b"\1"), raw(b"\x7f\x80"), literal([5, 6], 7)])
    check_words([0x8000 | 0x7F << 7 | 5, 0x80 << 7 | 6], 16, program)
    check_words([0b10110001], 8, node(0x15, 8, *[1] * 7, children=[const(int(b)) for b in "10110001"]))


def test_weave():
    program = node(0x17, 2, 3, children=[literal([0, 1, 1, 0, 0], 1), raw(b"abc"), raw(b"xy")])
    check_words(list(b"axybc"), 8, program)
    program = node(0x17, 3, 1, 1, children=[literal([2, 0, 1, 2], 2), const(1), const(2), const(3)])
    check_words([3, 1, 2, 3], 8, program)
    for selectors in ([3, 0, 1, 2], [0, 0, 1, 2], [2, 2, 2, 0]):
        program = node(0x17, 3, 1, 1, children=[literal(selectors, 2), const(1), const(2), const(3)])
        refused_program(program, "corrupt", "E1")
    words = list(range(256))
    program = node(0x17, 256, *[1] * 255, children=[raw(bytes(words[::-1]))] + [const(i) for i in words])
    check_words(words[::-1], 8, program)


def test_lookup():
    check_words(list(b"cabbac"), 8, node(0x18, 1, 3, children=[literal([2, 0, 1, 1, 0, 2], 2), raw(b"abc")]))
    program = node(0x18, 3, 2, children=[literal([1, 1, 0], 1), raw(b"abcdef")])
    check_words(list(b"defdefabc"), 8, program)
    refused_program(node(0x18, 1, 3, children=[literal([3, 0, 0, 0], 2), raw(b"abc")]), "corrupt", "E2")


# zstd, where there is a Zstandard


def zstd(frame):
    return node(5, len(frame), payload=frame)


def raw_frame(content, descriptor=0x20, head=None, last=1):
    """A frame of one raw block, written from RFC 8878."""
    head = bytes([len(content)]) if head is None else head
    block = struct.pack("<I", last | len(content) << 3)[:3]
    return b"\x28\xb5\x2f\xfd" + bytes([descriptor]) + head + block + content


needs_zstd = pytest.mark.skipif(reference.zstd_library() is None, reason="no Zstandard here")


@needs_zstd
def test_zstd():
    check_words(list(b"abcd"), 8, zstd(raw_frame(b"abcd")))
    check_words(list(range(6)), 4, zstd(raw_frame(pack(range(6), 4))))
    check_words(list(b"abcd"), 8, zstd(raw_frame(b"abcd", 0x80, b"\0" + u32(4))))  # with a window
    check_words(list(b"abcd"), 8, zstd(raw_frame(b"abcd", 0x80, b"\x70" + u32(4))))  # 2^24
    check_words(list(b"abcd"), 8, zstd(raw_frame(b"abcd", 0xE0, u64(4))))
    check_words(list(b"abcd"), 8, zstd(raw_frame(b"abcd", 0x30)))  # the unused bit
    check_words(list(b"abcd"), 8, zstd(raw_frame(b"abcd", 0x24) + bytes.fromhex("cc 92 5d d2")))
    long = bytes(range(256)) * 2
    check_words(list(long), 8, zstd(raw_frame(long, 0x60, struct.pack("<H", 256))))
    rle = b"\x28\xb5\x2f\xfd\xa0" + u32(1000) + struct.pack("<I", 1 | 1 << 1 | 1000 << 3)[:3] + b"z"
    check_words([122] * 1000, 8, zstd(rle))


@needs_zstd
@pytest.mark.parametrize(
    "frame",
    [
        b"\0",
        b"\x28\xb5\x2f\xfd",
        raw_frame(b"abcd") + b"\0",
        raw_frame(b"abcd") * 2,
        raw_frame(b"abcd")[:-1],
        raw_frame(b"abcd", last=0),
        raw_frame(b"abc"),
        raw_frame(b"abcde"),
        raw_frame(b"abcd", head=b"\5"),
        raw_frame(b"abcde", head=b"\4"),
        raw_frame(b"abcd", 0x00, b"\0"),  # the size is not stated
        raw_frame(b"abcd", 0x21, b"\1\4"),  # a dictionary
        raw_frame(b"abcd", 0x21, b"\0\4"),  # its flag
        raw_frame(b"abcd", 0x28, b"\4"),  # the reserved bit
        raw_frame(b"abcd", 0x80, b"\x71" + u32(4)),  # a window of more than 2^24
        b"\x50\x2a\x4d\x18" + u32(4) + b"abcd",  # skippable
        b"\x50\x2a\x4d\x18" + u32(0) + raw_frame(b"abcd"),
        raw_frame(b"abcd", 0x24, b"\4") + bytes(4),  # a checksum, wrong
    ],
)
def test_zstd_rules(frame):
    refused_program(zstd(frame), "corrupt", "E3", content=b"abcd")


@needs_zstd
def test_zstd_padding_and_bomb():
    program = node(0x18, 1, 2, children=[zstd(raw_frame(b"\x12")), raw(b"ab")])
    refused_program(program, "corrupt", "V2", content=b"baba")
    bomb = b"\x28\xb5\x2f\xfd\xa0" + u32(4) + struct.pack("<I", 1 << 1 | 131072 << 3)[:3] + b"z"
    refused_program(zstd(bomb), "corrupt", "E3", content=b"zzzz")


def test_without_zstd(monkeypatch):
    monkeypatch.setattr(reference, "zstd_library", lambda: None)
    good = chunk(b"good", 8, raw(b"good"))
    data = member(good, chunk(b"abcd", 8, zstd(raw_frame(b"abcd"))))
    verdict = reference.decode(data)
    assert (verdict.fault, verdict.offset, verdict.content) == ("unsupported", 32 + len(good), b"good")
    refused_program((zstd(raw_frame(b"abcd"))[0], b""), "invalid", "P3", 2)


# §5


def test_exp_golomb():
    for k in (0, 1, 5, 63):
        for x in (0, 1, 2, 6, 7, 62, 63, 64, 1 << 20, (1 << 63) + 5, (1 << 64) - (1 << k) - 1):
            bits = reference.Bits(memoryview(to_bytes("101" + exp_golomb(x, k))))
            assert (bits.field(3), bits.exp_golomb(k)) == (5, x)
    assert exp_golomb(0, 0) == "1" and exp_golomb(4, 0) == "00110" and exp_golomb(5, 1) == "0111"
    for bad in ("0" * 64 + "1" + "0" * 64, "0" * 63 + "1" + "1" * 63 + "1", "0" * 30):
        bits = reference.Bits(memoryview(to_bytes(bad)))
        with pytest.raises(reference.Fault):
            bits.exp_golomb(1)


def test_huffman_by_hand():
    """Symbols 97, 98, 100 with lengths 1, 2, 2: codes 0, 10, 11."""
    bits = field(2, 12) + field(97, 8) + field(0, 6) + field(0, 4)
    bits += "1" + field(1, 1)  # two words in the run: 1, EG(1)
    bits += "1"  # one absent word: 0, EG(0)
    bits += "1" + field(0, 1)  # one word in the run
    bits += "011" + "011" + "1"  # differences 1, 1, 0; zigzags 2, 2, 0; 2 = 2^1 + 1 - 1
    payload = to_bytes(bits) + to_bytes("0" + "11" + "10" + "0" + "0")
    check_words(list(b"adbaa"), 8, node(3, len(payload), payload=payload))
    assert huffman(b"adbaa", {97: 1, 98: 2, 100: 2}, 8)[1] == payload


@pytest.mark.parametrize("w", [1, 2, 3, 8, 12, 16, 33, 64])
def test_huffman(w):
    rng = random.Random(w)
    lengths = [1, 1] if w == 1 else [1, 2, 3, 3] if w < 8 else [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 12]
    symbols = [0, 1] if w == 1 else sorted(rng.sample(range(1 << min(w, 60)), len(lengths)))
    rng.shuffle(lengths)
    lengths = dict(zip(symbols, lengths, strict=True))
    words = symbols + rng.choices(symbols, k=1000 - len(symbols))
    check_words(words, w, huffman(words, lengths, w, g=min(w, 63), d=w % 16))


def test_huffman_of_4096_symbols():
    words = list(range(4096))
    random.Random(1).shuffle(words)
    check_words(words, 16, huffman(words, dict.fromkeys(range(4096), 12), 16))


def patched(program, change):
    """The program of one literal with [size] as operand, with other payload."""
    payload = change(program[1])
    return node(program[0][0], len(payload), payload=payload)


def test_huffman_rules():
    good = {1: 1, 2: 2, 3: 2}
    words = [1, 2, 3, 1]  # 0 10 11 0: six bits
    check_words(words, 8, huffman(words, good, 8))
    for tail, rule in (("01", "U1"), ("0" * 3, "U1"), ("1", "U1")):
        refused_program(huffman(words, good, 8, tail=tail), "corrupt", rule, content=bytes(words))
    refused_program(patched(huffman(words, good, 8), lambda p: p[:-1]), "corrupt", "U1")
    refused_program(huffman([2] * 4, good, 8, tail=""), "corrupt", "K3", content=bytes(4))
    short = patched(huffman([2] * 8, good, 8), lambda p: p[:-1])
    refused_program(short, "corrupt", "U1", content=b"\2" * 8)
    refused_program(huffman(words, {1: 1, 2: 2, 3: 3}, 8), "corrupt", "U1")
    refused_program(huffman(words, {1: 1, 2: 1, 3: 2}, 8), "corrupt", "U1")
    thirteen = dict(enumerate([*range(1, 13), 13, 13], 1))
    refused_program(huffman(words, thirteen, 8), "corrupt", "U1")


def test_table_rules():
    def no(bits, rule, w=8):
        payload = to_bytes(bits)
        refused_program(node(3, len(payload), payload=payload), "corrupt", rule, w=w)

    good = table_bits([1, 2, 3], [1, 2, 2], 8)
    for end in range(0, len(good) - 8, 8):
        payload = to_bytes(good[: end + 8])[:-1] or b"\1"
        refused_program(node(3, len(payload), payload=payload), "corrupt", "T1")
    no(table_bits([1, 2, 3], [1, 2, 2], 8, s=2) + "0" * 99, "T1")
    no(table_bits([1], [1], 8) + "0" * 99, "T1")  # one symbol
    no(table_bits([1, 2, 3], [1, 2, 2], 8, s=1) + "0" * 99, "T1")
    no(table_bits([254, 255, 256], [1, 2, 2], 8) + "0" * 99, "T1")
    no(table_bits([254, 300], [1, 1], 8) + "0" * 99, "T1")
    no(table_bits([1, 2], [1, 0], 8) + "0" * 99, "T1")
    no(table_bits([1, 2], [-3, 1], 8) + "0" * 99, "T1")
    no(table_bits([1, 2], [65536, 1], 8, d=15) + "0" * 99, "T1")
    padded = table_bits([1, 2], [1, 1], 8)
    assert len(padded) % 8
    no(padded + "1", "V2")
    start = field(2, 12) + field(1, 8) + field(63, 6) + field(0, 4)
    no(start + "0" * 200, "V3")
    no(start + "11" + "01" + "1" * 80, "V3")  # EG(63) of 2^64 and more


@pytest.mark.parametrize("k", range(8, 16))
@pytest.mark.parametrize("lanes_log", range(7))
def test_rans(k, lanes_log):
    rng = random.Random(8 * k + lanes_log)
    count = rng.choice([2, 3, 5, 16, 37, 256])
    w = rng.choice([8, 9, 16, 24, 40, 64])
    symbols = sorted(rng.sample(range(1 << min(w, 60)), min(count, 1 << (k - 1))))
    cuts = sorted(rng.sample(range(1, 1 << k), len(symbols) - 1))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, 1 << k], strict=True)]
    f = dict(zip(symbols, sizes, strict=True))
    n = 800 - 8 * rng.randrange(9)
    words = rng.choices(symbols, weights=sizes, k=n)
    q = rng.choice([1, 7, 50, n]) if lanes_log == 0 else rng.choice([50, 99, n])
    check_words(words, w, rans(words, f, w, k, lanes_log, -(-n // q), d=k - 4))


def test_rans_with_a_slot_for_each_symbol():
    words = list(range(256))
    random.Random(5).shuffle(words)
    check_words(words, 8, rans(words, dict.fromkeys(range(256), 1), 8, k=8, lanes_log=2, blocks=4))


def test_rans_by_hand():
    """Two symbols of 128 slots each: slots 0–127 are symbol 5, the others symbol 6; the rank is x mod 128.

    From the end: x = 65536. For 6: x // 128 = 512, rank 0: 512 · 256 + 128 = 131,200.
    For 5 before it: 131,200 // 128 = 1,025, rank 0: 1,025 · 256 = 262,400. No renormalisation so early.
    """
    table = to_bytes(table_bits([5, 6], [128, 128], 8, precision=15))
    program = node(4, 0, 1, len(table), 4, payload=table + u32(262400))
    check_words([5, 6], 8, program)


@pytest.mark.parametrize("lanes_log", range(7))
def test_limit_of_words_for_each_lane(lanes_log):
    """65,536 words of a block for each lane, unless there are 64."""
    table = to_bytes(table_bits([5, 6], [32767, 1], 8, precision=15))
    lanes, most = 1 << lanes_log, 65536 << lanes_log
    for blocks, n in [(1, most), (1, most + 1), (2, most + 1), (2, 2 * most), (2, 2 * most + 1)]:
        program = node(4, 7 << 3 | lanes_log, blocks, len(table), *[4 * lanes] * blocks)
        sound = lanes == 64 or -(-n // blocks) <= most
        data = member(chunk(b"", 8, program, length=n), c=24)
        refused(data, "invalid", "P3" if sound else "P2", 32 + 25 + (len(program[0]) if sound else 0))
    if lanes_log == 0:
        words = [5] * (most - 1) + [6]
        check_words(words, 8, rans(words, {5: 32767, 6: 1}, 8, k=15))
        program = rans([5, *words], {5: 32767, 6: 1}, 8, k=15)
        refused(member(chunk(bytes([5, *words]), 8, program), c=17), "invalid", "P2", 32 + 25)


def test_limit_of_blocks():
    """A word a block: 5 is 131,072, and 6 is 131,200 (see above)."""
    table = to_bytes(table_bits([5, 6], [128, 128], 8, precision=15))
    for n in (65536, 65537):
        payload = table + u32(131072) * (n - 1) + u32(131200)
        program = node(4, 0, n, len(table), *[4] * n, payload=payload)
        data = member(chunk(b"\5" * (n - 1) + b"\6", 8, program), c=18)
        if n == 65536:
            assert decoded(data) == b"\5" * 65535 + b"\6"
        else:
            refused(data, "invalid", "P2", 32 + 25)


def test_alias_by_hand():
    """k = 8, three symbols of 200, 40, 16: four buckets of 64. small = [1, 2, 3], large = [0].

    3: split 0, other 0, rest[0] = 136. 2: split 16, other 0, rest[0] = 88. 1: split 40, rest[0] = 64.
    """
    slots = reference.deal_slots([7, 8, 9], [200, 40, 16], 8)
    assert slots[0] == (7, 200, 0) and slots[63] == (7, 200, 63)
    assert slots[64] == (8, 40, 0) and slots[103] == (8, 40, 39) and slots[104] == (7, 200, 64)
    assert slots[128] == (9, 16, 0) and slots[143] == (9, 16, 15) and slots[144] == (7, 200, 88)
    assert slots[192] == (7, 200, 136) and slots[255] == (7, 200, 199)


def test_precision():
    """With p = 2, the numbers 1 … 7 stand for themselves, then 8, 10, 12, 14, 16, 20, 24, 28, 32 …."""
    f = reference.frequencies(list(range(5, 17)), 2, 8)
    assert f[:-1] == [5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28]
    assert f[-1] == 256 - 150  # 32, corrected
    assert reference.frequencies([1, 4, 4], 0, 8) == [1, 247, 8]  # 1, 8, 8; the first of the greatest changes
    for values, p in (([300, 1], 15), ([65535, 1], 0), ([255] * 258, 15), ([200, 200, 200], 15), ([1, 9], 0)):
        with pytest.raises(reference.Fault, match="N1"):
            reference.frequencies(values, p, 8)
    words = [3, 4, 4, 4]
    table = to_bytes(table_bits([3, 4], [1, 4], 8, precision=0))  # 1 and 8, which becomes 255
    check_words(words, 8, rans(words, {3: 1, 4: 255}, 8, table=table))


def test_rans_rules():
    f, words = {1: 100, 2: 150, 3: 6}, [1, 2, 3, 2] * 40
    content = bytes(words)

    def no(change=None, rule="N2", lanes_log=1, **options):
        program = rans(words, f, 8, lanes_log=lanes_log, change=change, **options)
        refused_program(program, "corrupt", rule, content=content)

    check_words(words, 8, rans(words, f, 8, lanes_log=1))
    good = rans_block([x - 1 for x in words], tuple(f.values()), 8, 2)
    assert len(good) > 12
    no(lambda _: [u32(65535) + good[4:]])
    no(lambda _: [good[:4] + u32(0) + good[8:]])
    no(lambda _: [good[:-2]])
    no(lambda _: [good + b"\0\0"])
    no(lambda _: [good[:-2] + bytes([good[-2] ^ 4]) + good[-1:]])
    unused = u32(65537)
    program = rans([1, 2], f, 8, lanes_log=2, change=lambda parts: [parts[0][:12] + unused])
    refused_program(program, "corrupt", "N2", content=b"\1\2")
    table = to_bytes(table_bits([1, 2, 3], [100, 150, 6], 8, precision=15))
    no(table=table + b"\0", rule="T1")
    no(table=table[:-1], rule="T1")
    no(table=to_bytes(table_bits([1, 2, 3], [100, 250, 250], 8, precision=15)), rule="N1")
    no(table=to_bytes(table_bits([1, 2, 3], [100, 256, 6], 8, precision=15)), rule="N1")


# Whole archives


def rich_archive():
    """Small, with most operators and all kinds of records."""
    text = b"hello hello help"
    lengths = {101: 2, 104: 2, 108: 2, 111: 3, 32: 4, 112: 4}
    one = chunk(text, 8, huffman(text, lengths, 8, g=2))
    bits = [0, 1, 1, 0, 1, 0, 0, 1] * 2
    two_words = [3 << 4 | 9 if bit else 5 << 4 | 9 for bit in bits]
    high = node(0x18, 1, 2, children=[literal(bits, 1), literal([5, 3], 4)])
    two = chunk(bytes(two_words), 8, node(0x15, 2, 4, children=[high, const(9)]))
    three_words = [7, 8] * 30
    three = chunk(bytes(three_words), 8, rans(three_words, {7: 128, 8: 128}, 8, lanes_log=1))
    names = layout(b"\0\1\0\4\1n\2U8\1\4")
    return text + bytes(two_words) + bytes(three_words), [
        one, record(0x83, b"\0\0"), two, names, record(0x82, b"\6source\1x"), three, record(0x90, b"?")
    ]  # fmt: skip


def test_truncation_everywhere():
    content, records = rich_archive()
    data = member(*records)
    assert decoded(data) == content
    for end in range(len(data)):
        for verdict in (reference.decode(data[:end]), reference.layouts(data[:end])[1]):
            assert (verdict.fault, verdict.offset) == ("truncated", end)
            assert content.startswith(verdict.content)


def test_every_bit_flip():
    content, records = rich_archive()
    data = member(*records)
    for place in range(8 * len(data)):
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        verdict = reference.decode(bytes(changed))
        assert verdict.fault in ("malformed", "corrupt") and content.startswith(verdict.content)
        assert verdict.offset <= place // 8


def test_flips_below_right_crcs():
    """Every bit of every program, with the record's CRCs made right again: the content's CRC still stands."""
    content, records = rich_archive()
    for item in (x for x in records if x[3] == 1):
        length = struct.unpack("<I", item[16:20])[0]
        for place in range(8 * 8, 8 * (len(item) - 20)):
            changed = bytearray(item[16:-4])
            changed[place // 8] ^= 1 << place % 8
            verdict = reference.decode(member(record(1, bytes(changed))))
            if verdict.fault is None:
                assert len(verdict.content) == length and verdict.content in content
            else:
                assert verdict.content == b"" and verdict.offset >= 32


def test_random_programs_never_crash():
    rng = random.Random(2)
    opcodes = [1, 2, 3, 4, 5, *range(0x10, 0x19)]
    seen = set()
    for _ in range(6000):
        code = bytes(
            rng.choice(opcodes) if rng.random() < 0.5 else rng.choice([0, 1, 2, 3, 4, 8, rng.randrange(256)])
            for _ in range(rng.randrange(1, 60))
        )
        content = bytes(rng.choice([1, 2, 4, 12, 64, 4096]))
        w = rng.choice([1, 2, 4, 8, 16])
        if 8 * len(content) % w:
            continue
        verdict = reference.decode(member(chunk(content, w, (code, b""))))
        assert verdict.fault in (None, "invalid", "unsupported", "corrupt") and verdict.offset != 0
        seen.add((verdict.fault, verdict.message[:4]))
    assert {"invalid", "unsupported", "corrupt"} <= {fault for fault, _ in seen}


def test_random_bytes_never_crash():
    rng = random.Random(3)
    for _ in range(2000):
        data = rng.randbytes(rng.randrange(80))
        assert reference.decode(data).fault
        assert reference.decode(header() + data).fault
        assert reference.layouts(header() + record(rng.choice([0x81, 0x82, 0x83, 2, 1]), data))[1].fault


def test_limits_hold_before_any_word_is_made():
    """Programs of few bytes that would be very large."""
    content = bytes(1 << 20)
    deep = const(0)
    for _ in range(30):
        deep = node(0x13, 3, children=[deep])
    verdict = reference.decode(member(chunk(content, 1, deep), c=20))
    assert (verdict.fault, verdict.message[:4]) == ("invalid", "[Q7]")


def test_speed():
    """A floor far below what is expected, to notice a decoder that became quadratic."""
    rng = random.Random(4)
    f = dict.fromkeys(range(256), 1)
    f[0] = 256
    f[1] += 4096 - sum(f.values())
    words = rng.choices(list(f), weights=list(f.values()), k=60000)
    data = member(chunk(bytes(words), 8, rans(words, f, 8, k=12, lanes_log=3, d=2)), c=16)
    begin = time.perf_counter()
    assert decoded(data) == bytes(words)
    assert time.perf_counter() - begin < 3


def test_command_line():
    content, records = rich_archive()
    data = member(*records)
    done = subprocess.run([sys.executable, PATH], input=data, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, content, b"")
    done = subprocess.run([sys.executable, PATH], input=data[:-1], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, content)
    assert done.stderr.decode().splitlines()[0].startswith(f"truncated at byte {len(data) - 1}: [R6]")
    assert done.stderr.count(b"\n") == 1
