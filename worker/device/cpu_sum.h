/*
 * cpu_sum - sums and largest elements of a stretch of memory, for loops that are CADRE_VECTOR.
 *
 * The compiler may not reorder additions, so the order is written out: element i is added to sum
 * i modulo CADRE_SUM_LANES, and these sums are added in pairs at the end. Many short sums also
 * round less than one long sum.
 */
#ifndef CADRE_WORKER_DEVICE_CPU_SUM_H
#define CADRE_WORKER_DEVICE_CPU_SUM_H

#include "worker/device/cpu_vector.h"
#include "worker/device/element.h"

enum { CADRE_SUM_LANES = 32, CADRE_SUM_BLOCK = 1024 };

/* Returns the sum of the lanes, added in pairs; overwrites them. */
CADRE_INLINED cadre_real_t
cadre_sum_fold(cadre_real_t *lanes)
{
    for (int width = CADRE_SUM_LANES / 2; width > 0; width /= 2) {
        for (int k = 0; k < width; k++) {
            lanes[k] += lanes[k + width];
        }
    }
    return lanes[0];
}

/* Returns the sum of `size` numbers: at most CADRE_SUM_BLOCK, or more where accuracy does not
 * matter. */
CADRE_INLINED cadre_real_t
cadre_sum_block(const cadre_real_t *x, int64_t size)
{
    cadre_real_t lanes[CADRE_SUM_LANES] = {0};
    int64_t i = 0;
    for (; i + CADRE_SUM_LANES <= size; i += CADRE_SUM_LANES) {
        for (int k = 0; k < CADRE_SUM_LANES; k++) {
            lanes[k] += x[i + k];
        }
    }
    if (i == 0) { /* fewer numbers than lanes */
        cadre_real_t sum = 0;
        for (; i < size; i++) {
            sum += x[i];
        }
        return sum;
    }
    for (int k = 0; i < size; i++, k++) {
        lanes[k] += x[i];
    }
    return cadre_sum_fold(lanes);
}

/* Returns the sum of any number of numbers: blocks are summed in f32, their sums in double. */
CADRE_INLINED double
cadre_sum_row(const cadre_real_t *x, int64_t size)
{
    double total = 0;
    for (int64_t i = 0; i < size; i += CADRE_SUM_BLOCK) {
        int64_t left = size - i;
        total += cadre_sum_block(x + i, left < CADRE_SUM_BLOCK ? left : CADRE_SUM_BLOCK);
    }
    return total;
}

/* Returns the largest of `size` numbers, at least one; NaN if one of them is NaN. */
CADRE_INLINED cadre_real_t
cadre_largest(const cadre_real_t *x, int64_t size)
{
    cadre_real_t max = x[0];
    int64_t i = 0;
    if (size >= CADRE_SUM_LANES) {
        cadre_real_t lanes[CADRE_SUM_LANES];
        for (int k = 0; k < CADRE_SUM_LANES; k++) {
            lanes[k] = x[k];
        }
        for (i = CADRE_SUM_LANES; i + CADRE_SUM_LANES <= size; i += CADRE_SUM_LANES) {
            for (int k = 0; k < CADRE_SUM_LANES; k++) {
                lanes[k] = cadre_element_max(lanes[k], x[i + k]);
            }
        }
        for (int width = CADRE_SUM_LANES / 2; width > 0; width /= 2) {
            for (int k = 0; k < width; k++) {
                lanes[k] = cadre_element_max(lanes[k], lanes[k + width]);
            }
        }
        max = lanes[0];
    }
    for (; i < size; i++) {
        max = cadre_element_max(max, x[i]);
    }
    return max;
}

#endif
