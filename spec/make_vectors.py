"""Make the files of spec/vectors/ from their sources, `spec/vectors/*.txt`, and the manifest of verdicts.

The notation is explained in spec/vectors/README.md. A source says by marks where the fault is, and of which
class; so the verdicts of the manifest are not those of a decoder, but what FORMAT.md demands.

    python spec/make_vectors.py            writes all files, and deletes those that have no source
    python spec/make_vectors.py --check    tells which files differ from what the sources make
"""

import itertools
import json
import re
import struct
import sys
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import crc32

from vector_programs import (
    assign_types,
    ceil_log2,
    data_bytes,
    emit,
    evaluate,
    pack,
    parse_program,
    repeated,
    varint,
)

VECTORS = Path(__file__).resolve().parent / "vectors"
CLASSES = ("malformed", "truncated", "corrupt", "unsupported", "invalid")
FOLDERS = ("valid", *CLASSES, "limit")
LARGE = 1 << 20  # bytes of content from which on a vector is tagged as `large`


# Units: the lines of a source


@dataclass
class Line:
    """`[!|?]name key=value … : text`, with ! where the fault is, ? where it is for users of layouts only."""

    mark: str
    name: str
    attributes: dict[str, str]
    text: str


def parse_line(text: str) -> Line:
    head, _, rest = (text + " ").partition(" : ")
    mark = head[0] if head[0] in "!?" else ""
    name, *attributes = head.removeprefix(mark).split()
    line = Line(mark, name, dict(item.split("=", 1) for item in attributes), rest.strip())
    if name in ("chunk", "layout") and "!" in rest and mark != "?":
        line.mark = "!"
    return line


def with_crc(data: bytes, wrong: bool = False) -> bytes:
    return data + struct.pack("<I", crc32(data) ^ wrong)


@dataclass
class Archive:
    """What has been written, and what is known of it. Positions are of the member."""

    data: bytearray = field(default_factory=bytearray)
    contents: list[bytes] = field(default_factory=list)  # of the chunks before the fault
    members: int = 0
    start: int = 0
    chunks: list[tuple[int, int, int]] = field(default_factory=list)
    layouts: list[tuple[int, int]] = field(default_factory=list)
    crcs: bytes = b""
    index: int = 0
    fault: int | None = None
    entries: list[list[Any]] = field(default_factory=list)
    layout_fault: int | None = None
    layout_contents: int = 0  # how many chunks stand before that fault
    zstd: tuple[int, int] | None = None  # the first record with zstd, and how many chunks stand before it


TAGS = {"chunk": 1, "index": 2, "footer": 3, "layout": 0x81, "metadata": 0x82, "pad": 0x83, "record": 0x80}


def add_line(archive: Archive, line: Line) -> None:
    at = len(archive.data)
    attributes = line.attributes
    place: int | None = at
    if line.name == "header":
        unit = header(archive, attributes)
    elif line.name == "bytes":
        unit = data_bytes(line.text)
    else:
        body, inside = body_of(archive, line, at - archive.start)
        place = at if inside is None else at + 16 + inside
        unit = record(TAGS[line.name], body, attributes)
        note_record(archive, line, body, len(unit), at)
    unit = unit[: int(attributes.get("first", len(unit)))]
    archive.data += unit
    if line.mark == "!" and archive.fault is None:
        archive.fault = place
    if line.mark == "?":
        archive.layout_fault, archive.layout_contents = place, len(archive.contents)


def header(archive: Archive, attributes: dict[str, str]) -> bytes:
    """A new member begins."""
    archive.start, archive.chunks, archive.layouts, archive.crcs = len(archive.data), [], [], b""
    archive.members += 1
    c, version, zero, must, may = (
        int(attributes.get(key, d), 0)
        for key, d in (("c", "12"), ("version", "1"), ("zero", "0"), ("must", "0"), ("may", "0"))
    )
    magic = bytes.fromhex(attributes.get("magic", "894252560D0A1A0A"))
    head = magic + struct.pack("<BBHQQ", version, c, zero, must, may)
    return with_crc(head, attributes.get("crc") == "wrong")


def record(tag: int, body: bytes, attributes: dict[str, str]) -> bytes:
    sync = bytes.fromhex(attributes.get("sync", "AB72C6"))
    tag, length = int(attributes.get("tag", str(tag)), 0), int(attributes.get("length", str(len(body))), 0)
    head = with_crc(sync + struct.pack("<BQ", tag, length), attributes.get("head-crc") == "wrong")
    return head + with_crc(body, attributes.get("body-crc") == "wrong")


def body_of(archive: Archive, line: Line, position: int) -> tuple[bytes, int | None]:
    """The body of a record, and the place of the fault in it, where it is not the record's first byte."""
    match line.name:
        case "chunk" | "layout":
            return chunk_body(archive, line)
        case "metadata":
            pairs = re.findall(r'"([^"]*)"="([^"]*)"', line.text)
            texts = [text.encode() for pair in pairs for text in pair]
            return b"".join(varint(len(text)) + text for text in texts), None
        case "pad":
            return bytes(int(line.text)), None
        case "index":
            archive.index = position
            return data_bytes(line.text) or index_body(archive), None
        case "footer":
            return footer_body(archive, line.attributes, position), None
    return data_bytes(line.text), None


def chunk_body(archive: Archive, line: Line) -> tuple[bytes, int | None]:
    attributes, text = line.attributes, line.text.removesuffix("!").strip()
    if "list" in attributes:
        content = list_bytes(int(attributes["list"], 0), text)
        attributes["D"], text = str(len(content)), "raw " + " ".join(map(str, content))
    w, size = int(attributes.get("w", "8")), int(attributes["D"])
    code, payloads, mark, content = bytearray(), bytearray(), None, b""
    if text:
        root = parse_program(text)
        assign_types(root, w, 8 * size // max(w, 1))
        mark = emit(root, code, payloads)
        content = content_of(root, bool(line.mark) or archive.fault is not None)
        if archive.zstd is None and " zstd" in " " + re.sub(r"[(,]", " ", text) and line.name == "chunk":
            archive.zstd = len(archive.data), len(archive.contents)
    if line.text.endswith("!"):
        mark = len(code)
    crc = crc32(content) ^ (attributes.get("content-crc") == "wrong")
    body = struct.pack("<IIB", size, crc, w) + code + payloads + data_bytes(attributes.get("extra", ""))
    if line.name == "chunk" and line.mark != "!" and "first" not in attributes and archive.fault is None:
        archive.contents.append(content)
    if line.name == "layout" and not line.mark and archive.layout_fault is None:
        archive.entries += list_entries(content, archive.members - 1)
    return body[: int(attributes.get("body-first", len(body)))], None if mark is None else 9 + mark


def content_of(root: Any, at_fault: bool) -> bytes:
    """A program at fault may have no words; its content's CRC is of no interest then."""
    try:
        return pack(evaluate(root), root.w)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        if not at_fault:
            raise
        return b""


def note_record(archive: Archive, line: Line, body: bytes, size: int, at: int) -> None:
    """What index and footer shall tell."""
    tag = int(line.attributes.get("tag", TAGS[line.name]), 0) if "tag" in line.attributes else TAGS[line.name]
    if tag == 1 and len(body) >= 9:
        archive.chunks.append((at - archive.start, size, struct.unpack("<I", body[:4])[0]))
        archive.crcs += body[4:8]
    if tag == 0x81:
        archive.layouts.append((at - archive.start, size))


def index_body(archive: Archive) -> bytes:
    out = b""
    for rows in (archive.chunks, archive.layouts):
        out, end = out + varint(len(rows)), 32
        for position, size, *content in rows:
            out += b"".join(map(varint, [position - end, size, *content]))
            end = position + size
    return out


def footer_body(archive: Archive, attributes: dict[str, str], position: int) -> bytes:
    """The true numbers, and more or less by what the attributes say."""
    content = sum(size for _, _, size in archive.chunks)
    true = [position + 56, content, len(archive.chunks), archive.index, crc32(archive.crcs)]
    names = ("member", "content", "chunks", "index", "crcs")
    numbers = [value + int(attributes.get(name, 0)) for name, value in zip(names, true, strict=True)]
    return struct.pack("<QQQQI", *numbers)


def list_bytes(base: int, text: str) -> bytes:
    """A layout's list (§3.4) from `gap length "name" dtype dimensions; …`."""
    entries = re.findall(r'(\d+) (\d+) "([^"]*)" (\S+)([ \d]*)', text)
    out = varint(base) + varint(len(entries))
    for gap, length, name, dtype, dimensions in entries:
        out += varint(int(gap)) + varint(int(length))
        for item in (name.encode(), dtype.encode().removeprefix(b"-")):
            out += varint(len(item)) + item
        shape = dimensions.split()
        out += b"".join(map(varint, [len(shape), *map(int, shape)]))
    return out


def list_entries(content: bytes, member: int) -> list[list[Any]]:
    """The entries of a sound list: [member, start, length, name, dtype, dimensions]."""
    rest = iter(content)

    def number() -> int:
        byte = next(rest)
        return byte if byte < 128 else byte - 128 + 128 * number()

    def text() -> str:
        return bytes(itertools.islice(rest, number())).decode()

    entries: list[list[Any]] = []
    end, count = number(), number()
    for _ in range(count):
        start, length = end + number(), number()
        end = start + length
        entries.append([member, start, length, text(), text(), [number() for _ in range(number())]])
    if list(rest):
        raise ValueError("a list with bytes left over")
    return entries


# Sources


@dataclass
class Vector:
    name: str
    rules: list[str]
    shows: str
    lines: list[str]
    expects: str  # a class, or `valid`


def substitute(text: str, names: dict[str, Any]) -> str:
    """`$x` and `$(expression)`: the variables of `each`."""

    def value(match: re.Match) -> str:
        scope = {"__builtins__": {}, "min": min, "max": max, "len": len, "varint": varint, "range": range}
        return str(eval(match[1] or match[2], scope, dict(names)))

    return re.sub(r"\$(?:([A-Za-z]\w*)|\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\))", value, text)


NUMBER = re.compile(r"-?(0|[1-9]\d*)")


def each_values(lines: list[str], names: dict[str, Any]) -> list[dict[str, Any]]:
    """All combinations of `each` lines: `each w = 1..64`, `each w,r = 8,1 16,5`, `each x = 'a, b' c`."""
    if not lines:
        return [names]
    keys, _, values = lines[0].partition("=")
    out = []
    rows = re.findall(r"(?:'[^']*'|[^\s'])+", substitute(values, names))
    for item in itertools.chain(*(repeated([row]) if "'" not in row else [row] for row in rows)):
        row = [x.strip("'") for x in re.findall(r"(?:'[^']*'|[^,'])+", item)]
        row = [int(x) if NUMBER.fullmatch(x) else x for x in row]
        more = dict(zip(keys.replace(" ", "").split(","), row, strict=True))
        out += each_values(lines[1:], names | more)
    return out


def read_sources(folder: str) -> list[Vector]:
    vectors = []
    text = (VECTORS / f"{folder}.txt").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^#.*\n", "", text)
    text = re.sub(r"\n[ \t]+", " ", text)  # a line that begins with blanks goes on with the one before
    for block in filter(None, re.split(r"\n{2,}", text.strip())):
        title, shows, *lines = block.split("\n")
        expects = folder if folder != "limit" else "valid"
        for line in lines:
            if line.startswith("expects "):
                expects = line.split()[1]
        lines = [line for line in lines if not line.startswith("expects ")]
        each = [line.removeprefix("each ") for line in lines if line.startswith("each ")]
        lines = [line for line in lines if not line.startswith("each ")]
        for names in each_values(each, {}):
            name, *rules = re.sub(r"[\[\]]", "", substitute(title, names)).split()
            vectors.append(
                Vector(name, rules, substitute(shows, names), [substitute(x, names) for x in lines], expects)
            )
    return vectors


def build(vector: Vector) -> tuple[bytes, dict[str, Any]]:
    """The file of a vector, and what the manifest says. Lines without a header are those of one member."""
    archive, lines = Archive(), [parse_line(line) for line in vector.lines]
    if lines and not any(line.name == "header" for line in lines) and lines[0].name != "bytes":
        ends = [line for line in lines if line.name in ("index", "footer")]
        sizes = [int(line.attributes.get("D", "0")) for line in lines]
        c = min(max(12, ceil_log2(max(sizes))), 24)
        lines = [parse_line(f"header c={c}"), *lines]
        if not ends:
            lines += [parse_line("index"), parse_line("footer")]
    for line in lines:
        for _ in range(int(line.attributes.get("times", "1"))):
            add_line(archive, line)
    return bytes(archive.data), verdict(vector, archive, lines)


def verdict(vector: Vector, archive: Archive, lines: list[Line]) -> dict[str, Any]:
    out: dict[str, Any] = {"shows": vector.shows, "rules": vector.rules, "tags": tags_of(archive, lines)}
    fault, size = archive.fault, len(archive.data)
    if vector.expects == "truncated":
        fault = size
    if (vector.expects == "valid" or archive.layout_fault is not None) != (fault is None):
        raise ValueError(f"{vector.name}: a class without a place of the fault, or a place without a class")
    if fault is not None:
        out["fault"] = {"class": vector.expects, "offset": fault}
    out["content"] = digest(archive.contents)
    if "layout" in out["tags"] and fault is None:
        listed: dict[str, Any] = {"entry_count": len(archive.entries)}
        if len(archive.entries) <= 8:
            listed["entries"] = archive.entries
        if archive.layout_fault is not None:
            listed["fault"] = {"class": vector.expects, "offset": archive.layout_fault}
            listed["content"] = digest(archive.contents[: archive.layout_contents])
        out["with_layouts"] = listed
    if archive.zstd and (fault is None or (fault >= archive.zstd[0] and vector.expects == "corrupt")):
        at, before = archive.zstd
        out["without_zstd"] = {
            "fault": {"class": "unsupported", "offset": at},
            "content": digest(archive.contents[:before]),
        }
    return out


def digest(contents: list[bytes]) -> dict[str, Any]:
    content = b"".join(contents)
    return {"length": len(content), "sha256": sha256(content).hexdigest()}


def tags_of(archive: Archive, lines: list[Line]) -> list[str]:
    """What a decoder needs beyond the core to take this file, or what makes it costly."""
    tags = ["layout"] * any(line.name == "layout" for line in lines) + ["zstd"] * (archive.zstd is not None)
    tags += ["members"] * (archive.members > 1) + ["large"] * (sum(map(len, archive.contents)) >= LARGE)
    return sorted(tags) or ["core"]


# All files


def make() -> dict[str, bytes]:
    """The bytes of every file, by its path in the folder of vectors."""
    files, rows = {}, []
    for folder in FOLDERS:
        for vector in read_sources(folder):
            path = f"{folder}/{vector.name}.brv"
            if path in files:
                raise ValueError(f"{path} is there twice")
            try:
                files[path], told = build(vector)
            except Exception as error:
                raise ValueError(f"{path}: {error}") from error
            rows.append(json.dumps({"path": path, **told}, ensure_ascii=False))
    text = '{"format": "brv", "version": 1, "vectors": [\n' + ",\n".join(rows) + "\n]}\n"
    return files | {"manifest.json": text.encode()}


def main() -> int:
    files = make()
    present = {str(path.relative_to(VECTORS)): path for path in VECTORS.rglob("*.brv")}
    differing = sorted(name for name in present if name not in files)
    for name, data in files.items():
        path = VECTORS / name
        if not path.is_file() or path.read_bytes() != data:
            differing.append(name)
    for name in differing:
        print(name)
        if "--check" not in sys.argv and name in files:
            (VECTORS / name).parent.mkdir(exist_ok=True)
            (VECTORS / name).write_bytes(files[name])
        elif "--check" not in sys.argv:
            present[name].unlink()
    return 1 if differing and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
