"""The compiled core against spec/reference.py: same bytes, or the same error class at the same offset.

Each seed is an archive, and ten that differ from it by changes. Both decoders read
them with their layouts and without.
"""

import io

import gen
from driver import Target, run
from parts import reference

from brevis import codec, errors, interp
from brevis.program import Program, write

KINDS = {
    errors.MalformedError: "malformed",
    errors.TruncatedError: "truncated",
    errors.CorruptError: "corrupt",
    errors.UnsupportedError: "unsupported",
    errors.InvalidProgramError: "invalid",
}


def core_program(w, content_length, body, shift=0, offset=1000, program_offset=1025):
    """Like gen.reference_verdict, into memory that begins `shift` bytes behind an aligned place."""
    room = bytearray(b"\xa5" * (content_length + shift + 16))
    try:
        interp.run(body, w, memoryview(room)[shift : shift + content_length], offset, program_offset)
    except errors.Error as error:
        return KINDS[type(error)], error.offset
    finally:
        assert room[:shift] == b"\xa5" * shift and room[shift + content_length :] == b"\xa5" * 16
    assert write(Program.parse(body, w, content_length).term()) == body
    return "content", bytes(room[shift : shift + content_length])


def check_program(w, content_length, body, shift=0):
    """The verdict of both; they must be the same."""
    core = core_program(w, content_length, body, shift)
    right = gen.reference_verdict(w, content_length, body)
    assert core == right, f"w {w}, D {content_length}, program {body.hex()}"
    return right[0]


def core_archive(data, with_layouts):
    """(content, error class, offset, layout entries)."""
    content, entries = b"", []
    blocks = codec.decode_blocks(
        io.BytesIO(data).read, threads=1, on_layout=entries.extend if with_layouts else None
    )
    fault, offset = None, None
    try:
        for block in blocks:
            content += block
    except errors.Error as error:
        fault, offset = KINDS[type(error)], error.offset
    return content, fault, offset, [(e.name, e.dtype, list(e.shape), e.begin, e.end) for e in entries]


def reference_archive(data, with_layouts):
    entries, verdict = reference.read(data, with_layouts)
    entries = [(e.name, e.dtype, e.dimensions, e.start, e.start + e.length) for e in entries]
    return verdict.content, verdict.fault, verdict.offset, entries


def check_archive(data):
    for with_layouts in (False, True):
        core, right = core_archive(data, with_layouts), reference_archive(data, with_layouts)
        assert core == right, f"archive {data.hex()}, with layouts: {with_layouts}"
    return right[1] or "content"


TARGET = Target("judge", lambda rng: gen.archives(rng, 10), check_archive, check_archive)

if __name__ == "__main__":
    run(TARGET)
