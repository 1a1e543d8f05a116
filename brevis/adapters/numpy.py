"""Checkpoints as dicts of numpy arrays, in the manner of `safetensors.numpy`.

It may assume that the adapters' inner rooms find, load and store a tensor's bytes. It does not know how they
were compressed, and moves bytes, never values.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from brevis.adapters import load as loading
from brevis.adapters.arrays import Array, pack, spread
from brevis.adapters.writer import save_tensors
from brevis.errors import UnsupportedError
from brevis.sources import DTYPE_BITS

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from typing_extensions import Buffer

    from brevis.frame import Entry

PIECE = 4 << 20  # bytes of an array that are made contiguous at a time, where it isn't

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
_NAMES = {np.dtype(native).name: name for name, native in _NATIVE.items()}
_NAMES |= {ml_dtype: name for name, ml_dtype in _ML_DTYPES.items()}


def load_file(
    filename: str | os.PathLike[str], *, out: Mapping[str, Array] | None = None, threads: int = 0
) -> dict[str, Array]:
    """Load the tensors of a compressed safetensors file, as safetensors would those of the original.

    Args:
        filename: the archive: a path, a URL that fsspec knows, or a file object that can seek.
        out: arrays by name, into which tensors of these names are decoded, without a copy where the array is
            contiguous. Each has the tensor's dtype and shape. After an error what they hold is undefined.
        threads: how many decode at a time; 0 is one a processor.

    Returns:
        Arrays by name in the header's order, writable and aligned to 64 bytes; those of `out` where it has
        them. BF16, F8, F6 and F4 take `ml_dtypes`, which gives an element of four or six bits a byte.

    Raises:
        brevis.Error: the archive is damaged, or its content is no safetensors file, by the same rules as the
            safetensors package has. Tensors of several members come together, but a name twice is an error.
        KeyError: `out` has a name that the file hasn't.
    """
    return loading.load(filename, FRAMEWORK, out=out, threads=threads)


def load(data: Buffer, *, threads: int = 0) -> dict[str, Array]:
    """Load the tensors of an archive in memory, as `load_file` does."""
    return loading.load(io.BytesIO(data), FRAMEWORK, threads=threads)


def save_file(
    tensors: Mapping[str, Array],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    level: int = 6,
    threads: int = 0,
) -> None:
    """Save arrays as a compressed safetensors file; decompressed, it's what safetensors would have written.

    Args:
        tensors: arrays by name, of any strides and byte order, and of the dtypes that safetensors has.
        filename: where to; an older file there is replaced when the new one is complete.
        metadata: texts by name, to be kept in the header.
        level: from 1, fast, to 9, small.
        threads: how many compress at a time; 0 is one a processor. The memory is a few chunks of 4 MiB each.

    Raises:
        brevis.UnsupportedError: safetensors has no such dtype.
        ValueError: there's no such level, or a name or shape can't be in such a file.
    """
    save_tensors(tensors, filename, FRAMEWORK, metadata, level, threads)


def save(
    tensors: Mapping[str, Array],
    metadata: Mapping[str, str] | None = None,
    level: int = 6,
    threads: int = 0,
) -> bytes:
    """Return the archive that `save_file` would write."""
    target = io.BytesIO()
    save_tensors(tensors, target, FRAMEWORK, metadata, level, threads)
    return target.getvalue()


# What the inner rooms want to know of numpy


class Numpy:
    """Tensors are numpy's arrays."""

    def check_device(self, device: object) -> None:
        """Refuse every place but the host's memory."""
        if str(device) != "cpu":
            raise ValueError(f"numpy has its arrays in the memory of the CPU, not on {device!r}")

    def view(self, raw: Array, dtype: str, shape: tuple[int, ...], device: object = "cpu") -> Array:
        """Return a tensor's stored bytes as an array."""
        kind, bits = dtype_of(dtype), DTYPE_BITS[dtype]
        return (raw if bits >= 8 else spread(raw, bits)).view(kind).reshape(shape)

    def check(self, dtype: str, shape: tuple[int, ...]) -> None:
        """Refuse what `view` can't make, before it's decoded."""
        kind = dtype_of(dtype)
        if 0 in shape or len(shape) > 32:  # all of numpy has 32, and without a zero the bytes are there
            try:
                np.broadcast_to(np.empty((), kind), shape)
            except (ValueError, OverflowError) as error:
                raise UnsupportedError(f"numpy has no arrays of shape {list(shape)}: {error}") from None

    def room(self, out: Any, entry: Entry) -> memoryview | None:
        """Return the memory of an array to be loaded into, if the stored bytes can go there as they are."""
        if not isinstance(out, np.ndarray):
            raise TypeError(f"{entry.name}: out is {type(out).__name__}, not an array of numpy")
        if out.dtype != dtype_of(entry.dtype) or out.shape != entry.shape:
            raise ValueError(
                f"{entry.name}: out has {out.dtype} of {list(out.shape)}, the tensor is {entry.dtype} of "
                f"{list(entry.shape)}"
            )
        if not out.flags.writeable:
            raise ValueError(f"{entry.name}: out can't be written")
        if not out.flags.c_contiguous or DTYPE_BITS[entry.dtype] < 8:
            return None
        return out.reshape(-1).view(np.uint8).data

    def assign(self, out: Any, value: Any) -> None:
        """Copy a tensor to an array to be loaded into."""
        out[...] = value

    def spec(self, name: str, array: Any) -> tuple[str, tuple[int, ...]]:
        """Tell dtype and shape of an array, or of anything that has both, in safetensors' terms."""
        dtype = _NAMES.get(str(getattr(array.dtype, "name", array.dtype)))
        if dtype is None:
            raise UnsupportedError(f"{name}: safetensors has no dtype for {array.dtype}")
        return dtype, tuple(array.shape)

    def pieces(self, array: Any) -> Iterator[Buffer]:
        """Yield an array's bytes, as they're stored."""
        array = np.asarray(array)
        bits = DTYPE_BITS[self.spec("array", array)[0]]
        if array.size == 0:
            return
        if bits >= 8 and array.flags.c_contiguous and array.dtype.newbyteorder("<") == array.dtype:
            yield array.reshape(-1).view(np.uint8).data
            return
        step = PIECE // array.itemsize  # elements of which a multiple of eight fills whole bytes
        for begin in range(0, array.size, step):
            part = _elements(array, begin, min(begin + step, array.size))
            part = part.astype(part.dtype.newbyteorder("<"), copy=False)
            raw = part.view(np.uint8)
            yield (raw if bits >= 8 else pack(raw, bits)).data


def _elements(array: Array, begin: int, end: int) -> Array:
    """Return the elements [begin, end) in the order of rows, as a copy."""
    return np.ascontiguousarray(array.flat[begin:end])


def dtype_of(name: str) -> np.dtype[Any]:
    """Return numpy's dtype for one of safetensors."""
    if name in _NATIVE:
        return np.dtype(_NATIVE[name])
    try:
        import ml_dtypes  # an extra, which most checkpoints can do without

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[name]))
    except (ImportError, AttributeError) as error:
        raise UnsupportedError(f"numpy has no {name}: install ml_dtypes 0.5 or later") from error
    return dtype


FRAMEWORK = Numpy()
