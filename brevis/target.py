"""Targets: files that appear whole, or not at all.

It may assume that a file can be renamed within its folder in one step. It does not know what is written, nor
why.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

_TRIES = 100  # names of 48 random bits: a second try is already next to impossible
_WRITE = os.O_WRONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_CREATE = _WRITE | os.O_CREAT | os.O_EXCL


class _RawWriter(Protocol):
    def write(self, data: memoryview, /) -> int | None: ...


class Sink(Protocol):
    """Where an archive goes: a target, a caller's object, standard output."""

    def write(self, data: Buffer) -> None: ...
    def flush(self) -> None: ...
    def commit(self) -> None: ...
    def discard(self) -> None: ...
    def fileno(self) -> int: ...


def write_all(file: _RawWriter, data: Buffer, name: str | None = None) -> None:
    """Write every byte, though `file.write` may take fewer at a time; an error names `name`."""
    view = memoryview(data)
    while view:
        try:
            taken = file.write(view)
        except OSError as error:
            if name is None or error.errno is None:
                raise
            raise OSError(error.errno, error.strerror, name) from error
        if taken is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), name)
        view = view[taken:]


class Target:
    """A file written beside its place under a name of its own, and put there when it's complete.

    A device or pipe has nothing to replace, so it's written as it is. `discard` may be called at any time,
    from a signal handler too, and leaves nothing behind.
    """

    def __init__(self, path: str, *, replace: bool, mode: int = 0o666) -> None:
        """Prepare to write `path`; a file that wasn't there before has `mode`, less the user's mask."""
        self.path = path
        self.previous: os.stat_result | None = None
        self.regular = True  # neither a device nor a pipe
        self._replace = replace
        self._mode = mode
        self._temporary: str | None = None
        self._descriptor = -1

    def __enter__(self) -> Target:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def open(self) -> None:
        """Start: refuse a folder, and a file that's already there unless it may be replaced."""
        with contextlib.suppress(OSError):
            self.previous = os.stat(self.path)
        if self.previous is not None and stat.S_ISDIR(self.previous.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.path)
        if self.previous is not None and not stat.S_ISREG(self.previous.st_mode):
            self.regular = False
            self._descriptor = os.open(self.path, _WRITE)
            return
        self._refuse_existing()
        self._create()

    def _refuse_existing(self) -> None:
        if not self._replace and os.path.lexists(self.path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path)

    def _create(self) -> None:
        folder = os.path.dirname(self.path)
        # What replaces a file may be as private as that was, which its mode says only in the end.
        mode = self._mode if self.previous is None else 0o600
        for attempt in range(_TRIES):
            # The name is kept before the file is there: a signal between the two can't leave it behind.
            self._temporary = os.path.join(folder, f".brevis-{os.urandom(6).hex()}.tmp")
            try:
                self._descriptor = os.open(self._temporary, _CREATE, mode)
            except FileExistsError:
                self._temporary = None
                if attempt == _TRIES - 1:
                    raise
            except OSError as error:
                self._temporary = None
                raise OSError(error.errno, error.strerror, self.path) from error
            else:
                return

    def fileno(self) -> int:
        """Return the descriptor that's written to."""
        return self._descriptor

    def write(self, data: Buffer) -> None:
        """Append every byte of `data`."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except OSError as error:
                raise OSError(error.errno, error.strerror, self.path) from error

    def flush(self) -> None:
        """Do nothing: nothing is held back."""

    def commit(self, mode: int | None = None, times: tuple[int, int] | None = None) -> None:
        """Put the complete file in its place, on the disk too, then give it a mode and times in nanoseconds.

        Without a mode it keeps that of the file it replaces.
        """
        if self._temporary is None:
            self._close()
            return
        os.fsync(self._descriptor)
        if mode is None and self.previous is not None:
            mode = stat.S_IMODE(self.previous.st_mode)
        if os.name == "nt":
            self._close()  # Windows renames no open file
        self._rename(self._temporary)
        self._temporary = None
        # A descriptor is surer than the name, at which another file may stand by now. And a file system
        # without modes or times is no reason to fail.
        place = self.path if self._descriptor < 0 else self._descriptor
        with contextlib.suppress(OSError):
            if mode is not None:
                os.chmod(place, mode)
            if times is not None:
                os.utime(place, ns=times)
        self._close()

    def _rename(self, temporary: str) -> None:
        if self._replace:
            os.replace(temporary, self.path)
            return
        try:
            os.link(temporary, self.path)  # unlike a rename, it never replaces a file that has just come
        except FileExistsError:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path) from None
        except OSError:
            self._refuse_existing()
            os.rename(temporary, self.path)
        else:
            os.unlink(temporary)

    def discard(self) -> None:
        """Remove what was written so far; does nothing after `commit`."""
        if os.name == "nt":
            self._close()
        if self._temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._temporary)
            self._temporary = None  # only now, for the sake of a signal handler
        self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
