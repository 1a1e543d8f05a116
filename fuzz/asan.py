"""The core under the address and undefined-behaviour sanitizers: vectors, corpus, regressions, some seeds.

It is built into build/asan, never in place, and everything runs once with all instruction sets and once with
plain C. First two planted faults must be caught, else silence would mean nothing.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "asan"
FUZZ = ROOT / "fuzz"
TARGETS = ("decode", "judge", "roundtrip", "streams", "random_access", "canonical")
SEEDS = 20  # of each target: it is the corpus that is to be run here
PLANTED = (
    ("overflow_buffer", 16, "AddressSanitizer: heap-buffer-overflow"),
    ("overflow_integer", 2**31 - 1, "signed integer overflow"),
)
CALL = "import ctypes, sys; getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])(int(sys.argv[3]))"
WHERE = "import sys, brevis.ops; sys.exit(not brevis.ops.__file__.startswith(sys.argv[1]))"


def build():
    """The compiled rooms with setup.py's flags for sanitizers, and the others beside them."""
    folders = ["--build-lib", str(BUILD), "--build-temp", str(BUILD / "objects")]
    command = [sys.executable, "setup.py", "-q", "build_ext", *folders]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "BREVIS_ASAN": "1"}, check=True)
    skipped = shutil.ignore_patterns("*.so", "*.c", "*.pyx", "kernels", "__pycache__")
    shutil.copytree(ROOT / "brevis", BUILD / "brevis", ignore=skipped, dirs_exist_ok=True)


def environment(cpu):
    """Where the sanitizers work; `cpu` is the instruction sets that kernels may use, None for all."""
    compiler = os.environ.get("CC", "gcc")
    asan = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], stdout=subprocess.PIPE, text=True, check=True
    )
    out = {name: value for name, value in os.environ.items() if name != "BREVIS_CPU"}
    out |= {
        "LD_PRELOAD": asan.stdout.strip(),
        "PYTHONMALLOC": "malloc",  # every object is a block of its own, with guards around it
        "PYTHONPATH": str(BUILD),
        "ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=16",  # CPython keeps memory to its end
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "BREVIS_FUZZ_SLACK": "20",
    }
    return out | ({"BREVIS_CPU": cpu} if cpu else {})


def check_alive():
    """Every compiled room has the calls of both sanitizers in it, and what is planted is caught."""
    rooms = [*(BUILD / "brevis").rglob("*.so")]
    for room in rooms:
        code = room.read_bytes()
        for call in (b"__asan_report", b"__ubsan_handle_add_overflow"):  # the latter not under -fwrapv
            assert call in code, f"{room.name} has no {call.decode()}"
    (library,) = BUILD.glob("planted*.so")
    for function, argument, message in PLANTED:
        command = [sys.executable, "-c", CALL, str(library), function, str(argument)]
        result = subprocess.run(command, env=environment(None), capture_output=True, text=True, check=False)
        assert result.returncode != 0 and message in result.stderr, f"{function} was not caught: {result}"
    print(f"{len(rooms)} rooms with sanitizers; {len(PLANTED)} planted faults caught", flush=True)


def commands():
    tests = ROOT / "tests"
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    yield [sys.executable, "-c", WHERE, str(BUILD)]
    yield [*pytest, str(tests / "test_programs.py")]
    yield [*pytest, str(tests / "test_vectors.py"), "-k", "core"]
    for target in TARGETS:
        corpus = FUZZ / "corpus" / ("contents" if target == "roundtrip" else "archives")
        yield [sys.executable, str(FUZZ / f"{target}.py"), "--count", str(SEEDS), str(corpus)]


def main():
    build()
    check_alive()
    for cpu in (None, "portable"):
        print(f"instruction sets: {cpu or 'all'}", flush=True)
        for command in commands():
            # In the folder of the build, as pytest takes modules from where it is called.
            subprocess.run(command, cwd=BUILD, env=environment(cpu), check=True)


if __name__ == "__main__":
    main()
