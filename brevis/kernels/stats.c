#include "bytes.h"
#include "kernels.h"

/* 2^16 * log2(1 + i / 64), rounded. */
static const uint32_t LOG2[65] = {
	0, 1466, 2909, 4331, 5732, 7112, 8473, 9814, 11136, 12440, 13727, 14996, 16248,
	17484, 18704, 19909, 21098, 22272, 23433, 24579, 25711, 26830, 27936, 29029, 30109, 31178,
	32234, 33279, 34312, 35334, 36346, 37346, 38336, 39316, 40286, 41246, 42196, 43137, 44068,
	44990, 45904, 46809, 47705, 48593, 49472, 50344, 51207, 52063, 52911, 53751, 54584, 55410,
	56229, 57040, 57845, 58643, 59434, 60219, 60997, 61769, 62534, 63294, 64047, 64794, 65536,
};

uint32_t brv_log2_fixed(uint64_t x)
{
	uint32_t whole = brv_log2(x);
	uint32_t m = (uint32_t)(whole > 31 ? x >> (whole - 31) : x << (31 - whole)) & 0x7FFFFFFF; /* the 31 bits behind the first */
	uint32_t i = m >> 25, part = (m & 0x1FFFFFF) >> 9;                                       /* of 2^16 */
	return (whole << 16) + LOG2[i] + ((LOG2[i + 1] - LOG2[i]) * part >> 16);
}

/* Short fields are counted in two tables in turn: a counter that was just written is not there yet to be read again. */
#define HISTOGRAM(t) \
	for (; i + 2 <= count; i += 2) { \
		counts[((const t *)words)[i] >> shift & mask]++; \
		other[((const t *)words)[i + 1] >> shift & mask]++; \
	} \
	if (i < count) counts[((const t *)words)[i] >> shift & mask]++

void brv_histogram(uint32_t *counts, const void *words, unsigned w, unsigned shift, unsigned bits, size_t count)
{
	uint32_t second[4096], *other = bits <= 12 ? second : counts;
	const uint64_t mask = brv_mask(bits);
	size_t i = 0;
	if (other == second) memset(second, 0, sizeof *second << bits);
	switch (brv_size(w)) {
	case 1: HISTOGRAM(uint8_t); break;
	case 2: HISTOGRAM(uint16_t); break;
	case 4: HISTOGRAM(uint32_t); break;
	default: HISTOGRAM(uint64_t); break;
	}
	if (other == second)
		for (size_t s = 0; s <= mask; s++) counts[s] += second[s];
}

void brv_number(uint16_t *dst, const void *words, unsigned w, const uint16_t *numbers, size_t count)
{
	if (brv_size(w) == 1)
		for (size_t i = 0; i < count; i++) dst[i] = numbers[((const uint8_t *)words)[i]];
	else
		for (size_t i = 0; i < count; i++) dst[i] = numbers[((const uint16_t *)words)[i]];
}

/* Fibonacci hashing; linear probing in a table at most a quarter full. */
static brv_entry *find(brv_entry *table, uint64_t word, size_t *steps)
{
	size_t slot = (size_t)(word * 0x9E3779B97F4A7C15u >> (64 - BRV_TABLE_BITS));
	for (; table[slot].count && table[slot].word != word; ++*steps) slot = (slot + 1) & (((size_t)1 << BRV_TABLE_BITS) - 1);
	return table + slot;
}

int brv_distinct(brv_entry *table, const void *words, unsigned w, size_t count)
{
	int distinct = 0;
	size_t steps = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t word = brv_word(words, w, i);
		brv_entry *e = find(table, word, &steps);
		if (steps > 4 * i + BRV_SYMBOLS) return -1; /* words made to collide: half a step each is what to expect */
		if (!e->count++) {
			if (++distinct > BRV_SYMBOLS) return -1;
			e->word = word;
		}
	}
	return distinct;
}

void brv_set_number(brv_entry *table, uint64_t word, uint16_t number)
{
	size_t steps = 0;
	find(table, word, &steps)->number = number;
}

void brv_number_wide(uint16_t *dst, const void *words, unsigned w, brv_entry *table, size_t count)
{
	size_t steps = 0;
	for (size_t i = 0; i < count; i++) dst[i] = find(table, brv_word(words, w, i), &steps)->number;
}

uint64_t brv_or(const void *words, unsigned w, size_t count)
{
	uint64_t bits = 0;
#define OR(t) \
	do { \
		t part = 0; \
		for (size_t i = 0; i < count; i++) part |= ((const t *)words)[i]; \
		bits = part; \
	} while (0)
	switch (brv_size(w)) {
	case 1: OR(uint8_t); break;
	case 2: OR(uint16_t); break;
	case 4: OR(uint32_t); break;
	default: OR(uint64_t); break;
	}
	return bits;
}

#define BIN(t) \
	for (size_t o = 0; o < outer; o += outer_step) \
		for (size_t m = 0; m < mid; m++) { \
			const t *line = (const t *)words + (o * mid + m) * inner; \
			uint16_t *row = counts + m * BRV_BINS; \
			for (size_t i = 0; i < inner; i += inner_step) row[bins[line[i] >> shift]]++; \
		}

void brv_bin(uint16_t *counts, const void *words, unsigned w, const uint8_t *bins, size_t outer, size_t mid, size_t inner,
	     size_t outer_step, size_t inner_step)
{
	const unsigned shift = w > 16 ? w - 16 : 0;
	switch (brv_size(w)) {
	case 1: BIN(uint8_t); break;
	case 2: BIN(uint16_t); break;
	case 4: BIN(uint32_t); break;
	default: BIN(uint64_t); break;
	}
}

/* Called with a length that the compiler does not see, so that it makes a loop of vectors of it and not 32 steps. */
static int32_t dot(const int16_t *a, const int16_t *b, size_t count)
{
	int32_t sum = 0;
	for (size_t i = 0; i < count; i++) sum += a[i] * b[i];
	return sum;
}

void brv_assign(uint8_t *class_of, const uint16_t *counts, const int16_t *costs, unsigned k, size_t mid)
{
	volatile const size_t length = BRV_BINS;
	const size_t bins = length;
	for (size_t m = 0; m < mid; m++) {
		const int16_t *row = (const int16_t *)counts + m * BRV_BINS; /* at most 2^15 - 1 each */
		int32_t least = INT32_MAX;
		for (unsigned c = 0; c < k; c++) {
			int32_t cost = dot(row, costs + c * bins, bins);
			if (cost < least) {
				least = cost;
				class_of[m] = (uint8_t)c;
			}
		}
	}
}
