/*
 * restore_points - the states that a shard can be restored to: the newest committed checkpoint, and
 * the one before, for when the newest cannot be read.
 *
 * Owner:   the recovery. Thread: under the coordinator's lock.
 *
 * Without a replay (recovery `relaxed`, or a log that is full) the updates of closures that ended
 * after a shard's restore point are lost on that shard. These closures are counted as being at
 * risk, each of them once, even if several shards have lost its updates.
 */
#ifndef CADRE_COORDINATOR_CORE_SHARDS_RESTORE_POINTS_H
#define CADRE_COORDINATOR_CORE_SHARDS_RESTORE_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/catalogue/catalogue.h"

/* A state that a shard can begin with: it holds all closures below `cut` and the first `assigns`
 * assignments. Later closures are kept for a replay, or are at risk. */
typedef struct {
    char *path;  /* path of the checkpoint; "": the point is the variables' initial values */
    uint64_t id; /* id of the checkpoint; 0: the point is the variables' initial values */
    uint64_t cut;
    /* How many of the assignments noted for a replay it holds, the first ones. */
    uint64_t assigns;
    uint64_t *assigned; /* [ps_count]: each shard's last assignment in it; NULL: no assignment */
    uint64_t unsaved;   /* `unsaved` of the replay (replay.h) at the cut */
    /* How many closures after the point were counted as being at risk already. */
    uint64_t risked;
    /* 0: not a checkpoint of this session. Else it holds the variables with ids up to this,
     * except those that the first `drops` drops deleted. */
    uint32_t variable_count;
    uint64_t drops; /* how many drops had retired at its cut */
} cadre_restore_point_t;

typedef struct {
    /* The newest point, and the one before; path NULL: there is none. */
    cadre_restore_point_t at[2];
} cadre_restore_points_t;

/* Begins with initial values as the only point, until the first commit. */
void cadre_restore_points_init(cadre_restore_points_t *self);
void cadre_restore_points_fini(cadre_restore_points_t *self);

/* Begins with the checkpoint that was resumed; `path` is copied. */
void cadre_restore_points_resume(cadre_restore_points_t *self, const char *path, uint64_t id,
                                 uint64_t cut);

/* Makes `point`, a checkpoint that was committed, the newest one; takes what it owns. */
void cadre_restore_points_commit(cadre_restore_points_t *self, const cadre_restore_point_t *point);

/* Makes `point` the only one, since what was done after the others is undone; takes what it
 * owns. */
void cadre_restore_points_begin_with(cadre_restore_points_t *self,
                                     const cadre_restore_point_t *point);

/* Returns how many more closures are at risk, now that a shard was restored to point number `at`
 * and no closure runs again. `unsaved`: the replay's number now. */
uint64_t cadre_restore_points_take_risk(cadre_restore_points_t *self, int at, uint64_t unsaved);

/* Returns whether the point lacks this variable, though it may hold another variable of that name.
 * A checkpoint of an earlier session, whose ids mean nothing now, lacks only a variable whose name
 * was dropped and created again since (`again`). */
bool cadre_restore_point_lacks(const cadre_restore_point_t *self, const cadre_variable_t *variable);

/* Returns whether the variable was dropped before this point, so that no closure which would run
 * again from the point on names it. */
bool cadre_restore_point_is_past(const cadre_restore_point_t *self,
                                 const cadre_variable_t *variable);

#endif
