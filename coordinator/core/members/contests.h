/*
 * contests - HELLOs for a place that another task holds, and since when they are said.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A place is not handed over because somebody asks for it: that would let one HELLO, by mistake or
 * by malice, end a healthy task. It is when its holder is gone or silent; until that is known, the
 * newcomer gets no answer and asks again.
 */
#ifndef CADRE_COORDINATOR_CORE_MEMBERS_CONTESTS_H
#define CADRE_COORDINATOR_CORE_MEMBERS_CONTESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/task.h"

enum { CADRE_CONTESTS_MAX = 64 }; /* at once; beyond it the one that began first is restarted */

typedef struct {
    cadre_task_t task;
    uint64_t since_ms;
} cadre_contest_t;

typedef struct {
    cadre_contest_t items[CADRE_CONTESTS_MAX];
    size_t count;
} cadre_contests_t;

/* Returns since when `task` asks, which is `now_ms` when it was not known. */
uint64_t cadre_contests_since(cadre_contests_t *self, const cadre_task_t *task, uint64_t now_ms);

/* Nobody could be heard for `ms`, neither who asks nor who holds the place: all of them ask since
 * that much later, `now_ms` at the latest. */
void cadre_contests_excuse(cadre_contests_t *self, uint64_t ms, uint64_t now_ms);

/* Forgets a task that has been answered. */
void cadre_contests_forget(cadre_contests_t *self, uint64_t incarnation);

/* Takes one out; false when there is none. */
bool cadre_contests_pop(cadre_contests_t *self, cadre_task_t *task);

#endif
