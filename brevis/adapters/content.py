"""The content of an archive by position, and the safetensors files in it; decodes only what is asked for.

It may assume that reader finds chunks, and that codec checks what it decodes. It does not know of arrays, nor
what anybody wants with a tensor's bytes.
"""

from __future__ import annotations

import os
from collections import OrderedDict, deque
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from brevis.adapters import header
from brevis.codec import decode_blocks, decode_each
from brevis.errors import Error, LimitError, MalformedError
from brevis.frame import MAGIC, Entry
from brevis.reader import Index, Source
from brevis.sources.safetensors import MAX_HEADER_LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from brevis.frame import Block, Member

_OPENINGS = (b"{", b" ", b"\n", b"\t", b"\r")  # of a header

KEPT_CHUNKS = 4  # decoded ones in memory: neighbours are often asked for one after the other


class Checkpoint(NamedTuple):
    """What the headers of all members tell; tensors lie in the content of the whole archive."""

    tensors: dict[str, Entry]
    metadata: dict[str, str] | None


class Content:
    """An archive opened for reading at any place of its content; several threads may do so at a time."""

    def __init__(self, file: Any, threads: int = 0) -> None:
        """Open the archive at a path, at a URL that fsspec knows, or in a file object that can seek."""
        self._threads = threads
        self._lock = Lock()
        self._kept: OrderedDict[int, memoryview] = OrderedDict()
        self._opened: Any = None
        if isinstance(file, (str, bytes, os.PathLike)):
            file = self._opened = _open(file)
        try:
            self._source = Source(file)
            if not self._source.seekable:
                raise OSError("tensors can't be found in a stream: read it whole, and load that")
            self._members = self._find_members()
            self._index = Index(self._members)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close what was opened; the memory of decoded chunks is given back."""
        self._kept.clear()
        if self._opened is not None:
            self._opened.close()

    def _find_members(self) -> list[Member]:
        _refuse_uncompressed(self._source)
        try:
            return self._source.members()
        except Error:
            deque(decode_blocks(self._source.in_order()), maxlen=0)  # an earlier fault decides what's wrong
            raise

    # Bytes

    @property
    def length(self) -> int:
        """The bytes of the whole content."""
        return self._index.length

    def in_order(self, into: Callable[[int], bytearray | memoryview]) -> Iterator[memoryview]:
        """Yield the whole content in pieces, with every check of the archive."""
        return decode_blocks(self._source.in_order(), into=into, threads=self._threads)

    def read(self, begin: int, end: int) -> bytearray:
        """Return the bytes [begin, end) of the content."""
        data = bytearray(end - begin)
        self.read_into(begin, memoryview(data))
        return data

    def read_into(self, begin: int, out: memoryview) -> None:
        """Fill `out`, bytes that can be written, with the content from `begin` on.

        Chunks that lie within are decoded in place.
        """
        position, end = begin, begin + len(out)
        if end > self.length:
            raise ValueError(f"the content has {self.length} bytes, not {end}")
        while position < end:
            number, start = self._index.find(position)
            piece = self._recall(number)
            if piece is None:
                break
            position = _copy(piece, start, out, begin)
        if position < end:
            self._decode_into(number, start, begin, out)

    def _decode_into(self, number: int, start: int, begin: int, out: memoryview) -> None:
        """Decode the chunks from `number`, which begins at `start`, to the last that `out` has part in."""
        last, _ = self._index.find(begin + len(out) - 1)
        taken = start

        def take(size: int) -> bytearray | memoryview:
            nonlocal taken
            first, taken = taken, taken + size
            inside = begin <= first and taken <= begin + len(out)
            return out[first - begin : taken - begin] if inside else bytearray(size)

        blocks = self._blocks(number, last + 1 - number)
        for piece in decode_each(blocks, threads=self._threads, into=take):
            if start < begin or start + len(piece) > begin + len(out):
                _copy(piece, start, out, begin)
                self._keep(number, piece)
            start += len(piece)
            number += 1

    def _blocks(self, number: int, count: int) -> Iterator[Block]:
        """Fetch records one by one; the file has one position, so one thread at a time."""
        blocks = islice(self._index.blocks(self._source, number), count)
        while True:
            with self._lock:
                block = next(blocks, None)
            if block is None:
                return
            yield block

    def _recall(self, number: int) -> memoryview | None:
        with self._lock:
            piece = self._kept.get(number)
            if piece is not None:
                self._kept.move_to_end(number)
            return piece

    def _keep(self, number: int, piece: memoryview) -> None:
        with self._lock:
            self._kept[number] = piece
            while len(self._kept) > KEPT_CHUNKS:
                self._kept.popitem(last=False)

    # Headers

    def checkpoint(self) -> Checkpoint:
        """Read the headers; each safetensors file begins and ends where a member does."""
        tensors: dict[str, Entry] = {}
        metadata: dict[str, str] | None = None
        ends = {member.begin + member.content_length for member in self._members}
        end = 0
        for member in self._members:
            if member.begin < end or not member.content_length:
                continue  # in the midst of a file, or nothing
            found = self._header(member)
            end = found.end
            if end not in ends:
                _refuse(member, "it ends before its last tensor does, or after")
            if twice := tensors.keys() & found.tensors.keys():
                raise MalformedError(
                    f"two members have a tensor {min(twice)!r}: load each by itself", member.offset
                )
            tensors.update(found.tensors)
            if found.metadata is not None:
                metadata = {**(metadata or {}), **found.metadata}
        if not end:
            _refuse(self._members[0], "it is empty")
        return Checkpoint(tensors, metadata)

    def _header(self, member: Member) -> header.Header:
        """Read the header of a file that begins with a member."""
        base = member.begin + 8
        start = self.read(member.begin, min(base + 1, self.length))
        size = int.from_bytes(start[:8], "little")
        if len(start) < 9 or size > self.length - base:
            _refuse(member, "it is too short")
        if size > MAX_HEADER_LENGTH or start[8:] not in _OPENINGS:
            _refuse(member, "it has no header")
        try:
            return header.read(self.read(base, base + size), base + size)
        except LimitError as error:
            raise LimitError(f"the header has {error}", member.offset) from None
        except ValueError as error:
            _refuse(member, str(error))


def _copy(piece: memoryview, start: int, out: memoryview, begin: int) -> int:
    """Copy what `out`, at `begin`, and a piece at `start` have in common; return where that ends."""
    first, last = max(start, begin), min(start + len(piece), begin + len(out))
    out[first - begin : last - begin] = piece[first - start : last - start]
    return last


def _refuse(member: Member, reason: str) -> NoReturn:
    raise MalformedError(
        f"the content is no safetensors file ({reason}): decompress it, and look what it is", member.offset
    )


def _refuse_uncompressed(source: Source) -> None:
    """Tell a safetensors file from an archive: its ninth byte opens the header, whose length comes before."""
    start = bytes(source.read_at(0, 9))
    plausible = 2 <= int.from_bytes(start[:8], "little") <= MAX_HEADER_LENGTH
    if len(start) == 9 and plausible and start[8:] in _OPENINGS and start[:8] != MAGIC:
        raise MalformedError(
            "this is a safetensors file, not an archive: load it with safetensors, or compress it first", 0
        )


# Files


def _open(path: Any) -> Any:
    """Open a file for reads at any place."""
    name = os.fspath(path)
    if isinstance(name, str) and "://" in name and not os.path.exists(name):
        from brevis.adapters.fsspec import open_url

        return open_url(name)
    return _Positioned(path) if hasattr(os, "pread") else open(path, "rb", buffering=0)


class _Positioned:
    """A file whose position is its own: processes that were forked off share that of the descriptor."""

    _descriptor = -1

    def __init__(self, path: Any) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        self._position = 0

    def seekable(self) -> bool:
        try:
            os.lseek(self._descriptor, 0, os.SEEK_CUR)
        except OSError:
            return False
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        end = whence == os.SEEK_END
        self._position = offset + (os.lseek(self._descriptor, 0, os.SEEK_END) if end else 0)
        return self._position

    def read(self, size: int) -> bytes:
        data = os.pread(self._descriptor, size, self._position)
        self._position += len(data)
        return data

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    __del__ = close
