"""What the rooms that load and save tensors want of a framework, such as numpy or torch.

It may assume that every framework's CPU memory can be seen as numpy's bytes. It does not know any framework;
`get` imports the one that's asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    from brevis.adapters.arrays import Array
    from brevis.frame import Entry

_NAMES = {"np": "numpy", "numpy": "numpy", "pt": "torch", "torch": "torch", "pytorch": "torch"}


class Framework(Protocol):
    """A kind of tensors."""

    def check_device(self, device: Any) -> None:
        """Refuse a device that there can't be."""

    def check(self, dtype: str, shape: tuple[int, ...]) -> None:
        """Refuse, as unsupported, a tensor that `view` could not make, before it's decoded."""

    def view(self, raw: Array, dtype: str, shape: tuple[int, ...], device: Any) -> Any:
        """Make a tensor of its stored bytes, without a copy where they can stay where they are."""

    def room(self, out: Any, entry: Entry) -> memoryview | None:
        """Return the memory of a caller's tensor, or None if stored bytes can't go there as they are."""

    def assign(self, out: Any, value: Any) -> None:
        """Copy a tensor to a caller's."""

    def spec(self, name: str, tensor: Any) -> tuple[str, tuple[int, ...]]:
        """Tell dtype and shape in safetensors' terms of a tensor, or of what describes one."""

    def pieces(self, tensor: Any) -> Iterator[Buffer]:
        """Yield a tensor's bytes as they are stored."""


def get(name: str) -> Framework:
    """Return a framework by one of its names."""
    if name not in _NAMES:
        raise ValueError(f"framework {name!r} is unknown: use 'np' or 'pt'")
    framework: Framework = import_module(f"brevis.adapters.{_NAMES[name]}").FRAMEWORK
    return framework
