"""The command: exit status, messages and files, as gzip's users expect them, and never a traceback."""

from __future__ import annotations

import array
import contextlib
import fcntl
import io
import json
import os
import random
import resource
import select
import signal
import stat
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from brevis import file
from brevis.codec import Encoder
from brevis.reader import Source

TEXT = b"".join(b"line %d of a text\n" % i for i in range(2000))
NOISE = random.Random(7).randbytes(1 << 20)

COMMAND = [sys.executable, "-m", "brevis"]
PACKAGES = (
    str(Path(file.__file__).parents[1]) if not os.environ.get("PYTHONPATH") else os.environ["PYTHONPATH"]
)
ENVIRONMENT = {**os.environ, "PYTHONPATH": PACKAGES}


class Done:
    """What a run left: exit status, outputs."""

    def __init__(self, status: int, out: bytes, err: bytes) -> None:
        self.status, self.out, self.err = status, out, err.decode(errors="backslashreplace")
        assert "Traceback" not in self.err


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def brevis(*arguments: Any, given: bytes | None = None, **options: Any) -> Done:
    """Run the command in the current folder."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT, **options}
    if given is None:
        options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run([*COMMAND, *arguments], input=given, check=False, timeout=60, **options)
    return Done(done.returncode, done.stdout or b"", done.stderr or b"")


def make(name: str | bytes, content: bytes | bytearray = TEXT) -> Path:
    path = Path(os.fsdecode(name))
    path.write_bytes(content)
    return path


def files() -> dict[str, bytes]:
    return {name: Path(name).read_bytes() for name in sorted(os.listdir()) if Path(name).is_file()}


# The usual


def test_compresses_and_decompresses_files() -> None:
    make("a")
    make("b", b"")
    assert vars(brevis("a", "b")) == {"status": 0, "out": b"", "err": ""}
    assert file.decompress(Path("a.brv").read_bytes()) == TEXT
    assert file.decompress(Path("b.brv").read_bytes()) == b""
    assert Path("a").read_bytes() == TEXT  # kept
    os.remove("a")
    os.remove("b")
    assert vars(brevis("-d", "a.brv", "b.brv")) == {"status": 0, "out": b"", "err": ""}
    assert files().keys() == {"a", "a.brv", "b", "b.brv"}
    assert (Path("a").read_bytes(), Path("b").read_bytes()) == (TEXT, b"")


def test_standard_input_to_standard_output() -> None:
    archive = brevis(given=TEXT).out
    assert archive == brevis("-", "-T1", given=TEXT).out == brevis("-c", given=TEXT).out
    assert brevis("-d", given=archive).out == TEXT
    assert brevis("-dc", "-", given=archive).out == TEXT
    make("a")
    assert brevis("-c", "a").out == archive
    assert files().keys() == {"a"}


def test_concatenated_archives_give_concatenated_contents() -> None:
    make("a", TEXT)
    make("b", NOISE)
    both = brevis("-c", "a", "b").out
    assert both == brevis("-c", "a").out + brevis("-c", "b").out
    assert brevis("-dc", given=both).out == TEXT + NOISE


def test_options_stand_anywhere_and_together() -> None:
    make("a")
    done = brevis("a", "-kf9", "-T", "2", "-o", "x", "-v")
    assert (done.status, done.out) == (0, b"")
    assert done.err.startswith("a: ")
    assert brevis("x", "-dco", "-").out == TEXT
    assert brevis("-d", "x", "--output=y", "-z", "-d", "--threads=1", "--stdout", "-o", "-").out == TEXT
    assert files().keys() == {"a", "x"}


def test_levels_give_archives_of_the_same_content() -> None:
    for level in range(1, 10):
        assert brevis("-dc", given=brevis(f"-{level}", given=TEXT[:3000]).out).out == TEXT[:3000]


def test_help_and_version() -> None:
    assert brevis("-V").out.startswith(b"brevis ")
    assert b"--decompress" in brevis("--help").out
    modules = "import sys, brevis.cli; brevis.cli.main(['-V']); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", modules], stdout=subprocess.PIPE, env=ENVIRONMENT, check=True
    ).stdout
    for slow in (b" numpy", b" tqdm", b" concurrent", b" brevis.codec"):
        assert slow not in loaded


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bogus"],
        ["-x"],
        ["-T"],
        ["-T", "-1"],
        ["-T", "x"],
        ["-o"],
        ["-o", "x", "a", "b"],
        ["-c", "-o", "x"],
        ["-10"],
        ["-o", ""],
        ["-M"],
        ["-M", "much"],
        ["--json", "a"],
        ["--salvage", "-l", "a"],
        ["-r", "-o", "x", "."],
    ],
)
def test_a_wrong_command_line_is_an_error(arguments: list[str]) -> None:
    make("a")
    make("b")
    done = brevis(*arguments)
    assert (done.status, done.out) == (1, b"")
    assert done.err.startswith("brevis: ")
    assert files().keys() == {"a", "b"}


def test_rm_removes_the_source_when_the_target_is_there() -> None:
    make("a")
    assert brevis("--rm", "a").status == 0
    assert files().keys() == {"a.brv"}
    assert brevis("-d", "--rm", "a.brv").status == 0
    assert files() == {"a": TEXT}
    assert brevis("--rm", "-c", "a").status == 0
    assert brevis("--rm", "-o", "/dev/null", "a").status == 0
    assert brevis("--rm", "-k", "a").status == 0
    assert files().keys() == {"a", "a.brv"}
    assert brevis("--rm", "a").status == 1
    assert brevis("--rm", "-t", "a.brv").status == 0
    assert files().keys() == {"a", "a.brv"}


def test_verbose_tells_what_was_done() -> None:
    make("a")
    assert brevis("-v", "a").err.startswith(f"a: {len(TEXT)} -> ")
    assert brevis("-tv", "a.brv").err == "a.brv: ok\n"
    assert vars(brevis("-t", "a.brv")) == {"status": 0, "out": b"", "err": ""}


# Targets


def test_the_target_gets_mode_and_time_of_the_source() -> None:
    path = make("a")
    os.utime(path, ns=(10**18, 10**18 + 123_456_789))
    path.chmod(0o4640)
    brevis("a")
    for name in ("a.brv", "b"):
        status = os.stat(name) if name == "a.brv" else (brevis("-d", "-o", "b", "a.brv"), os.stat("b"))[1]
        assert stat.S_IMODE(status.st_mode) == 0o640
        assert status.st_mtime_ns == 10**18 + 123_456_789


def test_a_target_without_source_has_the_usual_mode() -> None:
    mask = os.umask(0o027)
    try:
        assert brevis("-o", "a", given=TEXT).status == 0
        assert stat.S_IMODE(os.stat("a").st_mode) == 0o640
        os.chmod("a", 0o604)
        assert brevis("-fo", "a", given=TEXT).status == 0
        assert stat.S_IMODE(os.stat("a").st_mode) == 0o604
    finally:
        os.umask(mask)


def test_an_existing_target_is_refused_without_force() -> None:
    make("a")
    make("a.brv", b"old")
    make("x", b"old")
    for arguments in (["a"], ["-o", "x", "a"]):
        done = brevis(*arguments)
        assert done.status == 1
        assert done.err.startswith("brevis: a: ") and "-f" in done.err
    assert files() == {"a": TEXT, "a.brv": b"old", "x": b"old"}
    assert brevis("-f", "a").status == 0
    make("a", b"old")
    assert brevis("-d", "a.brv").status == 1
    assert Path("a").read_bytes() == b"old"
    assert brevis("-df", "a.brv").status == 0
    assert Path("a").read_bytes() == TEXT


def test_a_missing_source_leaves_the_target_alone() -> None:
    make("missing", b"mine")
    done = brevis("-df", "missing.brv")
    assert done.status == 1
    assert done.err == "brevis: missing.brv: No such file or directory\n"
    assert brevis("-f", "nothing").status == 1
    assert files() == {"missing": b"mine"}


def test_decompress_finds_the_archive_by_the_name_of_its_content() -> None:
    make("a")
    brevis("--rm", "a")
    assert brevis("-d", "a").status == 0
    assert Path("a").read_bytes() == TEXT


def test_other_files_are_still_processed() -> None:
    make("a")
    make("z")
    os.mkdir("folder")
    done = brevis("a", "missing", "folder", "z")
    assert done.status == 1
    assert done.err.splitlines() == [
        "brevis: missing: No such file or directory",
        "brevis: folder: is a directory -- ignored; -r works on what is in it",
    ]
    assert files().keys() == {"a", "a.brv", "z", "z.brv"}


def test_folders_links_and_archives_are_skipped_with_a_warning() -> None:
    make("a")
    brevis("a")
    os.mkdir("folder")
    os.symlink("a", "link")
    os.mkfifo("pipe")
    for name in ("folder", "link", "a.brv", "pipe"):
        done = brevis(name)
        assert (done.status, done.err.count("\n")) == (2, 1)
        assert done.err.startswith(f"brevis: {name}: ")
        assert vars(brevis("-q", name)) == {"status": 2, "out": b"", "err": ""}
    assert files().keys() == {"a", "a.brv", "link"}
    assert brevis("-f", "link").status == 0
    assert file.decompress(Path("link.brv").read_bytes()) == TEXT
    assert file.decompress(brevis("-c", "link").out) == TEXT
    assert file.decompress(file.decompress(brevis("-c", "a.brv").out)) == TEXT
    assert brevis("-c", "folder").status == 2


def test_an_unknown_suffix_is_an_error_in_decompression() -> None:
    make("a", file.compress(TEXT))
    make(".brv", file.compress(TEXT))
    for name in ("a", ".brv"):
        done = brevis("-d", name)
        assert done.status == 1
        assert "unknown suffix" in done.err
    assert files().keys() == {"a", ".brv"}
    assert brevis("-dc", "a").out == TEXT
    assert brevis("-t", "a").status == brevis("-l", "a").status == brevis("-d", "-o", "x", "a").status == 0


@pytest.mark.parametrize("way", ["same", "dotted", "symbolic", "hard", "standard output"])
def test_source_and_target_must_differ(way: str) -> None:
    make("a")
    target = {"same": "a", "dotted": "./a"}.get(way, "b")
    if way == "symbolic":
        os.symlink("a", "b")
    elif way == "hard":
        os.link("a", "b")
    if way == "standard output":
        with open("a", "ab") as out:
            done = brevis("-c", "a", stdout=out)
    else:
        done = brevis("-f", "-o", target, "a")
    assert done.status == 1
    assert done.err == "brevis: a: source and target are the same file\n"
    assert Path("a").read_bytes() == TEXT


def test_a_target_with_the_usual_name_must_differ_too() -> None:
    make("a")
    os.link("a", "a.brv")
    assert brevis("-f", "a").status == 1
    assert files() == {"a": TEXT, "a.brv": TEXT}


def test_force_replaces_a_link_and_not_what_it_leads_to() -> None:
    make("a")
    make("other", b"other")
    os.symlink("other", "a.brv")
    assert brevis("a").status == 1
    assert brevis("-f", "a").status == 0
    assert Path("other").read_bytes() == b"other"
    assert not os.path.islink("a.brv")


def test_odd_names() -> None:
    for name in (b"-d", b"--", b"\xff\xfe", b"a\nb", "grüße".encode(), b" ", b"a" * 240):
        make(name)
        done = brevis("--", name)
        assert (done.status, done.err) == (0, "")
        os.remove(name)
        assert brevis("-d", "--", name + b".brv").status == 0
        assert Path(os.fsdecode(name)).read_bytes() == TEXT
        assert brevis("-l", "--", name + b".brv").status == 0
        (listing,) = json.loads(brevis("-l", "--json", "--", name + b".brv").out)
        assert listing["file"] == (name + b".brv").decode(errors="backslashreplace")
    done = brevis("--", "no\nwhere\x1b[31m")
    assert done.err == "brevis: no\\nwhere\\x1b[31m: No such file or directory\n"


def test_names_too_long_and_folders_without_permission_are_errors() -> None:
    make("a" * 254)
    done = brevis("a" * 254)
    assert done.status == 1
    assert "File name too long" in done.err
    assert len(files()) == 1


def test_pipes_and_devices_are_read_and_written_as_they_are() -> None:
    make("a")
    assert brevis("-o", "/dev/null", "a").status == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    done = brevis("-o", "/dev/full", "a")
    assert (done.status, done.err) == (1, "brevis: a: /dev/full: No space left on device\n")
    os.mkfifo("pipe")
    with subprocess.Popen(["sh", "-c", "cat a > pipe"]):
        assert file.decompress(brevis("-c", "pipe").out) == TEXT


# Terminals


def on_terminal(*arguments: str, given: bytes | None = None, seconds: float = 20) -> tuple[int, bytes]:
    """Run the command with all standard streams on a terminal; return what it shows."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    stdin = subprocess.PIPE if given is not None else theirs
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=stdin,
        stdout=theirs,
        stderr=theirs,
        env=ENVIRONMENT,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        if process.stdin:
            process.stdin.write(given or b"")
            process.stdin.close()
        shown = b""
        end = time.monotonic() + seconds
        while time.monotonic() < end and select.select([ours], [], [], seconds)[0]:
            try:
                shown += (piece := os.read(ours, 1 << 16))
            except OSError:
                break
            if not piece:
                break
        os.close(ours)
        return process.wait(seconds), shown


def test_archives_are_neither_written_to_terminals_nor_read_from_them() -> None:
    make("a")
    make("a.brv", file.compress(TEXT))
    for arguments in (["-c", "a"], [], ["-d"], ["-t"], ["-l"], ["-dc", "-"]):
        status, shown = on_terminal(*arguments)
        assert status == 1
        assert b"terminal" in shown
    status, shown = on_terminal("-cf", "a")
    assert status == 0
    assert shown.startswith(b"\x89BRV")
    status, shown = on_terminal("-dc", "a.brv")
    assert (status, shown.replace(b"\r\n", b"\n")) == (0, TEXT)


def test_a_bar_on_a_terminal_only() -> None:
    make("a", NOISE * 12)
    status, shown = on_terminal("--progress", "a")
    assert status == 0
    assert b"%|" in shown
    assert b"B/s" in shown
    assert on_terminal("-f", "--no-progress", "a") == (0, b"")
    assert vars(brevis("-f", "--progress", "a")) == {"status": 0, "out": b"", "err": ""}


# Faults


def small_chunks(content: bytes) -> bytes:
    encoder = Encoder(chunk_size=4096)
    return b"".join([*encoder.write(content), *encoder.finish()])


def test_a_cut_archive_gives_its_whole_chunks_and_an_error() -> None:
    archive = small_chunks(TEXT[:9000])
    (member,) = Source(io.BytesIO(archive)).members()
    ends = [place.offset + place.size for place in member.chunks]
    for cut in (0, 1, 31, 32, ends[0] - 1, ends[0], ends[1], ends[-1], len(archive) - 1):
        done = brevis("-dc", given=archive[:cut])
        assert done.status == 1
        assert done.out == TEXT[: min(9000, 4096 * sum(end <= cut for end in ends))]
        assert done.err.startswith("brevis: -: ") and ("byte" in done.err or not cut)


def test_a_broken_archive_leaves_no_target() -> None:
    archive = bytearray(small_chunks(TEXT))
    make("cut.brv", archive[:-1])
    archive[len(archive) // 2] ^= 1
    make("bad.brv", archive)
    make("trailing.brv", small_chunks(TEXT) + b"x")
    make("text.brv", TEXT)
    make("text", b"old")
    before = files()
    for arguments in (["-d"], ["-df"], ["-t"], ["-d", "--rm"]):
        done = brevis(*arguments, "cut.brv", "bad.brv", "trailing.brv", "text.brv")
        assert done.status == 1
        assert [line.split(":")[1] for line in done.err.splitlines()] == [
            " cut.brv", " bad.brv", " trailing.brv", " text.brv",
        ]  # fmt: skip
        assert files() == before
    assert f"byte {len(archive)}" in brevis("-t", "trailing.brv").err


def test_a_full_disk_leaves_nothing() -> None:
    make("a", NOISE)
    make("b.brv", file.compress(NOISE))
    make("b", b"old")
    before = files()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    for arguments in (["a"], ["-df", "b.brv"], ["--rm", "a"]):
        done = brevis(*arguments, preexec_fn=limit)
        assert done.status == 1
        assert "File too large" in done.err
        assert files() == before
    with open("/dev/full", "wb") as full:
        for arguments in (
            ["-c", "a"],
            ["-dc", "b.brv"],
            ["-l", "b.brv"],
            ["-l", "--json", "b.brv"],
            ["-h"],
            ["-V"],
        ):
            done = brevis(*arguments, stdout=full)
            assert done.status == 1
            assert done.err.endswith("No space left on device\n")
        assert brevis("-v", "a", stderr=full).status == 0
        assert brevis("missing", stderr=full).status == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("threads", ["-T1", "-T2"])
def test_a_signal_leaves_nothing(number: int, threads: str) -> None:
    make("a", NOISE * 64)
    with subprocess.Popen(
        [*COMMAND, "-9", threads, "--rm", "a"], stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        wait_for(lambda: has_target(process.pid))
        process.send_signal(number)
        assert process.wait(30) == -number
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert os.listdir() == ["a"]


def test_a_signal_in_decompression_keeps_the_old_target() -> None:
    make("a", b"old")
    archive = file.compress(NOISE * 5)
    with subprocess.Popen([*COMMAND, "-df", "-o", "a"], stdin=subprocess.PIPE, env=ENVIRONMENT) as process:
        assert process.stdin is not None
        process.stdin.write(archive[:-100])
        process.stdin.flush()
        wait_for(lambda: has_target(process.pid))
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == -signal.SIGTERM
        process.stdin.close()
    assert files() == {"a": b"old"}


def has_target(pid: int) -> bool:
    """Tell whether a process has begun a target in this folder: one without a name, or with another."""
    targets = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            targets.append(os.readlink(f"/proc/{pid}/fd/{number}"))
    here = os.getcwd()
    return any(t.startswith(here) and (t.endswith(" (deleted)") or ".brevis-" in t) for t in targets)


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.fixture
def closed_pipe() -> Iterator[int]:
    ours, theirs = os.pipe()
    os.close(ours)
    yield theirs
    os.close(theirs)


@pytest.mark.parametrize(
    "arguments", [["-c", "a"], ["-dc", "b.brv"], ["-l", "b.brv"], ["-l", "--json", "b.brv"], ["-h"]]
)
def test_a_broken_pipe_is_quiet(arguments: list[str], closed_pipe: int) -> None:
    make("a", NOISE)
    make("b.brv", file.compress(NOISE))
    done = brevis(*arguments, stdout=closed_pipe)
    assert (done.status, done.err) == (1, "")


@pytest.mark.parametrize("stream", ["<&-", ">&-", "2>&-"])
def test_closed_standard_streams(stream: str) -> None:
    make("a")
    script = f'"$@" {stream}'
    for arguments, status in (
        (["-f", "a"], 0),
        (["-c", "a"], int(stream == ">&-")),
        (["-"], int(stream != "2>&-")),
    ):
        done = subprocess.run(
            ["sh", "-c", script, "sh", *COMMAND, *arguments],
            input=TEXT,
            capture_output=True,
            env=ENVIRONMENT,
            check=False,
        )
        assert done.returncode == status
        assert b"Traceback" not in done.stderr
    assert file.decompress(Path("a.brv").read_bytes()) == TEXT
    assert Path("a").read_bytes() == TEXT


# Lists


def test_lists_sizes() -> None:
    sizes = []
    for name, content in (("a", TEXT), ("b", b"")):
        make(name, content)
        brevis(name)
        sizes.append(Path(f"{name}.brv").stat().st_size)
    lines = [line.split() for line in brevis("-l", "a.brv", "b.brv").out.decode().splitlines()]
    percent = f"{100 * sizes[0] / len(TEXT):.2f}%"
    assert lines[0] == ["compressed", "uncompressed", "ratio", "name"]
    assert lines[1] == [str(sizes[0]), str(len(TEXT)), percent, "a.brv"]
    assert lines[2] == [str(sizes[1]), "0", "-", "b.brv"]
    assert lines[3][:2] == [str(sum(sizes)), str(len(TEXT))]
    assert brevis("-l", given=Path("a.brv").read_bytes()).out.split()[4:6] == [
        b"%d" % sizes[0],
        b"%d" % len(TEXT),
    ]


def test_lists_tensors_without_decoding() -> None:
    archive = bytearray(file.compress(array.array("f", NOISE[:4000]), dtype="BF16"))
    place = Source(io.BytesIO(archive)).members()[0].chunks[0]
    archive[place.offset + place.size // 2] ^= 1  # in a chunk, which is not looked at
    make("a.brv", archive + file.compress(array.array("d", [1])))
    shown = brevis("-lv", "a.brv").out.decode()
    assert "BF16 [2000]" in shown and "F64 [1]" in shown
    (listing,) = json.loads(brevis("-l", "--json", "a.brv").out)
    assert (listing["file"], listing["uncompressed"], listing["members"], listing["chunks"]) == (
        "a.brv",
        4008,
        2,
        2,
    )
    assert listing["tensors"] == [
        {"name": "", "dtype": "BF16", "shape": [2000], "offset": 0, "bytes": 4000},
        {"name": "", "dtype": "F64", "shape": [1], "offset": 4000, "bytes": 8},
    ]


def test_a_broken_archive_in_a_list() -> None:
    make("a.brv", file.compress(TEXT))
    make("bad.brv", file.compress(TEXT)[:-1])
    done = brevis("-l", "--json", "bad.brv", "a.brv")
    assert done.status == 1
    assert [listing["file"] for listing in json.loads(done.out)] == ["a.brv"]
    assert done.err.startswith("brevis: bad.brv: ")
