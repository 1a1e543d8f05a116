#include "bytes.h"
#include "cpu.h"
#include "kernels.h"

/* Planes are for probabilities of 12 bits and up to 128 buckets; 11 tables of 128 bytes. */
enum { PLANES_BITS = 12, PLANES_LOG = 7, PLANES_BYTES = 11 * 128 };

static unsigned bucket_bits(size_t s) { return brv_log2(2 * s - 1); } /* ceil(log2(s)), s >= 1 */

int brv_alias_kind(size_t s, unsigned bits, unsigned lanes, uint64_t count)
{
	if (bits > 12 || count >> bits == 0) return BRV_SHARES;
#if BRV_X86
	if (brv_cpu() & BRV_AVX512 && bits == PLANES_BITS && lanes >= 16 && bucket_bits(s) <= PLANES_LOG) return BRV_PLANES;
#else
	(void)s, (void)lanes;
#endif
	return BRV_FLAT;
}

size_t brv_alias_bytes(size_t s, unsigned bits, int kind)
{
	size_t buckets = (size_t)1 << bucket_bits(s);
	size_t more = kind == BRV_FLAT ? sizeof(uint64_t) << bits : kind == BRV_PLANES ? PLANES_BYTES : 0;
	return buckets * (2 * sizeof(uint64_t) + sizeof(uint16_t)) + more;
}

#if BRV_X86
#include "rans_avx512.h"
#endif

/* split[i] and other[i] of FORMAT.md for all buckets of `width` slots. */
static void split_buckets(const uint16_t *frequencies, size_t s, size_t buckets, uint16_t width, uint16_t *split, uint16_t *other)
{
	uint16_t rest[BRV_SYMBOLS], stack[BRV_SYMBOLS]; /* the small ones grow upwards from 0, the large ones downwards from the end */
	size_t small = 0, large = BRV_SYMBOLS;
	for (size_t i = 0; i < buckets; i++) {
		rest[i] = i < s ? frequencies[i] : 0;
		split[i] = width;
		other[i] = (uint16_t)i;
		if (rest[i] < width) stack[small++] = (uint16_t)i;
		else stack[--large] = (uint16_t)i;
	}
	while (small) {
		uint16_t i = stack[--small], h = stack[large];
		split[i] = rest[i];
		other[i] = h;
		rest[h] = (uint16_t)(rest[h] - (width - rest[i]));
		if (rest[h] < width) {
			large++;
			stack[small++] = h;
		}
	}
}

void brv_alias_build(brv_alias *a, void *room, const uint16_t *frequencies, const uint16_t *names, size_t s, unsigned bits, int kind)
{
	const unsigned log = bucket_bits(s);
	const size_t buckets = (size_t)1 << log, width = (size_t)1 << (bits - log);
	uint16_t next[BRV_SYMBOLS] = {0}; /* slots that each symbol has so far */
	uint16_t other[BRV_SYMBOLS];
	uint64_t *share = room;
	a->bits = bits;
	a->shift = bits - log;
	a->shares = share;
	a->flat = kind == BRV_FLAT ? share + 2 * buckets : NULL;
	a->planes = kind == BRV_PLANES ? (uint8_t *)(share + 2 * buckets) : NULL;
	a->limit = (uint16_t *)(share + 2 * buckets + (kind == BRV_FLAT ? (size_t)1 << bits : kind == BRV_PLANES ? PLANES_BYTES / 8 : 0));
	split_buckets(frequencies, s, buckets, (uint16_t)width, a->limit, other);
	for (size_t i = 0; i < buckets; i++) {
		size_t slot = i * width, limit = slot + a->limit[i];
		for (int half = 0; half < 2; half++, share++) {
			size_t symbol = half ? other[i] : i, end = half ? (i + 1) * width : limit;
			uint64_t f, name;
			*share = 0;
			if (slot == end) continue; /* nobody will ask; and bucket i may have no symbol i */
			f = frequencies[symbol];
			name = names ? names[symbol] : symbol;
			*share = name | f << 16 | (uint64_t)(uint16_t)(next[symbol] - slot) << 32;
			if (a->flat)
				for (size_t r = 0; r < end - slot; r++) a->flat[slot + r] = name | f << 16 | (next[symbol] + r) << 32;
			next[symbol] = (uint16_t)(next[symbol] + end - slot);
			slot = end;
		}
		a->limit[i] = (uint16_t)limit; /* up to 2^15 */
	}
#if BRV_X86
	if (a->planes) fill_planes(a);
#endif
}

int brv_rans_open(brv_rans *r, const uint8_t *block, size_t len, unsigned lanes)
{
	for (unsigned l = 0; l < lanes; l++) {
		r->state[l] = brv_load32(block + 4 * l);
		if (r->state[l] >> 16 == 0) return -1;
	}
	r->at = block + 4 * lanes;
	r->end = block + len;
	r->lanes = lanes;
	r->lane = 0;
	return 0;
}

int brv_rans_close(const brv_rans *r)
{
	for (unsigned l = 0; l < r->lanes; l++)
		if (r->state[l] != 1u << 16) return -1;
	return r->at == r->end ? 0 : -1;
}

#define T uint8_t
#define NAME rans_decode_alias_8
#include "rans_impl.h"
#undef NAME
#define NAME rans_decode_flat_8
#define FLAT
#include "rans_impl.h"
#undef NAME
#undef T
#define T uint16_t
#define NAME rans_decode_flat_16
#include "rans_impl.h"
#undef NAME
#undef FLAT
#define NAME rans_decode_alias_16
#include "rans_impl.h"
#undef NAME
#undef T

static int decode_plain(brv_rans *r, const brv_alias *a, void *dst, unsigned size, size_t count)
{
	if (a->flat) return size == 1 ? rans_decode_flat_8(r, a, dst, count) : rans_decode_flat_16(r, a, dst, count);
	return size == 1 ? rans_decode_alias_8(r, a, dst, count) : rans_decode_alias_16(r, a, dst, count);
}

int brv_rans_decode(brv_rans *r, const brv_alias *a, void *dst, unsigned size, size_t count)
{
#if BRV_X86
	if (r->lanes >= 16 && (a->planes || a->flat) && brv_cpu() & BRV_AVX512) { /* whole rounds; the plain loop begins and ends */
		size_t before = r->lane ? r->lanes - r->lane : 0, done;
		before = before < count ? before : count;
		if (decode_plain(r, a, dst, size, before)) return -1;
		dst = (uint8_t *)dst + before * size;
		count -= before;
		done = decode_rounds(r, a, dst, size, count);
		dst = (uint8_t *)dst + done * size;
		count -= done;
	}
#endif
	return decode_plain(r, a, dst, size, count);
}

void brv_rans_prepare(brv_rans_symbol *symbols, uint16_t *slots, const uint16_t *frequencies, const brv_alias *a, size_t s)
{
	uint16_t next[BRV_SYMBOLS], first = 0;
	const size_t buckets = (size_t)1 << (a->bits - a->shift), width = (size_t)1 << a->shift;
	for (size_t i = 0; i < s; i++) {
		uint32_t f = frequencies[i];
		/* x < f * 2^(32 - bits) whenever it is divided, so x * reciprocal stays below 2^64 and the quotient is exact: the
		   reciprocal exceeds 2^(32 + bits) / f by e / f with e <= f, and x * e < 2^(32 + bits). */
		symbols[i].reciprocal = ((uint64_t)1 << (32 + a->bits)) / f + 1;
		symbols[i].limit = f << (32 - a->bits);
		symbols[i].frequency = (uint16_t)f;
		symbols[i].first = next[i] = first;
		first = (uint16_t)(first + f);
	}
	for (size_t i = 0; i < buckets; i++) {
		size_t slot = i * width;
		for (; slot < a->limit[i]; slot++) slots[next[(uint16_t)a->shares[2 * i]]++] = (uint16_t)slot;
		for (; slot < (i + 1) * width; slot++) slots[next[(uint16_t)a->shares[2 * i + 1]]++] = (uint16_t)slot;
	}
}

size_t brv_rans_encode(uint8_t *dst, const uint16_t *numbers, size_t count, unsigned lanes, unsigned bits, const brv_rans_symbol *symbols, const uint16_t *slots)
{
	uint32_t state[BRV_LANES];
	uint8_t *const end = dst + 2 * count + 4 * lanes, *at = end;
	const unsigned shift = 32 + bits;
	for (unsigned l = 0; l < lanes; l++) state[l] = 1u << 16;
	for (size_t done = count; done;) {
		size_t round = (done - 1) / lanes * lanes; /* the words of one round, lane 0 upwards */
		for (size_t i = done; i-- > round;) {
			const brv_rans_symbol *s = symbols + numbers[i];
			uint32_t x = state[i - round], q;
			uint32_t over = x >= s->limit;
			brv_store16(at - 2, x); /* kept only where `at` moves; dst has room in front for the states */
			at -= 2 * over;
			x >>= 16 * over;
			q = (uint32_t)(x * s->reciprocal >> shift);
			state[i - round] = (q << bits) + slots[s->first + x - q * s->frequency];
		}
		done = round;
	}
	at -= 4 * lanes;
	for (unsigned l = 0; l < lanes; l++) brv_store32(at + 4 * l, state[l]);
	memmove(dst, at, (size_t)(end - at));
	return (size_t)(end - at);
}
