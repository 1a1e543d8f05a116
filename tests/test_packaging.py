"""What is shipped: an sdist that has all it takes to build, and wheels with what runs, typed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

import brevis

ROOT = Path(__file__).parent.parent

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

# Minutes, and the package index: for release days, and whoever changes setup.py or MANIFEST.in.
slow = pytest.mark.skipif("BREVIS_SLOW" not in os.environ, reason="set BREVIS_SLOW=1 to build from an sdist")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An sdist of this tree, which may hold any files that a developer's holds."""
    pytest.importorskip("setuptools", minversion="77")
    pytest.importorskip("Cython")
    tree = tmp_path_factory.mktemp("sdist") / "tree"
    shutil.copytree(
        ROOT,
        tree,
        ignore=shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "shared", "__pycache__"),
        copy_function=shutil.copy2,  # with its times, so that Cython has nothing to do where it's been
    )
    build = "import sys, setuptools.build_meta as backend; print(backend.build_sdist(sys.argv[1]))"
    shown = subprocess.run(
        [sys.executable, "-c", build, str(tree / "dist")],
        cwd=tree,
        check=True,
        capture_output=True,
        text=True,
    )
    return tree / "dist" / shown.stdout.split()[-1]


def names_in(sdist: Path) -> set[str]:
    with tarfile.open(sdist) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def test_the_sdist_has_what_it_takes(sdist: Path) -> None:
    names = names_in(sdist)
    for folder, pattern in [
        ("brevis", "**/*.py"),
        ("brevis", "**/*.pyi"),
        ("brevis", "**/*.pyx"),
        ("brevis", "**/*.pxd"),
        ("brevis/kernels", "*.[ch]"),
        ("tests", "**/*.py"),
        ("tests/data", "**/*.*"),
        ("spec", "**/*.*"),
        ("bench", "*.py"),
    ]:
        wanted = {str(path.relative_to(ROOT)) for path in (ROOT / folder).glob(pattern)}
        wanted = {name for name in wanted if "__pycache__" not in name}
        assert wanted and wanted <= names, f"{folder}/{pattern}"
    assert {"setup.py", "pyproject.toml", "constraints.txt", "Makefile", "LICENSE", "README.md"} <= names
    assert {"brevis/py.typed", "PKG-INFO"} <= names


def test_the_sdist_has_nothing_else(sdist: Path) -> None:
    for pattern in (
        "*.so",
        "*.pyd",
        "*.pyc",
        "brevis/[a-z]*.c",
        "brevis/search/*.c",
        "build/*",
        ".*",
        "shared/*",
    ):
        found = [name for name in names_in(sdist) if fnmatch(name, pattern)]
        assert not [name for name in found if not name.startswith("brevis/kernels/")], pattern
    assert sdist.stat().st_size < 8 << 20


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_native_room_has_sources_and_every_package_is_named() -> None:
    settings = project()["tool"]["setuptools"]  # type: ignore[index]
    folders = {path.parent for path in (ROOT / "brevis").rglob("*.py") if "kernels" not in path.parts}
    assert set(settings["packages"]) == {str(f.relative_to(ROOT)).replace(os.sep, ".") for f in folders}


def test_stubs_name_what_there_is() -> None:
    for stub in (ROOT / "brevis").rglob("*.pyi"):
        module = __import__(
            str(stub.relative_to(ROOT).with_suffix("")).replace(os.sep, "."), fromlist=["something"]
        )
        for name in re.findall(r"^(?:def|class) (\w+)|^(\w+):", stub.read_text(), re.M):
            assert hasattr(module, "".join(name)), f"{stub.name}: {name}"


def test_entry_points_lead_somewhere() -> None:
    points = project()["project"]["entry-points"]  # type: ignore[index]
    for group, package in (("numcodecs.codecs", "numcodecs"), ("zarr.codecs", "zarr.abc.codec")):
        for target in points[group].values():
            pytest.importorskip(package)
            module, _, name = target.partition(":")
            assert hasattr(__import__(module, fromlist=[name]), name)


def test_extras_and_wheels_for_all_that_is_promised() -> None:
    described = project()
    extras = described["project"]["optional-dependencies"]  # type: ignore[index]
    assert {"numpy", "safetensors", "torch", "fsspec", "numcodecs", "test", "bench"} <= set(extras)
    assert not [need for need in described["project"]["dependencies"] if "torch" in need]  # type: ignore[index]
    wheels = described["tool"]["cibuildwheel"]  # type: ignore[index]
    for python in ("cp310", "cp311", "cp312", "cp313", "cp314", "cp314t"):
        assert f"{python}-*" in wheels["build"].split()
    assert all(len(wheels[system]["archs"]) == 2 for system in ("linux", "macos", "windows"))


def test_nothing_needs_what_is_extra() -> None:
    """The command and the bytes work where nothing but the dependencies is installed."""
    code = (
        "import sys\n"
        "for name in ('numpy', 'torch', 'ml_dtypes', 'safetensors', 'fsspec', 'numcodecs', 'zarr'):\n"
        "    sys.modules[name] = None\n"
        "import brevis, brevis.file, brevis.cli\n"
        "assert brevis.decompress(brevis.compress(b'bytes')) == b'bytes'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@slow
def test_the_sdist_builds_and_runs_alone(sdist: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*command: str) -> str:
        done = subprocess.run(
            [str(python), *command], check=True, capture_output=True, text=True, cwd=tmp_path, env=clean
        )
        return done.stdout

    run("-m", "pip", "wheel", "-q", "--no-deps", "-w", "wheels", str(sdist))
    (wheel,) = (tmp_path / "wheels").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"brevis/py.typed", "brevis/interp.pyi", "brevis/search/estimate.pyi"} <= names
    assert not [name for name in names if name.endswith((".pyx", ".c", ".h")) or name.startswith("tests/")]
    native = {name.split(".")[0] for name in names if re.search(r"\.(so|pyd)$", name)}
    assert native == {str(p.relative_to(ROOT).with_suffix("")) for p in (ROOT / "brevis").rglob("*.pyx")}
    run("-m", "pip", "install", "-q", str(wheel))
    code = "import brevis; print(brevis.__version__, *brevis.decompress(brevis.compress(b'bytes')))"
    assert run("-c", code).split() == [brevis.__version__, *map(str, b"bytes")]
    assert brevis.__version__ in run("-m", "brevis", "--version")
