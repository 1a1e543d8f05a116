"""What stands beside the specification: its worked example, the entry for file(1), the folder's README."""

import importlib.util
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

SPEC = Path(__file__).resolve().parent.parent / "spec"
sys.path.insert(0, str(SPEC))  # make_example has a second file


def load(name):
    spec = importlib.util.spec_from_file_location(f"spec_{name}", SPEC / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


reference, example = load("reference"), load("make_example")
TEXT = (SPEC / "FORMAT.md").read_text(encoding="utf-8")


# Section 9


def printed_bytes():
    """The archive as a reader would type it from the page; offsets have to be right."""
    section = TEXT.split("\n## 9. Example\n")[1]
    data = b""
    for line in section.split("```")[1].splitlines():
        if match := re.match(r" *(\d+)  ((?:[0-9A-F]{2} ?)+)(?: |$)", line):
            assert int(match[1]) == len(data), line
            data += bytes.fromhex(match[2])
    return data


def test_example_is_what_its_program_makes():
    assert example.with_section(TEXT) == TEXT, "run `python spec/make_example.py`"


def test_example_decodes():
    data = printed_bytes()
    assert 200 <= len(data) <= 300
    assert f"An archive of {len(data)} bytes" in TEXT
    entries, verdict = reference.layouts(data)
    weights = [struct.unpack("<f", bytes(2) + verdict.content[i : i + 2])[0] for i in range(0, 16, 2)]
    assert verdict == reference.Verdict(verdict.content)
    assert weights == [0.5, 0.75, -0.625, 1.25, 0.8125, -0.5, 0.5, 0.9375]
    assert ", ".join(map(str, weights)) in TEXT
    assert struct.unpack("<3f", verdict.content[16:]) == (1, 1, 1)
    assert entries == [
        reference.Entry(0, 0, 16, "w", "BF16", [2, 4]),
        reference.Entry(0, 16, 12, "b", "F32", [3]),
    ]


def test_every_byte_of_the_example_matters():
    data = printed_bytes()
    for i in range(len(data)):
        changed = data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :]
        assert reference.decode(changed).fault is not None


@pytest.mark.parametrize("change", [("see below", "see above"), ("0C 00 00 00", "0D 00 00 00")])
def test_a_section_that_differs_is_noticed(change, monkeypatch, tmp_path, capsys):
    old, new = change
    path = tmp_path / "FORMAT.md"
    path.write_text(TEXT.replace(old, new), encoding="utf-8")
    monkeypatch.setattr(example, "FORMAT", path)
    monkeypatch.setattr(sys, "argv", ["make_example.py", "--check"])
    assert example.main() == 1 and "differs" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["make_example.py"])
    assert example.main() == 0
    assert path.read_text(encoding="utf-8") == TEXT


# file(1)


@pytest.mark.skipif(shutil.which("file") is None, reason="file(1) is not installed")
def test_magic_entry(tmp_path):
    def told(data, *options):
        path = tmp_path / "some.data"
        path.write_bytes(data)
        command = ["file", "-m", SPEC / "brevis.magic", "--brief", *options, path]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()

    data = printed_bytes()
    assert told(data) == "brevis archive, version 1, chunks up to 2^12 bytes"
    assert told(data, "--mime-type") == "application/x-brevis"
    later = (SPEC / "vectors" / "unsupported" / "h5-must-understand-bit-63.brv").read_bytes()
    assert told(later).endswith(", needs features 0x8000000000000000")
    for other in (data[:7], data[1:], data.replace(b"\r\n", b"\n"), b"\x89PNG" + data[4:]):
        assert "brevis" not in told(other) + told(other, "--mime-type")


def test_media_type_is_that_of_the_format():
    kinds = re.findall(r"^!:mime\t(\S+)$", (SPEC / "brevis.magic").read_text(encoding="utf-8"), re.M)
    assert len(kinds) == 1 and f"Media type:\n`{kinds[0]}`" in TEXT


# README.md


def test_readme_names_what_is_there():
    text = (SPEC / "README.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([^)]+)\)", text))
    assert all((SPEC / path).exists() for path in linked)
    there = {path.name for path in SPEC.iterdir() if not path.name.startswith(("__", "."))}
    assert there - {"README.md"} == {path.split("/")[0] for path in linked}


def test_commands_of_the_readme():
    text = (SPEC / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^python (spec/conform\.py .*) -- \./mine$", text, re.M)
    assert len(commands) == 3
    for command in commands:
        line = [sys.executable, *command.split(), "--every", "200", "--level", "decode,errors"]
        line += ["--", sys.executable, SPEC / "reference.py"]
        done = subprocess.run(line, cwd=SPEC.parent, capture_output=True, text=True, check=False, timeout=120)
        wanted = 1 if "--must-tell" in command else 0  # the reference tells in words, not in JSON
        assert done.returncode == wanted, done.stdout + done.stderr
