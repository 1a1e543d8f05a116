"""Shapes: families of programs that a tensor's words may be written in, each able to make the program for one
chunk.

A shape is decided on a tensor's first chunk and serves its other chunks; what belongs to a chunk (which row
is in which class, tables, constants) is found anew for each. May assume words of the width that it was chosen
for. Knows nothing of archives.
"""

from __future__ import annotations

from dataclasses import dataclass

from brevis.frame import Buffer
from brevis.ops import Unfit
from brevis.program import LITERAL, Term, encode, write
from brevis.search import estimate
from brevis.words import Words

LIT = Term(LITERAL)
RAW = Term("raw")
ROTATE = 4  # the function of map, FORMAT.md §4.3


@dataclass(frozen=True)
class Shape:
    """A shape without choices of its own: one term for the words of every chunk."""

    width: int
    template: Term

    def term(self, words: Words) -> Term:
        """The term to be encoded for these words."""
        return self.template

    def encode(self, content: Buffer) -> bytes:
        """The program for a chunk's content, a contiguous buffer of bytes. Raises Unfit where the content
        is not of this shape.
        """
        return self.encode_words(words_of(content, self.width))

    def encode_words(self, words: Words) -> bytes:
        program: bytes = write(encode(self.term(words), words))
        return program


def words_of(content: Buffer, width: int) -> Words:
    """The content as words; Unfit where it is no whole number of them."""
    if memoryview(content).nbytes * 8 % width:
        raise Unfit("no whole number of words")
    return Words.of(content, width)


@dataclass(frozen=True)
class Axis:
    """Which lines of a tensor are dealt to classes: word i is on line (i // inner) % mid; mid 0: as many
    lines as there are.
    """

    inner: int
    mid: int

    def split(self, count: int) -> tuple[int, int, int]:
        """(outer, mid, inner) of so many words."""
        lines, rest = divmod(count, self.inner)
        mid = self.mid or lines
        if rest or not mid or lines % mid:
            raise Unfit("no whole number of lines")
        return lines // mid, mid, self.inner


@dataclass(frozen=True)
class Classes:
    """Lines along an axis in up to k classes, each with a literal of its own."""

    axis: Axis
    k: int

    def term(self, bins: bytes, words: Words) -> Term:
        """A term for a field of these words; which class a line is in follows from the bins of its words."""
        _, dealt = estimate.Lines(words, bins, *self.axis.split(words.count)).deal(self.k, 0)
        return weave(dealt, self.axis, words.count, LIT)


def weave(dealt: bytes, axis: Axis, count: int, *parts: Term) -> Term:
    """Words dealt by line; `parts` are the terms of the classes, the last one serves all further classes."""
    k = max(dealt) + 1
    if k == 1:
        return parts[-1]
    outer, _mid, inner = axis.split(count)
    width = (k - 1).bit_length()
    selector = LIT
    if inner > 1:
        selector = Term("stretch", (inner,), (selector,))
    if outer > 1:
        selector = Term("repeat", (outer,), (selector,))
    classes = (*parts, *[parts[-1]] * k)[:k]
    return Term("weave", (k, estimate.selectors(dealt, width, outer, inner)), (selector, *classes))


@dataclass(frozen=True)
class Float(Shape):
    """Floating point: sign and exponent aside, the top mantissa bits are not independent of the exponent, the
    others are noise.

    The symbol is the exponent with the top `mantissa` bits, and with the sign where signs are skewed; it may
    be dealt to classes by scale. `clean` low bits that are zero, everywhere or (`dirty_lines`) in some rows,
    are cut off.
    """

    exponent: int
    mantissa: int
    signed: bool = False
    highest: int = 0  # half octave of the largest magnitude, where the bins for dealing begin
    classes: Classes | None = None
    clean: int = 0
    dirty_lines: Axis | None = None

    def term(self, words: Words) -> Term:
        symbol = LIT
        if self.classes:
            symbol = self.classes.term(self.bins(), words)
        low = self.low_term(words)
        rest = self.width - 1 - self.exponent - self.mantissa - self.clean
        if self.signed:
            fields = [(1 + self.exponent + self.mantissa, symbol), (rest, RAW), (self.clean, low)]
        elif self.clean:
            fields = [(1, RAW), (self.exponent + self.mantissa, symbol), (rest, RAW), (self.clean, low)]
        else:
            fields = [(self.exponent + self.mantissa, symbol), (rest + 1, RAW)]
        fields = [(width, term) for width, term in fields if width]
        merged = symbol
        if len(fields) > 1:
            merged = Term(
                "merge", tuple(width for width, _ in fields[:-1]), tuple(term for _, term in fields)
            )
        return merged if self.signed or self.clean else Term("map", (ROTATE, self.width - 1), (merged,))

    def bins(self) -> bytes:
        """For each value of a word's top bits, its scale."""
        bins: bytes = estimate.magnitude_bins(min(self.width, 16), self.exponent, self.highest)
        return bins

    def low_term(self, words: Words) -> Term:
        if not self.clean or not self.dirty_lines:
            return Term("const")
        clean = estimate.clean_bits(words, self.dirty_lines.inner)
        dealt = bytes(bits < self.clean for bits in clean)
        if max(dealt) == 0:
            return Term("const")
        if min(dealt) == 1:
            return RAW
        return weave(dealt, self.dirty_lines, words.count, Term("const"), RAW)


@dataclass(frozen=True)
class Dealt(Shape):
    """Whole words as symbols, of narrow types or where there are few distinct ones, in classes by row or
    column.

    With a `palette` each word stands once and the symbols are numbers: wide words would cost in every table.
    """

    classes: Classes | None = None
    exponent: int = 0  # of a float; 0: integers, dealt by value
    highest: int = 0
    palette: bool = False

    def bins(self) -> bytes:
        """For each value of a word's top bits, its value or scale."""
        bits = min(self.width, 16)
        bins: bytes = (
            estimate.magnitude_bins(bits, self.exponent, self.highest)
            if self.exponent
            else estimate.value_bins(bits)
        )
        return bins

    def term(self, words: Words) -> Term:
        symbol = self.classes.term(self.bins(), words) if self.classes else LIT
        return Term("lookup", (1,), (symbol, LIT)) if self.palette else symbol


@dataclass(frozen=True)
class Records(Shape):
    """Fixed-size records: each of the `period` words of a record has its own statistics."""

    period: int = 2

    def term(self, words: Words) -> Term:
        if words.count % self.period or words.count < 2 * self.period:
            raise Unfit("no whole number of records")
        return weave(bytes(range(self.period)), Axis(1, self.period), words.count, LIT)


@dataclass(frozen=True)
class Repeated(Shape):
    """One row of `inner` words, over and over."""

    inner: int = 1

    def term(self, words: Words) -> Term:
        rows, rest = divmod(words.count, self.inner)
        if rest or rows < 2:
            raise Unfit("no two whole rows")
        return Term("repeat", (rows,), (LIT,))
