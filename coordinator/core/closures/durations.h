/*
 * durations - how long the closures of one function usually take: quantiles of those that ended
 * lately.
 *
 * Owner:   whoever holds the struct (plain data). Thread: its owner's.
 *
 * A histogram whose buckets are a sixteenth of an octave wide, so that a quantile is exact to 7 %.
 * Counts are halved whenever CADRE_DURATIONS_WINDOW have been added: what was usual long ago fades.
 */
#ifndef CADRE_COORDINATOR_CORE_CLOSURES_DURATIONS_H
#define CADRE_COORDINATOR_CORE_CLOSURES_DURATIONS_H

#include <stdint.h>

enum {
    CADRE_DURATIONS_WINDOW = 512,      /* durations after which all counts are halved */
    CADRE_DURATIONS_BUCKETS = 16 * 24, /* the last one takes all that is longer than 4 hours */
};

/* A struct of zeros holds no durations. */
typedef struct {
    uint16_t counts[CADRE_DURATIONS_BUCKETS];
    uint32_t total; /* sum of the counts */
} cadre_durations_t;

/* Counts a duration. */
void cadre_durations_add(cadre_durations_t *self, uint64_t duration_ms);

/* Returns the `percent` quantile: the duration in ms that so many of a hundred closures did not
 * exceed, rounded up to the end of its bucket; 0 without durations. */
uint64_t cadre_durations_quantile(const cadre_durations_t *self, uint32_t percent);

#endif
