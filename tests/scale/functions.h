/*
 * functions - what the native functions of the experiments and the experiments have to agree on.
 *
 * Owner:   none.
 * Thread:  any.
 */
#ifndef CADRE_TESTS_SCALE_FUNCTIONS_H
#define CADRE_TESTS_SCALE_FUNCTIONS_H

#include <stdint.h>

/* What "grow" adds to element `i` beside what that is: neighbours differ, and after n closures, one
 * after the other, element i is (2^n - 1) times as much. */
static inline int64_t
scale_weight(int64_t i)
{
    return i % 1009 + 1;
}

#endif
