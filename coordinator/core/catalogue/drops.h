/*
 * drops - variables that are being dropped, and who may still name them.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 *     CALLED   closures that are scheduled from now on do not find the variable; those from before
 * do
 *      -> RETIRED  these have all ended: that is the drop's place in the order of updates. The name
 * is free, checkpoints that are cut from now on leave the variable out. Its values stay on the
 * shards for closures that may run again
 *      -> done     no such closure is kept any more, and no cut that holds the variable is open:
 * the shards forget it, its id is vacant
 *
 * Drops are numbered in the order in which they are called; a closure carries how many came before
 * it (`drops`), which is what tells it from others of the same name. They retire, and are done, in
 * that order: what an earlier drop waits for, a later one waits for, too.
 */
#ifndef CADRE_COORDINATOR_CORE_CATALOGUE_DROPS_H
#define CADRE_COORDINATOR_CORE_CATALOGUE_DROPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cadre/coordinator.h>

#include "common/wire/message.h"

struct cadre_core;

typedef struct {
    cadre_variable_t *variable;
    uint64_t barrier; /* of the queue: whom it waits for */
} cadre_drop_t;

/* Zeroed memory is without drops. */
typedef struct {
    uint64_t called;         /* how many there were; */
    uint64_t retired;        /* of these, the first so many have retired, */
    uint64_t done;           /* and the first so many are done */
    cadre_drop_t *drops;     /* [called - done], the oldest first */
    uint64_t fewest;         /* before any closure that the replay keeps, as it was */
    uint64_t seen_retired;   /* when so many had retired, */
    uint64_t seen_forgotten; /* and the replay had forgotten so many closures */
} cadre_drops_t;

void cadre_drops_fini(cadre_drops_t *self);

/* Begins to drop a variable that was created, and was not dropped; returns the drop's number. The
 * handle is the core's from now on. */
uint64_t cadre_drops_call(struct cadre_core *core, cadre_variable_t *variable);

/* Moves on; called every turn. */
void cadre_drops_tick(struct cadre_core *core);

bool cadre_drops_is_retired(const struct cadre_core *core, const cadre_variable_t *variable);

#endif
