from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from brevis.kernels cimport brv_entry
from brevis.words cimport Words

# ---- decoding: tables (FORMAT.md §5) ----

cdef struct Table:
    uint64_t *symbols       # room for BRV_SYMBOLS
    uint16_t *values        # room for BRV_SYMBOLS: code lengths or, after frequencies(), frequencies
    size_t count
    unsigned precision      # rans only
    size_t size             # bytes of the table

cdef bint read_table(Table *t, const uint8_t *data, size_t size, unsigned width, bint rans) noexcept nogil
cdef bint frequencies(Table *t, unsigned bits) noexcept nogil

# ---- encoding ----

cdef class Histogram:
    cdef readonly unsigned width
    cdef readonly uint64_t total
    cdef readonly size_t count
    cdef uint64_t *symbols      # ascending
    cdef uint32_t *counts
    cdef uint16_t *dense        # word -> number, widths up to 16
    cdef brv_entry *sparse      # the same for wider words

    @staticmethod
    cdef Histogram of(Words words)
    @staticmethod
    cdef Histogram folded(const uint32_t *counts, size_t size, unsigned width)
    cdef make_room(self, unsigned width, size_t distinct)
    cdef void add(self, uint64_t symbol, uint32_t count) noexcept
    cdef uint16_t *number(self, Words words) except NULL

cdef class Rans:
    cdef readonly unsigned bits, precision
    cdef readonly uint64_t cost
    cdef uint16_t *quanta
    cdef uint16_t *frequencies
    cdef readonly Histogram histogram

    @staticmethod
    cdef Rans plan(Histogram histogram)
    cdef unsigned lanes_log2(self) noexcept
    cdef tuple encode(self, Words words)

cdef class Huffman:
    cdef readonly uint64_t cost
    cdef uint16_t *lengths
    cdef readonly Histogram histogram

    @staticmethod
    cdef Huffman plan(Histogram histogram)
    cdef bytes encode(self, Words words)
