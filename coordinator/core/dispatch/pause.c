#include "coordinator/core/dispatch/pause.h"

#include "common/base/assert.h"

void
cadre_pause_init(cadre_pause_t *self, const cadre_begun_t *begun, const cadre_pace_t *pace,
                 const cadre_shard_recovery_t *recovery)
{
    *self = (cadre_pause_t){.begun = begun, .pace = pace, .recovery = recovery};
}

void
cadre_pause_begin(cadre_pause_t *self)
{
    self->count++;
}

void
cadre_pause_end(cadre_pause_t *self)
{
    cadre_assert(self->count > 0);
    self->count--;
}

bool
cadre_pause_is_on(const cadre_pause_t *self)
{
    return self->count > 0;
}

/* Returns whether nothing that was handed out is under way or will run again for a lost shard, and
 * no step is. */
bool
cadre_pause_is_still(const cadre_pause_t *self)
{
    return !cadre_begun_has_tried(self->begun) && cadre_pace_is_between_steps(self->pace) &&
           cadre_recovery_is_settled(self->recovery);
}
