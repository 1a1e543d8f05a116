"""Memory for tensors as numpy sees it: aligned bytes, elements of four and six bits, and parts of tensors.

It may assume that a tensor's bytes are its elements in rows, little-endian. It does not know of archives, nor
what the elements mean: bytes are moved, never values.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from brevis.errors import LimitError
from brevis.sources import DTYPE_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

ALIGNMENT = 64  # bytes, of an array's memory: a cache line, and the widest vector that processors load
_STEP = 3 << 18  # bytes whose bits are spread at a time; no element of four or six bits straddles its end
BLOCK = 16 << 20  # bytes that are decoded at a time, where only some of their elements are wanted


def aligned(size: int) -> Array:
    """Return new memory of `size` bytes that begins at a multiple of the alignment."""
    try:
        room = np.empty(size + ALIGNMENT, np.uint8)
    except MemoryError:
        raise LimitError(f"there is no memory for a tensor of {size} bytes: load a slice of it") from None
    begin = -room.ctypes.data % ALIGNMENT
    return room[begin : begin + size]


class Arena:
    """Memory for many tensors: small ones share a piece, because a piece for each would take the time."""

    SIZE = 1 << 20
    SMALL = 64 << 10  # a small tensor that outlives its neighbours keeps a megabyte, so others get their own

    def __init__(self) -> None:
        self._room = aligned(0)

    def take(self, size: int) -> Array:
        """Return aligned memory of `size` bytes."""
        if size >= self.SMALL:
            return aligned(size)
        if size > self._room.size:
            self._room = aligned(self.SIZE)
        taken = self._room[:size]
        self._room = self._room[size + -size % ALIGNMENT :]
        return taken


def spread(raw: Array, bits: int) -> Array:
    """Give every element of `bits` bits, the first in the lowest, a byte of its own."""
    wide = aligned(raw.size * 8 // bits)
    for begin in range(0, raw.size, _STEP):
        fields = np.unpackbits(raw[begin : begin + _STEP], bitorder="little").reshape(-1, bits)
        first = begin * 8 // bits
        wide[first : first + len(fields)] = np.packbits(fields, axis=1, bitorder="little").reshape(-1)
    return wide


def pack(wide: Array, bits: int) -> Array:
    """Put elements of a byte each together again; what lies above their `bits` bits is dropped."""
    fields = np.unpackbits(wide.reshape(-1, 1), axis=1, bitorder="little")[:, :bits]
    return np.packbits(fields.reshape(-1), bitorder="little")


# Parts of tensors


class Span(NamedTuple):
    """What an index takes of one dimension; `kept` is False where the dimension goes."""

    begin: int
    size: int
    step: int
    kept: bool


def spans(index: object, shape: Sequence[int]) -> list[Span] | None:
    """Understand an index of whole numbers, slices and an ellipsis as numpy would; None is another kind."""
    items = list(index) if isinstance(index, tuple) else [index]
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if not all(item is Ellipsis or isinstance(item, slice) or _is_number(item) for item in items):
        return None
    missing = len(shape) - len(items) + len(dots)
    if missing < 0:
        raise IndexError(f"too many indices: the tensor has {len(shape)} dimensions")
    place = dots[0] if dots else len(items)
    items[place : place + len(dots)] = [slice(None)] * missing
    return [_span(item, size, i) for i, (item, size) in enumerate(zip(items, shape, strict=True))]


def _is_number(item: object) -> bool:
    return hasattr(item, "__index__") and not isinstance(item, bool) and not getattr(item, "shape", ())


def _span(item: Any, size: int, dimension: int) -> Span:
    if isinstance(item, slice):
        begin, end, step = item.indices(size)
        if step < 0:
            raise ValueError("slice step must be positive")
        return Span(begin, len(range(begin, end, step)), step, True)
    number = item.__index__()
    if not -size <= number < size:
        raise IndexError(f"index {number} is out of bounds for dimension {dimension} of size {size}")
    return Span(number % size, 1, 1, False)


class Gatherer:
    """Reads a part of a tensor: rows that are wanted whole go to their place, others by way of a block."""

    def __init__(
        self, read: Callable[[int, memoryview], None], shape: Sequence[int], width: int, index: list[Span]
    ) -> None:
        """Prepare to `read(position, out)`, positions counting from the tensor's first byte."""
        self._read = read
        self._index = index
        self._width = width
        self._word = np.dtype(f"u{width}")
        self._shape = tuple(shape)
        self._strides = [width * prod(shape[i + 1 :]) for i in range(len(shape))]
        whole = [span == Span(0, size, 1, True) for span, size in zip(index, shape, strict=True)]
        self._whole = [all(whole[i:]) for i in range(len(shape) + 1)]
        self.shape = tuple(span.size for span in index if span.kept)

    def gather(self) -> Array:
        """Return the part's bytes."""
        raw = aligned(self._width * prod(self.shape))
        if raw.size:
            self._fill(0, 0, raw.view(self._word).reshape(self.shape))
        return raw

    def _fill(self, dimension: int, position: int, out: Array) -> None:
        """Fill `out` with what the index takes of the dimensions from this one on."""
        if self._whole[dimension]:
            self._read_whole(position, out)
            return
        span, stride = self._index[dimension], self._strides[dimension]
        position += span.begin * stride
        if not span.kept:
            self._fill(dimension + 1, position, out)
        elif span.step == 1 and self._whole[dimension + 1]:
            self._read_whole(position, out)
        elif span.step * stride <= BLOCK:
            self._fill_by_blocks(dimension, position, out)
        else:
            for i in range(span.size):
                self._fill(dimension + 1, position + i * span.step * stride, out[i, ...])

    def _fill_by_blocks(self, dimension: int, position: int, out: Array) -> None:
        """Decode several rows at a time, and pick from them."""
        span, stride = self._index[dimension], self._strides[dimension]
        picked = (slice(None, None, span.step), *map(_pick, self._index[dimension + 1 :]))
        at_once = BLOCK // (span.step * stride)
        for first in range(0, span.size, at_once):
            count = min(at_once, span.size - first)
            rows = (count - 1) * span.step + 1
            block = np.empty((rows, *self._shape[dimension + 1 :]), self._word)
            self._read_whole(position + first * span.step * stride, block)
            out[first : first + count] = block[picked]

    def _read_whole(self, position: int, out: Array) -> None:
        self._read(position, out.reshape(-1).view(np.uint8).data)


def _pick(span: Span) -> slice | int:
    return slice(span.begin, span.begin + span.size * span.step, span.step) if span.kept else span.begin


def word_size(dtype: str) -> int | None:
    """Return the bytes of an element, or None where it's not a whole number."""
    size, rest = divmod(DTYPE_BITS[dtype], 8)
    return None if rest else size
