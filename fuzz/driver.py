"""Runs a target: on seeds in a plain loop, on files, or under atheris where that is installed.

The plain loop works in a child process, so that a crash or a hang names the seed that made it. Atheris gives
bytes: those that begin as an archive does are an input themselves, others are what random draws are made of.
"""

import argparse
import faulthandler
import importlib.util
import mmap
import os
import random
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).resolve().parent / "corpus"
HANG = 120  # seconds that no seed or file may take, on any machine and under sanitizers


@dataclass
class Target:
    name: str
    draw: Callable[[random.Random], Iterable[Any]]  # inputs of a seed
    check: Callable[[Any], str]  # raises where the target does wrong; tells in a word what it saw
    replay: Callable[[bytes], str]  # the same for the bytes of a file


class Draws(random.Random):
    """Random numbers made of given bytes, and of a hash of them when these are used up."""

    def __init__(self, data: bytes) -> None:
        super().__init__(sha256(data).digest())
        self.data, self.at = data, 0

    def getrandbits(self, k: int) -> int:
        size = (k + 7) // 8
        piece = self.data[self.at : self.at + size]
        if len(piece) < size:
            return super().getrandbits(k)
        self.at += size
        return int.from_bytes(piece, "little") >> (8 * size - k)

    def random(self) -> float:
        return self.getrandbits(53) / (1 << 53)


def run_seed(target: Target, seed: int, seen: Counter) -> None:
    for item in target.draw(random.Random(seed)):
        seen[target.check(item)] += 1


def files_of(paths: Iterable[Path]) -> list[Path]:
    """The files, and those in the folders, in order."""
    found = [path for top in paths for path in (sorted(top.rglob("*")) if top.is_dir() else [top])]
    return [path for path in found if not path.is_dir()]


def loop(target: Target, paths: list[Path], seed: int, count: float, seconds: float, note: mmap.mmap) -> None:
    """Files, then seeds one after the other; `note` holds the number of the file or seed at work."""
    seen: Counter = Counter()
    end = time.monotonic() + seconds
    files = files_of(paths)
    for i, path in enumerate(files):
        note[:16] = struct.pack("<qq", -1 - i, seed)
        faulthandler.dump_traceback_later(HANG, exit=True)
        seen[target.replay(path.read_bytes())] += 1
    done = 0
    while done < count and time.monotonic() < end:
        note[:16] = struct.pack("<qq", done, seed + done)
        faulthandler.dump_traceback_later(HANG, exit=True)
        run_seed(target, seed + done, seen)
        done += 1
    faulthandler.cancel_dump_traceback_later()
    told = ", ".join(f"{word} {times:,}" for word, times in sorted(seen.items()))
    inputs = f"{len(files)} files, {done:,} seeds from {seed}, {seen.total():,} inputs"
    print(f"{target.name}: {inputs}: {told}", flush=True)


def guarded(target: Target, paths: list[Path], seed: int, count: float, seconds: float) -> int:
    """The loop in a child process; tells after a failure how to see it again."""
    note = mmap.mmap(-1, 16)
    if not hasattr(os, "fork"):
        loop(target, paths, seed, count, seconds, note)
        return 0
    child = os.fork()
    if not child:
        faulthandler.enable()
        status = 1
        try:
            loop(target, paths, seed, count, seconds, note)
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        number, at = struct.unpack("<qq", note[:16])
        what = f"--seed {at} --count 1" if number >= 0 else f"--count 0 {files_of(paths)[-1 - number]}"
        how = f"signal {-status}" if status < 0 else f"status {status}"
        print(f"{target.name}: failed ({how}); again: python fuzz/{target.name}.py {what}", file=sys.stderr)
    return int(status != 0)


def under_atheris(target: Target, seconds: float) -> None:
    import atheris

    def one(data: bytes) -> None:
        if data[:4] == b"\x89BRV":
            target.replay(data)
        else:
            for item in target.draw(Draws(data)):
                target.check(item)

    found = CORPUS.parent.parent / "build" / "fuzz" / target.name  # where atheris keeps what it finds
    found.mkdir(parents=True, exist_ok=True)
    atheris.instrument_all()
    limits = [f"-max_total_time={int(seconds)}"] if seconds < float("inf") else []
    atheris.Setup([sys.argv[0], *limits, f"-timeout={HANG}", str(found), str(CORPUS)], one)
    atheris.Fuzz()


def run(target: Target) -> None:
    """The command line of a target."""
    options = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    options.add_argument("--seconds", type=float, default=float("inf"), help="end after so long")
    options.add_argument("--count", type=float, default=float("inf"), help="end after so many seeds")
    options.add_argument("--seed", type=int, default=0, help="the first seed")
    options.add_argument("--plain", action="store_true", help="without atheris, even where that is installed")
    options.add_argument("paths", nargs="*", type=Path, help="files, and folders of such, to check first")
    given = options.parse_args()
    bounded = given.count < float("inf") or given.paths or given.plain
    if not bounded and importlib.util.find_spec("atheris"):
        under_atheris(target, given.seconds)
    else:
        sys.exit(guarded(target, given.paths, given.seed, given.count, given.seconds))
