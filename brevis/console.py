"""What the command shows: lines on the standard streams, reasons, and a bar for long work.

It may assume that standard error is there for whoever can read it, and that nobody may be. It does not know
what the work is.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from brevis.target import write_all

if TYPE_CHECKING:
    from typing_extensions import Buffer

PROGRESS_DELAY = 1.0  # seconds before there's a bar: short work needs none


class Refusal(Exception):
    """What was asked for isn't done, for a reason that the user can change."""


def shown(name: str) -> str:
    """Make a name fit for a line: what isn't printable could end the line, or steer the terminal."""
    return name if name.isprintable() else "".join(map(_shown, name))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    if "\udc80" <= character <= "\udcff":  # how Python keeps a byte that is no UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    return ascii(character)[1:-1]


def _print(text: str, number: int, encoding: str) -> None:
    """Write to a standard stream at once, so that nothing is left to fail when Python ends."""
    write_all(io.FileIO(number, "wb", closefd=False), text.encode(encoding, "backslashreplace"))


def say(text: str, end: str = "\n") -> None:
    """Print on standard output."""
    _print(text + end, 1, standard(sys.stdout).encoding)


def complain(text: str) -> None:
    """Print on standard error, which may be closed or full: then there's no one to tell."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            _print(f"{text}\n", 2, sys.stderr.encoding)


def standard(stream: Any) -> Any:
    """Refuse a standard stream that was closed from the start: another file may have its number by now."""
    if stream is None:
        raise OSError(errno.EBADF, "standard input or output is closed")
    return stream


def reason(error: Exception, name: str) -> str:
    """Say in a line why a source couldn't be worked on."""
    from brevis.errors import Error

    if isinstance(error, FileExistsError):
        return f"{shown(error.filename)} exists already; -f replaces it"
    if isinstance(error, OSError) and error.strerror:
        other = error.filename if isinstance(error.filename, str) and error.filename != name else None
        return error.strerror if other is None else f"{shown(other)}: {error.strerror}"
    if isinstance(error, MemoryError):
        return "there isn't enough memory"
    if isinstance(error, (Error, OSError, Refusal)):
        return shown(str(error))
    return shown(f"internal error: {type(error).__name__}: {error}")


class StandardOutput:
    """Standard output as a target, which is as complete as it ever gets."""

    path = "standard output"
    regular = False

    def __init__(self) -> None:
        self._file = io.FileIO(1, "wb", closefd=False)

    def __enter__(self) -> StandardOutput:
        return self

    def __exit__(self, *failure: object) -> None:
        pass

    def write(self, data: Buffer) -> None:
        write_all(self._file, data, self.path)

    def commit(self, mode: int | None = None, times: tuple[int, int] | None = None) -> None:
        """Do nothing: all is written."""

    def discard(self) -> None:
        """Do nothing: what is written is gone."""


class Progress:
    """A bar on a terminal, for work that takes long."""

    def __init__(self, name: str, total: int | None, wanted: bool | None) -> None:
        self._name = name
        self._total = total
        self._done = 0
        self._bar: Any = None
        self._start = time.monotonic() + (0 if wanted else PROGRESS_DELAY)
        self._enabled = wanted is not False and sys.stderr is not None and os.isatty(2)

    def advance(self, count: int) -> None:
        """Note that so many more bytes of the source are done."""
        self._done += count
        if self._bar is not None:
            self._bar.update(count)
        elif self._enabled and time.monotonic() >= self._start:
            from tqdm import tqdm  # slow to load, and seldom needed

            self._bar = tqdm(
                total=self._total,
                initial=self._done,
                desc=shown(self._name),
                unit="B",
                unit_scale=True,
                leave=False,
            )

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
