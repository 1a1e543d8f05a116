"""Sizes and speeds of brevis and general compressors on real checkpoints, in one run on one machine.

Everything happens in memory, on one thread unless the name says otherwise; each round trip is checked. Speeds
are medians, in MB/s of the original, and stand beside a plain copy of the same bytes: machines differ and are
shared, ratios last longer.

    python bench/peers.py [--record] [NAME...]      NAME: minilm-bf16, crepe-fp32 ...
"""

import argparse
import datetime
import gzip
import os
import platform
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple, TypeAlias, TypeVar

import lz4.frame
import snappy
import zstandard
from checkpoints import FOLDER, NAMES, checkpoint

import brevis

RECORDS = Path(__file__).parent / "records"
RUNS = 3

Bytes: TypeAlias = bytes | bytearray
T = TypeVar("T")


class Peer(NamedTuple):
    """A compressor of bytes."""

    name: str
    compress: Callable[[bytes], bytes]
    restore: Callable[[bytes], Bytes]


PEERS = (
    Peer("gzip -6", partial(gzip.compress, compresslevel=6), gzip.decompress),
    Peer("zstd -3", zstandard.ZstdCompressor(level=3).compress, zstandard.ZstdDecompressor().decompress),
    Peer("lz4", lz4.frame.compress, lz4.frame.decompress),
    Peer("snappy", snappy.compress, snappy.uncompress),
)


def copy(data: bytes) -> bytes:
    """Copy the bytes, as the fastest conceivable compressor and decompressor would at least have to."""
    return bytes(memoryview(data))  # bytes of bytes would be the same object


def into_the_same_memory() -> Callable[[bytes], Bytes]:
    """Return a function that restores into memory that is there already: fresh memory costs page faults."""
    room = bytearray()

    def restore(archive: bytes) -> Bytes:
        nonlocal room
        if not room:
            room = bytearray(brevis.decompress(archive))
        brevis.decompress(archive, out=room, threads=1)
        return room

    return restore


def rows() -> list[Peer]:
    """Make the list of what is compared: brevis at some levels, its peers, a copy."""
    ours = [
        Peer(
            f"brevis -{level}" + (f", {threads} threads" if threads > 1 else ""),
            partial(brevis.compress, level=level, threads=threads),
            partial(brevis.decompress, threads=threads),
        )
        for level, threads in ((1, 1), (6, 1), (6, 2), (9, 1))
    ]
    again = Peer("brevis -6, out=", partial(brevis.compress, threads=1), into_the_same_memory())
    return [*ours, again, *PEERS, Peer("copy", copy, copy)]


def median_time(function: Callable[[bytes], T], data: bytes) -> tuple[T, float]:
    """Return the result, and the median seconds of a few runs; one that takes long is run once."""
    times: list[float] = []
    while True:
        start = perf_counter()
        result = function(data)
        times.append(perf_counter() - start)
        if len(times) == RUNS or sum(times) >= 5:
            break
    return result, statistics.median(times)


def measure(peer: Peer, data: bytes) -> tuple[float, float, float]:
    """Return percent of the original, and MB/s of compressing and restoring."""
    archive, compressing = median_time(peer.compress, data)
    restored, restoring = median_time(peer.restore, archive)
    if restored != data:
        raise SystemExit(f"{peer.name} does not give the bytes back")
    return 100 * len(archive) / len(data), len(data) / compressing / 1e6, len(data) / restoring / 1e6


def processor() -> str:
    """Return the processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine()
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", default=[], help="checkpoints; all six if none is named"
    )
    parser.add_argument("--record", action="store_true", help="also write the table to bench/records")
    arguments = parser.parse_args()
    date = datetime.date.today().isoformat()
    sets = os.environ.get("BREVIS_CPU", "")  # a record of its own for a limited choice of instruction sets
    command = f"BREVIS_CPU={sets} " * bool(sets) + "python bench/peers.py --record"
    lines = [
        f"`{command}`, {date}, {processor()}, Python {platform.python_version()},",
        f"brevis {brevis.__version__}. MB/s of the original, median of {RUNS};",
        "in brackets the ratio to the copy of the same run.",
    ]
    for name in arguments.names or NAMES:
        data = checkpoint(name, FOLDER).read_bytes()
        lines += [
            "",
            f"**{name}** ({len(data) / 1e6:.1f} MB)",
            "",
            "| | % | compress | restore |",
            "|---|---:|---:|---:|",
        ]
        measured = {peer.name: measure(peer, data) for peer in rows()}
        _, copy_in, copy_out = measured["copy"]
        for peer, (percent, fast_in, fast_out) in measured.items():
            speeds = ((fast_in, copy_in), (fast_out, copy_out))
            cells = [f"{speed:.0f} ({speed / copied:.3f})" for speed, copied in speeds]
            lines.append(f"| {peer} | {percent:.2f} | {cells[0]} | {cells[1]} |")
        print("\n".join(lines[-len(measured) - 4 :]), file=sys.stderr)
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.record:
        RECORDS.mkdir(exist_ok=True)
        (RECORDS / f"peers-{date}{'-' * bool(sets)}{sets}.md").write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
