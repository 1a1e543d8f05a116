#pragma once
/* Which instruction sets a kernel may use. The seam for vector kernels: a family X.c includes its loops X_impl.h once plain and once per
   instruction set (BRV_TARGET gives the function attribute) and asks brv_cpu() which of them to run. */
enum { BRV_PORTABLE = 1 };

/* The usable sets: what the processor has, reduced to the names listed in the environment variable BREVIS_CPU
   (comma separated, "portable" is always usable) where that is set. Read once. */
unsigned brv_cpu(void);

#if defined(__GNUC__) || defined(__clang__)
#define BRV_TARGET(x) __attribute__((target(x)))
#else
#define BRV_TARGET(x)
#endif
