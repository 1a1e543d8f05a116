"""Lossless compression of model checkpoints: for each tensor a short program that gives it back bit for bit.

The front door: `brevis.open`, `brevis.compress`, `brevis.decompress`, `brevis.numpy` and the errors. What is
behind it is imported when it is first used, so that the command starts fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brevis.adapters.tensors import safe_open
    from brevis.adapters.writer import CheckpointWriter
    from brevis.errors import (
        CorruptError,
        Error,
        InvalidProgramError,
        LimitError,
        MalformedError,
        TruncatedError,
        UnsupportedError,
    )
    from brevis.file import BrevisFile, open
    from brevis.memory import compress, decompress
    from brevis.stream import Compressor, Decompressor

__version__ = "0.1.0"

__all__ = [
    "BrevisFile",
    "CheckpointWriter",
    "Compressor",
    "CorruptError",
    "Decompressor",
    "Error",
    "InvalidProgramError",
    "LimitError",
    "MalformedError",
    "TruncatedError",
    "UnsupportedError",
    "compress",
    "decompress",
    "open",
    "safe_open",
]

_ROOMS = {
    "BrevisFile": "file",
    "CheckpointWriter": "adapters.writer",
    "Compressor": "stream",
    "Decompressor": "stream",
    "compress": "memory",
    "decompress": "memory",
    "open": "file",
    "safe_open": "adapters.tensors",
}
_DOORS = ("fsspec", "numpy", "torch")


def __getattr__(name: str) -> object:
    if name in _DOORS:
        return import_module(f"brevis.{name}")
    if name in __all__:
        return getattr(import_module(f"brevis.{_ROOMS.get(name, 'errors')}"), name)
    raise AttributeError(f"module 'brevis' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_DOORS, "__version__"]
