"""What is intact out of a damaged archive: chunks that are found by the index, or by the marks of records.

It may assume a source that can seek, and that bytes with the right checksum of a record's header are one. It
does not know where the content goes, nor how losses are told.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from brevis import codec
from brevis.errors import Error, MalformedError
from brevis.frame import (
    CHUNK,
    FOOTER,
    FOOTER_SIZE,
    HEADER_SIZE,
    LAYOUT,
    MAGIC,
    MAX_CHUNK_LOG2,
    RECORD_HEADER_SIZE,
    RECORD_OVERHEAD,
    SYNC,
    Writer,
    check_body,
    check_header,
    check_record_header,
    read_block,
    read_members,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brevis.frame import Entry, Member
    from brevis.reader import Source

_GUESSES = 100
_WINDOW = 1 << 20  # searched at a time
_MARKS = re.compile(b"|".join(map(re.escape, (SYNC, MAGIC))))
_HEADER, _HOLE = -1, -2  # beside the tags of records: a member's header, and what is neither


class Gap(NamedTuple):
    """A part of the content that is lost, of no length where only the archive is damaged."""

    offset: int  # in the archive
    begin: int  # in the content, as far as its length is known before
    length: int | None  # where anybody knows it
    cause: str
    tensors: list[str]  # that are hit


class _Spot(NamedTuple):
    """Where the record of a chunk should be; one without size was not found."""

    offset: int
    size: int
    length: int | None


class _Plan(NamedTuple):
    """What is known of a member: where its chunks should be, in order, and what its layouts name."""

    chunk_log2: int
    spots: list[_Spot]
    entries: list[Entry]


class _Part(NamedTuple):
    """A part of the archive: a record, a header or a hole."""

    tag: int
    offset: int
    size: int


def salvage(source: Source) -> Iterator[memoryview | Gap]:
    """Yield the contents of intact chunks, in order, and the gaps between them.

    A gap has a length wherever the index of its member is intact. Nothing intact at all is an error.
    """
    damage: Error | None = None
    try:
        plans = iter([_by_index(source, member) for member in source.members()])
    except Error as error:
        damage = error
        plans = _by_marks(source)
        yield Gap(error.offset or 0, 0, 0, str(error), [])
    intact = False
    for piece in _pieces(source, plans):
        intact = intact or not isinstance(piece, Gap)
        damage = damage or (MalformedError(piece.cause) if isinstance(piece, Gap) else None)
        yield piece
    if damage and not intact:
        raise MalformedError("nothing of it is intact")


def _pieces(source: Source, plans: Iterator[_Plan]) -> Iterator[memoryview | Gap]:
    """Fetch what is planned, and join the gaps that have no content between them."""
    position = 0
    gap: Gap | None = None
    for plan in plans:
        base: int | None = position  # of the member in the content, as long as that's known
        for spot in plan.spots:
            try:
                content = _content(source, spot, plan.chunk_log2)
            except Error as error:
                hit = [] if base is None else _hit(plan.entries, position - base, spot.length)
                gap = _join(gap, Gap(spot.offset, position, spot.length, str(error), hit))
                position += spot.length or 0
                base = base if spot.length is not None else None
            else:
                if gap:
                    yield gap
                    gap = None
                yield content
                position += len(content)
    if gap:
        yield gap


def _content(source: Source, spot: _Spot, chunk_log2: int) -> memoryview:
    if not spot.size:
        raise MalformedError("no whole record is here", spot.offset)
    block = read_block(source.read_at(spot.offset, spot.size), spot.offset, chunk_log2)
    if block.tag != CHUNK or spot.length not in (None, block.content_length):
        raise MalformedError("another record than that of the index is here", spot.offset)
    return codec.decode_chunk(block)


def _join(one: Gap | None, other: Gap) -> Gap:
    if one is None:
        return other
    length = None if one.length is None or other.length is None else one.length + other.length
    return one._replace(length=length, tensors=list(dict.fromkeys([*one.tensors, *other.tensors])))


def _hit(entries: list[Entry], begin: int, length: int | None) -> list[str]:
    """Name the tensors that a gap hits."""
    end = begin + (length or 0)
    return [entry.name for entry in entries if entry.begin < end and entry.end > begin]


# By the index


def _by_index(source: Source, member: Member) -> _Plan:
    spots = [_Spot(place.offset, place.size, place.content_length) for place in member.chunks]
    places = [(place.offset, place.size) for place in member.layouts]
    return _Plan(member.chunk_log2, spots, _entries(source, places, member.chunk_log2))


def _entries(source: Source, places: list[tuple[int, int]], chunk_log2: int) -> list[Entry]:
    """Read the layouts that are intact."""
    entries = []
    for offset, size in places:
        try:
            entries += codec.decode_layout(read_block(source.read_at(offset, size), offset, chunk_log2))
        except Error:  # nothing but names is lost
            continue
    return entries


# By the marks of headers and records


def _by_marks(source: Source) -> Iterator[_Plan]:
    """Look for members from the beginning on, whatever is between them."""
    parts: list[_Part] = []
    for part in _parts(source):
        if parts and (part.tag == _HEADER or parts[-1].tag == FOOTER):
            yield _plan(source, parts)
            parts = []
        parts.append(part)
    if parts:
        yield _plan(source, parts)


def _parts(source: Source) -> Iterator[_Part]:
    """Take an archive apart; a hole lasts until the next mark that's sound."""
    offset, total = 0, source.size()
    while offset < total:
        part = _part_at(source, offset)
        if part is None or not _leads_on(source, part, total):
            part = _Part(_HOLE, offset, _next_mark(source, offset + 1, total) - offset)
        yield part
        offset += part.size


def _part_at(source: Source, offset: int) -> _Part | None:
    data = bytes(source.read_at(offset, HEADER_SIZE))
    try:
        if data.startswith(MAGIC):
            check_header(data, offset)
            return _Part(_HEADER, offset, HEADER_SIZE)
        tag, length = check_record_header(data[:RECORD_HEADER_SIZE], offset, MAX_CHUNK_LOG2)
    except Error:
        return None
    return _Part(tag, offset, RECORD_OVERHEAD + length)


def _leads_on(source: Source, part: _Part, total: int) -> bool:
    """Tell whether a record has its bytes: another mark is behind it, or its checksum is right."""
    end = part.offset + part.size
    if part.tag == _HEADER or end == total:
        return True
    if end > total or _part_at(source, end) is not None:
        return end < total
    length = part.size - RECORD_OVERHEAD
    try:
        check_body(source.read_at(part.offset + RECORD_HEADER_SIZE, length + 4), part.offset, length)
    except Error:
        return False
    return True


def _next_mark(source: Source, offset: int, total: int) -> int:
    """Find the next header or record."""
    for begin in range(offset, total, _WINDOW):
        window = bytes(source.read_at(begin, _WINDOW + len(MAGIC)))
        for found in _MARKS.finditer(window):
            if _part_at(source, begin + found.start()) is not None:
                return begin + found.start()
    return total


def _plan(source: Source, parts: list[_Part]) -> _Plan:
    """Make out what the parts of a member say of it."""
    first = parts[0]
    chunk_log2 = MAX_CHUNK_LOG2
    header = Writer(MAX_CHUNK_LOG2).header()
    if first.tag == _HEADER:
        header = bytes(source.read_at(first.offset, HEADER_SIZE))
        chunk_log2 = check_header(header, first.offset)
    places = [(part.offset, part.size) for part in parts if part.tag == LAYOUT]
    entries = _entries(source, places, chunk_log2)
    member = _indexed(source, parts[-1], header)
    if member is not None:
        return _Plan(chunk_log2, _align(member, first.offset, parts), entries)
    spots = [
        _Spot(part.offset, part.size if part.tag == CHUNK else 0, None)
        for part in parts
        if part.tag in (CHUNK, _HOLE)
    ]
    end = parts[-1].offset + parts[-1].size
    if parts[-1].tag not in (FOOTER, _HOLE):
        spots.append(_Spot(end, 0, None))
    return _Plan(chunk_log2, spots, entries)


def _indexed(source: Source, footer: _Part, header: bytes) -> Member | None:
    """Read a member's index by its footer, if they're sound, though bytes before may be lost or added."""
    if footer.tag != FOOTER:
        return None
    size = int.from_bytes(source.read_at(footer.offset + RECORD_HEADER_SIZE, 8), "little")
    start = footer.offset + FOOTER_SIZE - size

    def read_at(offset: int, count: int) -> memoryview:
        if offset < HEADER_SIZE:
            return memoryview(header)[offset : offset + count]
        return memoryview(source.read_at(max(0, start + offset), min(count, source.size())))

    try:
        (member,) = read_members(read_at, size)
    except (Error, ValueError):
        return None
    return member._replace(offset=start)


def _align(member: Member, begin: int, parts: list[_Part]) -> list[_Spot]:
    """Find the chunks of an index, counted from the header or, where bytes came or went, from the footer."""
    found = {part.offset: part for part in parts if part.tag == CHUNK}
    # What ends before the member begins, as its footer tells, is of another, whose own end is lost.
    others = [part for part in found.values() if part.offset + part.size <= member.offset]
    for part in others:
        del found[part.offset]
    places: dict[int, _Part] = {}
    for base in (member.offset, begin):
        _match(member, base, found, places)
    for base in _bases(member, begin, found, places):
        _match(member, base, found, places)
    spots = [_Spot(part.offset, part.size, None) for part in others]
    if others:
        spots.append(_Spot(member.offset, 0, None))
    for number, place in enumerate(member.chunks):
        offset, size = places[number][1:] if number in places else (max(0, begin + place.offset), 0)
        spots.append(_Spot(offset, size, place.content_length))
    return spots


def _match(member: Member, base: int, found: dict[int, _Part], places: dict[int, _Part]) -> None:
    """Assign records to the places of an index that counts from `base`, where the order allows it."""
    limits = [0] * len(member.chunks)
    limit = sys.maxsize
    for number in reversed(range(len(member.chunks))):
        limits[number] = limit
        limit = places[number].offset if number in places else limit
    last = -1
    for number, place in enumerate(member.chunks):
        part = found.get(base + place.offset)
        if number in places:
            last = places[number].offset
        elif part and part.size == place.size and last < part.offset < limits[number]:
            places[number] = found.pop(part.offset)
            last = part.offset


def _bases(member: Member, begin: int, found: dict[int, _Part], places: dict[int, _Part]) -> list[int]:
    """Guess from where else offsets may count, between one damage and another, the likeliest first."""
    missing = [place for number, place in enumerate(member.chunks) if number not in places]
    counts = Counter(
        part.offset - place.offset for part in found.values() for place in missing if part.size == place.size
    )
    return sorted(counts, key=lambda base: (-counts[base], abs(base - begin)))[:_GUESSES]
