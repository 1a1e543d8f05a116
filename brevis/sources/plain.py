"""Sources without a header: anonymous bytes, or the elements of one array.

It may assume that whoever hands over an array knows its dtype and shape. It does not look at the bytes.
"""

from __future__ import annotations

from math import prod

from brevis.frame import MAX_RANK, MAX_U64, Entry
from brevis.sources import BYTES, DTYPE_BITS, Kind, Layout


def layout(kind: Kind = BYTES) -> Layout:
    """Return the layout of bytes of one kind; with a shape they are a tensor, whose name is empty."""
    bits = DTYPE_BITS.get(kind.dtype or "")
    if bits is None:
        return Layout("", ())
    size, part = divmod(prod(kind.shape) * bits, 8)
    if not kind.shape or part or size > MAX_U64 or len(kind.shape) > MAX_RANK:
        return Layout("", (), Kind(kind.dtype, ()))
    return Layout("", (Entry("", str(kind.dtype), kind.shape, 0, size),))
