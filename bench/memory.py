"""Peak memory of the command on made-up checkpoints that come through a pipe, so that their size does not
matter.

Each figure is what the process needed at its peak, less what an interpreter needs that does nothing.

    python bench/memory.py [--record] [MEGABYTES]      2,000 by default
"""

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from time import perf_counter

import numpy as np

RECORDS = Path(__file__).parent / "records"
BLOCK = 1 << 23

# Runs the command in a process and tells its own peak. Where there is no /proc, the resource module knows (in
# KiB, or bytes on macOS), but counts what the parent needed before the process became another program.
CHILD = """
import sys
from brevis.cli import main
status = main(sys.argv[1:]) if len(sys.argv) > 1 else 0
sys.stdout.flush()
try:
    peak = next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM")) << 10
except OSError:
    import resource
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << (0 if sys.platform == "darwin" else 10)
print(peak, file=sys.stderr)
sys.exit(status)
"""


def weights(seed: int) -> Iterator[bytes]:
    """Go on for ever with blocks of BF16 weights, normally distributed, of a scale that changes by row."""
    rng = np.random.default_rng(seed)
    row = rng.standard_normal(BLOCK // 2, dtype=np.float32).reshape(-1, 1024)
    while True:
        scaled = row * rng.uniform(0.01, 0.1, (len(row), 1)).astype(np.float32)
        yield (scaled.view(np.uint32) >> 16).astype(np.uint16).tobytes()


def header(tensors: list[tuple[str, list[int]]]) -> bytes:
    """Make the header of a safetensors file with these BF16 tensors."""
    described, end = {}, 0
    for name, shape in tensors:
        begin, end = end, end + 2 * int(np.prod(shape))
        described[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(described).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def made_up(kind: str, size: int) -> Iterator[bytes]:
    """Make a checkpoint of about `size` bytes, in pieces."""
    rows = size // 2048
    tensors = {
        "one tensor": [("w", [rows, 1024])],
        "mid-size tensors": [(f"layer.{i}.w", [512, 1024]) for i in range(rows // 512)],
        "80,000 small tensors, 8 MiB of header": [
            (f"block.{i}.experts.of.some.length.weight", [max(rows // 80_000, 1), 1024])
            for i in range(80_000)
        ],
        "anonymous bytes": [],
    }[kind]
    data_size = sum(2 * int(np.prod(shape)) for _, shape in tensors) or size
    if tensors:
        yield header(tensors)
    blocks = weights(1)
    yield from islice(blocks, data_size // BLOCK)
    yield next(blocks)[: data_size % BLOCK]


KINDS = ("one tensor", "mid-size tensors", "80,000 small tensors, 8 MiB of header", "anonymous bytes")


def peak(arguments: list[str], pieces: Iterator[bytes], out: Path) -> int:
    """Return the peak memory, in bytes, of the command fed with `pieces`."""
    command = [sys.executable, "-c", CHILD, *arguments]
    with (
        out.open("wb") as sink,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sink, stderr=subprocess.PIPE) as process,
    ):
        assert process.stdin and process.stderr

        def feed(write: Callable[[bytes], int], close: Callable[[], None]) -> None:
            for piece in pieces:
                write(piece)
            close()

        feeder = threading.Thread(target=feed, args=(process.stdin.write, process.stdin.close))
        feeder.start()
        said = process.stderr.read()
        feeder.join()
    if process.returncode:
        raise SystemExit(f"the command failed: {said.decode()}")
    return int(said)


def read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(BLOCK):
            yield piece


def measure(kind: str, size: int, folder: Path) -> tuple[int, int]:
    """Return the peaks of compressing and of restoring, over an interpreter that does nothing, in bytes."""
    archive = folder / "archive.brv"
    empty = peak([], iter(()), Path("/dev/null"))
    compressing = peak(["-T2", "-c"], made_up(kind, size), archive)
    restoring = peak(["-T2", "-dc"], read(archive), Path("/dev/null"))
    return compressing - empty, restoring - empty


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("megabytes", nargs="?", type=int, default=2000)
    parser.add_argument("--record", action="store_true", help="also write the table to bench/records")
    arguments = parser.parse_args()
    date = datetime.date.today().isoformat()
    lines = [
        f"`python bench/memory.py --record {arguments.megabytes}`, {date}: peak memory with two threads,",
        "in MB over an interpreter that does nothing, from a pipe and to `/dev/null`.",
        "",
        f"| {arguments.megabytes} MB of | compress | restore | seconds for both |",
        "|---|---:|---:|---:|",
    ]
    for kind in KINDS:
        start = perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            peaks = measure(kind, arguments.megabytes * 1_000_000, Path(folder))
        seconds = perf_counter() - start
        lines.append(f"| {kind} | {peaks[0] / 1e6:.0f} | {peaks[1] / 1e6:.0f} | {seconds:.0f} |")
        print(lines[-1], file=sys.stderr)
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.record:
        RECORDS.mkdir(exist_ok=True)
        (RECORDS / f"memory-{date}.md").write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
