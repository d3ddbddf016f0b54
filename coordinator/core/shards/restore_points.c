#include "coordinator/core/shards/restore_points.h"

#include <stdlib.h>

#include "common/base/memory.h"

static void
point_fini(cadre_restore_point_t *self)
{
    free(self->path);
    free(self->assigned);
    *self = (cadre_restore_point_t){.path = NULL};
}

void
cadre_restore_points_init(cadre_restore_points_t *self)
{
    *self = (cadre_restore_points_t){.at = {{.path = cadre_strdup(""), .cut = 1}}};
}

void
cadre_restore_points_fini(cadre_restore_points_t *self)
{
    point_fini(&self->at[0]);
    point_fini(&self->at[1]);
}

void
cadre_restore_points_resume(cadre_restore_points_t *self, const char *path, uint64_t id,
                            uint64_t cut)
{
    point_fini(&self->at[0]);
    self->at[0] = (cadre_restore_point_t){.path = cadre_strdup(path), .id = id, .cut = cut};
}

/* Makes a committed checkpoint the newest restore point; the newest so far becomes the one
 * before. */
void
cadre_restore_points_commit(cadre_restore_points_t *self, const cadre_restore_point_t *point)
{
    /* Closures after the new point that are at risk already: a shard was restored from the point
     * before since the new cut. */
    uint64_t told = self->at[0].unsaved + self->at[0].risked;
    uint64_t risked = told > point->unsaved ? told - point->unsaved : 0;
    point_fini(&self->at[1]);
    self->at[1] = self->at[0];
    self->at[0] = *point;
    self->at[0].risked = risked;
}

void
cadre_restore_points_begin_with(cadre_restore_points_t *self, const cadre_restore_point_t *point)
{
    point_fini(&self->at[0]);
    point_fini(&self->at[1]);
    self->at[0] = *point;
}

/* Counts the closures whose updates are lost now that a shard begins with point `at`; each counts
 * once, however many shards lost its updates. Closures since the newest point are also closures
 * since the one before, so the counters of both points move. */
uint64_t
cadre_restore_points_take_risk(cadre_restore_points_t *self, int at, uint64_t unsaved)
{
    cadre_restore_point_t *newest = &self->at[0];
    cadre_restore_point_t *before = &self->at[1];
    const cadre_restore_point_t *point = &self->at[at];
    uint64_t count = unsaved - point->unsaved - point->risked;
    before->risked += count;
    newest->risked = unsaved - newest->unsaved;
    return count;
}

/* Returns whether the point, a checkpoint of this session, holds this variable, and not only
 * another one of its name. */
static bool
holds(const cadre_restore_point_t *self, const cadre_variable_t *variable)
{
    return variable->id <= self->variable_count &&
           (variable->dropped == 0 || variable->dropped > self->drops);
}

bool
cadre_restore_point_lacks(const cadre_restore_point_t *self, const cadre_variable_t *variable)
{
    bool is_of_session = self->variable_count > 0;
    return is_of_session ? !holds(self, variable) : variable->again;
}

bool
cadre_restore_point_is_past(const cadre_restore_point_t *self, const cadre_variable_t *variable)
{
    return variable->dropped > 0 && variable->dropped <= self->drops;
}
