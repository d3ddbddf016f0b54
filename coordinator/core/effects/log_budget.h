/*
 * log_budget - how many lines the log may have of each event, whatever peers do to cause them.
 *
 * Owner:   the coordinator's core.
 * Thread:  its owner's.
 *
 * Each event has CADRE_LOG_BURST lines at once, enough for all tasks of a large job to join, and
 * then one each CADRE_LOG_INTERVAL_MS. The others are counted, and told of in one line now and then
 * (the generic cell rate algorithm: ITU-T I.371, annex A).
 */
#ifndef CADRE_COORDINATOR_CORE_EFFECTS_LOG_BUDGET_H
#define CADRE_COORDINATOR_CORE_EFFECTS_LOG_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CADRE_LOG_BURST = 4096,
    CADRE_LOG_INTERVAL_MS = 1000,
    CADRE_LOG_EVENTS_MAX = 128, /* more than the core has; of further ones every line is let pass */
};

typedef struct {
    const char *event;    /* a literal */
    uint64_t spent_ms;    /* when its lines so far would be used up at one per interval */
    uint64_t held;        /* lines that were left out */
    uint64_t tell_due_ms; /* when to tell how many */
} cadre_log_spent_t;

/* Zeroed at its start; nothing to be ended. */
typedef struct {
    cadre_log_spent_t events[CADRE_LOG_EVENTS_MAX];
    size_t count;
} cadre_log_budget_t;

/* Whether a line of `event` may be written now; it is counted, one way or the other. */
bool cadre_log_budget_take(cadre_log_budget_t *self, const char *event, uint64_t now_ms);

/* An event of which lines were left out and it is time to say so, once each CADRE_DROPPED_LOG_MS:
 * how many since the last time. NULL: none. */
const char *cadre_log_budget_tell(cadre_log_budget_t *self, uint64_t now_ms, uint64_t *held);

#endif
