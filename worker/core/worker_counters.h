/*
 * worker_counters - what a worker counts and tells the coordinator (CADRE_WORKER_COUNTERS).
 *
 * Owner:   the worker core. Thread: its.
 */
#ifndef CADRE_WORKER_CORE_WORKER_COUNTERS_H
#define CADRE_WORKER_CORE_WORKER_COUNTERS_H

#include <stdint.h>

#include "common/wire/message.h"

/* Zeroed memory: nothing was counted. Each count only grows. */
typedef struct {
    uint64_t items[CADRE_WORKER_COUNTER_COUNT];
} cadre_worker_counters_t;

/* Add one, or `amount`, to a counter, named by its CADRE_WORKER_COUNTER_... number. */
void cadre_worker_counters_note(cadre_worker_counters_t *self, int counter);
void cadre_worker_counters_add(cadre_worker_counters_t *self, int counter, uint64_t amount);

#endif
