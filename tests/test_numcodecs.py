"""The codecs for numcodecs and Zarr, in format 2 and 3."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import brevis

np = pytest.importorskip("numpy")
numcodecs = pytest.importorskip("numcodecs")

from brevis.adapters.numcodecs import Brevis  # noqa: E402

DTYPES = ["u1", "i2", "<f2", ">f4", "f4", "f8", "c8", "c16", "?", "M8[s]", "S3"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trip(dtype: str) -> None:
    array = np.arange(3000).astype(dtype).reshape(50, 60)
    codec = numcodecs.get_codec({"id": "brevis", "level": 3})
    assert codec == Brevis(level=3) and codec.get_config() == {"id": "brevis", "level": 3}
    for view in (array, array.T, array[:1], array[:0], array.tobytes()):
        encoded = codec.encode(view)
        raw = view if isinstance(view, bytes) else view.tobytes("A")
        assert bytes(codec.decode(encoded)) == raw == brevis.decompress(encoded)
        out = np.empty(len(raw), np.uint8)
        assert codec.decode(np.frombuffer(encoded, np.uint8), out=out) is out and out.tobytes() == raw
    with pytest.raises(ValueError):
        codec.decode(codec.encode(array), out=np.empty(array.nbytes + 1, np.uint8))


def test_levels() -> None:
    assert repr(Brevis()) == "Brevis(level=6)"
    with pytest.raises(ValueError, match="level"):
        Brevis(level=10)


def test_dtype_and_shape_are_made_use_of() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((200, 300), np.float32) * 2.0 ** rng.integers(-30, 30, (200, 1))
    values = values.astype(np.float32)
    assert len(Brevis().encode(values)) < 0.97 * len(brevis.compress(values.tobytes()))


@pytest.mark.parametrize("group, name", [("numcodecs.codecs", "Brevis"), ("zarr.codecs", "BrevisCodec")])
def test_entry_points(group: str, name: str) -> None:
    found = [entry for entry in entry_points(group=group) if entry.name == "brevis"]
    if not found:
        pytest.skip("the package isn't installed, only importable")
    if group.startswith("zarr"):
        pytest.importorskip("zarr", minversion="3")
    assert found[0].load().__name__ == name


def fill(array: Any, values: Any) -> None:
    array[:] = values
    assert (array[:] == values).all()
    assert (array[7:40, 3] == values[7:40, 3]).all()


@pytest.mark.parametrize("order", ["C", "F"])
def test_zarr_format_2(tmp_path: Path, order: str) -> None:
    zarr = pytest.importorskip("zarr")
    values = np.random.default_rng(0).standard_normal((300, 40), np.float32)
    options = {"zarr_format": 2} if int(zarr.__version__.split(".")[0]) > 2 else {}
    array = zarr.open(
        str(tmp_path / "a"),
        mode="w",
        shape=values.shape,
        chunks=(100, 30),
        dtype="f4",
        order=order,
        compressor=Brevis(level=4),
        **options,
    )
    fill(array, values)
    assert json.loads((tmp_path / "a" / ".zarray").read_text())["compressor"] == {"id": "brevis", "level": 4}
    assert (zarr.open(str(tmp_path / "a"), mode="r")[:] == values).all()
    assert brevis.decompress((tmp_path / "a" / "0.0").read_bytes())[:4] == values[0, 0].tobytes()


@pytest.mark.parametrize("dtype", ["f4", ">f4", "i8", "u1", "?"])
def test_zarr_format_3(tmp_path: Path, dtype: str) -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    from brevis.adapters.zarr import BrevisCodec

    values = (100 * np.random.default_rng(0).standard_normal((300, 40))).astype(dtype)
    path = str(tmp_path / "a")
    array = zarr.create_array(
        path, shape=values.shape, chunks=(100, 30), dtype=values.dtype, compressors=BrevisCodec(level=4)
    )
    fill(array, values)
    described = json.loads((tmp_path / "a" / "zarr.json").read_text())["codecs"][-1]
    assert described == {"name": "brevis", "configuration": {"level": 4}}
    again = zarr.open(path, mode="r")
    assert (again[:] == values).all() and again.compressors == (BrevisCodec(level=4),)
    with pytest.raises(ValueError, match="level"):
        BrevisCodec(level=0)


def test_zarr_shards(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    from brevis.adapters.zarr import BrevisCodec

    values = np.random.default_rng(0).standard_normal((300, 40), np.float32)
    array = zarr.create_array(
        str(tmp_path / "a"),
        shape=values.shape,
        chunks=(50, 20),
        shards=(300, 40),
        dtype="f4",
        compressors=BrevisCodec(),
    )
    fill(array, values)
