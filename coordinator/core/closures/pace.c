#include "coordinator/core/closures/pace.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"

void
cadre_pace_init(cadre_pace_t *self, cadre_consistency_t consistency, uint32_t size, uint32_t bound)
{
    const bool is_bounded = consistency == CADRE_BOUNDED;
    *self =
        (cadre_pace_t){.consistency = consistency, .size = size, .slack = is_bounded ? bound : 0};
}

void
cadre_pace_fini(cadre_pace_t *self)
{
    free(self->groups);
    *self = (cadre_pace_t){0};
}

void
cadre_pace_set_serial(cadre_pace_t *self, uint64_t ahead)
{
    cadre_assert(self->consistency == CADRE_SYNC && self->size == 1);
    self->is_serial = true;
    self->slack = ahead;
}

/* --- groups --- */

static cadre_pace_group_t *
newest(const cadre_pace_t *self)
{
    return self->count > 0 ? &self->groups[self->first + self->count - 1] : NULL;
}

/* Returns the group with this number, which must not be over. */
static cadre_pace_group_t *
find(const cadre_pace_t *self, uint64_t turn)
{
    const cadre_pace_group_t *oldest = &self->groups[self->first];
    cadre_assert(self->count > 0 && turn >= oldest->number && turn <= self->last);
    return &self->groups[self->first + (size_t)(turn - oldest->number)];
}

/* Appends a group with the next number. Room at the front, of groups that are over, is used again
 * before the array grows. */
static cadre_pace_group_t *
add(cadre_pace_t *self, bool is_step)
{
    if (self->first > 0 && self->first + self->count == self->capacity) {
        memmove(self->groups, self->groups + self->first, self->count * sizeof(*self->groups));
        self->first = 0;
    }
    self->groups =
        cadre_grow(self->groups, self->first + self->count, &self->capacity, sizeof(*self->groups));
    self->count++;
    cadre_pace_group_t *group = newest(self);
    *group = (cadre_pace_group_t){.number = ++self->last, .is_step = is_step};
    return group;
}

/* Takes out the groups at the front that are over. An open group is not over: it may get more
 * closures. */
static void
settle(cadre_pace_t *self)
{
    while (self->count > 0) {
        const cadre_pace_group_t *oldest = &self->groups[self->first];
        if (!oldest->is_closed || oldest->remaining > 0 || oldest->held > 0) {
            return;
        }
        self->alone_count -= oldest->is_alone;
        self->first++;
        self->count--;
    }
    self->first = 0;
}

/* --- closures --- */

/* Returns whether a new closure belongs to the newest group. One that takes a result of a closure
 * of the same step does not: that closure's updates count only when the step has ended. */
static bool
belongs_to(const cadre_pace_group_t *group, bool is_step, uint64_t after)
{
    return group && !group->is_closed && group->is_step == is_step &&
           !(is_step && after == group->number);
}

/* Counts a new closure in the newest group, or in another behind it, and returns the group's
 * number: the closure's turn. 0 in asynchronous jobs, which have no groups. */
uint64_t
cadre_pace_enter(cadre_pace_t *self, bool may_push, uint64_t after)
{
    if (self->consistency == CADRE_ASYNC) {
        return 0;
    }
    const bool is_step = self->consistency == CADRE_SYNC && may_push;
    cadre_pace_group_t *group = newest(self);
    if (!belongs_to(group, is_step, after)) {
        if (group) {
            group->is_closed = true;
        }
        group = add(self, is_step);
    }
    group->size++;
    group->remaining++;
    /* a bounded job has one closure in each group; groups between steps have no limit */
    const uint32_t most = is_step ? self->size : UINT32_MAX;
    group->is_closed = self->consistency == CADRE_BOUNDED || group->size == most;
    const uint64_t turn = group->number;
    settle(self);
    return turn;
}

/* Notes that the group of this turn is alone. */
void
cadre_pace_note_alone(cadre_pace_t *self, uint64_t turn)
{
    if (turn > 0) {
        cadre_pace_group_t *group = find(self, turn);
        self->alone_count += !group->is_alone;
        group->is_alone = true;
    }
}

bool
cadre_pace_is_step(const cadre_pace_t *self, uint64_t turn)
{
    return turn > 0 && !self->is_serial && find(self, turn)->is_step;
}

void
cadre_pace_note_begun(cadre_pace_t *self, uint64_t turn)
{
    if (turn > 0) {
        find(self, turn)->is_begun = true;
    }
}

/* Counts the end of a closure that was not held; its group may be over by that. */
void
cadre_pace_leave(cadre_pace_t *self, uint64_t turn)
{
    if (turn > 0) {
        cadre_pace_group_t *group = find(self, turn);
        cadre_assert(group->remaining > 0);
        group->remaining--;
        settle(self);
    }
}

void
cadre_pace_hold(cadre_pace_t *self, uint64_t turn)
{
    cadre_pace_group_t *group = find(self, turn);
    cadre_assert(group->is_step && group->remaining > 0);
    group->remaining--;
    group->held++;
}

void
cadre_pace_unhold(cadre_pace_t *self, uint64_t turn)
{
    cadre_pace_group_t *group = find(self, turn);
    cadre_assert(group->held > 0);
    group->held--;
    group->remaining++;
}

/* Closes the step that is being filled: it ends with the closures that it has. */
void
cadre_pace_cut_short(cadre_pace_t *self)
{
    cadre_pace_group_t *group = newest(self);
    if (group && group->is_step) {
        group->is_closed = true;
        settle(self);
    }
}

/* --- what may start, and which step can be applied --- */

size_t
cadre_pace_held_for_open(const cadre_pace_t *self)
{
    const cadre_pace_group_t *oldest = self->count > 0 ? &self->groups[self->first] : NULL;
    return oldest && !oldest->is_closed ? oldest->held : 0;
}

/* Returns the number of the oldest group where it is a step that can be applied: it gets no more
 * closures, all have ended or are held, and at least one is held. 0: there is none. */
uint64_t
cadre_pace_whole_step(const cadre_pace_t *self)
{
    const cadre_pace_group_t *oldest = self->count > 0 ? &self->groups[self->first] : NULL;
    bool is_whole = oldest && oldest->is_closed && oldest->remaining == 0 && oldest->held > 0;
    return is_whole ? oldest->number : 0;
}

void
cadre_pace_end_step(cadre_pace_t *self)
{
    cadre_assert(cadre_pace_whole_step(self) > 0);
    self->groups[self->first].held = 0;
    settle(self);
}

/* Returns the turn behind which nothing may start because of a group that is alone: its own where
 * it is the oldest, else the one before it. */
static uint64_t
limit_of_alone(const cadre_pace_t *self)
{
    const cadre_pace_group_t *oldest = &self->groups[self->first];
    for (size_t i = 0; i < self->count; i++) {
        if (oldest[i].is_alone) {
            return oldest[i].number - (i > 0);
        }
    }
    return UINT64_MAX;
}

uint64_t
cadre_pace_limit(const cadre_pace_t *self)
{
    if (self->count == 0) {
        return UINT64_MAX;
    }
    const uint64_t limit = self->groups[self->first].number + self->slack;
    return self->alone_count > 0 ? cadre_min_u64(limit, limit_of_alone(self)) : limit;
}

/* Returns whether no step is under way: none has begun without being over. */
bool
cadre_pace_is_between_steps(const cadre_pace_t *self)
{
    if (self->consistency != CADRE_SYNC || self->is_serial || self->count == 0) {
        return true; /* no update waits for the end of a step */
    }
    const cadre_pace_group_t *oldest = &self->groups[self->first];
    return !oldest->is_step || !oldest->is_begun || oldest->remaining + oldest->held == 0;
}
