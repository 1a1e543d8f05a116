"""The room that composes: content in, records out, and back, by a crew of threads.

It may assume that sources cut sensibly, that search finds a program for any bytes, and that frame and interp
refuse what is wrong. It does not know where bytes come from or go, nor what records and programs look like.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pickle import PickleBuffer
from typing import Any, NamedTuple, NoReturn, TypeAlias

from brevis import search
from brevis.crew import Crew
from brevis.errors import CorruptError, Error, LimitError
from brevis.frame import (
    CHUNK,
    LAYOUT,
    MAX_LAYOUT_CONTENT,
    RECORD_HEADER_SIZE,
    Block,
    Buffer,
    Entry,
    Event,
    Writer,
    crc32,
    parse,
    read_layout,
    write_layout,
)
from brevis.interp import run
from brevis.sources import Cut, Kind, Layout, plain, plan, safetensors

CHUNK_SIZE = 4 << 20
MIN_CHUNK_SIZE, MAX_CHUNK_SIZE = 1 << 12, 1 << 24

# A layout's content is cut between entries, so a chunk must have room for the largest: with a name of 65,535
# bytes and 255 dimensions it has under 69 KB.
_MIN_CHUNK_LOG2 = 17

# Beside contents and records: operators may charge buffers of 2·D + 65,536 bytes (FORMAT.md, Q6), and every
# depth of a program has its tiles.
_DECODER_SIZE = 1 << 20
_ENCODER_SHARE = 4  # content, words, program, and what the search compares it with

_READ_SIZE = 1 << 20  # asked for at first, and then as much again as has come


# Compressing


def byte_view(data: Any) -> memoryview:
    """Return the bytes of any buffer, without a copy."""
    view = memoryview(data)
    if not view.c_contiguous:
        raise BufferError("the buffer is not contiguous: make a copy that is")
    # Unlike a cast of the view, this takes items of any format.
    return view if view.ndim == 1 and view.format == "B" else PickleBuffer(view).raw()


_SeriesShape: TypeAlias = "Future[search.Shape]"


class _Record(NamedTuple):
    """What a job makes of a piece of content: all that the frame needs for a record."""

    tag: int
    content_length: int
    content_crc: int
    width: int
    program: Buffer


def _encode(content: Buffer, kind: Kind, level: int, shape: _SeriesShape | None, leads: bool) -> _Record:
    """Compress a chunk; the first of a series chooses the shape for all."""
    chosen = shape.result() if shape and not leads else _choose(content, kind, level, shape)
    width, program = chosen.width, None
    with suppress(search.Unfit):
        program = chosen.encode(content)
    if program is None or len(program) > len(content) + 1:  # the bytes as they are, behind their opcode
        width, program = search.encode_fallback(content, kind, level)
    return _verified(_Record(CHUNK, len(content), crc32(content), width, program), content)


def _verified(record: _Record, content: Buffer) -> _Record:
    """Run the program once before its archive is trusted; the bytes as they are serve where it fails.

    That would be a fault of ours, so it is told; but whoever then deletes the source must not pay for it.
    """
    restored = bytearray(len(content))
    with suppress(Error):
        run(record.program, record.width, restored)
        if crc32(restored) == record.content_crc:
            return record
    warnings.warn("a chunk's program fails, so it is stored as it is: please report this", RuntimeWarning, 2)
    width, program = search.stored(content)
    return record._replace(width=width, program=program)


def _choose(content: Buffer, kind: Kind, level: int, shape: _SeriesShape | None) -> search.Shape:
    """Choose a shape, and tell those who wait for it, even if there is none."""
    try:
        chosen = search.choose(content, kind, level)
    except BaseException as error:
        if shape:
            shape.set_exception(error)
        raise
    if shape:
        shape.set_result(chosen)
    return chosen


def _encode_layout(content: bytes, level: int) -> _Record:
    width, program = search.encode_fallback(content, Kind("U8", ()), level)
    return _verified(_Record(LAYOUT, len(content), crc32(content), width, program), content)


class Encoder:
    """Compresses one member, from content in any pieces; the archive is the same however they are cut.

    Every call returns what became ready of the archive. The calls must come from one thread at a time.
    """

    def __init__(
        self, level: int = 6, threads: int = 0, kind: Kind | None = None, chunk_size: int = CHUNK_SIZE
    ) -> None:
        """Begin a member; `kind` tells what the whole content is, otherwise its first bytes do."""
        if not MIN_CHUNK_SIZE <= chunk_size <= MAX_CHUNK_SIZE:
            raise ValueError(f"chunks of {chunk_size} bytes are outside the format")
        self._level = level
        self._chunk_size = chunk_size
        self._crew = Crew(threads)
        self._writer = Writer(max(_MIN_CHUNK_LOG2, (chunk_size - 1).bit_length()))
        self._ready: list[Buffer] = []
        self._held = bytearray()  # until there is enough to tell the source
        self._wanted = 1
        self._cuts: Iterator[Cut] | None = None
        self._piece = bytearray()  # of the current cut, where it comes in several
        self._series = -1
        self._shape: _SeriesShape | None = None
        self._closed = False
        if kind is not None:
            self._begin(plain.layout(kind))

    def write(self, data: Any, *, stable: bool = False) -> list[Buffer]:
        """Take more content.

        Work on it goes on after the call, so it is copied, unless it is `bytes`, or `stable`: that is the
        caller's promise that nobody changes it until the member is finished.
        """
        view = byte_view(data)
        stable = stable or isinstance(view.obj, bytes)
        with self._step():
            while view and not self._cuts:
                missing = self._wanted - len(self._held)
                self._held += view[:missing]
                view = view[missing:]
                if len(self._held) == self._wanted:
                    self._look(complete=False)
            self._feed(view, stable)
            return self._take_ready()

    def flush(self) -> list[Buffer]:
        """End the current chunk: all content till now can be had from what was returned till now."""
        with self._step():
            if self._held and not self._cuts:
                self._look(complete=True)
            self._end_piece()
            self._collect(everything=True)
            return self._take_ready()

    def finish(self) -> list[Buffer]:
        """Complete the member."""
        with self._step():
            if not self._cuts:
                self._look(complete=True)
            self._end_piece()
            self._collect(everything=True)
            self._ready.append(self._writer.finish())
            self._crew.close(wait=True)
            self._closed = True
            return self._take_ready()

    def close(self) -> None:
        """Give up what is under way; after `finish` there is nothing."""
        self._closed = True
        self._crew.close(wait=False)  # what's under way may take long, and writes to nobody's memory

    @contextmanager
    def _step(self) -> Iterator[None]:
        """Do a part of the work; one that was broken off leaves a gap, and nothing may follow."""
        if self._closed:
            raise ValueError("this member is finished or was given up")
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _look(self, complete: bool) -> None:
        """Ask what the content is, and begin the member if there is an answer."""
        with memoryview(self._held) as prefix:
            found = safetensors.probe(prefix, complete)
        if isinstance(found, int):
            self._wanted = found
        else:
            self._begin(found or plain.layout())

    def _begin(self, layout: Layout) -> None:
        """Write what comes before the chunks, and give out what was held back."""
        self._ready.append(self._writer.header())
        if layout.source:
            self._ready.append(self._writer.metadata({"source": layout.source.encode()}))
        for content in _layout_contents(
            layout.entries, min(1 << self._writer.chunk_log2, MAX_LAYOUT_CONTENT)
        ):
            self._add(_ENCODER_SHARE * len(content), _encode_layout, content, self._level)
        self._cuts = plan.cuts(layout, self._chunk_size)
        self._cut = next(self._cuts)
        held, self._held = self._held, bytearray()
        self._feed(memoryview(held), stable=True)

    def _feed(self, view: memoryview, stable: bool) -> None:
        """Cut content into chunks; a copy is made only where it is not stable, or comes in several pieces."""
        while view:
            missing = self._cut.end - self._cut.begin - len(self._piece)
            if len(view) < missing or self._piece:
                self._piece += view[:missing]
                if len(view) >= missing:
                    self._end_piece()
            else:
                self._add_chunk(self._cut, view[:missing] if stable else bytes(view[:missing]))
                self._next_cut()
            view = view[missing:]

    def _end_piece(self) -> None:
        """Make a chunk of the pieces that have come of the current cut."""
        if self._piece:
            content, self._piece = memoryview(self._piece), bytearray()
            cut, middle = self._cut, self._cut.begin + len(content)
            self._add_chunk(plan.part(cut, cut.begin, middle), content)
            if middle < cut.end:
                self._cut = plan.part(cut, middle, cut.end)
            else:
                self._next_cut()

    def _next_cut(self) -> None:
        if self._cuts:
            self._cut = next(self._cuts)

    def _add_chunk(self, cut: Cut, content: Buffer) -> None:
        leads = cut.series != self._series
        if leads:
            self._series = cut.series
            self._shape = None if cut.series < 0 else Future()
        self._add(_ENCODER_SHARE * len(content), _encode, content, cut.kind, self._level, self._shape, leads)

    def _add(self, weight: int, function: Callable[..., _Record], *arguments: Any) -> None:
        self._crew.add(weight, function, *arguments)
        self._collect(everything=False)

    def _collect(self, everything: bool) -> None:
        """Write the records that are done."""
        while self._crew and (everything or self._crew.full or self._crew.done):
            record: _Record = self._crew.take()
            write = self._writer.chunk if record.tag == CHUNK else self._writer.layout
            self._ready += write(*record[1:])

    def _take_ready(self) -> list[Buffer]:
        ready, self._ready = self._ready, []
        return ready


def _layout_contents(entries: tuple[Entry, ...], limit: int) -> Iterator[bytes]:
    """Write a layout as contents of at most `limit` bytes."""
    start, size = 0, 0
    for i, entry in enumerate(entries):
        # No varint takes more than ten bytes: two of base and count, five and the dimensions of an entry.
        most = 10 * (5 + len(entry.shape)) + len(entry.name.encode()) + len(entry.dtype)
        if 20 + size + most > limit:
            yield write_layout(entries[start].begin, entries[start:i])
            start, size = i, 0
        size += most
    if entries:
        yield write_layout(entries[start].begin, entries[start:])


# Decompressing


def decode_chunk(block: Block, out: Buffer | None = None) -> memoryview:
    """Return the content of a chunk or layout record, which is written to `out` where that is given."""
    content = memoryview(bytearray(block.content_length)) if out is None else byte_view(out)
    if len(content) != block.content_length:
        raise ValueError(f"a buffer of {len(content)} bytes is not one of {block.content_length}")
    run(block.program, block.width, content, block.offset, block.program_offset)
    if crc32(content) != block.content_crc:
        raise CorruptError(
            "the checksum of a chunk's content is wrong: fetch the file again or restore a copy", block.offset
        )
    return content


def decode_layout(block: Block) -> list[Entry]:
    """Return the tensors of a layout record."""
    return read_layout(decode_chunk(block), block.offset)


def decode_each(
    blocks: Iterable[Block],
    *,
    threads: int = 0,
    memory: int | None = None,
    into: Callable[[int], Buffer] | None = None,
    on_layout: Callable[[list[Entry]], None] | None = None,
) -> Generator[memoryview, None, None]:
    """Yield the contents of chunks in their order, while those behind are worked on.

    `into` gives the memory for the next content of a size. Layouts are skipped, unless `on_layout` takes
    them. Before a fault is raised, wherever it comes from, the contents before it are yielded. The chunks
    that are worked on at a time fit in `memory` bytes; one that does not is a LimitError.
    """
    crew = Crew(threads, memory)
    jobs = _jobs(blocks, memory, into, on_layout is not None)
    try:
        while (job := next(jobs, None)) or crew:
            if job:
                while not crew.fits(job[0]):
                    yield from _take(crew, on_layout)
                crew.add(*job)
            while crew and (crew.full or crew.done or not job):
                yield from _take(crew, on_layout)
    finally:
        crew.close(wait=True)


def _take(crew: Crew, on_layout: Callable[[list[Entry]], None] | None) -> Iterator[memoryview]:
    """Yield the result of the oldest job, if it's content."""
    result = crew.take()
    if isinstance(result, memoryview):
        yield result
    elif on_layout:
        on_layout(result)


def decode_blocks(
    read: Callable[[int], Buffer],
    *,
    threads: int = 0,
    memory: int | None = None,
    into: Callable[[int], Buffer] | None = None,
    on_layout: Callable[[list[Entry]], None] | None = None,
    read_size: int | None = _READ_SIZE,
) -> Generator[memoryview, None, None]:
    """Yield the content of a whole archive, as `decode_each` does, reading it in order (see `events`)."""
    blocks = (event for event in events(read, read_size, memory) if isinstance(event, Block))
    yield from decode_each(blocks, threads=threads, memory=memory, into=into, on_layout=on_layout)


def events(
    read: Callable[[int], Buffer], read_size: int | None = _READ_SIZE, memory: int | None = None
) -> Iterator[Event]:
    """Read an archive in order and yield what is in it.

    `read` may return less than it is asked for, and nothing at the end only. Before bytes have come it is
    asked for `read_size` at most, as the size of a record may be a lie; None is for memory, where it costs
    nothing to ask. A record of more than `memory` bytes is a LimitError.
    """
    parser = parse()
    answer: Any = None
    offset = 0
    while True:
        try:
            item = parser.send(answer)
        except StopIteration:
            return
        if isinstance(item, int):
            if memory is not None and item > memory:
                raise _too_large(item, memory, max(0, offset - RECORD_HEADER_SIZE))
            answer = _read_fully(read, item, read_size or item)
            offset += len(answer)
        else:
            yield item


def _read_fully(read: Callable[[int], Buffer], size: int, read_size: int) -> Buffer:
    """Read `size` bytes, or what there is."""
    piece = read(min(size, read_size))
    if len(piece) == size:
        return piece
    pieces = []
    length = 0
    while piece:
        pieces.append(piece)
        length += len(piece)
        piece = read(min(size - length, max(length, read_size))) if length < size else b""
    return b"".join(pieces)


def _jobs(
    blocks: Iterable[Block], memory: int | None, into: Callable[[int], Buffer] | None, layouts: bool
) -> Iterator[tuple[Any, ...]]:
    """Turn blocks into jobs; a fault on the way becomes the last job, so that it waits for its turn."""
    try:
        for block in blocks:
            weight = decoding_memory(block)
            if memory is not None and weight > memory:
                raise _too_large(weight, memory, block.offset)
            if block.tag == CHUNK:
                yield weight, decode_chunk, block, into and _room(into, block)
            elif layouts:
                yield weight, decode_layout, block
    except Exception as error:
        yield 0, _fail, error


def decoding_memory(block: Block) -> int:
    """Tell how much memory it may take to decode a chunk, its record and its content included."""
    return block.size + 3 * block.content_length + _DECODER_SIZE


def _too_large(size: int, memory: int, offset: int) -> LimitError:
    return LimitError(
        f"this takes {size} bytes of memory, and the limit is {memory}: raise that, or refuse the archive",
        offset,
    )


def _room(into: Callable[[int], Buffer], block: Block) -> Buffer:
    """Ask for memory; where the receiver refuses, it does not know the place, and here it is known."""
    try:
        return into(block.content_length)
    except LimitError as error:
        if error.offset is None:
            error.offset = block.offset
        raise


def _fail(error: Exception) -> NoReturn:
    raise error
