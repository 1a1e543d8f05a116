"""Every dtype of safetensors, and every bit of its elements, in and out, through numpy and torch."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import brevis
from brevis import errors
from brevis.sources import DTYPE_BITS

np = pytest.importorskip("numpy")

from brevis.numpy import load, save  # noqa: E402

NATIVE = ["BOOL", "U8", "I8", "I16", "U16", "F16", "I32", "U32", "F32", "C64", "F64", "I64", "U64"]
FRAMEWORKS = ["np", "pt"]

# Patterns that arithmetic, and copies by value, would change: both zeros, the least and greatest denormal,
# the least normal, infinities, and NaNs, quiet and signalling, with payloads.
SPECIAL = {
    32: [0, 1, 0x7FFFFF, 0x800000, 0x7F800000, 0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FC12345, 0x7FFFFFFF],
    64: [
        0,
        1,
        0xFFFFFFFFFFFFF,
        0x10000000000000,
        0x7FF0000000000000,
        0x7FF0000000000001,
        0x7FF7FFFFFFFFFFFF,
        0x7FF8000000000000,
        0x7FF8DEADBEEF1234,
        0x7FFFFFFFFFFFFFFF,
    ],
}


def patterns(dtype: str) -> bytes:
    """Elements of every bit pattern, or all kinds of special ones among random ones; a multiple of eight."""
    bits = DTYPE_BITS[dtype]
    if bits < 8:
        elements = range(1 << bits)
        return sum(element << i * bits for i, element in enumerate(elements)).to_bytes(
            bits << bits >> 3, "little"
        )
    if bits <= 16:
        elements = range(1 << bits)
        return b"".join(element.to_bytes(bits // 8, "little") for element in elements)
    part = 32 if dtype == "C64" else bits
    special = [pattern | sign << part - 1 for pattern in SPECIAL[part] for sign in (0, 1)]
    rng = random.Random(bits)
    elements = [*special, *(rng.getrandbits(part) for _ in range(4 << 10)), *special] * 2
    rng.shuffle(elements)
    elements = elements[: len(elements) // 16 * 16]
    return b"".join(element.to_bytes(part // 8, "little") for element in elements)


def checkpoint(dtype: str, shape: list[int], data: bytes) -> bytes:
    header = {"t": {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)]}}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def framework(name: str) -> Any:
    if name == "np":
        pytest.importorskip("ml_dtypes")
        from brevis.adapters import numpy as module
    else:
        pytest.importorskip("torch")
        from brevis.adapters import torch as module
    return module


@pytest.mark.parametrize("name", FRAMEWORKS)
@pytest.mark.parametrize("dtype", DTYPE_BITS)
def test_every_bit_comes_back(dtype: str, name: str) -> None:
    module = framework(name)
    data = patterns(dtype)
    count = 8 * len(data) // DTYPE_BITS[dtype]
    content = checkpoint(dtype, [count // 8, 8], data)
    archive = brevis.compress(content)
    assert brevis.decompress(archive) == content
    if name == "pt" and dtype.startswith("F6_"):
        with pytest.raises(errors.UnsupportedError, match=dtype):
            module.load(archive)
        return
    tensor = module.load(archive)["t"]
    assert tuple(tensor.shape) == (count // 8, 4 if name == "pt" and dtype == "F4" else 8)
    again = brevis.decompress(module.save({"t": tensor}))
    assert again == content  # which the safetensors package would have written so as well


@pytest.mark.parametrize("name", FRAMEWORKS)
@pytest.mark.parametrize("dtype", DTYPE_BITS)
@pytest.mark.parametrize("shape", [[], [0], [2, 0, 3], [1, 1, 8]], ids=str)
def test_shapes(dtype: str, name: str, shape: list[int]) -> None:
    module = framework(name)
    bits = DTYPE_BITS[dtype] * int(np.prod(shape, dtype=int))
    archive = brevis.compress(checkpoint(dtype, shape, random.Random(1).randbytes(bits // 8)))
    if bits % 8:
        with pytest.raises(errors.MalformedError):
            module.load(archive)
    elif name == "pt" and (dtype.startswith("F6_") or (dtype == "F4" and shape[-1] % 2)):
        with pytest.raises(errors.UnsupportedError):
            module.load(archive)
    else:
        tensor = module.load(archive)["t"]
        halved = name == "pt" and dtype == "F4"
        assert list(tensor.shape) == ([*shape[:-1], shape[-1] // 2] if halved else shape)
        assert brevis.decompress(module.save({"t": tensor})) == brevis.decompress(archive)


@pytest.mark.parametrize("dtype", NATIVE)
def test_official_bytes_and_arrays(dtype: str) -> None:
    official = pytest.importorskip("safetensors.numpy")
    content = checkpoint(dtype, [len(patterns(dtype)) * 8 // DTYPE_BITS[dtype]], patterns(dtype))
    expected = official.load(content)["t"]
    found = load(brevis.compress(content))["t"]
    assert (found.dtype, found.shape, found.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())
    assert brevis.decompress(save({"t": expected})) == official.save({"t": expected}) == content
    assert official.load(brevis.decompress(save({"t": found})))["t"].tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPE_BITS if not dtype.startswith("F6_")])
def test_official_bytes_and_tensors(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    official = pytest.importorskip("safetensors")
    module = framework("pt")
    content = checkpoint(dtype, [len(patterns(dtype)) * 8 // DTYPE_BITS[dtype]], patterns(dtype))
    found = module.load(brevis.compress(content))["t"]
    assert dict(official.deserialize(content))["t"]["dtype"] == dtype
    from safetensors.torch import save as official_save

    assert official_save({"t": found}) == content
    assert bytes(found.view(torch.uint8).numpy()) == patterns(dtype)


def test_big_endian_arrays_are_turned() -> None:
    for kind in ("i2", "u4", "f4", "f8", "c8"):
        raw = patterns("I64")[: 8 << 7]
        big = np.frombuffer(raw, f">{kind}")
        little = np.frombuffer(raw, f"<{kind}").byteswap()
        stored = load(save({"t": big}))["t"]
        assert stored.dtype == np.dtype(f"<{kind}") and stored.tobytes() == little.tobytes()


def test_sub_byte_elements_above_their_bits_are_dropped() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for kind, bits in (("float4_e2m1fn", 4), ("float6_e2m3fn", 6), ("float6_e3m2fn", 6)):
        array = np.arange(1 << bits, dtype=np.uint8).view(getattr(ml_dtypes, kind)).reshape(-1, 4)
        content = brevis.decompress(save({"t": array}))
        assert load(brevis.compress(content))["t"].tobytes() == array.tobytes()
        assert load(save({"t": array[::2]}))["t"].tobytes() == array[::2].tobytes()
        with pytest.raises(ValueError, match="last byte"):
            save({"t": array.reshape(-1)[:3]})


def test_dtypes_that_safetensors_has_not() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for kind in (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float8_e3m4, "c16", "M8[s]", "S3", "O", "f2,f2"):
        with pytest.raises(errors.UnsupportedError, match="t: safetensors has no dtype"):
            save({"t": np.zeros(8, kind)})
