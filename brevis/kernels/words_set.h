/* All kernels of words.c for one instruction set: included with SET_NAME and ATTR defined. */
#define CAT3_(a, b, c) a##_##b##_##c
#define CAT3(a, b, c) CAT3_(a, b, c)
#define CAT4_(a, b, c, d) a##_##b##_##c##_##d
#define CAT4(a, b, c, d) CAT4_(a, b, c, d)
#define SET_(a, b) a##_##b
#define SET__(a, b) SET_(a, b)
#define SET(name) SET__(name, SET_NAME)
#define FN(name) CAT3(name, BITS, SET_NAME)
#define NAME(x) CAT4(x, T, S, SET_NAME)

#define T uint8_t
#define BITS 8
#include "words_impl.h"
#undef T
#undef BITS
#define T uint16_t
#define BITS 16
#include "words_impl.h"
#undef T
#undef BITS
#define T uint32_t
#define BITS 32
#include "words_impl.h"
#undef T
#undef BITS
#define T uint64_t
#define BITS 64
#include "words_impl.h"
#undef T
#undef BITS

#define T uint8_t
#define S uint8_t
#include "fields_impl.h"
#undef T
#define T uint16_t
#include "fields_impl.h"
#undef S
#define S uint16_t
#include "fields_impl.h"
#undef T
#undef S
#define T uint32_t
#define S uint8_t
#include "fields_impl.h"
#undef S
#define S uint16_t
#include "fields_impl.h"
#undef S
#define S uint32_t
#include "fields_impl.h"
#undef T
#undef S
#define T uint64_t
#define S uint8_t
#include "fields_impl.h"
#undef S
#define S uint16_t
#include "fields_impl.h"
#undef S
#define S uint32_t
#include "fields_impl.h"
#undef S
#define S uint64_t
#include "fields_impl.h"
#undef T
#undef S

/* One call for each container size: call(suffix, type). */
#define BY_SIZE(size, call) \
	switch (size) { \
	case 1: call(8, uint8_t); break; \
	case 2: call(16, uint16_t); break; \
	case 4: call(32, uint32_t); break; \
	default: call(64, uint64_t); break; \
	}

static ATTR void SET(unpack)(void *dst, const uint8_t *src, size_t len, uint64_t bit, unsigned w, size_t count)
{
#define CALL(b, t) CAT3(unpack, b, SET_NAME)(dst, src, len, bit, w, count)
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

static ATTR void SET(pack)(uint8_t *dst, const void *src, unsigned w, size_t count)
{
#define CALL(b, t) CAT3(pack, b, SET_NAME)(dst, src, w, count)
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

static ATTR void SET(fill)(void *dst, uint64_t word, unsigned w, size_t count)
{
#define CALL(b, t) CAT3(fill, b, SET_NAME)(dst, word, count)
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

static ATTR void SET(map)(void *words, unsigned f, uint64_t operand, unsigned w, size_t count)
{
#define CALL(b, t) \
	switch (f) { \
	case BRV_XOR: CAT3(xor, b, SET_NAME)(words, operand, count); break; \
	case BRV_ADD: CAT3(add, b, SET_NAME)(words, operand, w, count); break; \
	case BRV_ZIGZAG: CAT3(zigzag_decode, b, SET_NAME)(words, w, count); break; \
	case BRV_GRAY: CAT3(gray_decode, b, SET_NAME)(words, count); break; \
	case BRV_ROTATE: CAT3(rotate, b, SET_NAME)(words, (unsigned)operand, w, count); break; \
	default: CAT3(ordered_decode, b, SET_NAME)(words, w, count); break; \
	}
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

static ATTR void SET(unmap)(void *words, unsigned f, uint64_t operand, unsigned w, size_t count)
{
#define CALL(b, t) \
	switch (f) { \
	case BRV_XOR: CAT3(xor, b, SET_NAME)(words, operand, count); break; \
	case BRV_ADD: CAT3(add, b, SET_NAME)(words, 0 - operand, w, count); break; \
	case BRV_ZIGZAG: CAT3(zigzag_encode, b, SET_NAME)(words, w, count); break; \
	case BRV_GRAY: CAT3(gray_encode, b, SET_NAME)(words, count); break; \
	case BRV_ROTATE: CAT3(rotate, b, SET_NAME)(words, w - (unsigned)operand, w, count); break; \
	default: CAT3(ordered_encode, b, SET_NAME)(words, w, count); break; \
	}
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

static ATTR uint64_t SET(scan)(void *words, unsigned op, uint64_t before, unsigned w, size_t count)
{
	uint64_t last = 0;
#define CALL(b, t) last = op == BRV_XOR ? CAT3(xor_scan, b, SET_NAME)(words, before, count) : CAT3(sum_scan, b, SET_NAME)(words, before, w, count)
	BY_SIZE(brv_size(w), CALL)
#undef CALL
	return last;
}

static ATTR void SET(unscan)(void *dst, const void *src, unsigned op, unsigned w, size_t count)
{
#define CALL(b, t) CAT3(differences, b, SET_NAME)(dst, src, op == BRV_XOR, w, count)
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

/* One call for each pair of containers, of words and of a field in them: call(word type, field type). */
#define BY_PAIR(w, field, call) \
	switch (brv_size(w) * 16 + brv_size(field)) { \
	case 0x11: call(uint8_t, uint8_t); break; \
	case 0x21: call(uint16_t, uint8_t); break; \
	case 0x22: call(uint16_t, uint16_t); break; \
	case 0x41: call(uint32_t, uint8_t); break; \
	case 0x42: call(uint32_t, uint16_t); break; \
	case 0x44: call(uint32_t, uint32_t); break; \
	case 0x81: call(uint64_t, uint8_t); break; \
	case 0x82: call(uint64_t, uint16_t); break; \
	case 0x84: call(uint64_t, uint32_t); break; \
	default: call(uint64_t, uint64_t); break; \
	}

static ATTR void SET(put_field)(void *dst, unsigned w, const void *src, unsigned field, unsigned shift, int first, size_t count)
{
#define CALL(t, s) CAT4(put, t, s, SET_NAME)(dst, src, shift, first, count)
	BY_PAIR(w, field, CALL)
#undef CALL
}

static ATTR void SET(take_field)(void *dst, unsigned field, const void *src, unsigned w, unsigned shift, size_t count)
{
#define CALL(t, s) CAT4(take, t, s, SET_NAME)(dst, src, shift, field, count)
	BY_PAIR(w, field, CALL)
#undef CALL
}

static ATTR void SET(stretch)(void *dst, const void *src, size_t r, unsigned w, size_t count)
{
#define CALL(b, t) CAT3(stretch, b, SET_NAME)(dst, src, r, count)
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

static ATTR int SET(count_classes)(uint64_t *counts, const uint8_t *select, unsigned k, size_t count)
{
	uint32_t part[4][256] = {{0}}; /* four, so that a run of one class does not wait for its own counter; count < 2^32 */
	size_t i = 0;
#ifdef FAST_DEPOSIT
	if (k <= 16) { /* by comparing with each class in turn; what is none of them lowers the sum */
		uint64_t sum = 0;
		memset(counts, 0, k * sizeof *counts);
		for (; i + 64 <= count; i += 64) {
			__m512i s = _mm512_loadu_si512(select + i);
			for (unsigned j = 0; j < k; j++)
				counts[j] += (uint64_t)_mm_popcnt_u64(_mm512_cmpeq_epi8_mask(s, _mm512_set1_epi8((char)j)));
		}
		for (unsigned j = 0; j < k; j++) sum += counts[j];
		if (sum != i) return -1;
	} else
#endif
		memset(counts, 0, k * sizeof *counts);
	while (i < count) {
		uint64_t s = i + 8 <= count ? brv_load64(select + i) : 1;
		if (s == (s & 0xFF) * 0x0101010101010101u) { /* a run, as in the rows of a matrix */
			part[0][s & 0xFF] += 8;
			i += 8;
			continue;
		}
		size_t stop = i + 32 < count ? i + 32 : count;
		for (; i < stop; i++) part[i % 4][select[i]]++;
	}
	for (unsigned s = 0; s < 256; s++) {
		uint64_t sum = (uint64_t)part[0][s] + part[1][s] + part[2][s] + part[3][s];
		if (s < k) counts[s] += sum;
		else if (sum) return -1;
	}
	return 0;
}

static ATTR void SET(weave)(void *dst, const uint8_t *select, const void *const *from, unsigned k, unsigned w, size_t count)
{
#define CALL(b, t) CAT3(weave, b, SET_NAME)(dst, select, (const t *const *)from, k, count)
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

static ATTR void SET(unweave)(void *const *into, const uint8_t *select, const void *src, unsigned k, unsigned w, size_t count)
{
#define CALL(b, t) CAT3(unweave, b, SET_NAME)((t *const *)into, select, src, k, count)
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

static ATTR int SET(lookup)(void *dst, const uint32_t *index, const void *table, size_t m, unsigned w, size_t count)
{
	uint32_t highest = 0;
	for (size_t i = 0; i < count; i++) highest = index[i] > highest ? index[i] : highest;
	if (count && highest >= m) return -1;
#define CALL(b, t) \
	for (size_t i = 0; i < count; i++) ((t *)dst)[i] = ((const t *)table)[index[i]]
	BY_SIZE(brv_size(w), CALL)
#undef CALL
	return 0;
}

static ATTR void SET(name)(void *dst, const uint16_t *numbers, const uint64_t *symbols, unsigned w, size_t count)
{
#define CALL(b, t) \
	for (size_t i = 0; i < count; i++) ((t *)dst)[i] = (t)symbols[numbers[i]]
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

static const struct brv_words_kernels SET(words) = {
#define FIELD(result, name, parameters, arguments) SET(name),
	BRV_WORDS_KERNELS(FIELD)
#undef FIELD
};

#undef BY_SIZE
#undef BY_PAIR
#undef CAT3_
#undef CAT3
#undef CAT4_
#undef CAT4
#undef SET_
#undef SET__
#undef SET
#undef FN
#undef NAME
