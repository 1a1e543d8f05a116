"""spec/conform.py: three decoders pass, and decoders broken on purpose do not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import brevis

SPEC = Path(__file__).resolve().parent.parent / "spec"
VECTORS = SPEC / "vectors"
REFERENCE = SPEC / "reference.py"
NODE_DECODER = SPEC / "decoders" / "brv.mjs"
ROWS = {row["path"]: row for row in json.loads((VECTORS / "manifest.json").read_text("utf-8"))["vectors"]}
PACKAGES = os.pathsep.join([str(Path(brevis.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node.js, `node`, is not installed")

# Commands that stay and answer lines, of decoders that are functions in Python.
ANSWER = """
import hashlib, json, sys
for line in sys.stdin:
    content, kind, offset = decode(open(json.loads(line)["file"], "rb"))
    told = {"sha256": hashlib.sha256(content).hexdigest(), "length": len(content)}
    print(json.dumps(told | {"class": kind, "offset": offset}), flush=True)
"""
REFERENCE_SERVER = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("reference", sys.argv[1])
sys.modules["reference"] = reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)

def decode(file):
    verdict = reference.decode(file.read())
    return verdict.content, verdict.fault, verdict.offset
"""
CORE_SERVER = """
from brevis import codec, errors
classes = {errors.MalformedError: "malformed", errors.TruncatedError: "truncated"}
classes |= {errors.CorruptError: "corrupt", errors.UnsupportedError: "unsupported"}
classes |= {errors.InvalidProgramError: "invalid"}

def decode(file):
    content = bytearray()
    try:
        for block in codec.decode_blocks(file.read, threads=1):
            content += block
    except errors.Error as error:
        return content, classes[type(error)], error.offset
    return content, None, None
"""


class Run:
    """What conform said: exit status, text, failures by path, counts by level."""

    def __init__(self, options: list[Any], command: list[Any]) -> None:
        report = Path("report.json").resolve()
        line = [sys.executable, SPEC / "conform.py", *options, "--report", report, "--", *command]
        environment = {**os.environ, "PYTHONPATH": PACKAGES}
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=300, env=environment)
        self.status, self.text = done.returncode, done.stdout + done.stderr
        told = json.loads(report.read_text("utf-8")) if report.exists() else {"levels": {}, "results": []}
        self.levels = told["levels"]
        self.failures = {row["path"]: row["failure"] for row in told["results"] if row["outcome"] == "failed"}

    def passed(self) -> bool:
        counts = [sum(count[key] for count in self.levels.values()) for key in ("passed", "failed")]
        assert (self.status == 0) == (not self.failures) and counts[1] == len(self.failures), self.text
        return self.status == 0 and counts[0] > 0


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def script(text: str, name: str = "decoder.py") -> list[Any]:
    path = Path(name).resolve()
    path.write_text(text, "utf-8")
    return [sys.executable, path]


# Sound decoders


def test_reference() -> None:
    command = [*script(REFERENCE_SERVER + ANSWER), REFERENCE]
    run = Run(["--json-lines", "--level", "decode,errors,zstd,layout"], command)
    assert run.passed(), run.text


def test_reference_as_command() -> None:
    run = Run(["--every", "120", "--level", "decode,errors,stream"], [sys.executable, REFERENCE])
    assert run.passed(), run.text


KNOWN_OF_CORE = ""  # lines `level path`: vectors at which the core fails as yet


def test_core() -> None:
    Path("known.txt").write_text(KNOWN_OF_CORE, "utf-8")
    options = ["--json-lines", "--jobs", "2", "--memory", "512", "--expect-fail", "known.txt"]
    run = Run(options, script(CORE_SERVER + ANSWER))
    assert run.passed(), run.text


def test_core_as_command() -> None:
    command = [sys.executable, "-m", "brevis", "-dc"]
    run = Run(["--every", "120", "--level", "decode,errors,stream"], command)
    assert run.passed(), run.text


@needs_node
def test_node() -> None:
    command = ["node", NODE_DECODER, "--json-lines"]
    run = Run(["--json-lines", "--without", "zstd", "--must-tell", "--jobs", "2"], command)
    assert run.passed(), run.text


@needs_node
def test_node_as_command() -> None:
    run = Run(["--every", "120", "--without", "zstd", "--must-tell"], ["node", NODE_DECODER])
    assert run.passed(), run.text


@needs_node
def test_node_lacks_zstd() -> None:
    run = Run(["--json-lines", "--level", "zstd"], ["node", NODE_DECODER, "--json-lines"])
    assert not run.passed()
    assert all(path in run.text and "zstd" in ROWS[path]["tags"] for path in run.failures)


# Decoders broken on purpose, by replacements in the reference's text


def without(line: str) -> list[tuple[str, str, int]]:
    return [(line, "pass", 1)]


MORE_MEMBERS = 'self.data[self.unit : self.unit + 8] == b"\\x89BRV\\r\\n\\x1a\\n"'

# Old text, new text, how often the old one is there; a level, files of it to try, and how one of them fails
BROKEN: dict[str, tuple[list[tuple[str, str, int]], str, str, str]] = {
    "no checksum of the content": (
        without('demand(crc32(content) == crc, "corrupt", "[K3] CRC of the content")'),
        *("errors", "corrupt/k*", "accepted"),
    ),
    "no checksum of a body": (
        without('demand(crc32(body) == int.from_bytes(crc, "little"), "corrupt", "[R7] CRC of a body")'),
        *("errors", "corrupt/r*", "accepted"),
    ),
    "the next lane": (
        [("states[i % lanes]", "states[(i + 1) % lanes]", 2)],
        *("decode", "valid/rans*", "refused"),
    ),
    "long varints": (
        without('self.demand(byte > 0 or shift == 7, "a varint that is longer than needed")'),
        *("errors", "*/[mp]*", "accepted"),
    ),
    "padding bits": (
        [
            ("demand(spare == 0 or data[-1] >> (8 - spare) == 0,", "demand(True,", 1),
            ("demand(self.field(-self.position % 8) == 0,", "demand(self.field(-self.position % 8) >= 0,", 1),
            ("used == len(data) and window == 0", "used == len(data)", 1),
        ],
        *("errors", "corrupt/v2*", "accepted"),
    ),
    "bytes behind the archive": (
        [("self.unit < len(self.data) or", f"{MORE_MEMBERS} or", 1)],
        *("errors", "*/h*", "accepted"),
    ),
    "a node too many": (
        [("self.announced <= 1024", "self.announced <= 1025", 1)],
        *("errors", "invalid/q*", "accepted"),
    ),
    "offsets of records for those of nodes": (
        [("self.code.offset = self.origin + self.code.position", "self.code.offset = None", 1)],
        *("errors", "invalid/*", "another offset"),
    ),
    "nothing released": (
        [("self.released.append(content)", "pass", 1)],
        *("decode", "valid/raw*", "other bytes"),
    ),
}


def broken(replacements: list[tuple[str, str, int]]) -> None:
    """Write the reference, so changed, as broken.py."""
    text = REFERENCE.read_text("utf-8")
    for old, new, count in replacements:
        assert text.count(old) == count, f"the reference has no longer {old}"
        text = text.replace(old, new)
    Path("broken.py").write_text(text, "utf-8")


@pytest.mark.parametrize("name", BROKEN)
def test_broken_decoders_are_caught(name: str) -> None:
    replacements, level, files, failure = BROKEN[name]
    broken(replacements)
    server = script(REFERENCE_SERVER + ANSWER)
    options = ["--json-lines", "--jobs", "1", "--level", level, "--only", files]
    run = Run(options, [*server, REFERENCE])
    assert run.passed(), run.text
    run = Run(options, [*server, "broken.py"])
    assert not run.passed()
    assert failure in run.failures.values(), run.text


# Checks taken out of the reference one at a time: each of these files is at fault by that check alone, and
# must be accepted then. A file that is still refused, for another reason, would show nothing.
UNCHECKED: dict[str, tuple[list[tuple[str, str, int]], list[str]]] = {
    "padding of words": (
        [("demand(spare == 0 or data[-1] >> (8 - spare) == 0,", "demand(True,", 1)],
        ["corrupt/v2-raw-padding*", "corrupt/v2-packed-padding*", "corrupt/v2-zstd-padding*"],
    ),
    "padding of tables": (
        [("demand(self.field(-self.position % 8) == 0,", "demand(self.field(-self.position % 8) >= 0,", 1)],
        ["corrupt/v2-table-padding-*"],
    ),
    "first states": (
        without(
            'demand(min(states) >= 1 << 16, "corrupt", "[N2] a state below 2^16 at the start of a block")'
        ),
        ["corrupt/n2-first-state-[0-9]*", "corrupt/n2-first-state-of-last-lane*"],
    ),
    "frequencies of 2^k": (
        without('demand(max(f) < 1 << k, "corrupt", "[N1] a frequency that is not below 2^k")'),
        ["corrupt/n1-frequency-2-to-k-*"],
    ),
    "frequencies of 0": (
        without('demand(f[j] >= 1, "corrupt", "[N1] frequencies that sum to too much")'),
        ["corrupt/n1-greatest-falls-to-0*"],
    ),
    "numbers of 0": (
        [("demand(min(values) >= 1 and", "demand(", 1)],
        ["corrupt/t1-number-0*", "corrupt/t1-first-number-0*"],
    ),
    "numbers that wrap to 0": (
        [("demand(min(values) >= 1 and", "values = [v % 65536 for v in values]\n    demand(", 1)],
        ["corrupt/t1-number-65536*", "corrupt/t1-number-2-to-63*"],
    ),
    "exp-Golomb codes that wrap": (
        [
            ('demand(0 <= zeros <= 63, "corrupt",', 'demand(0 <= zeros, "corrupt",', 1),
            ('demand(value < 1 << 64, "corrupt",', 'value %= 1 << 64\n        demand(True, "corrupt",', 1),
        ],
        ["corrupt/v3-64-zero-bits*", "corrupt/v3-value-*"],
    ),
    "dictionaries": (
        [
            ("descriptor & 0b1011", "descriptor & 0b1010", 1),
            ("6 - single_segment,", "6 - single_segment + (descriptor & 1),", 1),
        ],
        ["corrupt/e3-zstd-dictionary-flag*"],
    ),
    "words for each lane": (
        without('code.demand(lanes == 64 or q <= 65536 * lanes, "too many words of a block for its lanes")'),
        ["invalid/p2-rans-*-words-on-*", "invalid/p2-rans-two-blocks-of-65537-words*"],
    ),
    "depth": (
        [("depth <= 31 or not node.types", "True", 1)],
        ["invalid/q3-depth-32*"],
    ),
    "charges": (
        [("self.charges <= 2 * self.content_length + 65536", "True", 1)],
        ["invalid/q6-*"],
    ),
    "words": (
        [("self.words <= 32 * self.content_length + 65536", "True", 1)],
        ["invalid/q7-*"],
    ),
    "CRC of a record header": (
        without('demand(crc32(header[:12]) == crc, "corrupt", "[R3] CRC of a record header")'),
        ["corrupt/r3-record-header-crc-of-*"],
    ),
    "CRC of a body": (
        without('demand(crc32(body) == int.from_bytes(crc, "little"), "corrupt", "[R7] CRC of a body")'),
        ["corrupt/r7-body-crc-of-*"],
    ),
}


@pytest.mark.parametrize("name", UNCHECKED)
def test_only_the_missing_check_decides(name: str) -> None:
    replacements, patterns = UNCHECKED[name]
    broken(replacements)
    server = script(REFERENCE_SERVER + ANSWER)
    for pattern in patterns:
        paths = [path for path in ROWS if fnmatch(path, pattern)]
        run = Run(["--json-lines", "--jobs", "1", "--only", pattern], [*server, "broken.py"])
        assert paths and run.failures == dict.fromkeys(paths, "accepted"), run.text


SUM = "payloads = sum(node.payload_size for node in reader.nodes)"
SUM_OF_NODE = "node.payload_size = sum(node.operands[3:])"
AT_NODE = 'code.demand(node.payload_size < 1 << 64, "a sum of 2^64 or more")'
PLACE = "(tag == FOOTER) == (member.index is not None)"
END_OF_CODE = "    reader.code.offset = origin + position\n"
NO_FRAMES = '    demand(all(node.op != Op.ZSTD for node in reader.nodes), "unsupported", "[Z1]")\n'

# Rules that say which of two faults it is, or where: without them there is another answer, and which
SHIFTED: dict[str, tuple[list[tuple[str, str, int]], str, str]] = {
    "sums of sizes in 64 bits": (
        [(SUM, f"{SUM} % 2**64", 1)],
        *("invalid/p3-sizes-wrap*", "another class"),
    ),
    "sums of sizes judged at the node": (
        [(SUM_OF_NODE, f"{SUM_OF_NODE}\n            {AT_NODE}", 1)],
        *("invalid/p3-sizes-wrap*", "another offset"),
    ),
    "sums of sizes ahead of later nodes": (
        [(SUM_OF_NODE, f"{SUM_OF_NODE}\n            {AT_NODE}", 1)],
        *("invalid/x1-sum-of-sizes*", "another offset"),
    ),
    "bodies ahead of their place": (
        [(PLACE, f"tag == CHUNK or {PLACE}", 1)],
        *("malformed/r8-before-a-chunk-that-*", "another class"),
    ),
    "lack of Zstandard ahead of P3": (
        [(END_OF_CODE, NO_FRAMES + END_OF_CODE, 1)],
        *("invalid/p3-before-z1*", "another class"),
    ),
    "a layout as long as any chunk": (
        [("1 << min(20, member.c)", "1 << 20", 1)],
        *("malformed/l1-*", "accepted"),
    ),
}


@pytest.mark.parametrize("name", SHIFTED)
def test_order_and_place_of_faults_are_caught(name: str) -> None:
    replacements, pattern, failure = SHIFTED[name]
    broken(replacements)
    run = Run(
        ["--json-lines", "--jobs", "1", "--only", pattern],
        [*script(REFERENCE_SERVER + ANSWER), "broken.py"],
    )
    assert not run.passed() and failure in run.failures.values(), run.text


# The suite's own behaviour, on vectors of any bytes: a decoder is a function of them


OLD = b"content"
FAULT = {"class": "corrupt", "offset": 5}


def own_vectors(**faults: dict[str, Any] | None) -> list[Any]:
    """A folder with a valid file for each name, or one at fault behind OLD."""
    rows = []
    for name, fault in faults.items():
        path = f"{'valid' if fault is None else 'corrupt'}/{name}.brv"
        (Path("own") / path).parent.mkdir(parents=True, exist_ok=True)
        (Path("own") / path).write_bytes(OLD * 200)
        content = OLD if fault else OLD * 200
        digest = {"length": len(content), "sha256": sha256(content).hexdigest()}
        told = {"fault": fault} if fault else {}
        rows.append({"path": path, "shows": name, "rules": [], "tags": ["core"], "content": digest, **told})
    Path("own/manifest.json").write_text(json.dumps({"vectors": rows}), "utf-8")
    return ["--vectors", "own"]


def decoder(body: str) -> list[Any]:
    return script("import json, os, sys, time\nout, err = sys.stdout.buffer, sys.stderr\n" + body)


COPY = "out.write(sys.stdin.buffer.read())\n"


def test_streams_arrive_in_pieces() -> None:
    vectors = own_vectors(a=None)
    assert Run([*vectors, "--level", "decode,stream"], decoder(COPY)).passed()
    greedy = decoder("out.write(os.read(0, 1 << 20))\n")
    assert Run([*vectors, "--level", "decode"], greedy).passed()
    run = Run([*vectors, "--level", "stream"], greedy)
    assert not run.passed() and run.failures == {"valid/a.brv": "other bytes"}


REFUSALS = {
    f"out.write({OLD!r}); out.flush(); print('x\\n' + json.dumps({FAULT!r}), file=err); sys.exit(1)": "",
    f"out.write({OLD!r}); sys.exit(1)": "",
    "sys.exit(1)": "",
    f"out.write({OLD[:3]!r}); sys.exit(1)": "released other bytes",
    f"out.write({OLD + OLD!r}); sys.exit(1)": "released other bytes",
    f"print(json.dumps({FAULT | {'offset': 6}!r}), file=err); sys.exit(1)": "another offset",
    f"print(json.dumps({FAULT | {'class': 'invalid'}!r}), file=err); sys.exit(1)": "another class",
    f"print(json.dumps({FAULT!r}), file=err); sys.exit(0)": "exit status 0 and a verdict",
    f"out.write({OLD!r})": "accepted",
    "sys.exit(3)": "exit status 3",
    "os.kill(os.getpid(), 9)": "exit status -9",
    "time.sleep(60)": "timeout",
}


@pytest.mark.parametrize("body", REFUSALS)
def test_refusals(body: str) -> None:
    """Bytes that are no beginning known to the reference count as other bytes."""
    vectors = own_vectors(a=FAULT)
    run = Run([*vectors, "--level", "errors", "--timeout", "2" if "sleep" in body else "60"], decoder(body))
    assert run.passed() == (not REFUSALS[body]), run.text
    assert run.failures.get("corrupt/a.brv", "").startswith(REFUSALS[body])


def test_beginning_of_the_bytes_before_a_fault() -> None:
    """[X2] is a SHOULD: a decoder may release less, which is judged by the reference's bytes."""
    path = next(p for p, row in ROWS.items() if "fault" in row and row["content"]["length"] > 1)
    with open(VECTORS / path, "rb") as archive:
        known = subprocess.run([sys.executable, REFERENCE], stdin=archive, capture_output=True, check=False)
    for released, sound in (known.stdout[:-1], True), (known.stdout[:-1] + b"?", False):
        command = decoder(f"sys.stdin.buffer.read(); out.write({released!r}); sys.exit(1)")
        run = Run(["--level", "errors,layout,zstd", "--only", path], command)
        assert run.passed() == sound, run.text


def test_refusals_must_tell() -> None:
    vectors = own_vectors(a=FAULT)
    run = Run([*vectors, "--level", "errors", "--must-tell"], decoder("sys.exit(1)"))
    assert run.failures == {"corrupt/a.brv": "no verdict"}


def test_servers_that_end_hang_or_babble() -> None:
    vectors = [*own_vectors(a=None, b=None), "--json-lines", "--level", "decode", "--timeout", "3"]
    for body, failure in (
        ("sys.stdin.readline()", "the command ended"),
        ("time.sleep(60)", "timeout"),
        ("for line in sys.stdin: print('x', flush=True)", "an answer of another form"),
    ):
        run = Run(vectors, decoder(body))
        assert len(run.failures) == 2 and all(text.startswith(failure) for text in run.failures.values())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit a process's memory this way")
def test_memory_is_limited() -> None:
    vectors = own_vectors(a=None)
    manifest = Path("own/manifest.json")
    manifest.write_text(manifest.read_text("utf-8").replace("valid/", "limit/"), "utf-8")
    Path("own/valid").rename("own/limit")
    for size, sound in (100, True), (400, False):
        command = decoder(f"held = bytearray({size} << 20)\n" + COPY)
        assert Run([*vectors, "--level", "limits", "--memory", "256"], command).passed() == sound


def test_expected_failures_cannot_go_stale() -> None:
    vectors = [*own_vectors(a=None, b=FAULT), "--level", "decode,errors", "--expect-fail", "list.txt"]
    command = decoder(COPY)  # right for a, wrong for b
    listed = Path("list.txt")
    listed.write_text("# known\nerrors corrupt/b.brv  # takes all\n", "utf-8")
    run = Run(vectors, command)
    assert run.passed() and run.levels["errors"] == {"passed": 0, "failed": 0, "expected failures": 1}
    listed.write_text("errors corrupt/b.brv\ndecode valid/a.brv\ndecode valid/gone.brv\n", "utf-8")
    run = Run(vectors, command)
    assert not run.passed() and sorted(run.failures) == ["valid/a.brv", "valid/gone.brv"]


def test_wrong_usage() -> None:
    assert Run([], []).status == 2
    assert Run(["--level", "speed"], ["true"]).status == 2
    assert Run(["--only", "no/such/*"], ["true"]).status == 1
