/*
 * drain - that a worker ends by itself: why, how long what runs may take, and what each turn needs.
 *
 * A drain that the coordinator has asked for is the core's, and has no deadline here; what it
 * shares with one of the worker's own is that closures which no slot has begun are handed back.
 *
 * Owner:   the network actor. Thread: its own, or that of a slot which uses the core.
 */
#ifndef CADRE_WORKER_DRAIN_H
#define CADRE_WORKER_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed memory does not drain. */
typedef struct {
    const char *reason; /* why this worker drains by itself, a literal; NULL: it does not */
    uint64_t due_ms;    /* when closures that still run are given up */
    bool cleared;       /* closures that no slot had begun were handed back */
} cadre_drain_t;

/* How a drain stands. */
typedef enum {
    CADRE_DRAIN_GOES_ON,
    CADRE_DRAIN_ALONE,     /* nothing runs, and nobody is there to take reports */
    CADRE_DRAIN_TIMED_OUT, /* closures have run beyond the time for draining */
} cadre_drain_state_t;

/* Begins to drain; returns false where the worker does already, by the first reason. */
bool cadre_drain_begin(cadre_drain_t *self, const char *reason, uint64_t due_ms);

/* Returns, once, whether what no slot has begun is to be handed back: when the worker drains, by
 * itself or because the coordinator has `asked`. */
bool cadre_drain_clears(cadre_drain_t *self, bool asked);

/* Returns whether a worker that drains by itself goes on with that: `heard` says whether the
 * coordinator is connected, `works` how many have not ended. */
cadre_drain_state_t cadre_drain_state(const cadre_drain_t *self, bool heard, size_t works,
                                      uint64_t now_ms);

#endif
