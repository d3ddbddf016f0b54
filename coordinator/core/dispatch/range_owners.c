#include "coordinator/core/dispatch/range_owners.h"

#include <stdlib.h>

#include "common/base/memory.h"

void
cadre_range_owners_init(cadre_range_owners_t *self, const cadre_membership_t *members)
{
    *self = (cadre_range_owners_t){.members = members};
}

void
cadre_range_owners_fini(cadre_range_owners_t *self)
{
    for (size_t i = 0; i < self->count; i++) {
        free(self->lists[i].owners);
    }
    free(self->lists);
    *self = (cadre_range_owners_t){.members = self->members};
}

/* Returns the owners of the ranges of the closure's dataset; of none, at first. */
static cadre_range_list_t *
list_of(cadre_range_owners_t *self, const cadre_closure_t *closure)
{
    for (size_t i = 0; i < self->count; i++) {
        if (self->lists[i].dataset == closure->batches[0]) {
            return &self->lists[i];
        }
    }

    self->lists = cadre_grow(self->lists, self->count, &self->capacity, sizeof(*self->lists));
    cadre_range_list_t *list = &self->lists[self->count++];
    *list = (cadre_range_list_t){
        .dataset = closure->batches[0],
        .owners = cadre_calloc(closure->ranges, sizeof(*list->owners)),
        .count = closure->ranges,
    };
    return list;
}

/* Returns whether nobody has the range, or somebody who gets nothing new. */
static bool
is_free(const cadre_range_owners_t *self, uint64_t owner)
{
    const cadre_member_t *member = owner ? cadre_membership_find(self->members, owner) : NULL;
    return !member || member->suspect || member->draining;
}

/* Returns how many ranges a worker has. */
static uint32_t
count_of(const cadre_range_list_t *list, uint64_t owner)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        count += list->owners[i] == owner;
    }
    return count;
}

/* What comes next of the ranges of a dataset, of one priority, by who has them; NULL: nothing. */
typedef struct {
    cadre_closure_t *own;   /* the first closure of the worker's ranges */
    cadre_closure_t *free;  /* the first one of ranges without an owner */
    cadre_closure_t *other; /* of the closures that are next of others' ranges, the last */
} candidates_t;

static cadre_closure_t *
earlier(cadre_closure_t *left, cadre_closure_t *right)
{
    return !left || right->order < left->order ? right : left;
}

static candidates_t
look(const cadre_range_owners_t *self, const cadre_range_choice_t *choice,
     const cadre_range_list_t *list, cadre_priority_t priority)
{
    candidates_t found = {.own = NULL};
    for (size_t i = 0; i < choice->lanes->count; i++) {
        const cadre_closure_lane_t *lane = choice->lanes->lanes[i];
        if (lane->range == 0 || lane->range > list->count || lane->priority != priority ||
            lane->needs.batches[0] != list->dataset ||
            !cadre_abilities_meet(&choice->worker->abilities, &lane->needs)) {
            continue;
        }

        cadre_closure_t *next = cadre_closure_lane_begun(lane, choice->below, choice->filter);
        const uint64_t owner = list->owners[lane->range - 1];
        if (!next) {
            continue;
        }
        if (owner == choice->worker->task.incarnation) {
            found.own = earlier(found.own, next);
        } else if (is_free(self, owner)) {
            found.free = earlier(found.free, next);
        } else if (!found.other || next->order > found.other->order) {
            found.other = next;
        }
    }
    return found;
}

/* Returns the closure of a range without an owner, or of the worker's own. */
static cadre_closure_t *
own_or_free(const cadre_range_owners_t *self, const candidates_t *found, uint32_t has,
            uint32_t ranges)
{
    const uint32_t workers = self->members->worker_count > 0 ? self->members->worker_count : 1;
    const uint32_t share = (ranges + workers - 1) / workers;
    if (!found->own || !found->free) {
        return found->own ? found->own : found->free;
    }
    return has < share ? earlier(found->own, found->free) : found->own;
}

cadre_closure_t *
cadre_range_owners_choose(cadre_range_owners_t *self, const cadre_range_choice_t *choice,
                          cadre_closure_t *head)
{
    const uint64_t incarnation = choice->worker->task.incarnation;
    cadre_range_list_t *list = list_of(self, head);
    const candidates_t found = look(self, choice, list, head->priority);
    const uint32_t has = count_of(list, incarnation);

    cadre_closure_t *closure = own_or_free(self, &found, has, list->count);
    if (closure) {
        list->owners[closure->range - 1] = incarnation;
        return closure;
    }
    if (!found.other) {
        return head;
    }
    if (!choice->may_help) {
        return NULL;
    }

    uint64_t *owner = &list->owners[found.other->range - 1];
    if (choice->is_full || count_of(list, *owner) >= has + 2) {
        *owner = incarnation;
    }
    return found.other;
}
