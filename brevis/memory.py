"""Archives in memory: `compress` and `decompress`.

It may assume that codec turns content into records and back, in order and checked. It does not know of files.
"""

from __future__ import annotations

import io
import sys
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any, overload

from brevis import codec
from brevis.errors import Error, LimitError
from brevis.frame import read_members
from brevis.sources import DTYPE_BITS, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

LEVELS = range(1, 10)

# From this size on, an archive is decoded into one piece of memory of the length that its index tells.
# An index that tells of more than so many times the archive may lie: then memory is spent as chunks come.
_WORTH_A_LOOK = 1 << 16
_PLAUSIBLE = 16

# The names that buffers and arrays have for dtypes; others are compressed as bytes.
_FORMATS = {"?": "BOOL", "e": "F16", "f": "F32", "d": "F64", "Zf": "C64"}
_ARRAY_DTYPES = {
    "bfloat16": "BF16",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
}


def new_encoder(level: int, threads: int, kind: Kind | None = None) -> codec.Encoder:
    """Begin a member, at a level that there is."""
    if isinstance(level, bool) or index(level) not in LEVELS:
        raise ValueError(f"there is no level {level!r}: they go from 1 to 9")
    return codec.Encoder(level=level, threads=threads, kind=kind)


def compress(data: Any, *, level: int = 6, threads: int = 0, dtype: str | None = None) -> bytes:
    """Compress a buffer to an archive.

    Bytes are looked at for what they are, such as a safetensors file. An array, or another buffer with items
    of several bytes or with several dimensions, is one tensor of its own shape and dtype; `dtype` names
    another one, as safetensors does.
    """
    view, kind = _describe(data)
    if dtype is not None:
        kind = _retype(data, view, dtype)
    encoder = new_encoder(level, threads, kind)
    try:
        return b"".join([*encoder.write(view, stable=True), *encoder.finish()])
    finally:
        encoder.close()


def _describe(data: Any) -> tuple[memoryview, Kind | None]:
    """Return an array's or buffer's bytes, and what kind of tensor it is, if it's one."""
    name = _ARRAY_DTYPES.get(str(getattr(data, "dtype", "")))
    if name is not None:
        # The buffer protocol has no format for these, so the array itself has to show its bytes.
        if not data.flags.c_contiguous:
            raise BufferError("the array is strided: make a contiguous copy of it")
        return memoryview(data.reshape(-1).view("uint8")), Kind(name, tuple(data.shape))
    try:
        view = memoryview(data)
    except ValueError:  # an array whose elements no buffer can describe, such as int4: it still has bytes
        view = memoryview(data.reshape(-1).view("uint8"))
    name = _dtype_of(view)
    if name is None or (view.ndim == 1 and view.itemsize == 1 and name != "BOOL"):
        return codec.byte_view(view), None
    return codec.byte_view(view), Kind(name, view.shape or ())


def _dtype_of(view: memoryview) -> str | None:
    """Name the dtype of a buffer's items by their format, where they're little-endian."""
    order, letter = view.format[:1], view.format.lstrip("@=<>!")
    if order in ("!", ">") or (order != "<" and sys.byteorder == "big"):
        return None
    if len(letter) == 1 and letter in "bBhHiIlLqQ":
        return f"{'I' if letter.islower() else 'U'}{8 * view.itemsize}"
    return _FORMATS.get(letter)


def _retype(data: Any, view: memoryview, dtype: str) -> Kind:
    """Take the shape of `data` for one of elements of `dtype`: the last dimension's bytes are cut anew."""
    bits = DTYPE_BITS.get(dtype)
    if bits is None:
        raise ValueError(f"unknown dtype: {dtype!r}; safetensors has {', '.join(DTYPE_BITS)}")
    shape: tuple[int, ...] = tuple(data.shape if hasattr(data, "shape") else memoryview(data).shape or ())
    if not len(view):
        return Kind(dtype, shape)
    row = (shape[-1] if shape else 1) * 8 * len(view) // prod(shape)
    if row % bits or (not shape and row != bits):
        raise ValueError(f"the last dimension has {row} bits, which is no whole number of {dtype}")
    return Kind(dtype, (*shape[:-1], row // bits) if shape else ())


@overload
def decompress(
    data: Buffer, *, out: None = ..., max_output_size: int | None = ..., threads: int = ...
) -> bytes: ...
@overload
def decompress(
    data: Buffer, *, out: Buffer, max_output_size: int | None = ..., threads: int = ...
) -> int: ...
def decompress(
    data: Buffer, *, out: Buffer | None = None, max_output_size: int | None = None, threads: int = 0
) -> bytes | int:
    """Return the content of an archive.

    With `out`, a writable buffer, the content is decoded into it without a copy, and its length is returned;
    a buffer that's too small is a `ValueError`. After an error what it holds is undefined. More content than
    `max_output_size` bytes is a `LimitError`, before any memory is spent on it.
    """
    view = codec.byte_view(data)
    whole = None if out is not None else _Whole(_content_length(view, max_output_size))
    room = _Room(whole.view if whole else codec.byte_view(out), whole is not None, max_output_size)
    pieces = codec.decode_blocks(_slices(view), into=room.take, read_size=None, threads=threads)
    if whole is None:
        return sum(map(len, pieces))
    content = list(pieces)
    del room, pieces
    return whole.take(content)


def _content_length(view: memoryview, limit: int | None) -> int:
    """Tell how much memory an archive's content surely needs, by its index; 0 where that's in doubt."""
    if len(view) < _WORTH_A_LOOK:
        return 0
    try:
        members = read_members(lambda offset, size: view[offset : offset + size], len(view))
    except Error:
        return 0  # reading in order tells what's wrong
    length = sum(member.content_length for member in members)
    return 0 if length > _PLAUSIBLE * len(view) or (limit is not None and length > limit) else length


class _Whole:
    """A content in one piece that becomes `bytes` without a copy."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._file = io.BytesIO()
        if length:
            self._file.seek(length - 1)
            self._file.write(b"\0")
        self.view = self._file.getbuffer()

    def take(self, pieces: list[memoryview]) -> bytes:
        """Return the content that the pieces make, most of them parts of the view."""
        if sum(map(len, pieces)) != self._length:
            return b"".join(pieces)
        for piece in pieces:
            piece.release()
        self.view.release()
        return self._file.getvalue()


def _slices(view: memoryview) -> Callable[[int], memoryview]:
    """Return a function that reads on in memory."""
    position = 0

    def read(size: int) -> memoryview:
        nonlocal position
        position += size
        return view[position - size : position]

    return read


class _Room:
    """Where decompressed content goes: into a buffer, then into new memory if that may be; within a limit."""

    def __init__(self, out: memoryview, grows: bool, limit: int | None) -> None:
        if out.readonly:
            raise TypeError("a buffer to decompress into must be writable")
        self._out = out
        self._grows = grows
        self._limit = limit
        self._used = 0

    def take(self, size: int) -> bytearray | memoryview:
        """Return room for the next `size` bytes."""
        begin, self._used = self._used, self._used + size
        if self._limit is not None and self._used > self._limit:
            raise LimitError(
                f"the content is larger than the limit of {self._limit} bytes: raise that, or refuse it"
            )
        if self._used <= len(self._out):
            return self._out[begin : self._used]
        if not self._grows:
            raise ValueError(f"the content is larger than the {len(self._out)} bytes of the buffer")
        return bytearray(size)
