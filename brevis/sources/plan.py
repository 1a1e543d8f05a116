"""Where a content is cut into chunks: by tensors where a layout names them, else by size.

It may assume a layout in the order of its bytes, without overlap, though it may claim bytes that never come.
It does not know what the bytes are, and cuts the same layout the same way every time.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from brevis.frame import Entry
from brevis.sources import BYTES, DTYPE_BITS, Cut, Kind, Layout

SMALL = 64 << 10  # tensors from this size on have chunks of their own: a record then costs less than 0.2 %
TINY = 4 << 10  # tensors below this may share a chunk with other dtypes: a record of their own would cost 2 %


def cuts(layout: Layout, chunk_size: int) -> Iterator[Cut]:
    """Cut a content of this layout into chunks of at most `chunk_size` bytes, and go on for ever."""
    position = series = 0
    group: _Group | None = None
    for entry in layout.entries:
        if entry.begin == entry.end:
            continue
        large = entry.end - entry.begin >= min(SMALL, chunk_size)
        if group and (large or not group.takes(entry, chunk_size)):
            yield Cut(group.begin, group.end, group.kind, series)
            series += 1
            group = None
        yield from _rest(layout.rest, position, entry.begin, series, chunk_size)
        position = entry.end
        if large:
            yield from _tensor(entry, series, chunk_size)
            series += 1
        elif group:
            group.add(entry)
        else:
            group = _Group(entry)
    if group:
        yield Cut(group.begin, group.end, group.kind, series)
        series += 1
    yield from _rest(layout.rest, position, None, series, chunk_size)


def part(cut: Cut, begin: int, end: int) -> Cut:
    """Return a part of a cut, for where the content ends inside it, or the chunk has to."""
    if (begin, end) == (cut.begin, cut.end):
        return cut
    bits = DTYPE_BITS.get(cut.kind.dtype or "", 8)
    whole = not (8 * (begin - cut.begin) % bits or 8 * (end - begin) % bits)
    kind = Kind(cut.kind.dtype, ()) if whole else BYTES
    return Cut(begin, end, kind, cut.series if kind == cut.kind else -1)


class _Group:
    """Small neighbours that share a chunk: several have no shape, and several dtypes are just bytes."""

    def __init__(self, entry: Entry) -> None:
        self.begin, self.end = entry.begin, entry.end
        self.kind = Kind(entry.dtype, entry.shape)

    def takes(self, entry: Entry, chunk_size: int) -> bool:
        if entry.begin != self.end or entry.end - self.begin > chunk_size:
            return False
        if entry.dtype == self.kind.dtype:
            return True
        # Tiny tensors of changing dtypes: one worse chunk is better than a record for each.
        tiny = entry.end - entry.begin < TINY
        return tiny and (self.kind.dtype is None or self.end - self.begin < TINY)

    def add(self, entry: Entry) -> None:
        self.end = entry.end
        self.kind = Kind(entry.dtype, ()) if entry.dtype == self.kind.dtype else BYTES


def _rest(kind: Kind, begin: int, end: int | None, series: int, chunk_size: int) -> Iterator[Cut]:
    """Cut what no tensor claims; anonymous elements are one series, bytes may change at any place."""
    step = chunk_size // _word_step(kind.dtype) * _word_step(kind.dtype)
    if kind.dtype is None:
        series = -1
    while end is None or begin < end:
        stop = begin + step if end is None else min(begin + step, end)
        yield Cut(begin, stop, kind, series)
        begin = stop


def _tensor(entry: Entry, series: int, chunk_size: int) -> Iterator[Cut]:
    """Cut a tensor evenly, so that no stump remains: between rows, or between words of rows too long."""
    size = entry.end - entry.begin
    rows = entry.shape[0] if entry.shape else 1
    row_bits = 8 * size // rows
    rows_in_unit = 8 // gcd(8, row_bits)  # a row of sub-byte words may end inside a byte
    unit = rows_in_unit * row_bits // 8
    if by_rows := unit <= chunk_size:
        units = rows // rows_in_unit
    else:
        unit = _word_step(entry.dtype)
        units = -(-size // unit)
    count = -(-units // (chunk_size // unit))
    for i in range(count):
        first, last = units * i // count, units * (i + 1) // count
        shape = ((last - first) * rows_in_unit, *entry.shape[1:]) if by_rows else ()
        end = min(entry.begin + last * unit, entry.end)
        yield Cut(entry.begin + first * unit, end, Kind(entry.dtype, shape), series)


def _word_step(dtype: str | None) -> int:
    """Return bytes after which a word surely ends: 16, but words of six bits need a multiple of three."""
    return 16 if dtype is None or DTYPE_BITS[dtype] % 8 in (0, 4) else 48
