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

_WRITE = os.O_WRONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NAMELESS = getattr(os, "O_TMPFILE", 0)
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

    Where the system has files without a name (Linux), it gets one only then, so that even a process that's
    killed leaves nothing behind. A device or pipe has nothing to replace, so it's written as it is. `discard`
    may be called at any time, from a signal handler too.
    """

    def __init__(self, path: str, *, replace: bool, mode: int = 0o666) -> None:
        """Prepare to write `path`; a file that wasn't there before has `mode`, less the user's mask."""
        self.path = path
        self.previous: os.stat_result | None = None
        self.regular = True  # neither a device nor a pipe
        self._replace = replace
        self._mode = mode
        self._temporary: str | None = None
        self._nameless = False
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
        with contextlib.suppress(FileNotFoundError):  # other errors would come up in the end, so let them now
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
        # What replaces a file may be as private as that was, which its mode says only in the end.
        mode = self._mode if self.previous is None else 0o600
        with contextlib.suppress(OSError):
            self._create_nameless(mode)
            return
        try:
            # The name is kept before the file is there: a signal between the two can't leave it behind.
            self._temporary = self._new_name()
            self._descriptor = os.open(self._temporary, _CREATE, mode)
        except OSError as error:
            self._temporary = None
            raise OSError(error.errno, error.strerror, self.path) from error

    def _create_nameless(self, mode: int) -> None:
        if not _NAMELESS:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        self._descriptor = os.open(self._folder, _WRITE | _NAMELESS, mode)
        if not os.path.exists(f"/proc/self/fd/{self._descriptor}"):  # where it gets its name from
            self._close()
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        self._nameless = True

    @property
    def _folder(self) -> str:
        return os.path.dirname(self.path) or os.curdir

    def _new_name(self) -> str:
        """Return a name beside the target; with 48 random bits no other file has it."""
        return os.path.join(os.path.dirname(self.path), f".brevis-{os.urandom(6).hex()}.tmp")

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
        if not self._nameless and self._temporary is None:
            self._close()
            return
        os.fsync(self._descriptor)
        if mode is None and self.previous is not None:
            mode = stat.S_IMODE(self.previous.st_mode)
        if os.name == "nt":
            self._close()  # Windows renames no open file
        try:
            self._put_in_place()
        except OSError as error:  # which may speak of the other name
            raise OSError(error.errno, error.strerror, self.path) from None
        # A descriptor is surer than the name, at which another file may stand by now. And a file system
        # without modes or times is no reason to fail.
        place = self.path if self._descriptor < 0 else self._descriptor
        with contextlib.suppress(OSError):
            if mode is not None:
                os.chmod(place, mode)
            if times is not None:
                os.utime(place, ns=times)
        self._close()

    def _put_in_place(self) -> None:
        if self._nameless:
            if self.previous is None:
                with contextlib.suppress(FileExistsError):
                    self._link(self.path)
                    return
                self._refuse_existing()
            self._temporary = self._new_name()
            self._link(self._temporary)
        assert self._temporary is not None
        self._rename(self._temporary)
        self._temporary = None

    def _link(self, path: str) -> None:
        """Give the nameless file a name that's new."""
        folder = os.open(self._folder, os.O_RDONLY)  # with a folder given, Python follows the link in /proc
        try:
            name = os.path.basename(path)
            os.link(f"/proc/self/fd/{self._descriptor}", name, dst_dir_fd=folder, follow_symlinks=True)
        finally:
            os.close(folder)

    def _rename(self, temporary: str) -> None:
        if self._replace:
            os.replace(temporary, self.path)
            return
        try:
            os.link(temporary, self.path)  # unlike a rename, it never replaces a file that has just come
        except FileExistsError:
            raise
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
