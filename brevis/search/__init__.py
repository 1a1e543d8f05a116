"""The search: which program writes a tensor's words in the fewest bytes.

`choose` decides the shape on a tensor's first chunk; the shape then makes the program of each chunk. May
assume contiguous buffers. Knows nothing of archives and sources; a kind is anything with `dtype` (a
safetensors name, or None for bytes) and `shape`.
"""

from __future__ import annotations

from brevis.ops import Unfit
from brevis.search.choice import choose, encode_fallback, stored
from brevis.search.shapes import Shape

__all__ = ["Shape", "Unfit", "choose", "encode_fallback", "stored"]
