"""Evidence about a tensor's words, and what it says that shapes would cost, without encoding.

May assume words as the encoder holds them. Knows no program: it speaks of bit fields, lines and classes. All
in integers (units of 2^-16 bit), so that every machine decides alike.
"""
from libc.stdint cimport int16_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from brevis.kernels cimport BRV_BINS, BRV_SYMBOLS, brv_assign, brv_bin, brv_histogram, brv_log2_fixed, brv_or, brv_stretch
from brevis.words cimport Words

cdef enum:
    SAMPLES = 256       # words looked at for each line: classes by scale need no more
    ROUNDS = 3          # of assigning lines and counting again: more change little, and one is enough to choose
    SYMBOL_BITS = 4     # what a symbol costs in a table, about
    TABLE_BITS = 240    # what a table and its literal cost beside the symbols: code, lanes, orders
cpdef enum:
    UNIT = 65536        # units in a bit


cdef uint64_t entropy(const uint32_t *counts, size_t size, size_t *symbols) noexcept nogil:
    """Sum of -log2 p over all counted words, in units; and how many symbols there are."""
    cdef uint64_t total = 0, cost = 0
    cdef size_t i
    symbols[0] = 0
    for i in range(size):
        if counts[i]:
            total += counts[i]
            cost += <uint64_t>counts[i] * brv_log2_fixed(counts[i])
            symbols[0] += 1
    return total * brv_log2_fixed(total) - cost if total else 0


cdef class Evidence:
    """Counts of the top bits (16, or all of a narrower word) of a stream."""
    cdef readonly Words words
    cdef readonly unsigned bits
    cdef uint32_t *counts

    def __cinit__(self, Words words):
        self.words = words
        self.bits = min(words.width, 16)
        self.counts = <uint32_t *>calloc(<size_t>1 << self.bits, sizeof(uint32_t))
        if self.counts == NULL:
            raise MemoryError
        with nogil:
            brv_histogram(self.counts, words.data, words.width, words.width - self.bits, self.bits, words.count)

    def __dealloc__(self):
        free(self.counts)

    def float_costs(self, unsigned exponent, unsigned most) -> list[tuple[int, bool, int, int]]:
        """For words of a sign, `exponent` bits and a mantissa: (mantissa bits, with the sign, cost,
        symbols) of a rans literal over the exponent and 0 to `most` mantissa bits, with and without the
        sign.
        """
        cdef size_t half = <size_t>1 << (self.bits - 1), size, i
        cdef unsigned m
        cdef uint32_t *signed = <uint32_t *>malloc(3 * half * sizeof(uint32_t))
        cdef uint32_t *unsigned = signed + 2 * half
        if signed == NULL:
            raise MemoryError
        costs = []
        try:
            with nogil:
                memcpy(signed, self.counts, 2 * half * sizeof(uint32_t))
                for i in range(half):
                    unsigned[i] = signed[i] + signed[half + i]
            for m in range(self.bits - 1 - exponent, -1, -1):
                size = <size_t>1 << (exponent + m)
                if m <= most:
                    costs.append((m, False, *literal_cost(unsigned, size)))
                    costs.append((m, True, *literal_cost(signed, 2 * size)))
                with nogil:
                    halve(unsigned, size // 2)
                    halve(signed, size)
        finally:
            free(signed)
        return costs

    def whole_cost(self) -> tuple[int, int]:
        """What a rans literal over whole words of up to 16 bits would cost; beyond any other where it has
        too many symbols.
        """
        cost, symbols = literal_cost(self.counts, <size_t>1 << self.bits)
        return (cost if symbols <= BRV_SYMBOLS else 1 << 63), symbols

    def highest(self, unsigned exponent) -> int:
        """The half octave of the largest magnitude that occurs."""
        cdef size_t half = <size_t>1 << (self.bits - 1), i = half - 1
        while i and not self.counts[i] and not self.counts[half + i]:
            i -= 1
        return i >> octave_shift(self.bits, exponent)


cdef unsigned octave_shift(unsigned bits, unsigned exponent):
    """What leaves the exponent and, if there is one, a bit of the mantissa: half octaves."""
    return bits - 1 - exponent - (bits - 1 > exponent)


cdef void halve(uint32_t *counts, size_t size) noexcept nogil:
    """Counts of words without their lowest bit."""
    cdef size_t i
    for i in range(size):
        counts[i] = counts[2 * i] + counts[2 * i + 1]


cpdef uint64_t table_cost(uint64_t symbols):
    """What a rans literal costs beside its data, about."""
    return (symbols * SYMBOL_BITS + TABLE_BITS) * UNIT


cdef tuple literal_cost(const uint32_t *counts, size_t size):
    cdef size_t symbols
    cdef uint64_t cost
    with nogil:
        cost = entropy(counts, size, &symbols)
    return cost + table_cost(symbols), symbols


def magnitude_bins(unsigned bits, unsigned exponent, size_t highest) -> bytes:
    """For each value of the top `bits` of a float (sign, `exponent` bits, mantissa): how many half octaves
    it is below `highest`.
    """
    cdef size_t half = <size_t>1 << (bits - 1), shift = octave_shift(bits, exponent), i
    cdef bytearray bins = bytearray(2 * half)
    cdef uint8_t *out = bins
    with nogil:
        for i in range(half):
            out[i] = <uint8_t>min(highest - min(highest, i >> shift), <size_t>BRV_BINS - 1)
        memcpy(out + half, out, half)
    return bytes(bins)


def value_bins(unsigned bits) -> bytes:
    """For integers of up to 16 bits: their top five bits."""
    cdef unsigned shift = bits - 5 if bits > 5 else 0
    return bytes([i >> shift for i in range(1 << bits)])


def periods(Words words) -> list[int]:
    """Lengths of records (3 to 256 bytes) that the bytes may be made of: the two at whose distance most
    bytes are equal.
    """
    cdef const uint8_t *data = <const uint8_t *>words.data
    cdef size_t count = min(words.count, <size_t>16384), p, i, same
    found = []
    for p in range(3, 257):
        same = 0
        for i in range(p, count):
            same += data[i] == data[i - p]
        found.append((-<int64_t>same, p))
    return [period for _, period in sorted(found)[:2]]


def clean_bits(Words words, size_t inner) -> bytes:
    """For each line of `inner` words, how many low bits are zero in all of them (the width where all are
    zero).
    """
    cdef size_t lines = words.count // inner, i
    cdef bytearray clean = bytearray(lines)
    cdef uint8_t *out = clean
    cdef uint64_t bits
    cdef uint8_t zeros
    cdef size_t size = 1 if words.width <= 8 else 2 if words.width <= 16 else 4 if words.width <= 32 else 8
    with nogil:
        for i in range(lines):
            bits = brv_or(<uint8_t *>words.data + i * inner * size, words.width, inner)
            zeros = 0
            while zeros < words.width and not bits >> zeros & 1:
                zeros += 1
            out[i] = zeros
    return bytes(clean)


def selectors(bytes dealt, unsigned width, size_t outer, size_t inner) -> Words:
    """The class of each word, for lines of `inner` words whose classes, in turn, are `dealt`, `outer`
    times over.
    """
    cdef size_t mid = len(dealt), block = mid * inner, o
    cdef const uint8_t *class_of = dealt
    cdef Words select = Words.room(width, outer * block)
    cdef uint8_t *out = <uint8_t *>select.data
    with nogil:
        brv_stretch(out, class_of, inner, 8, mid)
        for o in range(1, outer):
            memcpy(out + o * block, out, block)
    return select


cdef class Lines:
    """Words seen as [outer][mid][inner]: the lines of `mid` that belong together may be dealt to classes
    by their scale.
    """
    cdef readonly size_t outer, mid, inner
    cdef uint16_t *counts       # of bins, for each of the mid lines
    cdef uint32_t total[32]     # of all lines
    cdef uint64_t sampled, words

    def __cinit__(self, Words words, bytes bins, size_t outer, size_t mid, size_t inner):
        cdef const uint8_t *table = bins
        cdef size_t inner_step = max((inner + SAMPLES - 1) // SAMPLES, 1)
        cdef size_t outer_step = max((outer * (inner // inner_step) + SAMPLES - 1) // SAMPLES, 1)
        self.outer, self.mid, self.inner, self.words = outer, mid, inner, words.count
        self.counts = <uint16_t *>calloc(mid * BRV_BINS, sizeof(uint16_t))
        if self.counts == NULL:
            raise MemoryError
        with nogil:
            brv_bin(self.counts, words.data, words.width, table, outer, mid, inner, outer_step, inner_step)
            self.sum_up()

    def __dealloc__(self):
        free(self.counts)

    cdef void sum_up(self) noexcept nogil:
        cdef size_t m, b
        memset(self.total, 0, sizeof(self.total))
        for m in range(self.mid):
            for b in range(BRV_BINS):
                self.total[b] += self.counts[m * BRV_BINS + b]
        self.sampled = 0
        for b in range(BRV_BINS):
            self.sampled += self.total[b]

    def deal(self, unsigned k, unsigned table_symbols, int rounds=ROUNDS) -> tuple[int, bytes]:
        """(gain, class of each of the mid lines) for up to k <= 64 classes, all of them in use.

        The gain, in units, is what classes with a table of their own, of `table_symbols` symbols each, save
        over one table, selectors and further tables paid. Lines are dealt by their mean bin at first and
        then, as in Lloyd's algorithm, to the class whose statistics suit them best.
        """
        cdef bytearray dealt = bytearray(self.mid)
        cdef uint8_t *class_of = dealt
        cdef uint32_t sums[64][32]
        cdef int16_t costs[64][32]
        cdef uint64_t before, after = 0, selector, saved
        cdef uint32_t sizes[64]
        cdef size_t symbols, m
        cdef unsigned c
        with nogil:
            self.deal_by_mean(class_of, k)
            for _ in range(rounds):
                self.count_classes(class_of, k, sums)
                class_costs(k, sums, costs)
                brv_assign(class_of, self.counts, &costs[0][0], k, self.mid)
            k = close_ranks(class_of, self.mid, k)
            self.count_classes(class_of, k, sums)
            before = entropy(self.total, BRV_BINS, &symbols)
            memset(sizes, 0, sizeof(sizes))
            for m in range(self.mid):
                sizes[class_of[m]] += 1
            for c in range(k):
                after += entropy(&sums[c][0], BRV_BINS, &symbols)
            selector = entropy(sizes, k, &symbols)
        if k < 2 or before <= after:
            return -1, bytes(dealt)
        saved = (before - after) * self.words // self.sampled
        return <int64_t>saved - <int64_t>(selector + (k - 1) * table_cost(table_symbols)), bytes(dealt)

    cdef void deal_by_mean(self, uint8_t *class_of, unsigned k) noexcept nogil:
        """Equal numbers of lines in each class, in the order of their mean bins (in 1/64 bin; equal ones
        in their own order).
        """
        cdef uint32_t starts[BRV_BINS * 64 + 1]
        cdef size_t m, s
        memset(starts, 0, sizeof(starts))
        for m in range(self.mid):
            starts[self.mean(m) + 1] += 1
        for s in range(BRV_BINS * 64):
            starts[s + 1] += starts[s]
        for m in range(self.mid):
            s = self.mean(m)
            class_of[m] = <uint8_t>(<uint64_t>starts[s] * k // self.mid)
            starts[s] += 1

    cdef size_t mean(self, size_t m) noexcept nogil:
        cdef uint16_t *row = self.counts + m * BRV_BINS
        cdef size_t b, total = 0, weighted = 0
        for b in range(BRV_BINS):
            total += row[b]
            weighted += row[b] * b
        return weighted * 64 // max(total, 1)

    cdef void count_classes(self, const uint8_t *class_of, unsigned k, uint32_t sums[][32]) noexcept nogil:
        cdef size_t m, b
        cdef uint32_t *into
        memset(sums, 0, k * sizeof(sums[0]))
        for m in range(self.mid):
            into = &sums[class_of[m]][0]
            for b in range(BRV_BINS):
                into[b] += self.counts[m * BRV_BINS + b]


cdef void class_costs(unsigned k, uint32_t sums[][32], int16_t costs[][32]) noexcept nogil:
    """-log2 p of each bin in each class, in 1/256 bit, with counts smoothed by 1/16."""
    cdef unsigned c
    cdef size_t b
    cdef uint64_t total
    for c in range(k):
        total = 0
        for b in range(BRV_BINS):
            total += sums[c][b]
        for b in range(BRV_BINS):
            costs[c][b] = <int16_t>((brv_log2_fixed(total * 16 + BRV_BINS) - brv_log2_fixed(sums[c][b] * <uint64_t>16 + 1)) >> 8)


cdef unsigned close_ranks(uint8_t *class_of, size_t mid, unsigned k) noexcept nogil:
    """Renumbers the classes so that all are in use; how many there are."""
    cdef uint8_t number[64]
    cdef uint8_t used[64]
    cdef unsigned c, next = 0
    cdef size_t m
    memset(used, 0, sizeof(used))
    for m in range(mid):
        used[class_of[m]] = 1
    for c in range(k):
        number[c] = <uint8_t>next
        next += used[c]
    for m in range(mid):
        class_of[m] = number[class_of[m]]
    return next
