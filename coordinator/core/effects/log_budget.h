/*
 * log_budget - limits the log lines of each event, whatever peers do to cause them.
 *
 * Owner:   the coordinator's core.
 * Thread:  its owner's.
 *
 * An event may have CADRE_LOG_BURST lines at once, enough for all tasks of a large job to join, and
 * then one each CADRE_LOG_INTERVAL_MS. Further lines are only counted, and the count is logged now
 * and then (the generic cell rate algorithm: ITU-T I.371, annex A).
 */
#ifndef CADRE_COORDINATOR_CORE_EFFECTS_LOG_BUDGET_H
#define CADRE_COORDINATOR_CORE_EFFECTS_LOG_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CADRE_LOG_BURST = 4096,
    CADRE_LOG_INTERVAL_MS = 1000,
    CADRE_LOG_EVENTS_MAX = 128, /* more events than the core has; one more would have no limit */
};

typedef struct {
    const char *event;    /* name of the event, a literal */
    uint64_t spent_ms;    /* up to when the lines so far would last at one line per interval */
    uint64_t held;        /* lines left out since the last count was logged */
    uint64_t tell_due_ms; /* when to log that count */
} cadre_log_spent_t;

/* Zeroed memory is a fresh budget; nothing has to be freed. */
typedef struct {
    cadre_log_spent_t events[CADRE_LOG_EVENTS_MAX];
    size_t count;
} cadre_log_budget_t;

/* Returns whether a line of `event` may be written now, and counts it as written or as left out. */
bool cadre_log_budget_take(cadre_log_budget_t *self, const char *event, uint64_t now_ms);

/* Returns an event of which lines were left out, if it is time to log that (once each
 * CADRE_DROPPED_LOG_MS), and in `held` how many since the last time. NULL when there is none. */
const char *cadre_log_budget_tell(cadre_log_budget_t *self, uint64_t now_ms, uint64_t *held);

#endif
