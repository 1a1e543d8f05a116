"""A hundred thousand tiny tensors must not cost a hundred thousand records."""

import json

import numpy as np
import pytest

import brevis


def checkpoint(shapes: dict[str, tuple[str, list[int]]], data: bytes) -> bytes:
    described, end = {}, 0
    for name, (dtype, shape) in shapes.items():
        size = int(np.prod(shape)) * {"BF16": 2, "F32": 4}[dtype]
        described[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    header = json.dumps(described, separators=(",", ":")).encode()
    assert end == len(data)
    return len(header).to_bytes(8, "little") + header + data


def weights(count: int) -> bytes:
    values = np.random.default_rng(0).standard_normal(count, dtype=np.float32)
    return (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()


@pytest.fixture(scope="module")
def names() -> list[str]:
    return [f"model.layers.{i // 100}.experts.{i % 100}.scale" for i in range(100_000)]


def test_100_000_tensors_grow_by_no_more_than_their_names_cost(names):
    data = weights(1_600_000)
    many = checkpoint({name: ("BF16", [4, 4]) for name in names}, data)
    one = checkpoint({"w": ("BF16", [400_000, 4])}, data)
    archive = brevis.compress(many)
    assert brevis.decompress(archive) == many
    grown = len(archive) - len(brevis.compress(one))
    assert grown <= sum(map(len, names)) / 4
    assert len(archive) < len(data)  # names, shapes and places included


def test_alternating_dtypes_share_chunks(names):
    kinds = [("BF16", [4, 2]), ("F32", [4])]
    shapes = {name: kinds[i % 2] for i, name in enumerate(names[:20_000])}
    content = checkpoint(shapes, weights(160_000))
    archive = brevis.compress(content)
    assert brevis.decompress(archive) == content
    assert len(archive) < len(content) / 2
