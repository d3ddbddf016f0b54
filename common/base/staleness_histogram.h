/*
 * staleness_histogram - counts updates by their staleness, in versions (docs/glossary.md).
 *
 * Owner:   whoever holds the struct (plain data). Thread: its owner's.
 */
#ifndef CADRE_COMMON_BASE_STALENESS_HISTOGRAM_H
#define CADRE_COMMON_BASE_STALENESS_HISTOGRAM_H

#include <stdint.h>

enum { CADRE_STALENESS_BOUND_COUNT = 11 };

/* The largest staleness that each bucket counts. A last bucket counts all above these bounds. */
extern const uint64_t cadre_staleness_bounds[CADRE_STALENESS_BOUND_COUNT];

/* A struct of zeros is an empty histogram. */
typedef struct {
    uint64_t counts[CADRE_STALENESS_BOUND_COUNT + 1];
    uint64_t sum; /* of the staleness of all counted updates, in versions */
} cadre_staleness_histogram_t;

/* Counts one update, whose values were `versions` old when it was applied. */
void cadre_staleness_histogram_add(cadre_staleness_histogram_t *self, uint64_t versions);

#endif
