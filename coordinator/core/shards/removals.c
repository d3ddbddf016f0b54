#include "coordinator/core/shards/removals.h"

void
cadre_removals_init(cadre_removals_t *self, cadre_closure_queue_t *queue,
                    const cadre_replay_t *replay)
{
    *self = (cadre_removals_t){.queue = queue, .replay = replay, .seen_place = UINT64_MAX};
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
    const cadre_removal_t removal = {.of = of,
                                     .id = id,
                                     .barrier =
                                         cadre_closure_queue_set_barrier_for_all(self->queue),
                                     .place = self->queue->placed};
    if (self->has_oldest) {
        cadre_queue_push(&self->others, &removal);
        return;
    }
    self->oldest = removal;
    self->has_oldest = true;
}

/* Returns the lowest place of all closures that are kept for a replay. It is looked for again only
 * when the replay has forgotten closures, or another removal is the oldest: a closure that is kept
 * after the barrier was passed was put behind it. */
static uint64_t
lowest_kept(cadre_removals_t *self)
{
    const uint64_t forgotten = self->replay->forgotten;
    if (self->seen_place != self->oldest.place || self->seen_forgotten != forgotten) {
        self->seen_place = self->oldest.place;
        self->seen_forgotten = forgotten;
        self->lowest = cadre_replay_lowest_place(self->replay);
    }
    return self->lowest;
}

/* Takes out the oldest removal, once the closures from before its drop have ended and none of them
 * may run again. */
bool
cadre_removals_take(cadre_removals_t *self, cadre_removal_t *out)
{
    if (!self->has_oldest ||
        !cadre_closure_queue_passed_by_all(self->queue, self->oldest.barrier) ||
        lowest_kept(self) <= self->oldest.place) {
        return false;
    }
    *out = self->oldest;
    self->has_oldest = cadre_queue_pop(&self->others, &self->oldest);
    return true;
}
