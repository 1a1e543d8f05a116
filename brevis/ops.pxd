from libc.stdint cimport uint8_t

from brevis.node cimport Op

cdef const Op *op_at(uint8_t number) noexcept nogil
cdef const Op *op_named(str name) except NULL
