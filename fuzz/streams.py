"""Pieces: however input and output are split, and whatever works beside, the result is the same.

Decoding: content, error class and offset do not depend on how many bytes a read gives, on a source that
cannot seek, or on the sizes that are asked for. Encoding: the archive does not depend on the pieces that its
content comes in, nor on threads.
"""

import io
import random

import gen
from contents import draw_sample
from driver import Target, run
from judge import KINDS, core_archive
from roundtrip import compress

from brevis import BrevisFile, codec, errors


class Slow:
    """A source of bytes that cannot seek and gives fewer than it is asked for."""

    def __init__(self, rng, data, most):
        self.rng, self.file, self.most = rng, io.BytesIO(data), most

    def read(self, size):
        return self.file.read(min(size, self.rng.randrange(1, self.most + 1)) if size else 0)


def in_pieces(rng, source, threads):
    """The content that reads of any size and kind give, error class and offset."""
    content = b""
    with BrevisFile(source, threads=threads) as file:
        try:
            while True:
                size = rng.choice([1, 7, 100, 5000])
                room = bytearray(size)
                match rng.randrange(3):
                    case 0:
                        piece = file.read(size)
                    case 1:
                        piece = file.read1(size)
                    case _:
                        piece = bytes(room[: file.readinto(room)])
                if not piece:
                    return content, None, None
                content += piece
        except errors.Error as error:
            return content, KINDS[type(error)], error.offset


def check_decoding(rng, data):
    right = core_archive(data, with_layouts=False)[:3]
    for most in (1, rng.randrange(2, 50), 1 << 20):
        found = in_pieces(rng, Slow(rng, data, most), rng.choice([1, 1, 2]))
        assert found == right, f"pieces of up to {most}: {data.hex()}"
    assert in_pieces(rng, io.BytesIO(data), 1) == right, data.hex()
    return right[1] or "content"


def check_encoding(rng, sample):
    whole = compress(sample)
    encoder = codec.Encoder(sample.level, rng.choice([1, 2]), sample.kind, sample.chunk_size)
    made, at = [], 0
    while at < len(sample.content):
        size = rng.choice([1, 30, 1000, 1 << 14])
        piece = sample.content[at : at + size]
        made += encoder.write(rng.choice([bytes, bytearray])(piece))
        at += size
    made += encoder.finish()
    assert b"".join(made) == whole, sample
    return "encoded"


def draw(rng):
    for data in gen.archives(rng, 5):
        yield check_decoding, rng, data
    yield check_encoding, rng, draw_sample(rng)


def check(item):
    function, *arguments = item
    return function(*arguments)


TARGET = Target("streams", draw, check, lambda data: check_decoding(random.Random(data), data))

if __name__ == "__main__":
    run(TARGET)
