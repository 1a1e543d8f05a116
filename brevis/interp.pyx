"""The interpreter: takes a checked program and pulls its words, tile by tile, into the caller's memory.

May assume what program.pyx has checked. Memory is bounded before the first word is made: the buffer charges,
the tables (paid for by payload bytes) and two tiles a depth. Knows no operator by name.
"""
from libc.stdint cimport uint8_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset

from brevis.kernels cimport brv_pack, brv_size
from brevis.node cimport CORRUPT, NO_MEMORY, OK, TILE, Node, Run, pull, release, take
from brevis.program cimport Program

import sys

import zstandard

from brevis.errors import CorruptError

cdef enum:
    ZSTD_RESERVED = 0b1011      # in the frame header descriptor: the reserved bit and the dictionary flag (RFC 8878, 3.1.1.1.1)
    ZSTD_WINDOW = 1 << 24       # FORMAT.md, operator 05: no content is larger

cdef bint LITTLE = sys.byteorder == "little"


def run(program, unsigned width, out, offset: int | None = None, program_offset: int = 0) -> None:
    """Run a program (code and payloads, any buffer) of `width`-bit words into `out`, a writable contiguous
    buffer that it fills exactly.

    `offset` and `program_offset` are the places of the record and of its code in the archive, for the errors:
    InvalidProgramError, UnsupportedError, CorruptError. What stands in `out` after an error is undefined.
    Releases the GIL.
    """
    cdef uint8_t[::1] content = memoryview(out).cast("B")
    cdef Program checked = Program.parse(program, width, content.shape[0], offset, program_offset)
    _owners = decompressed(checked, offset)
    cdef Run state
    cdef int status
    memset(&state, 0, sizeof(Run))
    with nogil:
        status = start(&state, checked)
        if status == OK:
            status = fill(&state, checked.nodes, &content[0])
        release(&state)
    if status == NO_MEMORY:
        raise MemoryError
    if status == CORRUPT:
        raise CorruptError("chunk: its program fails, so its bytes were changed", offset=offset)


cdef list decompressed(Program program, offset):
    """Replaces the payload of each zstd literal by its content, whose size the checks have bounded;
    returns the owners of that memory.
    """
    cdef Node *node
    cdef const uint8_t[::1] view
    cdef unsigned i
    frames = []
    for i in range(program.node_count):
        node = &program.nodes[i]
        if node.op.decompress:
            frame = unzstd(node.payload[:node.payload_size], node.charge, offset)
            frames.append(frame)
            view = frame
            node.payload, node.payload_size = &view[0], view.shape[0]
    return frames


cdef bytes unzstd(bytes frame, size, offset):
    """One frame that states its content size; nothing is allocated by any other number that it claims."""
    try:
        head = zstandard.get_frame_parameters(frame)
        plain = frame.startswith(b"\x28\xb5\x2f\xfd") and not frame[4] & ZSTD_RESERVED
        if plain and head.content_size == size and head.window_size <= ZSTD_WINDOW:
            return zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError:
        pass
    raise CorruptError("chunk: a zstd literal is damaged", offset=offset)


cdef int start(Run *state, Program program) noexcept nogil:
    cdef unsigned i
    cdef int status = OK
    for i in range(program.node_count):
        if status == OK:
            status = program.nodes[i].op.start(state, &program.nodes[i])
    return status


cdef int fill(Run *state, Node *root, uint8_t *content) noexcept nogil:
    """All words of the root, as bytes."""
    cdef unsigned width = root.width
    cdef bint direct = LITTLE and width == 8 * brv_size(width) and <uintptr_t>content % brv_size(width) == 0
    cdef uint8_t *words = NULL
    cdef uint64_t count, size
    cdef int status
    if not direct:
        words = <uint8_t *>take(state, 2 * TILE * sizeof(uint64_t) + 8)
        if words == NULL:
            return NO_MEMORY
    while root.done < root.count:
        count = min(<uint64_t>TILE, root.count - root.done)
        size = (width * count + 7) // 8
        status = pull(state, root, content if direct else words, count)
        if status:
            return status
        if not direct:
            brv_pack(words + TILE * sizeof(uint64_t), words, width, count)
            memcpy(content, words + TILE * sizeof(uint64_t), size)
        content += size
    return OK
