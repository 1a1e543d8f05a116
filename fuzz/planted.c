/* Faults on purpose, one a function. `make asan` builds them with the flags of the core and demands that both are caught. */
#include <stdlib.h>

#define VISIBLE __attribute__((visibility("default")))

VISIBLE int overflow_buffer(int size)
{
	volatile unsigned char *bytes = malloc((size_t)size);
	bytes[size] = 1;
	free((void *)bytes);
	return 0;
}

VISIBLE int overflow_integer(int x) { return x + 1; }
