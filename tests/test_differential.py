"""Random calls on a reader and on `io.BytesIO` give the same, alone and under the standard library's files.

`CALLS=100000 python tests/test_differential.py` makes a longer run and prints what it did.
"""

from __future__ import annotations

import array
import io
import os
import random
import shutil
import tarfile
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from brevis.codec import Encoder
from brevis.file import BrevisFile

CHUNK_SIZE = 4096


def archive_of(*contents: bytes) -> bytes:
    parts: list[Any] = []
    for content in contents:
        encoder = Encoder(chunk_size=CHUNK_SIZE, threads=1)
        parts += [*encoder.write(content), *encoder.finish()]
    return b"".join(parts)


def content_of(rng: random.Random, length: int) -> bytes:
    """Make lines of very different lengths, with some bytes that are no text."""
    lines: list[bytes] = []
    while sum(map(len, lines)) < length:
        lines.append(bytes(rng.choices(b"abcde\xff\0", k=int(rng.expovariate(0.02)))) + b"\n")
        if rng.random() < 0.01:
            lines.append(rng.randbytes(9000))
    return b"".join(lines)[:length]


def into(call: Callable[[Any], int], size: int) -> tuple[int, bytes]:
    buffer = bytearray(size)
    return call(buffer), bytes(buffer)


class Pair:
    """A reader and a `BytesIO` of the same content; where a call may give less, theirs follows ours."""

    def __init__(self, rng: random.Random, wrap: Callable[[Any], Any] = lambda f: f) -> None:
        size = 40_000
        content = content_of(rng, size)
        cut = rng.randrange(size)
        self.rng = rng
        self.length = size
        archive = io.BytesIO(archive_of(content[:cut], content[cut:]))
        self.ours = wrap(BrevisFile(archive, threads=rng.randrange(3)))
        self.theirs = wrap(io.BytesIO(content))

    def amount(self) -> int:
        usual = [-1, 0, 1, 2, 7, 100, 1000, CHUNK_SIZE - 1, CHUNK_SIZE, 9999, self.length + 5]
        return self.rng.choice([*usual, self.rng.randrange(200)])

    def both(self, call: Callable[[Any], Any]) -> None:
        assert call(self.ours) == call(self.theirs)

    def read(self) -> None:
        size = self.rng.choice([self.amount(), None])
        self.both(lambda f: f.read(size))

    def read1(self) -> None:
        size = self.amount()
        first = self.ours.read1(size)
        assert size < 0 or len(first) <= size
        assert self.theirs.read(len(first)) == first
        assert first or not size or self.ours.tell() >= self.length

    def readinto(self) -> None:
        size = max(0, self.amount())
        self.both(lambda f: into(f.readinto, size))

    def readinto_items(self) -> None:
        def fill(f: Any) -> Any:
            items = array.array("H", bytes(500))
            return f.readinto(items), items

        self.both(fill)

    def readinto1(self) -> None:
        count, data = into(self.ours.readinto1, max(0, self.amount()))
        assert self.theirs.read(count) == data[:count]

    def peek(self) -> None:
        size = self.rng.choice([0, 1, 100, CHUNK_SIZE])
        seen, place = self.ours.peek(size), self.theirs.tell()
        assert self.theirs.read(len(seen)) == seen
        assert seen or place >= self.length
        self.theirs.seek(place)

    def readline(self) -> None:
        size = self.amount()
        self.both(lambda f: f.readline(size))

    def readlines(self) -> None:
        # With a hint, BytesIO alone stops at it and not behind it, unlike every file.
        size = self.rng.choice([1, 500, 5000, -1, None])
        assert self.ours.readlines(size) == io.IOBase.readlines(self.theirs, size)

    def iterate(self) -> None:
        self.both(lambda f: [line for line, _ in zip(f, range(4), strict=False)])

    def seek(self) -> None:
        place = self.rng.randrange(self.length + 50)
        self.both(lambda f: f.seek(place))

    def seek_on(self) -> None:
        step = max(self.rng.randrange(-3000, 3000), -self.theirs.tell())
        self.both(lambda f: f.seek(step, os.SEEK_CUR))

    def seek_end(self) -> None:
        place = self.rng.randrange(-self.length, 50)
        self.both(lambda f: f.seek(place, os.SEEK_END))

    def tell(self) -> None:
        self.both(lambda f: f.tell())


METHODS = [
    Pair.read, Pair.read1, Pair.readinto, Pair.readinto_items, Pair.readinto1, Pair.peek, Pair.readline,
    Pair.readlines, Pair.iterate, Pair.seek, Pair.seek_on, Pair.seek_end, Pair.tell,
]  # fmt: skip

# What a line-based mixture calls most, as whole reads leave nothing to do.
WEIGHTS = [1, 8, 8, 4, 8, 8, 16, 1, 8, 8, 8, 4, 2]


def run(seed: int, calls: int) -> Counter[str]:
    rng = random.Random(seed)
    counts: Counter[str] = Counter()
    pair = Pair(rng)
    for number in range(calls):
        if number % 2000 == 1999:
            pair = Pair(rng)
        method = rng.choices(METHODS, WEIGHTS)[0]
        method(pair)
        assert pair.ours.tell() == pair.theirs.tell(), method
        counts[method.__name__] += 1
    return counts


@pytest.mark.parametrize("seed", range(4))
def test_random_calls_give_what_bytesio_gives(seed: int) -> None:
    run(seed, 2000)


def buffered(f: Any) -> Any:
    return io.BufferedReader(f, 700)


@pytest.mark.parametrize("seed", range(2))
def test_random_calls_under_a_buffered_reader(seed: int) -> None:
    rng = random.Random(seed)
    pair = Pair(rng, buffered)
    methods = [m for m in METHODS if m not in (Pair.read1, Pair.readinto1, Pair.peek)]
    for _ in range(1000):
        rng.choice(methods)(pair)
        pair.tell()


@pytest.mark.parametrize("newline", [None, "", "\n"])
def test_random_calls_under_a_text_wrapper(newline: str | None) -> None:
    rng = random.Random(5)
    pair = Pair(rng, lambda f: io.TextIOWrapper(f, "latin-1", newline=newline))
    places = [0]
    for _ in range(1500):
        kind = rng.randrange(6)
        if kind == 0:
            pair.readline()
        elif kind == 1:
            size = rng.choice([0, 1, 50, 5000])
            pair.both(lambda f, size=size: f.read(size))  # type: ignore[misc]
        elif kind == 2:
            place = rng.choice(places)
            pair.both(lambda f, place=place: f.seek(place))  # type: ignore[misc]
        elif kind == 3:
            pair.both(lambda f: f.tell())
            places.append(pair.theirs.tell())
        elif kind == 4:
            pair.both(lambda f: f.seek(0, os.SEEK_END))
        else:
            pair.both(lambda f: f.readline(70))


def test_copies_as_bytesio_does() -> None:
    rng = random.Random(3)
    content = content_of(rng, 100_000)
    for length in (1, 1000, CHUNK_SIZE, 1 << 16, -1):
        copy = io.BytesIO()
        shutil.copyfileobj(BrevisFile(io.BytesIO(archive_of(content))), copy, length)
        assert copy.getvalue() == content
        target = io.BytesIO()
        with BrevisFile(target, "wb") as f:
            shutil.copyfileobj(io.BytesIO(content), f, length)
        assert BrevisFile(io.BytesIO(target.getvalue())).read() == content


@pytest.mark.parametrize("mode", ["r:", "r|"])
def test_tar_files_read_in_any_order(mode: str) -> None:
    rng = random.Random(4)
    plain = io.BytesIO()
    contents = {f"folder/{i}": content_of(rng, rng.choice([0, 1, 511, 512, 9000])) for i in range(40)}
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, content in contents.items():
            item = tarfile.TarInfo(name)
            item.size = len(content)
            tar.addfile(item, io.BytesIO(content))
    with tarfile.open(fileobj=BrevisFile(io.BytesIO(archive_of(plain.getvalue()))), mode=mode) as tar:
        if mode == "r|":
            assert {item.name: tar.extractfile(item).read() for item in tar} == contents  # type: ignore[union-attr]
        for name in rng.sample(list(contents), 20) if mode == "r:" else []:
            assert tar.extractfile(name).read() == contents[name]  # type: ignore[union-attr]


if __name__ == "__main__":
    total, begin = int(os.environ.get("CALLS", 100_000)), time.monotonic()
    done: Counter[str] = Counter()
    for seed in range(10):
        done += run(1000 + seed, total // 10)
    print(f"{done.total()} calls in {time.monotonic() - begin:.1f} s, no difference: {dict(done)}")
