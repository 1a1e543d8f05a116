# Cursors over untrusted bytes and checked size arithmetic. A cursor never leaves its bytes: a read that would
# sets `bad` and gives 0, so a caller can read a whole unit and look at `bad` once. Knows nothing of what the
# bits mean.
from libc.stdint cimport uint8_t, uint64_t

cdef struct Bytes:
    const uint8_t *data
    size_t size
    size_t at
    bint bad

cdef struct Bits:
    const uint8_t *data
    size_t size             # bytes
    uint64_t at             # bit
    bint bad

cdef inline uint64_t read_varint(Bytes *c) noexcept nogil:
    """FORMAT.md V1: shortest form, below 2^64."""
    cdef uint64_t value = 0
    cdef unsigned shift = 0
    cdef uint8_t b
    while c.at < c.size:
        b = c.data[c.at]
        c.at += 1
        if shift == 63 and b > 1:
            break
        value |= <uint64_t>(b & 0x7F) << shift
        if b < 0x80:
            if b == 0 and shift:
                break
            return value
        shift += 7
    c.bad = True
    return 0

cdef inline uint64_t read_bits(Bits *c, unsigned k) noexcept nogil:
    """A field of k <= 64 bits."""
    cdef uint64_t value = 0, b
    cdef unsigned have = 0, take
    if k > c.size * 8 - c.at:
        c.bad = True
        return 0
    while have < k:
        take = min(8 - <unsigned>(c.at % 8), k - have)
        b = (c.data[c.at // 8] >> (c.at % 8)) & ((1u << take) - 1)
        value |= b << have
        have += take
        c.at += take
    return value

cdef inline uint64_t read_golomb(Bits *c, unsigned k) noexcept nogil:
    """FORMAT.md V3: EG(k), k <= 63."""
    cdef unsigned length = 0
    cdef uint64_t high
    while not read_bits(c, 1):
        length += 1
        if c.bad or length > 63:
            c.bad = True
            return 0
    high = ((<uint64_t>1 << length) - 1) + read_bits(c, length)
    if k and high >> (64 - k):
        c.bad = True
        return 0
    return (high << k) + read_bits(c, k)

cdef inline bint end_of_bits(Bits *c) noexcept nogil:
    """Whether only zero bits follow up to the next byte; goes there."""
    cdef unsigned rest = <unsigned>((8 - c.at % 8) % 8)
    return read_bits(c, rest) == 0 and not c.bad

cdef inline bint product(uint64_t a, uint64_t b, uint64_t *result) noexcept nogil:
    """a * b, and whether it fits 64 bits: the only place where sizes are multiplied."""
    if a and b > <uint64_t>-1 // a:
        return False
    result[0] = a * b
    return True

cdef inline bint stored_bytes(unsigned w, uint64_t n, uint64_t *result) noexcept nogil:
    """Bytes of n words of w bits, side by side: the ceiling of w * n / 8."""
    cdef uint64_t bits
    if not product(w, n, &bits) or bits > <uint64_t>-1 - 7:
        return False
    result[0] = (bits + 7) // 8
    return True
