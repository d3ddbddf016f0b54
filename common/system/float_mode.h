/*
 * float_mode - how this thread's floating-point unit treats numbers too small to be normal.
 *
 * Thread:  sets the calling thread and those it starts later; call it first in main.
 *
 * Adam's first moment of a weight that no longer gets a gradient shrinks by a tenth with every
 * update until it is subnormal, where rounding keeps it for good, and arithmetic on subnormal
 * numbers costs a hundred times more (measured: the digits network slows to two thirds after a
 * thousand updates, because some of its pixels are always 0). Numbers below 1.2e-38 are nothing to
 * training, so ps and workers take them as 0, as TensorFlow does. A library leaves its program's
 * mode alone.
 */
#ifndef CADRE_COMMON_SYSTEM_FLOAT_MODE_H
#define CADRE_COMMON_SYSTEM_FLOAT_MODE_H

#include <stdint.h>

/* Makes subnormal operands and results count as 0. Does nothing on a CPU other than x86-64 and
 * ARM64. */
void cadre_flush_subnormals(void);

/* Returns the calling thread's mode, and sets one that was returned: for a library that computes on
 * a thread of its program. */
uint64_t cadre_float_mode(void);
void cadre_float_mode_set(uint64_t mode);

#endif
