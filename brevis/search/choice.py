"""The choice of a shape: a short list of families, compared by what their evidence says that they would cost.

The one room that a better search replaces: everybody else calls `choose`. May assume words of whole chunks.
Decides in integers, so alike everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Protocol

from brevis.entropy import distinct
from brevis.frame import Buffer
from brevis.ops import Unfit
from brevis.program import LITERAL, Term, encode, write
from brevis.search.estimate import UNIT, Evidence, Lines, clean_bits, periods, table_cost
from brevis.search.shapes import LIT, RAW, Axis, Classes, Dealt, Float, Records, Repeated, Shape
from brevis.words import Words

# (bits of the exponent, bits of the word) of the floating-point types; a complex number is two floats
FLOATS = {"F16": (5, 16), "BF16": (8, 16), "F32": (8, 32), "C64": (8, 32), "F64": (11, 64)}
SMALL_FLOATS = {
    "F8_E5M2": 5,
    "F8_E5M2FNUZ": 5,
    "F8_E4M3": 4,
    "F8_E4M3FNUZ": 4,
}  # their words are symbols as they are
WIDTHS = {"I16": 16, "U16": 16, "I32": 32, "U32": 32, "I64": 64, "U64": 64}
SAMPLE = 1 << 17  # bytes on which programs are tried out where no estimate is at hand
RAW_COST = 64  # bytes that a chunk costs at least, about: below, looking for more than a literal does not pay
WORTH_TRYING = 4096  # anonymous bytes; below, a literal has to do, which is quick
MOST_AXES = 4
QUICK_SYMBOLS = 128  # up to these, decoders look symbols up in registers (kernels/rans_avx512.h)


class Kind(Protocol):
    """What a run of bytes is (see brevis/sources)."""

    @property
    def dtype(self) -> str | None: ...

    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Effort:
    """What a level looks at."""

    mantissa: int  # top bits that may join the exponent
    classes: int  # at most, by row or column
    zstd: int  # level of the library for text-like bytes


EFFORTS = {
    1: Effort(0, 0, 1),
    2: Effort(3, 0, 3),
    3: Effort(3, 4, 3),
    4: Effort(4, 4, 6),
    5: Effort(4, 8, 9),
    6: Effort(4, 16, 9),
    7: Effort(4, 16, 12),
    8: Effort(5, 32, 15),
    9: Effort(5, 64, 19),
}

SURE_LEVEL = 7  # up to here estimates decide alone


def choose(content: Buffer, kind: Kind, level: int) -> Shape:
    """The shape for a tensor (or other run of bytes) whose first chunk is `content`.

    Estimates err most for many classes, so the highest levels write the chunk in several ways.
    """
    levels = range(SURE_LEVEL, level + 1) if level > SURE_LEVEL else [level]
    found = dict.fromkeys(best_shape(content, kind, EFFORTS[each]) for each in levels)
    return smallest(list(found), content, len(memoryview(content).cast("B")))


def best_shape(content: Buffer, kind: Kind, effort: Effort) -> Shape:
    """The shape that costs least by estimate, or on a sample where there is no estimate."""
    rows = equal_rows(content, kind)
    if rows:
        return rows
    if kind.dtype in FLOATS:
        exponent, width = FLOATS[kind.dtype]
        shapes = list(floats(content, exponent, width, kind, effort))
    elif kind.dtype in WIDTHS:
        shapes = list(integers(WIDTHS[kind.dtype]))
    elif kind.dtype is not None:
        shapes = list(symbols(content, kind, effort))
    else:
        shapes = list(anonymous(content, effort))
    return smallest(shapes, content, SAMPLE)


def stored(content: Buffer) -> tuple[int, bytes]:
    """(width, program) of the bytes as they are."""
    return 8, write(encode(RAW, Words.of(content, 8)))


def encode_fallback(content: Buffer, kind: Kind, level: int) -> tuple[int, bytes]:
    """(width, program) for any content, whatever it is: chosen for itself, at worst stored as it is."""
    raw = stored(content)
    try:
        shape = choose(content, kind, level)
        chosen = shape.width, shape.encode(content)
    except Unfit:
        return raw
    return min(chosen, raw, key=lambda option: len(option[1]))


def equal_rows(content: Buffer, kind: Kind) -> Shape | None:
    """A mask or table that is one row over and over."""
    view = memoryview(content).cast("B")
    rows = kind.shape[0] if kind.shape else 0
    if rows < 2 or len(view) % rows:
        return None
    size = len(view) // rows
    if view[:size] != view[size : 2 * size] or view[size:] != view[:-size]:
        return None
    return Repeated(8, RAW, size)


def smallest(shapes: list[Shape], content: Buffer, limit: int) -> Shape:
    """The shape that writes up to `limit` bytes of the content in the fewest; the earlier one on a tie."""
    if len(shapes) == 1:
        return shapes[0]
    sample = memoryview(content).cast("B")[:limit]

    def size(shape: Shape) -> int:
        try:
            return len(shape.encode(sample))
        except Unfit:
            return len(sample) + RAW_COST

    return min(shapes, key=size)


def text(effort: Effort) -> Shape:
    """Bytes with repetitions of any kind."""
    return Shape(8, Term(LITERAL, (effort.zstd,)))


# ---- floats ----


def floats(content: Buffer, exponent: int, width: int, kind: Kind, effort: Effort) -> Iterator[Shape]:
    size = memoryview(content).nbytes
    if size * 8 % width or size <= RAW_COST:
        yield text(effort)
        return
    words = Words.of(content, width)
    evidence = Evidence(words)
    cost, found = best_float(evidence, exponent, kind.shape, effort)
    symbols = few_values(evidence, cost)
    if not symbols:
        yield found
        return
    whole = Dealt(width, RAW, None, exponent, evidence.highest(exponent), palette=width > 16)
    _, classes = best_classes(words, whole.bins(), axes_of(kind.shape, words.count), symbols, effort)
    if classes:
        yield replace(whole, classes=classes)
    else:
        yield Shape(width, LIT)
        yield text(effort)
        yield found


def few_values(evidence: Evidence, cost: int) -> int:
    """The number of distinct words where they serve better as symbols than split into fields; else 0.

    So it is with dequantised weights, and with masks.
    """
    if evidence.words.width <= 16:
        whole, symbols = evidence.whole_cost()
        return int(symbols) if whole < cost else 0
    count = distinct(evidence.words)
    return int(count) if count and count * 8 <= evidence.words.count else 0


def best_float(
    evidence: Evidence, exponent: int, shape: tuple[int, ...], effort: Effort
) -> tuple[int, Float]:
    """(estimated cost in units, shape)."""
    words = evidence.words
    free = words.width - 1 - exponent
    options = [
        (
            cost + (free - mantissa + (not signed)) * words.count * UNIT + slow(tables, words),
            mantissa,
            signed,
            tables,
        )
        for mantissa, signed, cost, tables in evidence.float_costs(
            exponent, min(effort.mantissa, free, 15 - exponent)
        )
    ]
    _, mantissa, signed, tables = min(options)
    found = Float(words.width, RAW, exponent, mantissa, signed, evidence.highest(exponent))
    axes = axes_of(shape, words.count)
    gain, classes = best_classes(words, found.bins(), axes, tables, effort)
    further = classes.k - 1 if classes else 0  # tables: with them, fewer symbols pay
    cost, mantissa, signed, _ = min(
        (cost + further * table_cost(tables), *rest, tables) for cost, *rest, tables in options
    )
    clean_gain, found = with_clean_bits(
        words, replace(found, mantissa=mantissa, signed=signed, classes=classes), axes
    )
    return cost - gain - clean_gain, found


def slow(symbols: int, words: Words) -> int:
    """What a large alphabet must gain to be worth its time: a thirty-second of a bit a word."""
    return words.count * UNIT // 32 if symbols > QUICK_SYMBOLS else 0


def with_clean_bits(words: Words, found: Float, axes: list[Axis]) -> tuple[int, Float]:
    """Low bits that are zero: in all words, or in some rows, whichever saves more."""
    row = axes[0] if axes else Axis(words.count, 0)
    limit = words.width - 1 - found.exponent - found.mantissa
    clean = [min(bits, limit) for bits in clean_bits(words, row.inner)]
    everywhere = min(clean)
    gain, best = everywhere * words.count * UNIT, replace(found, clean=everywhere)
    for bits in sorted(set(clean) - {everywhere}):
        lines = sum(have >= bits for have in clean)
        saved = (bits * lines * row.inner - len(clean) - RAW_COST * 8) * UNIT
        if saved > gain:
            gain, best = saved, replace(found, clean=bits, dirty_lines=row)
    return gain, best


def axes_of(shape: tuple[int, ...], count: int) -> list[Axis]:
    """The axes along which scales may differ: rows, columns, and each dimension between."""
    dims = [size for size in shape if size != 1]
    if len(dims) < 2 or not prod(dims) or count % prod(dims):
        return []
    dims[-1] *= count // prod(dims)  # complex numbers
    axes = [Axis(prod(dims[1:]), 0)]
    axes += [Axis(prod(dims[i + 1 :]), dims[i]) for i in range(1, len(dims))]
    if len(dims) > 2:
        axes.append(Axis(1, prod(dims[1:])))
    return axes[:MOST_AXES]


def best_classes(
    words: Words, bins: bytes, axes: list[Axis], tables: int, effort: Effort
) -> tuple[int, Classes | None]:
    """(gain, classes): along the axis that gains most with four classes, the best number: doubled as long
    as that gains, or else halved.
    """
    best: tuple[int, Classes | None] = (0, None)
    lines = [(axis, Lines(words, bins, *axis.split(words.count))) for axis in axes if effort.classes]
    ranked = [(line.deal(4, tables, 1)[0], -i) for i, (_, line) in enumerate(lines) if line.mid >= 8]
    if not ranked:
        return best
    axis, line = lines[-max(ranked)[1]]
    k = 4
    while k <= min(effort.classes, line.mid // 2):
        gain = line.deal(k, tables, 1)[0]
        if gain <= best[0]:
            break
        best = gain, Classes(axis, k)
        k *= 2
    if k <= 8:
        gain = line.deal(2, tables, 1)[0]
        if gain > best[0]:
            best = gain, Classes(axis, 2)
    return best


# ---- other types ----


def symbols(content: Buffer, kind: Kind, effort: Effort) -> Iterator[Shape]:
    """Words of 8 bits (and what is stored in bytes): a symbol each, perhaps in classes; or text-like."""
    words = Words.of(content, 8)
    exponent = SMALL_FLOATS.get(kind.dtype or "", 0)
    found = Dealt(8, RAW, None, exponent, Evidence(words).highest(exponent) if exponent else 0)
    _, classes = best_classes(words, found.bins(), axes_of(kind.shape, words.count), 256, effort)
    if classes:
        yield replace(found, classes=classes)
    yield Shape(8, LIT)
    yield text(effort)


def integers(width: int) -> Iterator[Shape]:
    """Constants, ranges, few values, small values, slow changes."""
    half = width // 2
    yield Shape(width, LIT)
    steps = Term("scan", (1,), (LIT,))
    small = Term("merge", (half,), (LIT, LIT))
    yield Shape(width, steps)
    yield Shape(width, small)
    planes = Term("merge", (8,) * (width // 8 - 1), (LIT,) * (width // 8))
    yield Shape(width, planes)
    yield Shape(width, Term("scan", (1,), (Term("map", (2,), (planes,)),)))
    yield Shape(8, Term(LITERAL, (3,)))


def anonymous(content: Buffer, effort: Effort) -> Iterator[Shape]:
    """Bytes of an unknown kind: floats of some width, records, a literal, or text."""
    view = memoryview(content).cast("B")
    size = len(view) // 8 * 8
    yield text(effort)
    if size < WORTH_TRYING:
        return
    head = view[: min(size, SAMPLE)]
    for exponent, width in sorted(set(FLOATS.values())):
        if len(view) * 8 % width == 0:
            yield best_float(Evidence(Words.of(head, width)), exponent, (), effort)[1]
    for period in periods(Words.of(head, 8)):
        if len(view) % period == 0:
            yield Records(8, RAW, period)
