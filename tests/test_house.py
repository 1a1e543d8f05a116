"""House rules as tests: imports point down, the table bears the load, nothing leaks in that must not."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from brevis import ops

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "brevis"

# Each room imports only from floors below its own.
FLOORS = [
    {"errors", "kernels", "target", "crew", "options"},
    {"bits"},
    {"words"},
    {"entropy"},
    {"node"},
    {"literals"},
    {"ops"},
    {"program", "frame"},
    {"interp"},
    {"search", "sources"},
    {"codec"},
    {"memory"},
    {"reader", "stream"},
    {"file", "salvage"},
    {"console"},
    {"listing"},
    {"command"},
    {"cli", "adapters"},
    {"numpy", "torch", "fsspec", "__init__", "__main__"},
]
FLOOR = {room: i for i, rooms in enumerate(FLOORS) for room in rooms}
IMPORT = re.compile(
    r"^\s*(?:from\s+brevis(?:\.([\w.]+))?\s+c?import\s+([\w, (]+)|c?import\s+brevis\.(\w+))", re.M
)


def rooms():
    return sorted(p for p in PACKAGE.rglob("*.p*") if p.suffix in {".py", ".pyx", ".pxd"})


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].split(".")[0]


@pytest.mark.parametrize("path", rooms(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path):
    room = room_of(path)
    assert room in FLOOR, f"{room} has no floor yet"
    for module, names, plain in IMPORT.findall(path.read_text()):
        targets = [module or plain] if module or plain else [n.strip(" (") for n in names.split(",")]
        for target in filter(None, (t.split(".")[0] for t in targets)):
            if target in FLOOR and target != room:
                assert FLOOR[target] < FLOOR[room], f"{path.name}: {room} may not import {target}"


def test_spec_and_package_do_not_import_each_other():
    for path in (ROOT / "spec").glob("*.py"):
        assert not re.search(r"^\s*(?:from|import)\s+brevis", path.read_text(), re.M)
    for path in rooms():
        assert "import reference" not in path.read_text()


def test_operator_numbers_and_names_stand_in_the_table_alone():
    """Nobody switches on an operator: neither interpreter nor bytecode name one."""
    for room in ("program.pyx", "interp.pyx", "node.pyx", "frame.py"):
        code = re.sub(r'""".*?"""|#[^\n]*', "", (PACKAGE / room).read_text(), flags=re.S)
        for _, name, *_ in ops.table():
            if name not in {"raw", "map", "const"}:  # words of other meanings, in Python and C
                assert f'"{name}"' not in code, f"{room} names {name}"


def test_table_and_specification_agree():
    text = (ROOT / "spec" / "FORMAT.md").read_text()
    listed = {
        (int(number, 16), name) for number, name in re.findall(r"^\*\*([0-9a-f]{2}) `(\w+)`", text, re.M)
    }
    assert listed == {(number, name) for number, name, *_ in ops.table()}


def test_runtime_does_not_import_numpy():
    for path in rooms():
        if path.suffix == ".py" and room_of(path) not in {"adapters", "numpy", "torch", "fsspec"}:
            tree = ast.parse(path.read_text())
            for node in ast.walk(tree):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert "numpy" not in {n.split(".")[0] for n in names}, path


def test_rooms_stay_small():
    for path in rooms():
        lines = len(path.read_text().splitlines())
        assert lines <= 600, f"{path.name} has {lines} lines: time for a second room"


def test_repository_holds_no_large_files():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False).stdout
    files = [ROOT / name for name in listed.decode().split("\0") if name]
    sizes = {path: path.stat().st_size for path in files if path.is_file()}
    assert max(sizes.values(), default=0) <= 1 << 20
    assert sum(size for path, size in sizes.items() if "data" in path.parts) <= 2 << 20
