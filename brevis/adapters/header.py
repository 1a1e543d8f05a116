"""The header of a safetensors file: read as strictly as the official parser does, and written as it does.

It may assume that the caller knows how long the file is. It does not know where the bytes are, and makes no
object of what a checkpoint has no use for, so that a hostile header costs little more than its length.
"""

from __future__ import annotations

import json
import re
from json.decoder import JSONDecodeError
from math import isinf, prod
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from brevis.errors import LimitError
from brevis.frame import MAX_U64, Entry
from brevis.sources import DTYPE_BITS
from brevis.sources.safetensors import MAX_HEADER_LENGTH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

METADATA = "__metadata__"
MAX_DEPTH = 126  # inside the outermost braces, as the official parser has it
MAX_PAIRS = 1 << 17  # of metadata: real files have dozens, and each pair takes 200 bytes of memory
MAX_VALUE = 1 << 20  # characters about one tensor: with its sixty dimensions it takes a thousand

MAX_KNOWN = 1 << 16  # dtypes with shapes that are kept in mind

_ALIGNMENT = 8  # what the official writer pads headers to
_FIRST_LOOK = 1 << 10  # characters in which the end of a tensor's description is looked for at first

_INTEGER = "(?:0|[1-9][0-9]{0,19})"
# A tensor as all writers write it, but for the last: name, dtype with shape, and places. One that is written
# in other ways is read too, more slowly.
_USUAL = re.compile(
    r'[ \n]*"([^"\\\x00-\x1f]*)" ?: ?\{"dtype": ?"([A-Z0-9_]+", ?'
    rf'"shape": ?\[(?:{_INTEGER}(?:, ?{_INTEGER}){{0,254}})?)\], ?'
    rf'"data_offsets": ?\[({_INTEGER}), ?({_INTEGER})\]\}} ?,'
)
_SPACE = re.compile(r"[ \t\n\r]*")


class Header(NamedTuple):
    """What a header tells: the tensors in its own order, its texts if it has any, and where the file ends."""

    tensors: dict[str, Entry]
    metadata: dict[str, str] | None
    end: int


def read(header: bytes | bytearray | memoryview, base: int) -> Header:
    """Read the header of a file whose tensors begin at `base`; a `ValueError` says why it is none.

    The tensors tile the file from `base` to its end. A name that comes twice means its last, as it does
    officially. More than any checkpoint needs is a `LimitError`, which is a `ValueError` too.
    """
    return _Parser(str(header, "utf-8"), base).header()


class _Parser:
    """Walks over a header once, from its first character to its last."""

    def __init__(self, text: str, base: int) -> None:
        self._text = text
        self._position = 0
        self._base = base
        self._tensors: dict[str, Entry] = {}
        self._metadata: dict[str, str] | None = None
        self._metadata_seen = False

    def header(self) -> Header:
        """Read all of it."""
        self._expect("{")
        if self._expect('"}') == '"':
            self._position -= 1
            self._usual_members()
            while self._member():
                self._usual_members()
        if _SPACE.fullmatch(self._text, self._position) is None:
            raise ValueError("something behind its end")
        return Header(self._tensors, self._metadata, _end(self._tensors, self._base))

    def _usual_members(self) -> None:
        """Read members while they are as usual; the last one never is."""
        text, position, base = self._text, self._position, self._base
        tensors, match, new = self._tensors, _USUAL.match, tuple.__new__  # the loop is all of the time
        known: dict[str, tuple[str, tuple[int, ...], int]] = {}  # most tensors look like others
        while found := match(text, position):
            name, kind, begin, end = found.groups()
            if name == METADATA:
                break
            if kind not in known:
                if len(known) == MAX_KNOWN:
                    known.clear()
                known[kind] = _read_kind(kind)
            dtype, shape, size = known[kind]
            first, last = int(begin) + base, int(end) + base
            if last - first != size or last > MAX_U64:
                _misplaced(name)
            tensors[name] = new(Entry, (name, dtype, shape, first, last))
            position = found.end()
        self._position = position

    def _member(self) -> bool:
        """Read a member that is written in any way, and tell whether there are more."""
        name = self._string()
        self._expect(":")
        if name == METADATA:
            self._read_metadata()
        else:
            self._tensors[name] = _entry(name, self._value(), self._base)
        return self._expect(",}") == ","

    def _read_metadata(self) -> None:
        """Read texts by name, or null."""
        if self._metadata_seen:
            raise ValueError("two sets of metadata")
        self._metadata_seen = True
        self._skip_space()
        if self._text.startswith("null", self._position):
            self._position += 4
            return
        self._expect("{")
        self._metadata = {}
        if self._expect('"}') == "}":
            return
        self._position -= 1
        mark, pairs = ",", 0
        while mark == ",":
            name = self._string()
            self._expect(":")
            self._metadata[name] = self._string()
            mark = self._expect(",}")
            pairs += 1
            if pairs > MAX_PAIRS:
                raise LimitError(f"more than {MAX_PAIRS} texts of metadata")

    def _value(self) -> Any:
        """Read any value, of which only so much is looked at as a tensor's description may have."""
        self._skip_space()
        size = _FIRST_LOOK
        while True:
            part = self._text[self._position : self._position + size]
            try:
                value, end = _DECODER.raw_decode(part)
            except (JSONDecodeError, RecursionError) as error:
                if len(part) < size or isinstance(error, RecursionError):
                    raise ValueError("no value where one should be") from None
                if size >= MAX_VALUE:
                    raise LimitError(f"more than {MAX_VALUE} characters about one tensor") from None
                size *= 2
            else:
                self._position += end
                return value

    def _string(self) -> str:
        self._expect('"')
        text: str
        text, self._position = _DECODER.raw_decode(self._text, self._position - 1)
        _check_text(text)
        return text

    def _expect(self, marks: str) -> str:
        """Read one of these characters."""
        self._skip_space()
        mark = self._text[self._position : self._position + 1]
        if not mark or mark not in marks:
            raise ValueError(f"{mark!r} where one of {marks} should be")
        self._position += 1
        return mark

    def _skip_space(self) -> None:
        space = _SPACE.match(self._text, self._position)
        self._position = space.end() if space else self._position


class _Object(tuple[tuple[str, Any], ...]):
    """A JSON object as pairs: a name that comes twice must be seen."""

    __slots__ = ()


def _integer(digits: str) -> int | float:
    """Read a number; a negative zero, or one far beyond 64 bits, is a float to the official parser."""
    return _float(digits) if digits == "-0" or len(digits) > 20 else int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if isinf(value):
        raise JSONDecodeError("a number out of range", digits, 0)
    return value


def _constant(name: str) -> NoReturn:
    raise JSONDecodeError("no JSON", name, 0)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)


def _read_kind(kind: str) -> tuple[str, tuple[int, ...], int]:
    """Return dtype, shape and bytes of a text as the usual members have it."""
    dtype, _, shape = kind.partition('"')
    sizes = shape[shape.index("[") + 1 :]
    dimensions = tuple(map(int, sizes.split(","))) if sizes else ()
    return dtype, dimensions, _size(dtype, dimensions)


def _entry(name: str, value: Any, base: int) -> Entry:
    """Check what the header says of one tensor; other fields may stand beside the three that matter."""
    _check(value, MAX_DEPTH)
    fields: dict[str, Any] = {}
    if type(value) is list and len(value) == 3:  # the official parser takes a list of the three as well
        value = zip(("dtype", "shape", "data_offsets"), value, strict=True)
    elif type(value) is not _Object:
        raise ValueError(f"the tensor {name!r} is not described")
    for key, item in value:
        if key in fields and key in ("dtype", "shape", "data_offsets"):
            raise ValueError(f"the tensor {name!r} has two of {key}")
        fields[key] = item
    dtype = fields.get("dtype")
    if type(dtype) is _Object and len(dtype) == 1 and dtype[0][1] is None:
        dtype = dtype[0][0]  # another way to write a choice that the official parser takes
    if type(dtype) is not str:
        raise ValueError(f"the tensor {name!r} has no dtype")
    shape, places = _sizes(name, fields.get("shape")), _sizes(name, fields.get("data_offsets"))
    if len(places) != 2 or places[1] - places[0] != _size(dtype, shape) or base + places[1] > MAX_U64:
        _misplaced(name)
    return Entry(name, dtype, shape, base + places[0], base + places[1])


def _sizes(name: str, value: object) -> tuple[int, ...]:
    if type(value) is not list or not all(type(item) is int and 0 <= item <= MAX_U64 for item in value):
        raise ValueError(f"the tensor {name!r} has sizes that are none")
    return tuple(value)


def _size(dtype: str, shape: tuple[int, ...]) -> int:
    """Return the bytes of a tensor."""
    bits = DTYPE_BITS.get(dtype)
    if bits is None:
        raise ValueError(f"the dtype {dtype!r} is unknown")
    elements = 1
    for size in shape:
        # Every step must fit, as in the official parser: a zero does not mend what was too large before.
        elements *= size
        if size > MAX_U64 or elements > MAX_U64:
            raise ValueError("a shape is too large")
    size, rest = divmod(elements * bits, 8)
    if rest or elements * bits > MAX_U64:
        raise ValueError("a tensor's size is no number of bytes")
    return size


def _end(tensors: dict[str, Entry], base: int) -> int:
    """Check that the tensors lie one behind the other, and return where the last ends."""
    position = base
    for entry in tensors.values():
        if entry.begin != position:
            break
        position = entry.end
    else:
        return position
    position = base
    for entry in in_place_order(tensors):
        if entry.begin != position:
            raise ValueError(f"there is a gap or an overlap before the tensor {entry.name!r}")
        position = entry.end
    return position


def in_place_order(tensors: Mapping[str, Entry]) -> list[Entry]:
    """Return tensors in the order of their bytes."""
    return sorted(tensors.values(), key=lambda entry: (entry.begin, entry.end))


def _misplaced(name: str) -> NoReturn:
    raise ValueError(f"the tensor {name!r} does not fit its place")


def _check(value: object, depth: int) -> None:
    """Refuse what Python's parser takes for JSON, and the official one doesn't."""
    if not depth:
        raise ValueError("too deep")
    if type(value) is str:
        _check_text(value)
    elif type(value) is list:
        for item in value:
            if type(item) is not int:
                _check(item, depth - (type(item) in (list, _Object)))
    elif type(value) is _Object:
        for key, item in value:
            _check_text(key)
            _check(item, depth - (type(item) in (list, _Object)))


def _check_text(text: str) -> None:
    """Refuse half of a surrogate pair, by which UTF-8 can't write."""
    if not text.isascii():
        text.encode()


# Writing


def write(tensors: Sequence[tuple[str, str, tuple[int, ...]]], metadata: Mapping[str, str] | None) -> bytes:
    """Write a header, its length included, for tensors (name, dtype, shape) in the order of their bytes."""
    members: dict[str, Any] = {}
    if metadata is not None:
        if not all(isinstance(text, str) for pair in metadata.items() for text in pair):
            raise TypeError("metadata must be a dict of str by str")
        members[METADATA] = dict(sorted(metadata.items()))
    begin = 0
    for name, dtype, shape in tensors:
        if not isinstance(name, str) or name == METADATA or name in members:
            raise ValueError(f"no tensor can have the name {name!r} here")
        end = begin + size_of(name, dtype, shape)
        members[name] = {"dtype": dtype, "shape": shape, "data_offsets": (begin, end)}
        begin = end
    text = json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    if len(text) > MAX_HEADER_LENGTH:
        raise ValueError(f"the header has {len(text)} bytes, and safetensors allows {MAX_HEADER_LENGTH}")
    return len(text).to_bytes(8, "little") + text


def size_of(name: str, dtype: str, shape: tuple[int, ...]) -> int:
    """Return the bytes of a tensor to be written."""
    if dtype not in DTYPE_BITS:
        raise ValueError(f"{name}: safetensors has no dtype {dtype!r}, only {', '.join(DTYPE_BITS)}")
    size, rest = divmod(prod(shape) * DTYPE_BITS[dtype], 8)
    if rest:
        raise ValueError(f"{name}: {dtype} of shape {list(shape)} does not fill its last byte")
    return size


def official_order(tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> list[str]:
    """Return names as the official writer puts the tensors: wide dtypes first, which keeps all aligned."""
    ranks = {dtype: rank for rank, dtype in enumerate(DTYPE_BITS)}
    return sorted(tensors, key=lambda name: (-ranks.get(tensors[name][0], -1), name))
