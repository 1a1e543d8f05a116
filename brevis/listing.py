"""Lists of what archives hold, as a table or in JSON.

It may assume a survey of each archive. It does not know how one is made; and it keeps no text that is as long
as the list, which may have a hundred thousand tensors.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from brevis.console import say, shown

if TYPE_CHECKING:
    import argparse

    from brevis.frame import Entry
    from brevis.reader import Listing

_LINES = 1000  # written at a time


class _Lines:
    """Standard output, some lines at a time."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        self._lines.append(line)
        if len(self._lines) >= _LINES:
            self.write()

    def write(self) -> None:
        if self._lines:
            say("\n".join(self._lines))
            self._lines.clear()


class Table:
    """Sizes in lines, one for each archive and, if that's wanted, for each tensor; and their sums."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._quiet = options.quiet
        self._verbose = options.verbose
        self._sizes: list[tuple[int, int]] = []

    def add(self, name: str, listing: Listing) -> None:
        """Show an archive."""
        lines = _Lines()
        if not self._sizes and not self._quiet:
            lines.add(f"{'compressed':>14}{'uncompressed':>15}{'ratio':>8}  name")
        self._sizes.append((listing.compressed, listing.uncompressed))
        lines.add(_row(listing.compressed, listing.uncompressed, shown(name)))
        for tensor in listing.tensors if self._verbose else ():
            lines.add(f"{tensor.end - tensor.begin:29}{'':10}{_tensor(tensor, listing)}")
        lines.write()

    def finish(self) -> None:
        """Show the sums."""
        if len(self._sizes) > 1:
            say(_row(sum(size[0] for size in self._sizes), sum(size[1] for size in self._sizes), "(totals)"))


class Json:
    """A JSON list with an object for each archive."""

    def __init__(self) -> None:
        self._lines = _Lines()
        self._count = 0

    def add(self, name: str, listing: Listing) -> None:
        """Show an archive; `ratio` is in percent."""
        fields = {
            "file": _text(name),
            "compressed": listing.compressed,
            "uncompressed": listing.uncompressed,
            "ratio": _percent(listing.compressed, listing.uncompressed),
            "members": listing.members,
            "chunks": listing.chunks,
        }
        self._begin()
        self._lines.add(json.dumps(fields)[:-1] + ', "tensors": [')
        last = len(listing.tensors) - 1
        for number, tensor in enumerate(listing.tensors):
            self._lines.add(f" {json.dumps(_fields(tensor, listing))}{',' if number < last else ''}")
        self._lines.add("]}")

    def _begin(self) -> None:
        self._lines.add("," if self._count else "[")
        self._count += 1

    def finish(self) -> None:
        """End the list."""
        if not self._count:
            self._lines.add("[")
        self._lines.add("]")
        self._lines.write()


def _text(name: str) -> str:
    """Make a text of a file's name that JSON can hold: bytes that are no UTF-8 become escapes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _fields(tensor: Entry, listing: Listing) -> dict[str, Any]:
    fields = {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "offset": tensor.begin,
        "bytes": tensor.end - tensor.begin,
    }
    return fields if tensor.end <= listing.uncompressed else {**fields, "complete": False}


def _percent(compressed: int, uncompressed: int) -> float | None:
    return round(100 * compressed / uncompressed, 2) if uncompressed else None


def _row(compressed: int, uncompressed: int, name: str) -> str:
    percent = _percent(compressed, uncompressed)
    ratio = "-" if percent is None else f"{percent:.2f}%"
    return f"{compressed:14}{uncompressed:15}{ratio:>10}  {name}"


def _tensor(tensor: Entry, listing: Listing) -> str:
    note = "" if tensor.end <= listing.uncompressed else "  (not whole: the source was cut short)"
    return f"{shown(tensor.name)}  {shown(tensor.dtype)} [{', '.join(map(str, tensor.shape))}]{note}"
