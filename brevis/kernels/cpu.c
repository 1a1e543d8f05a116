#include "cpu.h"

unsigned brv_cpu(void)
{
	return BRV_PORTABLE; /* portable C is all there is so far */
}
