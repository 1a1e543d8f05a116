"""Compress real checkpoints with brevis and with general compressors, side by side.

Every figure comes with a verified round trip: a program that doesn't restore the very same bytes ends the
demo with exit status 1.

    python bench/demo.py [FOLDER]
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from checkpoints import FOLDER, checkpoint
from peers import PEERS, Peer

CHECKPOINTS = ("minilm-fp32", "minilm-bf16")


class Trial(NamedTuple):
    """What one program made of one file; times are in seconds of wall clock."""

    program: str
    archive_size: int
    compress_time: float
    restore_time: float
    lossless: bool


def try_peer(peer: Peer, data: bytes) -> Trial:
    """Measure a compressor on bytes in memory, so that it pays for no process and no disk."""
    start = perf_counter()
    archive = peer.compress(data)
    middle = perf_counter()
    restored = peer.restore(archive)
    end = perf_counter()
    return Trial(peer.name, len(archive), middle - start, end - middle, restored == data)


def try_brevis(path: Path, data: bytes) -> Trial:
    """Measure brevis as a user meets it: the command line, from starting Python to the last byte written."""
    with tempfile.TemporaryDirectory() as folder:
        archive, restored = Path(folder, "archive.brv"), Path(folder, "restored")
        compress_time = run_brevis("-c", path, archive)
        restore_time = run_brevis("-dc", archive, restored)
        lossless = restored.read_bytes() == data
        return Trial("brevis", archive.stat().st_size, compress_time, restore_time, lossless)


def run_brevis(option: str, source: Path, target: Path) -> float:
    """Run `brevis OPTION SOURCE > TARGET` and return the seconds it took."""
    with target.open("wb") as output:
        start = perf_counter()
        done = subprocess.run([sys.executable, "-m", "brevis", option, source], stdout=output, check=False)
        elapsed = perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"demo: brevis {option} {source} failed with exit status {done.returncode}")
    return elapsed


HEADING = """\
                              size      of       compress         restore
file         program            MB  original     s    MB/s       s    MB/s
--------------------------------------------------------------------------"""
FOOTING = """
MB/s counts the original's bytes. brevis is timed as a command, so with the start of Python and with its
files; the others only work in memory. Every program restored the same bytes."""


def row(file: str, size: int, trial: Trial) -> str:
    """Format one line of the table."""
    share = trial.archive_size / size
    times = (trial.compress_time, trial.restore_time)
    speeds = "".join(f"{time:8.2f}{size / 1e6 / time:8.0f}" for time in times)
    return f"{file:13}{trial.program:12}{trial.archive_size / 1e6:9.2f}{share:8.1%}{speeds}"


def trials(path: Path) -> Iterator[Trial]:
    """Try every program on one file, brevis first."""
    data = path.read_bytes()
    yield try_brevis(path, data)
    for peer in PEERS:
        yield try_peer(peer, data)


def main() -> None:
    """Print a line for each file and program as soon as it's measured."""
    parser = argparse.ArgumentParser(description="Compare brevis with other compressors on real checkpoints.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="default: %(default)s")
    folder = parser.parse_args().folder
    paths = [checkpoint(name, folder) for name in CHECKPOINTS]
    print(HEADING)
    for path in paths:
        for trial in trials(path):
            if not trial.lossless:
                sys.exit(f"demo: {trial.program} did not restore the bytes of {path}")
            print(row(path.stem, path.stat().st_size, trial), flush=True)
    print(FOOTING)


if __name__ == "__main__":
    main()
