/*
 * pause - times in which no closure is begun, so that those which were begun end, and variables can
 * be read as of one moment.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * While a pause lasts the dispatcher hands out only closures that workers were given before it:
 * those that were put back, those that run again for a shard that was restored, and the rest of a
 * synchronous step that is under way. Several calls may pause at once; dispatch goes on after the
 * last.
 */
#ifndef CADRE_COORDINATOR_CORE_DISPATCH_PAUSE_H
#define CADRE_COORDINATOR_CORE_DISPATCH_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/closures/begun.h"
#include "coordinator/core/closures/pace.h"
#include "coordinator/core/shards/recovery.h"

typedef struct {
    const cadre_begun_t *begun;             /* borrowed */
    const cadre_pace_t *pace;               /* borrowed */
    const cadre_shard_recovery_t *recovery; /* borrowed */
    uint32_t count;                         /* how many calls pause */
} cadre_pause_t;

void cadre_pause_init(cadre_pause_t *self, const cadre_begun_t *begun, const cadre_pace_t *pace,
                      const cadre_shard_recovery_t *recovery);

/* Begin and end a pause, as often as each other. */
void cadre_pause_begin(cadre_pause_t *self);
void cadre_pause_end(cadre_pause_t *self);

/* Returns whether no closure may be begun. */
bool cadre_pause_is_on(const cadre_pause_t *self);

/* Returns whether every closure that was handed out has ended, no step is under way, and none is to
 * run again for a shard that was lost: in a pause the shards then hold all updates of the closures
 * that were handed out, and change no more (docs/protocol.md, I2). */
bool cadre_pause_is_still(const cadre_pause_t *self);

#endif
