#include "coordinator/core/members/membership.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"

void
cadre_membership_init(cadre_membership_t *self, uint32_t ps_count)
{
    *self = (cadre_membership_t){.ps_count = ps_count};
    self->ps = cadre_calloc(ps_count, sizeof(*self->ps));
    self->ps_last = cadre_calloc(ps_count, sizeof(*self->ps_last));
}

/* Frees a member with its texts and lists. */
static void
destroy(cadre_member_t *member)
{
    free(member->host);
    free(member->address);
    free(member->devices);
    free(member->acks);
    free(member->overdue);
    cadre_abilities_fini(&member->abilities);
    free(member->waits);
    free(member->tables);
    free(member);
}

/* Frees all members and lists. No closure may be in flight on a member. */
void
cadre_membership_fini(cadre_membership_t *self)
{
    cadre_member_t *member = NULL;
    for (size_t cursor = 0; (member = cadre_u64_map_next(&self->members, &cursor));) {
        destroy(member);
    }

    cadre_u64_map_fini(&self->members);
    free(self->ps);
    free(self->ps_last);
    free(self->workers);
    free(self->worker_last);
    free(self->records);
    free(self->died);
    *self = (cadre_membership_t){0};
}

cadre_member_t *
cadre_membership_find(const cadre_membership_t *self, uint64_t incarnation)
{
    return cadre_u64_map_get(&self->members, incarnation);
}

cadre_member_t *
cadre_membership_worker_at(const cadre_membership_t *self, uint32_t index)
{
    return index < self->worker_capacity ? self->workers[index] : NULL;
}

/* Returns whether another process has taken this one's place: then it may not join again. */
static bool
was_replaced(const cadre_membership_t *self, uint64_t incarnation)
{
    size_t count = self->replaced_at < CADRE_REPLACED_MAX ? self->replaced_at : CADRE_REPLACED_MAX;
    for (size_t i = 0; i < count; i++) {
        if (self->replaced[i] == incarnation) {
            return true;
        }
    }
    return false;
}

/* Returns the member that holds the place which a newcomer insists on; NULL: nobody, or the
 * newcomer is a member, was replaced, or takes any place. */
cadre_member_t *
cadre_membership_occupant(const cadre_membership_t *self, const cadre_task_t *from,
                          const cadre_hello_message_t *hello)
{
    cadre_member_t *holder = NULL;
    if (from->index != hello->index || cadre_membership_find(self, from->incarnation)) {
        return NULL;
    }

    if (from->role == CADRE_ROLE_PS && hello->index < self->ps_count) {
        holder = self->ps[hello->index];
    } else if (from->role == CADRE_ROLE_WORKER && hello->index < self->worker_capacity) {
        holder = self->workers[hello->index];
    }

    return was_replaced(self, from->incarnation) ? NULL : holder;
}

/* Notes that a task which insists on its index has taken the place: the task that did so before
 * counts as replaced and may not come back. */
static void
insist(cadre_membership_t *self, uint64_t *last, const cadre_task_t *task)
{
    if (task->index == CADRE_INDEX_ANY) {
        return;
    }
    if (*last && *last != task->incarnation) {
        self->replaced[self->replaced_at++ % CADRE_REPLACED_MAX] = *last;
    }
    *last = task->incarnation;
}

/* Makes room in the lists for worker number `index`. */
static void
grow_workers(cadre_membership_t *self, uint32_t index)
{
    if (index < self->worker_capacity) {
        return;
    }

    uint32_t capacity = self->worker_capacity ? self->worker_capacity : 8;
    while (capacity <= index) {
        capacity *= 2;
    }

    self->workers = cadre_realloc(self->workers, capacity, sizeof(*self->workers));
    self->worker_last = cadre_realloc(self->worker_last, capacity, sizeof(*self->worker_last));
    self->records = cadre_realloc(self->records, capacity, sizeof(*self->records));
    self->died = cadre_realloc(self->died, capacity, sizeof(*self->died));
    for (uint32_t i = self->worker_capacity; i < capacity; i++) {
        self->workers[i] = NULL;
        self->records[i] = (cadre_record_t){.deaths = 0};
        self->died[i] = 0;
        self->worker_last[i] = 0;
    }

    self->worker_capacity = capacity;
}

/* Returns the first place that no task has; `count` when there is none. */
static uint32_t
free_index(cadre_member_t *const *places, uint32_t count)
{
    uint32_t index = 0;
    while (index < count && places[index]) {
        index++;
    }
    return index;
}

/* Returns whether a task that does not insist on a place must be given one: it had none, or another
 * task has that place by now. */
static bool
needs_place(const cadre_member_t *member, uint64_t index, cadre_member_t *const *places,
            uint32_t count)
{
    bool taken = index < count && places[index];
    return member->task.index == CADRE_INDEX_ANY && (index == CADRE_INDEX_ANY || taken);
}

/* Gives a ps the place that it asks for; a free place if it has no index of its own
 * (CADRE_INDEX_ANY) and asks for none, or for one that is taken. */
static int
take_ps_place(cadre_membership_t *self, cadre_member_t *member, uint64_t index)
{
    if (needs_place(member, index, self->ps, self->ps_count)) {
        index = free_index(self->ps, self->ps_count);
        if (index == self->ps_count) {
            return cadre_fail(CADRE_EFULL, "all %u ps of the job are there", self->ps_count);
        }
    }

    if (index >= self->ps_count) {
        return cadre_fail(CADRE_EINVALID, "ps index %" PRIu64 " in a job of %u ps", index,
                          self->ps_count);
    }

    cadre_assert(!self->ps[index]);
    self->ps[index] = member;
    insist(self, &self->ps_last[index], &member->task);
    self->ps_joined++;
    member->index = (uint32_t)index;
    return 0;
}

/* Gives a worker the place that it asks for, as take_ps_place does; takes its death back if it had
 * counted as dead. */
static int
take_worker_place(cadre_membership_t *self, cadre_member_t *member, uint64_t index)
{
    if (needs_place(member, index, self->workers, self->worker_capacity)) {
        index = free_index(self->workers, self->worker_capacity);
    }

    if (index >= CADRE_TASKS_MAX) {
        return cadre_fail(CADRE_EINVALID, "worker index %" PRIu64 " is not below %d", index,
                          CADRE_TASKS_MAX);
    }

    grow_workers(self, (uint32_t)index);
    cadre_assert(!self->workers[index]);
    self->workers[index] = member;
    insist(self, &self->worker_last[index], &member->task);
    self->worker_count++;
    /* The process had counted as dead, but was only cut off. */
    if (self->died[index] == member->task.incarnation) {
        self->records[index].deaths--;
        self->died[index] = 0;
    }

    if (index >= self->worker_places) {
        self->worker_places = (uint32_t)index + 1;
    }

    member->index = (uint32_t)index;
    return 0;
}

/* Gives a new member its place, by role and index. */
static int
take_place(cadre_membership_t *self, cadre_member_t *member, const cadre_hello_message_t *hello)
{
    const cadre_task_t *task = &member->task;
    bool open = task->index == CADRE_INDEX_ANY;
    if (hello->role != task->role || (!open && hello->index != task->index)) {
        return cadre_fail(CADRE_EINVALID, "%s %" PRIu32 " says that it is %s %" PRIu64,
                          cadre_role_text(task->role), task->index,
                          cadre_role_text((cadre_role_t)hello->role), hello->index);
    }

    if (task->role == CADRE_ROLE_PS) {
        return take_ps_place(self, member, hello->index);
    }
    if (task->role == CADRE_ROLE_WORKER) {
        return take_worker_place(self, member, hello->index);
    }

    return cadre_fail(CADRE_EINVALID, "role %s does not join", cadre_role_text(task->role));
}

static void
set_text(char **text, const char *value)
{
    free(*text);
    *text = cadre_strdup(value);
}

/* Adds a task that is no member yet. CADRE_EFENCED if it was replaced, CADRE_EFULL if the job has
 * CADRE_TASKS_MAX tasks, or why it gets no place. */
static int
add_member(cadre_membership_t *self, const cadre_task_t *from, const cadre_hello_message_t *hello,
           uint64_t now_ms, cadre_member_t **out)
{
    if (was_replaced(self, from->incarnation)) {
        return cadre_fail(CADRE_EFENCED, "a newer process has taken the place of this one");
    }
    if (self->members.count >= CADRE_TASKS_MAX) {
        return cadre_fail(CADRE_EFULL, "the job has %d tasks, the most there can be",
                          CADRE_TASKS_MAX);
    }

    cadre_member_t *member = cadre_calloc(1, sizeof(*member));
    member->task = *from;
    member->joined_ms = now_ms;
    int status = take_place(self, member, hello);
    if (status < 0) {
        destroy(member);
        return status;
    }
    cadre_u64_map_put(&self->members, from->incarnation, member);
    *out = member;
    return 0;
}

/* Adds the sender of a HELLO as a member, or brings the member up to date. */
int
cadre_membership_join(cadre_membership_t *self, const cadre_task_t *from,
                      const cadre_hello_message_t *hello, uint64_t now_ms, cadre_member_t **out)
{
    cadre_member_t *member = cadre_membership_find(self, from->incarnation);
    int status = member ? 0 : add_member(self, from, hello, now_ms, &member);
    if (status < 0) {
        return status;
    }

    set_text(&member->host, hello->host);
    set_text(&member->address, hello->address);
    set_text(&member->devices, hello->devices);
    member->process = (uint32_t)hello->process;
    member->slots = hello->slots ? (uint32_t)hello->slots : 1;
    cadre_membership_heard(member, now_ms);
    *out = member;
    return 0;
}

/* Adds the life of a worker that goes to the record of its place, and its death if it died. */
void
cadre_membership_note_end(cadre_membership_t *self, const cadre_member_t *member, uint64_t now_ms,
                          bool died)
{
    cadre_record_t *record = &self->records[member->index];
    record->lived_ms += now_ms - member->joined_ms;
    if (died) {
        record->deaths++;
        self->died[member->index] = member->task.incarnation;
    }
}

/* Takes a member out and frees it. No closure may be in flight on it. */
void
cadre_membership_remove(cadre_membership_t *self, cadre_member_t *member)
{
    cadre_assert(member->in_flight.count == 0);
    if (member->task.role == CADRE_ROLE_PS) {
        self->ps[member->index] = NULL;
        self->ps_joined--;
    } else {
        self->workers[member->index] = NULL;
        self->worker_count--;
    }

    cadre_u64_map_take(&self->members, member->task.incarnation);
    destroy(member);
}

void
cadre_membership_heard(cadre_member_t *member, uint64_t now_ms)
{
    member->heard_ms = now_ms;
    member->suspect = false;
    member->kept = false;
}

void
cadre_membership_note_terms(cadre_member_t *member, uint32_t protocol, uint64_t key)
{
    member->protocol = protocol;
    member->key = key;
}

void
cadre_membership_note_hello(cadre_member_t *worker, uint64_t round, uint64_t now_ms)
{
    worker->round = round;
    worker->hello_ms = now_ms;
}

/* Takes what a ps holds of tables; what is incomplete at the end of the list is left out. */
static void
take_tables(cadre_member_t *ps, cadre_u64s_t tables)
{
    ps->table_items = tables.count - tables.count % (1 + CADRE_TABLE_COUNTER_COUNT);
    if (ps->table_items > 0) {
        ps->tables = cadre_realloc(ps->tables, ps->table_items, sizeof(*ps->tables));
        memcpy(ps->tables, tables.items, ps->table_items * sizeof(*ps->tables));
    }
}

/* Takes the counters of a heartbeat; false, and nothing taken, when a later one was taken
 * before. */
bool
cadre_membership_note_heartbeat(cadre_member_t *member, const cadre_heartbeat_message_t *heartbeat)
{
    if (heartbeat->sequence <= member->heartbeat) {
        return false;
    }
    member->heartbeat = heartbeat->sequence;
    for (size_t i = 0; i < heartbeat->counters.count && i < CADRE_COUNT_OF(member->counters); i++) {
        member->counters[i] = heartbeat->counters.items[i];
    }
    take_tables(member, heartbeat->tables);
    return true;
}

void
cadre_membership_drain(cadre_member_t *worker)
{
    worker->draining = true;
}

void
cadre_membership_ask_to_drain(cadre_member_t *worker)
{
    worker->draining = true;
    worker->drain_asked = true;
}

/* Keeps a member whose connection has closed until `until_ms`, by which it has to be heard; it gets
 * no work meanwhile. */
void
cadre_membership_keep(cadre_member_t *member, uint64_t until_ms)
{
    /* the first close counts: later ones give no more time */
    if (!member->kept && until_ms > member->heard_ms) {
        member->heard_ms = until_ms;
    }
    member->kept = true;
    member->suspect = true;
}

/* Counts every member as heard `ms` later, since the coordinator stood still for so long; not later
 * than now. A kept member's time may lie ahead of now, by what it has to reconnect. */
void
cadre_membership_excuse(cadre_membership_t *self, uint64_t ms, uint64_t now_ms)
{
    cadre_member_t *member = NULL;
    for (size_t cursor = 0; (member = cadre_u64_map_next(&self->members, &cursor));) {
        uint64_t heard_ms = member->heard_ms + ms;
        uint64_t last_ms = member->kept ? now_ms + CADRE_MUTE_MS : now_ms;
        last_ms = member->heard_ms > last_ms ? member->heard_ms : last_ms;
        member->heard_ms = heard_ms < last_ms ? heard_ms : last_ms;
    }
}

/* Returns a member that was silent for its lease; NULL: none. Marks those that are silent for
 * CADRE_SUSPECT_MS as suspect. The members are looked at only when one may be due (`look_ms`), as
 * there may be thousands. */
cadre_member_t *
cadre_membership_expired(cadre_membership_t *self, uint64_t now_ms, uint64_t lease_ms,
                         uint64_t *due_ms)
{
    uint64_t suspect_ms = lease_ms < CADRE_SUSPECT_MS ? lease_ms : CADRE_SUSPECT_MS;
    cadre_member_t *member = NULL;

    if (self->members.count == 0) {
        self->look_ms = 0;
        *due_ms = UINT64_MAX;
        return NULL;
    }

    *due_ms = self->look_ms;
    if (now_ms < self->look_ms) {
        return NULL; /* members that were heard meanwhile are due even later */
    }

    /* returning a member, the next call looks at all again */
    self->look_ms = now_ms;
    uint64_t look_ms = now_ms + suspect_ms; /* when the next member may become suspect */
    for (size_t cursor = 0; (member = cadre_u64_map_next(&self->members, &cursor));) {
        if (now_ms >= member->heard_ms + lease_ms) {
            return member;
        }
        member->suspect = member->kept || now_ms >= member->heard_ms + suspect_ms;
        uint64_t next_ms = member->heard_ms + (member->suspect ? lease_ms : suspect_ms);
        look_ms = next_ms < look_ms ? next_ms : look_ms;
    }

    self->look_ms = look_ms;
    *due_ms = look_ms;
    return NULL;
}

/* Returns how long all workers so far have lived, and how many of them died. */
static cadre_record_t
record_of_all(const cadre_membership_t *self, uint64_t now_ms)
{
    cadre_record_t all = {.deaths = 0};
    for (uint32_t i = 0; i < self->worker_capacity; i++) {
        const cadre_member_t *member = self->workers[i];
        all.lived_ms += self->records[i].lived_ms;
        all.lived_ms += member ? now_ms - member->joined_ms : 0;
        all.deaths += self->records[i].deaths;
    }
    return all;
}

/* Returns what suspicion has to know of a worker's death: how long it had the suspect, and how long
 * workers in its place and in all live. */
cadre_death_t
cadre_membership_death(const cadre_membership_t *self, const cadre_member_t *worker,
                       uint64_t since_ms, uint64_t now_ms)
{
    cadre_death_t death = {.index = worker->index,
                           .process = worker->process,
                           .incarnation = worker->task.incarnation,
                           .host = worker->host,
                           .had_ms = now_ms - since_ms,
                           .place = self->records[worker->index],
                           .all = record_of_all(self, now_ms)};
    death.place.lived_ms += now_ms - worker->joined_ms;
    return death;
}

bool
cadre_member_is_alone(const cadre_member_t *worker, uint64_t now_ms)
{
    return (worker->trial || worker->trial_closure) && now_ms < worker->alone_until_ms;
}

const char *
cadre_member_name(const cadre_member_t *member, char text[32])
{
    snprintf(text, 32, "%s %u", cadre_role_text(member->task.role), member->index);
    return text;
}
