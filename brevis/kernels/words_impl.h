/* Loops over words in containers of BITS bits (8, 16, 32, 64). Included once per container and instruction set with BITS, T and FN
   defined. Words of width w < BITS have zero upper bits, on input and on output. */

/* Fields are spread from (or gathered into) 64 bits by halving: the upper half of the fields moves up to its place, then the same
   within both halves. PER_64 fields at a time; the masks depend on w alone. */
#define PER_64 (64 / BITS)
#define STEPS (BITS == 8 ? 3 : BITS == 16 ? 2 : BITS == 32 ? 1 : 0)

#ifndef FAST_DEPOSIT
static ATTR void FN(spread_masks)(unsigned w, uint64_t low[3], uint64_t high[3], unsigned shift[3])
{
	for (int s = 0; s < STEPS; s++) {
		unsigned fields = PER_64 >> (s + 1); /* in one half at this step */
		unsigned part = 64u >> s, half = part / 2;
		low[s] = high[s] = 0;
		shift[s] = half - fields * w;
		for (unsigned at = 0; at < 64; at += part) {
			low[s] |= brv_mask(fields * w) << at;
			high[s] |= brv_mask(fields * w) << (at + fields * w);
		}
	}
}
#endif

static ATTR void FN(unpack)(T *dst, const uint8_t *src, size_t len, uint64_t bit, unsigned w, size_t count)
{
	size_t i = 0;
	const uint64_t mask = brv_mask(w);
	if (w == BITS && !BRV_BIG_ENDIAN) {
		memcpy(dst, src + bit / 8, count * sizeof(T));
		return;
	}
	if (w < BITS && STEPS) { /* PER_64 words at a time; they need up to 64 bits and so a start within 64 - PER_64 * w bits of a byte */
#ifdef FAST_DEPOSIT
		const uint64_t places = mask * (~(uint64_t)0 / ((uint64_t)(T)~(T)0)); /* the mask in each container */
#else
		uint64_t low[3], high[3];
		unsigned shift[3];
		FN(spread_masks)(w, low, high, shift);
#endif
		for (; i + PER_64 <= count && bit / 8 + 16 <= len; i += PER_64, bit += PER_64 * w) {
			unsigned r = bit % 8;
			uint64_t x = brv_load64(src + bit / 8) >> r;
			if (r + PER_64 * w > 64) x |= (uint64_t)src[bit / 8 + 8] << (64 - r);
#ifdef FAST_DEPOSIT
			x = _pdep_u64(x, places);
#else
			for (int s = 0; s < STEPS; s++) x = (x & low[s]) | (x & high[s]) << shift[s];
#endif
			if (BRV_BIG_ENDIAN)
				for (int j = 0; j < PER_64; j++) dst[i + j] = (T)(x >> (j * (BITS & 63)));
			else
				memcpy(dst + i, &x, 8);
		}
	}
	for (; i < count; i++, bit += w) {
		size_t at = bit / 8;
		unsigned r = bit % 8;
		uint64_t x = (at + 8 <= len ? brv_load64(src + at) : brv_load64_partial(src + at, len - at)) >> r;
		if (r + w > 64) x |= (uint64_t)src[at + 8] << (64 - r);
		dst[i] = (T)(x & mask);
	}
}

/* dst has 8 writable bytes more than the result needs. */
static ATTR void FN(pack)(uint8_t *dst, const T *src, unsigned w, size_t count)
{
	size_t i = 0;
	uint64_t hold = 0;
	unsigned held = 0;
	const uint64_t mask = brv_mask(w);
	(void)mask;
	if (w == BITS && !BRV_BIG_ENDIAN) {
		memcpy(dst, src, count * sizeof(T));
		return;
	}
	if (w < BITS && STEPS && PER_64 * w <= 56) {
#ifdef FAST_DEPOSIT
		const uint64_t places = mask * (~(uint64_t)0 / ((uint64_t)(T)~(T)0)); /* the mask in each container */
#else
		uint64_t low[3], high[3];
		unsigned shift[3];
		FN(spread_masks)(w, low, high, shift);
#endif
		for (; i + PER_64 <= count; i += PER_64) {
			uint64_t x = 0;
			if (BRV_BIG_ENDIAN)
				for (int j = 0; j < PER_64; j++) x |= (uint64_t)src[i + j] << (j * (BITS & 63));
			else
				memcpy(&x, src + i, 8);
#ifdef FAST_DEPOSIT
			x = _pext_u64(x, places);
#else
			for (int s = STEPS - 1; s >= 0; s--) x = (x & low[s]) | (x >> shift[s] & high[s]);
#endif
			hold |= x << held;
			held += PER_64 * w; /* held < 8 before, so <= 63 now */
			brv_store64(dst, hold);
			dst += held / 8;
			hold >>= held & ~7u;
			held &= 7;
		}
	}
	for (; i < count; i++) {
		uint64_t x = src[i];
		hold |= x << held;
		held += w;
		if (held >= 64) {
			brv_store64(dst, hold);
			dst += 8;
			held -= 64;
			hold = held ? x >> (w - held) : 0;
		}
	}
	for (; held; held -= held < 8 ? held : 8, hold >>= 8) *dst++ = (uint8_t)hold;
}

static ATTR void FN(fill)(T *dst, uint64_t word, size_t count)
{
	for (size_t i = 0; i < count; i++) dst[i] = (T)word;
}

static ATTR void FN(add)(T *words, uint64_t c, unsigned w, size_t count)
{
	const T mask = (T)brv_mask(w), k = (T)c;
	for (size_t i = 0; i < count; i++) words[i] = (T)((T)(words[i] + k) & mask);
}

static ATTR void FN(xor)(T *words, uint64_t c, size_t count)
{
	const T k = (T)c;
	for (size_t i = 0; i < count; i++) words[i] = (T)(words[i] ^ k);
}

static ATTR void FN(rotate)(T *words, unsigned r, unsigned w, size_t count)
{
	const T mask = (T)brv_mask(w);
	const unsigned back = w - r;
	for (size_t i = 0; i < count; i++) words[i] = (T)((T)((T)(words[i] << r) | (T)(words[i] >> back)) & mask);
}

static ATTR void FN(zigzag_decode)(T *words, unsigned w, size_t count)
{
	const T mask = (T)brv_mask(w);
	for (size_t i = 0; i < count; i++) words[i] = (T)((T)((words[i] >> 1) ^ (T)(0 - (T)(words[i] & 1))) & mask);
}

static ATTR void FN(zigzag_encode)(T *words, unsigned w, size_t count)
{
	const T mask = (T)brv_mask(w);
	for (size_t i = 0; i < count; i++) {
		T sign = (T)(0 - (T)(words[i] >> (w - 1)));
		words[i] = (T)((T)((T)(words[i] << 1) ^ sign) & mask);
	}
}

static ATTR void FN(gray_decode)(T *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		T x = words[i];
		for (unsigned s = 1; s < BITS; s *= 2) x = (T)(x ^ (x >> s));
		words[i] = x;
	}
}

static ATTR void FN(gray_encode)(T *words, size_t count)
{
	for (size_t i = 0; i < count; i++) words[i] = (T)(words[i] ^ (words[i] >> 1));
}

static ATTR void FN(ordered_decode)(T *words, unsigned w, size_t count)
{
	const T mask = (T)brv_mask(w), top = (T)((T)1 << (w - 1));
	for (size_t i = 0; i < count; i++) words[i] = words[i] & top ? (T)(words[i] ^ top) : (T)(words[i] ^ mask);
}

static ATTR void FN(ordered_encode)(T *words, unsigned w, size_t count)
{
	const T mask = (T)brv_mask(w), top = (T)((T)1 << (w - 1));
	for (size_t i = 0; i < count; i++) words[i] = words[i] & top ? (T)(words[i] ^ mask) : (T)(words[i] ^ top);
}

static ATTR uint64_t FN(sum_scan)(T *words, uint64_t before, unsigned w, size_t count)
{
	const T mask = (T)brv_mask(w);
	T last = (T)before;
	for (size_t i = 0; i < count; i++) words[i] = last = (T)((T)(last + words[i]) & mask);
	return last;
}

static ATTR uint64_t FN(xor_scan)(T *words, uint64_t before, size_t count)
{
	T last = (T)before;
	for (size_t i = 0; i < count; i++) words[i] = last = (T)(last ^ words[i]);
	return last;
}

/* count differences of count + 1 words */
static ATTR void FN(differences)(T *dst, const T *src, int is_xor, unsigned w, size_t count)
{
	const T mask = (T)brv_mask(w);
	for (size_t i = 0; i < count; i++) dst[i] = is_xor ? (T)(src[i + 1] ^ src[i]) : (T)((T)(src[i + 1] - src[i]) & mask);
}

static ATTR void FN(stretch)(T *dst, const T *src, size_t r, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < r; j++) *dst++ = src[i];
}

/* Words of one class mostly come in runs (a row) or change all the time (columns): eight equal selectors are copied at once, and
   for up to four classes the four cursors live in one register, since the way through memory costs five cycles a word. */
static ATTR void FN(weave)(T *dst, const uint8_t *select, const T *const *from, unsigned k, size_t count)
{
	size_t next[256] = {0};
	size_t i = 0;
	while (i < count) {
		if (i + 8 <= count) {
			uint64_t s = brv_load64(select + i);
			if (s == (s & 0xFF) * 0x0101010101010101u) {
				memcpy(dst + i, from[s & 0xFF] + next[s & 0xFF], 8 * sizeof(T));
				next[s & 0xFF] += 8;
				i += 8;
				continue;
			}
		}
		size_t stop = i + 64 < count ? i + 64 : count;
		if (k <= 4) {
			uint64_t at = 0; /* four cursors of 16 bits, up to 64 each, relative to next */
			const T *base[4];
			for (unsigned j = 0; j < 4; j++) base[j] = from[j < k ? j : 0] + next[j < k ? j : 0];
			for (; i < stop; i++) {
				unsigned s = select[i];
				dst[i] = base[s][at >> (16 * s) & 0xFFFF];
				at += (uint64_t)1 << (16 * s);
			}
			for (unsigned j = 0; j < k; j++) next[j] += at >> (16 * j) & 0xFFFF;
		} else
			for (; i < stop; i++) dst[i] = from[select[i]][next[select[i]]++];
	}
}

/* The inverse of weave: into[j] has room for the words of class j. */
static ATTR void FN(unweave)(T *const *into, const uint8_t *select, const T *src, unsigned k, size_t count)
{
	size_t next[256] = {0};
	size_t i = 0;
	while (i < count) {
		if (i + 8 <= count) {
			uint64_t s = brv_load64(select + i);
			if (s == (s & 0xFF) * 0x0101010101010101u) {
				memcpy(into[s & 0xFF] + next[s & 0xFF], src + i, 8 * sizeof(T));
				next[s & 0xFF] += 8;
				i += 8;
				continue;
			}
		}
		size_t stop = i + 64 < count ? i + 64 : count;
		if (k <= 4) {
			uint64_t at = 0;
			T *base[4];
			for (unsigned j = 0; j < 4; j++) base[j] = into[j < k ? j : 0] + next[j < k ? j : 0];
			for (; i < stop; i++) {
				unsigned s = select[i];
				base[s][at >> (16 * s) & 0xFFFF] = src[i];
				at += (uint64_t)1 << (16 * s);
			}
			for (unsigned j = 0; j < k; j++) next[j] += at >> (16 * j) & 0xFFFF;
		} else
			for (; i < stop; i++) into[select[i]][next[select[i]]++] = src[i];
	}
}

#undef PER_64
#undef STEPS
