"""The command `brevis`: options, files, messages and the exit status.

It may assume that codec and file find every fault of an archive. It does not know what an archive looks like;
and it loads what compresses only when there's something to do, so that `--version` is quick.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import signal
import stat
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from brevis import __version__
from brevis.target import Target, write_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from typing_extensions import Buffer

    from brevis.frame import Entry
    from brevis.reader import Listing

SUFFIX = ".brv"
STANDARD = "-"  # the name of standard input and output
READ_SIZE = 4 << 20  # as much as a chunk usually holds
PROGRESS_DELAY = 1.0  # seconds before there's a bar: short work needs none

DONE, ERROR, WARNING = 0, 1, 2

DESCRIPTION = """\
Compress FILEs, each to FILE.brv, or decompress them. Without FILE, or with -, standard input goes to standard
output. Sources are kept."""


# Options


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line and the exit status of an error."""

    def error(self, message: str) -> NoReturn:
        raise _UsageError(message)


class _UsageError(Exception):
    """The command line makes no sense."""


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="brevis",
        usage="brevis [OPTION]... [FILE]...",
        description=DESCRIPTION,
        add_help=False,
        allow_abbrev=False,
    )
    flag = parser.add_argument
    flag("-d", "--decompress", dest="decompress", action="store_true", default=False, help="decompress")
    flag("-z", "--compress", dest="decompress", action="store_false", help="compress (the default)")
    flag("-t", "--test", action="store_true", help="check the whole of each archive, write nothing")
    flag("-l", "--list", action="store_true", help="list sizes; with -v or --json the tensors too")
    flag("--json", action="store_true", help="list in JSON")
    flag("-c", "--stdout", action="store_true", help="write to standard output")
    flag("-o", "--output", metavar="FILE", help="write to FILE")
    flag("-f", "--force", action="store_true", help="replace files, follow links, use terminals")
    flag(
        "-k", "--keep", dest="remove", action="store_false", default=False, help="keep sources (the default)"
    )
    flag("--rm", dest="remove", action="store_true", help="remove each source when its target is complete")
    for level in range(1, 10):
        text = {1: "faster ...", 9: "... smaller; the default is -6"}.get(level, argparse.SUPPRESS)
        flag(f"-{level}", dest="level", action="store_const", const=level, default=6, help=text)
    flag("-T", "--threads", metavar="N", type=_count, default=0, help="use N threads; 0, the default, is all")
    flag("-q", "--quiet", action="store_true", help="leave out warnings")
    flag("-v", "--verbose", action="store_true", help="tell what was done")
    flag("--progress", dest="progress", action="store_true", default=None, help="show a bar at once")
    flag("--no-progress", dest="progress", action="store_false", help="show no bar, for long work neither")
    flag("-h", "--help", action="store_true", help="show this help")
    flag("-V", "--version", action="store_true", help="show the version")
    return parser


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of threads")
    return int(text)


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Read the command line: options and files, in any order; after `--` only files."""
    arguments = list(arguments)
    split = arguments.index("--") if "--" in arguments else len(arguments)
    # Knowing no operands, argparse leaves them to the rest, in any version the same way, between options too.
    options, rest = _parser().parse_known_args(arguments[:split])
    for item in rest:
        if item.startswith("-") and item != STANDARD:
            raise _UsageError(f"unknown option {item}; a file of this name comes after --")
    if options.json and not options.list:
        raise _UsageError("--json goes with -l")
    files = [*rest, *arguments[split + 1 :]] or [STANDARD]
    if options.output is not None and options.output != STANDARD:
        if options.stdout:
            raise _UsageError("-c and -o name different targets")
        if len(files) > 1 and not (options.test or options.list):
            raise _UsageError("-o takes a single source")
    if options.output == STANDARD:
        options.stdout, options.output = True, None
    return options, files


# Standard streams


def shown(name: str) -> str:
    """Make a name fit for a line: what isn't printable could end the line, or steer the terminal."""
    return name if name.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


def _print(text: str, number: int, encoding: str) -> None:
    """Write a line to a standard stream at once, so that nothing is left to fail when Python ends."""
    write_all(io.FileIO(number, "wb", closefd=False), f"{text}\n".encode(encoding, "backslashreplace"))


def say(text: str) -> None:
    """Print on standard output."""
    _print(text, 1, _standard(sys.stdout).encoding)


def complain(text: str) -> None:
    """Print on standard error, which may be closed or full: then there's no one to tell."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            _print(text, 2, sys.stderr.encoding)


def _standard(stream: Any) -> Any:
    """Refuse a standard stream that was closed from the start: another file may have its number by now."""
    if stream is None:
        raise OSError(errno.EBADF, "standard input or output is closed")
    return stream


class _StandardOutput:
    """Standard output as a target, which is as complete as it ever gets."""

    path = "standard output"
    regular = False

    def __init__(self) -> None:
        self._file = io.FileIO(1, "wb", closefd=False)

    def __enter__(self) -> _StandardOutput:
        return self

    def __exit__(self, *failure: object) -> None:
        pass

    def write(self, data: Buffer) -> None:
        write_all(self._file, data, self.path)

    def commit(self, mode: int | None = None, times: tuple[int, int] | None = None) -> None:
        """Do nothing: all is written."""

    def discard(self) -> None:
        """Do nothing: what is written is gone."""


class _Progress:
    """A bar on a terminal, for work that takes long."""

    def __init__(self, name: str, total: int | None, wanted: bool | None) -> None:
        self._name = name
        self._total = total
        self._done = 0
        self._bar: Any = None
        self._start = time.monotonic() + (0 if wanted else PROGRESS_DELAY)
        self._enabled = wanted is not False and sys.stderr is not None and sys.stderr.isatty()

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


# Work


class _Skip(Exception):
    """A source is left out, which is worth a warning."""


class _Refusal(Exception):
    """What was asked for isn't done, for a reason that the user can change."""


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
        self.target: Target | _StandardOutput | None = None
        self._reads_archives = options.decompress or options.test or options.list
        self._writes_files = not (options.stdout or options.output or options.test or options.list)
        self._listings: list[tuple[str, Listing]] = []

    def run(self, names: Iterable[str]) -> None:
        """Work on each source, whatever becomes of the others; only a broken pipe ends it all."""
        for name in names:
            try:
                self._work(name)
            except _Skip as skip:
                self.status = self.status or WARNING
                if not self.options.quiet:
                    complain(f"brevis: {shown(name)}: {skip}")
            except BrokenPipeError:
                raise
            except Exception as error:
                self.status = ERROR
                complain(f"brevis: {shown(name)}: {_reason(error, name)}")
        if self.options.list:
            self._finish_list()

    def _work(self, name: str) -> None:
        source = self._open(name)
        with source.file:
            if self.options.list:
                self._list(name, source)
            elif self.options.test:
                with self._progress(name, source) as progress:
                    self._decode(source, progress, lambda piece: None)
                self._tell(name, "ok")
            else:
                self._convert(name, source)

    # Sources and targets

    def _open(self, name: str) -> _Source:
        if name == STANDARD:
            _standard(sys.stdin)
            if self._reads_archives and not self.options.force and os.isatty(0):
                raise _Refusal("standard input is a terminal; -f reads an archive from there")
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
            raise _Skip("is a directory -- ignored")
        if self._writes_files and not stat.S_ISREG(status.st_mode):
            raise _Skip("is not a regular file -- ignored")
        file = io.FileIO(path, "rb")
        return _Source(path, file, os.fstat(file.fileno()))

    def _open_target(self, source: _Source) -> Target | _StandardOutput:
        path = self._target_path(source)
        if path is None:
            _standard(sys.stdout)
        try:
            there = os.fstat(1) if path is None else os.stat(path)
        except OSError:
            pass
        else:
            if stat.S_ISREG(there.st_mode) and os.path.samestat(source.status, there):
                raise _Refusal("source and target are the same file")
        if path is not None:
            return Target(path, replace=self.options.force, mode=0o600)
        if not self.options.decompress and not self.options.force and os.isatty(1):
            raise _Refusal("standard output is a terminal; -f writes an archive there")
        return _StandardOutput()

    def _target_path(self, source: _Source) -> str | None:
        if self.options.output is not None:
            path: str = self.options.output
            return path
        if source.path is None or self.options.stdout:
            return None
        stem = source.path.removesuffix(SUFFIX)
        if not self.options.decompress:
            if stem != source.path:
                raise _Skip(f"has the suffix {SUFFIX} already -- ignored; -c compresses it all the same")
            return source.path + SUFFIX
        if stem == source.path or not os.path.basename(stem):
            raise _Refusal(f"unknown suffix: its name doesn't end in {SUFFIX}; -o FILE or -c decompresses it")
        return stem

    def _commit(self, target: Target | _StandardOutput, source: _Source) -> None:
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

    # The four kinds of work

    def _convert(self, name: str, source: _Source) -> None:
        """Compress or decompress to a target."""
        self.target = self._open_target(source)
        with self.target as target, self._progress(name, source) as progress:
            work = self._decode if self.options.decompress else self._encode
            read, written = work(source, progress, target.write)
            self._commit(target, source)
        self._tell(name, f"{read} -> {written} bytes, {shown(target.path)}")
        if self.options.remove and target.regular and source.path is not None:
            _sync_folder(target.path)
            os.unlink(source.path)

    def _encode(
        self, source: _Source, progress: _Progress, write: Callable[[Buffer], object]
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
        self, source: _Source, progress: _Progress, write: Callable[[Buffer], object]
    ) -> tuple[int, int]:
        """Decompress, and return the sizes of source and target."""
        from brevis.codec import decode_blocks

        size = written = 0

        def read_on(count: int) -> bytes:
            nonlocal size
            data = _read(source.file, count)
            size += len(data)
            progress.advance(len(data))
            return data

        for piece in decode_blocks(read_on, threads=self.options.threads):
            write(piece)
            written += len(piece)
        return size, written

    def _list(self, name: str, source: _Source) -> None:
        from brevis.reader import survey

        listing = survey(source.file)
        if self.options.json:
            self._listings.append((name, listing))
            return
        if not self._listings and not self.options.quiet:
            say(f"{'compressed':>14}{'uncompressed':>15}{'ratio':>8}  name")
        self._listings.append((name, listing))
        say(_row(listing.compressed, listing.uncompressed, shown(name)))
        if self.options.verbose:
            for tensor in listing.tensors:
                say(f"{tensor.end - tensor.begin:29}{'':10}{_tensor(tensor)}")

    def _finish_list(self) -> None:
        if self.options.json:
            import json  # here, because it's of use only here

            say(json.dumps([_dictionary(name, listing) for name, listing in self._listings], indent=2))
        elif len(self._listings) > 1:
            sizes = [(listing.compressed, listing.uncompressed) for _, listing in self._listings]
            say(_row(sum(size[0] for size in sizes), sum(size[1] for size in sizes), "(totals)"))

    def _tell(self, name: str, what: str) -> None:
        if self.options.verbose:
            complain(f"{shown(name)}: {what}")

    @contextlib.contextmanager
    def _progress(self, name: str, source: _Source) -> Iterator[_Progress]:
        wanted = False if self.options.quiet and self.options.progress is None else self.options.progress
        progress = _Progress(name, source.size(), wanted)
        try:
            yield progress
        finally:
            progress.close()


def _read(file: io.FileIO, size: int) -> bytes:
    data = file.read(size)
    if data is None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return data


def _sync_folder(path: str) -> None:
    """Make sure that the name of a new file is on the disk, where the system can tell."""
    with contextlib.suppress(OSError):
        descriptor = os.open(os.path.dirname(path) or os.curdir, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# Texts


def _reason(error: Exception, name: str) -> str:
    """Say in a line why a source couldn't be worked on."""
    from brevis.errors import Error

    if isinstance(error, FileExistsError):
        return f"{shown(error.filename)} exists already; -f replaces it"
    if isinstance(error, OSError) and error.strerror:
        other = error.filename if isinstance(error.filename, str) and error.filename != name else None
        return error.strerror if other is None else f"{shown(other)}: {error.strerror}"
    if isinstance(error, MemoryError):
        return "there isn't enough memory"
    if isinstance(error, (Error, OSError, _Refusal)):
        return shown(str(error))
    return shown(f"internal error: {type(error).__name__}: {error}")


def _percent(compressed: int, uncompressed: int) -> float | None:
    return round(100 * compressed / uncompressed, 2) if uncompressed else None


def _row(compressed: int, uncompressed: int, name: str) -> str:
    percent = _percent(compressed, uncompressed)
    ratio = "-" if percent is None else f"{percent:.2f}%"
    return f"{compressed:14}{uncompressed:15}{ratio:>10}  {name}"


def _tensor(tensor: Entry) -> str:
    return f"{shown(tensor.name)}  {shown(tensor.dtype)} [{', '.join(map(str, tensor.shape))}]"


def _dictionary(name: str, listing: Listing) -> dict[str, Any]:
    """Say in JSON's terms what an archive holds; `ratio` is in percent."""
    return {
        "file": name,
        "compressed": listing.compressed,
        "uncompressed": listing.uncompressed,
        "ratio": _percent(listing.compressed, listing.uncompressed),
        "members": listing.members,
        "chunks": listing.chunks,
        "tensors": [
            {
                "name": t.name,
                "dtype": t.dtype,
                "shape": list(t.shape),
                "offset": t.begin,
                "bytes": t.end - t.begin,
            }
            for t in listing.tensors
        ],
    }


# The whole


@contextlib.contextmanager
def _signals(command: Command) -> Iterator[None]:
    """Let a signal end the process as it would without a handler, but leave nothing half written behind.

    This happens at once, in the handler: work under way in other threads isn't waited for.
    """

    def stop(number: int, frame: object) -> None:
        if command.target is not None:
            command.target.discard()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {}
    try:
        for number in numbers:
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup and the like
                with contextlib.suppress(ValueError):  # not in the main thread, which alone can have handlers
                    before[number] = signal.signal(number, stop)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    try:
        options, names = parse(sys.argv[1:] if arguments is None else arguments)
        if options.help:
            say(_parser().format_help().rstrip())
        elif options.version:
            say(f"brevis {__version__}")
        else:
            command = Command(options)
            with _signals(command):
                command.run(names)
            return command.status
    except _UsageError as error:
        complain(f"brevis: {shown(str(error))}\nTry 'brevis --help'.")
        return ERROR
    except BrokenPipeError:
        return ERROR
    except OSError as error:
        complain(f"brevis: {error.strerror or error}")
        return ERROR
    return DONE
