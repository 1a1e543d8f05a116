#include "bytes.h"
#include "kernels.h"

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

#define PAIR_(a, b, c) a##_##b##_##c
#define PAIR(a, b, c) PAIR_(a, b, c)
#define NAME(x) PAIR(x, T, S)
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

void brv_unpack(void *dst, const uint8_t *src, size_t len, uint64_t bit, unsigned w, size_t count)
{
#define CALL(b, t) unpack_##b(dst, src, len, bit, w, count)
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

void brv_pack(uint8_t *dst, const void *src, unsigned w, size_t count)
{
#define CALL(b, t) pack_##b(dst, src, w, count)
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

void brv_fill(void *dst, uint64_t word, unsigned w, size_t count)
{
#define CALL(b, t) fill_##b(dst, word, count)
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

uint64_t brv_word(const void *words, unsigned w, size_t i)
{
	uint64_t word = 0;
#define CALL(b, t) word = ((const t *)words)[i]
	BY_SIZE(brv_size(w), CALL)
#undef CALL
	return word;
}

int brv_same(const void *words, unsigned w, size_t count)
{
	return count < 2 || !memcmp(words, (const uint8_t *)words + brv_size(w), (count - 1) * brv_size(w));
}

void brv_map(void *words, unsigned f, uint64_t operand, unsigned w, size_t count)
{
#define CALL(b, t) \
	switch (f) { \
	case BRV_XOR: xor_##b(words, operand, count); break; \
	case BRV_ADD: add_##b(words, operand, w, count); break; \
	case BRV_ZIGZAG: zigzag_decode_##b(words, w, count); break; \
	case BRV_GRAY: gray_decode_##b(words, count); break; \
	case BRV_ROTATE: rotate_##b(words, (unsigned)operand, w, count); break; \
	default: ordered_decode_##b(words, w, count); break; \
	}
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

void brv_unmap(void *words, unsigned f, uint64_t operand, unsigned w, size_t count)
{
#define CALL(b, t) \
	switch (f) { \
	case BRV_XOR: xor_##b(words, operand, count); break; \
	case BRV_ADD: add_##b(words, 0 - operand, w, count); break; \
	case BRV_ZIGZAG: zigzag_encode_##b(words, w, count); break; \
	case BRV_GRAY: gray_encode_##b(words, count); break; \
	case BRV_ROTATE: rotate_##b(words, w - (unsigned)operand, w, count); break; \
	default: ordered_encode_##b(words, w, count); break; \
	}
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

uint64_t brv_scan(void *words, unsigned op, uint64_t before, unsigned w, size_t count)
{
	uint64_t last = 0;
#define CALL(b, t) last = op == BRV_XOR ? xor_scan_##b(words, before, count) : sum_scan_##b(words, before, w, count)
	BY_SIZE(brv_size(w), CALL)
#undef CALL
	return last;
}

void brv_unscan(void *dst, const void *src, unsigned op, unsigned w, size_t count)
{
#define CALL(b, t) differences_##b(dst, src, op == BRV_XOR, w, count)
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

void brv_put_field(void *dst, unsigned w, const void *src, unsigned field, unsigned shift, int first, size_t count)
{
	switch (brv_size(w) * 16 + brv_size(field)) {
	case 0x11: put_uint8_t_uint8_t(dst, src, shift, first, count); break;
	case 0x21: put_uint16_t_uint8_t(dst, src, shift, first, count); break;
	case 0x22: put_uint16_t_uint16_t(dst, src, shift, first, count); break;
	case 0x41: put_uint32_t_uint8_t(dst, src, shift, first, count); break;
	case 0x42: put_uint32_t_uint16_t(dst, src, shift, first, count); break;
	case 0x44: put_uint32_t_uint32_t(dst, src, shift, first, count); break;
	case 0x81: put_uint64_t_uint8_t(dst, src, shift, first, count); break;
	case 0x82: put_uint64_t_uint16_t(dst, src, shift, first, count); break;
	case 0x84: put_uint64_t_uint32_t(dst, src, shift, first, count); break;
	default: put_uint64_t_uint64_t(dst, src, shift, first, count); break;
	}
}

void brv_take_field(void *dst, unsigned field, const void *src, unsigned w, unsigned shift, size_t count)
{
	switch (brv_size(w) * 16 + brv_size(field)) {
	case 0x11: take_uint8_t_uint8_t(dst, src, shift, field, count); break;
	case 0x21: take_uint16_t_uint8_t(dst, src, shift, field, count); break;
	case 0x22: take_uint16_t_uint16_t(dst, src, shift, field, count); break;
	case 0x41: take_uint32_t_uint8_t(dst, src, shift, field, count); break;
	case 0x42: take_uint32_t_uint16_t(dst, src, shift, field, count); break;
	case 0x44: take_uint32_t_uint32_t(dst, src, shift, field, count); break;
	case 0x81: take_uint64_t_uint8_t(dst, src, shift, field, count); break;
	case 0x82: take_uint64_t_uint16_t(dst, src, shift, field, count); break;
	case 0x84: take_uint64_t_uint32_t(dst, src, shift, field, count); break;
	default: take_uint64_t_uint64_t(dst, src, shift, field, count); break;
	}
}

void brv_stretch(void *dst, const void *src, size_t r, unsigned w, size_t count)
{
#define CALL(b, t) stretch_##b(dst, src, r, count)
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

int brv_count_classes(uint64_t *counts, const uint8_t *select, unsigned k, size_t count)
{
	uint32_t part[4][256] = {{0}}; /* four, so that a run of one class does not wait for its own counter; count < 2^32 */
	size_t i = 0;
	for (; i + 4 <= count; i += 4)
		for (int j = 0; j < 4; j++) part[j][select[i + j]]++;
	for (; i < count; i++) part[0][select[i]]++;
	for (unsigned s = 0; s < 256; s++) {
		uint64_t sum = (uint64_t)part[0][s] + part[1][s] + part[2][s] + part[3][s];
		if (s < k) counts[s] = sum;
		else if (sum) return -1;
	}
	return 0;
}

void brv_weave(void *dst, const uint8_t *select, const void *const *from, unsigned k, unsigned w, size_t count)
{
#define CALL(b, t) weave_##b(dst, select, (const t *const *)from, k, count)
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

void brv_unweave(void *const *into, const uint8_t *select, const void *src, unsigned k, unsigned w, size_t count)
{
#define CALL(b, t) unweave_##b((t *const *)into, select, src, k, count)
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}

int brv_lookup(void *dst, const uint32_t *index, const void *table, size_t m, unsigned w, size_t count)
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

void brv_name(void *dst, const uint16_t *numbers, const uint64_t *symbols, unsigned w, size_t count)
{
#define CALL(b, t) \
	for (size_t i = 0; i < count; i++) ((t *)dst)[i] = (t)symbols[numbers[i]]
	BY_SIZE(brv_size(w), CALL)
#undef CALL
}
