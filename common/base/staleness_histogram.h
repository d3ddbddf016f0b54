/*
 * staleness_histogram - how many updates were how stale, in versions.
 *
 * Owner:   whoever holds the struct (plain data). Thread: its owner's.
 */
#ifndef CADRE_COMMON_BASE_STALENESS_HISTOGRAM_H
#define CADRE_COMMON_BASE_STALENESS_HISTOGRAM_H

#include <stdint.h>

enum { CADRE_STALENESS_BOUND_COUNT = 11 };

/* The largest staleness of each bucket but the last, which has no bound. */
extern const uint64_t cadre_staleness_bounds[CADRE_STALENESS_BOUND_COUNT];

/* Zeroed memory is one without updates. */
typedef struct {
    uint64_t counts[CADRE_STALENESS_BOUND_COUNT + 1];
    uint64_t sum; /* of the staleness of all, in versions */
} cadre_staleness_histogram_t;

/* Counts an update whose values were so many versions old when it was applied. */
void cadre_staleness_histogram_add(cadre_staleness_histogram_t *self, uint64_t versions);

#endif
