"""Checkpoints as numpy arrays: the same as safetensors loads, and as strict."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from brevis import errors, file
from brevis.codec import Encoder
from brevis.sources import DTYPE_BITS

np = pytest.importorskip("numpy")

from brevis.adapters import load as loading  # noqa: E402
from brevis.adapters.tensors import safe_open  # noqa: E402
from brevis.adapters.writer import CheckpointWriter  # noqa: E402
from brevis.numpy import load, load_file, save, save_file  # noqa: E402

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
    real = loading._Memory._copy

    def note(self: Any, piece: memoryview, begin: int, end: int) -> None:
        copied.append(len(piece))
        real(self, piece, begin, end)

    monkeypatch.setattr(loading._Memory, "_copy", note)
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


def odd_headers() -> list[str]:
    """Headers for eight bytes of content, each odd in one way."""
    usual = '"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}'
    empty = '"b":{"dtype":"%s","shape":%s,"data_offsets":[0,0]}'
    found = ['{"a":["U8",[8],[0,8]]}', '{"a":["U8",[8]]}', "{" + usual + ",}", " \n{" + usual + "}\t\r\n "]
    found += ["{" + usual + "}" + end for end in ("\0", "\v", "\xa0", "{}", "x")]
    for field in ['"dtype":"U8"', '"shape":[8]', '"x":1,"x":2', '"":1', '"x":1e400', '"x":1e-400', '"x":-0']:
        found.append("{" + usual[:-1] + "," + field + "}}")
    for value in [
        "[[[]],{}]",
        '"\\ud800"',
        '"\\ud83d\\ude00"',
        "9" * 400,
        "9" * 30,
        "NaN",
        "-Infinity",
        "-",
        "01",
    ]:
        found.append("{" + usual[:-1] + ',"x":' + value + "}}")
    found += [
        "{" + usual[:-1] + ',"x":' + "[" * depth + "]" * depth + "}}" for depth in (100, 125, 126, 130, 2000)
    ]
    found += ["{" + usual[:-1] + ',"x":' + '{"y":' * depth + "1" + "}" * depth + "}}" for depth in (125, 126)]
    for old, new in [
        ("[8]", "[8.0]"),
        ("[8]", "[8e0]"),
        ("[8]", "[08]"),
        ("[8]", "[true]"),
        ("[8]", "[2,4]"),
        ("[8]", "8"),
        ("[8]", "null"),
        ("[8]", "[ 8 ]"),
        ("[8]", "[-8]"),
        ("[8]", '["8"]'),
        ("[0,8]", "[-0,8]"),
        ("[0,8]", "[0,8,8]"),
        ("[0,8]", '{"0":0,"1":8}'),
        ("[0,8]", "[0 , 8]"),
        ("[0,8]", "[8,0]"),
        ('"U8"', '{"U8":null}'),
        ('"U8"', '{"U8":1}'),
        ('"U8"', '"\\u0055\\u0038"'),
        ('"U8"', '"u8"'),
        ('"U8"', "null"),
        ('"dtype"', '"\\u0064type"'),
        ('"a"', '"\\u0061"'),
        ('"a"', '"a\\/\\b\x7f\u2028é"'),
        ('"a"', '"\x1f"'),
        ('"a"', '"\\x"'),
        ('"a"', "'a'"),
        ('"a"', "a"),
        ('"a"', '"' + "n" * 70_000 + '"'),
    ]:
        found.append("{" + usual.replace(old, new) + "}")
    for metadata in [
        "null",
        "{}",
        '{"a":"1","a":"2"}',
        '{"a":null}',
        '{"a":1}',
        "[]",
        '""',
        '{"\\ud800":""}',
        "{,}",
    ]:
        found.append('{"__metadata__":' + metadata + "," + usual + "}")
        found.append("{" + usual + ',"\\u005f_metadata__":' + metadata + "}")
    found.append('{"__metadata__":{},"__metadata__":null,' + usual + "}")
    for shape in [
        "[0]",
        "[0,18446744073709551616]",
        "[4611686018427387904,4,0]",
        "[2305843009213693952,8,0]",
        "[0,-1]",
    ]:
        found += ["{" + empty % (dtype, shape) + "," + usual + "}" for dtype in ("U8", "F64", "U9")]
    other = usual.replace("[8]", "5")
    found += ["{" + usual + "," + other + "}", "{" + other + "," + usual + "}"]
    found.append("{" + usual.replace("[8]", "[9]").replace("[0,8]", "[0,9]") + "," + usual + "}")
    return found


@pytest.mark.parametrize("text", odd_headers(), ids=lambda text: text[:70])
def test_odd_headers_get_the_official_verdict(text: str) -> None:
    official = pytest.importorskip("safetensors")
    raw = text.encode()
    content = len(raw).to_bytes(8, "little") + raw + b"contents"
    archive = file.compress(content)
    try:
        expected = {name: bytes(info["data"]) for name, info in official.deserialize(content)}
    except official.SafetensorError:
        with pytest.raises((errors.MalformedError, errors.LimitError)):
            load(archive)
    else:
        assert {name: array.tobytes() for name, array in load(archive).items()} == expected


def test_a_name_twice_in_one_header_means_its_last() -> None:
    official = pytest.importorskip("safetensors.numpy")
    tensor = '"a":{"dtype":"U8","shape":%s,"data_offsets":[0,4]}'
    for shapes in (("[4]", "[4]"), ("[4]", "[2,2]"), ("[2,2]", "[4]")):
        text = "{" + ",".join(tensor % shape for shape in shapes) + "}"
        content = len(text).to_bytes(8, "little") + text.encode() + b"data"
        assert load(file.compress(content))["a"].shape == official.load(content)["a"].shape


# Into given memory


def test_out_takes_what_it_names() -> None:
    tensors = {"a": np.arange(50_000.0), "b": np.ones((3, 70), np.int16), "c": np.zeros(0)}
    archive = save(tensors)
    out = {"a": np.zeros(50_000), "b": np.zeros((70, 3), np.int16).T}
    loaded = load_from(archive, out=out)
    assert loaded["a"] is out["a"] and loaded["b"] is out["b"]
    assert list(loaded) == ["a", "c", "b"]  # in the header's order
    assert all((loaded[name] == tensors[name]).all() for name in tensors)
    with pytest.raises(KeyError, match="'d'"):
        load_from(archive, out={"d": np.zeros(1)})
    for wrong in (np.zeros(50_000, np.float32), np.zeros(49_999), np.zeros((50_000, 1))):
        with pytest.raises(ValueError, match="a: out"):
            load_from(archive, out={"a": wrong})


def load_from(archive: bytes, **options: Any) -> dict[str, Any]:
    return load_file(io.BytesIO(archive), **options)  # type: ignore[arg-type]


# Saving


def some_tensors() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {
        "z": rng.standard_normal((200, 300)).astype(np.float32),
        "y": rng.integers(0, 9, (11, 5, 3), np.int8),
        'é"\n\x01/\x7f': np.array(3.5, np.float16),
        "": np.zeros((2, 0, 3)),
        "x": rng.integers(0, 2, 12345).astype(bool),
        "w": np.arange(7, dtype=np.uint64),
        "v": np.arange(5, dtype=np.uint8),
    }


def test_saves_what_safetensors_saves(tmp_path: Path) -> None:
    official = pytest.importorskip("safetensors.numpy")
    for tensors in (some_tensors(), {}, {"a": np.ones(3)}):
        for metadata in (None, {"format": "np"}):
            expected = official.save(tensors, metadata)
            assert file.decompress(save(tensors, metadata)) == expected
            path = tmp_path / "a.brv"
            save_file(tensors, path, metadata, level=1, threads=2)
            assert file.decompress(path.read_bytes()) == expected
            loaded = official.load(file.decompress(path.read_bytes()))
            assert {name: array.tobytes() for name, array in loaded.items()} == {
                name: array.tobytes() for name, array in tensors.items()
            }
    # The official order of several texts is random.
    text = file.decompress(save({}, {"b": "2", "a": "\u20ac"}))[8:].decode()
    assert json.loads(text) == {"__metadata__": {"a": "\u20ac", "b": "2"}}


def test_saves_any_strides() -> None:
    array = np.arange(5040, dtype=np.int32).reshape(7, 8, 90)
    for view in (
        array.T,
        array[::2, :, ::-3],
        array[:, 3],
        np.asfortranarray(array),
        array[..., None],
        array[:0],
    ):
        assert np.array_equal(load(save({"a": view}))["a"], view)
    broadcast = np.broadcast_to(np.float32(1), (3, 4))
    assert np.array_equal(load(save({"a": broadcast}))["a"], broadcast)


def test_refuses_what_no_file_can_hold(tmp_path: Path) -> None:
    path = tmp_path / "a.brv"
    path.write_bytes(b"old")
    one = np.ones(1)
    with pytest.raises(ValueError, match="__metadata__"):
        save_file({"__metadata__": one}, path)
    with pytest.raises(ValueError, match="name"):
        save_file({1: one}, path)  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="metadata"):
        save_file({"a": one}, path, {"a": 1})  # type: ignore[dict-item]
    with pytest.raises(UnicodeEncodeError):
        save_file({"\ud800": one}, path)
    with pytest.raises(ValueError, match="level"):
        save_file({"a": one}, path, level=0)
    with pytest.raises(errors.UnsupportedError):
        save_file({"a": np.ones(1, "c16")}, path)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["a.brv"]


def test_saving_over_the_file_that_tensors_came_from(tmp_path: Path) -> None:
    path = tmp_path / "a.brv"
    save_file(some_tensors(), path)
    tensors = load_file(path)
    save_file({"more": np.ones(2), **tensors}, path)
    assert set(load_file(path)) == {"more", *tensors}


def test_the_writer_takes_tensors_in_parts(tmp_path: Path) -> None:
    tensors = some_tensors()
    path = tmp_path / "a.brv"
    with CheckpointWriter(path, tensors, {"k": "v"}, level=1, threads=2) as writer:
        for name, array in tensors.items():
            if array.ndim and len(array) > 10:
                for begin in range(0, len(array), 7):
                    writer.write(name, array[begin : begin + 7])
            else:
                writer.write(name, array)
    loaded = load_file(path)
    assert list(loaded) == list(tensors)  # in the order in which they were declared
    for name, array in tensors.items():
        assert loaded[name].dtype == array.dtype and np.array_equal(loaded[name], array)


def test_the_writer_holds_to_what_was_declared(tmp_path: Path) -> None:
    path = tmp_path / "a.brv"
    specs = {"a": ("F32", (4, 3)), "b": ["BF16", (2,)], "c": ("I8", ())}
    writer = CheckpointWriter(path, specs)
    rows = np.zeros((2, 3), np.float32)
    for name, wrong in [
        ("d", rows),
        ("a", rows.astype(np.float64)),
        ("a", np.zeros((3, 2), np.float32)),
        ("a", np.zeros((5, 3), np.float32)),
        ("a", np.zeros(3, np.float32)),
        ("c", np.int8(1)),
    ]:
        with pytest.raises(ValueError, match=name):
            writer.write(name, wrong)
    writer.write("a", rows)
    with pytest.raises(ValueError, match="what is left"):
        writer.write("a", np.zeros((3, 3), np.float32))
    with pytest.raises(ValueError, match="'a' was not written"):
        writer.close()
    writer.close()
    with pytest.raises(RuntimeError), CheckpointWriter(path, {"a": ("U8", (1,))}) as writer:
        writer.write("a", np.ones(1, np.uint8))
        raise RuntimeError
    writer = CheckpointWriter(path, {"a": ("U8", (1,))})
    writer.write("a", np.ones(1, np.uint8))
    writer.discard()
    assert os.listdir(tmp_path) == []
    for specs in ({"a": ("I4", (2,))}, {"a": ("F4", (3,))}, {"a": np.zeros(2, "c16")}):
        with pytest.raises(ValueError, match="a:"):
            CheckpointWriter(path, specs)
    with CheckpointWriter(path, {"empty": ("F32", (0, 3))}):
        pass
    assert load_file(path)["empty"].shape == (0, 3)


def test_saving_takes_the_memory_of_chunks_only(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    code = (
        "import resource, sys\nimport numpy as np\nfrom brevis.adapters.writer import CheckpointWriter\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "rows = np.random.default_rng(0).integers(0, 250, (1 << 10, 1 << 12), np.uint8)\n"
        "def write(parts):\n"
        "    specs = {'a': ('U8', (parts << 10, 1 << 12))}\n"
        "    with CheckpointWriter(sys.argv[1], specs, level=1, threads=2) as w:\n"
        "        for _ in range(parts):\n"
        "            w.write('a', rows)\n"
        "write(8)\nbefore = peak()\nwrite(40)\nprint((peak() - before) // 1024)\n"
    )
    grown = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.brv")], check=True, capture_output=True, text=True
    )
    assert int(grown.stdout) < 24  # MiB, of 128 more that were written


# Hostile archives


def test_arrays_that_numpy_can_not_have() -> None:
    one = [1] * 64
    for shape in (
        [*one, 4],
        [*one, *one, 4],
        [0, 2**62],
        [2**62, 0],
        [0, 2**64 - 1],
        [0, 2**31, 2**31, 2**31],
    ):
        length = 0 if 0 in shape else 16
        text = json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, length]}}).encode()
        archive = archive_of(len(text).to_bytes(8, "little") + text + bytes(length))
        with pytest.raises(ValueError):
            np.empty(shape, np.float32)
        with pytest.raises(errors.Error, match=r"shape|dimensions"):
            load(archive)
        with safe_open(io.BytesIO(archive)) as opened:
            assert opened.get_slice("a").get_shape() == shape
            with pytest.raises(errors.UnsupportedError):
                opened.get_tensor("a")
            with pytest.raises((errors.UnsupportedError, IndexError)):
                opened.get_slice("a")[...]


HOSTILE = {
    "a list of lists": ('{"a":[', "[],", "]}", "LimitError"),
    "a list of numbers": ('{"a":{"x":[', "0,", "0]}}", "LimitError"),
    "metadata": ('{"__metadata__":{', '"a":"",', '"b":""}}', "LimitError"),
    "not described": ("{", '"a":0,', '"b":0}', "MalformedError"),
    "spaces": ("{", " " * 16, "]", "MalformedError"),
    "one long text": ('{"a":"', "\\n" * 8, '"}', "LimitError"),
    "deep": ('{"a":', "[" * 8, "", "MalformedError"),
    "one name many times": (
        "{",
        '"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},',
        '"b":0}',
        "MalformedError",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_header_of_junk_takes_little_more_than_its_length(tmp_path: Path, kind: str) -> None:
    """Ten thousand times as long as the archive; Python's parser alone would take gigabytes for some."""
    pytest.importorskip("resource")
    begin, unit, end, expected = HOSTILE[kind]
    text = begin + unit * (40_000_000 // len(unit)) + end
    path = tmp_path / "a.brv"
    path.write_bytes(archive_of(len(text).to_bytes(8, "little") + text.encode(), 1 << 22))
    del text
    code = (
        "import resource, sys, time\nfrom brevis import errors\nfrom brevis.numpy import load_file\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\nbefore = peak()\n"
        "try:\n    load_file(sys.argv[1])\n"
        "except errors.Error as error:\n    print(type(error).__name__, (peak() - before) // 1024)\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True, timeout=60
    ).stdout.split()
    assert shown[0] == expected
    assert int(shown[1]) < 40 * 6


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
