"""Sources: what is taken for safetensors, and where contents are cut."""

from __future__ import annotations

import json
import struct
from ast import literal_eval
from itertools import islice, takewhile
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brevis.frame import Entry
from brevis.sources import BYTES, DTYPE_BITS, Cut, Kind, Layout, plain, plan, safetensors

FOLDER = Path(__file__).parent / "data" / "safetensors-odd"
CASES = json.loads((FOLDER / "manifest.json").read_text())
# Their headers alone are sound: what the official parser minds is the size of the file.
SIZE_IS_WRONG = {"trailing_bytes.safetensors", "truncated_1_byte.safetensors"}
# Accepted by the official parser, which keeps the last; as there is no telling, here they are bytes.
TWICE = {"dup_key_identical.safetensors"}

MIB = 1 << 20
CHUNK = 4 * MIB


def file(header: str | bytes, data: bytes = b"") -> memoryview:
    text = header.encode() if isinstance(header, str) else header
    return memoryview(struct.pack("<Q", len(text)) + text + data)


def tensor(dtype: str = "U8", shape: str = "[8]", offsets: str = "[0,8]") -> str:
    return f'{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}'


def extra(value: str) -> str:
    """A sound header with one field more."""
    return f'{{"a":{{"dtype":"U8","shape":[8],"data_offsets":[0,8],"x":{value}}}}}'


def layout(header: str | bytes) -> Layout | int | None:
    return safetensors.probe(file(header), True)


# safetensors


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
def test_agrees_with_the_official_parser(case: dict[str, Any]) -> None:
    content = memoryview((FOLDER / case["file"]).read_bytes())
    found = safetensors.probe(content, True)
    accepted = case["accepted_by_safetensors_0_8"]
    if case["file"] in SIZE_IS_WRONG:
        accepted = True
    if case["file"] in TWICE:
        accepted = False
    assert isinstance(found, Layout) is accepted
    if isinstance(found, Layout) and case["tensors"]:
        told = {(e.name, e.dtype, *e.shape) for e in found.entries}
        assert told == {(name, dtype, *shape) for name, dtype, shape in literal_eval(case["tensors"])}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
def test_asks_for_what_it_needs_and_no_more(case: dict[str, Any]) -> None:
    content = memoryview((FOLDER / case["file"]).read_bytes())
    final = safetensors.probe(content, True)
    for size in range(len(content) + 1):
        found = safetensors.probe(content[:size], False)
        if isinstance(found, int):
            assert size < found
            assert found <= len(content) or final is None
        else:
            assert found == final


def test_ranges_are_those_of_the_content() -> None:
    header = f'{{"b":{tensor(offsets="[8,16]")},"a":{tensor()}}}'
    start = 8 + len(header)
    a, b = Entry("a", "U8", (8,), start, start + 8), Entry("b", "U8", (8,), start + 8, start + 16)
    assert layout(header) == Layout("safetensors", (a, b))


def test_bytes_that_follow_make_no_difference() -> None:
    header = f'{{"a":{tensor()}}}'
    for data in (b"", bytes(8), bytes(100)):
        assert safetensors.probe(file(header, data), True) == layout(header)


ACCEPTED = {
    "every field": f'{{"a":{tensor()}}}',
    "deep": extra("[" * 90 + "]" * 90),
    "escaped name": f'{{"\\u0061\\ud83d\\ude00":{tensor()}}}',
    "large number aside": extra("1" * 30),
    "zero first": f'{{"a":{tensor(shape="[0,1099511627776,1099511627776]", offsets="[0,0]")}}}',
    "blank around": f' \t\r\n{{"a":{tensor()}}}\r\n\t ',
}
REFUSED = {
    "tensor as a list": '{"a":["U8",[8],[0,8]]}',
    "dtype as an object": '{"a":{"dtype":{"U8":null},"shape":[8],"data_offsets":[0,8]}}',
    "float as size": f'{{"a":{tensor(shape="[8.0]")}}}',
    "exponent as size": f'{{"a":{tensor(shape="[8e0]")}}}',
    "negative zero": f'{{"a":{tensor(shape="[8,-0]", offsets="[0,0]")}}}',
    "true as size": f'{{"a":{tensor(shape="[8,true]")}}}',
    "null as shape": f'{{"a":{tensor(shape="null")}}}',
    "three offsets": f'{{"a":{tensor(offsets="[0,8,8]")}}}',
    "NaN": extra("NaN"),
    "infinite": extra('[{"y":1e999}]'),
    "infinite digits": extra("1" * 400),
    "endless digits": extra("1" * 9999),
    "lone surrogate inside": extra('["\\ud800"]'),
    "lone surrogate in metadata": '{"__metadata__":{"a":"\\udc00"}}',
    "too deep": extra("[" * 130 + "]" * 130),
    "absurdly deep": "[" * 100_000,
    "deep objects": '{"a":' * 100_000,
    "metadata twice": '{"__metadata__":{},"__metadata__":{}}',
    "metadata as a list": '{"__metadata__":[]}',
    "metadata with null": '{"__metadata__":{"a":null}}',
    "null as tensor": f'{{"a":{tensor()},"x":null}}',
    "field twice": '{"a":{"dtype":"U8","dtype":"U8","shape":[8],"data_offsets":[0,8]}}',
    "control character": f'{{"a\x01":{tensor()}}}',
    "product too large before a zero": f'{{"a":{tensor(shape=f"[{2**32},{2**32},0]", offsets="[0,0]")}}}',
    "half a byte": f'{{"a":{tensor(dtype="F4", shape="[15]")}}}',
    "bits beyond 64 bits": f'{{"a":{tensor(shape=f"[{2**61}]", offsets=f"[0,{2**61}]")}}}',
    "65 bits": f'{{"a":{tensor(shape="[18446744073709551616]")}}}',
    "unknown dtype": f'{{"a":{tensor(dtype="U4")}}}',
    "something behind": f'{{"a":{tensor()}}} x',
    "form feed": f'{{"a":{tensor()}}}\f',
    "not UTF-8": b'{"\xff":' + tensor().encode() + b"}",
    "overlap": f'{{"a":{tensor()},"b":{tensor(offsets="[4,12]")}}}',
    "not from zero": f'{{"a":{tensor(offsets="[8,16]")}}}',
    "name too long for a layout": f'{{"{"a" * 65_536}":{tensor()}}}',
    "too many dimensions for a layout": f'{{"a":{tensor(shape=str([8] + [1] * 255))}}}',
    "just a number": "17",
}


@pytest.mark.parametrize("header", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepts(header: str) -> None:
    assert isinstance(layout(header), Layout)


@pytest.mark.parametrize("header", REFUSED.values(), ids=REFUSED.keys())
def test_refuses(header: str | bytes) -> None:
    assert layout(header) is None


@pytest.mark.parametrize("header", [*ACCEPTED.values(), *REFUSED.values()], ids=[*ACCEPTED, *REFUSED])
def test_never_accepts_what_the_official_parser_refuses(header: str | bytes) -> None:
    official = pytest.importorskip("safetensors")
    found = layout(header)
    data = bytes(found.entries[-1].end - found.entries[0].begin) if isinstance(found, Layout) else b""
    try:
        official.deserialize(bytes(file(header, data)))
    except official.SafetensorError:
        assert found is None


def test_knows_the_dtypes_with_their_sizes() -> None:
    official = pytest.importorskip("safetensors")
    for dtype, bits in DTYPE_BITS.items():
        header = f'{{"a":{tensor(dtype=dtype, shape="[16]", offsets=f"[0,{2 * bits}]")}}}'
        assert isinstance(layout(header), Layout)
        official.deserialize(bytes(file(header, bytes(2 * bits))))
    assert len(DTYPE_BITS) == 22


def test_many_tensors_are_quick() -> None:
    count = 100_000
    tensors = [{"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i in range(count)]
    found = layout(json.dumps(dict(zip(map(str, range(count)), tensors, strict=True))))
    assert isinstance(found, Layout) and len(found.entries) == count


# Plain


def test_array_is_one_tensor_without_a_name() -> None:
    assert plain.layout() == Layout("", ())
    assert plain.layout(Kind("BF16", (3, 4))) == Layout("", (Entry("", "BF16", (3, 4), 0, 24),))
    assert plain.layout(Kind("BF16", (0, 4))) == Layout("", (Entry("", "BF16", (0, 4), 0, 0),))
    assert plain.layout(Kind("BF16", ())) == Layout("", (), Kind("BF16", ()))
    assert plain.layout(Kind("complex", (3,))) == Layout("", ())


# Plan


def tensors(*sizes: tuple[str, tuple[int, ...]], base: int = 100) -> Layout:
    entries = []
    for i, (dtype, shape) in enumerate(sizes):
        end = base + prod(shape) * DTYPE_BITS[dtype] // 8
        entries.append(Entry(str(i), dtype, shape, base, end))
        base = end
    return Layout("safetensors", tuple(entries))


def cut(found: Layout, chunk_size: int = CHUNK) -> list[Cut]:
    """The cuts up to the end of the last tensor, after the usual checks of all."""
    end = max((e.end for e in found.entries if e.begin < e.end), default=0)
    cuts = list(takewhile(lambda c: c.begin < end, plan.cuts(found, chunk_size)))
    position = 0
    for c in cuts:
        assert c.begin == position and 0 < c.end - c.begin <= chunk_size
        if c.kind.shape and c.kind.dtype:
            assert prod(c.kind.shape) * DTYPE_BITS[c.kind.dtype] == 8 * (c.end - c.begin)
        position = c.end
    assert position == end
    return cuts


def test_bytes_are_cut_by_size_for_ever() -> None:
    for i, found in enumerate(islice(plan.cuts(Layout("", ()), CHUNK), 50)):
        assert found == Cut(CHUNK * i, CHUNK * (i + 1), BYTES, -1)


def test_anonymous_elements_are_one_series_and_stay_whole() -> None:
    for dtype in ("F32", "F6_E2M3"):
        found = list(islice(plan.cuts(Layout("", (), Kind(dtype, ())), CHUNK), 3))
        assert {c.series for c in found} == {0} and {c.kind for c in found} == {Kind(dtype, ())}
        assert all(8 * c.begin % DTYPE_BITS[dtype] == 0 for c in found)


def test_large_tensor_is_cut_between_rows_evenly() -> None:
    found = cut(tensors(("BF16", (30522, 384))))
    assert found[0] == Cut(0, 100, BYTES, -1)
    rows = [c.kind.shape for c in found[1:]]
    assert rows == [(5087, 384)] * 6
    assert {c.series for c in found[1:]} == {0}


def test_every_tensor_is_a_series() -> None:
    found = cut(tensors(("F32", (1024, 1024)), ("F32", (1024, 2048)), ("U8", (65536,))))
    assert [c.series for c in found] == [-1, 0, 1, 1, 2]
    assert found[-1].kind == Kind("U8", (65536,))


def test_long_rows_are_cut_between_words() -> None:
    for dtype in ("F32", "F4", "F6_E2M3", "F64"):
        found = cut(tensors((dtype, (2, 3_000_000))), MIB)[1:]
        assert {c.kind for c in found} == {Kind(dtype, ())}
        step = 48 if dtype == "F6_E2M3" else 16
        assert all((c.begin - 100) % step == 0 for c in found)
        sizes = [c.end - c.begin for c in found]
        assert max(sizes) - min(sizes) <= step * 2


def test_rows_that_end_inside_a_byte_stay_together() -> None:
    for dtype, columns in (("F4", 333), ("F6_E3M2", 333), ("F6_E3M2", 2)):
        found = cut(tensors((dtype, (40_000, columns))), MIB)[1:]
        assert all(c.kind.shape for c in found)
        assert sum(c.kind.shape[0] for c in found) == 40_000


def test_small_neighbours_of_one_dtype_share_a_chunk() -> None:
    first, second = [("F32", (1000,))] * 3, [("F32", (5000,))] * 2
    found = cut(tensors(*first, ("F32", (65536,)), *second, ("BF16", (5000,))))
    assert [(c.kind, c.series) for c in found] == [
        (BYTES, -1),
        (Kind("F32", ()), 0),
        (Kind("F32", (65536,)), 1),
        (Kind("F32", ()), 2),
        (Kind("BF16", (5000,)), 3),
    ]


def test_groups_fit_a_chunk() -> None:
    found = cut(tensors(*[("F32", (15_000,))] * 200))
    assert len(found) == 1 + 3
    assert all(c.kind == Kind("F32", ()) for c in found[1:])


def test_tiny_tensors_cost_no_record_each() -> None:
    alternating = [("F32", (3,)), ("BF16", (5, 2)), ("I64", ())] * 30_000
    found = cut(tensors(*alternating))
    assert len(found) == 2
    assert found[1].kind == BYTES
    mixed = cut(tensors(("F32", (2000,)), ("BF16", (10,)), ("F32", (10,)), ("BF16", (5000,))))
    assert [c.kind for c in mixed[1:]] == [Kind("F32", (2000,)), BYTES, Kind("BF16", (5000,))]


def test_what_lies_between_tensors_is_bytes() -> None:
    a, b = Entry("a", "F32", (4,), 10, 26), Entry("b", "F32", (4,), 30, 46)
    empty = Entry("z", "F32", (0,), 26, 26)
    assert cut(Layout("", (a, empty, b))) == [
        Cut(0, 10, BYTES, -1),
        Cut(10, 26, Kind("F32", (4,)), 0),
        Cut(26, 30, BYTES, -1),
        Cut(30, 46, Kind("F32", (4,)), 1),
    ]


def test_claims_of_more_than_there_is_cost_nothing() -> None:
    found = tensors(("F32", (2**31, 2**28)), ("U8", (2**60, 1)), ("F4", (1, 2**62)))
    assert next(islice(plan.cuts(found, CHUNK), 1000, None)).series == 0


def test_part_of_a_cut_keeps_what_is_still_true() -> None:
    whole = Cut(100, 180, Kind("F32", (4, 5)), 3)
    assert plan.part(whole, 100, 180) is whole
    assert plan.part(whole, 100, 140) == Cut(100, 140, Kind("F32", ()), -1)
    assert plan.part(whole, 140, 180) == Cut(140, 180, Kind("F32", ()), -1)
    assert plan.part(whole, 100, 141) == Cut(100, 141, BYTES, -1)
    assert plan.part(whole, 101, 141) == Cut(101, 141, BYTES, -1)
    shapeless = Cut(100, 180, Kind("F32", ()), 3)
    assert plan.part(shapeless, 100, 140) == Cut(100, 140, Kind("F32", ()), 3)
    assert plan.part(Cut(0, 48, Kind("F6_E2M3", ()), 0), 0, 4).kind == BYTES
    assert plan.part(Cut(0, 48, BYTES, -1), 7, 11) == Cut(7, 11, BYTES, -1)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["U8", "F32", "BF16", "F64"]),
            st.lists(st.integers(0, 40), max_size=3).map(tuple),
        ),
        max_size=40,
    ),
    st.sampled_from([4096, 5000, 70_000, CHUNK]),
    st.integers(0, 9000),
)
def test_cuts_tile_the_content_and_keep_words_whole(
    shapes: list[tuple[str, tuple[int, ...]]], chunk_size: int, base: int
) -> None:
    found = tensors(*shapes, base=base)
    cuts = cut(found, chunk_size)
    assert cuts == cut(found, chunk_size)
    for c in cuts:
        inside = [e for e in found.entries if max(e.begin, c.begin) < min(e.end, c.end)]
        if c.kind.dtype:
            assert {e.dtype for e in inside} == {c.kind.dtype}
            assert (c.begin - inside[0].begin) * 8 % DTYPE_BITS[c.kind.dtype] == 0
