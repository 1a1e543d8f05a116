"""Programs through the compiled core: every operator gives back the words that it was made for, at every
width.
"""

import random

import pytest

from brevis import entropy, interp, ops, program
from brevis.errors import CorruptError, InvalidProgramError, UnsupportedError
from brevis.program import LITERAL, Term
from brevis.words import Words

LIT, RAW = Term(LITERAL), Term("raw")
WIDTHS = [*range(1, 65)]


def round_trip(term: Term, content: bytes, width: int) -> bytes:
    """The program; after it was shown to give the content back."""
    code = program.write(program.encode(term, Words.of(content, width)))
    out = bytearray(len(content))
    interp.run(code, width, out)
    assert out == content
    parsed = program.Program.parse(code, width, len(content)).term()
    assert program.write(parsed) == code
    return code


def noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


def few(seed: int, words: int, width: int, symbols: int) -> bytes:
    """A bit string of words drawn, unevenly, from a few values."""
    rng = random.Random(seed)
    values = [rng.getrandbits(width) for _ in range(symbols)]
    return packed([values[min(int(rng.expovariate(0.3)), symbols - 1)] for _ in range(words)], width)


def packed(words: list[int], width: int) -> bytes:
    """The bit string of the words, eight (a whole number of bytes) at a time."""
    eights = (words[i : i + 8] for i in range(0, len(words), 8))
    parts = [sum(w << (i * width) for i, w in enumerate(part)).to_bytes(width, "little") for part in eights]
    return b"".join(parts)[: (len(words) * width + 7) // 8]


def simple_terms(width: int) -> list[Term]:
    terms = [
        RAW,
        LIT,
        Term("map", (0, 1), (RAW,)),
        Term("map", (1, (1 << width) - 1), (RAW,)),
        Term("map", (2,), (RAW,)),
        Term("map", (3,), (RAW,)),
        Term("map", (5,), (RAW,)),
        Term("scan", (0,), (RAW,)),
        Term("scan", (1,), (LIT,)),
        Term("concat", (5, 1, 2), (RAW, LIT, RAW, LIT)),
        Term("zstd", (3,)),
    ]
    if width > 1:
        terms += [Term("map", (4, r), (RAW,)) for r in {1, width // 2, width - 1}]
        terms += [Term("merge", (w,), (RAW, LIT)) for w in {1, width // 2, width - 1}]
    if width > 3:
        terms.append(Term("merge", (1, 1, width - 3), (LIT, RAW, RAW, RAW)))
    return terms


@pytest.mark.parametrize("width", WIDTHS)
def test_every_operator_gives_its_words_back(width):
    content = noise(width, width * 37)
    for term in simple_terms(width):
        round_trip(term, content, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_entropy_coders_give_their_words_back(width):
    for symbols in {2, 3, 30, min(300, 1 << min(width, 9))}:
        content = few(width, 8 * 700, width, symbols)
        if entropy.distinct(Words.of(content, width)) != 1:
            round_trip(Term("rans"), content, width)
            round_trip(Term("huffman"), content, width)
        round_trip(Term("lookup", (1,), (LIT, LIT)) if len(set(content)) > 1 else LIT, content, width)


@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 9, 16, 17, 32, 33, 64])
@pytest.mark.parametrize("classes", [2, 3, 4, 5, 17, 256])
def test_weave_deals_and_undeals(width, classes):
    rng = random.Random(classes)
    count = 40_000
    content = noise(width, count * width // 8)
    bits = (classes - 1).bit_length()
    for select in (
        [rng.randrange(classes) for _ in range(count)],
        [i // 9 % classes for i in range(count)],
        [i % classes for i in range(count)],
    ):
        packed = sum(s << (i * bits) for i, s in enumerate(select[:4000])).to_bytes(
            4000 * bits // 8, "little"
        )
        selectors = Words.of(packed, bits)
        part = content[: 4000 * width // 8]
        round_trip(Term("weave", (classes, selectors), (LIT, *[RAW] * classes)), part, width)


@pytest.mark.parametrize("size", [1, 7, 8191, 8192, 8193, 40_000])
def test_tiles_join_without_a_seam(size):
    """Words are pulled 8,192 at a time; every operator has to go on where it stopped."""
    row = noise(size, 2 * size)
    for times in (2, 3):
        round_trip(Term("repeat", (times,), (LIT,)), row * times, 16)
    stretched = b"".join(bytes([b]) * 5 for b in row[:size])
    round_trip(Term("stretch", (5,), (LIT,)), stretched, 8)
    round_trip(Term("stretch", (size * 2,), (LIT,)), b"a" * size * 2 + b"b" * size * 2, 8)
    if size > 2:
        rows = [noise(i, 2 * size) for i in range(3)]
        picks = b"".join(rows[i] for i in (0, 1, 2, 2, 1, 0, 0))
        round_trip(Term("lookup", (size,), (LIT, RAW)), picks, 16)


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 4095, 4096, 4097, 100_000])
def test_rans_lanes_that_do_not_divide_the_length(count):
    content = few(count, count, 8, 40)
    if len(set(content)) > 1:
        round_trip(Term("rans"), content, 8)


def test_rans_is_within_a_thousandth_of_the_entropy():
    from math import log2

    content = few(1, 1 << 20, 8, 30)
    counts = [content.count(bytes([i])) for i in range(256)]
    entropy_bits = sum(c * log2(len(content) / c) for c in counts if c)
    code = round_trip(Term("rans"), content, 8)
    assert len(code) * 8 <= entropy_bits * 1.001 + 1000


@pytest.mark.parametrize("distinct", [2, 3, 1000, 1374, 2000, 4095, 4096])
def test_rans_of_words_that_are_nearly_all_different(distinct):
    """Near-uniform counts, where rounding them to a scale swings around the sum."""
    for twice in (0, 1, distinct // 2, distinct - 1):
        words = [*range(0, 7 * distinct, 7), *range(0, 7 * twice, 7)]
        round_trip(Term("rans"), packed(words, 16), 16)


def test_arrays_of_random_integers():
    import numpy as np

    import brevis

    for seed in range(60):
        rng = np.random.default_rng(seed)
        for dtype in ("<i2", "<i4"):
            size = rng.integers(1000, 4100)
            array = rng.integers(-32768, 32768, size).astype(dtype)
            assert brevis.decompress(brevis.compress(array, threads=1)) == array.tobytes()


def test_borrowed_words_survive_the_cycle_collector():
    import gc

    content = bytes(range(256)) * 16
    cycle = [Words.of(content, 8)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert content == bytes(range(256)) * 16


def test_words_made_to_collide_are_still_fast_and_right():
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    words = [(i + 1) * inverse % (1 << 64) for i in range(4000)] * 4
    content = b"".join(w.to_bytes(8, "little") for w in words)
    assert entropy.distinct(Words.of(content, 64)) is None
    round_trip(LIT, content, 64)


def test_unfit_words_are_told():
    for term in (
        Term("const"),
        Term("repeat", (2,), (RAW,)),
        Term("stretch", (2,), (RAW,)),
        Term("packed", (1, 0)),
    ):
        with pytest.raises(ops.Unfit):
            program.encode(term, Words.of(b"abcdefgh", 8))
    for term in (Term("rans"), Term("huffman"), Term("repeat", (0,), (RAW,)), Term("stretch", (0,), (RAW,))):
        with pytest.raises(ops.Unfit):
            program.encode(term, Words.of(b"aaaaaaaa", 8))


def test_rejects_widths_that_there_are_not():
    for width in (0, 65):
        with pytest.raises(ValueError, match="words of"):
            interp.run(b"\x10\x00", width, bytearray(65))
        with pytest.raises(ValueError, match="words of"):
            Words.of(bytes(65), width)
    with pytest.raises(ValueError, match="words of"):
        interp.run(b"\x10\x00", 16, bytearray(3))


RAW_8 = b"\x01"


@pytest.mark.parametrize(
    ("body", "width", "size", "error"),
    [
        (b"", 8, 4, InvalidProgramError),  # no code
        (b"\x00", 8, 4, UnsupportedError),  # no such operator
        (b"\x99abcd", 8, 4, UnsupportedError),
        (RAW_8 + b"abc", 8, 4, InvalidProgramError),  # payload too short
        (RAW_8 + b"abcde", 8, 4, InvalidProgramError),  # too long
        (b"\x10\x80\x00", 8, 4, InvalidProgramError),  # a varint in more bytes than it needs
        (b"\x10\x80\x02", 8, 4, InvalidProgramError),  # a word of 9 bits
        (b"\x10", 8, 4, InvalidProgramError),  # operand missing
        (b"\x12\x03" + RAW_8 + b"a", 8, 4, InvalidProgramError),  # 3 does not divide 4
        (b"\x12\x01" + RAW_8 + b"abcd", 8, 4, InvalidProgramError),
        (b"\x13\x06" + RAW_8 + b"abcd", 8, 4, UnsupportedError),  # a function of a later version
        (b"\x13\x04\x08" + RAW_8 + b"abcd", 8, 4, InvalidProgramError),  # rotation by the width
        (b"\x14\x02\x00" + RAW_8 + b"abc", 8, 4, UnsupportedError),
        (b"\x15\x02\x08" + RAW_8 + RAW_8 + b"abcdefgh", 8, 4, InvalidProgramError),  # a field of no width
        (b"\x15\x01" + RAW_8 + b"abcd", 8, 4, InvalidProgramError),
        (b"\x11\x02\x04" + RAW_8 + RAW_8 + b"abcd", 8, 4, InvalidProgramError),  # a part of no words
        (
            b"\x17\x02\x01" + RAW_8 * 3 + b"\x06abcd",
            8,
            4,
            CorruptError,
        ),  # class 0 has one word, and is named twice
        (b"\x18\x01\x03" + RAW_8 * 2 + b"\xffabc", 8, 4, CorruptError),  # an index of 3 into 3
        (
            b"\x18\x01\x05" + RAW_8 * 2 + b"\x00\x00abcde",
            8,
            4,
            InvalidProgramError,
        ),  # a table larger than the words
        (b"\x05\x05hello", 8, 4, CorruptError),  # no zstd frame
        (b"\x03\x05hello", 8, 4, CorruptError),  # no huffman table
    ],
)
def test_rejects(body, width, size, error):
    out = bytearray(size)
    with pytest.raises(error) as caught:
        interp.run(body, width, out, offset=100, program_offset=125)
    assert caught.value.offset >= 100


def test_the_largest_word_is_a_word():
    """2^64 - 1 is an operand like any other."""
    out = bytearray(16)
    interp.run(b"\x10" + b"\xff" * 9 + b"\x01", 64, out)
    assert out == b"\xff" * 16


def test_rejects_padding_that_is_not_zero():
    out = bytearray(1)
    with pytest.raises(CorruptError):
        interp.run(
            b"\x15\x02\x01" + RAW_8 * 2 + b"\x01\x80", 2, out
        )  # 4 words: half a byte each, upper half 8


def test_rejects_depth_and_node_limits():
    deep = b"\x13\x02" * 31 + RAW_8 + b"abcd"
    out = bytearray(4)
    interp.run(deep, 8, out)
    with pytest.raises(InvalidProgramError):
        interp.run(b"\x13\x02" + deep, 8, out)
    wide = b"\x11\x80\x02" + b"\x01" * 255
    interp.run(wide + RAW_8 * 256 + bytes(256), 8, bytearray(256))
    four = b"\x11\x04" + b"\x80\x02" * 3
    with pytest.raises(InvalidProgramError):
        interp.run(four + (wide + RAW_8 * 256) * 4 + bytes(1024), 8, bytearray(1024))


def test_rejects_work_beyond_the_budget():
    """Thirty-one levels over a million one-bit words would be 31 megawords for 128 KiB."""
    body = b"\x13\x03" * 31 + b"\x10\x00"
    with pytest.raises(InvalidProgramError):
        interp.run(body, 1, bytearray(1 << 17))
    interp.run(b"\x13\x03" * 2 + b"\x10\x00", 1, bytearray(1 << 17))
