/* Bit fields between containers: T holds whole words, S one field of each. Included once per pair S <= T and
   instruction set, with T, S and NAME(x) defined. */
static ATTR void NAME(put)(T *dst, const S *src, unsigned shift, int first, size_t count)
{
	if (first)
		for (size_t i = 0; i < count; i++) dst[i] = (T)((T)src[i] << shift);
	else
		for (size_t i = 0; i < count; i++) dst[i] = (T)(dst[i] | (T)((T)src[i] << shift));
}

static ATTR void NAME(take)(S *dst, const T *src, unsigned shift, unsigned w, size_t count)
{
	const S mask = (S)brv_mask(w);
	for (size_t i = 0; i < count; i++) dst[i] = (S)((S)(src[i] >> shift) & mask);
}

