"""The encoder: any content, of any kind and shape, comes back, and no chunk record is above its content + 96.

The bytes that are compressed begin at an odd address, where items of several bytes do not like to be. Small
archives are read by the reference as well.
"""

import io

from contents import Sample, draw_sample
from driver import Target, run
from parts import reference

from brevis import codec
from brevis.frame import CHUNK, Block
from brevis.sources import DTYPE_BITS, Kind

JUDGED = 1 << 11  # bytes of content that the reference is asked to read too


def compress(sample):
    encoder = codec.Encoder(sample.level, 1, sample.kind, sample.chunk_size)
    return b"".join([*encoder.write(sample.content), *encoder.finish()])


def check(sample):
    shifted = memoryview(b"\0" + sample.content)[1:]
    made = compress(sample._replace(content=shifted))
    content = b"".join(codec.decode_blocks(io.BytesIO(made).read, threads=1))
    assert content == sample.content, sample
    for event in codec.events(io.BytesIO(made).read):
        if isinstance(event, Block) and event.tag == CHUNK:
            assert event.size <= event.content_length + 96, (event.size, sample)
    if len(content) <= JUDGED:
        assert reference.decode(made) == reference.Verdict(content), sample
    return sample.kind.dtype or "bytes" if sample.kind else "looked at"


def replay(data):
    """The bytes as a sample of every dtype, at every third level."""
    for dtype, bits in DTYPE_BITS.items():
        if 8 * len(data) % bits == 0:
            for level in (1, 6, 9):
                check(Sample(data, Kind(dtype, (8 * len(data) // bits,)), level, 1 << 16))
    return check(Sample(data, None, 6, 1 << 16))


TARGET = Target("roundtrip", lambda rng: [draw_sample(rng)], check, replay)

if __name__ == "__main__":
    run(TARGET)
