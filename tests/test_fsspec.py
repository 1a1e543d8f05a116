"""Archives by fsspec: as compression, and tensors out of remote files by ranges."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

import brevis
from brevis import errors

fsspec = pytest.importorskip("fsspec")
np = pytest.importorskip("numpy")

import brevis.fsspec  # noqa: E402
from brevis.adapters.tensors import safe_open  # noqa: E402
from brevis.numpy import load_file, save  # noqa: E402

TEXT = b"all work and no play\n" * 10_000


@pytest.fixture
def url() -> Any:
    """Where a file of this test may be."""
    folder = f"memory://{uuid.uuid4().hex}"
    yield f"{folder}/data.txt.brv"
    fsspec.filesystem("memory").rm(folder, recursive=True)


@pytest.mark.parametrize("compression", ["brevis", "infer"])
def test_compression_by_name_and_by_suffix(url: str, compression: str) -> None:
    with fsspec.open(url, "wb", compression=compression) as file:
        file.write(TEXT)
    stored = fsspec.filesystem("memory").cat(url)
    assert brevis.decompress(stored) == TEXT and len(stored) < len(TEXT) / 100
    with fsspec.open(url, "rb", compression=compression) as file:
        assert file.read() == TEXT
        file.seek(21 * 5000)
        assert file.readline() == b"all work and no play\n"
    with fsspec.open(url, "rt", compression=compression) as file:
        assert file.readline() == "all work and no play\n"
    with fsspec.open(url, "wt", compression=compression) as file:
        file.write("é\n")
    assert brevis.decompress(fsspec.filesystem("memory").cat(url)) == "é\n".encode()


def test_local_files_and_file_systems_own_open(tmp_path: Path) -> None:
    path = tmp_path / "a.brv"
    file_system = fsspec.filesystem("file")
    with file_system.open(str(path), "wb", compression="infer") as file:
        file.write(TEXT)
    assert brevis.decompress(path.read_bytes()) == TEXT  # complete, so the file below was closed as well
    with file_system.open(str(path), "rb", compression="infer") as file:
        assert file.read(21) == TEXT[:21]


def test_damage_is_found(url: str) -> None:
    fsspec.filesystem("memory").pipe(url, brevis.compress(TEXT)[:-1])
    with fsspec.open(url, "rb", compression="infer") as file, pytest.raises(errors.TruncatedError):
        file.read()


class Ranges:
    """A remote file that counts what is fetched."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.fetched: list[range] = []

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = 0) -> int:
        self.position = offset + (0, self.position, len(self.data))[whence]
        return self.position

    def read(self, size: int) -> bytes:
        data = self.data[self.position : self.position + size]
        self.fetched.append(range(self.position, self.position + len(data)))
        self.position += len(data)
        return data


def layers() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {f"layer.{i}": rng.integers(0, 250, (512, 1024), np.uint8) for i in range(12)}


def test_a_tensor_of_a_remote_file_by_ranges() -> None:
    tensors = layers()
    remote = Ranges(save(tensors, level=1))
    with safe_open(remote) as file:
        opened = sum(map(len, remote.fetched))
        assert opened < 4000 and len(remote.fetched) < 10  # footer, index, header
        remote.fetched.clear()
        assert (file.get_tensor("layer.7") == tensors["layer.7"]).all()
        assert len(remote.fetched) == 1
        assert 0.9 < len(remote.fetched[0]) / tensors["layer.7"].nbytes < 1.01
        remote.fetched.clear()
        assert (file.get_slice("layer.9")[5] == tensors["layer.9"][5]).all()
        assert (file.get_slice("layer.9")[:, 3] == tensors["layer.9"][:, 3]).all()
        assert len(remote.fetched) == 1


def test_tensors_by_url(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = layers()
    file_system = fsspec.filesystem("memory")
    file_system.pipe(url, save(tensors, level=1))
    remote = Ranges(file_system.cat(url))
    monkeypatch.setattr(type(file_system), "_open", lambda *arguments, **options: remote)
    remote.close = lambda: None  # type: ignore[attr-defined]
    with safe_open(url) as file:
        assert (file.get_tensor("layer.3") == tensors["layer.3"]).all()
    assert sum(map(len, remote.fetched)) < 2 * tensors["layer.3"].nbytes
    monkeypatch.undo()
    assert load_file(url).keys() == tensors.keys()
    with pytest.raises(FileNotFoundError):
        safe_open(url + ".not")
