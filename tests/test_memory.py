"""Memory does not grow with the file: from a pipe and to nowhere, with two threads, under 250 MB over an
empty interpreter.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "bench"))

import memory

LIMIT = 250_000_000


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peaks are only told apart where there is /proc"
)
@pytest.mark.parametrize("kind", memory.KINDS)
def test_peak_is_bounded(kind, tmp_path):
    compressing, restoring = memory.measure(kind, LIMIT, tmp_path)
    assert compressing < LIMIT
    assert restoring < LIMIT
