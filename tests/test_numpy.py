"""Checkpoints as numpy arrays: the same as safetensors loads, and as strict."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from brevis import errors, file
from brevis.codec import Encoder
from brevis.sources import DTYPE_BITS

np = pytest.importorskip("numpy")

from brevis.adapters import numpy as adapter  # noqa: E402
from brevis.numpy import load, load_file  # noqa: E402

ODD = Path(__file__).parent / "data" / "safetensors-odd"


def checkpoint(tensors: dict[str, tuple[str, list[int]]], gap: str = "") -> bytes:
    """Make a safetensors file with these dtypes and shapes, of random bytes."""
    header, end = {}, 0
    for name, (dtype, shape) in tensors.items():
        begin, end = end, end + int(np.prod(shape, dtype=int)) * DTYPE_BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = (json.dumps(header) + gap).encode()
    return len(text).to_bytes(8, "little") + text + random.Random(end).randbytes(end)


def archive_of(content: bytes, chunk_size: int = 4096) -> bytes:
    encoder = Encoder(chunk_size=chunk_size, threads=1)
    return b"".join([*encoder.write(content), *encoder.finish()])


NATIVE = ["BOOL", "U8", "I8", "I16", "U16", "F16", "I32", "U32", "F32", "C64", "F64", "I64", "U64"]
SHAPES: list[list[int]] = [[3, 5], [], [0], [2, 0, 3], [1], [70, 100], [3000], [2, 2, 2, 2]]


def mixture(dtypes: list[str]) -> dict[str, tuple[str, list[int]]]:
    rng = random.Random(len(dtypes))
    return {
        f"{dtype}.{i}": (dtype, shape)
        for i, shape in enumerate(SHAPES)
        for dtype in rng.sample(dtypes, len(dtypes))
    }


@pytest.mark.parametrize("chunk_size", [4096, 1 << 20])
def test_loads_what_safetensors_loads(tmp_path: Path, chunk_size: int) -> None:
    official = pytest.importorskip("safetensors.numpy")
    content = checkpoint(mixture(NATIVE), gap="   ")
    expected = official.load(content)
    path = tmp_path / "a.brv"
    path.write_bytes(archive_of(content, chunk_size))
    for loaded in (load(path.read_bytes()), load_file(path), load_file(str(path))):
        assert list(loaded) == list(mixture(NATIVE))
        for name, array in loaded.items():
            assert (array.dtype, array.shape) == (expected[name].dtype, expected[name].shape)
            assert array.tobytes() == expected[name].tobytes()  # bytes, for NaNs differ from themselves


def test_arrays_are_writable_and_aligned() -> None:
    content = checkpoint({f"t{i}": ("F32", [i, 7]) for i in range(1, 40)})
    before = load(archive_of(content))
    loaded = load(archive_of(content))
    for array in loaded.values():
        assert array.flags.writeable and array.flags.aligned and array.flags.c_contiguous
        assert array.ctypes.data % 64 == 0
        array[...] = 1
    assert all((array == 1).all() for array in loaded.values())
    assert not any((array == 1).all() for array in before.values())


def test_large_tensors_are_decoded_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = []
    real = adapter._Memory._copy

    def note(self: Any, piece: memoryview, begin: int, end: int) -> None:
        copied.append(len(piece))
        real(self, piece, begin, end)

    monkeypatch.setattr(adapter._Memory, "_copy", note)
    content = checkpoint({"a": ("F32", [1000, 100]), "b": ("F16", [5]), "c": ("U8", [200_000])})
    assert load(file.compress(content))["c"].nbytes == 200_000
    assert sum(copied) < 1000


def test_ml_dtypes_come_as_they_are_stored() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = {
        "BF16": ml_dtypes.bfloat16,
        "F8_E5M2": ml_dtypes.float8_e5m2,
        "F8_E4M3": ml_dtypes.float8_e4m3fn,
    }
    dtypes = [dtype for dtype in DTYPE_BITS if dtype not in NATIVE]
    assert len(dtypes) == 9
    content = checkpoint({dtype: (dtype, [8, 4]) for dtype in dtypes})
    loaded = load(archive_of(content))
    for dtype in dtypes:
        array = loaded[dtype]
        assert array.shape == (8, 4)
        assert array.ctypes.data % 64 == 0 and array.flags.writeable
        if dtype in values:
            assert array.dtype == values[dtype]
    header = 8 + int.from_bytes(content[:8], "little")
    place = header
    for dtype in dtypes:  # each element is a field of the stored bits, the first in the lowest
        size, bits = 32 * DTYPE_BITS[dtype] // 8, DTYPE_BITS[dtype]
        stored = int.from_bytes(content[place : place + size], "little")
        width = loaded[dtype].dtype.itemsize
        raw = loaded[dtype].tobytes()
        for i in range(32):
            element = int.from_bytes(raw[i * width : (i + 1) * width], "little")
            assert element == stored >> i * bits & (1 << bits) - 1
        place += size


def test_missing_ml_dtypes_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(errors.UnsupportedError, match="ml_dtypes"):
        load(archive_of(checkpoint({"a": ("BF16", [2])})))
    assert load(archive_of(checkpoint({"a": ("F16", [2])})))["a"].shape == (2,)


@pytest.mark.parametrize("path", sorted(ODD.glob("*.safetensors")), ids=lambda path: path.stem)
def test_is_as_strict_as_safetensors(path: Path) -> None:
    verdicts = {item["file"]: item for item in json.loads((ODD / "manifest.json").read_text())}
    content = path.read_bytes()
    archive = file.compress(content)
    assert file.decompress(archive) == content
    if verdicts[path.name]["accepted_by_safetensors_0_8"]:
        found = {name: list(array.shape) for name, array in load(archive).items()}
        listed = eval(verdicts[path.name]["tensors"], {"__builtins__": {}})
        assert found == {name: shape for name, _, shape in listed}
    else:
        with pytest.raises(errors.MalformedError):
            load(archive)


def test_random_headers_get_the_official_verdict() -> None:
    official = pytest.importorskip("safetensors.numpy")
    rng = random.Random(3)
    plain = checkpoint({"a": ("U8", [4]), "b": ("F16", [2, 1]), "c": ("I32", [0])})
    size = int.from_bytes(plain[:8], "little")
    header, data = plain[8 : 8 + size].decode(), plain[8 + size :]
    spare: list[Any] = [
        "0",
        "1",
        "4",
        "-1",
        "1.0",
        "[",
        "]",
        "{",
        "}",
        '"',
        ",",
        " ",
        "null",
        '"a"',
        '"b"',
        "\\ud800",
        "1e3",
        "NaN",
    ]
    accepted = 0
    for _ in range(3000):
        text = header
        for _ in range(rng.randrange(1, 3)):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(spare) + text[at + rng.choice([0, 1, 1, 3]) :]
        content = len(text).to_bytes(8, "little") + text.encode() + data
        try:
            expected = official.load(content)
        except Exception:
            with pytest.raises(errors.MalformedError):
                load(archive_of(content))
        else:
            accepted += 1
            loaded = load(archive_of(content))
            assert {k: (v.shape, v.tobytes()) for k, v in loaded.items()} == {
                k: (v.shape, v.tobytes()) for k, v in expected.items()
            }
    assert accepted > 50


def test_a_name_twice_in_one_header_means_its_last() -> None:
    official = pytest.importorskip("safetensors.numpy")
    tensor = '"a":{"dtype":"U8","shape":%s,"data_offsets":[0,4]}'
    for shapes in (("[4]", "[4]"), ("[4]", "[2,2]"), ("[2,2]", "[4]")):
        text = "{" + ",".join(tensor % shape for shape in shapes) + "}"
        content = len(text).to_bytes(8, "little") + text.encode() + b"data"
        assert load(file.compress(content))["a"].shape == official.load(content)["a"].shape


def test_members_come_together_and_a_name_twice_is_an_error() -> None:
    one, two = checkpoint({"a": ("U8", [4])}), checkpoint({"b": ("F32", [3])})
    loaded = load(archive_of(one) + archive_of(two))
    assert {name: array.shape for name, array in loaded.items()} == {"a": (4,), "b": (3,)}
    assert loaded["b"].tobytes() == two[-12:]
    with pytest.raises(errors.MalformedError, match="'a'"):
        load(archive_of(one) + archive_of(two) + archive_of(one))


def test_other_contents_are_malformed() -> None:
    for content in (b"", b"text", bytes(100), np.arange(100)):
        with pytest.raises(errors.MalformedError):
            load(file.compress(content))


def test_every_fault_is_found() -> None:
    archive = bytearray(archive_of(checkpoint({"a": ("F32", [30, 50]), "b": ("U8", [10])})))
    expected = load(archive)["a"].tobytes()
    for cut in range(0, len(archive), 97):
        with pytest.raises(errors.TruncatedError):
            load(archive[:cut])
    for position in range(0, len(archive), 31):
        archive[position] ^= 4
        try:
            assert load(archive)["a"].tobytes() == expected
        except errors.Error as error:
            with pytest.raises(type(error)):
                file.decompress(archive)
        archive[position] ^= 4
