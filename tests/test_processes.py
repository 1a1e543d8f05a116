"""Threads, forks, signals and other processes: what's shared is right, and what's killed leaves nothing."""

from __future__ import annotations

import gc
import io
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brevis import crew, errors, file, target
from brevis.codec import Encoder
from brevis.stream import Compressor, Decompressor

TEXT = b"".join(b"line %d\n" % i for i in range(20_000))
NOISE = random.Random(7).randbytes(1 << 20)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(file.__file__).parents[1])}


def archive_of(content: bytes) -> bytes:
    encoder = Encoder(chunk_size=4096, threads=1)
    return b"".join([*encoder.write(content), *encoder.finish()])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.brv"
    path.write_bytes(archive_of(TEXT))
    return path


# Threads


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run work in threads, and let their exceptions come out."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures


def test_sixteen_threads_share_a_reader(path: Path) -> None:
    """Each call is whole: all lines come out once, and whatever is sought is found."""
    lines: list[bytes] = []
    with file.open(path, threads=2) as f:
        in_threads(16, lambda number: lines.extend(iter(f.readline, b"")))
        assert sorted(lines) == sorted(TEXT.splitlines(keepends=True))
        f.seek(0)

        def disturb(number: int) -> None:
            for i in range(20):
                f.seek(1000 * number + i)
                assert f.peek(100)
                f.readinto(bytearray(10))

        in_threads(16, disturb)


def test_one_reader_for_each_of_sixteen_threads(path: Path) -> None:
    archive = io.BytesIO(path.read_bytes())

    def work(number: int) -> None:
        rng = random.Random(number)
        for i in range(12):
            with file.open(path if i % 2 else io.BytesIO(archive.getvalue()), threads=i % 3) as f:
                place = rng.randrange(len(TEXT))
                f.seek(place)
                assert f.read(5000) == TEXT[place : place + 5000]

    in_threads(16, work)


def test_sixteen_threads_share_a_writer() -> None:
    out = io.BytesIO()
    with file.open(out, "wb", threads=2) as f:
        in_threads(16, lambda number: [f.write(bytes([number]) * 10_000) for _ in range(5)] and None)
    content = file.decompress(out.getvalue())
    pieces = [content[i : i + 10_000] for i in range(0, len(content), 10_000)]
    assert sorted(pieces) == sorted(bytes([number]) * 10_000 for number in range(16) for _ in range(5))


def test_threads_and_jobs_have_a_ceiling() -> None:
    assert crew.Crew(10_000).threads <= crew.MAX_THREADS
    jobs = crew.Crew(2, memory=100)
    assert jobs.fits(1000)  # one alone always does
    jobs.add(60, bytes)
    assert jobs.fits(40) and not jobs.fits(41)
    jobs.close(wait=True)
    for odd in (1.5, None, "2"):
        with pytest.raises(TypeError):
            file.compress(b"x", threads=odd)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            file.decompress(file.compress(b"x"), threads=odd)  # type: ignore[call-overload]
        with pytest.raises(TypeError):
            file.open(io.BytesIO(), threads=odd)


# Forks


def in_child(work: Callable[[], None]) -> None:
    """Run work in a forked process, which must end soon, and well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads is what's tested
        pid = os.fork()
    if not pid:
        status = 1
        try:
            signal.alarm(20)
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("threads", [1, 2])
def test_readers_go_on_after_a_fork(path: Path, threads: int) -> None:
    source = io.BytesIO(path.read_bytes())
    with file.open(path, threads=threads) as f, file.open(source, threads=threads) as g:
        for one in (f, g):
            assert one.read(10_000) == TEXT[:10_000]

        def child() -> None:
            for one in (f, g):
                assert one.tell() == 10_000
                assert one.read() == TEXT[10_000:]
                one.seek(5)
                assert one.read(5) == TEXT[5:10]
                one.close()

        in_child(child)
        for one in (f, g):
            assert one.read() == TEXT[10_000:]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_reads_in_both_processes_do_not_disturb_each_other(path: Path) -> None:
    with file.open(path, threads=2) as f:
        f.read(100)

        def child() -> None:
            for _ in range(20):
                f.seek(0)
                assert f.read() == TEXT

        reads = threading.Thread(target=lambda: [f.seek(0) or f.read() for _ in range(20)])
        reads.start()
        in_child(child)
        reads.join()
        f.seek(0)
        assert f.read() == TEXT


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("mode", ["wb", "ab"])
def test_a_writer_stays_with_its_process(path: Path, mode: str) -> None:
    old = path.read_bytes()
    f = file.open(path, mode, threads=2)
    f.write(NOISE)

    def child() -> None:
        for call in (lambda: f.write(b"x"), f.flush, f.close):
            with pytest.raises((RuntimeError, ValueError)):
                call()
        f.discard()
        gc.collect()

    in_child(child)
    f.write(TEXT)
    f.close()
    assert path.read_bytes().startswith(old) == (mode == "ab")
    assert file.decompress(path.read_bytes()).endswith(NOISE + TEXT)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_functions_and_objects_work_after_a_fork() -> None:
    archive = archive_of(TEXT)
    compressor, decompressor = Compressor(threads=2), Decompressor(threads=2)
    begin = compressor.compress(TEXT)
    got = decompressor.decompress(archive[: len(archive) // 2])
    file.decompress(file.compress(NOISE * 9, threads=2), threads=2)

    def child() -> None:
        assert file.decompress(file.compress(NOISE * 9, threads=2), threads=2) == NOISE * 9
        assert got + decompressor.decompress(archive[len(archive) // 2 :]) == TEXT
        assert file.decompress(begin + compressor.flush()) == TEXT

    in_child(child)


def read_there(f: Any) -> bytes:
    content: bytes = f.read()
    f.close()
    return content


def compress_there(data: bytes) -> bytes:
    return file.compress(data, threads=2)


def raise_there(kind: type[errors.Error]) -> None:
    raise kind("as told", 7)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_multiprocessing(method: str, path: Path) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("not here")
    file.decompress(file.compress(NOISE * 9, threads=2), threads=2)
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool, file.open(path) as f:
        f.seek(1000)
        assert pool.map(read_there, [f, f]) == [TEXT[1000:]] * 2
        assert pool.apply(compress_there, (TEXT,)) == file.compress(TEXT)
        with pytest.raises(errors.CorruptError, match=r"as told \(at byte 7\)") as caught:
            pool.apply(raise_there, (errors.CorruptError,))
        assert caught.value.offset == 7


KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.Error)]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", KINDS)
def test_every_exception_can_be_pickled(kind: type[errors.Error], protocol: int) -> None:
    for offset in (None, 0, 2**63):
        back = pickle.loads(pickle.dumps(kind("what", offset), protocol))
        assert (type(back), back.offset, str(back), back.args) == (
            kind, offset, str(kind("what", offset)), ("what",),
        )  # fmt: skip
    assert len(KINDS) == 7


def test_a_relative_path_can_be_pickled(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with file.open("a.brv") as f:
        f.read(100)
        pickled = pickle.dumps(f)
        assert f.name == "a.brv"
    monkeypatch.chdir("/")
    with pickle.loads(pickled) as g:
        assert g.read(100) == TEXT[100:200]


# Interruptions


class Interrupting(io.BytesIO):
    """A source whose reading is interrupted once in a while."""

    interruptions = 0
    every = 3

    def read(self, size: int | None = -1) -> bytes:
        self.interruptions += 1
        if self.interruptions % self.every == 0:
            raise KeyboardInterrupt
        return super().read(size)


@pytest.mark.parametrize("every", [7, 20])
@pytest.mark.parametrize("threads", [1, 2])
def test_after_an_interruption_nothing_is_lost(threads: int, every: int) -> None:
    content = TEXT[:60_000]
    source = Interrupting(archive_of(content))
    source.every = every
    f = file.open(source, threads=threads)
    got, calls = b"", 0
    rng = random.Random(1)
    while len(got) < len(content):
        place, calls = f.tell(), calls + 1
        assert place == len(got) and calls < 5000
        try:
            kind = rng.randrange(4)
            if kind == 0:
                got += f.read(rng.randrange(9000))
            elif kind == 1:
                got += f.readline()
            elif kind == 2:
                buffer = bytearray(rng.randrange(5000))
                got += buffer[: f.readinto(buffer)]
            else:
                got += f.read1()
        except KeyboardInterrupt:
            assert f.tell() == place
    assert got == content


def test_an_interrupted_read_of_everything_can_be_repeated() -> None:
    source = Interrupting(archive_of(TEXT))
    source.every = 60
    f = file.open(source, threads=1)
    with pytest.raises(KeyboardInterrupt):
        f.read()
    assert f.tell() == 0
    assert f.read(100) == TEXT[:100]
    source.every = 10**9
    assert f.read() == TEXT[100:]


INTERRUPTED = """
import sys, time
import brevis.file as file
text = b"".join(b"line %d of a text\\n" % i for i in range(900000))[:12 << 20]
print("ready", flush=True)
try:
    while True:
        file.compress(text, level=9, threads=int(sys.argv[1]))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_an_interruption_comes_through_within_a_second(threads: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, threads], stdout=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.5)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"interrupted\n"
        assert process.wait(20) == 0
        assert time.monotonic() - begin < 1.5  # with some for a busy machine


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.04, 0.06, 0.1, 0.15])
def test_the_command_is_interrupted_quietly_at_any_time(delay: float, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(TEXT * 30)
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "brevis", "-9", "-T1", "a"],
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        cwd=tmp_path,
    ) as process:
        assert process.stderr is not None
        shown = b""
        while b" brevis.target\n" not in shown:  # the first room that's loaded; before, it's Python's time
            shown += (line := process.stderr.readline())
            if not line:
                break
        time.sleep(delay)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        shown += process.stderr.read()
        assert process.wait(20) in (-signal.SIGINT, 0)
        assert time.monotonic() - begin < 1.5
    assert b"Traceback" not in shown
    assert set(os.listdir(tmp_path)) <= {"a", "a.brv"}


# Files of several


def test_kill_while_overwriting_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    source, archive = tmp_path / "a", tmp_path / "a.brv"
    source.write_bytes(TEXT)
    old, new = file.compress(b"old"), file.compress(TEXT)
    archive.write_bytes(old)
    seen = set()
    for i in range(12):
        with subprocess.Popen([sys.executable, "-m", "brevis", "-f", source], env=ENVIRONMENT) as process:
            time.sleep(0.08 + 0.015 * i)
            process.kill()
        seen.add(archive.read_bytes())
        if sys.platform == "linux":
            assert set(os.listdir(tmp_path)) <= {"a", "a.brv"}
    assert seen <= {old, new}


def test_a_killed_process_leaves_no_file_behind(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(NOISE * 16)
    with subprocess.Popen(
        [sys.executable, "-m", "brevis", "-9", "-T1", "a"], env=ENVIRONMENT, cwd=tmp_path
    ) as process:
        time.sleep(0.6)
        process.kill()
    if sys.platform == "linux" and process.returncode == -signal.SIGKILL:
        assert os.listdir(tmp_path) == ["a"]


def test_two_writers_on_one_path(tmp_path: Path) -> None:
    """One of them wins; never is there a mixture."""
    path = tmp_path / "a.brv"
    contents = [bytes([i]) * 100_000 for i in range(8)]

    def work(number: int) -> None:
        for _ in range(4):
            with file.open(path, "wb") as f:
                f.write(contents[number])
            assert file.decompress(path.read_bytes()) in contents

    in_threads(8, work)
    f, g = file.open(path, "wb"), file.open(path, "wb")
    f.write(b"f")
    g.write(b"g")
    f.close()
    assert file.open(path).read() == b"f"
    g.close()
    assert file.open(path).read() == b"g"
    path.unlink()
    f, g = file.open(path, "xb"), file.open(path, "xb")
    f.close()
    with pytest.raises(FileExistsError):
        g.close()
    assert os.listdir(tmp_path) == ["a.brv"]


def test_saving_over_the_file_that_is_being_read(path: Path) -> None:
    with file.open(path) as f, file.open(path, "wb") as g:
        while piece := f.read(10_000):
            g.write(piece.upper())
    assert file.open(path).read() == TEXT.upper()


@pytest.mark.parametrize("nameless", [True, False])
def test_targets_with_and_without_a_name(nameless: bool, tmp_path: Path, monkeypatch: Any) -> None:
    if not nameless:
        monkeypatch.setattr(target, "_NAMELESS", 0)
    path = tmp_path / "a"
    for replace, content in ((False, b"one"), (True, b"two")):
        with target.Target(str(path), replace=replace, mode=0o640) as t:
            t.write(content)
            beside = set(os.listdir(tmp_path)) - {"a"}
            assert len(beside) == (0 if nameless and target._NAMELESS else 1)
            t.commit()
        assert path.read_bytes() == content
        assert os.listdir(tmp_path) == ["a"]
    with pytest.raises(FileExistsError) as caught, target.Target(str(path), replace=False):
        pass
    assert caught.value.filename == str(path)
    with target.Target(str(path), replace=True) as t:
        t.write(b"never")
    assert path.read_bytes() == b"two"
    path.unlink()
    with target.Target(str(path), replace=False) as t:
        path.write_bytes(b"came in the meantime")
        with pytest.raises(FileExistsError) as caught:
            t.commit()
        assert caught.value.filename == str(path)
    assert path.read_bytes() == b"came in the meantime"
    with target.Target(str(path), replace=True) as t:
        path.unlink()
        path.mkdir()
        with pytest.raises(OSError) as failed:
            t.commit()
        assert failed.value.filename == str(path)
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("mode", ["wb", "wt", "ab"])
def test_a_writer_that_is_dropped_is_given_up(mode: str, path: Path) -> None:
    old = path.read_bytes()
    f = file.open(path, mode)
    f.write("x" if mode == "wt" else b"x")  # type: ignore[call-overload]
    with pytest.warns(ResourceWarning, match="never closed"):
        del f
        gc.collect()
    assert path.read_bytes() == old
    assert os.listdir(path.parent) == ["a.brv"]


def test_a_writer_that_is_dropped_at_the_end_of_a_program_is_given_up(path: Path) -> None:
    old = path.read_bytes()
    script = f"import brevis.file as f; w = f.open({str(path)!r}, 'wb'); w.write(b'x' * 5000000); 1 / 0"
    subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, check=False)
    assert path.read_bytes() == old
