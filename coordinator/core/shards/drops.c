#include "coordinator/core/shards/drops.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "coordinator/core/catalogue/catalogue.h"

void
cadre_drops_init(cadre_drops_t *self, cadre_closure_queue_t *queue, const cadre_replay_t *replay)
{
    *self = (cadre_drops_t){.queue = queue, .replay = replay};
}

void
cadre_drops_fini(cadre_drops_t *self)
{
    free(self->drops);
    *self = (cadre_drops_t){.called = 0};
}

/* Begins to drop a variable. Closures that were put before are waited for, by a barrier. Returns
 * the drop's number. */
uint64_t
cadre_drops_call(cadre_drops_t *self, cadre_variable_t *variable)
{
    cadre_assert(variable->created && variable->dropped == 0);
    size_t count = self->first + (size_t)(self->called - self->done);
    self->drops = cadre_realloc(self->drops, count + 1, sizeof(*self->drops));
    self->drops[count] =
        (cadre_drop_t){.variable = variable, .barrier = cadre_closure_queue_note_drop(self->queue)};
    variable->dropped = ++self->called;
    return variable->dropped;
}

/* Returns the variable of the next drop whose earlier closures have all ended, which retires it;
 * NULL: none. */
cadre_variable_t *
cadre_drops_take_retired(cadre_drops_t *self)
{
    if (self->retired == self->called) {
        return NULL;
    }

    const cadre_drop_t *drop = &self->drops[self->first + (size_t)(self->retired - self->done)];
    if (!cadre_closure_queue_passed_by_all(self->queue, drop->barrier)) {
        return NULL;
    }

    self->retired++;
    return drop->variable;
}

/* Returns the lowest `drops` of all closures that are kept for a replay: drops with a higher number
 * may still be named by one of them. The answer is cached, as it changes only when a drop retires
 * or the replay forgets closures. A closure that is kept later changes nothing: it was scheduled
 * after every drop that has retired, or that drop would still wait for it. */
static uint64_t
fewest_kept(cadre_drops_t *self)
{
    uint64_t forgotten = self->replay->forgotten;
    if (self->seen_retired != self->retired || self->seen_forgotten != forgotten) {
        self->seen_retired = self->retired;
        self->seen_forgotten = forgotten;
        self->fewest = cadre_replay_fewest_drops(self->replay);
    }
    return self->fewest;
}

/* Returns whether no closure can name the variable of drop `number` any more, and no open cut holds
 * it. */
static bool
is_needless(cadre_drops_t *self, uint64_t number, uint64_t cut)
{
    /* retired after the cut was opened: the cut holds the variable */
    bool is_in_cut = cut < number;
    return !is_in_cut && fewest_kept(self) >= number;
}

/* Takes out the oldest drop. The others move to the front of the array only when they are no more
 * than the free places there, so that the cost of moving is spread over many drops. */
static void
take_first(cadre_drops_t *self)
{
    self->done++;
    self->first++;

    size_t left = (size_t)(self->called - self->done);
    if (left <= self->first) {
        memmove(self->drops, self->drops + self->first, left * sizeof(*self->drops));
        self->first = 0;
    }
}

/* Returns the variable of the oldest retired drop once nothing can name it any more; NULL: not yet.
 * `cut`: how many drops had retired at the open cut. */
cadre_variable_t *
cadre_drops_take_done(cadre_drops_t *self, uint64_t cut)
{
    if (self->done == self->retired || !is_needless(self, self->done + 1, cut)) {
        return NULL;
    }

    cadre_variable_t *variable = self->drops[self->first].variable;
    take_first(self);
    return variable;
}

const cadre_variable_t *
cadre_drops_kept(const cadre_drops_t *self, size_t at)
{
    return at < self->retired - self->done ? self->drops[self->first + at].variable : NULL;
}
