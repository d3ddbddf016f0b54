/*
 * cpu_sum - sums and largest elements of a stretch of memory, for loops that are CADRE_VECTOR.
 *
 * The compiler may not reorder additions, so the order is written out: LANES sums beside each
 * other, which are added in pairs at the end. Many short sums also round less than one long one.
 */
#ifndef CADRE_WORKER_DEVICE_CPU_SUM_H
#define CADRE_WORKER_DEVICE_CPU_SUM_H

#include "worker/device/cpu_vector.h"
#include "worker/device/element.h"

enum { CADRE_SUM_LANES = 32, CADRE_SUM_BLOCK = 1024 };

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

/* At most CADRE_SUM_BLOCK numbers, or more where accuracy is of no concern. */
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
    if (i == 0) { /* too short for lanes */
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

/* Any number of numbers. */
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

/* At least one number; NaN if one of them is. */
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
