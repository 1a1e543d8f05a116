#include "bytes.h"
#include "cpu.h"
#include "kernels.h"

#if BRV_X86
#include <immintrin.h>
#endif

/* The kernels of this family: what they return, their names, parameters and arguments. */
#define BRV_WORDS_KERNELS(X) \
	X(void, unpack, (void *dst, const uint8_t *src, size_t len, uint64_t bit, unsigned w, size_t count), (dst, src, len, bit, w, count)) \
	X(void, pack, (uint8_t *dst, const void *src, unsigned w, size_t count), (dst, src, w, count)) \
	X(void, fill, (void *dst, uint64_t word, unsigned w, size_t count), (dst, word, w, count)) \
	X(void, map, (void *words, unsigned f, uint64_t operand, unsigned w, size_t count), (words, f, operand, w, count)) \
	X(void, unmap, (void *words, unsigned f, uint64_t operand, unsigned w, size_t count), (words, f, operand, w, count)) \
	X(uint64_t, scan, (void *words, unsigned op, uint64_t before, unsigned w, size_t count), (words, op, before, w, count)) \
	X(void, unscan, (void *dst, const void *src, unsigned op, unsigned w, size_t count), (dst, src, op, w, count)) \
	X(void, put_field, (void *dst, unsigned w, const void *src, unsigned field, unsigned shift, int first, size_t count), (dst, w, src, field, shift, first, count)) \
	X(void, take_field, (void *dst, unsigned field, const void *src, unsigned w, unsigned shift, size_t count), (dst, field, src, w, shift, count)) \
	X(void, stretch, (void *dst, const void *src, size_t r, unsigned w, size_t count), (dst, src, r, w, count)) \
	X(int, count_classes, (uint64_t *counts, const uint8_t *select, unsigned k, size_t count), (counts, select, k, count)) \
	X(void, weave, (void *dst, const uint8_t *select, const void *const *from, unsigned k, unsigned w, size_t count), (dst, select, from, k, w, count)) \
	X(void, unweave, (void *const *into, const uint8_t *select, const void *src, unsigned k, unsigned w, size_t count), (into, select, src, k, w, count)) \
	X(int, lookup, (void *dst, const uint32_t *index, const void *table, size_t m, unsigned w, size_t count), (dst, index, table, m, w, count)) \
	X(void, name, (void *dst, const uint16_t *numbers, const uint64_t *symbols, unsigned w, size_t count), (dst, numbers, symbols, w, count))

struct brv_words_kernels {
#define FIELD(result, name, parameters, arguments) result(*name) parameters;
	BRV_WORDS_KERNELS(FIELD)
#undef FIELD
};

#define SET_NAME portable
#define ATTR
#include "words_set.h"
#undef SET_NAME
#undef ATTR
#if BRV_X86
#define SET_NAME avx2
#define ATTR BRV_TARGET_AVX2
#include "words_set.h"
#undef SET_NAME
#undef ATTR
#define SET_NAME avx512
#define ATTR BRV_TARGET_AVX512
#define FAST_DEPOSIT /* bits are deposited and extracted in three cycles by all processors with this set, unlike some with AVX2 */
#include "words_set.h"
#undef SET_NAME
#undef ATTR
#endif

static const struct brv_words_kernels *chosen(void)
{
#if BRV_X86
	unsigned sets = brv_cpu();
	if (sets & BRV_AVX512) return &words_avx512;
	if (sets & BRV_AVX2) return &words_avx2;
#endif
	return &words_portable;
}

#define RETURN_void
#define RETURN_int return
#define RETURN_uint64_t return
#define FORWARD(result, name, parameters, arguments) \
	result brv_##name parameters { RETURN_##result chosen()->name arguments; }
BRV_WORDS_KERNELS(FORWARD)

int brv_same(const void *words, unsigned w, size_t count)
{
	return count < 2 || !memcmp(words, (const uint8_t *)words + brv_size(w), (count - 1) * brv_size(w));
}
