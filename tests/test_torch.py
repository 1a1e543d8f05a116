"""Checkpoints as torch's tensors: the same as safetensors loads and saves."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import brevis
from brevis import errors

torch = pytest.importorskip("torch", reason="torch is not installed, and nothing else needs it")

from brevis.adapters.tensors import safe_open  # noqa: E402
from brevis.adapters.writer import CheckpointWriter  # noqa: E402
from brevis.torch import load, load_file, save, save_file  # noqa: E402


def tensors() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    return {
        "half": torch.randn(60, 70, generator=generator).to(torch.bfloat16),
        "full": torch.randn(300, 200, generator=generator),
        "cube": torch.randint(-99, 99, (7, 30, 41), dtype=torch.int16, generator=generator),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "empty": torch.zeros(2, 0, 3),
        "flags": torch.rand(1234, generator=generator) > 0.5,
        "eight": torch.randn(9, 5, generator=generator).to(torch.float8_e4m3fn),
    }


def same(one: Any, two: Any) -> bool:
    if (one.dtype, one.shape, one.device) != (two.dtype, two.shape, two.device):
        return False
    one, two = (x.contiguous().reshape(-1).view(torch.uint8) for x in (one, two))
    return bool((one == two).all())


def test_saves_and_loads_what_safetensors_does(tmp_path: Path) -> None:
    official = pytest.importorskip("safetensors.torch")
    expected = official.save(tensors(), {"format": "pt"})
    path = tmp_path / "model.safetensors.brv"
    save_file(tensors(), path, {"format": "pt"}, level=1, threads=2)
    assert brevis.decompress(path.read_bytes()) == expected
    assert brevis.decompress(save(tensors(), {"format": "pt"})) == expected
    for loaded in (load_file(path), load(path.read_bytes()), load_file(str(path), "cpu")):
        assert set(loaded) == set(tensors())
        for name, tensor in official.load(expected).items():
            assert same(loaded[name], tensor)
            assert not loaded[name].numel() or loaded[name].data_ptr() % 64 == 0
            if loaded[name].numel():
                loaded[name].reshape(-1).view(torch.uint8).fill_(7)  # it's the caller's own
    assert (
        official.load(brevis.decompress(save(load_file(path), {"format": "pt"}))).keys() == tensors().keys()
    )


def test_safe_open(tmp_path: Path) -> None:
    official = pytest.importorskip("safetensors")
    path = tmp_path / "model.safetensors.brv"
    save_file(tensors(), path, {"format": "pt"}, level=1)
    plain = tmp_path / "model.safetensors"
    plain.write_bytes(brevis.decompress(path.read_bytes()))
    with safe_open(path, "pt") as file, official.safe_open(plain, "pt") as other:
        assert file.metadata() == other.metadata()
        assert file.offset_keys() == other.offset_keys()
        for name in tensors():
            assert same(file.get_tensor(name), other.get_tensor(name))
            out = torch.empty_like(tensors()[name])
            assert file.get_tensor(name, out=out) is out and same(out, tensors()[name])
        for index in (3, -1, slice(2, 5), slice(None, None, 2), (..., 7), (slice(1, 9), slice(3, 4)), (0, 0)):
            for name in ("full", "half"):
                assert same(file.get_slice(name)[index], other.get_slice(name)[index])
        for index in (
            [4, 1],
            (slice(None), [0, 2, 2]),
            slice(0, 99_999),
            slice(5, 2),
            None,
            torch.tensor([1]),
        ):
            assert same(file.get_slice("full")[index], other.get_slice("full")[index])
        strided = torch.zeros(41, 30, 7, dtype=torch.int16).permute(2, 1, 0)
        assert same(file.get_tensor("cube", out=strided), tensors()["cube"])
        with pytest.raises(ValueError, match="cube: out"):
            file.get_tensor("cube", out=torch.zeros(7, 30, 41))
        with pytest.raises(TypeError, match="cube: out"):
            file.get_tensor("cube", out=[])


def test_devices(tmp_path: Path) -> None:
    """The device "meta" has no memory, but goes the way of all that aren't the CPU."""
    path = tmp_path / "a.brv"
    save_file(tensors(), path, level=1)
    for device in ("meta", torch.device("meta")):
        loaded = load_file(path, device=device)
        assert all(tensor.device.type == "meta" for tensor in loaded.values())
        assert {name: tensor.shape for name, tensor in loaded.items()} == {
            name: tensor.shape for name, tensor in tensors().items()
        }
        with safe_open(path, "pt", device=device) as file:
            assert file.get_tensor("half").device.type == "meta"
            assert file.get_slice("half")[3].shape == (70,)
    for load_from in (load_file, lambda path, device: safe_open(path, "pt", device)):
        with pytest.raises(ValueError, match="nowhere"):
            load_from(path, "nowhere")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_gpu(tmp_path: Path) -> None:
    path = tmp_path / "a.brv"
    save_file({name: tensor.cuda() for name, tensor in tensors().items()}, path, level=1)
    loaded = load_file(path, device="cuda:0")
    with safe_open(path, "pt", device=0) as file:
        for name, tensor in tensors().items():
            assert same(loaded[name], tensor.to("cuda:0"))
            assert same(file.get_tensor(name), tensor.to("cuda:0"))
            out = torch.empty_like(loaded[name])
            assert file.get_tensor(name, out=out) is out and same(out, tensor.to("cuda:0"))


def test_saves_any_strides() -> None:
    tensor = torch.arange(5040, dtype=torch.int32).reshape(7, 8, 90)
    for view in (
        tensor.permute(2, 0, 1),
        tensor[::2, :, ::3],
        tensor[:, 3],
        tensor[..., None],
        tensor[:0],
        tensor[1:2].expand(3, 8, 90),
    ):
        assert torch.equal(load(save({"a": view}))["a"], view)
    wide = torch.zeros(3, 5 << 20, dtype=torch.int8)
    wide[2, -1] = 5
    assert torch.equal(load(save({"a": wide.T}, level=1))["a"], wide.T)
    parameter = torch.nn.Parameter(torch.ones(3))
    assert torch.equal(load(save({"a": parameter}))["a"], torch.ones(3))


def test_refuses_what_would_come_back_otherwise() -> None:
    tensor = torch.zeros(6, 4)
    for shared in ({"a": tensor, "b": tensor}, {"a": tensor[:4], "c": torch.ones(2), "b": tensor[3:]}):
        with pytest.raises(RuntimeError, match="'a' and 'b' share memory"):
            save(shared)
    assert set(load(save({"a": tensor[:3], "b": tensor[3:]}))) == {"a", "b"}
    with pytest.raises(TypeError, match="a: list"):
        save({"a": [1.0]})
    with pytest.raises(errors.UnsupportedError, match="complex128"):
        save({"a": torch.zeros(2, dtype=torch.complex128)})
    with pytest.raises(errors.UnsupportedError, match="sparse"):
        save({"a": torch.zeros(2, 2).to_sparse()})


def test_dtypes_and_shapes_that_torch_has_not() -> None:
    cases = [("F6_E2M3", [4], 3), ("F4", [2, 3, 1], 3), ("F32", [0, 2**63], 0), ("F32", [0, *[2**31] * 4], 0)]
    for dtype, shape, size in cases:
        text = json.dumps({"a": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}).encode()
        archive = brevis.compress(len(text).to_bytes(8, "little") + text + bytes(size))
        with pytest.raises(errors.UnsupportedError):
            load(archive)
        with safe_open(io.BytesIO(archive), "pt") as file, pytest.raises(errors.UnsupportedError):
            file.get_tensor("a")


def test_the_writer_takes_torch_tensors(tmp_path: Path) -> None:
    path = tmp_path / "a.brv"
    specs = {name: tensor.to("meta") for name, tensor in tensors().items()}
    with CheckpointWriter(path, specs, framework="pt", level=1) as writer:
        for name, tensor in tensors().items():
            writer.write(name, tensor)
    loaded = load_file(path)
    assert list(loaded) == list(tensors())
    assert all(same(loaded[name], tensor) for name, tensor in tensors().items())


# Models


def small_model() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Embedding(100, 64), torch.nn.Linear(64, 300), torch.nn.GELU(), torch.nn.BatchNorm1d(300)
    )


def test_loads_straight_into_a_model(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.brv"
    source = small_model()
    save_file(source.state_dict(), path)
    target = small_model()
    for parameter in target.parameters():
        torch.nn.init.constant_(parameter, 9.0)
    memory = {name: tensor.data_ptr() for name, tensor in target.state_dict().items()}
    load_file(path, out=target.state_dict())
    for name, tensor in target.state_dict().items():
        assert tensor.data_ptr() == memory[name] and torch.equal(tensor, source.state_dict()[name])
    other = small_model()
    other.load_state_dict(load_file(path))
    assert all(torch.equal(a, b) for a, b in zip(other.parameters(), source.parameters(), strict=True))


def test_a_sharded_transformers_model_by_state_dict(tmp_path: Path) -> None:
    """A Hugging Face folder, compressed file by file, into a model that nobody patched."""
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=99,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(tmp_path / "plain", max_shard_size="60KB")
    index = json.loads((tmp_path / "plain" / "model.safetensors.index.json").read_text())
    shards = sorted(set(index["weight_map"].values()))
    assert len(shards) > 1
    command = [sys.executable, "-m", "brevis", *(str(tmp_path / "plain" / shard) for shard in shards)]
    subprocess.run(command, check=True)
    state = {}
    for shard in shards:
        state.update(load_file(tmp_path / "plain" / f"{shard}.brv"))
    assert set(state) == set(index["weight_map"])
    torch.manual_seed(9)
    other = transformers.LlamaForCausalLM(config)
    other.load_state_dict(state)
    tokens = torch.tensor([[1, 5, 7, 98]])
    with torch.no_grad():
        assert torch.equal(model.eval()(tokens).logits, other.eval()(tokens).logits)
