"""The command line: which options there are, and what a line of arguments says.

It may assume nothing of the arguments. It does not know how any of what is asked for is done.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

SUFFIX = ".brv"
STANDARD = "-"  # the name of standard input and output

DESCRIPTION = """\
Compress FILEs, each to FILE.brv, or decompress them. Without FILE, or with -, standard input goes to standard
output. Sources are kept."""

_UNITS = {unit: 1024**power for power, unit in enumerate("KMGT", 1)}


class UsageError(Exception):
    """The command line makes no sense."""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line and the exit status of an error."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all options; files are left to `parse`."""
    made = _Parser(
        prog="brevis",
        usage="brevis [OPTION]... [FILE]...",
        description=DESCRIPTION,
        add_help=False,
        allow_abbrev=False,
    )
    flag = made.add_argument
    flag("-d", "--decompress", dest="decompress", action="store_true", default=False, help="decompress")
    flag("-z", "--compress", dest="decompress", action="store_false", help="compress (the default)")
    flag("-t", "--test", action="store_true", help="check the whole of each archive, write nothing")
    flag("-l", "--list", action="store_true", help="list sizes; with -v or --json the tensors too")
    flag("--json", action="store_true", help="list in JSON")
    flag("--salvage", action="store_true", help="decompress what is intact, with zeros for what is lost")
    flag("-r", "--recursive", action="store_true", help="work on all files in folders")
    flag("-c", "--stdout", action="store_true", help="write to standard output")
    flag("-o", "--output", metavar="FILE", help="write to FILE")
    flag("-f", "--force", action="store_true", help="replace files, follow links, use terminals")
    flag(
        "-k", "--keep", dest="remove", action="store_false", default=False, help="keep sources (the default)"
    )
    flag("--rm", dest="remove", action="store_true", help="remove each source when its target is complete")
    _add_levels(made)
    flag("-T", "--threads", metavar="N", type=_count, default=0, help="use N threads; 0, the default, is all")
    flag("-M", "--memory", metavar="SIZE", type=_size, help="decode within SIZE bytes (K, M, G), or refuse")
    flag("-q", "--quiet", action="store_true", help="leave out warnings")
    flag("-v", "--verbose", action="store_true", help="tell what was done")
    flag("--progress", dest="progress", action="store_true", default=None, help="show a bar at once")
    flag("--no-progress", dest="progress", action="store_false", help="show no bar, for long work neither")
    flag("-h", "--help", action="store_true", help="show this help")
    flag("-V", "--version", action="store_true", help="show the version")
    return made


def _add_levels(made: argparse.ArgumentParser) -> None:
    names = {1: ["--fast"], 9: ["--best"]}
    texts = {1: "faster ...", 9: "... smaller; the default is -6"}
    for level in range(1, 10):
        made.add_argument(
            f"-{level}",
            *names.get(level, []),
            dest="level",
            action="store_const",
            const=level,
            default=6,
            help=texts.get(level, argparse.SUPPRESS),
        )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of threads")
    return int(text)


def _size(text: str) -> int | None:
    """Read a size such as 64M, 1.5GiB or 500000; 0 is none, as in xz."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:([KMGT])i?)?B?", text, re.IGNORECASE | re.ASCII)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no size")
    number, unit = found.groups()
    return int(float(number) * _UNITS.get((unit or "").upper(), 1)) or None


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Read the command line: options and files, in any order; after `--` only files."""
    arguments = list(arguments)
    split = arguments.index("--") if "--" in arguments else len(arguments)
    for item in arguments[:split]:
        if re.fullmatch(r"-\d{2,}", item):
            raise UsageError(f"there is no level {item}: they go from -1 to -9")
    # Knowing no operands, argparse leaves them to the rest, in any version the same way, between options too.
    options, rest = parser().parse_known_args(arguments[:split])
    for item in rest:
        if item.startswith("-") and item != STANDARD:
            raise UsageError(f"unknown option {item}; a file of this name comes after --")
    files = [*rest, *arguments[split + 1 :]] or [STANDARD]
    _check(options, files)
    if options.output == STANDARD:
        options.stdout, options.output = True, None
    return options, files


def _check(options: argparse.Namespace, files: list[str]) -> None:
    """Refuse options that contradict each other."""
    if options.json and not options.list:
        raise UsageError("--json goes with -l")
    if options.salvage and options.list:
        raise UsageError("--salvage and -l don't go together; -t --salvage reports without writing")
    if options.output is None or options.output == STANDARD:
        return
    if not options.output:
        raise UsageError("-o takes a name")
    if options.stdout:
        raise UsageError("-c and -o name different targets")
    if (len(files) > 1 or options.recursive) and not (options.test or options.list):
        raise UsageError("-o takes a single source")
