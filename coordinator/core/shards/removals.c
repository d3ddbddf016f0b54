#include "coordinator/core/shards/removals.h"

void
cadre_removals_init(cadre_removals_t *self, cadre_closure_queue_t *queue,
                    const cadre_replay_t *replay)
{
    *self = (cadre_removals_t){.queue = queue, .replay = replay};
    cadre_queue_init(&self->others, sizeof(cadre_removal_t));
}

void
cadre_removals_fini(cadre_removals_t *self)
{
    cadre_queue_fini(&self->others);
}

/* Adds a removal behind all others, with a barrier behind the closures that may name it. */
void
cadre_removals_add(cadre_removals_t *self, cadre_defined_t of, uint32_t id)
{
    const uint64_t barrier = cadre_closure_queue_note_removal(self->queue);
    const cadre_removal_t removal = {
        .of = of, .id = id, .barrier = barrier, .number = self->queue->removals};
    if (self->has_oldest) {
        cadre_queue_push(&self->others, &removal);
        return;
    }
    self->oldest = removal;
    self->has_oldest = true;
}

/* Returns the lowest `removals` of all closures that are kept for a replay. It is looked for again
 * only when the replay has forgotten closures, or has kept others since and another removal is the
 * oldest: a closure that is kept after the barrier was passed was put behind it. */
static uint64_t
fewest_kept(cadre_removals_t *self)
{
    const uint64_t forgotten = self->replay->forgotten;
    const uint64_t keeps = self->replay->keeps;
    const bool is_other = self->seen_number != self->oldest.number;
    if (self->seen_number == 0 || self->seen_forgotten != forgotten ||
        (is_other && self->seen_keeps != keeps)) {
        self->seen_forgotten = forgotten;
        self->seen_keeps = keeps;
        self->fewest = cadre_replay_fewest_removals(self->replay);
    }
    self->seen_number = self->oldest.number;
    return self->fewest;
}

/* Takes out the oldest removal, once the closures from before its drop have ended and none of them
 * may run again. */
bool
cadre_removals_take(cadre_removals_t *self, cadre_removal_t *out)
{
    if (!self->has_oldest ||
        !cadre_closure_queue_passed_by_all(self->queue, self->oldest.barrier) ||
        fewest_kept(self) < self->oldest.number) {
        return false;
    }
    *out = self->oldest;
    self->has_oldest = cadre_queue_pop(&self->others, &self->oldest);
    return true;
}
