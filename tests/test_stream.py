"""Incremental objects: they do what those of `bz2` and `lzma` do, and give the bytes of `compress`."""

from __future__ import annotations

import bz2
import io
import lzma
import pickle
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from brevis import errors, file
from brevis.codec import Encoder
from brevis.stream import Compressor, Decompressor

TEXT = b"".join(b"line %d of a text\n" % i for i in range(1500))


def archive_of(content: bytes, chunk_size: int = 4096) -> bytes:
    encoder = Encoder(chunk_size=chunk_size, threads=1)
    return b"".join([*encoder.write(content), *encoder.finish()])


ARCHIVE = archive_of(TEXT)


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[i : i + size] for i in range(0, len(data), size))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("size", [1, 100, 10_000, 1 << 20])
def test_content_in_pieces_gives_the_archive_of_the_whole(size: int, threads: int) -> None:
    content = random.Random(1).randbytes(5 << 20) if size == 1 << 20 else TEXT[: 300 if size == 1 else None]
    compressor = Compressor(threads=threads)
    archive = b"".join(map(compressor.compress, pieces(content, size))) + compressor.flush()
    assert archive == file.compress(content)


def test_level_and_wrong_use() -> None:
    for level in (1, 9):
        compressor = Compressor(level)
        assert compressor.compress(TEXT) + compressor.flush() == file.compress(TEXT, level=level)
    for call in (compressor.flush, lambda: compressor.compress(b"x")):
        with pytest.raises(ValueError):
            call()
    for level in (0, 10):
        with pytest.raises(ValueError):
            Compressor(level)
    for odd in (6.0, "6", None):
        with pytest.raises(TypeError):
            Compressor(odd)  # type: ignore[arg-type]
    for made in (Compressor(), Decompressor()):
        with pytest.raises(TypeError):
            pickle.dumps(made)
    with pytest.raises(TypeError):
        Compressor().compress("text")  # type: ignore[arg-type]
    with pytest.raises(BufferError):
        Compressor().compress(memoryview(b"abcdef")[::2])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [1, 7, 1000, 10**6])
@pytest.mark.parametrize("limit", [-1, 1, 1000, 4096, 10**6])
def test_archives_in_pieces_give_the_content(size: int, limit: int, threads: int) -> None:
    content = TEXT if min(size, limit % 10**7) > 1 else TEXT[:5000]
    archive = archive_of(content)
    decompressor = Decompressor(threads=threads)
    source, got = pieces(archive + b"behind", size), b""
    while not decompressor.eof:
        piece = decompressor.decompress(next(source) if decompressor.needs_input else b"", limit)
        assert limit < 0 or len(piece) <= limit
        got += piece
    assert got == content
    assert (decompressor.unused_data + b"".join(source)).endswith(b"behind"[-size:])
    assert not decompressor.needs_input
    with pytest.raises(EOFError):
        decompressor.decompress(b"")


@pytest.mark.parametrize("limit", [-1, 0, 10, 100_000])
def test_states_are_those_of_bz2_and_lzma(limit: int) -> None:
    """The same calls give the same content and states, where the content comes in a single block."""
    content = TEXT[:3000]
    states = []
    for archive, decompressor in (
        (file.compress(content), Decompressor()),
        (bz2.compress(content), bz2.BZ2Decompressor()),
        *([(lzma.compress(content), lzma.LZMADecompressor())] if limit else []),  # which fails at 0
    ):
        seen: list[Any] = []
        state: Callable[[], Any] = lambda d=decompressor: (d.eof, d.needs_input, d.unused_data)  # noqa: E731
        seen.append(state())
        seen.append((decompressor.decompress(archive[:20], limit), state()))
        seen.append((decompressor.decompress(archive[20:] + b"more", limit), state()))
        for _ in range(3):
            if not decompressor.eof:
                seen.append((decompressor.decompress(b"", limit), state()))
        states.append(seen)
    assert states[0] in states[1:]


def test_members_one_by_one() -> None:
    rest, contents = file.compress(b"one") + file.compress(b"") + file.compress(b"three"), []
    while rest:
        decompressor = Decompressor()
        contents.append(decompressor.decompress(rest))
        assert decompressor.eof
        rest = decompressor.unused_data
    assert contents == [b"one", b"", b"three"]


def drain(archive: bytes, size: int, limit: int = -1) -> tuple[bytes, Exception | None]:
    decompressor, source, got = Decompressor(threads=1), pieces(archive, size), b""
    try:
        while not decompressor.eof:
            data = next(source, None) if decompressor.needs_input else b""
            if data is None:
                return got, EOFError()
            got += decompressor.decompress(data, limit)
    except errors.Error as error:
        with pytest.raises(type(error)):
            decompressor.decompress(b"")
        return got, error
    return got, None


def test_a_cut_archive_gives_its_whole_chunks_and_no_end() -> None:
    for cut in range(0, len(ARCHIVE), 9):
        got, error = drain(ARCHIVE[:cut], 500)
        assert isinstance(error, EOFError)
        read = io.BytesIO()
        reader = file.open(io.BytesIO(ARCHIVE[:cut]), threads=1)
        with pytest.raises(EOFError):
            while piece := reader.read(100):
                read.write(piece)
        assert got == read.getvalue()


@pytest.mark.parametrize("limit", [-1, 100])
def test_a_fault_comes_after_what_was_verified_and_is_that_of_a_file(limit: int) -> None:
    for byte in range(0, len(ARCHIVE), 11):
        broken = bytearray(ARCHIVE)
        broken[byte] ^= 0x10
        got, error = drain(bytes(broken), 777, limit)
        assert TEXT.startswith(got)
        try:
            assert file.decompress(broken) == TEXT
        except errors.Error as expected:
            # A longer record may not have come to its end.
            assert isinstance(error, (type(expected), EOFError))
        else:
            assert error is None


def test_buffers_may_change_after_the_call() -> None:
    decompressor, got = Decompressor(), b""
    buffer = bytearray(1000)
    compressor, archive = Compressor(), b""
    for piece in pieces(TEXT, 1000):
        buffer[: len(piece)] = piece
        archive += compressor.compress(memoryview(buffer)[: len(piece)])
    archive += compressor.flush()
    for piece in pieces(archive, 1000):
        buffer[: len(piece)] = piece
        got += decompressor.decompress(memoryview(buffer)[: len(piece)])
        buffer[:] = bytes(1000)
    assert got == TEXT


def test_threads_may_share_one() -> None:
    compressor, parts = Compressor(), []
    threads = [
        threading.Thread(target=lambda: parts.append(compressor.compress(bytes(100_000)))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.decompress(b"".join(parts) + compressor.flush()) == bytes(1_600_000)
