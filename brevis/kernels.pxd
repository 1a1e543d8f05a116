# The one hatch from Cython into the C kernels: contracts stand in kernels/kernels.h.
from libc.stdint cimport int16_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "cpu.h" nogil:
    unsigned brv_cpu()

cdef extern from "kernels.h" nogil:
    unsigned brv_size(unsigned w)
    unsigned brv_log2(uint64_t x)

    enum:
        BRV_XOR
        BRV_ADD
        BRV_ZIGZAG
        BRV_GRAY
        BRV_ROTATE
        BRV_ORDERED
        BRV_LANES
        BRV_SYMBOLS
        BRV_HUFFMAN_BITS
        BRV_HUFFMAN_TABLE
        BRV_TABLE_BITS
        BRV_BINS

    void brv_unpack(void *dst, const uint8_t *src, size_t len, uint64_t bit, unsigned w, size_t count)
    void brv_pack(uint8_t *dst, const void *src, unsigned w, size_t count)
    void brv_fill(void *dst, uint64_t word, unsigned w, size_t count)
    uint64_t brv_word(const void *words, unsigned w, size_t i)
    int brv_same(const void *words, unsigned w, size_t count)
    void brv_map(void *words, unsigned f, uint64_t operand, unsigned w, size_t count)
    void brv_unmap(void *words, unsigned f, uint64_t operand, unsigned w, size_t count)
    uint64_t brv_scan(void *words, unsigned op, uint64_t before, unsigned w, size_t count)
    void brv_unscan(void *dst, const void *src, unsigned op, unsigned w, size_t count)
    void brv_put_field(void *dst, unsigned w, const void *src, unsigned field, unsigned shift, int first, size_t count)
    void brv_take_field(void *dst, unsigned field, const void *src, unsigned w, unsigned shift, size_t count)
    void brv_stretch(void *dst, const void *src, size_t r, unsigned w, size_t count)
    int brv_count_classes(uint64_t *counts, const uint8_t *select, unsigned k, size_t count)
    void brv_weave(void *dst, const uint8_t *select, const void *const *source, unsigned k, unsigned w, size_t count)
    void brv_unweave(void *const *into, const uint8_t *select, const void *src, unsigned k, unsigned w, size_t count)
    int brv_lookup(void *dst, const uint32_t *index, const void *table, size_t m, unsigned w, size_t count)

    void brv_name(void *dst, const uint16_t *numbers, const uint64_t *symbols, unsigned w, size_t count)

    ctypedef struct brv_alias:
        unsigned bits

    enum:
        BRV_SHARES

    int brv_alias_kind(size_t s, unsigned bits, unsigned lanes, uint64_t count)
    size_t brv_alias_bytes(size_t s, unsigned bits, int kind)
    void brv_alias_build(brv_alias *a, void *room, const uint16_t *frequencies, const uint16_t *names, size_t s,
                         unsigned bits, int kind)

    ctypedef struct brv_rans:
        pass

    int brv_rans_open(brv_rans *r, const uint8_t *block, size_t len, unsigned lanes)
    int brv_rans_decode(brv_rans *r, const brv_alias *a, void *dst, unsigned size, size_t count)
    int brv_rans_close(const brv_rans *r)

    ctypedef struct brv_rans_symbol:
        pass

    void brv_rans_prepare(brv_rans_symbol *symbols, uint16_t *slots, const uint16_t *frequencies, const brv_alias *a,
                          size_t s)
    size_t brv_rans_encode(uint8_t *dst, const uint16_t *numbers, size_t count, unsigned lanes, unsigned bits,
                           const brv_rans_symbol *symbols, const uint16_t *slots)

    int brv_huffman_build(uint16_t *table, uint16_t *codes, const uint16_t *lengths, size_t s)
    int brv_huffman_decode(uint16_t *dst, const uint16_t *table, const uint8_t *src, size_t len, uint64_t *bit,
                           size_t count)
    size_t brv_huffman_encode(uint8_t *dst, const uint16_t *numbers, size_t count, const uint16_t *codes,
                              const uint16_t *lengths)

    uint32_t brv_log2_fixed(uint64_t x)
    void brv_histogram(uint32_t *counts, const void *words, unsigned w, unsigned shift, unsigned bits, size_t count)
    void brv_number(uint16_t *dst, const void *words, unsigned w, const uint16_t *numbers, size_t count)

    ctypedef struct brv_entry:
        uint64_t word
        uint32_t count
        uint16_t number

    int brv_distinct(brv_entry *table, const void *words, unsigned w, size_t count)
    void brv_set_number(brv_entry *table, uint64_t word, uint16_t number)
    void brv_number_wide(uint16_t *dst, const void *words, unsigned w, brv_entry *table, size_t count)

    uint64_t brv_or(const void *words, unsigned w, size_t count)
    void brv_bin(uint16_t *counts, const void *words, unsigned w, const uint8_t *bins, size_t outer, size_t mid,
                 size_t inner, size_t outer_step, size_t inner_step)
    void brv_assign(uint8_t *class_of, const uint16_t *counts, const int16_t *costs, unsigned k, size_t mid)
