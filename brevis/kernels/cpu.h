#pragma once
/* Which instruction sets a kernel may use. A family X.c includes its loops X_impl.h once plain and once per instruction set (BRV_TARGET
   gives the functions their attribute, so no file needs flags of its own) and asks brv_cpu() which of them to run. */
enum { BRV_PORTABLE = 1, BRV_AVX2 = 2, BRV_AVX512 = 4 };

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define BRV_X86 1
/* BRV_AVX2: Haswell, Zen. BRV_AVX512: with the byte permutes and expansions of Ice Lake and Zen 4. */
#define BRV_TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define BRV_TARGET_AVX512 \
	__attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,prefer-vector-width=512")))
#else
#define BRV_X86 0
#endif

/* The usable sets: what the processor has, reduced to those named in the environment variable BREVIS_CPU (such as "portable,avx2")
   where that is set. It is read once. Plain C can always be used. */
unsigned brv_cpu(void);
