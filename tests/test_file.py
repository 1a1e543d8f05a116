"""Archives as Python objects: they behave as the standard library's files, and no fault goes unseen."""

from __future__ import annotations

import array
import contextlib
import io
import os
import pickle
import random
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brevis import codec, errors, file, reader
from brevis.codec import Encoder
from brevis.file import BrevisFile

CHUNK_SIZE = 4096  # the smallest, so that small archives have several chunks

TEXT = b"".join(b"line %d of some %s text\n" % (i, b"long " * (i % 40)) for i in range(300))


def archive_of(*contents: bytes) -> bytes:
    """Make an archive of small chunks, with a member for each content."""
    parts: list[Any] = []
    for content in contents:
        encoder = Encoder(chunk_size=CHUNK_SIZE, threads=1)
        parts += [*encoder.write(content), *encoder.finish()]
    return b"".join(parts)


def contents_before(archive: bytes, cut: int) -> int:
    """Tell how much content the chunks have whose records end before `cut`."""
    members = reader.Source(io.BytesIO(archive)).members()
    places = [(m.begin, place) for m in members for place in m.chunks]
    return max((b + p.begin + p.content_length for b, p in places if p.offset + p.size <= cut), default=0)


class Pipe(io.RawIOBase):
    """An object that only reads on, and gives less than it's asked for."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._data.readinto(memoryview(buffer)[:1000])


class Full(io.RawIOBase):
    """An object with room for some bytes only, which takes few at a time."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        taken = bytes(data)[: min(7, self.room - len(self.data))]
        if not taken:
            raise OSError(28, "No space left on device")
        self.data += taken
        return len(taken)


# Reading


def by_read(f: BrevisFile) -> bytes:
    return f.read(700)


def by_read1(f: BrevisFile) -> bytes:
    return f.read1(700)


def by_readinto(f: BrevisFile) -> bytes:
    buffer = bytearray(900)
    return bytes(buffer[: f.readinto(buffer)])


def by_readinto1(f: BrevisFile) -> bytes:
    buffer = bytearray(900)
    return bytes(buffer[: f.readinto1(buffer)])


def by_peek(f: BrevisFile) -> bytes:
    return f.read(len(f.peek()))


def by_readline(f: BrevisFile) -> bytes:
    return f.readline()


def by_next(f: BrevisFile) -> bytes:
    return next(f, b"")


METHODS = [by_read, by_read1, by_readinto, by_readinto1, by_peek, by_readline, by_next]


def drain(f: BrevisFile, method: Callable[[BrevisFile], bytes]) -> tuple[bytes, Exception | None]:
    """Read until there's no more, or a fault."""
    got = b""
    try:
        while piece := method(f):
            got += piece
    except Exception as error:
        return got, error
    return got, None


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("source", [io.BytesIO, Pipe])
def test_cut_at_every_byte_gives_whole_chunks_then_eof_error(method: Any, source: Any) -> None:
    content = TEXT[:9000]
    archive = archive_of(content)
    assert drain(BrevisFile(source(archive)), method) == (content, None)
    # All cuts near records' borders, and some between.
    for cut in {*range(0, len(archive), 7), *range(120), *range(len(archive) - 150, len(archive))}:
        f = BrevisFile(source(archive[:cut]), threads=1)
        got, error = drain(f, method)
        assert got == content[: contents_before(archive, cut)]
        assert isinstance(error, EOFError)
        assert isinstance(error, errors.TruncatedError)
        with pytest.raises(EOFError):
            method(f)


def test_cut_at_every_byte_is_seen_by_one_read() -> None:
    content = TEXT[:9000]
    archive = archive_of(content)
    for cut in range(len(archive)):
        f = BrevisFile(io.BytesIO(archive[:cut]), threads=1)
        for method in (f.read, f.readlines):
            with pytest.raises(EOFError):
                method()
            assert f.tell() == 0
        # What was verified isn't lost.
        assert drain(f, by_read)[0] == content[: contents_before(archive, cut)]
        with pytest.raises(EOFError):
            file.decompress(archive[:cut])


def test_every_flipped_bit_is_an_error_or_changes_nothing() -> None:
    content = TEXT[:6000]
    archive = bytearray(archive_of(content))

    def in_order() -> bytes:
        return BrevisFile(io.BytesIO(archive), threads=1).read()

    def by_index() -> bytes:
        f = BrevisFile(io.BytesIO(archive), threads=1)
        f.seek(1)
        return content[:1] + f.read()

    for bit in range(8 * len(archive)):
        archive[bit // 8] ^= 1 << bit % 8
        try:
            assert file.decompress(archive) == content
        except errors.Error as error:
            assert error.offset is not None
            with pytest.raises(type(error)):
                in_order()
        with contextlib.suppress(errors.Error):
            assert by_index() == content
        archive[bit // 8] ^= 1 << bit % 8


def test_empty_source_is_truncated_but_empty_content_is_empty() -> None:
    for source in (io.BytesIO, Pipe):
        with pytest.raises(EOFError):
            BrevisFile(source(b"")).read()
        with pytest.raises(EOFError):
            BrevisFile(source(b"")).read(1)
        f = BrevisFile(source(file.compress(b"")))
        assert (f.read(), f.read(5), f.readline(), f.peek(), f.tell()) == (b"", b"", b"", b"", 0)
    f = BrevisFile(io.BytesIO(file.compress(b"")))
    assert f.seek(0, os.SEEK_END) == 0


def test_trailing_garbage_is_an_error_that_names_the_offset() -> None:
    archive = archive_of(TEXT)
    f = BrevisFile(io.BytesIO(archive + b"garbage"))
    with pytest.raises(errors.MalformedError, match=str(len(archive))) as caught:
        f.read()
    assert caught.value.offset == len(archive)
    assert f.read(len(TEXT)) == TEXT
    with pytest.raises(errors.MalformedError):
        f.read(1)


def test_members_are_joined() -> None:
    archive = archive_of(b"one", b"", TEXT, b"three")
    assert file.decompress(archive) == b"one" + TEXT + b"three"
    f = BrevisFile(io.BytesIO(archive))
    assert f.seek(-5, os.SEEK_END) == 3 + len(TEXT)
    assert f.read() == b"three"
    f.seek(1)
    assert f.read(5) == b"ne" + TEXT[:3]


def into(f: Any, buffer: Any) -> Any:
    return f.readinto(buffer), bytes(buffer)


CALLS: list[Callable[[Any, int | None, int], Any]] = [
    lambda f, size, place: f.read(size),
    lambda f, size, place: f.readline(size),
    lambda f, size, place: f.readline(),
    lambda f, size, place: f.readlines(size or 1),
    lambda f, size, place: into(f, bytearray(max(size or 0, 0))),
    lambda f, size, place: into(f, array.array("I", bytes(40))),
    lambda f, size, place: next(f, None),
    lambda f, size, place: f.seek(place),
    lambda f, size, place: f.seek(max(place - 200, -f.tell()), os.SEEK_CUR),
    lambda f, size, place: f.seek(-place, os.SEEK_END),
    lambda f, size, place: f.seek(place // 100, os.SEEK_END),
    lambda f, size, place: f.tell(),
]


@pytest.mark.parametrize("seed", range(6))
def test_reads_and_seeks_as_the_standard_library_does(seed: int) -> None:
    rng = random.Random(seed)
    content = TEXT * 3 if seed % 2 else bytes(rng.choices(b"ab\n", k=30_000))
    ours = BrevisFile(io.BytesIO(archive_of(content[:10_000], content[10_000:])), threads=seed % 3)
    theirs = io.BufferedReader(io.BytesIO(content))
    sizes = [0, 1, 2, 17, 100, CHUNK_SIZE - 1, CHUNK_SIZE, 3 * CHUNK_SIZE, len(content) + 9, -1, None]
    for _ in range(400):
        call, size, place = rng.choice(CALLS), rng.choice(sizes), rng.randrange(len(content))
        assert call(ours, size, place) == call(theirs, size, place)
        assert ours.tell() == theirs.tell()
        peeked, first = ours.peek(3), ours.read1(10)
        assert peeked.startswith(first)
        assert theirs.read(len(first)) == first
        assert first or ours.tell() >= len(content)


def test_a_pipe_reads_on_but_does_not_seek() -> None:
    f = BrevisFile(Pipe(archive_of(TEXT)))
    assert f.readable() and not f.writable() and not f.seekable()
    assert f.readline() == TEXT[: TEXT.index(b"\n") + 1]
    with pytest.raises(io.UnsupportedOperation):
        f.seek(0)
    assert f.tell() == TEXT.index(b"\n") + 1
    assert f.read() == TEXT[f.tell() - len(TEXT) :] or f.tell() == len(TEXT)


def test_seek_decodes_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    content = TEXT * 10
    f = BrevisFile(io.BytesIO(archive_of(content)), threads=4)
    decoded = []
    real = codec.decode_chunk

    def note(block: Any, out: Any = None) -> memoryview:
        decoded.append(block)
        return real(block, out)

    monkeypatch.setattr(codec, "decode_chunk", note)
    for place in (len(content) - 7, 50_000, 123, 77_777):
        decoded.clear()
        f.seek(place)
        assert f.read(3) == content[place : place + 3]
        assert len(decoded) <= 2  # two where the bytes straddle chunks
    decoded.clear()
    assert f.seek(0, os.SEEK_END) == len(content)
    assert f.read(1) == b""
    assert not decoded


def test_negative_seek_is_a_value_error() -> None:
    f = BrevisFile(io.BytesIO(archive_of(TEXT)))
    for arguments in ((-1,), (-1, os.SEEK_CUR), (-len(TEXT) - 1, os.SEEK_END), (0, 9)):
        with pytest.raises(ValueError):
            f.seek(*arguments)
    assert f.tell() == 0
    assert f.read(4) == TEXT[:4]


def test_a_source_that_started_at_an_offset_seeks_from_there() -> None:
    source = io.BytesIO(b"something else" + archive_of(TEXT))
    source.seek(14)
    f = BrevisFile(source)
    assert f.read() == TEXT
    f.seek(0)
    assert f.read(9) == TEXT[:9]
    f.seek(9000)
    assert f.read() == TEXT[9000:]


def test_seeking_in_a_broken_archive_finds_the_same_fault() -> None:
    archive = archive_of(TEXT)[:-100]
    f = BrevisFile(io.BytesIO(archive))
    for place in (8000, 10, 6000, 0):
        f.seek(place)
        assert f.read(100) == TEXT[place : place + 100]
    with pytest.raises(EOFError):
        f.seek(0, os.SEEK_END)
    f.seek(10**9)
    with pytest.raises(EOFError):
        f.read(1)
    f.seek(20)
    assert f.read(5) == TEXT[20:25]


def test_a_source_that_moves_in_between_does_no_harm() -> None:
    source = io.BytesIO(archive_of(TEXT * 5))
    f, g = BrevisFile(source), BrevisFile(source)
    got: list[bytes] = [b"", b""]
    for _ in range(200):
        for i, one in enumerate((f, g)):
            got[i] += one.read(1111 + i)
        source.seek(3)
    assert got == [(TEXT * 5)[: 200 * 1111], (TEXT * 5)[: 200 * 1112]]


def test_text_mode_reads_lines() -> None:
    text = "grüße\r\nund\nmehr"
    archive = file.compress(text.encode("utf-16"))
    with file.open(io.BytesIO(archive), "rt", encoding="utf-16", newline="") as f:
        assert f.readlines() == ["grüße\r\n", "und\n", "mehr"]
    with file.open(io.BytesIO(archive), "rt", encoding="utf-16") as f:
        assert f.read() == text.replace("\r\n", "\n")
        f.seek(0)
        assert f.readline() == "grüße\n"
    ascii_only = file.open(io.BytesIO(archive), "rt", encoding="ascii", errors="strict")
    with ascii_only as f, pytest.raises(UnicodeDecodeError):
        f.read()


# Writing


def test_written_content_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "a.brv"
    with file.open(path, "wb") as f:
        assert f.writable() and not f.readable() and not f.seekable()
        assert f.write(TEXT) == len(TEXT)
        assert f.write(array.array("I", range(5))) == 20
        assert f.write(memoryview(b"abcdef")[1:3]) == 2
        assert f.write(b"") == 0
        assert f.tell() == len(TEXT) + 22
        f.writelines([b"x", b"y"])
        assert os.listdir(tmp_path) != ["a.brv"]  # not before it's complete
    assert os.listdir(tmp_path) == ["a.brv"]
    with file.open(path) as f:
        assert f.read() == TEXT + array.array("I", range(5)).tobytes() + b"bcxy"
    assert f.closed
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~current_mask()


def current_mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_write_takes_no_strided_buffer_and_no_text() -> None:
    with file.open(io.BytesIO(), "wb") as f:
        with pytest.raises(BufferError):
            f.write(memoryview(b"abcdef")[::2])
        with pytest.raises(TypeError):
            f.write("text")  # type: ignore[arg-type]
        assert f.tell() == 0


def test_what_was_written_may_change_afterwards() -> None:
    target = io.BytesIO()
    buffer = bytearray(1 << 20)
    content = b""
    with file.open(target, "wb", threads=2) as f:
        for i in range(12):
            buffer[:] = bytes([i]) * len(buffer)
            content += buffer
            f.write(buffer)
    assert file.decompress(target.getvalue()) == content


def test_flush_ends_a_chunk_so_that_the_prefix_decodes() -> None:
    target = io.BytesIO()
    with file.open(target, "wb") as f:
        for i in range(4):
            f.write(b"part %d" % i)
            f.flush()
            f.flush()
            got, error = drain(BrevisFile(io.BytesIO(target.getvalue())), by_read)
            assert got == b"".join(b"part %d" % j for j in range(i + 1))
            assert isinstance(error, EOFError)


def test_wrong_direction_is_unsupported() -> None:
    source = BrevisFile(io.BytesIO(file.compress(b"x")))
    target = BrevisFile(io.BytesIO(), "wb")
    calls: list[Callable[[], Any]] = [
        target.read,
        target.read1,
        target.peek,
        target.readline,
        target.readlines,
        target.__next__,
        lambda: target.readinto(bytearray(3)),
        lambda: target.readinto1(bytearray(3)),
        lambda: target.seek(0),
        lambda: source.write(b""),
        lambda: source.writelines([b""]),
        source.truncate,
    ]
    for call in calls:
        with pytest.raises(io.UnsupportedOperation):
            call()
    target.close()


@pytest.mark.parametrize("mode", ["rb", "wb"])
def test_a_closed_file_is_a_value_error(mode: str) -> None:
    f = BrevisFile(io.BytesIO(file.compress(b"x")), mode)
    f.close()
    f.close()
    assert f.closed
    calls: list[Callable[[], Any]] = [
        f.read,
        f.readline,
        f.tell,
        f.readable,
        f.writable,
        f.seekable,
        f.fileno,
        f.flush,
        f.__enter__,
        lambda: f.write(b""),
        lambda: f.seek(0),
    ]
    for call in calls:
        with pytest.raises(ValueError):
            call()


def test_close_leaves_an_object_open() -> None:
    target = io.BytesIO()
    with file.open(target, "wb") as f:
        f.write(TEXT)
    source = io.BytesIO(target.getvalue())
    with file.open(source) as f:
        assert f.read() == TEXT
    assert not target.closed and not source.closed


def test_append_adds_a_member(tmp_path: Path) -> None:
    path = tmp_path / "a.brv"
    for part in (b"one", b"two"):
        with file.open(path, "ab") as f:
            f.write(part)
    target = io.BytesIO()
    for part in (b"one", b"two"):
        with file.open(target, "ab") as f:
            f.write(part)
    assert path.read_bytes() == target.getvalue()
    assert file.decompress(target.getvalue()) == b"onetwo"
    assert reader.survey(io.BytesIO(target.getvalue())).members == 2


def test_a_broken_append_leaves_the_old_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.brv"
    path.write_bytes(old := archive_of(TEXT))
    with pytest.raises(ZeroDivisionError), file.open(path, "ab") as f:
        f.write(TEXT)
        f.flush()
        assert path.stat().st_size > len(old)
        raise ZeroDivisionError
    assert path.read_bytes() == old
    path.write_bytes(old[:-1])
    with pytest.raises(errors.Error):
        file.open(path, "ab")
    assert path.read_bytes() == old[:-1]


def write(f: Any, text: str) -> None:
    f.write(text if isinstance(f, io.TextIOBase) else text.encode())


@pytest.mark.parametrize("mode", ["wb", "xb", "ab", "wt", "xt", "at"])
def test_an_exception_leaves_nothing_new(tmp_path: Path, mode: str) -> None:
    with pytest.raises(ZeroDivisionError), file.open(tmp_path / "a.brv", mode) as f:
        write(f, "x" * 100)
        raise ZeroDivisionError
    assert f.closed
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("mode", ["wb", "wt"])
def test_an_exception_keeps_the_old_file_and_an_object_gets_no_footer(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "a.brv"
    path.write_bytes(b"old")
    target = io.BytesIO()
    for place in (path, target):
        with pytest.raises(ZeroDivisionError), file.open(place, mode) as f:
            write(f, "x" * 100)
            f.flush()
            raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.brv"]
    with pytest.raises(EOFError):
        file.decompress(target.getvalue())


def test_exclusive_mode_refuses_an_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "a.brv"
    path.write_bytes(b"old")
    with pytest.raises(FileExistsError):
        file.open(path, "xb")
    path.unlink()
    f = file.open(path, "xb")
    path.write_bytes(b"came in the meantime")
    with pytest.raises(FileExistsError):
        f.close()
    assert path.read_bytes() == b"came in the meantime"
    assert os.listdir(tmp_path) == ["a.brv"]


def test_a_replaced_file_keeps_its_mode_and_a_link_is_followed(tmp_path: Path) -> None:
    path, link = tmp_path / "a.brv", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    with file.open(link, "wb") as f:
        f.write(TEXT)
    assert link.is_symlink()
    assert file.decompress(path.read_bytes()) == TEXT
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_device_is_written_as_it_is() -> None:
    with file.open("/dev/null", "wb") as f:
        f.write(TEXT)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(OSError, match="No space left"), file.open("/dev/full", "wb") as f:
        f.write(TEXT)
    assert f.closed


def test_a_full_object_ends_the_archive() -> None:
    content = random.Random(1).randbytes(10_000)
    f = file.open(Full(20_000), "wb")
    f.write(content)
    f.close()
    target = Full(5000)
    f = file.open(target, "wb")
    f.write(content)
    with pytest.raises(OSError, match="No space left"):
        f.flush()
    target.room = 10**6
    with pytest.raises(OSError):
        f.close()  # it can't be complete any more
    with pytest.raises(EOFError):
        file.decompress(target.data)


def test_names_and_modes(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.brv"
    with file.open(path, "w") as f:
        f.write(b"x")
        assert (f.name, f.mode) == (path, "wb")
    with file.open(path) as f:
        assert f.fileno() >= 0
        assert f.read() == b"x"
    assert file.open(io.BytesIO()).name == ""
    for mode in ("", "rw", "r+", "U", "rbt", "tb", "rr", "bb"):
        with pytest.raises(ValueError):
            file.open(path, mode)
    with pytest.raises(ValueError):
        file.open(path, "rb", encoding="utf-8")
    for odd in (3, None, object()):
        with pytest.raises(TypeError):
            file.open(odd)
    for level in (0, 10):
        with pytest.raises(ValueError):
            file.open(tmp_path / "new", "wb", level=level)
    with pytest.raises(FileNotFoundError):
        file.open(tmp_path / "nowhere" / "new", "wb")
    with pytest.raises(IsADirectoryError):
        file.open(tmp_path, "wb")
    assert len(os.listdir(tmp_path)) == 1


def test_readers_by_path_can_be_pickled_and_others_not(tmp_path: Path) -> None:
    path = tmp_path / "a.brv"
    path.write_bytes(archive_of(TEXT))
    with file.open(path) as f:
        f.seek(5000)
        with pickle.loads(pickle.dumps(f)) as g:
            assert g.read() == f.read() == TEXT[5000:]
    for other in (file.open(io.BytesIO()), file.open(tmp_path / "b", "wb"), f):
        with pytest.raises(TypeError):
            pickle.dumps(other)
        other.close()


def test_threads_end_with_the_file() -> None:
    archive = archive_of(TEXT * 20)
    for _ in range(3):
        with BrevisFile(io.BytesIO(archive), threads=4) as f:
            f.read(10_000)
    f = BrevisFile(io.BytesIO(archive), threads=4)
    f.read(10_000)
    del f
    assert not [t for t in threading.enumerate() if t.name.startswith("brevis")]


# In memory


def test_compress_takes_any_buffer() -> None:
    for data in (b"abc", bytearray(b"abc"), memoryview(b"abc"), array.array("B", b"abc")):
        assert file.decompress(file.compress(data)) == b"abc"
    assert file.compress(b"abc" * 9999, threads=1) == file.compress(b"abc" * 9999, threads=3)
    with pytest.raises(BufferError):
        file.compress(memoryview(b"abcdef")[::2])
    with pytest.raises(TypeError):
        file.compress("text")
    for arguments in ({"level": 0}, {"level": 10}, {"dtype": "F33"}, {"threads": -1}):
        with pytest.raises(ValueError):
            file.compress(b"x", **arguments)


def tensor_of(archive: bytes) -> tuple[str, tuple[int, ...]] | None:
    tensors = reader.survey(io.BytesIO(archive)).tensors
    return (tensors[0].dtype, tensors[0].shape) if tensors else None


def test_a_typed_buffer_is_a_tensor() -> None:
    floats = memoryview(array.array("f", range(24)))
    assert tensor_of(file.compress(floats)) == ("F32", (24,))
    assert tensor_of(file.compress(floats.cast("B").cast("f", (4, 6)))) == ("F32", (4, 6))
    assert tensor_of(file.compress(array.array("q", [1]))) == ("I64", (1,))
    assert tensor_of(file.compress(b"bytes")) is None
    assert tensor_of(file.compress(floats.cast("B"))) is None
    assert tensor_of(file.compress(floats.cast("B"), dtype="BF16")) == ("BF16", (48,))
    assert tensor_of(file.compress(floats.cast("B"), dtype="F4")) == ("F4", (192,))
    assert tensor_of(file.compress(floats.cast("B").cast("f", (4, 6)), dtype="BF16")) == ("BF16", (4, 12))
    with pytest.raises(ValueError):
        file.compress(b"abc", dtype="F16")
    for data in (floats, floats.cast("B").cast("f", (4, 6)), array.array("d")):
        assert file.decompress(file.compress(data)) == data.tobytes()


def test_numpy_arrays_are_tensors() -> None:
    np = pytest.importorskip("numpy")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    shapes: list[tuple[Any, Any]] = [
        (np.zeros((3, 5), "f2"), ("F16", (3, 5))),
        (np.zeros((3, 5), "c8"), ("C64", (3, 5))),
        (np.zeros((3, 5), "u1"), ("U8", (3, 5))),
        (np.zeros(3, "?"), ("BOOL", (3,))),
        (np.ones((3, 5), ml_dtypes.bfloat16), ("BF16", (3, 5))),
        (np.ones((3, 5), ml_dtypes.float8_e5m2), ("F8_E5M2", (3, 5))),
        (np.zeros(3, "u1"), None),
        (np.zeros(3, ">f4"), None),
        (np.zeros(3, "S3"), None),
        (np.float64(1.5).reshape(()), None),
        (np.zeros((2, 0), "f4"), ("F32", (2, 0))),
    ]
    for data, tensor in shapes:
        archive = file.compress(data)
        assert file.decompress(archive) == data.tobytes()
        assert tensor_of(archive) == tensor
    assert tensor_of(file.compress(np.zeros((3, 5), "u2"), dtype="BF16")) == ("BF16", (3, 5))
    for strided in (np.zeros((3, 5)).T, np.zeros(6, ml_dtypes.bfloat16)[::2]):
        with pytest.raises(BufferError):
            file.compress(strided)


def test_decompress_into_a_buffer() -> None:
    archive = archive_of(TEXT)
    exact = bytearray(len(TEXT))
    assert file.decompress(archive, out=exact) == len(TEXT)
    assert exact == TEXT
    larger = array.array("I", bytes(len(TEXT) // 4 * 4 + 400))
    assert file.decompress(archive, out=larger) == len(TEXT)
    assert larger.tobytes()[: len(TEXT)] == TEXT
    with pytest.raises(ValueError):
        file.decompress(archive, out=bytearray(len(TEXT) - 1))
    with pytest.raises(TypeError):
        file.decompress(archive, out=bytes(len(TEXT)))


def test_decompress_within_a_limit() -> None:
    archive = archive_of(TEXT)
    assert file.decompress(archive, max_output_size=len(TEXT)) == TEXT
    for limit in (0, 1, CHUNK_SIZE, len(TEXT) - 1):
        with pytest.raises(errors.LimitError) as caught:
            file.decompress(archive, max_output_size=limit)
        assert caught.value.offset is not None
    assert file.decompress(file.compress(b""), max_output_size=0) == b""


def test_a_survey_is_the_same_from_a_pipe() -> None:
    archive = (
        file.compress(array.array("f", range(1000))) + archive_of(TEXT) + file.compress(array.array("d", [1]))
    )
    listing = reader.survey(io.BytesIO(archive))
    assert listing == reader.survey(Pipe(archive))
    assert (listing.members, listing.compressed) == (3, len(archive))
    assert listing.uncompressed == 4000 + len(TEXT) + 8
    assert [(t.dtype, t.shape, t.begin) for t in listing.tensors] == [
        ("F32", (1000,), 0),
        ("F64", (1,), 4000 + len(TEXT)),
    ]
    for cut in range(0, len(archive), 50):
        if cut not in {sum(m.size for m in reader.Source(io.BytesIO(archive)).members()[:i]) for i in (1, 2)}:
            for source in (io.BytesIO, Pipe):
                with pytest.raises(errors.TruncatedError):
                    reader.survey(source(archive[:cut]))
