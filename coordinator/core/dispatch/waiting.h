/*
 * waiting - what a call of the API waits for, in words.
 *
 * Owner:   the coordinator core; it only looks. Thread: under the coordinator's lock.
 */
#ifndef CADRE_COORDINATOR_CORE_DISPATCH_WAITING_H
#define CADRE_COORDINATOR_CORE_DISPATCH_WAITING_H

#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/checkpoint/checkpoint.h"
#include "coordinator/core/closures/closure_queue.h"
#include "coordinator/core/dispatch/overruns.h"
#include "coordinator/core/dispatch/reach.h"
#include "coordinator/core/members/closure_words.h"
#include "coordinator/core/members/membership.h"
#include "coordinator/core/shards/recovery.h"
#include "coordinator/core/shards/replay.h"
#include "coordinator/core/shards/windows.h"

/* The objects that it looks at; borrowed for its life. */
typedef struct {
    const cadre_membership_t *members;
    const cadre_catalogue_t *catalogue;
    const cadre_closure_queue_t *queue;
    const cadre_replay_t *replay;
    const cadre_shard_recovery_t *recovery;
    const cadre_windows_t *windows;
    const cadre_checkpoint_t *checkpoint;
    const cadre_reach_t *reach;
    const cadre_overruns_t *overruns;
} cadre_waiting_t;

/* Which closures a call waits for: those of `group`; where that is NULL, those that were put before
 * drop `drop` of a variable, with a tag or without; where that is 0, all without a tag. */
typedef struct {
    const cadre_closure_group_t *group;
    uint64_t drop;
} cadre_waited_t;

/* Bytes of a text that names closures, and of one that names a single one. */
enum { CADRE_WAITING_CLOSURES_SIZE = 800, CADRE_WAITING_CLOSURE_SIZE = 780 };

/* Returns which of these closures have not ended: how many are on workers and how many wait for
 * one, one that waits for something else than a worker that is busy, by function, with what it
 * waits for, and the oldest on workers by id, function and worker, with the shard that each waits
 * for. The words are written to `text`. */
const char *cadre_waiting_closures(const cadre_waiting_t *self, const cadre_waited_t *waited,
                                   uint64_t now_ms, char text[CADRE_WAITING_CLOSURES_SIZE]);

/* Returns which closure it is, that has not ended, with the worker that has it or what it waits
 * for. The words are written to `text`. */
const char *cadre_waiting_closure(const cadre_waiting_t *self, const cadre_closure_t *closure,
                                  uint64_t now_ms, char text[CADRE_WAITING_CLOSURE_SIZE]);

/* Returns what the whole job waits for now: a shard that is away, closures that run again, a
 * checkpoint that has to empty the replay log, or a closure that keeps the shards' windows full.
 * When there is none of these, returns `otherwise`, which says what the call itself waits for. The
 * words may be written to `text`. */
const char *cadre_waiting_words(const cadre_waiting_t *self, const char *otherwise,
                                char text[CADRE_WAITING_TEXT_SIZE]);

#endif
