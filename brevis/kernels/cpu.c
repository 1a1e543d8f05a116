#include "cpu.h"

#include <stdlib.h>
#include <string.h>

static unsigned present(void)
{
	unsigned sets = BRV_PORTABLE;
#if BRV_X86
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt")) {
		sets |= BRV_AVX2;
		if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
		    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2"))
			sets |= BRV_AVX512;
	}
#endif
	return sets;
}

static int named(const char *list, const char *name)
{
	size_t length = strlen(name);
	for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (!strncmp(at, name, length) && (at[length] == ',' || !at[length])) return 1;
	return 0;
}

unsigned brv_cpu(void)
{
	static unsigned known; /* set by whoever comes first; all would set the same */
	if (!known) {
		const char *list = getenv("BREVIS_CPU");
		unsigned sets = present();
		if (list && !named(list, "avx512")) sets &= ~(unsigned)BRV_AVX512;
		if (list && !named(list, "avx2")) sets &= ~(unsigned)BRV_AVX2;
		known = sets;
	}
	return known;
}
