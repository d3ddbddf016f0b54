#include "coordinator/core/closures/closure_lanes.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"

static uint64_t *
copy(const uint64_t *items, size_t count)
{
    uint64_t *out = cadre_calloc(count, sizeof(*out));
    if (count > 0) {
        memcpy(out, items, count * sizeof(*items));
    }
    return out;
}

/* Adds an empty lane for closures with these needs, and the priority and range of `closure`. The
 * lane has copies of the lists, since the closure that they are borrowed from may go before it. */
static cadre_closure_lane_t *
add_lane(cadre_closure_lanes_t *self, const cadre_needs_t *needs, const cadre_closure_t *closure)
{
    cadre_closure_lane_t *lane = cadre_calloc(1, sizeof(*lane));
    lane->priority = closure->priority;
    lane->range = closure->range;
    lane->resources = copy(needs->resources, needs->resource_count);
    lane->batches = copy(needs->batches, needs->batch_items);
    lane->needs = *needs;
    lane->needs.resources = lane->resources;
    lane->needs.batches = lane->batches;
    self->lanes = cadre_grow((void *)self->lanes, self->count, &self->capacity,
                             sizeof(cadre_closure_lane_t *));
    self->lanes[self->count++] = lane;
    return lane;
}

/* Returns any closure of a lane that is for any worker; NULL: there is none. */
static cadre_closure_t *
first_common_of(const cadre_closure_lane_t *lane)
{
    cadre_closure_t *closure = lane->begun.first ? lane->begun.first : lane->ready.first;
    return closure ? closure : lane->common.first;
}

/* Returns any closure of a lane; NULL when it is empty. */
static cadre_closure_t *
first_of(const cadre_closure_lane_t *lane)
{
    cadre_assert(lane);
    cadre_closure_t *closure = first_common_of(lane);
    return closure ? closure : lane->tagged.first;
}

/* Returns the lane of closures with these needs, and the priority and range of `closure`; NULL:
 * there is none. */
static cadre_closure_lane_t *
find_lane(const cadre_closure_lanes_t *self, const cadre_needs_t *needs,
          const cadre_closure_t *closure)
{
    for (size_t i = 0; i < self->count; i++) {
        if (self->lanes[i]->priority == closure->priority &&
            self->lanes[i]->range == closure->range &&
            cadre_needs_equal(&self->lanes[i]->needs, needs)) {
            return self->lanes[i];
        }
    }
    return NULL;
}

/* Frees an empty lane; the last lane takes its index. */
static void
drop_lane(cadre_closure_lanes_t *self, cadre_closure_lane_t *lane)
{
    size_t at = 0;
    while (self->lanes[at] != lane) {
        at++;
    }
    self->lanes[at] = self->lanes[--self->count];
    free(lane->resources);
    free(lane->batches);
    free(lane);
}

/* Returns the list of the lane in which a closure without id or tag stands. */
static cadre_closure_list_t *
new_list_of(cadre_closure_lane_t *lane, const cadre_closure_t *closure)
{
    return closure->argument_count > 0 ? &lane->ready : &lane->common;
}

/* Returns the list of the lane that the closure stands in. That follows from its fields, which do
 * not change while it is queued. */
static cadre_closure_list_t *
list_of(cadre_closure_lane_t *lane, const cadre_closure_t *closure)
{
    if (closure->tag != CADRE_TAG_NONE) {
        return &lane->tagged;
    }
    return closure->id != 0 ? &lane->begun : new_list_of(lane, closure);
}

static size_t *
count_of(cadre_closure_lanes_t *self, const cadre_closure_t *closure)
{
    return closure->tag == CADRE_TAG_NONE ? &self->common : &self->tagged;
}

void
cadre_closure_lanes_fini(cadre_closure_lanes_t *self)
{
    cadre_assert(self->common + self->tagged == 0);
    while (self->count > 0) {
        drop_lane(self, self->lanes[0]);
    }
    free(self->lanes);
    *self = (cadre_closure_lanes_t){.common = 0};
}

/* Makes the closure QUEUED in the lane of its needs, which is made where there is none. Returns the
 * list of that lane which the caller puts it into. */
static cadre_closure_list_t *
enter(cadre_closure_lanes_t *self, cadre_closure_t *closure)
{
    const cadre_needs_t needs = cadre_closure_needs(closure);
    cadre_closure_lane_t *lane = find_lane(self, &needs, closure);
    /* The only lane stays when it is empty, for the next closure; it goes once another is
     * needed. */
    if (!lane && self->count == 1 && !first_of(self->lanes[0])) {
        drop_lane(self, self->lanes[0]);
    }
    if (!lane) {
        lane = add_lane(self, &needs, closure);
    }

    closure->state = CADRE_CLOSURE_QUEUED;
    closure->lane = lane;
    cadre_closure_list_t *list = list_of(lane, closure);
    (*count_of(self, closure))++;
    self->begun += list == &lane->begun;
    return list;
}

void
cadre_closure_lanes_push(cadre_closure_lanes_t *self, cadre_closure_t *closure)
{
    closure->order = ++self->last_order;
    cadre_closure_list_push(enter(self, closure), closure);
}

void
cadre_closure_lanes_push_front(cadre_closure_lanes_t *self, cadre_closure_t *closure)
{
    closure->order = --self->first_order;
    cadre_closure_list_push_front(enter(self, closure), closure);
}

/* Takes a queued closure out of its lane. */
void
cadre_closure_lanes_remove(cadre_closure_lanes_t *self, cadre_closure_t *closure)
{
    cadre_assert(closure->state == CADRE_CLOSURE_QUEUED);
    cadre_closure_lane_t *lane = closure->lane;
    cadre_closure_list_t *list = list_of(lane, closure);
    cadre_closure_list_remove(list, closure);
    (*count_of(self, closure))--;
    self->begun -= list == &lane->begun;
    closure->lane = NULL;
    /* The only lane stays, empty: the next closure often needs the same. */
    if (self->count > 1 && !first_of(lane)) {
        drop_lane(self, lane);
    }
}

/* Moves the queued closures of a group (NULL: those in no group) to the end of `list`. */
void
cadre_closure_lanes_move(cadre_closure_lanes_t *self, const cadre_closure_group_t *group,
                         cadre_closure_list_t *list)
{
    for (size_t i = self->count;
         i-- > 0;) { /* the last one takes the place of one that is dropped */
        cadre_closure_lane_t *lane = self->lanes[i];
        const size_t begun = cadre_closure_list_move(&lane->begun, group, list);
        self->begun -= begun;
        self->common -= begun;
        self->common -= cadre_closure_list_move(&lane->ready, group, list);
        self->common -= cadre_closure_list_move(&lane->common, group, list);
        self->tagged -= cadre_closure_list_move(&lane->tagged, group, list);
        if (self->count > 1 && !first_of(lane)) {
            drop_lane(self, lane);
        }
    }
}

static bool
is_below(const cadre_closure_t *closure, uint64_t below)
{
    if (below == CADRE_QUEUE_TRIED_ONLY) {
        return closure->attempt > 0;
    }
    if (below == CADRE_QUEUE_NUMBERED) {
        return closure->id != 0;
    }
    return below == CADRE_QUEUE_NEW_TOO || (closure->number != 0 && closure->number < below);
}

/* Returns whether a closure may be handed out: it is not one that is tried apart, the filter lets
 * it, and it is among those that `below` says. */
static bool
may_go(const cadre_closure_t *closure, uint64_t below, const cadre_closure_filter_t *filter)
{
    return !cadre_closure_is_apart(closure) && !cadre_closure_is_kept_back(closure, filter) &&
           is_below(closure, below);
}

/* Returns the first closure of the lane that is tagged for this worker and may go; NULL: none. */
static cadre_closure_t *
first_tagged(const cadre_closure_lane_t *lane, uint32_t worker, uint64_t below,
             const cadre_closure_filter_t *filter)
{
    cadre_closure_t *closure = lane->tagged.first;
    while (closure && (closure->tag != worker || !may_go(closure, below, filter))) {
        closure = closure->next;
    }
    return closure;
}

/* Returns the closure, or NULL when the filter keeps it back. The filter then keeps back its whole
 * lane: all closures of a lane have the same function. */
static cadre_closure_t *
unless_kept_back(cadre_closure_t *closure, const cadre_closure_filter_t *filter)
{
    return closure && cadre_closure_is_kept_back(closure, filter) ? NULL : closure;
}

cadre_closure_t *
cadre_closure_lane_begun(const cadre_closure_lane_t *self, uint64_t below,
                         const cadre_closure_filter_t *filter)
{
    cadre_closure_t *closure = self->begun.first;
    while (closure && !may_go(closure, below, filter)) {
        closure = closure->next;
    }
    return closure;
}

/* Returns the first closure of the lane that has neither id nor tag and passes the filter: those
 * whose arguments have become ready come first. */
static cadre_closure_t *
first_new(const cadre_closure_lane_t *lane, const cadre_closure_filter_t *filter)
{
    cadre_closure_t *ready = unless_kept_back(lane->ready.first, filter);
    return ready ? ready : unless_kept_back(lane->common.first, filter);
}

/* Returns the first closure of the lane that is for any worker (common), is among those that
 * `below` says, and passes the filter; CADRE_QUEUE_NEW_TOO: one without an id, too. Closures that
 * have an id come first; those that must run alone (`apart`) are skipped. */
static cadre_closure_t *
first_common(const cadre_closure_lane_t *lane, uint64_t below, const cadre_closure_filter_t *filter)
{
    cadre_closure_t *closure = cadre_closure_lane_begun(lane, below, filter);
    return closure || below != CADRE_QUEUE_NEW_TOO ? closure : first_new(lane, filter);
}

/* Returns the rank of a priority: high 0, normal 1, low 2. */
static int
place_of(cadre_priority_t priority)
{
    switch (priority) {
    case CADRE_PRIORITY_HIGH:
        return 0;
    case CADRE_PRIORITY_NORMAL:
        return 1;
    case CADRE_PRIORITY_LOW:
        break;
    }
    return 2;
}

/* Returns the rank of a closure, lower first: tagged closures, then those that a worker was given
 * before, then new ones. Priority orders tagged closures and new ones; among new ones of a priority
 * those that have an id already, and those whose arguments are ready, come first. */
static int
rank_of(const cadre_closure_t *closure)
{
    enum { BEGUN = 3, NEW = 4 }; /* after the three priorities of tagged closures */
    const int place = place_of(closure->priority);
    if (closure->tag != CADRE_TAG_NONE) {
        return place;
    }
    if (closure->attempt > 0) {
        return BEGUN;
    }
    return NEW + 2 * place + (closure->id != 0 || closure->argument_count > 0 ? 0 : 1);
}

/* Returns which of two closures of different lanes comes first, by rank and then by order; one may
 * be NULL. */
static cadre_closure_t *
earlier(cadre_closure_t *left, cadre_closure_t *right)
{
    if (!left || !right) {
        return left ? left : right;
    }
    int left_rank = rank_of(left);
    int right_rank = rank_of(right);
    if (left_rank != right_rank) {
        return left_rank < right_rank ? left : right;
    }
    return left->order < right->order ? left : right;
}

/* Returns the closure that comes first for this worker, over all lanes whose needs the worker
 * meets. */
cadre_closure_t *
cadre_closure_lanes_next(const cadre_closure_lanes_t *self, uint32_t worker, uint64_t below,
                         const cadre_abilities_t *abilities, const cadre_closure_filter_t *filter)
{
    cadre_closure_t *next = NULL;
    for (size_t i = 0; i < self->count; i++) {
        const cadre_closure_lane_t *lane = self->lanes[i];
        if (cadre_abilities_meet(abilities, &lane->needs)) {
            cadre_closure_t *closure = first_tagged(lane, worker, below, filter);
            next = earlier(next, closure ? closure : first_common(lane, below, filter));
        }
    }
    return next;
}

cadre_closure_t *
cadre_closure_lanes_new(const cadre_closure_lanes_t *self, const cadre_abilities_t *abilities,
                        const cadre_closure_filter_t *filter)
{
    cadre_closure_t *next = NULL;
    for (size_t i = 0; i < self->count; i++) {
        const cadre_closure_lane_t *lane = self->lanes[i];
        if (cadre_abilities_meet(abilities, &lane->needs)) {
            next = earlier(next, first_new(lane, filter));
        }
    }
    return next;
}

void
cadre_closure_lanes_note_id(cadre_closure_lanes_t *self, cadre_closure_t *closure)
{
    cadre_assert(closure->state == CADRE_CLOSURE_QUEUED && closure->id != 0 &&
                 closure->tag == CADRE_TAG_NONE);
    cadre_closure_lane_t *lane = closure->lane;
    cadre_closure_list_remove(new_list_of(lane, closure), closure);
    cadre_closure_list_push(&lane->begun, closure);
    self->begun++;
}

cadre_closure_t *
cadre_closure_lanes_any(const cadre_closure_lanes_t *self)
{
    /* A lane is empty only when it is the only one: no need to look at others. */
    return self->count > 0 ? first_of(self->lanes[self->count - 1]) : NULL;
}

/* Returns a queued closure that uses this resource; NULL: none. */
cadre_closure_t *
cadre_closure_lanes_naming(const cadre_closure_lanes_t *self, uint64_t resource)
{
    for (size_t i = 0; i < self->count; i++) {
        const cadre_needs_t *needs = &self->lanes[i]->needs;
        for (size_t k = 0; k < needs->resource_count; k++) {
            if (needs->resources[k] == resource) {
                return first_of(self->lanes[i]);
            }
        }
    }
    return NULL;
}

/* --- closures that no worker can run --- */

/* Notes that a closure which no worker can run waits. Returns whether such closures have waited for
 * `limit_ms`. */
bool
cadre_unserved_for_long(cadre_unserved_t *self, uint64_t now_ms, uint64_t limit_ms)
{
    if (!self->waits) {
        *self = (cadre_unserved_t){.waits = true, .since_ms = now_ms};
    }
    return now_ms - self->since_ms >= limit_ms;
}

void
cadre_unserved_end(cadre_unserved_t *self)
{
    self->waits = false;
}

/* Returns the first tagged closure of the lane that its worker, which is connected, cannot run;
 * NULL: none. */
static const cadre_closure_t *
first_unserved_tagged(const cadre_closure_lane_t *lane, cadre_is_unserved_t *is_unserved,
                      const void *context)
{
    const cadre_closure_t *closure = lane->tagged.first;
    while (closure && !is_unserved(context, &lane->needs, closure->tag)) {
        closure = closure->next;
    }
    return closure;
}

/* Returns a closure that no worker could run for `limit_ms`; NULL: none. Of the common closures of
 * a lane one stands for all, as all need the same. */
cadre_closure_t *
cadre_closure_lanes_unserved(cadre_closure_lanes_t *self, cadre_is_unserved_t *is_unserved,
                             const void *context, uint64_t now_ms, uint64_t limit_ms)
{
    const cadre_closure_t *found = NULL;
    for (size_t i = 0; i < self->count; i++) {
        cadre_closure_lane_t *lane = self->lanes[i];
        const cadre_closure_t *common = first_common_of(lane);
        const cadre_closure_t *tagged = first_unserved_tagged(lane, is_unserved, context);

        common = common && is_unserved(context, &lane->needs, CADRE_TAG_NONE) ? common : NULL;
        /* the time starts again once a worker can run them */
        lane->common_unserved.waits = lane->common_unserved.waits && common;
        lane->tagged_unserved.waits = lane->tagged_unserved.waits && tagged;
        if (common && cadre_unserved_for_long(&lane->common_unserved, now_ms, limit_ms)) {
            found = common;
        }
        if (tagged && cadre_unserved_for_long(&lane->tagged_unserved, now_ms, limit_ms)) {
            found = tagged;
        }
    }

    /* The cast away of const is safe: the closure is in one of our own lists. */
    return (cadre_closure_t *)(uintptr_t)found;
}
