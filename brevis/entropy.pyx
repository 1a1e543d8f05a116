"""Entropy coders: tables and streams of the huffman and rans literals, both directions side by side.

May assume that widths are 1 to 64 and that counts fit 32 bits (a chunk has at most 2^27 words). Knows nothing
of programs. All estimates are integers, in units of 2^-16 bit, so that the encoder decides alike on every
machine.
"""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcpy

from brevis.bits cimport Bits, end_of_bits, read_bits, read_golomb
from brevis.kernels cimport (
    BRV_HUFFMAN_BITS, BRV_SHARES, BRV_SYMBOLS, BRV_TABLE_BITS, brv_alias, brv_alias_build, brv_alias_bytes,
    brv_distinct, brv_entry, brv_histogram, brv_huffman_build, brv_huffman_encode, brv_log2, brv_log2_fixed,
    brv_number, brv_number_wide, brv_rans_encode, brv_rans_prepare, brv_rans_symbol, brv_set_number,
)
from brevis.words cimport Words

cdef enum:
    UNIT = 16           # log2 of the units in one bit
    ATTEMPTS = 6        # at a scale of frequencies; near-uniform counts may swing around the sum for ever


# ---- tables, read ----

cdef bint read_table(Table *t, const uint8_t *data, size_t size, unsigned width, bint rans) noexcept nogil:
    """FORMAT.md §5.1, rule T1; False: corrupt."""
    cdef Bits c = Bits(data, size, 0, False)
    cdef unsigned gap_order, value_order
    cdef uint64_t symbol, run, gap, z, highest = <uint64_t>-1 >> (64 - width)
    cdef size_t i = 0, j
    cdef int64_t value = 0
    t.count = read_bits(&c, 12) + 1
    t.precision = read_bits(&c, 4) if rans else 0
    symbol = read_bits(&c, width)
    gap_order = read_bits(&c, 6)
    value_order = read_bits(&c, 4)
    if c.bad or t.count < 2:
        return False
    while True:
        run = read_golomb(&c, 1)
        if c.bad or run >= t.count - i or run > highest - symbol:
            return False
        for j in range(run + 1):
            t.symbols[i + j] = symbol + j
        symbol += run
        i += run + 1
        if i == t.count:
            break
        gap = read_golomb(&c, gap_order)
        if c.bad or highest - symbol < 2 or gap > highest - symbol - 2:
            return False
        symbol += gap + 2
    for i in range(t.count):
        z = read_golomb(&c, value_order)
        if c.bad or z > 2 * 65535:
            return False
        value += -<int64_t>((z + 1) // 2) if z & 1 else <int64_t>(z // 2)
        if value < 1 or value > 65535:
            return False
        t.values[i] = <uint16_t>value
    if not end_of_bits(&c):
        return False
    t.size = c.at // 8
    return True


cdef inline uint64_t quantum_value(uint32_t v, unsigned p) noexcept nogil:
    """FORMAT.md §5.3: what number v with precision p stands for."""
    if v >> p < 2:
        return v
    if (v >> p) - 1 > 32:
        return <uint64_t>1 << 48    # far too large, whatever follows
    return <uint64_t>((v & ((1u << p) - 1)) | (1u << p)) << ((v >> p) - 1)


cdef bint frequencies(Table *t, unsigned bits) noexcept nogil:
    """FORMAT.md §5.3, rule N1: numbers become frequencies in place; False: corrupt."""
    cdef uint64_t total = 0, value, highest = 0
    cdef size_t i, top = 0
    cdef int64_t rest
    for i in range(t.count):
        value = quantum_value(t.values[i], t.precision)
        if value >> bits:
            return False
        t.values[i] = <uint16_t>value
        total += value
        if value > highest:
            highest, top = value, i
    rest = <int64_t>highest + (<int64_t>1 << bits) - <int64_t>total
    if rest < 1:
        return False
    t.values[top] = <uint16_t>rest
    return True


# ---- tables, written ----

cdef struct Writer:
    uint8_t *data           # zeroed, large enough
    uint64_t at             # bit


cdef void put_bits(Writer *c, uint64_t value, unsigned k) noexcept nogil:
    cdef unsigned done = 0, take
    while done < k:
        take = min(8 - <unsigned>(c.at % 8), k - done)
        c.data[c.at // 8] |= <uint8_t>(((value >> done) & ((1u << take) - 1)) << (c.at % 8))
        done += take
        c.at += take


cdef inline unsigned golomb_bits(uint64_t value, unsigned k) noexcept nogil:
    return 2 * brv_log2((value >> k) + 1) + 1 + k


cdef void put_golomb(Writer *c, uint64_t value, unsigned k) noexcept nogil:
    cdef uint64_t high = (value >> k) + 1
    cdef unsigned length = brv_log2(high)
    put_bits(c, 0, length)
    put_bits(c, 1, 1)
    put_bits(c, high - (<uint64_t>1 << length), length)
    put_bits(c, value, k)


cdef inline uint64_t value_code(const uint16_t *values, size_t i) noexcept nogil:
    """The zigzag of values[i] - values[i - 1]."""
    cdef int64_t d = <int64_t>values[i] - (<int64_t>values[i - 1] if i else 0)
    return <uint64_t>(-2 * d - 1) if d < 0 else <uint64_t>(2 * d)


cdef unsigned best_value_order(const uint16_t *values, size_t count, uint64_t *bits) noexcept nogil:
    """The order d that codes the values in the fewest bits, and these."""
    cdef unsigned k, best = 0
    cdef uint64_t cost
    cdef size_t i
    bits[0] = <uint64_t>-1
    for k in range(13):
        cost = 0
        for i in range(count):
            cost += golomb_bits(value_code(values, i), k)
        if cost < bits[0]:
            bits[0], best = cost, k
        elif cost > bits[0] + count:
            break
    return best


cdef size_t run_end(const uint64_t *symbols, size_t count, size_t i) noexcept nogil:
    """Index behind the run of consecutive symbols that begins at i."""
    i += 1
    while i < count and symbols[i] == symbols[i - 1] + 1:
        i += 1
    return i


cdef uint64_t symbols_bits(const uint64_t *symbols, size_t count, unsigned gap_order) noexcept nogil:
    cdef uint64_t bits = 0
    cdef size_t i = 0, j
    while True:
        j = run_end(symbols, count, i)
        bits += golomb_bits(j - i - 1, 1)
        if j == count:
            return bits
        bits += golomb_bits(symbols[j] - symbols[j - 1] - 2, gap_order)
        i = j


cdef unsigned best_gap_order(const uint64_t *symbols, size_t count, unsigned width, uint64_t *bits) noexcept nogil:
    cdef unsigned k, best = 0
    cdef uint64_t cost
    bits[0] = <uint64_t>-1
    for k in range(width):
        cost = symbols_bits(symbols, count, k)
        if cost < bits[0]:
            bits[0], best = cost, k
        elif cost > 2 * bits[0]:
            break
    return best


cdef bytes write_table(Histogram h, const uint16_t *values, int precision):
    """FORMAT.md §5.1; precision < 0: huffman."""
    cdef uint64_t gap_bits, value_bits
    cdef unsigned gap_order = best_gap_order(h.symbols, h.count, h.width, &gap_bits)
    cdef unsigned value_order = best_value_order(values, h.count, &value_bits)
    cdef bytearray room = bytearray((12 + 4 + h.width + 10 + gap_bits + value_bits + 7) // 8 + 1)
    cdef Writer c = Writer(room, 0)
    cdef size_t i = 0, j
    put_bits(&c, h.count - 1, 12)
    if precision >= 0:
        put_bits(&c, precision, 4)
    put_bits(&c, h.symbols[0], h.width)
    put_bits(&c, gap_order, 6)
    put_bits(&c, value_order, 4)
    while i < h.count:
        j = run_end(h.symbols, h.count, i)
        put_golomb(&c, j - i - 1, 1)
        if j < h.count:
            put_golomb(&c, h.symbols[j] - h.symbols[j - 1] - 2, gap_order)
        i = j
    for i in range(h.count):
        put_golomb(&c, value_code(values, i), value_order)
    return bytes(room[:(c.at + 7) // 8])


# ---- histograms ----

cdef int ascending(const void *a, const void *b) noexcept nogil:
    cdef uint64_t x = (<const uint64_t *>a)[0], y = (<const uint64_t *>b)[0]
    return (x > y) - (x < y)


cdef class Histogram:
    """The distinct words of a stream, ascending, and how often each occurs: at most 4,096 of them."""

    def __dealloc__(self):
        free(self.symbols)
        free(self.counts)
        free(self.dense)
        free(self.sparse)

    @staticmethod
    cdef Histogram of(Words words):
        """None where there are more distinct words than a table can hold."""
        cdef uint32_t *counts
        cdef size_t size
        if words.width > 16:
            return sparse_histogram(words)
        size = <size_t>1 << words.width
        counts = <uint32_t *>calloc(size, sizeof(uint32_t))
        if counts == NULL:
            raise MemoryError
        try:
            with nogil:
                brv_histogram(counts, words.data, words.width, 0, words.width, words.count)
            return Histogram.folded(counts, size, words.width)
        finally:
            free(counts)

    @staticmethod
    cdef Histogram folded(const uint32_t *counts, size_t size, unsigned width):
        """From counts of all words below `size` <= 2^16."""
        cdef Histogram h = Histogram.__new__(Histogram)
        cdef size_t i, distinct = 0
        for i in range(size):
            distinct += counts[i] != 0
        if distinct > BRV_SYMBOLS:
            return None
        h.make_room(width, distinct)
        h.dense = <uint16_t *>calloc(size, sizeof(uint16_t))
        if h.dense == NULL:
            raise MemoryError
        for i in range(size):
            if counts[i]:
                h.dense[i] = h.count
                h.add(i, counts[i])
        return h

    cdef make_room(self, unsigned width, size_t distinct):
        self.width = width
        self.symbols = <uint64_t *>malloc((distinct + 1) * sizeof(uint64_t))
        self.counts = <uint32_t *>malloc((distinct + 1) * sizeof(uint32_t))
        if self.symbols == NULL or self.counts == NULL:
            raise MemoryError

    cdef void add(self, uint64_t symbol, uint32_t count) noexcept:
        self.symbols[self.count] = symbol
        self.counts[self.count] = count
        self.total += count
        self.count += 1

    cdef uint16_t *number(self, Words words) except NULL:
        """The symbol numbers of words counted here, in memory that the caller frees."""
        cdef uint16_t *numbers = <uint16_t *>malloc(words.count * sizeof(uint16_t) + 16)
        if numbers == NULL:
            raise MemoryError
        with nogil:
            if self.dense != NULL:
                brv_number(numbers, words.data, words.width, self.dense, words.count)
            else:
                brv_number_wide(numbers, words.data, words.width, self.sparse, words.count)
        return numbers


cdef Histogram sparse_histogram(Words words):
    cdef Histogram h = Histogram.__new__(Histogram)
    cdef size_t i, size = <size_t>1 << BRV_TABLE_BITS
    cdef int distinct
    cdef brv_entry *table = <brv_entry *>calloc(size, sizeof(brv_entry))
    if table == NULL:
        raise MemoryError
    h.sparse = table
    with nogil:
        distinct = brv_distinct(table, words.data, words.width, words.count)
    if distinct < 0:
        return None
    h.make_room(words.width, distinct)
    for i in range(size):
        if table[i].count:
            h.add(table[i].word, 0)
    qsort(h.symbols, h.count, sizeof(uint64_t), ascending)
    for i in range(h.count):
        brv_set_number(table, h.symbols[i], <uint16_t>i)
    for i in range(size):
        if table[i].count:
            h.counts[table[i].number] = table[i].count
            h.total += table[i].count
    return h


# ---- rans ----

cdef uint32_t to_quantum(uint64_t f, unsigned p) noexcept nogil:
    """The number whose value (quantum_value) is nearest to f; the higher one on a tie."""
    cdef unsigned e
    if f >> p < 2:
        return <uint32_t>f
    e = brv_log2(f) - p
    return <uint32_t>((<uint64_t>e << p) + ((f + (<uint64_t>1 << e >> 1)) >> e))


cdef bint quantize(Histogram h, unsigned bits, unsigned p, uint16_t *quanta, uint16_t *freqs) noexcept nogil:
    """Numbers of precision p, and the frequencies that a decoder makes of them. Every symbol needs a slot,
    so rare ones get more than their share: the scale of the others is lowered until the sum is about
    right, and the most frequent symbol takes the rest.
    """
    cdef uint64_t want = <uint64_t>1 << bits, scale = want, total, value, highest, f
    cdef size_t i, top
    cdef int attempt
    cdef int64_t rest = 0, off
    for attempt in range(ATTEMPTS + 1):
        total = highest = top = 0
        if attempt == ATTEMPTS:     # rounded down, a slot set aside for each symbol: exact numbers then always fit
            scale = want - h.count
        for i in range(h.count):
            f = (<uint64_t>h.counts[i] * scale + (h.total // 2 if attempt < ATTEMPTS else 0)) // h.total
            quanta[i] = <uint16_t>to_quantum(max(f, 1), p)
            value = quantum_value(quanta[i], p)
            freqs[i] = <uint16_t>min(value, 65535)
            total += value
            if value > highest:
                highest, top = value, i
        off = <int64_t>want - <int64_t>total
        rest = <int64_t>highest + off
        if highest < want and rest >= 1 and off * off <= (<int64_t>highest * <int64_t>highest) >> 10:    # within 1/32 of it
            freqs[top] = <uint16_t>rest
            return True
        if scale + want > total:
            scale = scale + want - total
    freqs[top] = <uint16_t>max(rest, 1)
    return highest < want and rest >= 1


cdef unsigned likely_precision(Histogram h) noexcept nogil:
    """A precision of p bits loses about 2^-(2p + 5) bit a word (a relative error spread evenly over 2^-p,
    squared, halved, in bits) and costs p bits a symbol; where the sum is least, 2^(2p + 5) is about 1.4
    words a symbol.
    """
    cdef unsigned words = brv_log2(h.total * 7 // (h.count * 5) + 1)
    return 1 if words < 7 else min((words - 5) // 2, 14)


cdef uint64_t data_cost(Histogram h, unsigned bits, const uint16_t *freqs) noexcept nogil:
    cdef uint64_t cost = 0
    cdef size_t i
    for i in range(h.count):
        cost += <uint64_t>h.counts[i] * ((bits << UNIT) - brv_log2_fixed(freqs[i]))
    return cost


cdef class Rans:
    """A rans literal to be: its table and, before a word is encoded, its size (`cost`, in units, exact to
    about 0.1%).
    """

    def __dealloc__(self):
        free(self.quanta)
        free(self.frequencies)

    @staticmethod
    cdef Rans plan(Histogram h):
        """The best table for the histogram; None where rans cannot serve (fewer than two symbols)."""
        cdef Rans best = Rans.__new__(Rans)
        cdef uint16_t *quanta
        cdef uint16_t *freqs
        cdef uint64_t cost, gap_bits, value_bits
        cdef unsigned bits = 12, i, p
        if h.count < 2:
            return None
        while bits < 15 and h.count * 4 > 1 << bits:
            bits += 1
        best.histogram, best.bits, best.cost = h, bits, <uint64_t>-1
        best.quanta = <uint16_t *>malloc(h.count * 2)
        best.frequencies = <uint16_t *>malloc(h.count * 2)
        quanta = <uint16_t *>malloc(h.count * 4)
        try:
            if best.quanta == NULL or best.frequencies == NULL or quanta == NULL:
                raise MemoryError
            freqs = quanta + h.count
            with nogil:
                best_gap_order(h.symbols, h.count, h.width, &gap_bits)
                p = likely_precision(h)
            for i in (p, p + 1, 15):
                if best.cost != <uint64_t>-1 and i == 15:
                    continue
                with nogil:
                    cost = <uint64_t>-1
                    if quantize(h, bits, i, quanta, freqs):
                        best_value_order(quanta, h.count, &value_bits)
                        cost = data_cost(h, bits, freqs) + ((26 + h.width + gap_bits + value_bits) << UNIT)
                if cost < best.cost:
                    best.cost, best.precision = cost, i
                    memcpy(best.quanta, quanta, h.count * 2)
                    memcpy(best.frequencies, freqs, h.count * 2)
        finally:
            free(quanta)
        if best.cost == <uint64_t>-1:
            return None
        best.cost += <uint64_t>(32 << UNIT) << best.lanes_log2()
        return best

    cdef unsigned lanes_log2(self) noexcept:
        """Lanes cost 4 bytes each: as many as stay within 0.1% of the data, up to 16 (a vector) within 0.4%; but
        never less than one for each 2^16 words (FORMAT.md), which one lane would make a decoder wait for.
        """
        cdef unsigned log = 6, least = 0
        while log and <uint64_t>(32 << UNIT) << log > self.cost // (1000 if log > 4 else 250):
            log -= 1
        while least < 6 and self.histogram.total > <uint64_t>1 << (16 + least):
            least += 1
        return max(log, least)

    cdef tuple encode(self, Words words):
        """(operands, payload) of one block."""
        cdef Histogram h = self.histogram
        cdef unsigned log = self.lanes_log2(), lanes = 1u << log
        cdef bytes table = write_table(h, self.quanta, self.precision)
        cdef size_t count = words.count, head = len(table), size
        cdef uint8_t *block = <uint8_t *>malloc(2 * count + 4 * lanes)
        cdef uint16_t *numbers = h.number(words)
        cdef void *room = malloc(brv_alias_bytes(h.count, self.bits, BRV_SHARES))
        cdef brv_rans_symbol *symbols = <brv_rans_symbol *>malloc(h.count * sizeof(brv_rans_symbol))
        cdef uint16_t *slots = <uint16_t *>malloc(<size_t>2 << self.bits)
        cdef brv_alias alias
        try:
            if block == NULL or room == NULL or symbols == NULL or slots == NULL:
                raise MemoryError
            with nogil:
                brv_alias_build(&alias, room, self.frequencies, NULL, h.count, self.bits, BRV_SHARES)
                brv_rans_prepare(symbols, slots, self.frequencies, &alias, h.count)
                size = brv_rans_encode(block, numbers, count, lanes, self.bits, symbols, slots)
            return (log | (self.bits - 8) << 3, 1, head, size), table + block[:size]
        finally:
            free(block)
            free(numbers)
            free(room)
            free(symbols)
            free(slots)


# ---- huffman ----

cdef class Huffman:
    """A huffman literal to be."""

    def __dealloc__(self):
        free(self.lengths)

    @staticmethod
    cdef Huffman plan(Histogram h):
        """None where huffman cannot serve (fewer than two symbols)."""
        cdef Huffman best = Huffman.__new__(Huffman)
        cdef uint64_t gap_bits, value_bits
        cdef size_t i
        if h.count < 2:
            return None
        best.histogram = h
        best.lengths = <uint16_t *>malloc(h.count * 2)
        if best.lengths == NULL:
            raise MemoryError
        code_lengths(h, best.lengths)
        best_gap_order(h.symbols, h.count, h.width, &gap_bits)
        best_value_order(best.lengths, h.count, &value_bits)
        best.cost = 22 + h.width + gap_bits + value_bits
        for i in range(h.count):
            best.cost += <uint64_t>h.counts[i] * best.lengths[i]
        best.cost <<= UNIT
        return best

    cdef bytes encode(self, Words words):
        cdef Histogram h = self.histogram
        cdef bytes table = write_table(h, self.lengths, -1)
        cdef bytearray payload = bytearray(len(table) + (self.cost >> (UNIT + 3)) + 16)
        cdef uint8_t *dst = payload
        cdef size_t head = len(table), size
        cdef uint16_t *numbers = h.number(words)
        cdef uint16_t *codes = <uint16_t *>malloc(h.count * 2)
        cdef uint16_t *decoding = <uint16_t *>malloc(2 << BRV_HUFFMAN_BITS)
        try:
            if codes == NULL or decoding == NULL:
                raise MemoryError
            payload[:head] = table
            with nogil:
                brv_huffman_build(decoding, codes, self.lengths, h.count)
                size = brv_huffman_encode(dst + head, numbers, words.count, codes, self.lengths)
        finally:
            free(numbers)
            free(codes)
            free(decoding)
        return bytes(memoryview(payload)[:head + size])


cdef code_lengths(Histogram h, uint16_t *lengths):
    """Optimal code lengths of at most 12 bits, by package-merge (Larmore and Hirschberg 1990).

    Level by level, the coins (all symbols, by count) are merged with packages of two neighbours of the level
    before. The 2s - 2 cheapest items of the last level are bought; a package buys its two items a level lower; a
    symbol's length is the number of its coins bought. Coins come in order, so it is enough to count them.
    """
    cdef size_t n = h.count, size = 2 * n, i, j, k, bought, coins
    cdef int level
    cdef uint64_t *keys = <uint64_t *>malloc(n * sizeof(uint64_t))
    cdef uint64_t *weights = <uint64_t *>malloc(2 * size * sizeof(uint64_t))
    cdef uint64_t *before = weights + size
    cdef uint8_t *is_coin = <uint8_t *>calloc(BRV_HUFFMAN_BITS * size, 1)
    cdef size_t packages = 0
    try:
        if keys == NULL or weights == NULL or is_coin == NULL:
            raise MemoryError
        with nogil:
            for i in range(n):
                keys[i] = <uint64_t>h.counts[i] << 16 | i
                lengths[i] = 0
            qsort(keys, n, sizeof(uint64_t), ascending)
            for level in range(BRV_HUFFMAN_BITS):
                i = j = k = 0
                while i < n or j < packages:
                    if j == packages or i < n and keys[i] >> 16 <= before[2 * j] + before[2 * j + 1]:
                        weights[k], is_coin[level * size + k] = keys[i] >> 16, 1
                        i += 1
                    else:
                        weights[k] = before[2 * j] + before[2 * j + 1]
                        j += 1
                    k += 1
                memcpy(before, weights, k * sizeof(uint64_t))
                packages = k // 2
            bought = 2 * n - 2
            for level in range(BRV_HUFFMAN_BITS - 1, -1, -1):
                coins = 0
                for i in range(bought):
                    coins += is_coin[level * size + i]
                for i in range(coins):
                    lengths[keys[i] & 0xFFFF] += 1
                bought = 2 * (bought - coins)
    finally:
        free(keys)
        free(weights)
        free(is_coin)


def distinct(Words words) -> int | None:
    """How many distinct words there are, or None if more than a table holds."""
    cdef Histogram h = Histogram.of(words)
    return None if h is None else h.count
