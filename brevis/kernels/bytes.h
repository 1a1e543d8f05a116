#pragma once
/* Unaligned little-endian loads and stores, the same on every host. Internal to the kernels. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define BRV_BIG_ENDIAN 1
#else
#define BRV_BIG_ENDIAN 0
#endif

static inline uint64_t brv_swap64(uint64_t x)
{
	x = (x & 0x00FF00FF00FF00FFu) << 8 | (x >> 8 & 0x00FF00FF00FF00FFu);
	x = (x & 0x0000FFFF0000FFFFu) << 16 | (x >> 16 & 0x0000FFFF0000FFFFu);
	return x << 32 | x >> 32;
}

static inline uint64_t brv_load64(const uint8_t *p)
{
	uint64_t x;
	memcpy(&x, p, 8);
	return BRV_BIG_ENDIAN ? brv_swap64(x) : x;
}

static inline void brv_store64(uint8_t *p, uint64_t x)
{
	if (BRV_BIG_ENDIAN) x = brv_swap64(x);
	memcpy(p, &x, 8);
}

/* The bytes that are there, as if zeros followed. */
static inline uint64_t brv_load64_partial(const uint8_t *p, size_t len)
{
	uint64_t x = 0;
	for (size_t i = 0; i < (len < 8 ? len : 8); i++) x |= (uint64_t)p[i] << (8 * i);
	return x;
}

static inline uint32_t brv_load16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }

static inline uint32_t brv_load32(const uint8_t *p) { return brv_load16(p) | brv_load16(p + 2) << 16; }

static inline void brv_store16(uint8_t *p, uint32_t x)
{
	p[0] = (uint8_t)x;
	p[1] = (uint8_t)(x >> 8);
}

static inline void brv_store32(uint8_t *p, uint32_t x)
{
	brv_store16(p, x);
	brv_store16(p + 2, x >> 16);
}

/* The mask of the low w bits, 1 <= w <= 64. */
static inline uint64_t brv_mask(unsigned w) { return ~(uint64_t)0 >> (64 - w); }
