"""Random contents for the encoder, and how it is to compress them.

They are drawn to look like what it looks for: few values, rows of their own scale, floats, repetitions,
noise. All comes from the given generator of random numbers.
"""

import json
import math
from array import array
from typing import NamedTuple

from brevis.sources import BYTES, DTYPE_BITS, Kind


class Sample(NamedTuple):
    content: bytes
    kind: Kind | None  # None: the encoder shall look
    level: int
    chunk_size: int


def draw_bytes(rng, size):
    """So many bytes of one of several looks."""
    match rng.randrange(8):
        case 0:
            return rng.randbytes(size)
        case 1:
            return bytes(rng.choices(rng.randbytes(rng.randrange(1, 40)), k=size))
        case 2:
            return (rng.randbytes(rng.randrange(1, 300)) * size)[:size]
        case 3:
            return bytes(size)
        case 4:  # near-uniform: every value about as often as any other
            words = [*range(rng.randrange(1, 5000))] * 2
            return (array("H", words).tobytes() * (size // len(words) + 1))[:size]
        case 5:  # whole numbers in floats
            return (array("f", [float(rng.randrange(-9, 9)) for _ in range(size // 4 + 1)]).tobytes())[:size]
    row, scale, values = rng.choice([1, 8, 60]), 1.0, array("f")
    while 4 * len(values) < 4 * size:
        scale = math.exp(rng.gauss(0, rng.choice([0, 2])))
        values.extend(rng.gauss(0, scale) for _ in range(row))
    data, step = values.tobytes(), rng.choice([1, 2])
    upper = b"".join(data[i + 2 : i + 4] for i in range(0, len(data), 4)) if step == 2 else data  # bfloat16
    return upper[:size]


def draw_shape(rng, count):
    """A shape of so many elements."""
    shape = []
    while count > 1 and len(shape) < 3:
        part = rng.choice([d for d in range(1, 65) if count % d == 0])
        shape.append(part)
        count //= part
    return (*shape, count)


def draw_sample(rng):
    level, chunk_size = rng.randrange(1, 10), rng.choice([1 << 12, 5000, 1 << 16])
    dtype = rng.choice([None, *DTYPE_BITS])
    count = rng.choice([0, 1, 24, rng.randrange(1, 600), rng.randrange(1, 6000), 1 << rng.randrange(4, 13)])
    if dtype is None:
        return Sample(draw_bytes(rng, count), rng.choice([None, BYTES]), level, chunk_size)
    count = count // 4 * 4 if DTYPE_BITS[dtype] < 8 else count
    content = draw_bytes(rng, count * DTYPE_BITS[dtype] // 8)
    shape = draw_shape(rng, count)
    if rng.random() < 0.3:
        content, shape = safetensors(content, dtype, shape), None
    return Sample(content, None if shape is None else Kind(dtype, shape), level, chunk_size)


def safetensors(content, dtype, shape):
    described = {"w": {"dtype": dtype, "shape": list(shape), "data_offsets": [0, len(content)]}}
    head = json.dumps(described).encode()
    return len(head).to_bytes(8, "little") + head + content
