/* The decoding loop NAME, for symbol containers T; with FLAT, by the table of all slots. */

/* One symbol on lane l. Without branches: whether a lane takes a word is as good as random. */
#ifdef FLAT
#define LOOK_UP \
	uint64_t share = flat[slot]; \
	uint32_t rank = (uint32_t)(share >> 32)
#else
#define LOOK_UP \
	uint32_t bucket = slot >> shift; \
	uint64_t share = shares[2 * bucket + (slot >= limit[bucket])]; \
	uint32_t rank = (slot + (uint32_t)(share >> 32)) & 0xFFFF
#endif
#define STEP(l, out) \
	do { \
		uint32_t x = state[l], slot = x & mask; \
		LOOK_UP; \
		(out) = (T)share; \
		x = (uint32_t)(share >> 16 & 0xFFFF) * (x >> bits) + rank; \
		uint32_t low = x < 1u << 16; \
		uint32_t more = x << 16 | brv_load16(at); \
		state[l] = x ^ ((x ^ more) & (0 - low)); \
		at += 2 * low; \
	} while (0)

static int NAME(brv_rans *r, const brv_alias *a, T *dst, size_t count)
{
	const uint32_t bits = a->bits, mask = (1u << bits) - 1;
#ifdef FLAT
	const uint64_t *flat = a->flat;
#else
	const uint32_t shift = a->shift;
	const uint64_t *shares = a->shares;
	const uint16_t *limit = a->limit;
#endif
	const unsigned lanes = r->lanes;
	uint32_t *state = r->state;
	const uint8_t *at = r->at, *const end = r->end;
	size_t i = 0;
	while (i < count) {
		size_t round = lanes - r->lane < count - i ? lanes - r->lane : count - i;
		if ((size_t)(end - at) >= 2 * round + 2) { /* a word is loaded at every step, used or not */
			for (size_t l = r->lane; l < r->lane + round; l++) STEP(l, *dst++);
		} else {
			static const uint8_t none[2];
			for (size_t l = r->lane; l < r->lane + round; l++) {
				const uint8_t *was = at, *word = end - at >= 2 ? at : none;
				at = word;
				STEP(l, *dst++);
				if (at != word && word == none) return -1;
				at = at != word ? was + 2 : was;
			}
		}
		i += round;
		r->lane = (unsigned)((r->lane + round) & (lanes - 1));
	}
	r->at = at;
	return 0;
}

#undef STEP
#undef LOOK_UP
