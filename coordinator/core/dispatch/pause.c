#include "coordinator/core/dispatch/pause.h"

#include "common/base/assert.h"

void
cadre_pause_init(cadre_pause_t *self, const cadre_begun_t *begun,
                 const cadre_shard_recovery_t *recovery)
{
    *self = (cadre_pause_t){.begun = begun, .recovery = recovery};
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

/* Returns whether nothing that was begun is under way or will run again for a lost shard. */
bool
cadre_pause_is_still(const cadre_pause_t *self)
{
    return !cadre_begun_oldest(self->begun) && cadre_recovery_is_settled(self->recovery);
}
