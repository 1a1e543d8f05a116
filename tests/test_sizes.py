"""Sizes are deterministic, so they are a test: a change that makes one larger, or smaller, shows here.

After a change that is meant, `python tests/test_sizes.py` writes the table anew.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import brevis

DATA = Path(__file__).parent / "data"
TABLE = DATA / "sizes.json"
SLICES = {"minilm-rows": (256, 384), "crepe-conv5": (16, 128, 64)}
LEVELS = (1, 2, 4, 6, 9)


def cast(array: np.ndarray, dtype: str) -> bytes:
    if dtype == "BF16":
        bits = array.view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16).tobytes()
    return array.astype({"F32": "<f4", "F16": "<f2", "F64": "<f8", "I8": "i1"}[dtype]).tobytes()


def tensors():
    for name, shape in SLICES.items():
        path = next((DATA / "weights").glob(f"{name}*"))
        array = np.fromfile(path, "<f4").reshape(shape)
        for dtype in ("F32", "BF16", "F16", "F64"):
            yield f"{name} {dtype}", dtype, shape, cast(array, dtype)
        scale = 127 / np.abs(array).max()
        yield f"{name} I8", "I8", shape, cast(np.rint(array * scale), "I8")
        dequantised = (np.rint(array * scale) / scale).astype(np.float32)
        yield f"{name} dequantised F32", "F32", shape, dequantised.tobytes()
        yield f"{name} dequantised BF16", "BF16", shape, cast(dequantised, "BF16")


def archive(dtype: str, shape: tuple[int, ...], data: bytes, level: int) -> bytes:
    view = memoryview(data).cast("B", shape=[*shape, len(data) // int(np.prod(shape))])
    return brevis.compress(view, level=level, dtype=dtype)


def sizes() -> dict[str, dict[str, int]]:
    return {
        name: {str(level): len(archive(dtype, shape, data, level)) for level in LEVELS}
        for name, dtype, shape, data in tensors()
    }


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "data"), list(tensors()), ids=lambda v: v if isinstance(v, str) else ""
)
def test_size_and_content(name, dtype, shape, data):
    table = json.loads(TABLE.read_text())
    for level in LEVELS:
        made = archive(dtype, shape, data, level)
        assert brevis.decompress(made) == data
        assert len(made) == table[name][str(level)], f"level {level}"


def test_more_effort_is_not_larger():
    """But for what an estimate may be wrong by."""
    for name, row in json.loads(TABLE.read_text()).items():
        assert row["6"] <= row["1"] * 1.001, name
        assert row["9"] <= row["6"] * 1.001, name


if __name__ == "__main__":
    TABLE.write_text(json.dumps(sizes(), indent=1) + "\n")
