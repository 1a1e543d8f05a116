"""A codec for numcodecs, and so for Zarr's format 2: `Brevis(level=6)`.

It may assume that numcodecs is there, which finds the codec by its entry point, or when this is imported. It
does not know how chunks are stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numcodecs.abc import Codec
from numcodecs.compat import ensure_contiguous_ndarray, ensure_ndarray_like
from numcodecs.registry import register_codec

from brevis.memory import LEVELS, compress, decompress


class Brevis(Codec):
    """Compresses chunks, with regard to their dtype and shape.

    Args:
        level: from 1, fast, to 9, small.
    """

    codec_id = "brevis"

    def __init__(self, level: int = 6) -> None:
        if level not in LEVELS:
            raise ValueError(f"there is no level {level!r}: they go from 1 to 9")
        self.level = level

    def encode(self, buf: Any) -> bytes:
        """Return the archive of a buffer or array; one in Fortran's order counts as flat."""
        flat = ensure_contiguous_ndarray(buf)
        array = ensure_ndarray_like(buf)
        shaped = flat.reshape(array.shape) if array.flags.c_contiguous and array.size == flat.size else flat
        # One thread, because those who have many chunks have threads of their own.
        return compress(shaped, level=self.level, threads=1)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Return the content of an archive, in `out` if that's given."""
        data = ensure_contiguous_ndarray(buf)
        if out is None:
            return decompress(data, threads=1)
        room = ensure_contiguous_ndarray(out).view(np.uint8)
        size = decompress(data, out=room, threads=1)
        if size != room.nbytes:
            raise ValueError(f"the content has {size} bytes, not the {room.nbytes} of out")
        return out

    def __repr__(self) -> str:
        return f"Brevis(level={self.level})"


register_codec(Brevis)
