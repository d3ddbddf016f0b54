/*
 * effects - the output of the core in a turn: messages, log lines, orders to the shell.
 *
 * Owner:   the coordinator core.
 * Thread:  under the coordinator's lock.
 *
 * All classes of the core use it, and it knows none of them, so that a class needs not know who
 * carries out its output. Messages wait in the outbox, effects wait for the shell, and `progress`
 * says that something changed which a call of the API may wait for. The time of the turn is here,
 * too, so that all classes judge deadlines by the same time.
 */
#ifndef CADRE_COORDINATOR_CORE_EFFECTS_EFFECTS_H
#define CADRE_COORDINATOR_CORE_EFFECTS_EFFECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/outbox.h"
#include "coordinator/core/closures/results.h"
#include "coordinator/core/effects/log_budget.h"
#include "coordinator/core/effects/store_order.h"

typedef enum {
    /* Connect to the ps of `shard` at address `text`, whose incarnation is `incarnation`. */
    CADRE_EFFECT_SHARD_MOVED,
    CADRE_EFFECT_LOG,   /* write a log line: `level`, event `name`, fields `text` */
    CADRE_EFFECT_STORE, /* give the store the order `store` */
} cadre_effect_kind_t;

typedef struct {
    cadre_effect_kind_t kind;
    uint32_t shard;
    uint64_t incarnation;
    char level;
    const char *name;
    char text[512];
    cadre_store_order_t store;
} cadre_effect_t;

typedef struct {
    uint64_t incarnation; /* incarnation of the coordinator; every message that it sends carries
                           * this */
    uint64_t epoch;       /* epoch of the session; every message of the coordinator carries this */
    uint64_t now_ms;      /* time of the turn under way */
    bool progress;        /* something ended or changed that a caller may wait for */
    cadre_outbox_t outbox;
    cadre_effect_t *items; /* effects for the shell: [count] from `first` on */
    size_t first;
    size_t count;
    size_t capacity;
    /* Results of ended closures, for futures: [ended_count] from `ended_first` on. */
    cadre_results_t **ended;
    size_t ended_first;
    size_t ended_count;
    size_t ended_capacity;
    cadre_log_budget_t log_budget;
} cadre_effects_t;

void cadre_effects_init(cadre_effects_t *self, uint64_t incarnation, uint64_t epoch,
                        uint64_t now_ms);
void cadre_effects_fini(cadre_effects_t *self);

/* Begins a turn: sets its time. */
void cadre_effects_set_time(cadre_effects_t *self, uint64_t now_ms);

/* --- called by the classes of the core, to emit output --- */

/* Returns an empty message of this type with the sender's fields filled in. */
cadre_message_t cadre_effects_message(const cadre_effects_t *self, cadre_message_type_t type);

/* Queues `message` for `to`; its chunks move. */
void cadre_effects_send(cadre_effects_t *self, const cadre_task_t *to, cadre_message_t *message);

void cadre_effects_emit(cadre_effects_t *self, const cadre_effect_t *effect);

/* Lets the future of these results be told that its closure has ended; adds a reference to the
 * results. */
void cadre_effects_emit_ended(cadre_effects_t *self, cadre_results_t *results);

/* Emits a log line of event `name` (a literal), unless there were too many of that event
 * (log_budget.h). */
void cadre_effects_log(cadre_effects_t *self, char level, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Logs how many log lines were left out, when it is time to. */
void cadre_effects_tell_held_lines(cadre_effects_t *self);

/* Notes that something ended or changed which a call of the API may wait for. */
void cadre_effects_note_progress(cadre_effects_t *self);

/* --- called by the shell, to take the output --- */

/* Takes the oldest effect; false when there is none. */
bool cadre_effects_take(cadre_effects_t *self, cadre_effect_t *effect);

/* Takes the results of a closure that has ended, in the order of ends, with a reference; NULL when
 * there are no more. Called until then before the lock is released: calls that wait look at their
 * futures next. */
cadre_results_t *cadre_effects_take_ended(cadre_effects_t *self);

/* Returns whether something has happened since the last call that a waiting call of the program may
 * wait for: an end, room in the queue, an answer. */
bool cadre_effects_take_progress(cadre_effects_t *self);

/* Moves all messages out. */
cadre_outbox_t cadre_effects_take_outbox(cadre_effects_t *self);

#endif
