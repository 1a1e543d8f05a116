"""The files of spec/vectors against the reference and the compiled core: same class, offset and bytes.

What must come out is in the manifest, which `spec/make_vectors.py` makes from sources in which people said
what must come out; neither decoder has a say in it.
"""

import importlib.util
import io
import json
import re
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from brevis import codec, errors

SPEC = Path(__file__).resolve().parent.parent / "spec"
VECTORS = SPEC / "vectors"
MANIFEST = json.loads((VECTORS / "manifest.json").read_text(encoding="utf-8"))
SCHEMA = json.loads((VECTORS / "manifest.schema.json").read_text(encoding="utf-8"))
ROWS = MANIFEST["vectors"]
CLASSES = {
    errors.MalformedError: "malformed",
    errors.TruncatedError: "truncated",
    errors.CorruptError: "corrupt",
    errors.UnsupportedError: "unsupported",
    errors.InvalidProgramError: "invalid",
}

# Rules that no file can show, each with the reason.
UNTESTABLE: dict[str, str] = {}

# Files to which the compiled core still answers otherwise than FORMAT.md, each with the reason.
DIVERGING: dict[str, str] = {}

sys.path.insert(0, str(SPEC))  # make_vectors has a second file


def load(name):
    spec = importlib.util.spec_from_file_location(f"spec_{name}", SPEC / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


reference = load("reference")
maker = load("make_vectors")


def digest(content):
    return {"length": len(content), "sha256": sha256(content).hexdigest()}


def fault_of(kind, offset):
    return {} if kind is None else {"fault": {"class": kind, "offset": offset}}


def demanded(row, part):
    """Content and fault that the manifest demands of a plain reader, or of a reader of another kind."""
    told = row.get(part, {}) if part else row
    content = told.get("content", row["content"])
    return {"content": content} | {key: told[key] for key in ("fault",) if key in told}


def judged(read):
    entries, verdict = read
    return {"content": digest(verdict.content)} | fault_of(verdict.fault, verdict.offset), entries


def core(data, with_layouts):
    entries, content, fault = [], bytearray(), {}
    on_layout = entries.extend if with_layouts else None
    try:
        for block in codec.decode_blocks(io.BytesIO(data).read, threads=1, on_layout=on_layout):
            content += block
    except errors.Error as error:
        fault = fault_of(CLASSES[type(error)], error.offset)
    return {"content": digest(content)} | fault, entries


def rows_where(condition):
    rows = [row for row in ROWS if condition(row)]
    return pytest.mark.parametrize("row", rows, ids=[row["path"] for row in rows])


each_file = rows_where(lambda row: True)


def data_of(row):
    return (VECTORS / row["path"]).read_bytes()


@each_file
def test_reference_gives_the_verdict(row):
    assert judged(reference.read(data_of(row), with_layouts=False))[0] == demanded(row, "")


@rows_where(lambda row: "fault" in row)
def test_reference_gives_the_reason(row):
    """The rule that the reference names is one that the file is said to be about."""
    message = reference.decode(data_of(row)).message
    assert set(re.findall(r"\[([A-Z]\d)\]", message)) & set(row["rules"]), message


@each_file
def test_core_gives_the_verdict(row):
    found = core(data_of(row), with_layouts=False)[0]
    if found != demanded(row, "") and row["path"] in DIVERGING:
        pytest.xfail(DIVERGING[row["path"]])
    assert row["path"] not in DIVERGING, "agrees by now: take it from the list"
    assert found == demanded(row, "")


@rows_where(lambda row: "with_layouts" in row)
@pytest.mark.parametrize("decoder", ["reference", "core"])
def test_readers_of_layouts(row, decoder):
    if decoder == "core":
        found, entries = core(data_of(row), with_layouts=True)
        listed = [[e.begin, e.end - e.begin, e.name, e.dtype, list(e.shape)] for e in entries]
    else:
        found, entries = judged(reference.read(data_of(row), with_layouts=True))
        listed = [[e.start, e.length, e.name, e.dtype, e.dimensions] for e in entries]
    assert found == demanded(row, "with_layouts")
    assert len(listed) == row["with_layouts"]["entry_count"]
    if "entries" in row["with_layouts"]:
        assert listed == [entry[1:] for entry in row["with_layouts"]["entries"]]


@rows_where(lambda row: "zstd" in row["tags"])
def test_decoder_without_zstandard(row, monkeypatch):
    """[Z1] It refuses; but what the code alone shows, and faults ahead of it, it tells as others do."""
    monkeypatch.setattr(reference, "zstd_library", lambda: None)
    part = "without_zstd" if "without_zstd" in row else ""
    assert judged(reference.read(data_of(row), with_layouts=False))[0] == demanded(row, part)


# The evidence as a whole


def test_files_equal_what_the_sources_make():
    made = maker.make()
    there = {p.relative_to(VECTORS).as_posix() for p in VECTORS.rglob("*.brv")} | {"manifest.json"}
    assert there == set(made)
    differing = [name for name, data in made.items() if (VECTORS / name).read_bytes() != data]
    assert not differing, "run `python spec/make_vectors.py`"


def test_manifest_lists_all_files_once():
    paths = [row["path"] for row in ROWS]
    assert len(set(paths)) == len(paths)
    assert set(paths) == {p.relative_to(VECTORS).as_posix() for p in VECTORS.rglob("*.brv")}


def test_folders_hold_what_their_names_say():
    for row in ROWS:
        folder = row["path"].split("/")[0]
        fault = row.get("fault") or row.get("with_layouts", {}).get("fault")
        if folder != "limit":
            assert folder == (fault["class"] if fault else "valid"), row["path"]


def test_files_stay_small():
    sizes = [path.stat().st_size for path in VECTORS.rglob("*.brv")]
    assert max(sizes) <= 64 << 10
    assert sum(sizes) <= 1_500_000


def test_every_rule_has_a_vector():
    rules = set(re.findall(r"\[([A-Z]\d+)\]", (SPEC / "FORMAT.md").read_text(encoding="utf-8")))
    shown = {rule for row in ROWS for rule in row["rules"]}
    assert shown <= rules, "a vector names a rule that is not in FORMAT.md"
    assert rules - shown == set(UNTESTABLE)


def check(value, schema, where):
    """The part of JSON Schema that the manifest's schema uses."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    known = {"type", "const", "enum", "pattern", "minimum", "required", "properties", "items", "minItems"}
    known |= {"additionalProperties", "description", "uniqueItems", "minLength"}
    assert not set(schema) - known - {"$schema", "$id", "title", "$defs"}, f"{where}: unknown to this check"
    kinds = {"object": dict, "array": list, "string": str, "integer": int}
    assert type(value) is kinds[schema["type"]] if "type" in schema else True, where
    assert value == schema.get("const", value), where
    assert value in schema.get("enum", [value]), where
    if isinstance(value, dict):
        assert set(schema.get("required", [])) <= set(value), where
        assert set(value) <= set(schema["properties"]), where
        for key, item in value.items():
            check(item, schema["properties"][key], f"{where}.{key}")
    if isinstance(value, list):
        assert len(value) >= schema.get("minItems", 0), where
        if schema.get("uniqueItems"):
            assert len(set(value)) == len(value), where
        for i, item in enumerate(value):
            check(item, schema.get("items", {}), f"{where}[{i}]")
    if isinstance(value, str):
        assert re.search(schema.get("pattern", ""), value), where
        assert len(value) >= schema.get("minLength", 0), where
    if isinstance(value, int):
        assert value >= schema.get("minimum", value), where


def test_manifest_validates_against_its_schema():
    check(MANIFEST, SCHEMA, "manifest")


def test_schema_check_finds_faults():
    row = dict(ROWS[0])
    for change in ({"path": "x"}, {"rules": []}, {"rules": ["H1", "H1"]}, {"more": 1}, {"tags": ["no"]}):
        with pytest.raises(AssertionError):
            check({**MANIFEST, "vectors": [{**row, **change}]}, SCHEMA, "manifest")
