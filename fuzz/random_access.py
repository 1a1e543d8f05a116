"""Seeking and reading, against the whole: any place of an archive gives the bytes that stand there.

Of an archive with changes that the reader accepts as a whole the same is asked. Of others only that they end
in an error of brevis, since what the index leads to may well be sound.
"""

import io
import random

import gen
from driver import Target, run
from judge import core_archive

from brevis import BrevisFile, errors, reader


def jump(rng, file, length):
    """Seek somewhere, in one of the ways; returns the position."""
    match rng.randrange(4):
        case 0:
            return file.seek(rng.randrange(length + 10))
        case 1:
            return file.seek(-rng.randrange(length + 1), io.SEEK_END)
        case 2:
            return file.seek(rng.randrange(-min(file.tell(), 50), 50), io.SEEK_CUR)
    return file.tell()


def check(data):
    rng = random.Random(data)
    content, fault, _, entries = core_archive(data, with_layouts=True)
    for _ in range(3):
        with BrevisFile(io.BytesIO(data), threads=1) as file:
            try:
                for _ in range(10):
                    at = jump(rng, file, len(content))
                    size = rng.choice([0, 1, 9, 300, len(content)])
                    piece = file.read(size)
                    assert file.tell() == at + len(piece), data.hex()
                    assert fault or piece == content[at : at + size], data.hex()
            except errors.Error:
                assert fault, data.hex()
    check_survey(data, fault, len(content), entries)
    return fault or "content"


def check_survey(data, fault, length, entries):
    try:
        listing = reader.survey(io.BytesIO(data))
    except errors.Error:
        assert fault, data.hex()
        return
    if not fault:
        told = [(e.name, e.dtype, list(e.shape), e.end - e.begin) for e in listing.tensors]
        assert told == [(*entry[:3], entry[4] - entry[3]) for entry in entries], data.hex()
        assert (listing.compressed, listing.uncompressed) == (len(data), length), data.hex()


TARGET = Target("random_access", lambda rng: gen.archives(rng, 5), check, check)

if __name__ == "__main__":
    run(TARGET)
