"""Recognises a safetensors file by its header, as strictly as the parser of safetensors 0.8 does.

It may assume that nothing is lost where it refuses: the file is then compressed as bytes. It never looks
behind the header, so a file and a pipe of the same bytes get the same answer, however many bytes follow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isfinite
from typing import Any, TypeVar

from brevis.frame import MAX_NAME_SIZE, MAX_RANK, MAX_U64, Entry
from brevis.sources import DTYPE_BITS, Layout

MAX_HEADER_LENGTH = 100_000_000  # the official parser's limit
MAX_DEPTH = 100  # the official parser gives up at a depth of 127, and nothing sane comes near

# Texts of one member of the header that are parsed at once: a value becomes up to thirty times as large in
# memory, so a header of nothing but brackets would need gigabytes. 255 dimensions of 20 digits take a tenth
# of the first; whoever keeps more metadata than the second has the file compressed as bytes.
MAX_TENSOR_TEXT = 1 << 16
MAX_METADATA_TEXT = 1 << 22
_SPACE = re.compile(r"[ \t\n\r]*")

T = TypeVar("T")


def probe(prefix: memoryview, complete: bool) -> int | Layout | None:
    """Tell whether a content that begins with `prefix` is a safetensors file.

    Returns its layout, or None for another kind of content, or the number of bytes that it takes to tell.
    With `complete` the prefix is all there is.
    """
    needed = 9  # the length of the header, and the first byte of it
    if len(prefix) >= needed:
        length = int.from_bytes(prefix[:8], "little")
        if not 2 <= length <= MAX_HEADER_LENGTH or prefix[8] not in b"{ \t\n\r":
            return None
        needed = 8 + length
        if len(prefix) >= needed:
            entries = _entries(prefix[8:needed], needed)
            return None if entries is None else Layout("safetensors", entries)
    return None if complete else needed


def _entries(header: memoryview, base: int) -> tuple[Entry, ...] | None:
    """Read the header of a file whose tensors begin at `base`; they must tile what follows."""
    try:
        entries = []
        names = set()
        for name, value in _members(str(header, "utf-8")):
            if name in names:
                return None  # which of the two would be meant?
            names.add(name)
            if name == "__metadata__":
                _check_metadata(value)
            else:
                entries.append(_entry(name, _as(dict, value), base))
    except (ValueError, RecursionError):
        return None
    entries.sort(key=lambda entry: (entry.begin, entry.end))
    position = base
    for entry in entries:
        if entry.begin != position:
            return None
        position = entry.end
    return tuple(entries)


def _members(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the members of the JSON object that the text is, one after another."""
    position = _after(text, 0, "{")
    if text[position : position + 1] != "}":
        position -= 1
        while True:
            name, position = _DECODER.raw_decode(text, _space(text, position + 1))
            position = _after(text, _space(text, position), ":")
            limit = MAX_METADATA_TEXT if _as(str, name) == "__metadata__" else MAX_TENSOR_TEXT
            value, position = _value(text, position, limit)
            yield name, value
            position = _space(text, position)
            if text[position : position + 1] != ",":
                break
    if _after(text, position, "}") != len(text):
        raise ValueError


def _value(text: str, position: int, limit: int) -> tuple[Any, int]:
    """Read a value of at most `limit` characters; a tensor's mostly ends with the next bracket."""
    end = text.find("}", position, position + limit) + 1
    try:
        value, size = _DECODER.raw_decode(text[position:end])
    except ValueError:
        value, size = _DECODER.raw_decode(text[position : position + limit])
    return value, position + size


def _space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _after(text: str, position: int, sign: str) -> int:
    """Return where what follows a sign and space behind it begins."""
    position = _space(text, position)
    if text[position : position + 1] != sign:
        raise ValueError
    return _space(text, position + 1)


def _entry(name: str, info: dict[str, Any], base: int) -> Entry:
    """Check what the header says of one tensor; other fields may stand beside the three that matter."""
    dtype = _as(str, info.pop("dtype", None))
    shape = tuple(map(_size, _as(list, info.pop("shape", None))))
    begin, end = map(_size, _as(list, info.pop("data_offsets", None)))
    bits = DTYPE_BITS.get(dtype, 0)
    for size in shape:
        # Every step must fit, as in the official parser: a zero does not mend what was too large before.
        bits *= size
        if bits > MAX_U64:
            raise ValueError
    if dtype not in DTYPE_BITS or bits != 8 * (end - begin) or base + end > MAX_U64:
        raise ValueError
    if len(name.encode()) > MAX_NAME_SIZE or len(shape) > MAX_RANK:
        raise ValueError  # a layout has no room for these
    if info:
        _check_value(info, MAX_DEPTH)
    return Entry(name, dtype, shape, base + begin, base + end)


def _check_metadata(metadata: object) -> None:
    """Refuse metadata other than texts."""
    if metadata is not None:
        for key, value in _as(dict, metadata).items():
            _check_value([key, _as(str, value)], MAX_DEPTH)


def _check_value(value: object, depth: int) -> None:
    """Refuse what Python's parser takes for JSON, and the official one doesn't."""
    if not depth:
        raise ValueError
    if type(value) is str:
        value.encode()  # refuses half of a surrogate pair
    elif type(value) is float and not isfinite(value):
        raise ValueError
    elif type(value) is list:
        for item in value:
            _check_value(item, depth - 1)
    elif type(value) is dict:
        for key, item in value.items():
            _check_value(key, depth)
            _check_value(item, depth - 1)


def _as(kind: type[T], value: object) -> T:
    """Refuse a value of another type; subclasses too, as True is no number."""
    if type(value) is not kind:
        raise ValueError
    return value


def _size(value: object) -> int:
    size = _as(int, value)
    if not 0 <= size <= MAX_U64:
        raise ValueError
    return size


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object, but refuse a key that comes twice: which of the two would be meant?"""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    return members


def _integer(digits: str) -> int | float:
    """Read a number; a negative zero, or one far beyond 64 bits, is a float to the official parser."""
    return float(digits) if digits == "-0" or len(digits) > 20 else int(digits)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer)
