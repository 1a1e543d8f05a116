"""Checkpoints as dicts of torch tensors, in the manner of `safetensors.torch`.

It may assume that the adapters' inner rooms find, load and store a tensor's bytes. It does not know how they
were compressed, and moves bytes, never values.
"""

from __future__ import annotations

import io
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

from brevis.adapters import load as loading
from brevis.adapters.writer import save_tensors
from brevis.errors import UnsupportedError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from typing_extensions import Buffer

    from brevis.adapters.arrays import Array
    from brevis.frame import Entry

PIECE = 4 << 20  # elements that are brought to the CPU and made contiguous at a time, where they aren't

_TORCH = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "C64": "complex64",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F4": "float4_e2m1fn_x2",  # two elements in one of torch's
}
# Older versions of torch lack some of them.
_DTYPES = {name: getattr(torch, attribute) for name, attribute in _TORCH.items() if hasattr(torch, attribute)}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def load_file(
    filename: str | os.PathLike[str],
    device: str | int | torch.device = "cpu",
    *,
    out: Mapping[str, torch.Tensor] | None = None,
    threads: int = 0,
) -> dict[str, torch.Tensor]:
    """Load the tensors of a compressed safetensors file, as safetensors would those of the original.

    Args:
        filename: the archive: a path, a URL that fsspec knows, or a file object that can seek.
        device: where the tensors shall be. What goes to another device than the CPU passes through its
            memory tensor by tensor.
        out: tensors by name, such as `model.state_dict()`, into which those of these names are loaded,
            without a copy where they're contiguous in the CPU's memory. Each has the dtype and shape that the
            file has. After an error what they hold is undefined.
        threads: how many decode at a time; 0 is one a processor.

    Returns:
        Tensors by name in the header's order, aligned to 64 bytes; those of `out` where it has them. F4 comes
        as torch's `float4_e2m1fn_x2`, with half as many elements in the last dimension.

    Raises:
        brevis.Error: the archive is damaged, its content is no safetensors file, or torch has no such dtype.
        KeyError: `out` has a name that the file hasn't.
    """
    return loading.load(filename, FRAMEWORK, device=device, out=out, threads=threads)


def load(data: Buffer, *, threads: int = 0) -> dict[str, torch.Tensor]:
    """Load the tensors of an archive in memory, as `load_file` does."""
    return loading.load(io.BytesIO(data), FRAMEWORK, threads=threads)


def save_file(
    tensors: Mapping[str, torch.Tensor],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    level: int = 6,
    threads: int = 0,
) -> None:
    """Save tensors as a compressed safetensors file; decompressed, it's what safetensors would have written.

    Args:
        tensors: tensors by name, on any device and of any strides, of the dtypes that safetensors has.
        filename: where to; an older file there is replaced when the new one is complete.
        metadata: texts by name, to be kept in the header.
        level: from 1, fast, to 9, small.
        threads: how many compress at a time; 0 is one a processor. The memory is a few chunks of 4 MiB each.

    Raises:
        brevis.UnsupportedError: safetensors has no such dtype, or a tensor is sparse.
        RuntimeError: tensors share memory, which would be lost: save one of them, as safetensors demands too.
    """
    _refuse_shared(tensors)
    save_tensors(tensors, filename, FRAMEWORK, metadata, level, threads)


def save(
    tensors: Mapping[str, torch.Tensor],
    metadata: Mapping[str, str] | None = None,
    level: int = 6,
    threads: int = 0,
) -> bytes:
    """Return the archive that `save_file` would write."""
    target = io.BytesIO()
    _refuse_shared(tensors)
    save_tensors(tensors, target, FRAMEWORK, metadata, level, threads)
    return target.getvalue()


def _refuse_shared(tensors: Mapping[str, torch.Tensor]) -> None:
    """Refuse tensors that overlap in memory: they would come back as several."""
    ranges = []
    for name, tensor in tensors.items():
        if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and tensor.numel():
            reach = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True)) + 1
            begin = tensor.data_ptr()
            ranges.append((str(tensor.device), begin, begin + reach * tensor.element_size(), name))
    ranges.sort()
    for (device, _, end, name), (other_device, begin, _, other) in pairwise(ranges):
        if device == other_device != "meta" and begin < end:
            raise RuntimeError(
                f"the tensors {name!r} and {other!r} share memory, but would load as two: save one only, "
                "or clones"
            )


# What the inner rooms want to know of torch


class Torch:
    """Tensors are torch's."""

    def check_device(self, device: Any) -> None:
        """Refuse what torch doesn't know as a device."""
        try:
            torch.device(device)
        except RuntimeError as error:
            raise ValueError(f"{device!r} is no device of torch: {str(error).splitlines()[0]}") from None

    def check(self, dtype: str, shape: tuple[int, ...]) -> None:
        """Refuse what `view` can't make, before it's decoded."""
        kind = _dtype_of(dtype)
        try:
            torch.empty(_shape(dtype, shape), dtype=kind, device="meta")
        except (RuntimeError, OverflowError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise UnsupportedError(f"torch has no tensors of shape {list(shape)}: {reason}") from None

    def view(self, raw: Array, dtype: str, shape: tuple[int, ...], device: Any = "cpu") -> torch.Tensor:
        """Return a tensor's stored bytes as a tensor."""
        kind = _dtype_of(dtype)
        if raw.size:
            tensor = torch.from_numpy(raw).view(kind).reshape(_shape(dtype, shape))
        else:
            tensor = torch.empty(_shape(dtype, shape), dtype=kind)
        return tensor.to(device)

    def room(self, out: Any, entry: Entry) -> memoryview | None:
        """Return the memory of a tensor to be loaded into, if the stored bytes can go there as they are."""
        if not isinstance(out, torch.Tensor):
            raise TypeError(f"{entry.name}: out is {type(out).__name__}, not a tensor of torch")
        if out.dtype != _dtype_of(entry.dtype) or tuple(out.shape) != _shape(entry.dtype, entry.shape):
            raise ValueError(
                f"{entry.name}: out has {out.dtype} of {list(out.shape)}, the tensor is {entry.dtype} of "
                f"{list(entry.shape)}"
            )
        if out.device.type != "cpu" or not out.is_contiguous():
            return None
        return _bytes_of(out)

    def assign(self, out: Any, value: Any) -> None:
        """Copy a tensor to one to be loaded into."""
        with torch.no_grad():
            out.copy_(value)

    def spec(self, name: str, tensor: Any) -> tuple[str, tuple[int, ...]]:
        """Tell dtype and shape of a tensor, of any device, in safetensors' terms."""
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name}: {type(tensor).__name__} is not a tensor of torch")
        dtype = _NAMES.get(tensor.dtype)
        if dtype is None:
            raise UnsupportedError(f"{name}: safetensors has no dtype for {tensor.dtype}")
        if tensor.layout != torch.strided:
            raise UnsupportedError(f"{name}: a sparse tensor can't be saved: use its to_dense()")
        shape = tuple(tensor.shape)
        return dtype, (*shape[:-1], 2 * shape[-1]) if dtype == "F4" and shape else shape

    def pieces(self, tensor: Any) -> Iterator[Buffer]:
        """Yield a tensor's bytes, as they're stored."""
        tensor = tensor.detach()
        if tensor.device.type == "cpu" and tensor.is_contiguous():
            yield _bytes_of(tensor)
            return
        # Rows, or whatever has as many elements as may be brought here at once.
        if tensor.numel() <= PIECE or tensor.dim() == 0:
            yield _bytes_of(tensor.to("cpu").contiguous())
            return
        step = max(1, PIECE * tensor.shape[0] // tensor.numel())
        for begin in range(0, tensor.shape[0], step):
            part = tensor[begin : begin + step]
            yield from self.pieces(part[0] if len(part) == 1 else part)


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    """Return the memory of a contiguous tensor of the CPU."""
    if not tensor.numel():
        return memoryview(b"")
    array: Array = tensor.detach().reshape(-1).view(torch.uint8).numpy()
    return array.data


def _shape(dtype: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that torch has for a tensor."""
    if dtype != "F4":
        return shape
    if not shape or shape[-1] % 2:
        raise UnsupportedError(f"torch has F4 in pairs, and the last dimension of {list(shape)} is odd")
    return (*shape[:-1], shape[-1] // 2)


def _dtype_of(name: str) -> torch.dtype:
    """Return torch's dtype for one of safetensors."""
    dtype = _DTYPES.get(name)
    if dtype is None:
        raise UnsupportedError(f"this version of torch has no {name}: load it with brevis.numpy")
    return dtype


FRAMEWORK = Torch()
