/*
 * effects - what the objects of the core answer with in a turn: messages, log lines, orders.
 *
 * Owner:   the coordinator core.
 * Thread:  under the coordinator's lock.
 *
 * It stands below all others, so that each can answer without knowing who carries it out: messages
 * wait in the outbox, effects for the shell, and `progress` says that a caller may find what it
 * waits for. The time of the turn is here, too: every line and deadline is judged by the same.
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
    CADRE_EFFECT_SHARD_MOVED, /* `shard`: connect to `text`, which is `incarnation` */
    CADRE_EFFECT_LOG,         /* `level`, `name`, `text` */
    CADRE_EFFECT_STORE,       /* `store`: what the store is to do */
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
    uint64_t
        incarnation; /* of the coordinator, and the epoch of its session: what it sends says so */
    uint64_t epoch;
    uint64_t now_ms; /* of the turn under way */
    bool progress;   /* something ended or changed that a caller may wait for */
    cadre_outbox_t outbox;
    cadre_effect_t *items; /* for the shell: [count] from `first` on */
    size_t first;
    size_t count;
    size_t capacity;
    cadre_results_t **ended; /* for the API: [ended_count] from `ended_first` on */
    size_t ended_first;
    size_t ended_count;
    size_t ended_capacity;
    cadre_log_budget_t log_budget;
} cadre_effects_t;

void cadre_effects_init(cadre_effects_t *self, uint64_t incarnation, uint64_t epoch,
                        uint64_t now_ms);
void cadre_effects_fini(cadre_effects_t *self);

/* Begins a turn. */
void cadre_effects_set_time(cadre_effects_t *self, uint64_t now_ms);

/* --- what objects do --- */

/* Returns an empty message of this type with the sender's fields filled in. */
cadre_message_t cadre_effects_message(const cadre_effects_t *self, cadre_message_type_t type);

/* Queues `message` for `to`; its chunks move. */
void cadre_effects_send(cadre_effects_t *self, const cadre_task_t *to, cadre_message_t *message);

void cadre_effects_emit(cadre_effects_t *self, const cadre_effect_t *effect);

/* Has a future told that its closure has ended; shares the results, which know it. */
void cadre_effects_emit_ended(cadre_effects_t *self, cadre_results_t *results);

/* Emits a line of the log, as far as the budget of its name goes. `name` is a literal. */
void cadre_effects_log(cadre_effects_t *self, char level, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Logs how many lines were left out, where it is time to. */
void cadre_effects_tell_held_lines(cadre_effects_t *self);

/* Notes that something ended or changed that a caller may wait for. */
void cadre_effects_note_progress(cadre_effects_t *self);

/* --- what the shell takes --- */

/* Takes the oldest effect; false when there is none. */
bool cadre_effects_take(cadre_effects_t *self, cadre_effect_t *effect);

/* Takes the results of a closure that has ended, in the order of ends, with a reference; NULL:
 * there are no more. To be done before the lock is let go: whoever waits looks then. */
cadre_results_t *cadre_effects_take_ended(cadre_effects_t *self);

/* Returns whether there was progress since the last call. */
bool cadre_effects_take_progress(cadre_effects_t *self);

/* Moves all messages out. */
cadre_outbox_t cadre_effects_take_outbox(cadre_effects_t *self);

#endif
