"""`import brevis.fsspec`: makes `fsspec.open(..., compression="brevis")`, or "infer", work.

It may assume that fsspec is there. It does not know more than the names.
"""

from brevis.adapters.fsspec import OwningFile

__all__ = ["OwningFile"]
