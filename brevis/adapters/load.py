"""Whole checkpoints: all tensors of an archive, decoded in order, straight into their places.

It may assume that content finds headers and checks the archive. It does not know the framework whose tensors
it makes.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

from brevis.adapters.arrays import Arena
from brevis.adapters.content import Content
from brevis.adapters.header import in_place_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from brevis.adapters.content import Checkpoint
    from brevis.adapters.framework import Framework
    from brevis.frame import Entry


def load(
    file: Any,
    framework: Framework,
    *,
    device: Any = "cpu",
    out: Mapping[str, Any] | None = None,
    threads: int = 0,
) -> dict[str, Any]:
    """Return the tensors of an archive by name, in the header's order; see `numpy.load_file`."""
    framework.check_device(device)
    content = Content(file, threads)
    try:
        checkpoint = content.checkpoint()
        given = dict(out or {})
        missing = [name for name in given if name not in checkpoint.tensors]
        if missing:
            raise KeyError(f"the file has no tensor {missing[0]!r}, which out has")
        memory = _Memory(checkpoint, framework, device, given)
        found = dict(memory.fill(content.in_order(memory.take)))
    finally:
        content.close()
    return {name: found[name] for name in checkpoint.tensors}


class _Part(NamedTuple):
    """The bytes [begin, end) of the content, where they belong, and what to do when they are there."""

    begin: int
    end: int
    memory: memoryview
    name: str
    finish: Callable[[], Any]


class _Memory:
    """The memory of all tensors, in the order of the content that belongs there."""

    def __init__(
        self, checkpoint: Checkpoint, framework: Framework, device: Any, given: Mapping[str, Any]
    ) -> None:
        self._framework = framework
        self._device = device
        self._arena = Arena()
        self._taken = 0
        self._parts: list[_Part | None] = []
        self._begins: list[int] = []
        for entry in in_place_order(checkpoint.tensors):
            framework.check(entry.dtype, entry.shape)
            self._parts.append(self._reserve(entry, given.get(entry.name)))
            self._begins.append(entry.begin)

    def _reserve(self, entry: Entry, given: Any) -> _Part:
        """Make room for a tensor, or take it from what the caller gave."""
        name, dtype, shape, begin, end = entry
        view, device = self._framework.view, self._device
        room = None if given is None else self._framework.room(given, entry)
        if room is not None:
            return _Part(begin, end, room, name, lambda: given)
        raw = self._arena.take(end - begin)

        def finish() -> Any:
            if given is None:
                return view(raw, dtype, shape, device)
            self._framework.assign(given, view(raw, dtype, shape, "cpu"))
            return given

        return _Part(begin, end, raw.data, name, finish)

    def take(self, size: int) -> bytearray | memoryview:
        """Return memory for the next content: that of a tensor, if it all belongs there."""
        begin, self._taken = self._taken, self._taken + size
        return self._within(begin, begin + size) or bytearray(size)

    def fill(self, pieces: Iterable[memoryview]) -> Iterator[tuple[str, Any]]:
        """Let the content come, copy what isn't in its place, and yield what is complete."""
        end = done = 0
        for piece in pieces:
            begin, end = end, end + len(piece)
            if self._within(begin, end) is None:
                self._copy(piece, begin, end)
            last = bisect_right(self._begins, end)
            while done < last and (part := self._parts[done]) and part.end <= end:
                yield part.name, part.finish()
                self._parts[done] = None  # a tensor that went to another device leaves its memory here
                done += 1

    def _find(self, position: int) -> int:
        """Return the number of the last part that begins at `position` or before."""
        return bisect_right(self._begins, position) - 1

    def _within(self, begin: int, end: int) -> memoryview | None:
        part = self._parts[number] if (number := self._find(begin)) >= 0 else None
        if part is None or end > part.end:
            return None
        return part.memory[begin - part.begin : end - part.begin]

    def _copy(self, piece: memoryview, begin: int, end: int) -> None:
        for part in self._parts[max(self._find(begin), 0) : self._find(end - 1) + 1]:
            if part is not None:
                first, last = max(begin, part.begin), min(end, part.end)
                if first < last:
                    part.memory[first - part.begin : last - part.begin] = piece[first - begin : last - begin]
