/*
 * restore_points - what shards that are restored can begin with: the newest commit, and the one
 * before for when that cannot be read.
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
    char *path;  /* of the checkpoint; "": it is the initial values */
    uint64_t id; /* of the checkpoint; 0: it is the initial values */
    uint64_t cut;
    uint64_t assigns;   /* assignments noted for a replay that it holds: the first so many */
    uint64_t *assigned; /* [ps_count]: each shard's last assignment in it; NULL: no assignment */
    uint64_t unsaved;   /* `unsaved` of the replay (replay.h) at the cut */
    uint64_t risked;    /* closures after it that were counted as being at risk already */
    uint32_t
        variable_count; /* of a checkpoint of this session: it holds variables up to this id, */
    uint64_t drops;     /* but for those that so many drops had taken */
} cadre_restore_point_t;

typedef struct {
    cadre_restore_point_t at[2]; /* the newest, and the one before; path NULL: none */
} cadre_restore_points_t;

/* Begins with initial values as the only point, until the first commit. */
void cadre_restore_points_init(cadre_restore_points_t *self);
void cadre_restore_points_fini(cadre_restore_points_t *self);

/* Begins with the checkpoint that was resumed; `path` is copied. */
void cadre_restore_points_resume(cadre_restore_points_t *self, const char *path, uint64_t id,
                                 uint64_t cut);

/* Makes `point`, a checkpoint that was committed, the newest one; takes what it owns. */
void cadre_restore_points_commit(cadre_restore_points_t *self, const cadre_restore_point_t *point);

/* Returns how many more closures are at risk, now that a shard began with point number `at` and
 * nothing runs again. `unsaved`: the replay's now. */
uint64_t cadre_restore_points_take_risk(cadre_restore_points_t *self, int at, uint64_t unsaved);

/* Returns whether the point lacks this variable, though it may hold another one of that name. Ids
 * of an earlier session mean nothing here: its checkpoint lacks only a variable whose name was
 * dropped before and created again (`again`). */
bool cadre_restore_point_lacks(const cadre_restore_point_t *self, const cadre_variable_t *variable);

/* Returns whether no closure that would run again from this point on names the variable. */
bool cadre_restore_point_is_past(const cadre_restore_point_t *self,
                                 const cadre_variable_t *variable);

#endif
