"""The command's folders, limits and messages; and that its manual and completions know every option."""

from __future__ import annotations

import array
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

# Fixtures and helpers of the command's own tests.
from test_cli import (  # noqa: F401
    COMMAND,
    ENVIRONMENT,
    NOISE,
    TEXT,
    brevis,
    in_folder,
    make,
    on_terminal,
    small_chunks,
)

from brevis import errors, file
from brevis.codec import decode_blocks
from brevis.options import parser

ROOT = Path(__file__).parent.parent


def names() -> list[str]:
    """Every file below, by its path."""
    return sorted(str(p) for p in Path().rglob("*") if not p.is_dir())


# Folders


def checkpoint() -> dict[str, bytes]:
    os.makedirs("model/nested/empty")
    contents = {
        "model/model-00001-of-00002.safetensors": NOISE,
        "model/model-00002-of-00002.safetensors": TEXT,
        "model/model.safetensors.index.json": b'{"weight_map": {}}',
        "model/config.json": b"{}",
        "model/nested/vocabulary": TEXT,
    }
    for name, content in contents.items():
        make(name, content)
    return contents


def test_a_folder_is_compressed_in_place_and_its_index_kept() -> None:
    contents = checkpoint()
    assert vars(brevis("-r", "model")) == {"status": 0, "out": b"", "err": ""}
    index = "model/model.safetensors.index.json"
    archives = [f"{name}.brv" for name in contents if name != index]
    assert names() == sorted([*contents, *archives])
    assert vars(brevis("-r", "-t", "model")) == {"status": 0, "out": b"", "err": ""}
    assert brevis("-rlq", "model").out.count(b"\n") == 5  # four archives and their sum
    assert vars(brevis("-r", "--rm", "-f", "model")) == {"status": 0, "out": b"", "err": ""}
    assert names() == sorted([index, *archives])
    assert vars(brevis("-rd", "--rm", "model/")) == {"status": 0, "out": b"", "err": ""}
    assert {name: Path(name).read_bytes() for name in names()} == contents
    assert os.path.isdir("model/nested/empty")


def test_a_folder_beside_files_and_with_faults() -> None:
    make("a")
    os.makedirs("folder/sub")
    make("folder/bad.brv", b"bad")
    make("folder/good.brv", file.compress(TEXT))
    make("folder/sub/good.brv", file.compress(TEXT))
    os.symlink("../a", "folder/link")
    os.symlink("..", "folder/loop")
    done = brevis("-rd", "folder")
    assert done.status == 1
    assert [line.split(": ")[1] for line in done.err.splitlines()] == ["folder/bad.brv"]
    assert Path("folder/sub/good").read_bytes() == TEXT
    os.remove("folder/bad.brv")
    done = brevis("-r", "folder", "a")
    assert (done.status, done.err.count("\n")) == (1, 3)  # two targets that exist, and a link
    assert "symbolic link" in done.err
    assert os.path.exists("a.brv")
    assert "left as it is" in brevis("-rv", "folder").err
    assert brevis("folder").status == 2
    assert brevis("-rc", "folder/sub").out == file.compress(TEXT)


def test_a_linked_folder_takes_force() -> None:
    os.mkdir("folder")
    make("folder/a")
    os.symlink("folder", "link")
    assert brevis("-r", "link").status == 2
    assert brevis("-rf", "link").status == 0
    assert names() == ["folder/a", "folder/a.brv"]


# Memory


def test_a_memory_limit_refuses_or_slows_down() -> None:
    make("a.brv", file.compress(NOISE * 9))
    for limit in ("40M", "40MiB", "40mb", "0.04G", "41943040", "0"):
        assert brevis("-dc", "-M", limit, "a.brv").out == NOISE * 9
    for limit in ("100K", "5M", "1"):
        done = brevis("-t", f"--memory={limit}", "a.brv")
        assert done.status == 1
        assert "limit" in done.err and "byte" in done.err
    assert brevis("-M", "5M", "-c", "-1", "a.brv").status == 0  # of no meaning in compression


@pytest.mark.parametrize("threads", [1, 4])
def test_a_memory_limit_yields_what_fits_first(threads: int) -> None:
    archive = small_chunks(TEXT) + file.compress(NOISE * 3)
    with open("a", "wb") as f:
        f.write(archive)
    with open("a", "rb") as f:
        got = b""
        with pytest.raises(errors.LimitError) as caught:
            for piece in decode_blocks(f.read, threads=threads, memory=3 << 20):
                got += piece
    assert got == TEXT
    assert caught.value.offset is not None and caught.value.offset > len(small_chunks(TEXT))


# Messages


def test_a_source_that_is_no_archive_is_recognised() -> None:
    header = json.dumps({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
    sources = {
        b"": "empty",
        struct.pack("<Q", len(header)) + header + b"abcd": "safetensors",
        b"\x1f\x8b\x08" + bytes(40): "gzip",
        b"\x28\xb5\x2f\xfd" + bytes(40): "zstd",
        b"PK\x03\x04" + bytes(40): "zip",
        b"just some text": "not the start of an archive",
    }
    for content, what in sources.items():
        make("a.brv", content)
        for done in (brevis("-d", "a.brv"), brevis("-t", given=content), brevis("-l", "a.brv")):
            assert done.status == 1
            assert what in done.err


def test_levels_by_name_and_beyond() -> None:
    make("a")
    assert brevis("-c", "--fast", "a").out == brevis("-c", "-1", "a").out
    assert brevis("-c", "--best", "a").out == brevis("-c", "-9", "a").out
    for level in ("-10", "-99"):
        assert f"there is no level {level}" in brevis(level, "a").err


def test_names_are_checked_before_the_work() -> None:
    make("a", NOISE * 20)
    long = "n" * 254
    os.rename("a", long)
    done = brevis("-9", long)
    assert (done.status, done.err.split(": ")[1:]) == (1, [long, f"{long}.brv", "File name too long\n"])
    done = brevis("-o", "nowhere/b", long)
    assert done.err == f"brevis: {long}: nowhere/b: No such file or directory\n"
    done = brevis("-o", "", long)
    assert done.err.startswith("brevis: -o takes a name")
    assert brevis("").err == "brevis: : No such file or directory\n"


def test_names_that_are_no_utf8_are_shown_as_they_are() -> None:
    make(b"\xff\xfea", b"")
    done = brevis("-v", b"\xff\xfea")
    assert done.err.startswith("\\xff\\xfea: ")
    (listing,) = json.loads(brevis("-l", "--json", b"\xff\xfea.brv").out)
    assert listing["file"] == "\\xff\\xfea.brv"


def test_tensors_of_a_cut_source_are_marked() -> None:
    header = json.dumps(
        {
            "a": {"dtype": "U8", "shape": [1000], "data_offsets": [0, 1000]},
            "b": {"dtype": "U8", "shape": [5000], "data_offsets": [1000, 6000]},
        }
    ).encode()
    make("a.brv", file.compress(struct.pack("<Q", len(header)) + header + NOISE[:3000]))
    lines = brevis("-lv", "a.brv").out.decode().splitlines()
    assert lines[2].endswith("U8 [1000]")
    assert lines[3].endswith("U8 [5000]  (not whole: the source was cut short)")
    (listing,) = json.loads(brevis("-l", "--json", "a.brv").out)
    assert [tensor.get("complete") for tensor in listing["tensors"]] == [None, False]


def test_json_of_nothing_and_of_several() -> None:
    assert json.loads(brevis("-l", "--json", "missing").out) == []
    make("a.brv", file.compress(array.array("f", range(4))))
    make("b.brv", file.compress(b""))
    shown = json.loads(brevis("-l", "--json", "a.brv", "missing", "b.brv").out)
    assert [(listing["file"], len(listing["tensors"])) for listing in shown] == [("a.brv", 1), ("b.brv", 0)]


# Pipes and terminals


def test_head_ends_it_quietly() -> None:
    make("a.brv", file.compress(NOISE * 8))
    done = subprocess.run(
        ["sh", "-c", '"$@" | head -c10', "sh", *COMMAND, "-dc", "a.brv"],
        env=ENVIRONMENT, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (NOISE[:10], b"")


def test_standard_input_that_is_a_terminal() -> None:
    for arguments in ([], ["-d"], ["-t"], ["-l"], ["--salvage"]):
        status, shown = on_terminal(*arguments)
        assert status == 1
        assert b"terminal" in shown
    # With -f, what is typed is compressed.
    ours, theirs = os.openpty()
    attributes = termios.tcgetattr(theirs)
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    with subprocess.Popen([*COMMAND, "-f"], stdin=theirs, stdout=subprocess.PIPE, env=ENVIRONMENT) as process:
        os.write(ours, b"typed\n\x04")
        assert process.stdout is not None
        assert file.decompress(process.stdout.read()) == b"typed\n"
    os.close(ours)
    os.close(theirs)


@pytest.mark.skipif(not shutil.which("tar"), reason="there is no tar")
def test_tar_compresses_with_it() -> None:
    os.makedirs("folder/sub")
    make("folder/a", TEXT)
    make("folder/sub/b", NOISE)
    script = Path("brevis")
    script.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    script.chmod(0o755)
    program = str(script.absolute())
    subprocess.run(["tar", "-I", program, "-cf", "a.tar.brv", "folder"], env=ENVIRONMENT, check=True)
    os.rename("folder", "old")
    subprocess.run(["tar", "-I", program, "-xf", "a.tar.brv"], env=ENVIRONMENT, check=True)
    assert (Path("folder/a").read_bytes(), Path("folder/sub/b").read_bytes()) == (TEXT, NOISE)
    shown = subprocess.run(
        ["tar", "-I", program, "-tf", "a.tar.brv"], env=ENVIRONMENT, check=True, stdout=subprocess.PIPE
    )
    assert b"folder/sub/b\n" in shown.stdout


# Manual and completions


OPTIONS = [(o.option_strings, o.nargs) for o in parser()._actions]
FLAGS = [flag for flags, _ in OPTIONS for flag in flags]


def test_the_manual_has_every_option() -> None:
    page = (ROOT / "docs" / "brevis.1").read_text()
    text = page.replace("\\-", "-")
    named = set(re.findall(r"(?<![\w-])--?[a-zA-Z0-9][\w-]*", "\n".join(
        line for line in text.splitlines() if line.startswith((".B", ".BR"))
    )))  # fmt: skip
    assert set(FLAGS) <= named
    assert {flag for flag in named if flag.startswith("--")} <= set(FLAGS)


@pytest.mark.skipif(not shutil.which("groff"), reason="there is no groff")
def test_the_manual_is_sound() -> None:
    page = ROOT / "docs" / "brevis.1"
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", page], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_completions_have_every_option() -> None:
    folder = ROOT / "completions"
    bash = set((folder / "brevis.bash").read_text().replace('"', " ").split())
    assert set(FLAGS) <= bash
    zsh = set(re.findall(r"--?[\w-]+", (folder / "_brevis").read_text()))
    assert set(FLAGS) <= zsh
    fish = set()
    for line in (folder / "brevis.fish").read_text().splitlines():
        fish |= {f"-{letter}" for letter in re.findall(r" -s (\S)", line)}
        fish |= {f"--{word}" for word in re.findall(r" -l (\S+)", line)}
    assert fish == set(FLAGS)


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("bash"), reason="there is no bash of today")
def test_bash_completes() -> None:
    make("file.brv")
    script = f"""source {ROOT / "completions" / "brevis.bash"}
    try() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _brevis; echo "${{COMPREPLY[*]}}"; }}
    try brevis --sal; try brevis -T ''; try brevis fi; try brevis -o fi"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["--salvage", "", "file.brv", "file.brv"]
