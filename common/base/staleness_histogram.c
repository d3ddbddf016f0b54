#include "common/base/staleness_histogram.h"

#include <stddef.h>

const uint64_t cadre_staleness_bounds[CADRE_STALENESS_BOUND_COUNT] = {0,  1,  2,   4,   8,   16,
                                                                      32, 64, 128, 256, 1024};

/* Counts one update by its staleness: in the first bucket whose bound is not below it, or in the
 * last one, which has no bound. */
void
cadre_staleness_histogram_add(cadre_staleness_histogram_t *self, uint64_t versions)
{
    size_t bucket = 0;
    while (bucket < CADRE_STALENESS_BOUND_COUNT && versions > cadre_staleness_bounds[bucket]) {
        bucket++;
    }
    self->counts[bucket]++;
    self->sum += versions;
}
