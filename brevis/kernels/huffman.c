#include "bytes.h"
#include "kernels.h"

static uint16_t reverse(uint32_t code, unsigned bits)
{
	uint32_t r = 0;
	for (unsigned i = 0; i < bits; i++) r |= (code >> i & 1) << (bits - 1 - i);
	return (uint16_t)r;
}

int brv_huffman_build(uint16_t table[1 << BRV_HUFFMAN_BITS], uint16_t *codes, const uint16_t *lengths, size_t s)
{
	uint32_t counts[BRV_HUFFMAN_BITS + 1] = {0}, next[BRV_HUFFMAN_BITS + 1], code = 0, sum = 0;
	for (size_t i = 0; i < s; i++) {
		if (lengths[i] < 1 || lengths[i] > BRV_HUFFMAN_BITS) return -1;
		counts[lengths[i]]++;
		sum += 1u << (BRV_HUFFMAN_BITS - lengths[i]); /* s <= 4096, so below 2^24 */
	}
	if (sum != 1u << BRV_HUFFMAN_BITS) return -1;
	for (unsigned l = 1; l <= BRV_HUFFMAN_BITS; l++) {
		code <<= 1;
		next[l] = code;
		code += counts[l];
	}
	for (size_t i = 0; i < s; i++) {
		unsigned l = lengths[i];
		uint16_t c = reverse(next[l]++, l);
		if (codes) codes[i] = c;
		for (uint32_t t = c; t < 1u << BRV_HUFFMAN_BITS; t += 1u << l) table[t] = (uint16_t)(i << 4 | l);
	}
	return 0;
}

int brv_huffman_decode(uint16_t *dst, const uint16_t *table, const uint8_t *src, size_t len, uint64_t *bit, size_t count)
{
	const uint32_t mask = (1u << BRV_HUFFMAN_BITS) - 1;
	uint64_t at = *bit;
	size_t i = 0;
	for (; i + 4 <= count && at / 8 + 8 <= len; i += 4) { /* four codes fit the 57 bits of a load */
		uint64_t x = brv_load64(src + at / 8) >> (at % 8);
		for (unsigned j = 0; j < 4; j++) {
			uint16_t entry = table[x & mask];
			dst[i + j] = entry >> 4;
			x >>= entry & 15;
			at += entry & 15;
		}
	}
	for (; i < count; i++) {
		if (at >= (uint64_t)len * 8) return -1;
		uint16_t entry = table[brv_load64_partial(src + at / 8, len - (size_t)(at / 8)) >> (at % 8) & mask];
		dst[i] = entry >> 4;
		at += entry & 15;
	}
	*bit = at;
	return at <= (uint64_t)len * 8 ? 0 : -1;
}

size_t brv_huffman_encode(uint8_t *dst, const uint16_t *numbers, size_t count, const uint16_t *codes, const uint16_t *lengths)
{
	uint8_t *at = dst;
	uint64_t hold = 0;
	unsigned held = 0;
	for (size_t i = 0; i < count; i++) {
		hold |= (uint64_t)codes[numbers[i]] << held;
		held += lengths[numbers[i]];
		if (held >= 48) {
			brv_store64(at, hold);
			at += 6;
			hold >>= 48;
			held -= 48;
		}
	}
	for (; held; held -= held < 8 ? held : 8, hold >>= 8) *at++ = (uint8_t)hold;
	return (size_t)(at - dst);
}
