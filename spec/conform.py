"""Does a decoder do what FORMAT.md says? Run any command over spec/vectors/ and compare.

    python spec/conform.py [options] -- COMMAND ARGUMENTS...

For each vector COMMAND gets the archive on standard input, writes the content to standard output, and exits
with 0, or with 1 where it refuses; it may then say why in one line of JSON on standard error:

    {"class": "corrupt", "offset": 123, "message": "..."}

With `--json-lines` the command stays: it reads lines {"file": path} and answers each with one line,

    {"sha256": "...", "length": 7, "class": null, "offset": null}

about the bytes that it released and, where it refused, about the fault. Levels:

    decode   valid files
    errors   files at fault: refused, with the right class and offset if told, and with no bytes released
             but all those before the fault, or a beginning of them
    zstd     files with Zstandard; for a decoder without it (`--without zstd`) they are `unsupported`
    layout   files with layout records
    limits   programs as large as they may be, under a limit of memory and time
    stream   valid files of all other levels but limits, through a pipe in small pieces

A list of expected failures (`--expect-fail`) has lines `level path`, and `#` before comments. A listed file
that passes, or that is not there, is a failure too. The exit status is 0 where there was no failure, 1 where
there was one, 2 for wrong usage. Python's standard library is enough.
"""

import argparse
import contextlib
import fnmatch
import importlib.util
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
    import termios
except ImportError:  # not on Windows; pieces of a stream may then reach the decoder in one
    fcntl = termios = None  # type: ignore[assignment]

HERE = Path(__file__).resolve().parent
LEVELS = ("decode", "errors", "zstd", "layout", "limits", "stream")
SMALL = 1024  # bytes of an archive up to which it is streamed byte by byte
PIECES = (1, 2, 3, 7, 61, 509, 4093, 32749)  # larger ones in pieces of these, in turn
# Starts a command under a limit: memory that a process writes to; reserved address space costs nothing.
LIMITED = """
import os, resource, sys
what = getattr(resource, "RLIMIT_DATA", resource.RLIMIT_AS)
size, hard = int(sys.argv[1]) << 20, resource.getrlimit(what)[1]
resource.setrlimit(what, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))
os.execvp(sys.argv[2], sys.argv[2:])
"""


@dataclass
class Vector:
    """A row of the manifest, as the decoder under test has to see it."""

    path: str
    shows: str
    tags: list[str]
    kind: str | None  # class of the fault, None where there is none
    offset: int | None
    length: int
    sha256: str

    def __str__(self) -> str:
        return f"{told(self.kind, self.offset)}, {self.length} bytes with SHA-256 {self.sha256}"


@dataclass
class Outcome:
    """What came. `trouble` is neither content nor a verdict: a crash, a timeout, a broken answer."""

    kind: str | None = None
    offset: int | None = None
    length: int = 0
    sha256: str = sha256().hexdigest()
    has_verdict: bool = True
    trouble: str = ""

    def __str__(self) -> str:
        verdict = told(self.kind, self.offset) if self.has_verdict else "exit status 1 without a verdict"
        return self.trouble or f"{verdict}, {self.length} bytes with SHA-256 {self.sha256}"


def told(kind: str | None, offset: int | None) -> str:
    return "no fault" if kind is None else f"{kind} at byte {offset}"


@dataclass
class Result:
    level: str
    vector: Vector
    got: Outcome
    failure: str  # empty where it passed
    expected_failure: bool = False


def read_manifest(folder: Path, without: list[str]) -> list[Vector]:
    """The vectors; for a decoder that lacks a part, what such a decoder has to answer."""
    rows = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["vectors"]
    vectors = []
    for row in rows:
        demanded = row
        for part in without:
            demanded = row.get(f"without_{part}", demanded)
        fault, content = demanded.get("fault", {}), demanded.get("content", row["content"])
        vectors.append(
            Vector(
                *(row["path"], row["shows"], row["tags"], fault.get("class"), fault.get("offset")),
                *(content["length"], content["sha256"]),
            )
        )
    return vectors


def level_of(vector: Vector) -> str:
    if vector.path.startswith("limit/"):
        return "limits"
    for tag in ("zstd", "layout"):
        if tag in vector.tags:
            return tag
    return "decode" if vector.kind is None else "errors"


def vectors_of(level: str, vectors: list[Vector]) -> list[Vector]:
    if level == "stream":
        return [v for v in vectors if v.kind is None and level_of(v) != "limits"]
    return [v for v in vectors if level_of(v) == level]


# Comparison


def judge(vector: Vector, got: Outcome, archive: Path, must_tell: bool) -> str:
    """What is wrong, or nothing."""
    if got.trouble:
        return got.trouble
    if (got.kind is None) != (vector.kind is None):
        return "accepted" if got.kind is None else "refused"
    if vector.kind is not None:
        if not got.has_verdict:
            return "no verdict" if must_tell else released(vector, got, archive)
        if got.kind != vector.kind:
            return "another class"
        if got.offset != vector.offset:
            return "another offset"
        return released(vector, got, archive)
    return "" if (got.length, got.sha256) == (vector.length, vector.sha256) else "other bytes"


def released(vector: Vector, got: Outcome, archive: Path) -> str:
    """[X2] Bytes before a fault: all of them, or a beginning of them."""
    if (got.length, got.sha256) == (vector.length, vector.sha256) or got.length == 0:
        return ""
    if got.length < vector.length:
        # The manifest has no digest of a beginning. The reference's bytes serve, if they fit its digest.
        content = reference_content(archive)
        digests = [sha256(part).hexdigest() for part in (content, content[: got.length])]
        if digests == [vector.sha256, got.sha256]:
            return ""
    return "released other bytes"


def reference_content(archive: Path) -> bytes:
    if "reference" not in sys.modules:
        spec = importlib.util.spec_from_file_location("reference", HERE / "reference.py")
        assert spec is not None and spec.loader is not None
        sys.modules["reference"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["reference"])
    return bytes(sys.modules["reference"].decode(archive.read_bytes()).content)


# Decoders


@dataclass
class Decoder:
    """A command that is started for each file."""

    command: list[str]
    timeout: float
    memory: int

    def limited(self, level: str) -> list[str]:
        if level != "limits" or not self.memory or fcntl is None:
            return self.command
        return [sys.executable, "-c", LIMITED, str(self.memory), *self.command]

    def run(self, level: str, archive: Path) -> Outcome:
        deadline = time.monotonic() + self.timeout
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(archive, "rb") as given:
            source = subprocess.PIPE if level == "stream" else given
            with subprocess.Popen(self.limited(level), stdin=source, stdout=out, stderr=err) as process:
                try:
                    if process.stdin is not None:
                        feed(process.stdin, archive.read_bytes(), deadline, process)
                    status = process.wait(max(0, deadline - time.monotonic()))
                except (TimeoutError, subprocess.TimeoutExpired):
                    process.kill()
                    return Outcome(trouble=f"timeout after {self.timeout:g} s")
            return read_outcome(status, out, err)

    def close(self) -> None:
        pass


def read_outcome(status: int, out: IO[bytes], err: IO[bytes]) -> Outcome:
    out.seek(0)
    err.seek(0)
    digest, message = sha256(), err.read().decode(errors="replace")
    length = 0
    while piece := out.read(1 << 20):
        digest.update(piece)
        length += len(piece)
    verdict = verdict_in(message)
    outcome = Outcome(None, None, length, digest.hexdigest(), verdict is not None)
    if status not in (0, 1):
        outcome.trouble = f"exit status {status}: {message[-500:].strip()}"
    elif status == 1:
        outcome.kind = str((verdict or {}).get("class", "fault"))
        outcome.offset = (verdict or {}).get("offset")
    elif verdict and verdict["class"] is not None:
        outcome.trouble = f"exit status 0 and a verdict: {verdict}"
    return outcome


def verdict_in(message: str) -> dict[str, Any] | None:
    """The last line of standard error that is a verdict."""
    for line in reversed(message.splitlines()):
        if line.startswith("{"):
            try:
                verdict: dict[str, Any] = json.loads(line)
            except ValueError:
                continue
            if "class" in verdict:
                return verdict
    return None


def feed(pipe: IO[bytes], data: bytes, deadline: float, reader: subprocess.Popen[bytes]) -> None:
    """Write in pieces, each when the one before it was read; stop where the reader does."""
    at = turn = 0
    try:
        if fcntl is None:
            pipe.write(data)
            return
        os.set_blocking(pipe.fileno(), False)
        while at < len(data):
            size = 1 if len(data) <= SMALL else PIECES[turn % len(PIECES)]
            if unread(pipe) == 0 and select.select([], [pipe], [], 0.01)[1]:
                at += os.write(pipe.fileno(), data[at : at + size])
                turn += 1
            elif reader.poll() is not None:
                return
            elif time.monotonic() > deadline:
                raise TimeoutError
    except BrokenPipeError:
        pass
    finally:
        with contextlib.suppress(BrokenPipeError):
            pipe.close()


def unread(pipe: IO[bytes]) -> int:
    """How many bytes wait in a pipe; a reader gets a moment, a quick one a short moment."""
    for pause in (0.0, 0.0, 0.0, 0.0001, 0.0005, 0.001):
        waiting = int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)
        if waiting == 0:
            return 0
        time.sleep(pause)
    return waiting


class Server:
    """A command that stays and answers lines, one for each thread; started again after it fails to."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.process: subprocess.Popen[bytes] | None = None
        self.level = ""
        self.folder = tempfile.TemporaryDirectory()

    def run(self, level: str, archive: Path) -> Outcome:
        if self.process is None or (level == "limits") != (self.level == "limits"):
            self.close()
            command = self.decoder.limited(level)
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.level = level
        deadline = time.monotonic() + self.decoder.timeout
        try:
            return read_answer(self.ask(level, archive.resolve(), deadline))
        except TimeoutError:
            trouble = f"timeout after {self.decoder.timeout:g} s"
        except (EOFError, BrokenPipeError):
            trouble = f"the command ended, with exit status {self.process.wait()}"
        self.close()
        return Outcome(trouble=trouble)

    def ask(self, level: str, archive: Path, deadline: float) -> bytes:
        """Send a line, feed the pipe if the file is one, wait for the line that answers."""
        process = self.process
        assert process is not None and process.stdin is not None and process.stdout is not None
        place, feeder = archive, None
        if level == "stream":
            place = Path(self.folder.name) / "pipe"
            place.unlink(missing_ok=True)
            os.mkfifo(place)
            feeder = threading.Thread(target=self.feed, args=(process, place, archive, deadline), daemon=True)
            feeder.start()
        process.stdin.write(json.dumps({"file": str(place)}).encode() + b"\n")
        process.stdin.flush()
        answer = b""
        while not answer.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                raise TimeoutError
            piece = os.read(process.stdout.fileno(), 1 << 16)
            if not piece:
                raise EOFError
            answer += piece
        if feeder is not None:
            feeder.join()
        return answer

    def feed(self, process: subprocess.Popen[bytes], place: Path, archive: Path, deadline: float) -> None:
        while time.monotonic() < deadline:
            try:
                pipe = os.fdopen(os.open(place, os.O_WRONLY | os.O_NONBLOCK), "wb", 0)
            except OSError:  # nobody reads yet
                time.sleep(0.0005)
                continue
            with contextlib.suppress(TimeoutError):  # the answer's deadline is the same
                feed(pipe, archive.read_bytes(), deadline, process)
            return

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def read_answer(line: bytes) -> Outcome:
    try:
        answer = json.loads(line)
        return Outcome(answer["class"], answer["offset"], answer["length"], answer["sha256"])
    except (ValueError, KeyError, TypeError):
        return Outcome(trouble=f"an answer of another form: {line[:200]!r}")


# Run and report


def read_expected_failures(path: str | None) -> set[tuple[str, str]]:
    lines = Path(path).read_text(encoding="utf-8").splitlines() if path else []
    pairs = [tuple(line.partition("#")[0].split()) for line in lines]
    for pair in pairs:
        if pair and (len(pair) != 2 or pair[0] not in LEVELS):
            raise SystemExit(f"{path}: not `level path`: {' '.join(pair)}")
    return {(pair[0], pair[1]) for pair in pairs if pair}


STALE = "passed, but is on the list of failures"
UNKNOWN = "is on the list of failures, but is no vector of this level"


def run_all(options: argparse.Namespace, work: list[tuple[str, Vector]]) -> list[Result]:
    expected = read_expected_failures(options.expect_fail)
    decoder = Decoder(options.command, options.timeout, options.memory)
    local, started = threading.local(), []

    def run(item: tuple[str, Vector]) -> Result:
        level, vector = item
        if not hasattr(local, "runner"):
            local.runner = Server(decoder) if options.json_lines else decoder
            started.append(local.runner)
        archive = options.vectors / vector.path
        got = Outcome(trouble="there is no such file")
        if archive.is_file():
            got = local.runner.run(level, archive)
        failure = judge(vector, got, archive, options.must_tell)
        if (level, vector.path) in expected:
            return Result(level, vector, got, "" if failure else STALE, bool(failure))
        return Result(level, vector, got, failure)

    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(run, work))
    for runner in started:
        runner.close()
    if not options.only and options.every == 1:
        there = {(level, vector.path) for level, vector in work}
        for level, path in sorted(expected - there):
            if level in options.levels:
                vector = Vector(path, "", [], None, None, 0, "")
                results.append(Result(level, vector, Outcome(), UNKNOWN))
    return results


def counts_of(results: list[Result], level: str) -> dict[str, int]:
    mine = [result for result in results if result.level == level]
    failed = sum(bool(result.failure) for result in mine)
    expected = sum(result.expected_failure for result in mine)
    return {"passed": len(mine) - failed - expected, "failed": failed, "expected failures": expected}


def print_results(results: list[Result], levels: list[str]) -> None:
    for result in results:
        if result.failure:
            print(f"FAILED {result.level} {result.vector.path}: {result.failure}")
            if result.vector.shows:
                print(f"    shows     {result.vector.shows}")
                print(f"    expected  {result.vector}\n    came      {result.got}")
    print(f"{'level':<8}{'passed':>8}{'failed':>8}{'expected failures':>19}")
    for level in levels:
        passed, failed, expected = counts_of(results, level).values()
        print(f"{level:<8}{passed:>8}{failed:>8}{expected:>19}")


def write_report(options: argparse.Namespace, results: list[Result]) -> None:
    rows = []
    for result in results:
        outcome = "failed" if result.failure else "expected failure" if result.expected_failure else "passed"
        row = {"level": result.level, "path": result.vector.path, "outcome": outcome}
        if outcome == "failed":
            row |= {"failure": result.failure, "expected": str(result.vector), "came": str(result.got)}
        rows.append(row)
    levels = {level: counts_of(results, level) for level in options.levels}
    report = {"command": options.command, "without": options.without, "levels": levels, "results": rows}
    Path(options.report).write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    about = "run a decoder of .brv archives over the test vectors"
    parser = argparse.ArgumentParser(description=about, usage="conform.py [options] -- COMMAND ARGUMENTS...")
    add = parser.add_argument
    add("--vectors", type=Path, default=HERE / "vectors", help="folder of manifest.json and the files")
    add("--level", default=",".join(LEVELS), help="levels to run, separated by commas")
    add("--only", default="", metavar="GLOB", help="run only files whose path in the folder fits")
    add("--every", type=int, default=1, metavar="N", help="of each level run only every N-th file")
    add("--without", default="", metavar="PARTS", help="what the decoder lacks, such as zstd")
    add("--json-lines", action="store_true", help="the command stays, and answers lines")
    add("--must-tell", action="store_true", help="a refusal without class and offset is a failure")
    add("--timeout", type=float, default=60, metavar="S", help="seconds for a file")
    add("--memory", type=int, default=1024, metavar="MB", help="for the level limits; 0 is no limit")
    add("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="how many files at a time")
    add("--expect-fail", metavar="FILE", help="list of expected failures")
    add("--report", metavar="FILE", help="write a report as JSON")
    options = parser.parse_args(arguments[:end])
    options.command = arguments[end + 1 :]
    options.levels = [level for level in options.level.split(",") if level]
    options.without = [part for part in options.without.split(",") if part]
    if not options.command:
        parser.error("a command is missing: -- COMMAND ARGUMENTS...")
    if unknown := set(options.levels) - set(LEVELS):
        parser.error(f"unknown level: {', '.join(sorted(unknown))}")
    return options


def main(arguments: list[str]) -> int:
    options = parse_arguments(arguments)
    vectors = read_manifest(options.vectors, options.without)
    work = []
    for level in options.levels:
        fitting = [v for v in vectors_of(level, vectors) if fnmatch.fnmatch(v.path, options.only or "*")]
        work += [(level, vector) for vector in fitting[:: options.every]]
    results = run_all(options, work)
    print_results(results, options.levels)
    if options.report:
        write_report(options, results)
    if not work:
        print("no vectors were run")
    return 1 if not work or any(result.failure for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
