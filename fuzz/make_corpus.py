"""Writes fuzz/corpus: small archives and contents to begin from, and what once made the core fail.

    python fuzz/make_corpus.py

A crash that a target finds belongs here as a line that makes its bytes, under a name that says what it is.
"""

import random
import struct
from array import array

import numpy as np
from driver import CORPUS
from gen import CHUNK_LOG2, archive, draw_chunk, draw_records, operation
from parts import chunk, header, layout, member, node, pack, raw, record, varint

MOST = (1 << 64) - 1
INVERSE = pow(0x9E3779B97F4A7C15, -1, 1 << 64)  # of the factor of the encoder's hash of words


def broken(w, content, *code):
    """An archive of one chunk of this code, whatever it gives."""
    return member(chunk(content, w, (b"".join(code), b"")))


def near_uniform(distinct, twice):
    """Counts near to equal, where rounding them to a scale swings around the sum."""
    return array("H", [*range(0, 7 * distinct, 7), *range(0, 7 * twice, 7)]).tobytes()


def archives():
    yield "empty", member()
    yield "no-content", member(layout(b"\0\0"), record(0x82, b""), record(0x83, bytes(3)), record(0x90, b"?"))
    for seed in range(4):
        rng = random.Random(seed)
        yield f"seed-{seed}", archive(draw_records(rng))
        yield f"chunks-{seed}", member(*(draw_chunk(rng) for _ in range(6)), c=CHUNK_LOG2)
    # The greatest number is an operand like any other; as the number of parts or blocks it must cost nothing.
    words = pack([MOST] * 2, 64)
    yield "const-2-to-64-less-1", member(chunk(words, 64, operation("const", MOST)))
    for name in ("concat", "weave", "merge", "repeat", "stretch", "huffman", "zstd"):
        yield f"{name}-2-to-64-less-1", broken(8, b"abcd", operation(name, MOST)[0], b"\1" * 9)
    yield "rans-blocks-2-to-64-less-1", broken(8, b"abcd", operation("rans", 0, MOST, 1)[0], b"\4" * 9)
    yield "rans-sizes-wrap", broken(8, b"abcd", operation("rans", 0, 2, MOST - 7, 4, 4)[0], bytes(9))
    yield "lookup-sizes-wrap", broken(8, b"abcd", operation("lookup", 1 << 32, 1 << 32)[0], b"\1\1")
    # Padding, and words to a selector, that the checks before a run do not see.
    yield "merge-padding", member(chunk(b"\0", 2, node(0x15, 2, 1, children=[raw(b"\1"), raw(b"\x80")])))
    yield "weave-child-exhausted", broken(8, b"abcd", b"\x17\2\1\1\1\1\6abcd")
    yield "record-of-2-to-64-less-1", header() + record(0x90, b"", length=MOST)
    yield "chunk-of-many-bytes", header(20) + record(1, struct.pack("<IIB", 1 << 20, 0, 8) + b"\x10\0")
    yield "layout-of-most-entries", member(layout(b"\0" + varint(MOST)))


def contents():
    yield "few-values", bytes([1, 1, 2, 1, 1, 1, 3, 1] * 40)
    yield "ramp", array("I", range(0, 3000, 3)).tobytes()
    # A rans table whose frequencies were left unset: as many words as symbols, nearly.
    yield "random-i16-1388", np.random.default_rng(0).integers(-32768, 32768, 1388).astype("<i2").tobytes()
    for distinct, twice in ((1000, 1), (1374, 0), (2000, 1000), (4096, 1), (4096, 0)):
        yield f"near-uniform-{distinct}-{twice}", near_uniform(distinct, twice)
    yield "words-that-collide", pack([(i + 1) * INVERSE % (1 << 64) for i in range(1500)], 64)
    yield "safetensors-header-nested", (4000).to_bytes(8, "little") + b"[" * 4000
    yield "safetensors-header-unfinished", (1 << 20).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":['


def main():
    for folder, made in (("archives", archives()), ("contents", contents())):
        (CORPUS / folder).mkdir(parents=True, exist_ok=True)
        for name, data in made:
            (CORPUS / folder / (name + (".brv" if folder == "archives" else ".bin"))).write_bytes(data)


if __name__ == "__main__":
    main()
