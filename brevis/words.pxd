from libc.stdint cimport uint64_t

cdef class Words:
    cdef readonly unsigned width
    cdef readonly size_t count
    cdef void *data
    cdef object owner          # of borrowed memory
    cdef void *owned           # memory of its own, to be freed

    @staticmethod
    cdef Words room(unsigned width, size_t count)
    cdef Words part(self, size_t start, size_t count)
    cdef uint64_t word(self, size_t i) noexcept nogil
