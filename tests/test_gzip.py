"""What `gzip` and `brevis` both promise of their files: every call gives the same, values and exceptions."""

from __future__ import annotations

import array
import gzip
import io
import os
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brevis import errors, file

TEXT = b"".join(b"line %d\n" % i for i in range(3000))

READS: dict[str, Callable[[Any], Any]] = {
    "read": lambda f: f.read(),
    "read none": lambda f: f.read(None),
    "read some": lambda f: (f.read(5), f.read(0), f.read(100), f.tell()),
    "read1": lambda f: (f.read1(5), f.read1(0), f.tell()),
    "readinto": lambda f: into(f.readinto, bytearray(50)),
    "readinto1": lambda f: into(f.readinto1, bytearray(50)),
    "readinto items": lambda f: into(f.readinto, array.array("I", bytes(40))),
    "readinto nothing": lambda f: into(f.readinto, bytearray()),
    "readinto text": lambda f: f.readinto("text"),
    "readinto bytes": lambda f: f.readinto(bytes(3)),
    "peek": lambda f: (f.peek(3)[:3], f.tell(), f.read(3)),
    "readline": lambda f: (f.readline(), f.readline(3), f.readline(0), f.readline(-1), f.tell()),
    "readlines": lambda f: f.readlines(),
    "readlines hint": lambda f: (f.readlines(20), f.tell()),
    "iteration": lambda f: list(f)[-2:],
    "seek": lambda f: (f.seek(700), f.read(9), f.seek(-5, 1), f.read(9), f.seek(3), f.read(3)),
    "seek far": lambda f: (f.seek(len(TEXT) - 3), f.read(9), f.read(9)),
    "seek back": lambda f: (f.read(5000), f.seek(0), f.read(5)),
    "flags": lambda f: (f.readable(), f.writable(), f.seekable(), f.closed, f.isatty()),
    "write": lambda f: f.write(b"x"),
    "writelines": lambda f: f.writelines([b"x"]),
    "truncate": lambda f: f.truncate(),
    "detach": lambda f: f.detach(),
    "fileno": lambda f: f.fileno() >= 0,
    "context": lambda f: f.__enter__() is f,
    "close twice": lambda f: (f.close(), f.close(), f.closed),
    "read closed": lambda f: (f.close(), f.read()),
    "tell closed": lambda f: (f.close(), f.tell()),
    "readline closed": lambda f: (f.close(), f.readline()),
    "iterate closed": lambda f: (f.close(), next(f)),
    "pickle object": lambda f: pickle.dumps(f),
}


def into(call: Callable[[Any], int], buffer: Any) -> tuple[int, bytes]:
    return call(buffer), bytes(buffer)


def outcome(call: Callable[[], Any]) -> Any:
    """Return what a call gives: a value or the exception's type, as general as the standard library's."""
    try:
        return call()
    except Exception as error:
        # UnsupportedOperation is the first, too.
        kinds = (OSError, EOFError, BufferError, TypeError, ValueError)
        return next(kind for kind in kinds if isinstance(error, kind))


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    ours, theirs = tmp_path / "a.brv", tmp_path / "a.gz"
    ours.write_bytes(file.compress(TEXT))
    theirs.write_bytes(gzip.compress(TEXT))
    return ours, theirs


@pytest.mark.parametrize("name", READS)
def test_a_reader_does_what_gzips_does(name: str, paths: tuple[Path, Path]) -> None:
    if name == "pickle object":
        paths[0].read_bytes()
        with open(paths[0], "rb") as ours, open(paths[1], "rb") as theirs:
            for f in (file.open(ours), gzip.GzipFile(fileobj=theirs)):
                assert outcome(lambda f=f: pickle.dumps(f)) is TypeError  # type: ignore[misc]
        return
    with file.open(paths[0]) as ours, gzip.open(paths[1]) as theirs:
        assert outcome(lambda: READS[name](ours)) == outcome(lambda: READS[name](theirs))


WRITES: dict[str, Callable[[Any], Any]] = {
    "write": lambda f: (f.write(b"abc"), f.tell()),
    "write items": lambda f: (f.write(array.array("I", range(5))), f.tell()),
    "write view": lambda f: f.write(memoryview(b"abcdef")[2:4]),
    "write strided": lambda f: f.write(memoryview(b"abcdef")[::2]),
    "write text": lambda f: f.write("text"),
    "write none": lambda f: f.write(None),
    "writelines": lambda f: (f.writelines([b"a", bytearray(b"b")]), f.tell()),
    "flush": lambda f: (f.write(b"abc"), f.flush(), f.write(b"def"), f.tell()),
    "flags": lambda f: (f.readable(), f.writable(), f.closed, f.isatty()),
    "read": lambda f: f.read(),
    "read1": lambda f: f.read1(),
    "peek": lambda f: f.peek(1),
    "readinto": lambda f: f.readinto(bytearray(3)),
    "fileno": lambda f: f.fileno() >= 0,
    "write closed": lambda f: (f.close(), f.write(b"x")),
    "flush closed": lambda f: (f.close(), f.flush()),
    "writable closed": lambda f: (f.close(), f.closed),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("mode", ["wb", "xb", "ab"])
def test_a_writer_does_what_gzips_does(name: str, mode: str, tmp_path: Path) -> None:
    with file.open(tmp_path / "a.brv", mode) as ours, gzip.open(tmp_path / "a.gz", mode) as theirs:
        assert outcome(lambda: WRITES[name](ours)) == outcome(lambda: WRITES[name](theirs))
    with file.open(tmp_path / "a.brv") as ours, gzip.open(tmp_path / "a.gz") as theirs:
        assert ours.read() == theirs.read()


OPENS: dict[str, tuple[Any, ...]] = {
    "missing": ("nowhere",),
    "no path": (3.5,),
    "nothing": (None,),
    "text and binary": ("a", "rbt"),
    "both directions": ("a", "rw"),
    "encoding of bytes": ("a", "rb", {"encoding": "utf-8"}),
    "errors of bytes": ("a", "rb", {"errors": "strict"}),
    "newline of bytes": ("a", "rb", {"newline": ""}),
    "exclusive": ("a", "xb"),
    "folder missing": ("nowhere/a", "wb"),
}


@pytest.mark.parametrize("name", OPENS)
def test_open_refuses_what_gzips_refuses(name: str, paths: tuple[Path, Path]) -> None:
    path, *rest = OPENS[name]
    options = rest.pop() if rest and isinstance(rest[-1], dict) else {}
    results = []
    for module, there in ((file, paths[0]), (gzip, paths[1])):
        place = there if path == "a" else there.parent / path if isinstance(path, str) else path
        results.append(outcome(lambda m=module, p=place: m.open(p, *rest, **options)))  # type: ignore[misc]
    assert results[0] == results[1] and isinstance(results[0], type)


@pytest.mark.parametrize("newline", [None, "", "\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "latin-1"])
def test_text_is_what_gzips_is(newline: str | None, encoding: str, tmp_path: Path) -> None:
    text = "grüße\r\nund\nmehr\rdavon\n"
    contents = []
    for module, path in ((file, tmp_path / "a.brv"), (gzip, tmp_path / "a.gz")):
        with module.open(path, "wt", encoding=encoding, newline=newline) as f:
            f.write(text)
        with module.open(path, "at", encoding=encoding, newline=newline) as f:
            f.write("more")
        with module.open(path, "rt", encoding=encoding, newline=newline) as f:
            lines = f.readlines()
            f.seek(0)
            place = [f.readline(), f.tell()][1]
            rest = f.read()
            f.seek(place)
            contents.append((lines, rest, f.read(), module.open(path).read()))
    assert contents[0] == contents[1]


def test_faults_are_of_gzips_classes() -> None:
    """A cut is an `EOFError` of both; where gzip says OSError or zlib.error, here it's a ValueError too."""
    ours, theirs = file.compress(TEXT), gzip.compress(TEXT)
    for cut in (2, 5, 40, len(theirs) // 2, len(theirs) - 1):
        with pytest.raises(EOFError):
            gzip.GzipFile(fileobj=io.BytesIO(theirs[:cut])).read()
        with pytest.raises(EOFError):
            file.open(io.BytesIO(ours[: min(cut, len(ours) - 1)])).read()
    with pytest.raises(OSError):
        gzip.GzipFile(fileobj=io.BytesIO(b"this is no archive, as anyone can see")).read()
    with pytest.raises(errors.MalformedError):
        file.open(io.BytesIO(b"this is no archive, as anyone can see")).read()


def test_members_are_joined_and_appended_as_gzips(tmp_path: Path) -> None:
    for module, suffix in ((file, "brv"), (gzip, "gz")):
        path = tmp_path / f"a.{suffix}"
        for part in (b"one ", b"", b"two"):
            with module.open(path, "ab") as f:
                f.write(part)
        with open(path, "ab") as f:
            f.write(module.compress(b" three"))
        assert module.open(path).read() == b"one two three"
        assert module.decompress(path.read_bytes()) == b"one two three"


def test_an_object_stays_open_and_its_name_is_taken(tmp_path: Path) -> None:
    for module in (file, gzip):
        with open(tmp_path / "a", "w+b") as f:
            with module.open(f, "wb") as writer:
                writer.write(TEXT)
            assert not f.closed
            f.seek(0)
            with module.open(f) as reader:
                assert (reader.name, reader.fileno()) == (f.name, f.fileno())
                assert reader.read() == TEXT
            assert not f.closed


def test_tar_files_as_with_gzip(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(TEXT)
    names, contents = [], []
    for module in (file, gzip):
        path = tmp_path / module.__name__
        with module.open(path, "wb") as f, tarfile.open(fileobj=f, mode="w") as tar:
            tar.add(tmp_path / "a", "a")
            tar.add(tmp_path / "a", "b/c")
        for mode in ("r:", "r|"):
            with module.open(path) as f, tarfile.open(fileobj=f, mode=mode) as tar:
                for item in tar:
                    names.append(item.name)
                    contents.append(tar.extractfile(item).read())  # type: ignore[union-attr]
    assert names == ["a", "b/c"] * 4
    assert contents == [TEXT] * 8


def test_descriptors_of_paths_are_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.brv"
    path.write_bytes(file.compress(TEXT))
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        with file.open(path) as f:
            f.read(1)
        with file.open(tmp_path / "b.brv", "wb") as f:
            f.write(b"x")
        with pytest.raises(ValueError):
            file.open(path, "rb", level=6, threads=-1)
    assert len(os.listdir("/dev/fd")) == before
