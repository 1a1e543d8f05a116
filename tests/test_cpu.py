"""Instruction sets change the time, never the bytes: with any of them off, the tests of the core pass."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SETS = ["portable", "portable,avx2", "portable,avx2,avx512"]

ARCHIVES = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
import test_sizes, brevis
digest = hashlib.sha256()
for _, dtype, shape, data in test_sizes.tensors():
    for level in (1, 6):
        archive = test_sizes.archive(dtype, shape, data, level)
        assert brevis.decompress(archive) == data
        digest.update(archive)
print(digest.hexdigest())
"""


def run(sets: str, *command: str) -> str:
    environment = {**os.environ, "BREVIS_CPU": sets}
    done = subprocess.run(
        [sys.executable, *command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=TESTS.parent,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_archives_are_the_same_with_every_set():
    digests = {run(sets, "-c", ARCHIVES, str(TESTS)) for sets in SETS}
    assert len(digests) == 1
    assert len(digests.pop().strip()) == 2 * hashlib.sha256().digest_size


@pytest.mark.parametrize("sets", SETS[:2])
def test_programs_pass_without_the_other_sets(sets):
    said = run(sets, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS / "test_programs.py"))
    assert "passed" in said
