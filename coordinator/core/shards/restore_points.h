/*
 * restore_points - what shards that are restored can begin with: the newest commit, and the one
 * before for when that cannot be read.
 *
 * Owner:   the recovery. Thread: under the coordinator's lock.
 *
 * Where nothing is kept for a replay, what ended since a shard's point is lost on it: that is
 * counted from the point, each closure once.
 */
#ifndef CADRE_COORDINATOR_CORE_SHARDS_RESTORE_POINTS_H
#define CADRE_COORDINATOR_CORE_SHARDS_RESTORE_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/catalogue/catalogue.h"

/* Where a shard can begin: everything below `cut` and the first `assigns` assignments are in it.
 * What came since is kept for a replay, or may be lost: that is counted from here. */
typedef struct {
    char *path;  /* of the checkpoint; "" for initial values */
    uint64_t id; /* of the checkpoint, 0 for initial values */
    uint64_t cut;
    uint64_t assigns;   /* noted for a replay */
    uint64_t *assigned; /* [ps_count]: each shard's last assignment in it; NULL: none is */
    uint64_t unsaved;   /* what the replay's was */
    uint64_t risked;    /* closures since, not kept, that were counted as being at risk already */
    uint32_t
        variable_count; /* of a checkpoint of this session: it holds variables up to this id, */
    uint64_t drops;     /* but for those that so many drops had taken */
} cadre_restore_point_t;

typedef struct {
    cadre_restore_point_t at[2]; /* the newest, and the one before; path NULL: none */
} cadre_restore_points_t;

/* Initial values, until the first commit. */
void cadre_restore_points_init(cadre_restore_points_t *self);
void cadre_restore_points_fini(cadre_restore_points_t *self);

/* Begins with the checkpoint that was resumed; `path` is copied. */
void cadre_restore_points_resume(cadre_restore_points_t *self, const char *path, uint64_t id,
                                 uint64_t cut);

/* Takes the point of a commit, and what it holds. */
void cadre_restore_points_commit(cadre_restore_points_t *self, const cadre_restore_point_t *point);

/* A shard began with point number `at` and nothing runs again: returns how many closures are at
 * risk that were not before. `unsaved`: the replay's. */
uint64_t cadre_restore_points_take_risk(cadre_restore_points_t *self, int at, uint64_t unsaved);

/* Returns whether the point does not hold this variable, whatever it holds under the name. One of
 * another session may hold any: only names tell there. */
bool cadre_restore_point_lacks(const cadre_restore_point_t *self, const cadre_variable_t *variable);

/* Returns whether nobody names the variable who runs again from that point on. */
bool cadre_restore_point_is_past(const cadre_restore_point_t *self,
                                 const cadre_variable_t *variable);

#endif
