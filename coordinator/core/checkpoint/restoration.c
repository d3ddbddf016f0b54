#include "coordinator/core/checkpoint/restoration.h"

#include <inttypes.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"

void
cadre_restoration_init(cadre_restoration_t *self, const cadre_restoration_links_t *links)
{
    *self = (cadre_restoration_t){.links = *links};
}

/* Fails where only the program can bring about that the job may go back. */
static int
check_program(const cadre_restoration_t *self)
{
    if (!cadre_closure_queue_is_empty(self->links.queue)) {
        return cadre_fail(CADRE_ESTATE, "closures are queued or in flight: join, or cancel them, "
                                        "before the job goes back to a checkpoint");
    }
    /* Its values would be those of the checkpoint that was resumed, and belong to another state. */
    const char *awaited = cadre_checkpoint_awaited(self->links.checkpoint);
    if (awaited) {
        return cadre_fail(CADRE_ESTATE, "variable %s was resumed and is not created again yet",
                          awaited);
    }
    return cadre_catalogue_whole_count(self->links.catalogue) > 0
               ? 0
               : cadre_fail(CADRE_ESTATE, "the job has no variables yet");
}

/* Returns what must end before the job may go back, in words; NULL: nothing. */
static const char *
what_is_under_way(const cadre_restoration_t *self)
{
    if (self->links.drops->called > self->links.drops->retired) {
        return "a variable to be dropped";
    }
    if (self->links.catalogue->creating > 0) {
        return "a variable to be created";
    }
    if (!cadre_recovery_is_calm(self->links.recovery)) {
        return "shards to be restored";
    }
    if (cadre_shard_requests_has_assignment(self->links.requests)) {
        return "an assignment to be answered";
    }
    return cadre_checkpoint_is_at_rest(self->links.checkpoint) ? NULL : "a checkpoint to end";
}

int
cadre_restoration_check(const cadre_restoration_t *self, const char **what)
{
    int status = check_program(self);
    if (status < 0) {
        return status;
    }
    *what = what_is_under_way(self);
    return *what ? CADRE_EAGAIN : 0;
}

/* Returns the checkpoint as a restore point that holds everything which was done so far: the next
 * closure is the first that may run again from it on. */
static cadre_restore_point_t
point_of(const cadre_restoration_t *self, const cadre_restoration_target_t *target)
{
    uint32_t ps_count = self->links.options->ps_count;
    cadre_restore_point_t point = {.path = cadre_strdup(target->path),
                                   .id = target->id,
                                   .cut = self->links.begun->next_id,
                                   .assigns = cadre_replay_assigns(self->links.replay),
                                   .unsaved = self->links.replay->unsaved,
                                   .variable_count = self->links.catalogue->variable_count,
                                   .drops = self->links.drops->retired};
    point.assigned = cadre_calloc(ps_count, sizeof(*point.assigned));
    for (uint32_t shard = 0; shard < ps_count; shard++) {
        point.assigned[shard] = self->links.recovery->places[shard].assigned;
    }
    return point;
}

void
cadre_restoration_begin(cadre_restoration_t *self, const cadre_restoration_target_t *target)
{
    const char *what = NULL;
    cadre_assert(cadre_restoration_check(self, &what) == 0);

    const cadre_restore_point_t point = point_of(self, target);
    cadre_effects_log(self->links.effects, 'I', "going_back",
                      "checkpoint=%" PRIu64 " cut=%" PRIu64 " path=\"%.300s\" next=\"%s\"",
                      target->id, point.cut, target->path,
                      "every shard is restored from it, and nothing runs again");

    cadre_windows_raise(self->links.windows, point.cut);
    cadre_checkpoint_on_gone_back(self->links.checkpoint, target->sequences);
    cadre_recovery_go_back(self->links.recovery, &point);
}
