/* rANS decoding with AVX-512 (VBMI, VBMI2): sixteen lanes a vector. Included by rans.c.

   Short alphabets are looked up without memory: with probabilities of 12 bits and at most 128 buckets, a share is five bytes (symbol: two, low
   frequency, low rank, and the upper four bits of both), each in a table of 128 bytes, which is two registers and one permutation. Alphabets with
   fewer buckets are dealt to 128 of 32 slots all the same. Longer ones are gathered from the flat table. */
#include <immintrin.h>

/* planes: limits (slots of a bucket below its limit), then five tables of the lower shares and five of the upper ones */
static void fill_planes(brv_alias *a)
{
	for (unsigned i = 0; i < 128; i++) {
		unsigned slot = i * 32, bucket = slot >> a->shift, limit = a->limit[bucket];
		a->planes[i] = (uint8_t)(limit <= slot ? 0 : limit - slot < 32 ? limit - slot : 32);
		for (unsigned half = 0; half < 2; half++) {
			uint64_t share = a->shares[2 * bucket + half];
			uint8_t *plane = a->planes + 128 * (1 + 5 * half) + i;
			unsigned frequency = share >> 16 & 0xFFF, rank = share >> 32 & 0xFFF;
			plane[0] = (uint8_t)share;
			plane[128] = (uint8_t)(share >> 8);
			plane[256] = (uint8_t)frequency;
			plane[384] = (uint8_t)rank;
			plane[512] = (uint8_t)(frequency >> 8 | rank >> 8 << 4);
		}
	}
}

#define EVERY_SECOND_BYTE_OF_4 0x2222222222222222u

/* symbol, frequency and rank of 16 slots */
#define BY_PLANES() \
	__m512i bucket = _mm512_shuffle_epi8(_mm512_srli_epi32(slot, 5), low_byte_to_all); \
	__m512i within = _mm512_shuffle_epi8(_mm512_and_si512(slot, m5), low_byte_to_all); \
	__mmask64 upper = _mm512_cmpge_epu8_mask(within, _mm512_permutex2var_epi8(limit[0], bucket, limit[1])); \
	__m512i part[5]; \
	for (int p = 0; p < 5; p++) \
		part[p] = _mm512_mask_blend_epi8(upper, _mm512_permutex2var_epi8(plane[p][0], bucket, plane[p][1]), \
						 _mm512_permutex2var_epi8(plane[5 + p][0], bucket, plane[5 + p][1])); \
	__m512i symbol = _mm512_mask_blend_epi8(EVERY_SECOND_BYTE_OF_4, part[0], part[1]); \
	__m512i frequency = _mm512_or_si512(_mm512_and_si512(part[2], m8), _mm512_and_si512(_mm512_slli_epi32(part[4], 8), m8_12)); \
	__m512i rank = _mm512_or_si512(_mm512_and_si512(part[3], m8), _mm512_and_si512(_mm512_slli_epi32(part[4], 4), m8_12)); \
	rank = _mm512_and_si512(_mm512_add_epi32(slot, rank), mask)

#define BY_FLAT() \
	__m512i head = _mm512_i32gather_epi32(slot, flat, 8); \
	__m512i rank = _mm512_i32gather_epi32(slot, flat + 1, 8); \
	__m512i symbol = head, frequency = _mm512_srli_epi32(head, 16)

#define STEP(v, LOOK_UP) \
	do { \
		__m512i slot = _mm512_and_si512(x[v], mask); \
		LOOK_UP(); \
		if (size == 1) \
			_mm_storeu_si128((__m128i *)(dst + 16 * (v)), _mm512_cvtepi32_epi8(symbol)); \
		else \
			_mm256_storeu_si256((__m256i *)(dst + 32 * (v)), _mm512_cvtepi32_epi16(symbol)); \
		__m512i y = _mm512_add_epi32(_mm512_mullo_epi32(frequency, _mm512_srl_epi32(x[v], bits)), rank); \
		__mmask16 low = _mm512_cmplt_epu32_mask(y, bound); \
		__m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)at)); \
		x[v] = _mm512_mask_or_epi32(y, low, _mm512_slli_epi32(y, 16), _mm512_maskz_expand_epi32(low, words)); \
		at += 2 * (size_t)_mm_popcnt_u32(low); \
	} while (0)

/* Rounds of 16 * V lanes; returns how many symbols. Stops where a round's words may run out: a vector loads 16 at once. */
#define ROUNDS(NAME, V, LOOK_UP) \
	BRV_TARGET_AVX512 static size_t NAME(brv_rans *r, const brv_alias *a, uint8_t *dst, const unsigned size, size_t count) \
	{ \
		const __m512i mask = _mm512_set1_epi32((1 << a->bits) - 1), bound = _mm512_set1_epi32(1 << 16); \
		const __m128i bits = _mm_cvtsi32_si128((int)a->bits); \
		TABLES_##LOOK_UP; \
		__m512i x[V]; \
		const uint8_t *at = r->at; \
		size_t done = 0; \
		for (int v = 0; v < V; v++) x[v] = _mm512_loadu_si512(r->state + 16 * v); \
		for (; done + 16 * V <= count && (size_t)(r->end - at) >= 32 * V; done += 16 * V, dst += 16 * V * size) { \
			_Pragma("GCC unroll 4") for (int v = 0; v < V; v++) STEP(v, LOOK_UP); \
		} \
		for (int v = 0; v < V; v++) _mm512_storeu_si512(r->state + 16 * v, x[v]); \
		r->at = at; \
		return done; \
	}

#define TABLES_BY_FLAT const int *flat = (const int *)a->flat
#define TABLES_BY_PLANES \
	const __m512i m5 = _mm512_set1_epi32(31), m8 = _mm512_set1_epi32(255), m8_12 = _mm512_set1_epi32(0xF00); \
	const __m512i low_byte_to_all = _mm512_set4_epi32(0x0C0C0C0C, 0x08080808, 0x04040404, 0); \
	__m512i limit[2], plane[10][2]; \
	for (int half = 0; half < 2; half++) { \
		limit[half] = _mm512_loadu_si512(a->planes + 64 * half); \
		for (int p = 0; p < 10; p++) plane[p][half] = _mm512_loadu_si512(a->planes + 128 * (p + 1) + 64 * half); \
	}

ROUNDS(planes_16, 1, BY_PLANES)
ROUNDS(planes_32, 2, BY_PLANES)
ROUNDS(planes_64, 4, BY_PLANES)
ROUNDS(flat_16, 1, BY_FLAT)
ROUNDS(flat_32, 2, BY_FLAT)
ROUNDS(flat_64, 4, BY_FLAT)

/* Whole rounds from lane 0 on, as many as can be done without looking; returns how many symbols these are. */
static size_t decode_rounds(brv_rans *r, const brv_alias *a, void *dst, unsigned size, size_t count)
{
	switch (r->lanes) {
	case 16: return a->planes ? planes_16(r, a, dst, size, count) : flat_16(r, a, dst, size, count);
	case 32: return a->planes ? planes_32(r, a, dst, size, count) : flat_32(r, a, dst, size, count);
	default: return a->planes ? planes_64(r, a, dst, size, count) : flat_64(r, a, dst, size, count);
	}
}

#undef STEP
#undef ROUNDS
#undef BY_PLANES
#undef BY_FLAT
#undef TABLES_BY_PLANES
#undef TABLES_BY_FLAT
#undef EVERY_SECOND_BYTE_OF_4
