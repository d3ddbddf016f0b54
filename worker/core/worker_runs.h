/*
 * worker_runs - the closures that a worker has, from their arrival until their reports are
 * acknowledged: what they wait for, the queue for slots, later attempts, cancelling.
 *
 * Owner:   the worker core. Thread: its.
 *
 * A core: no socket, thread, clock or file. Builds of resources are runs too (worker_builds.h).
 */
#ifndef CADRE_WORKER_CORE_WORKER_RUNS_H
#define CADRE_WORKER_CORE_WORKER_RUNS_H

#include "worker/core/worker_reports.h"
#include "worker/core/worker_values.h"

typedef struct {
    uint32_t slots;
    uint32_t ahead;         /* how many more runs than slots may be STARTed */
    size_t kept_values_max; /* bytes of results that are kept for other closures */
} cadre_worker_runs_options_t;

typedef struct cadre_worker_runs cadre_worker_runs_t;

/* Returns an object without runs, which borrows the others for its life. */
cadre_worker_runs_t *cadre_worker_runs_new(const cadre_worker_runs_options_t *options,
                                           cadre_directory_t *directory,
                                           cadre_worker_values_t *values,
                                           cadre_worker_effects_t *effects,
                                           cadre_worker_counters_t *counters);
void cadre_worker_runs_destroy(cadre_worker_runs_t **self_p);

/* Begins another session, when no run is left: forgets which reports were acknowledged, and the
 * kept results. */
void cadre_worker_runs_begin_session(cadre_worker_runs_t *self);

/* Notes whether the runs still on slots belong to no session, so that their end is not reported;
 * true from the end of a session until the next begins. */
void cadre_worker_runs_disown(cadre_worker_runs_t *self, bool is_disowned);

/* Hands back every run that no slot holds, and from now on every closure that comes, with `reason`
 * (borrowed). */
void cadre_worker_runs_drain(cadre_worker_runs_t *self, const char *reason, uint64_t now_ms);

/* Drops every run that no slot holds; cancels the runs on slots with their pulls and pushes. */
void cadre_worker_runs_drop(cadre_worker_runs_t *self);

/* Take a CLOSURE (and its message), or a CANCEL. A CLOSURE that is malformed, or one more than
 * CADRE_HELD_MAX, is dropped and gives false. */
bool cadre_worker_runs_on_closure(cadre_worker_runs_t *self, cadre_message_t *message,
                                  uint64_t now_ms);
void cadre_worker_runs_on_cancel(cadre_worker_runs_t *self, const cadre_cancel_message_t *cancel,
                                 uint64_t now_ms);
void cadre_worker_runs_on_ack(cadre_worker_runs_t *self, const cadre_ack_message_t *ack);

/* Sends lost reports again, now that the coordinator has answered the HELLO or HEARTBEAT `number`.
 * The coordinator acknowledges the reports it has before it answers; so a report that was sent
 * before that message and is not acknowledged was lost. */
void cadre_worker_runs_resend(cadre_worker_runs_t *self, uint64_t number);

/* Moves runs whose definitions are complete to the queue, and queued runs to free slots. */
void cadre_worker_runs_advance(cadre_worker_runs_t *self, uint64_t now_ms);

/* Begins the builds of resources that are due; returns when the next one is. */
uint64_t cadre_worker_runs_build(cadre_worker_runs_t *self, uint64_t now_ms);

/* Take the end of the reading of a run's batches (`status`: how it ended), and of a run's
 * computing. */
void cadre_worker_runs_loaded(cadre_worker_runs_t *self, uint64_t closure, int status,
                              const char *text, uint64_t now_ms);
void cadre_worker_runs_finish(cadre_worker_runs_t *self, cadre_run_t *run,
                              const cadre_run_outcome_t *outcome, uint64_t now_ms);

/* Frees functions and resources that are gone and that no run names any more. */
void cadre_worker_runs_release_leaving(cadre_worker_runs_t *self);

/* Returns the ids of all closures in a list that the caller frees. */
cadre_u64s_t cadre_worker_runs_held(const cadre_worker_runs_t *self);

/* Returns the closure or build with this id; NULL when it is not here. */
cadre_run_t *cadre_worker_runs_find(const cadre_worker_runs_t *self, uint64_t id);

/* Returns a run that waits for definitions; NULL when none does. */
const cadre_run_t *cadre_worker_runs_wanting(const cadre_worker_runs_t *self);

/* Return how many runs there are; how many wait for anything but a slot; how many are on slots. */
size_t cadre_worker_runs_count(const cadre_worker_runs_t *self);
size_t cadre_worker_runs_waiting(const cadre_worker_runs_t *self);
uint32_t cadre_worker_runs_running(const cadre_worker_runs_t *self);

/* Reports a run that no slot holds as failed. A build has then failed for good if the failure is
 * the user's (CADRE_FAILURE_USER), and else is tried again. */
void cadre_worker_runs_give_up(cadre_worker_runs_t *self, cadre_run_t *run, cadre_failure_t failure,
                               int status, const char *text, uint64_t now_ms);

#endif
