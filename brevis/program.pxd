from libc.stdint cimport uint8_t, uint64_t

from brevis.bits cimport Bytes
from brevis.node cimport Node, Type

cdef class Program:
    """A checked program: nodes[0] is the root. Borrows the bytes that it was read from."""
    cdef Node *nodes
    cdef unsigned node_count
    cdef uint64_t *operands
    cdef size_t operand_count, operand_room
    cdef readonly size_t code_size
    cdef object owner
    cdef const uint8_t *data
    cdef size_t size

    cdef read(self, unsigned width, uint64_t count, uint64_t content)
    cdef int read_operands(self, Bytes *code, Node *node) noexcept
    cdef int keep(self, uint64_t value) noexcept
    cdef int check(self, Node *node, Type *children) noexcept
    cdef place_payloads(self, list order)
    cdef term_of(self, Node *node)
