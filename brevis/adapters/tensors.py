"""`safe_open`: the tensors of an archive one at a time, in the manner of the safetensors package.

It may assume that content decodes any range of bytes, and a framework makes tensors of them. It does not know
how either is done.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from brevis.adapters import framework as frameworks
from brevis.adapters.arrays import Gatherer, aligned, spans, word_size
from brevis.adapters.content import Content
from brevis.adapters.header import in_place_order

if TYPE_CHECKING:
    from types import TracebackType

    from brevis.frame import Entry


class safe_open:
    """A compressed safetensors file, whose tensors are decoded when they're asked for.

        with brevis.safe_open("model.safetensors.brv", framework="pt", device="cuda:0") as file:
            for name in file.keys():
                tensor = file.get_tensor(name)
            rows = file.get_slice("embedding")[1000:2000]

    Only the chunks that hold a tensor, or the asked-for part of it, are read and decoded. Several threads may
    use it at a time, and processes that are forked off as well.
    """

    def __init__(
        self, filename: Any, framework: str = "np", device: Any = "cpu", *, threads: int = 0
    ) -> None:
        """Open an archive, and read its header.

        Args:
            filename: a path, a URL that fsspec knows, or a file object that can seek; the latter stays open.
            framework: "np" for numpy's arrays, "pt" for torch's tensors.
            device: where torch's tensors shall be.
            threads: how many decode at a time, where a tensor has several chunks; 0 is one a processor.

        Raises:
            brevis.Error: the archive is damaged, or its content is no safetensors file.
            ValueError: there's no such framework or device.
        """
        self._framework = frameworks.get(framework)
        self._framework.check_device(device)
        self._device = device
        self._arguments = (filename, framework, device)
        self._threads = threads
        self._content: Content | None = Content(filename, threads)
        try:
            self._tensors, self._metadata = self._content.checkpoint()
        except BaseException:
            self.close()
            raise

    def keys(self) -> list[str]:
        """Return the tensors' names, in the header's order."""
        self._reading()
        return list(self._tensors)

    def offset_keys(self) -> list[str]:
        """Return the tensors' names, in the order of their bytes."""
        self._reading()
        return [entry.name for entry in in_place_order(self._tensors)]

    def metadata(self) -> dict[str, str] | None:
        """Return the header's texts, or None where there are none."""
        self._reading()
        return None if self._metadata is None else dict(self._metadata)

    def get_tensor(self, name: str, out: Any = None) -> Any:
        """Return a tensor, which is writable and aligned to 64 bytes.

        With `out`, a tensor of the same dtype and shape, it's decoded into that, without a copy where its
        memory is the CPU's and contiguous, and `out` is returned. After an error what it holds is undefined.

        Raises:
            KeyError: there's no tensor of this name.
            brevis.Error: a chunk is damaged, or the framework has no such dtype or shape.
            ValueError: `out` has another dtype or shape.
        """
        content, entry = self._find(name)
        self._framework.check(entry.dtype, entry.shape)
        room = None if out is None else self._framework.room(out, entry)
        if room is not None:
            content.read_into(entry.begin, room)
            return out
        raw = aligned(entry.end - entry.begin)
        content.read_into(entry.begin, raw.data)
        if out is None:
            return self._framework.view(raw, entry.dtype, entry.shape, self._device)
        self._framework.assign(out, self._framework.view(raw, entry.dtype, entry.shape, "cpu"))
        return out

    def get_tensors(self) -> dict[str, Any]:
        """Return all tensors by name, in the header's order."""
        return {name: self.get_tensor(name) for name in self.keys()}

    def get_slice(self, name: str) -> TensorSlice:
        """Return a stand-in for a tensor: its parts are decoded when it's indexed."""
        self._find(name)
        return TensorSlice(self, name)

    def _find(self, name: str) -> tuple[Content, Entry]:
        content = self._reading()
        entry = self._tensors.get(name)
        if entry is None:
            raise KeyError(f"there is no tensor {name!r} in the archive")
        return content, entry

    def _reading(self) -> Content:
        if self._content is None:
            raise ValueError("the archive is closed")
        return self._content

    def _part(self, name: str, index: Any) -> Any:
        content, entry = self._find(name)
        self._framework.check(entry.dtype, entry.shape)
        width = word_size(entry.dtype)
        taken = None if width is None else spans(index, entry.shape)
        if width is None or taken is None:
            return self.get_tensor(name)[index]

        def read(position: int, out: memoryview) -> None:
            content.read_into(entry.begin + position, out)

        part = Gatherer(read, entry.shape, width, taken)
        return self._framework.view(part.gather(), entry.dtype, part.shape, self._device)

    def close(self) -> None:
        """Close the archive; tensors that were read stay. A second time does nothing."""
        content, self._content = self._content, None
        if content is not None:
            content.close()

    def __enter__(self) -> safe_open:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        """Let it travel to other processes, if it was opened by path."""
        if self._content is None or not isinstance(self._arguments[0], (str, bytes, os.PathLike)):
            raise TypeError("only an archive that's open by its path can be pickled")
        return safe_open, self._arguments


class TensorSlice:
    """A tensor that isn't decoded yet.

    An index of whole numbers, slices and an ellipsis is what it would be on the tensor, and only the chunks
    that hold the part are decoded. With other indices, such as lists, the whole tensor is decoded first.
    """

    def __init__(self, file: safe_open, name: str) -> None:
        self._file = file
        self._name = name

    def get_shape(self) -> list[int]:
        """Return the shape that the header has."""
        return list(self._file._find(self._name)[1].shape)

    def get_dtype(self) -> str:
        """Return safetensors' name for the dtype."""
        return self._file._find(self._name)[1].dtype

    def __getitem__(self, index: Any) -> Any:
        """Return the part of the tensor that the index takes, as a tensor of its own."""
        return self._file._part(self._name, index)
