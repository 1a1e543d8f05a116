#pragma once
/* The contracts of all kernels. A kernel takes pointers and lengths, allocates nothing, knows no Python and never raises; what it may assume is
   said here and proven by the callers' checks. Words of width w (1 to 64) lie in containers of brv_size(w) bytes, upper bits zero. */
#include <stddef.h>
#include <stdint.h>

/* Bytes of the container of a word: FORMAT.md's size(w). */
static inline unsigned brv_size(unsigned w) { return w <= 8 ? 1 : w <= 16 ? 2 : w <= 32 ? 4 : 8; }

/* Position of the highest set bit, x > 0. */
static inline unsigned brv_log2(uint64_t x)
{
#if defined(__GNUC__) || defined(__clang__)
	return 63u - (unsigned)__builtin_clzll(x);
#else
	unsigned r = 0;
	for (unsigned s = 32; s; s >>= 1)
		if (x >> s) {
			x >>= s;
			r += s;
		}
	return r;
#endif
}

/* ---- words.c: bits, fields, and the arithmetic of the operators ---- */

/* Function numbers of map; xor and add are also those of scan. */
enum { BRV_XOR, BRV_ADD, BRV_ZIGZAG, BRV_GRAY, BRV_ROTATE, BRV_ORDERED };

/* count words from the bit string src of len bytes, starting at bit `bit`; all of them lie inside. */
void brv_unpack(void *dst, const uint8_t *src, size_t len, uint64_t bit, unsigned w, size_t count);
/* The bit string of count words, ceil(w * count / 8) bytes; dst has 8 more that are overwritten. */
void brv_pack(uint8_t *dst, const void *src, unsigned w, size_t count);
void brv_fill(void *dst, uint64_t word, unsigned w, size_t count);
static inline uint64_t brv_word(const void *words, unsigned w, size_t i)
{
	switch (brv_size(w)) {
	case 1: return ((const uint8_t *)words)[i];
	case 2: return ((const uint16_t *)words)[i];
	case 4: return ((const uint32_t *)words)[i];
	default: return ((const uint64_t *)words)[i];
	}
}
/* 1 where all words are equal. */
int brv_same(const void *words, unsigned w, size_t count);
/* map's function f with its operand, in place, and the inverse. */
void brv_map(void *words, unsigned f, uint64_t operand, unsigned w, size_t count);
void brv_unmap(void *words, unsigned f, uint64_t operand, unsigned w, size_t count);
/* Running sum (or xor) in place, going on from `before`; returns the last word, `count >= 1`. */
uint64_t brv_scan(void *words, unsigned op, uint64_t before, unsigned w, size_t count);
/* The count differences of count + 1 words. */
void brv_unscan(void *dst, const void *src, unsigned op, unsigned w, size_t count);
/* Fields of width `field` into (first: assigned, else or-ed) and out of words of width w, `shift` bits above the lowest. */
void brv_put_field(void *dst, unsigned w, const void *src, unsigned field, unsigned shift, int first, size_t count);
void brv_take_field(void *dst, unsigned field, const void *src, unsigned w, unsigned shift, size_t count);
/* Each of count words r times. */
void brv_stretch(void *dst, const void *src, size_t r, unsigned w, size_t count);
/* How many of count selectors name each of k classes (k <= 256); -1 where one names none of them. count < 2^32. */
int brv_count_classes(uint64_t *counts, const uint8_t *select, unsigned k, size_t count);
/* Word i is the next word of from[select[i]], and the inverse; each class has as many words as selectors name it. */
void brv_weave(void *dst, const uint8_t *select, const void *const *from, unsigned k, unsigned w, size_t count);
void brv_unweave(void *const *into, const uint8_t *select, const void *src, unsigned k, unsigned w, size_t count);
/* Word i is table[index[i]]; -1, and nothing written, where an index is m or more. */
int brv_lookup(void *dst, const uint32_t *index, const void *table, size_t m, unsigned w, size_t count);

/* Word i is symbols[numbers[i]]; all numbers lie inside. */
void brv_name(void *dst, const uint16_t *numbers, const uint64_t *symbols, unsigned w, size_t count);

/* ---- rans.c: FORMAT.md §5.3 ---- */

#define BRV_LANES 64    /* at most */
#define BRV_SYMBOLS 4096 /* at most, huffman too */

/* The slots of s symbols. A share is what some slots have in common: symbol | its frequency << 16 | what added to the slot (mod 2^16)
   gives its rank << 32. Bucket i has shares[2 * i] below slot limit[i] and shares[2 * i + 1] from there on. */
typedef struct {
	unsigned bits;  /* of a probability: k */
	unsigned shift; /* slot >> shift is the bucket */
	uint64_t *shares;
	uint16_t *limit;
	uint64_t *flat;  /* or NULL: symbol | frequency << 16 | rank << 32 of every slot */
	uint8_t *planes; /* or NULL: the shares as byte tables for one instruction set (see rans_avx512.h) */
} brv_alias;

/* What is worth building besides the shares to decode `count` symbols on so many lanes: a flat table for long streams, planes where there are
   instructions for them. The memory, at most 8 bytes a word of the stream and 32 KiB, is part of brv_alias_bytes. */
enum { BRV_SHARES, BRV_FLAT, BRV_PLANES };
int brv_alias_kind(size_t s, unsigned bits, unsigned lanes, uint64_t count);

/* Bytes for the tables of s symbols, and the construction in that `room`, aligned to 8: frequencies sum to 2^bits, each is 1 or more;
   symbol number i is called names[i] in the shares (names NULL: i). */
size_t brv_alias_bytes(size_t s, unsigned bits, int kind);
void brv_alias_build(brv_alias *a, void *room, const uint16_t *frequencies, const uint16_t *names, size_t s, unsigned bits, int kind);

typedef struct {
	uint32_t state[BRV_LANES];
	const uint8_t *at, *end; /* renormalisation words */
	unsigned lanes, lane;    /* the lane of the next word */
} brv_rans;

/* Opens a block of len >= 4 * lanes bytes, len even; -1: corrupt. */
int brv_rans_open(brv_rans *r, const uint8_t *block, size_t len, unsigned lanes);
/* The next count symbols into containers of `size` bytes (1 or 2); -1: corrupt. */
int brv_rans_decode(brv_rans *r, const brv_alias *a, void *dst, unsigned size, size_t count);
/* -1 where the block does not end as it must. */
int brv_rans_close(const brv_rans *r);

/* What encoding a symbol needs; see brv_rans_encode. */
typedef struct { uint64_t reciprocal; uint32_t limit; uint16_t frequency, first; } brv_rans_symbol;

/* Tables of the encoder: symbols[i] for symbol number i, slots[first + rank] for the slots, 2^bits of them. */
void brv_rans_prepare(brv_rans_symbol *symbols, uint16_t *slots, const uint16_t *frequencies, const brv_alias *a, size_t s);
/* A block of count symbol numbers into the end of the 2 * count + 4 * lanes bytes at dst; returns its length. */
size_t brv_rans_encode(uint8_t *dst, const uint16_t *numbers, size_t count, unsigned lanes, unsigned bits, const brv_rans_symbol *symbols, const uint16_t *slots);

/* ---- huffman.c: FORMAT.md §5.2 ---- */

#define BRV_HUFFMAN_BITS 12 /* longest code */
#define BRV_HUFFMAN_TABLE (1 << BRV_HUFFMAN_BITS)

/* The decoding table for s code lengths (1 to 12): entry number << 4 | length for each string of 12 bits; -1 where the lengths are no
   complete code. codes (may be NULL): the code of each symbol, first bit lowest. */
int brv_huffman_build(uint16_t table[1 << BRV_HUFFMAN_BITS], uint16_t *codes, const uint16_t *lengths, size_t s);
/* count symbol numbers from bit *bit of len bytes; *bit goes on; -1: they do not lie inside. */
int brv_huffman_decode(uint16_t *dst, const uint16_t *table, const uint8_t *src, size_t len, uint64_t *bit, size_t count);
/* The bit string of count symbol numbers; returns its length; dst has room for it and 8 bytes. */
size_t brv_huffman_encode(uint8_t *dst, const uint16_t *numbers, size_t count, const uint16_t *codes, const uint16_t *lengths);

/* ---- stats.c: what the encoder wants to know ---- */

/* log2(x) in units of 2^-16, x >= 1: increasing, within 4 units, and in integers, so the same on every machine. */
uint32_t brv_log2_fixed(uint64_t x);
/* counts[word >> shift & (2^bits - 1)]++ for all words, bits <= 16. */
void brv_histogram(uint32_t *counts, const void *words, unsigned w, unsigned shift, unsigned bits, size_t count);
/* numbers[word] for words of up to 16 bits. */
void brv_number(uint16_t *dst, const void *words, unsigned w, const uint16_t *numbers, size_t count);

/* The same for wide words of few values, by a hash table of 2^BRV_TABLE_BITS entries, all zero at first. count < 2^32. */
#define BRV_TABLE_BITS 14
typedef struct { uint64_t word; uint32_t count; uint16_t number; } brv_entry;
/* How many distinct words there are, each counted in the table; -1: more than BRV_SYMBOLS, or too many collisions. */
int brv_distinct(brv_entry *table, const void *words, unsigned w, size_t count);
void brv_set_number(brv_entry *table, uint64_t word, uint16_t number);
void brv_number_wide(uint16_t *dst, const void *words, unsigned w, brv_entry *table, size_t count);

/* All words or-ed. */
uint64_t brv_or(const void *words, unsigned w, size_t count);

/* Evidence for classes: words are seen as [outer][mid][inner]; counts[m * BRV_BINS + bin]++ for every inner_step-th word of line m of every
   outer_step-th block, with bin = bins[the word's top 16 bits] (of narrower words: the word). Each m is counted less than 2^15 times. */
#define BRV_BINS 32
void brv_bin(uint16_t *counts, const void *words, unsigned w, const uint8_t *bins, size_t outer, size_t mid, size_t inner,
	     size_t outer_step, size_t inner_step);
/* class_of[m] is the class (of k) under whose costs, BRV_BINS each, the counts of line m cost least; the lowest on a tie. */
void brv_assign(uint8_t *class_of, const uint16_t *counts, const int16_t *costs, unsigned k, size_t mid);
