"""Archives as Python objects: `open` and the file it returns, `compress` and `decompress`.

It may assume that codec turns content into records and back, in order and checked. It does not know what a
program says, nor how a command line asks for its work.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import warnings
from contextlib import contextmanager, suppress
from operator import index
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

from brevis import codec
from brevis.crew import check_threads
from brevis.errors import Error
from brevis.memory import compress, decompress, new_encoder
from brevis.reader import Reader, Source, open_source
from brevis.target import Sink, Target, write_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from typing_extensions import Buffer

    from brevis.reader import Piece

__all__ = ["BrevisFile", "compress", "decompress", "open"]

_PEEK_SIZE = 8192  # what the standard library's buffered readers show
_FIRST_LOOK = 128  # a line's end is looked for in so many bytes first: most lines are shorter


# Writing


class _Object:
    """A caller's object to write to, which stays open."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: Buffer) -> None:
        write_all(self._file, data)

    def flush(self) -> None:
        flush = getattr(self._file, "flush", None)
        if flush is not None:
            flush()

    def commit(self) -> None:
        """Do nothing: the footer is written already."""

    def discard(self) -> None:
        """Do nothing: without a footer, readers refuse what was written."""

    def fileno(self) -> int:
        descriptor: int = self._file.fileno()
        return descriptor


class _Extension:
    """More members for an archive, at its end; `discard` takes them away again."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = io.FileIO(path, "ab+")
        try:
            self._size: int | None = self._file.seek(0, os.SEEK_END)
            if self._size:
                self._file.seek(0)
                Source(self._file).members()  # what follows a broken archive could never be read
        except BaseException:
            self._file.close()
            raise

    def write(self, data: Buffer) -> None:
        write_all(self._file, data, self._path)

    def flush(self) -> None:
        """Do nothing: nothing is held back."""

    def commit(self) -> None:
        os.fsync(self._file.fileno())
        self._size = None

    def discard(self) -> None:
        with self._file:
            if self._size is not None:
                self._file.truncate(self._size)
                self._size = None

    def fileno(self) -> int:
        return self._file.fileno()


def _sink(file: Any, kind: str) -> Sink:
    """Open what an archive is written to."""
    if not _is_path(file):
        return _Object(file)
    path = os.path.realpath(os.fsdecode(file))  # through a link, as any open() writes
    if kind == "a" and os.path.isfile(path):
        return _Extension(path)
    target = Target(path, replace=kind == "w")
    target.open()
    return target


class _Writer:
    """An archive under way: one member, from content to sink."""

    def __init__(self, file: Any, kind: str, encoder: codec.Encoder) -> None:
        self.sink = _sink(file, kind)
        self.position = 0
        self._encoder = encoder
        self._failed = False
        self._process = os.getpid()

    def write(self, data: Buffer) -> int:
        view = codec.byte_view(data)
        self._emit(self._encoder.write, view)
        self.position += len(view)
        return len(view)

    def flush(self) -> None:
        self._emit(self._encoder.flush)
        self.sink.flush()

    def close(self) -> None:
        """Complete the archive, or leave none."""
        try:
            self._emit(self._encoder.finish)
            self.sink.commit()
        finally:
            self.discard()

    def discard(self) -> None:
        """Give up what isn't complete."""
        self._encoder.close()
        if os.getpid() == self._process:  # otherwise it isn't ours, but the parent's, who goes on with it
            self.sink.discard()

    def _emit(self, step: Callable[..., Iterable[Piece]], *arguments: Piece) -> None:
        if os.getpid() != self._process:
            raise RuntimeError("this was opened before a fork: only the process that opened it can write")
        if self._failed:
            raise OSError(errno.EIO, "writing failed before, so the archive can't be completed")
        try:
            for piece in step(*arguments):
                self.sink.write(piece)
        except BaseException:
            self._failed = True
            raise


# Both


class BrevisFile(io.BufferedIOBase):
    """A file of the content of an archive, to be read or written; threads that share it take turns.

    An archive that's damaged or cut short raises a `brevis.Error`. Reads of a given size first return all
    that was verified before the fault. A read of everything that's left raises at once, and the position
    stays where it was, as it does after an interruption. After a fork both processes can read on, if the
    archive was opened by its path. What was written and never closed is not completed, but given up.
    """

    _reader: Reader | None = None
    _writer: _Writer | None = None

    def __init__(self, file: Any, mode: str = "rb", *, level: int = 6, threads: int = 0) -> None:
        """Open the archive at a path, or in a file object, which stays open when this one is closed."""
        kind = mode.replace("b", "", 1)
        if kind not in ("r", "w", "x", "a"):
            raise ValueError(f"invalid mode: {mode!r}")
        if not _is_path(file) and not hasattr(file, "read" if kind == "r" else "write"):
            raise TypeError(f"file must be a path or a file object, not {type(file).__name__}")
        self.mode = kind + "b"
        self._file = file
        self._threads = threads
        check_threads(threads)
        self._lock = RLock()
        self._process = os.getpid()
        self._opened: io.RawIOBase | io.BufferedReader | None = None
        if kind == "r":
            if _is_path(file):
                self._path = os.path.abspath(os.fspath(file))
                self._opened = open_source(file)
            self._source = Source(self._opened or file)
            self._reader = Reader(self._source, threads)
        else:
            self._writer = _Writer(file, kind, new_encoder(level, threads))

    @property
    def name(self) -> Any:
        """The path or name of the archive; empty where it has none."""
        return self._file if _is_path(self._file) else getattr(self._file, "name", "")

    @property
    def closed(self) -> bool:
        """Whether this file is closed."""
        return self._reader is None and self._writer is None

    def _guard(self) -> RLock:
        """Return the lock that every use of the file holds."""
        if os.getpid() != self._process:
            self._lock = RLock()  # whoever held the old one may not exist in this process
            self._process = os.getpid()
            if self._reader is not None:
                self._reader.forked()
        return self._lock

    def _reading(self) -> Reader:
        if self._reader is None:
            self._refuse("read")
        return self._reader

    def _writing(self) -> _Writer:
        if self._writer is None:
            self._refuse("write")
        return self._writer

    def _refuse(self, what: str) -> NoReturn:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        raise io.UnsupportedOperation(f"can't {what} in mode {self.mode!r}")

    # Whole

    def close(self) -> None:
        """Finish; a second time does nothing. What is written by path is in its place only now."""
        if self.closed:
            return
        with self._guard():
            reader, self._reader = self._reader, None
            writer, self._writer = self._writer, None
            if reader is not None:
                reader.close()
                if self._opened is not None:
                    self._opened.close()
            if writer is not None:
                writer.close()

    def discard(self) -> None:
        """Close without completing what was written: a path keeps its old file, an object gets no footer."""
        if self._writer is not None:
            with self._guard():
                writer, self._writer = self._writer, None
                if writer is not None:
                    writer.discard()
        self.close()

    def __del__(self) -> None:
        """Give up what was written and never completed: perhaps an exception was the reason."""
        unfinished = self._writer is not None and self._process == os.getpid()
        self.discard()
        if unfinished:
            warnings.warn(f"{self!r} was never closed: it is given up", ResourceWarning, 2, source=self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close, but don't complete an archive whose content isn't complete."""
        if error is None:
            self.close()
        else:
            self.discard()

    def __reduce__(self) -> Any:
        """Let readers of a path travel to other processes, with their position."""
        if self._opened is None or self._reader is None:
            raise TypeError("only a file that's open for reading by its path can be pickled")
        return _reopen, (self._path, self._threads, self._reader.position)

    def fileno(self) -> int:
        """Return the descriptor that the archive is read from or written to."""
        file = self._opened or self._file if self.readable() else self._writing().sink
        descriptor: int = file.fileno()
        return descriptor

    def readable(self) -> bool:
        """Tell whether this file can be read."""
        if self.closed:
            self._refuse("read")
        return self._reader is not None

    def writable(self) -> bool:
        """Tell whether this file can be written."""
        return not self.readable()

    def seekable(self) -> bool:
        """Tell whether this file can seek: in reading, where the archive's own file can."""
        return self.readable() and self._source.seekable

    def tell(self) -> int:
        """Return the position in the content."""
        return (self._writing() if self._reader is None else self._reader).position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position; the next read decodes the one chunk that holds it."""
        with self._guard():
            if not self.seekable():
                raise io.UnsupportedOperation("the archive can't be read at another position")
            reader = self._reading()
            position = index(offset)
            if whence == os.SEEK_CUR:
                position += reader.position
            elif whence == os.SEEK_END:
                position += reader.length()
            elif whence != os.SEEK_SET:
                raise ValueError(f"invalid whence: {whence!r}")
            if position < 0:
                raise ValueError(f"negative seek position: {position}")
            reader.position = position
            return position

    # Reading

    def read(self, size: int | None = -1) -> bytes:
        """Read `size` bytes, fewer only before the end or a fault, or all that are left."""
        with self._guard():
            reader = self._reading()
            if size is not None and size >= 0 and (found := reader.at_hand(size)) is not None:
                reader.position += len(found)
                return bytes(found)
            return self._read_on(reader, size)

    def _read_on(self, reader: Reader, size: int | None) -> bytes:
        everything = size is None or size < 0
        left = sys.maxsize if size is None or size < 0 else index(size)
        pieces: list[memoryview] = []
        with _taken_back(reader, pieces):
            try:
                while left and (piece := reader.piece()[:left]):
                    pieces.append(piece)
                    reader.position += len(piece)
                    left -= len(piece)
            except Error:
                if everything or not pieces:
                    raise
            return b"".join(pieces)

    def read1(self, size: int = -1) -> bytes:
        """Read what's at hand, at most `size` bytes; nothing only at the end."""
        with self._guard():
            reader = self._reading()
            if index(size) == 0:
                return b""
            piece = bytes(reader.piece()[: None if size < 0 else size])
            reader.position += len(piece)
            return piece

    def readinto(self, buffer: Buffer) -> int:
        """Read into a buffer as `read` would, and return the number of bytes."""
        return self._fill(codec.byte_view(buffer), once=False)

    def readinto1(self, buffer: Buffer) -> int:
        """Read into a buffer as `read1` would, and return the number of bytes."""
        return self._fill(codec.byte_view(buffer), once=True)

    def _fill(self, view: memoryview, *, once: bool) -> int:
        with self._guard():
            reader = self._reading()
            if view.readonly:
                raise TypeError("a buffer to read into must be writable")
            if (found := reader.at_hand(len(view))) is not None:
                view[:] = found
                reader.position += len(found)
                return len(found)
            return self._fill_on(reader, view, once)

    def _fill_on(self, reader: Reader, view: memoryview, once: bool) -> int:
        filled: list[memoryview] = []
        length = 0
        with _taken_back(reader, filled):
            try:
                while length < len(view) and not (once and length):
                    piece = reader.piece()[: len(view) - length]
                    if not piece:
                        break
                    view[length : length + len(piece)] = piece
                    filled.append(view[length : length + len(piece)])
                    reader.position += len(piece)
                    length += len(piece)
            except Error:
                if not length:
                    raise
        return length

    def peek(self, size: int = 0) -> bytes:
        """Return bytes at hand without moving the position; nothing only at the end."""
        with self._guard():
            return bytes(self._reading().piece()[: max(index(size), _PEEK_SIZE)])

    def readline(self, size: int | None = -1) -> bytes:
        """Read up to the end of the line, at most `size` bytes."""
        with self._guard():
            reader = self._reading()
            if size is None or size < 0:
                found = reader.at_hand(_FIRST_LOOK)
                end = bytes(found).find(b"\n") + 1 if found else 0
                if found and end:
                    reader.position += end
                    return bytes(found[:end])
            return self._read_line_on(reader, sys.maxsize if size is None or size < 0 else index(size))

    def _read_line_on(self, reader: Reader, left: int) -> bytes:
        pieces: list[memoryview] = []
        with _taken_back(reader, pieces):
            try:
                while left and (piece := reader.piece()[:left]):
                    end = _line_end(piece)
                    pieces.append(piece[: end or len(piece)])
                    reader.position += len(pieces[-1])
                    left -= len(pieces[-1])
                    if end:
                        break
            except Error:
                if not pieces:
                    raise
            return b"".join(pieces)

    def readlines(self, hint: int | None = -1) -> list[bytes]:
        """Read all lines, or lines until they have `hint` bytes."""
        if hint is None or hint <= 0:
            return io.BytesIO(self.read()).readlines()
        return super().readlines(hint)

    # Writing

    def write(self, data: Buffer) -> int:
        """Write all bytes of a contiguous buffer, and return their number."""
        with self._guard():
            return self._writing().write(data)

    def flush(self) -> None:
        """In writing, end the chunk: what was written till now can then be read from the archive's part."""
        with self._guard():
            if self._writer is not None:
                self._writer.flush()
            elif self._reader is None:
                self._refuse("flush")


@contextmanager
def _taken_back(reader: Reader, pieces: list[memoryview]) -> Iterator[None]:
    """Let nothing be lost of what's read when an exception ends the call: the pieces are read again later."""
    position = reader.position
    try:
        yield
    except BaseException:
        if pieces:
            reader.put_back(position, pieces)
        raise


def _line_end(piece: memoryview) -> int:
    """Return where the first line of a piece ends, or 0 if it doesn't end there."""
    begin, look = 0, _FIRST_LOOK
    while begin < len(piece):
        found = bytes(piece[begin : begin + look]).find(b"\n")
        if found >= 0:
            return begin + found + 1
        begin += look
        look *= 2
    return 0


def _is_path(file: object) -> bool:
    return isinstance(file, (str, bytes, os.PathLike))


def _reopen(file: Any, threads: int, position: int) -> BrevisFile:
    """Open again what was pickled."""
    reader = BrevisFile(file, "rb", threads=threads)
    if position:
        reader.seek(position)
    return reader


class _Text(io.TextIOWrapper):
    """Text over an archive, which isn't completed either when a `with` block is left by an exception."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and isinstance(self.buffer, BrevisFile):
            self.buffer.discard()
        self.close()

    def __del__(self) -> None:
        """Leave it to the archive to be given up, where text was written and the file never closed."""
        with suppress(ValueError, AttributeError):  # there's no archive
            if self.buffer.writable():
                return
        self.close()


@overload
def open(
    file: Any,
    mode: Literal["r", "rb", "br", "w", "wb", "bw", "x", "xb", "bx", "a", "ab", "ba"] = ...,
    *,
    level: int = ...,
    threads: int = ...,
    encoding: None = ...,
    errors: None = ...,
    newline: None = ...,
) -> BrevisFile: ...
@overload
def open(
    file: Any,
    mode: Literal["rt", "tr", "wt", "tw", "xt", "tx", "at", "ta"],
    *,
    level: int = ...,
    threads: int = ...,
    encoding: str | None = ...,
    errors: str | None = ...,
    newline: str | None = ...,
) -> io.TextIOWrapper: ...
@overload
def open(
    file: Any,
    mode: str,
    *,
    level: int = ...,
    threads: int = ...,
    encoding: str | None = ...,
    errors: str | None = ...,
    newline: str | None = ...,
) -> BrevisFile | io.TextIOWrapper: ...
def open(
    file: Any,
    mode: str = "rb",
    *,
    level: int = 6,
    threads: int = 0,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> BrevisFile | io.TextIOWrapper:
    """Open an archive, by path or in a file object, for reading or writing its content.

    `mode` is r, w, x or a, with b (the default) or t for text. Writing to a path leaves an older file alone
    until the new one is closed and complete; a adds a member. `threads` are those that work, 0 for one a
    processor.
    """
    if "t" not in mode:
        if encoding is not None or errors is not None or newline is not None:
            raise ValueError("encoding, errors and newline are for text mode")
        return BrevisFile(file, mode, level=level, threads=threads)
    if "b" in mode:
        raise ValueError(f"invalid mode: {mode!r}")
    binary = BrevisFile(file, mode.replace("t", "", 1), level=level, threads=threads)
    try:
        return _Text(binary, encoding, errors, newline)
    except BaseException:
        binary.discard()
        raise
