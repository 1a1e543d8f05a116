"""Checkpoints as dicts of numpy arrays, in the manner of `safetensors.numpy`.

It may assume that an archive's members hold safetensors files, and refuses what the official parser would
refuse. It does not know how their bytes were compressed, and moves bytes, never values.
"""

from __future__ import annotations

import io
import json
from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from brevis.codec import decode_blocks
from brevis.errors import Error, MalformedError, UnsupportedError
from brevis.file import BrevisFile
from brevis.reader import Source
from brevis.sources import DTYPE_BITS, Layout
from brevis.sources.safetensors import MAX_HEADER_LENGTH, probe

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from typing_extensions import Buffer

    from brevis.frame import Entry, Member

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

ALIGNMENT = 64  # bytes, of an array's memory: a cache line, and the widest vector that processors load

_NATIVE = {
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "I16": "<i2",
    "U16": "<u2",
    "F16": "<f2",
    "I32": "<i4",
    "U32": "<u4",
    "F32": "<f4",
    "C64": "<c8",
    "F64": "<f8",
    "I64": "<i8",
    "U64": "<u8",
}
_ML_DTYPES = {
    "BF16": "bfloat16",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F4": "float4_e2m1fn",
    "F6_E2M3": "float6_e2m3fn",
    "F6_E3M2": "float6_e3m2fn",
}


def load_file(filename: str | os.PathLike[str]) -> dict[str, Array]:
    """Load the tensors of a compressed safetensors file, as safetensors would those of the original.

    The arrays are in the header's order, writable and aligned to 64 bytes. BF16, F8, F6 and F4 take
    `ml_dtypes`, which gives an element of four or six bits a byte. The tensors of several members come
    together.
    """
    with open(filename, "rb") as file:
        return _load(file)


def load(data: Buffer) -> dict[str, Array]:
    """Load the tensors of an archive in memory, as `load_file` does."""
    return _load(io.BytesIO(data))


def _load(file: Any) -> dict[str, Array]:
    """Read headers by the index, then decode all in order, straight into the arrays where chunks allow it."""
    memory = _Memory()
    arrays: dict[str, Callable[[], Array]] = {}
    source = Source(file)
    with BrevisFile(file) as content:
        try:
            members = source.members()
        except Error:
            deque(decode_blocks(source.in_order()), maxlen=0)  # an earlier fault decides what's wrong
            raise
        for member in members:
            content.seek(member.begin)
            for entry in _entries(content, member):
                if entry.name in arrays:
                    raise MalformedError(
                        f"two members have a tensor {entry.name!r}: load each by itself", member.offset
                    )
                arrays[entry.name] = memory.reserve(entry, member.begin)
    memory.fill(decode_blocks(source.in_order(), into=memory.take))
    return {name: finish() for name, finish in arrays.items()}


# Headers


def _entries(content: BrevisFile, member: Member) -> list[Entry]:
    """Return what the header of a member's content tells, if the official parser would take it."""
    prefix = content.read(8)
    size = int.from_bytes(prefix, "little")
    if member.content_length < 8 or size > min(MAX_HEADER_LENGTH, member.content_length - 8):
        _refuse(member)
    header = _last_of_each(content.read(size))
    layout = probe(memoryview(len(header).to_bytes(8, "little") + header), complete=True)
    if not isinstance(layout, Layout):
        _refuse(member)
    shift = size - len(header)
    entries = {
        entry.name: entry._replace(begin=entry.begin + shift, end=entry.end + shift)
        for entry in layout.entries
    }
    if max((entry.end for entry in entries.values()), default=8 + size) != member.content_length:
        _refuse(member)
    return [entries[name] for name in json.loads(header.decode()) if name in entries]


def _refuse(member: Member) -> NoReturn:
    raise MalformedError(
        "the content is no safetensors file: decompress it, and look what it is", member.offset
    )


class _Twice(dict[str, Any]):
    """A JSON object that has a name twice."""


def _last_of_each(header: bytes) -> bytes:
    """Write a header anew that has a tensor twice, of which the official parser takes the last.

    The probe refuses such a header, because it's also asked what to compress, where nothing must be left out.
    """

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        return members if len(members) == len(pairs) else _Twice(members)

    try:
        tensors = json.loads(header.decode(), object_pairs_hook=note)
    except (ValueError, RecursionError):
        return header  # which the probe refuses too
    if isinstance(tensors, _Twice) and not any(isinstance(tensor, _Twice) for tensor in tensors.values()):
        return json.dumps(tensors).encode()
    return header


# Arrays


class _Part(NamedTuple):
    """The bytes [begin, end) of the archive's content, and the memory where they belong."""

    begin: int
    end: int
    memory: memoryview


class _Memory:
    """The memory of all arrays, by the content that belongs there."""

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._taken = 0

    def reserve(self, entry: Entry, base: int) -> Callable[[], Array]:
        """Make room for a tensor, and return the function that makes an array of it when it's there."""
        dtype = _dtype(entry.dtype)
        raw = _aligned(entry.end - entry.begin)
        if raw.size:
            self._parts.append(_Part(base + entry.begin, base + entry.end, raw.data))
        bits = DTYPE_BITS[entry.dtype]
        return lambda: (raw if bits >= 8 else _spread(raw, bits)).view(dtype).reshape(entry.shape)

    def take(self, size: int) -> bytearray | memoryview:
        """Return memory for the next content: that of an array, if it all belongs there."""
        begin, self._taken = self._taken, self._taken + size
        return self._within(begin, begin + size) or bytearray(size)

    def fill(self, pieces: Iterable[memoryview]) -> None:
        """Let the content come, and copy what isn't in its place."""
        self._parts.sort(key=_begin)
        end = 0
        for piece in pieces:
            begin, end = end, end + len(piece)
            if self._within(begin, end) is None:
                self._copy(piece, begin, end)

    def _find(self, position: int) -> int:
        """Return the number of the last part that begins at `position` or before."""
        return bisect_right(self._parts, position, key=_begin) - 1

    def _within(self, begin: int, end: int) -> memoryview | None:
        number = self._find(begin)
        if number < 0 or end > self._parts[number].end:
            return None
        part = self._parts[number]
        return part.memory[begin - part.begin : end - part.begin]

    def _copy(self, piece: memoryview, begin: int, end: int) -> None:
        for part in self._parts[max(self._find(begin), 0) : self._find(end - 1) + 1]:
            first, last = max(begin, part.begin), min(end, part.end)
            if first < last:
                part.memory[first - part.begin : last - part.begin] = piece[first - begin : last - begin]


def _begin(part: _Part) -> int:
    return part.begin


def _aligned(size: int) -> Array:
    """Return new memory that begins at a multiple of the alignment."""
    room = np.empty(size + ALIGNMENT, np.uint8)
    begin = -room.ctypes.data % ALIGNMENT
    return room[begin : begin + size]


def _spread(raw: Array, bits: int) -> Array:
    """Give every element of `bits` bits a byte of its own."""
    fields = np.unpackbits(raw, bitorder="little").reshape(-1, bits)
    spread = _aligned(len(fields))
    spread[:] = np.packbits(fields, axis=1, bitorder="little").reshape(-1)
    return spread


def _dtype(name: str) -> np.dtype[Any]:
    """Return numpy's dtype for one of safetensors."""
    if name in _NATIVE:
        return np.dtype(_NATIVE[name])
    try:
        import ml_dtypes  # an extra, which most checkpoints can do without

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[name]))
    except (ImportError, AttributeError) as error:
        raise UnsupportedError(f"numpy has no {name}: install ml_dtypes 0.5 or later") from error
    return dtype
