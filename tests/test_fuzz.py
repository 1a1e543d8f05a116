"""A bounded run of every fuzzing target: the corpus, which holds every past crash, and the first seeds.

Longer runs are `make fuzz`; what the generator is to draw, and that the loop tells of failures, stands here.
"""

import random
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fuzz"))

import decode
import driver
import gen

from brevis import interp
from brevis.program import Program

FUZZ = Path(driver.__file__).parent
COUNTS = {"decode": 30, "judge": 20, "roundtrip": 150, "streams": 20, "random_access": 40, "canonical": 20}


def run(target, *arguments):
    command = [sys.executable, str(FUZZ / f"{target}.py"), "--plain", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("target", COUNTS)
def test_corpus_and_first_seeds(target):
    corpus = FUZZ / "corpus" / ("contents" if target == "roundtrip" else "archives")
    result = run(target, "--count", COUNTS[target], corpus)
    assert result.returncode == 0, result.stderr
    assert f" {COUNTS[target]} seeds from 0" in result.stdout


def test_every_operator_is_drawn():
    """A row in the table of operators without one here would go untested."""
    assert {*gen.LITERALS, *gen.COMBINATIONS} == set(gen.NUMBERS)
    rng, seen = random.Random(1), set()
    for _ in range(300):
        w, size, code, payloads = gen.draw_program(rng, 300)
        waiting = [Program.parse(code + payloads, w, size).term()] if code.count(b"\x13") < 20 else []
        while waiting:
            term = waiting.pop()
            seen.add(term.op)
            waiting += term.children
    assert seen == set(gen.NUMBERS)


def test_seeds_decide():
    for seed in range(5):
        first, second = (list(gen.archives(random.Random(seed), 3)) for _ in range(2))
        assert first == second


def test_draws_from_bytes_end():
    """Atheris gives bytes of any length and kind; what is drawn from them is the same each time."""
    for data in (b"", bytes(1000), b"\xff" * 1000, random.Random(1).randbytes(3000)):
        first, second = (list(gen.archives(driver.Draws(data), 2)) for _ in range(2))
        assert first == second


@pytest.mark.skipif(not hasattr(driver.os, "fork"), reason="the loop guards itself where processes can fork")
@pytest.mark.parametrize("fault", ["raise ValueError('planted')", "os.kill(os.getpid(), signal.SIGSEGV)"])
def test_failures_name_their_seed(fault, tmp_path):
    target = tmp_path / "planted.py"
    target.write_text(
        "import os, signal, sys\n"
        f"sys.path.insert(0, {str(FUZZ)!r})\n"
        "from driver import Target, run\n"
        "def check(item):\n"
        f"    if item == 7: {fault}\n"
        "    return 'fine'\n"
        "seeds = iter(range(100))\n"
        "run(Target('planted', lambda rng: [next(seeds)], check, len))\n"
    )
    command = [sys.executable, str(target), "--count", "50", "--seed", "100"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 1
    assert "python fuzz/planted.py --seed 107 --count 1" in result.stderr


# What few bytes may cost


def heaviest():
    """Programs of few bytes for chunks of most bytes, of which each word costs a node as much as it can."""
    size = 1 << 24
    n = 8 * size
    bits = gen.operation("repeat", n // 64, children=[gen.raw(random.Random(1).randbytes(8))])
    dealt = gen.operation("repeat", n // 64, children=[gen.raw(b"\x55\xaa\x0f\xf0" * 2)])
    sums = gen.const(1)
    for _ in range(3):
        sums = gen.operation("scan", 1, 1, children=[sums])
    looked_up = gen.operation("lookup", 1, 2, children=[bits, gen.const(1)])
    fields = gen.operation("scan", 1, 1, children=[gen.operation("scan", 1, 1, children=[gen.const(1)])])
    return {
        "scan": (1, sums),
        "lookup": (1, gen.operation("lookup", 1, 2, children=[looked_up, gen.const(1)])),
        "weave": (1, gen.operation("weave", 2, n // 2, children=[dealt, gen.const(0), gen.const(1)])),
        "merge": (8, gen.operation("merge", 8, *[1] * 7, children=[fields] * 8)),
        "repeat": (64, gen.operation("repeat", 2, children=[gen.const(1)])),
    }


@pytest.mark.parametrize("name", heaviest())
def test_few_bytes_cost_little(name):
    """A chunk of under 1 KiB takes at most 64 MiB and a second."""
    w, (code, payloads) = heaviest()[name]
    with decode.bounded(name, 1):
        interp.run(code + payloads, w, bytearray(1 << 24))


@pytest.mark.skipif(not decode.PEAK.exists(), reason="memory in use is told apart where there is /proc")
def test_memory_stays_flat_over_failing_decodes():
    rng, failing = random.Random(1), []
    while len(failing) < 100:
        failing += [data for data in gen.archives(rng, 5) if decode.check(data) != "content"]
    for _ in range(20):
        for data in failing[:100]:
            decode.check(data)
    before = decode.resident("VmRSS")
    for _ in range(100):
        for data in failing[:100]:
            decode.check(data)
    assert decode.resident("VmRSS") - before < 2 << 20
