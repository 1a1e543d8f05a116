"""Reading an archive's content, in order or at any place, and telling what it holds.

It may assume that frame and codec check all they read. It does not know how the content is asked for, nor
what it is.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import sys
from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from brevis import codec
from brevis.errors import Error, MalformedError
from brevis.frame import CHUNK, LAYOUT, Block, Entry, Member, MemberEnd, Place, read_block, read_members

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

Piece: TypeAlias = "bytes | bytearray | memoryview"

_NOTHING = memoryview(b"")


class PositionedFile(io.RawIOBase):
    """A regular file that is read by position: it shares none with other threads or forked processes."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()
        super().close()

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position, from the file's start or end."""
        self._position = offset + (os.fstat(self.fileno()).st_size if whence == os.SEEK_END else 0)
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Read at most `size` bytes from the position on."""
        data = os.pread(self.fileno(), size, self._position)
        self._position += len(data)
        return data


def open_source(path: Any) -> io.RawIOBase | io.BufferedReader:
    """Open an archive by its path."""
    file = io.FileIO(path)
    try:
        regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except BaseException:
        file.close()
        raise
    return PositionedFile(file) if regular and hasattr(os, "pread") else io.BufferedReader(file)


class Source:
    """An archive in a file object, beginning where that stands; offsets count from there."""

    def __init__(self, file: Any) -> None:
        """Take any object that has `read`; one that can `seek` as well gives access by the index."""
        self._file = file
        seekable = getattr(file, "seekable", None)
        self.seekable: bool = seekable is not None and bool(seekable())
        self._origin: int = file.tell() if self.seekable else 0

    def read(self, size: int) -> Piece:
        """Read the next bytes, at most `size` of them; none at the end."""
        data: Piece | None = self._file.read(size)
        if data is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return data

    def read_at(self, offset: int, size: int) -> Piece:
        """Read `size` bytes from `offset` on, fewer where the file ends."""
        self._file.seek(self._origin + offset)
        data = self.read(size)
        while len(data) < size and (more := self.read(size - len(data))):
            data = bytes(data) + more
        return data

    def size(self) -> int:
        """Return the size of the archive, to the end of its file."""
        end: int = self._file.seek(0, os.SEEK_END)
        return end - self._origin

    def in_order(self) -> Callable[[int], Piece]:
        """Return a function that reads on from the archive's first byte, whatever else is read in between."""
        if not self.seekable:
            return self.read
        offset = 0

        def read(size: int) -> Piece:
            nonlocal offset
            self._file.seek(self._origin + offset)
            data = self.read(size)
            offset += len(data)
            return data

        return read

    def members(self) -> list[Member]:
        """Read what footers and indexes tell; where they're broken, reading in order gives the verdict."""
        return read_members(self.read_at, self.size())

    def block(self, place: Place, chunk_log2: int) -> Block:
        """Fetch the record that an index speaks of."""
        block = read_block(self.read_at(place.offset, place.size), place.offset, chunk_log2)
        tag = CHUNK if place.content_length else LAYOUT
        if block.tag != tag or (tag == CHUNK and block.content_length != place.content_length):
            raise MalformedError(
                "the index does not agree with the record here: its writer is at fault", place.offset
            )
        return block


class Index:
    """Where the chunks of a whole archive are, by their place in its content."""

    def __init__(self, members: list[Member]) -> None:
        self._places = [(place, member.chunk_log2) for member in members for place in member.chunks]
        self._begins = [member.begin + place.begin for member in members for place in member.chunks]
        self.length = sum(member.content_length for member in members)
        self._begins.append(self.length)

    def find(self, position: int) -> tuple[int, int]:
        """Tell which chunk holds the byte at `position`, and where in the content it begins."""
        number = bisect_right(self._begins, position) - 1
        return number, self._begins[number]

    def blocks(self, source: Source, number: int) -> Generator[Block, None, None]:
        """Fetch chunk records one by one, from the given one to the last."""
        return (source.block(place, chunk_log2) for place, chunk_log2 in self._places[number:])


class Reader:
    """The content of an archive, in pieces from any position on.

    From its beginning an archive is read in order, which checks everything. Elsewhere the index leads to the
    chunk; where the index is of no use, reading in order gets there too, or finds the fault.
    """

    def __init__(self, source: Source, threads: int) -> None:
        self.position = 0
        self._source = source
        self._threads = threads
        self._view = _NOTHING
        self._begin = self._end = 0  # of the view, in the content
        self._fault: Exception | None = None
        self._busy = False
        self._pieces = self._from_start()
        self._index: Index | None = None
        self._index_wanted = source.seekable

    def piece(self) -> memoryview:
        """Return what's at hand from the position on: at least a byte, unless the content ends there."""
        if not self._begin <= self.position <= self._end:
            self._relocate()
        while self.position >= self._end:
            if not self._advance():
                return _NOTHING
        return self._view[self.position - self._begin :]

    def at_hand(self, size: int) -> memoryview | None:
        """Return the next `size` bytes if they're at hand; most reads are small and need no more."""
        begin = self.position - self._begin
        if begin < 0 or begin + size > len(self._view):
            return None
        return self._view[begin : begin + size]

    def length(self) -> int:
        """Return the length of the whole content."""
        index = self._find_index()
        if index is not None:
            return index.length
        here, self.position = self.position, sys.maxsize
        try:
            self.piece()
            return self._end
        finally:
            self.position = here

    def put_back(self, position: int, pieces: list[memoryview]) -> None:
        """Take back what was read from a position on, to be read again."""
        end = position + sum(map(len, pieces))
        self._view = memoryview(b"".join([*pieces, self._view[end - self._begin :]]))
        self.position = self._begin = position
        self._end = position + len(self._view)

    def forked(self) -> None:
        """Note that this is a copy in another process, where nobody works for it."""
        self._pieces = self._from_start()  # the generator must not be touched: it may be running over there
        self._busy = False
        self._lose(None)

    def close(self) -> None:
        """Stop the work under way."""
        self._pieces.close()
        self._view = _NOTHING

    def _lose(self, cause: BaseException | None) -> None:
        """Give up the work under way; the next read begins anew, where the source can seek."""
        self._fault = InterruptedError(errno.EINTR, "reading was interrupted, and can't begin anew")
        if isinstance(cause, Exception) and not self._source.seekable:
            self._fault = cause
        self._view = _NOTHING
        self._begin = self._end = self.position

    def _advance(self) -> bool:
        if isinstance(self._fault, InterruptedError) and self._source.seekable:
            self._begin_again(self._end)
        if self._fault is not None:
            raise self._fault.with_traceback(None)
        if self._busy:
            raise RuntimeError("reentrant call: a signal handler reads what it has interrupted")
        self._busy = True
        try:
            view = next(self._pieces, None)
            if view is None:
                return False
            self._view = view
            self._begin, self._end = self._end, self._end + len(view)
        except Error as fault:
            self._fault = fault  # the generator is over now, and its silence must not pass for the end
            raise
        except BaseException as cause:
            self._lose(cause)
            raise
        finally:
            self._busy = False
        return True

    def _relocate(self) -> None:
        index = self._find_index() if self.position else None
        if index is None:
            if self.position < self._begin:
                self._restart(0, self._from_start())
        elif index.find(self.position)[1] != self._end or self._fault is not None:
            self._begin_again(self.position)  # otherwise that chunk is the next one anyway

    def _begin_again(self, position: int) -> None:
        """Begin where `position` can be had soonest."""
        index = self._find_index() if position else None
        if index is None:
            self._restart(0, self._from_start())
        else:
            number, begin = index.find(position)
            self._restart(begin, self._from_index(index, number))

    def _restart(self, begin: int, pieces: Generator[memoryview, None, None]) -> None:
        self._lose(None)  # as long as this may be interrupted
        self._pieces.close()
        self._begin = self._end = begin
        self._pieces = pieces
        self._fault = None

    def _from_start(self) -> Generator[memoryview, None, None]:
        yield from codec.decode_blocks(self._source.in_order(), threads=self._threads)

    def _from_index(self, index: Index, number: int) -> Generator[memoryview, None, None]:
        blocks = index.blocks(self._source, number)
        for block in islice(blocks, 1):
            yield codec.decode_chunk(block)  # alone, because it may be all that's wanted
        yield from codec.decode_each(blocks, threads=self._threads)

    def _find_index(self) -> Index | None:
        if self._index_wanted:
            with contextlib.suppress(Error):
                self._index = Index(self._source.members())
            self._index_wanted = False
        return self._index


# What an archive holds


class Listing(NamedTuple):
    """What can be told of an archive without decoding its chunks; tensors lie in the whole content."""

    compressed: int
    uncompressed: int
    members: int
    chunks: int
    tensors: list[Entry]


def survey(file: Any) -> Listing:
    """List what an archive in a file object holds: by its indexes, or in order, where it can't seek."""
    source = Source(file)
    if source.seekable:
        # Of a broken archive, reading in order tells what's wrong.
        with contextlib.suppress(Error):
            return _survey_by_index(source)
    return _survey_in_order(source)


def _survey_by_index(source: Source) -> Listing:
    members = source.members()
    tensors = [
        _shift(entry, member.begin)
        for member in members
        for place in member.layouts
        for entry in codec.decode_layout(source.block(place, member.chunk_log2))
    ]
    sizes = (sum(member.size for member in members), sum(member.content_length for member in members))
    return Listing(*sizes, len(members), sum(len(member.chunks) for member in members), tensors)


def _survey_in_order(source: Source) -> Listing:
    compressed = uncompressed = members = chunks = 0
    tensors: list[Entry] = []
    for event in codec.events(source.in_order()):
        if isinstance(event, Block) and event.tag == LAYOUT:
            tensors += (_shift(entry, uncompressed) for entry in codec.decode_layout(event))
        elif isinstance(event, Block):
            chunks += 1
        elif isinstance(event, MemberEnd):
            members += 1
            compressed += event.size
            uncompressed += event.content_length
    return Listing(compressed, uncompressed, members, chunks, tensors)


def _shift(entry: Entry, begin: int) -> Entry:
    return entry._replace(begin=begin + entry.begin, end=begin + entry.end)
