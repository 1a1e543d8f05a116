"""The command's work: source after source, each compressed, decompressed, checked, salvaged or listed.

It may assume options that make sense, and that codec finds every fault of an archive. It does not know what
an archive looks like; and it loads what compresses only when there's something to do, so that `--version` is
quick.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from brevis.console import Progress, Refusal, StandardOutput, complain, reason, shown, standard
from brevis.options import STANDARD, SUFFIX
from brevis.target import Target

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import Buffer

    from brevis.listing import Json, Table

READ_SIZE = 4 << 20  # as much as a chunk usually holds
SHARD_INDEX = ".safetensors.index.json"  # how the index of a checkpoint in several files ends

DONE, ERROR, WARNING = 0, 1, 2

# How other files begin that are given for archives, and what they are.
_OTHERS = {
    b"\x1f\x8b": "a gzip file",
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"\xfd7zXZ\0": "an xz file",
    b"BZh": "a bzip2 file",
    b"PK\x03\x04": "a zip file, as torch.save makes them",
    b"GGUF": "a GGUF file",
}
_NAMES = 5  # of tensors that were hit, to be told
_HEAD_SIZE = 9  # enough to tell those, and safetensors


class _Skip(Exception):
    """A source is left out, which is worth a warning."""


class _Source(NamedTuple):
    """What is read; `path` is where it's found, unless it's standard input."""

    path: str | None
    file: io.FileIO
    status: os.stat_result

    def size(self) -> int | None:
        """Return the size, where there is one."""
        return self.status.st_size if stat.S_ISREG(self.status.st_mode) else None


class Command:
    """One run of the command: does file after file and remembers the worst that happened."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.status = DONE
        self.target: Target | StandardOutput | None = None
        self._reads_archives = options.decompress or options.test or options.list or options.salvage
        self._writes_files = not (options.stdout or options.output or options.test or options.list)
        self._list: Table | Json | None = None
        self._head = b""  # of the source
        self._within = False  # a folder that was named

    def run(self, names: Iterable[str]) -> None:
        """Work on each source, whatever becomes of the others; only a broken pipe ends it all."""
        if self.options.list:
            from brevis import listing

            self._list = listing.Json() if self.options.json else listing.Table(self.options)
        for name in names:
            self._attempt(name)
        if self._list is not None:
            self._list.finish()

    def _attempt(self, name: str) -> None:
        self._head = b""
        try:
            if self.options.recursive and name != STANDARD and self._is_folder(name):
                self._walk(name)
            else:
                self._work(name)
        except _Skip as skip:
            self.status = self.status or WARNING
            if not self.options.quiet:
                complain(f"brevis: {shown(name)}: {skip}")
        except BrokenPipeError:
            raise
        except Exception as error:
            self.status = ERROR
            complain(f"brevis: {shown(name)}: {self._explain(error) or reason(error, name)}")

    def _work(self, name: str) -> None:
        source = self._open(name)
        with source.file:
            if self._list is not None:
                from brevis.reader import survey

                self._list.add(name, survey(_Noting(self, source)))
            elif self.options.test and not self.options.salvage:
                with self._progress(name, source) as progress:
                    self._decode(name, source, progress, lambda piece: None)
                self._tell(name, "ok")
            elif self.options.test:
                self._salvage(name, source, Progress(name, None, False), lambda piece: None)
            else:
                self._convert(name, source)

    # Folders

    def _is_folder(self, name: str) -> bool:
        return os.path.isdir(name) and (self.options.force or not os.path.islink(name))

    def _walk(self, folder: str) -> None:
        """Work on what is in a folder now, except what isn't meant, which needs no warning there."""
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if os.path.isdir(path):
                meant = not os.path.islink(path)
            else:
                # The index of other files stays as it is, since it's there to be found.
                meant = self._reads_archives == name.endswith(SUFFIX) and not name.endswith(SHARD_INDEX)
            if meant:
                self._attempt(path)
            else:
                self._tell(path, "left as it is")

    # Sources and targets

    def _open(self, name: str) -> _Source:
        if name == STANDARD:
            standard(sys.stdin)
            if self._reads_archives and not self.options.force and os.isatty(0):
                raise Refusal("standard input is a terminal; -f reads an archive from there")
            return _Source(None, io.FileIO(0, "rb", closefd=False), os.fstat(0))
        path = name
        if self._reads_archives and not os.path.lexists(path) and os.path.lexists(path + SUFFIX):
            path += SUFFIX
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            if self._writes_files and not self.options.force:
                raise _Skip("is a symbolic link -- ignored; -f follows it")
            status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise _Skip("is a directory -- ignored; -r works on what is in it")
        if self._writes_files and not stat.S_ISREG(status.st_mode):
            raise _Skip("is not a regular file -- ignored")
        file = io.FileIO(path, "rb")
        source = _Source(path, file, os.fstat(file.fileno()))
        if source.size() is not None:
            self._head = file.read(_HEAD_SIZE) or b""
            file.seek(0)
        return source

    def _open_target(self, source: _Source) -> Target | StandardOutput:
        path = self._target_path(source)
        if path is None:
            standard(sys.stdout)
        try:
            there = os.fstat(1) if path is None else os.stat(path)
        except OSError:
            pass
        else:
            if stat.S_ISREG(there.st_mode) and os.path.samestat(source.status, there):
                raise Refusal("source and target are the same file")
        if path is not None:
            return Target(path, replace=self.options.force, mode=0o600)
        if not self._reads_archives and not self.options.force and os.isatty(1):
            raise Refusal("standard output is a terminal; -f writes an archive there")
        return StandardOutput()

    def _target_path(self, source: _Source) -> str | None:
        if self.options.output is not None:
            path: str = self.options.output
            return path
        if source.path is None or self.options.stdout:
            return None
        stem = source.path.removesuffix(SUFFIX)
        if not self._reads_archives:
            if stem != source.path:
                raise _Skip(f"has the suffix {SUFFIX} already -- ignored; -c compresses it all the same")
            return source.path + SUFFIX
        if stem == source.path or not os.path.basename(stem):
            raise Refusal(f"unknown suffix: its name doesn't end in {SUFFIX}; -o FILE or -c decompresses it")
        return stem

    def _commit(self, target: Target | StandardOutput, source: _Source) -> None:
        """Complete a target; it gets mode and times of the source, or the mode of any new file."""
        status = source.status
        if source.size() is not None:
            mode = stat.S_IMODE(status.st_mode) & 0o777  # not the bits that lend an owner's rights
            target.commit(mode, (status.st_atime_ns, status.st_mtime_ns))
        elif isinstance(target, Target) and target.previous is not None:
            target.commit()
        else:
            mask = os.umask(0o077)
            os.umask(mask)
            target.commit(0o666 & ~mask)

    # The kinds of work

    def _convert(self, name: str, source: _Source) -> None:
        """Compress, decompress or salvage to a target."""
        self.target = self._open_target(source)
        with self.target as target, self._progress(name, source) as progress:
            work = self._decode if self.options.decompress else self._encode
            work = self._salvage if self.options.salvage else work
            read, written = work(name, source, progress, target.write)
            self._commit(target, source)
        self._tell(name, f"{read} -> {written} bytes, {shown(target.path)}")
        if self.options.remove and target.regular and source.path is not None:
            if self.options.salvage:  # a damaged archive may still be worth something
                return
            _sync_folder(target.path)
            os.unlink(source.path)

    def _encode(
        self, name: str, source: _Source, progress: Progress, write: Callable[[Buffer], object]
    ) -> tuple[int, int]:
        """Compress, and return the sizes of source and target."""
        from brevis.codec import Encoder

        size = written = 0
        with contextlib.closing(Encoder(level=self.options.level, threads=self.options.threads)) as encoder:
            while data := _read(source.file, READ_SIZE):
                for piece in encoder.write(data):
                    write(piece)
                    written += len(piece)
                size += len(data)
                progress.advance(len(data))
            for piece in encoder.finish():
                write(piece)
                written += len(piece)
        return size, written

    def _decode(
        self, name: str, source: _Source, progress: Progress, write: Callable[[Buffer], object]
    ) -> tuple[int, int]:
        """Decompress, and return the sizes of source and target."""
        from brevis.codec import decode_blocks

        size = written = 0

        def read_on(count: int) -> bytes:
            nonlocal size
            data = self.read(source, count)
            size += len(data)
            progress.advance(len(data))
            return data

        memory = _Memory()
        options = self.options
        for piece in decode_blocks(read_on, threads=options.threads, memory=options.memory, into=memory.take):
            write(piece)
            written += len(piece)
            memory.give(piece)
        return size, written

    def _salvage(
        self, name: str, source: _Source, progress: Progress, write: Callable[[Buffer], object]
    ) -> tuple[int, int]:
        """Write what is intact, and zeros where it's known how much is lost."""
        from brevis.reader import Source
        from brevis.salvage import Gap, salvage

        written = 0
        with _seekable(source) as file:
            archive = Source(file)
            for piece in salvage(archive):
                if isinstance(piece, Gap):
                    self.status = self.status or WARNING
                    complain(f"brevis: {shown(name)}: {_loss(piece, written)}")
                for part in _zeros(piece.length or 0) if isinstance(piece, Gap) else [piece]:
                    write(part)
                    written += len(part)
            return archive.size(), written

    def read(self, source: _Source, size: int) -> bytes:
        """Read from a source, and keep how it begins: that tells what it is, if it's no archive."""
        data = _read(source.file, size)
        if source.size() is None and len(self._head) < _HEAD_SIZE:
            self._head += data[: _HEAD_SIZE - len(self._head)]
        return data

    def _explain(self, error: Exception) -> str | None:
        """Say what a source is, where it's something else than an archive."""
        if not self._reads_archives or getattr(error, "offset", None) != 0:
            return None
        if not self._head:
            return "is empty, and an archive never is"
        for start, what in _OTHERS.items():
            if self._head.startswith(start):
                return f"this is {what}, not an archive of brevis"
        if len(self._head) == _HEAD_SIZE and self._head[3:8] == bytes(5) and self._head[8:] == b"{":
            return "this is a safetensors file that is not compressed"
        return None

    def _tell(self, name: str, what: str) -> None:
        if self.options.verbose:
            complain(f"{shown(name)}: {what}")

    @contextlib.contextmanager
    def _progress(self, name: str, source: _Source) -> Iterator[Progress]:
        wanted = False if self.options.quiet and self.options.progress is None else self.options.progress
        progress = Progress(name, source.size(), wanted)
        try:
            yield progress
        finally:
            progress.close()


class _Noting:
    """A source as a file object, for a survey."""

    def __init__(self, command: Command, source: _Source) -> None:
        self._command = command
        self._source = source

    def read(self, size: int) -> bytes:
        return self._command.read(self._source, size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source.file, name)


class _Memory:
    """Memory for contents that are gone as soon as they're written: it's used again instead of made anew."""

    def __init__(self) -> None:
        self._free: list[bytearray] = []

    def take(self, size: int) -> memoryview:
        """Return memory of `size` bytes, whatever is in it."""
        fits = (i for i, memory in enumerate(self._free) if len(memory) >= size)
        found = next(fits, None)
        if found is None:
            del self._free[:1]  # too small, so that it makes room for larger
            return memoryview(bytearray(size))
        return memoryview(self._free.pop(found))[:size]

    def give(self, view: memoryview) -> None:
        """Take back what `take` returned, and nobody needs any more."""
        assert isinstance(view.obj, bytearray)
        self._free.append(view.obj)


def _read(file: io.FileIO, size: int) -> bytes:
    """Read at most `size` bytes; none at the end."""
    data = file.read(size)
    if data is None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return data


@contextlib.contextmanager
def _seekable(source: _Source) -> Iterator[Any]:
    """Let a pipe be read at any place, by a copy."""
    if source.size() is not None:
        yield source.file
        return
    import tempfile

    with tempfile.TemporaryFile() as copy:
        while data := _read(source.file, READ_SIZE):
            copy.write(data)
        copy.seek(0)
        yield copy


def _zeros(length: int) -> Iterator[bytes]:
    zeros = bytes(min(length, READ_SIZE))
    while length:
        yield zeros[:length]
        length -= min(length, len(zeros))


def _loss(gap: Any, position: int) -> str:
    """Say what is lost."""
    if gap.length == 0:
        return f"damaged: {shown(gap.cause)}"
    if gap.length is None:
        text = f"an unknown number of bytes is lost behind byte {position} of the content"
    else:
        text = f"bytes {position} to {position + gap.length - 1} of the content are lost and left as zeros"
    if gap.tensors:
        more = len(gap.tensors) - _NAMES
        text += f", in {', '.join(map(shown, gap.tensors[:_NAMES]))}{f' and {more} more' if more > 0 else ''}"
    return f"{text}: {shown(gap.cause)}"


def _sync_folder(path: str) -> None:
    """Make sure that the name of a new file is on the disk, where the system can tell."""
    with contextlib.suppress(OSError):
        descriptor = os.open(os.path.dirname(path) or os.curdir, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
