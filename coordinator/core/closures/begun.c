#include "coordinator/core/closures/begun.h"

#include "common/base/assert.h"

void
cadre_begun_init(cadre_begun_t *self)
{
    *self = (cadre_begun_t){.next_id = 1};
}

void
cadre_begun_fini(cadre_begun_t *self)
{
    cadre_u64_map_fini(&self->closures);
}

void
cadre_begun_resume(cadre_begun_t *self, uint64_t next_id, uint64_t total)
{
    cadre_assert(self->closures.count == 0);
    self->next_id = next_id;
    self->resumed_at = next_id;
    self->total = total;
}

/* Gives a closure its id: as many ids as it has steps, since the id of an update is that of its
 * closure plus its step. */
void
cadre_begun_add(cadre_begun_t *self, cadre_closure_t *closure)
{
    cadre_assert(closure->id == 0);
    closure->id = self->next_id;
    self->next_id += closure->steps;
    self->of_clients += cadre_closure_is_of_client(closure) ? closure->steps : 0;
    self->steps += closure->may_push ? closure->steps : 0;
    self->total++;
    cadre_u64_map_put(&self->closures, closure->id, closure);
}

void
cadre_begun_hand_out(cadre_begun_t *self, cadre_closure_t *closure)
{
    cadre_assert(closure->id != 0 && closure->number == 0);
    closure->number = ++self->handed_out;
}

uint64_t
cadre_begun_next_number(const cadre_begun_t *self)
{
    return self->handed_out + 1;
}

void
cadre_begun_note_refused(cadre_begun_t *self)
{
    self->refused++;
}

void
cadre_begun_end(cadre_begun_t *self, const cadre_closure_t *closure)
{
    cadre_u64_map_take(&self->closures, closure->id);
    if (closure->end_status < 0) {
        cadre_begun_note_failed(self, closure);
    }
}

void
cadre_begun_note_failed(cadre_begun_t *self, const cadre_closure_t *closure)
{
    self->failed += !cadre_closure_is_of_client(closure);
}

cadre_closure_t *
cadre_begun_find(const cadre_begun_t *self, uint64_t id)
{
    return cadre_u64_map_get(&self->closures, id);
}

/* Returns the closure with the lowest id that has not ended; NULL: all have. */
const cadre_closure_t *
cadre_begun_oldest(const cadre_begun_t *self)
{
    const cadre_closure_t *oldest = NULL;
    const cadre_closure_t *closure = NULL;
    for (size_t cursor = 0; (closure = cadre_u64_map_next(&self->closures, &cursor));) {
        oldest = !oldest || closure->id < oldest->id ? closure : oldest;
    }
    return oldest;
}

bool
cadre_begun_has_tried(const cadre_begun_t *self)
{
    const cadre_closure_t *closure = NULL;
    size_t cursor = 0;
    do {
        closure = cadre_u64_map_next(&self->closures, &cursor);
    } while (closure && closure->attempt == 0);
    return closure != NULL;
}

bool
cadre_begun_has_untried(const cadre_begun_t *self, uint64_t below)
{
    const cadre_closure_t *closure = NULL;
    size_t cursor = 0;
    do {
        closure = cadre_u64_map_next(&self->closures, &cursor);
    } while (closure && (closure->attempt > 0 || closure->id >= below));
    return closure != NULL;
}

uint64_t
cadre_begun_lowest(const cadre_begun_t *self)
{
    const cadre_closure_t *oldest = cadre_begun_oldest(self);
    return oldest ? oldest->id : self->next_id;
}

void
cadre_begun_mark_stale(cadre_begun_t *self)
{
    cadre_closure_t *closure = NULL;
    for (size_t cursor = 0; (closure = cadre_u64_map_next(&self->closures, &cursor));) {
        closure->stale = closure->attempt;
    }
}
