"""What the bytes are: which ranges of a content are tensors, and where it is best cut into chunks.

It may assume that a layout, once a source has returned it, is in the order of its bytes and does not overlap.
It does not know how a chunk is compressed, nor whether the bytes that a layout speaks of will ever come.
"""

from __future__ import annotations

from typing import NamedTuple

from brevis.frame import Entry

# The names of safetensors 0.8, with the bits of an element.
DTYPE_BITS = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}


class Kind(NamedTuple):
    """What a run of bytes is: elements of a dtype, or just bytes; with their shape, `()` if it is unknown."""

    dtype: str | None
    shape: tuple[int, ...]


BYTES = Kind(None, ())


class Layout(NamedTuple):
    """The tensors of a content; `rest` is what lies outside of them, `source` the kind of the whole."""

    source: str
    entries: tuple[Entry, ...]
    rest: Kind = BYTES


class Cut(NamedTuple):
    """The bytes [begin, end) of a content, to be one chunk.

    Cuts of one series are alike, so that what is learnt of the first serves them all; -1 is no series.
    """

    begin: int
    end: int
    kind: Kind
    series: int
