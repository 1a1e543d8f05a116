"""Writes checkpoints, tensor by tensor, so that none but the one at hand must be in memory.

It may assume that an archive's file object compresses what is written to it. It does not know the framework
whose tensors they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brevis.adapters import framework as frameworks
from brevis.adapters import header
from brevis.file import BrevisFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from brevis.adapters.framework import Framework


class CheckpointWriter:
    """A compressed safetensors file that's written tensor by tensor, in the order of their declaration.

    The names, dtypes and shapes of all tensors stand at the beginning of such a file, so they come first:

        specs = {"wide": ("F32", (50_000, 4096)), "narrow": ("BF16", (4096,))}
        with brevis.CheckpointWriter("model.safetensors.brv", specs) as writer:
            for begin in range(0, 50_000, 1000):
                writer.write("wide", make_rows(begin, begin + 1000))
            writer.write("narrow", make_narrow())

    A tensor may come whole or in several parts along its first dimension. The file is in its place when the
    writer is closed with all tensors written. If that isn't reached, or the `with` block is left by an
    exception, an older file stays as it is. Declare wide dtypes first, as safetensors does: then the tensors
    are aligned in the file, when it's decompressed.
    """

    def __init__(
        self,
        filename: Any,
        specs: Mapping[str, Any],
        metadata: Mapping[str, str] | None = None,
        *,
        level: int = 6,
        threads: int = 0,
        framework: str = "np",
    ) -> None:
        """Begin a file.

        Args:
            filename: a path, or a file object to write to.
            specs: for each name a pair of safetensors' name for the dtype and the shape, or a tensor of the
                framework's, of which only dtype and shape are looked at; torch's device "meta" will do.
            metadata: texts by name, to be kept in the header.
            level: from 1, fast, to 9, small.
            threads: how many compress at a time; 0 is one a processor.
            framework: "np" or "pt", whose tensors will be written.
        """
        self._start(filename, specs, metadata, level, threads, frameworks.get(framework))

    def _start(
        self,
        filename: Any,
        specs: Mapping[str, Any],
        metadata: Mapping[str, str] | None,
        level: int,
        threads: int,
        framework: Framework,
    ) -> None:
        self._framework = framework
        self._specs = {name: _spec(name, spec, framework) for name, spec in specs.items()}
        described = [(name, *spec) for name, spec in self._specs.items()]
        start = header.write(described, metadata)
        # What is still to be written of each tensor, in bytes; empty ones are written already.
        self._left = {name: header.size_of(name, dtype, shape) for name, dtype, shape in described}
        self._names = [name for name in self._left if self._left[name]]
        self._names.reverse()
        self._file = BrevisFile(filename, "w", level=level, threads=threads)
        self._file.write(start)

    def write(self, name: str, tensor: Any) -> None:
        """Write a tensor, or its next rows.

        Raises:
            ValueError: it's another one's turn, or it was declared otherwise.
        """
        if name not in self._specs:
            raise ValueError(f"the tensor {name!r} was not declared")
        dtype, shape = _spec(name, tensor, self._framework)
        declared, whole = self._specs[name]
        size = header.size_of(name, dtype, shape)
        fits = shape == whole or (shape[1:] == whole[1:] and bool(shape) and bool(whole))
        if dtype != declared or not fits or size > self._left[name]:
            raise ValueError(
                f"{name}: {dtype} of {list(shape)} is no part of what is left of {declared} of {list(whole)}"
            )
        if not size:
            return
        if self._names[-1] != name:
            raise ValueError(f"it's the turn of {self._names[-1]!r}, not of {name!r}")
        for piece in self._framework.pieces(tensor):
            self._left[name] -= self._file.write(piece)
        if not self._left[name]:
            self._names.pop()

    def close(self) -> None:
        """Complete the file; a second time does nothing.

        Raises:
            ValueError: there are tensors left to write. No file is made.
        """
        if self._names and not self._file.closed:
            self._file.discard()
            raise ValueError(f"the tensor {self._names[-1]!r} was not written, so no file was made")
        self._file.close()

    def discard(self) -> None:
        """Give up, and leave an older file as it is."""
        self._file.discard()

    def __enter__(self) -> CheckpointWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.discard()


def _spec(name: str, spec: Any, framework: Framework) -> tuple[str, tuple[int, ...]]:
    """Return dtype and shape of what was declared."""
    if not isinstance(spec, (tuple, list)):
        return framework.spec(name, spec)
    dtype, shape = spec
    return str(dtype), tuple(int(size) for size in shape)


class _Saver(CheckpointWriter):
    """A writer for a framework at hand."""

    def __init__(self, *arguments: Any) -> None:
        self._start(*arguments)


def save_tensors(
    tensors: Mapping[str, Any],
    filename: Any,
    framework: Framework,
    metadata: Mapping[str, str] | None,
    level: int,
    threads: int,
) -> None:
    """Save all tensors in the order in which safetensors does."""
    specs = {name: framework.spec(name, tensor) for name, tensor in tensors.items()}
    names: Iterable[str] = header.official_order(specs)
    ordered = {name: specs[name] for name in names}
    with _Saver(filename, ordered, metadata, level, threads, framework) as writer:
        for name in ordered:
            writer.write(name, tensors[name])
