/*
 * apply_loops - an update as anybody would write it, on plain arrays: what the ps is compared to.
 *
 * Thread:  any.
 */
#ifndef CADRE_BENCH_APPLY_LOOPS_H
#define CADRE_BENCH_APPLY_LOOPS_H

#include <stddef.h>

void cadre_bench_loop_sgd(size_t count, const float *gradient, float *value, float rate);

void cadre_bench_loop_adam(size_t count, const float *gradient, float *value, float *moments[2],
                           float rate);

#endif
