"""Build the native rooms of brevis. Everything else stands in pyproject.toml."""

import os
import sys
from glob import glob

from Cython.Build import cythonize
from setuptools import Extension, setup

# each native room, and the C kernels that it calls
ROOMS = {
    "words": ["cpu", "words"],
    "entropy": ["cpu", "words", "rans", "huffman", "stats"],
    "node": [],
    "literals": ["cpu", "words", "rans", "huffman"],
    "ops": ["cpu", "words"],
    "program": [],
    "interp": ["cpu", "words"],
    "search.estimate": ["cpu", "words", "stats"],
}

DEBUG = bool(os.environ.get("BREVIS_DEBUG"))  # bounds checks and assertions
ASAN = bool(os.environ.get("BREVIS_ASAN"))  # sanitizers, for fuzz/asan.py alone
WINDOWS = sys.platform == "win32"
# loops that Cython writes compare signed with unsigned; our own C is held to -Wextra by make lint
CFLAGS = (
    [] if WINDOWS else ["-std=c11", "-Wno-sign-compare", "-fvisibility=hidden", "-O0" if DEBUG else "-O3"]
)
LDFLAGS = []
if ASAN:
    # Python's own flags have -fwrapv, under which an overflow is no fault.
    LDFLAGS = ["-fsanitize=address,undefined"]
    CFLAGS += [
        *LDFLAGS,
        "-fno-wrapv",
        "-fno-sanitize-recover=undefined",
        "-fno-omit-frame-pointer",
        "-g",
        "-O1",
    ]

PLANTED = Extension("planted", ["fuzz/planted.c"], extra_compile_args=CFLAGS, extra_link_args=LDFLAGS)

setup(
    ext_modules=cythonize(
        [
            Extension(
                f"brevis.{room}",
                [
                    f"brevis/{room.replace('.', '/')}.pyx",
                    *(f"brevis/kernels/{kernel}.c" for kernel in kernels),
                ],
                include_dirs=["brevis/kernels"],
                depends=["setup.py", *glob("brevis/kernels/*.h")],
                extra_compile_args=CFLAGS,
                extra_link_args=LDFLAGS,
            )
            for room, kernels in ROOMS.items()
        ],
        compiler_directives={
            "language_level": 3,
            "cdivision": True,
            "freethreading_compatible": True,
            "boundscheck": DEBUG,
            "wraparound": DEBUG,
            "initializedcheck": DEBUG,
        },
        nthreads=0 if WINDOWS else os.cpu_count() or 1,
    )
    + [PLANTED] * ASAN,
)
