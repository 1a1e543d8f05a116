"""A codec for Zarr's format 3: `zarr.create_array(..., compressors=BrevisCodec(level=6))`.

It may assume that zarr 3 is there, which finds the codec by the entry point, or when this room is imported.
It does not know how chunks are stored.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
from zarr.abc.codec import BytesBytesCodec
from zarr.registry import register_codec

from brevis.memory import LEVELS, compress, decompress


@dataclass(frozen=True)
class BrevisCodec(BytesBytesCodec):
    """Compresses chunks, with regard to their dtype and shape; `level` is from 1, fast, to 9, small."""

    level: int = 6

    is_fixed_size = False

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"there is no level {self.level!r}: they go from 1 to 9")

    @classmethod
    def from_dict(cls, data: Any) -> BrevisCodec:
        """Make a codec of its description in an array's metadata."""
        return cls(**data.get("configuration", {}))

    def to_dict(self) -> Any:
        """Return the description for an array's metadata."""
        return {"name": "brevis", "configuration": {"level": self.level}}

    async def _encode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        data = await asyncio.to_thread(self._compress, chunk_bytes.as_numpy_array(), chunk_spec)
        return chunk_spec.prototype.buffer.from_bytes(data)

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        data = await asyncio.to_thread(decompress, chunk_bytes.as_numpy_array(), threads=1)
        return chunk_spec.prototype.buffer.from_bytes(data)

    def _compress(self, chunk: Any, chunk_spec: Any) -> bytes:
        """Compress a chunk as what it is, unless another codec has made something else of it."""
        dtype = chunk_spec.dtype
        native = dtype.to_native_dtype() if hasattr(dtype, "to_native_dtype") else dtype
        whole = np.prod(chunk_spec.shape, dtype=object) * native.itemsize == chunk.nbytes
        if whole and native.kind in "biufc" and native.isnative:
            chunk = chunk.view(native).reshape(chunk_spec.shape)
        return compress(chunk, level=self.level, threads=1)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        """Refuse: it's known only afterwards."""
        raise NotImplementedError


register_codec("brevis", BrevisCodec)
