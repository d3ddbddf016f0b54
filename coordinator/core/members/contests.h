/*
 * contests - tasks that say HELLO for a place which another task holds, and since when they do.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A place is not handed over because a task asks for it: that would let one HELLO, by mistake or by
 * malice, end a healthy task. It is handed over when its holder is gone or silent; until that is
 * known, the newcomer gets no answer and asks again.
 */
#ifndef CADRE_COORDINATOR_CORE_MEMBERS_CONTESTS_H
#define CADRE_COORDINATOR_CORE_MEMBERS_CONTESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/task.h"

/* Most contests at once; for one more the oldest is forgotten, whose task begins again. */
enum { CADRE_CONTESTS_MAX = 64 };

typedef struct {
    cadre_task_t task;
    uint64_t since_ms;
} cadre_contest_t;

typedef struct {
    cadre_contest_t items[CADRE_CONTESTS_MAX];
    size_t count;
} cadre_contests_t;

/* Returns since when `task` has asked for a place; adds it, with `now_ms`, if it is new. */
uint64_t cadre_contests_since(cadre_contests_t *self, const cadre_task_t *task, uint64_t now_ms);

/* Excuses all contests for `ms`, in which the coordinator heard nobody, neither newcomers nor
 * holders: moves the begin of each by that much, to `now_ms` at the latest. */
void cadre_contests_excuse(cadre_contests_t *self, uint64_t ms, uint64_t now_ms);

/* Forgets the contest of a task whose HELLO was answered. */
void cadre_contests_forget(cadre_contests_t *self, uint64_t incarnation);

/* Takes out the oldest contest, and gives its task; false when there is none. */
bool cadre_contests_pop(cadre_contests_t *self, cadre_task_t *task);

#endif
