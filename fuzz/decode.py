"""Decoding hostile bytes: no crash, no hang, and memory within what FORMAT.md promises.

Archives with changes, noise, and few bytes that stand for many: an input may end in an error of brevis and
in no other way. An archive under 1 KiB of one chunk takes at most 64 MiB and a second; BREVIS_FUZZ_SLACK
multiplies that, for slow machines and sanitizers.
"""

import contextlib
import io
import os
import time
from pathlib import Path

import gen
from driver import Target, run

from brevis import codec, errors, reader

SLACK = float(os.environ.get("BREVIS_FUZZ_SLACK", "1"))
SMALL, MEMORY, SECONDS = 1 << 10, 64 << 20, 1.0
PEAK = Path("/proc/self/clear_refs")  # Linux: 5 sets the peak back to the memory now in use


def resident(name):
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition(name + ":")[2].split()[0])


@contextlib.contextmanager
def bounded(what, times):
    """Refuses more memory or time within than inputs may cost."""
    measured = PEAK.exists()
    if measured:
        PEAK.write_text("5")
        before = resident("VmRSS")
    begin = time.process_time()
    yield
    taken = time.process_time() - begin
    assert taken <= SLACK * SECONDS * times, f"{what}: {taken:.2f} s"
    if measured:
        grown = resident("VmHWM") - before
        assert grown <= SLACK * MEMORY * times, f"{what}: {grown >> 20} MiB"


def check(data):
    times = 1 + len(data) // SMALL
    with bounded(data[:4096].hex(), times):
        verdict = "content"
        try:
            for _ in codec.decode_blocks(io.BytesIO(data).read, threads=1, on_layout=lambda entries: None):
                pass
        except errors.Error as error:
            verdict = type(error).__name__
        with contextlib.suppress(errors.Error):
            reader.survey(io.BytesIO(data))
    return verdict


def draw(rng):
    yield from gen.archives(rng, 6)
    bomb = gen.bomb_archive(rng)
    if len(bomb) < SMALL:
        yield bomb
    yield gen.header(rng.randrange(12, 25)) + rng.randbytes(rng.randrange(60))


TARGET = Target("decode", draw, check, check)

if __name__ == "__main__":
    run(TARGET)
