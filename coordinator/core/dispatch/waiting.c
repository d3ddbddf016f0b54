#include "coordinator/core/dispatch/waiting.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    NAMED_MS = 5000,   /* a text names closures that have been running for so long */
    NAMED_MAX = 4,     /* most closures on workers that a text names */
    LOOKED_MAX = 1000, /* closures of a list at which a call looks for one to name */
};

/* Writes that no new closure is begun until a checkpoint is committed; while checkpoints fail also
 * why, as somebody has to see to that. */
static const char *
room_words(const cadre_checkpoint_t *checkpoint, char text[CADRE_WAITING_TEXT_SIZE])
{
    bool fails = checkpoint->last_status < 0;
    snprintf(text, CADRE_WAITING_TEXT_SIZE,
             "a checkpoint, because the memory for a replay is full%s%s",
             fails ? " and checkpoints fail: " : "", fails ? checkpoint->last_text : "");
    return text;
}

/* Says which closure has run for longest, and for which shard it waits. */
static const char *
longest_words(const cadre_longest_t *longest, const char *otherwise,
              char text[CADRE_WAITING_TEXT_SIZE])
{
    char waits[64] = "";
    if (longest->shard != UINT32_MAX) {
        snprintf(waits, sizeof(waits), ", and waits for ps %u for %" PRIu64 " s", longest->shard,
                 longest->waits_ms / 1000);
    }
    snprintf(text, CADRE_WAITING_TEXT_SIZE,
             "%s; closure %" PRIu64 " (%s) has run on worker %u for %" PRIu64 " s%s", otherwise,
             longest->closure, longest->function, longest->worker, longest->ran_ms / 1000, waits);
    return text;
}

/* Returns what holds up the whole job, in words; `otherwise` where nothing does but what the caller
 * waits for itself. */
const char *
cadre_waiting_words(const cadre_waiting_t *self, const char *otherwise,
                    char text[CADRE_WAITING_TEXT_SIZE])
{
    const char *recovery = cadre_recovery_words(self->recovery, text);
    if (recovery) {
        return recovery;
    }
    if (self->replay->holds && self->checkpoint->enabled) {
        return room_words(self->checkpoint, text);
    }

    uint32_t lost = cadre_reach_lost_shard(self->reach);
    if (lost != UINT32_MAX) {
        snprintf(text, CADRE_WAITING_TEXT_SIZE,
                 "%s; no worker reaches ps %u: see to the network between them", otherwise, lost);
        return text;
    }
    if (!cadre_windows_have_room(self->windows)) {
        return cadre_windows_words(self->windows, text);
    }

    const cadre_longest_t *longest = &self->overruns->longest;
    if (longest->closure && longest->ran_ms >= NAMED_MS) {
        return longest_words(longest, otherwise, text);
    }
    return otherwise;
}

/* --- closures on workers --- */

/* Returns whether the closure is one of those that the call waits for. One that runs again for a
 * replay has ended for the program. */
static bool
is_waited_for(const cadre_closure_t *closure, const cadre_waited_t *waited)
{
    if (closure->kept) {
        return false;
    }
    if (waited->group) {
        return closure->group == waited->group;
    }
    return waited->drop > 0 ? closure->drops < waited->drop : closure->tag == CADRE_TAG_NONE;
}

/* Returns the closure in flight with the lowest id above `id`, of those that are waited for, and
 * sets `count` to how many of them are in flight. */
static const cadre_closure_t *
next_in_flight(const cadre_waiting_t *self, const cadre_waited_t *waited, uint64_t id,
               size_t *count)
{
    const cadre_closure_t *next = NULL;
    *count = 0;
    for (uint32_t i = 0; i < self->members->worker_capacity; i++) {
        const cadre_member_t *worker = self->members->workers[i];
        const cadre_closure_t *closure = worker ? worker->in_flight.first : NULL;
        for (; closure; closure = closure->next) {
            const bool counts = is_waited_for(closure, waited);
            *count += counts;
            if (counts && closure->id > id && (!next || closure->id < next->id)) {
                next = closure;
            }
        }
    }
    return next;
}

/* Returns the closure in flight that gives these results; NULL: there is none. */
static const cadre_closure_t *
find_source(const cadre_waiting_t *self, const cadre_results_t *results)
{
    for (uint32_t i = 0; i < self->members->worker_capacity; i++) {
        const cadre_member_t *worker = self->members->workers[i];
        const cadre_closure_t *closure = worker ? worker->in_flight.first : NULL;
        for (; closure; closure = closure->next) {
            if (closure->results == results) {
                return closure;
            }
        }
    }
    return NULL;
}

/* --- closures on no worker --- */

/* What a closure waits for that has not ended; what comes first says most about what hangs. */
typedef enum {
    FOR_ABSENT,   /* for its worker, which is not there */
    FOR_RESOURCE, /* that no worker has which may run it */
    FOR_ABLE,     /* for a worker that has all that it needs */
    FOR_SHARD,
    FOR_RESULT,
    FOR_TURN,
    FOR_STEP,
    FOR_END,  /* it is on a worker */
    FOR_ROOM, /* on a worker */
} cause_t;

/* Returns whether the closure's tag allows this worker, which may be NULL. */
static bool
is_for(const cadre_closure_t *closure, const cadre_member_t *worker)
{
    return worker && (closure->tag == CADRE_TAG_NONE || closure->tag == worker->index);
}

/* Returns the first resource of the closure that none of its workers has built; NULL: there is
 * none. */
static const cadre_resource_t *
missing_resource(const cadre_waiting_t *self, const cadre_closure_t *closure)
{
    const cadre_membership_t *members = self->members;
    for (size_t i = 0; i < closure->resource_count; i++) {
        bool is_built = false;
        for (uint32_t k = 0; k < members->worker_capacity && !is_built; k++) {
            const cadre_member_t *worker = members->workers[k];
            is_built = is_for(closure, worker) &&
                       cadre_resource_set_has(&worker->abilities.built, closure->resources[i]);
        }
        if (!is_built) {
            return self->catalogue->resources[closure->resources[i] - 1];
        }
    }
    return NULL;
}

/* Returns whether a worker that is there has all that the closure needs. */
static bool
is_able(const cadre_waiting_t *self, const cadre_closure_t *closure)
{
    const cadre_membership_t *members = self->members;
    const cadre_needs_t needs = cadre_closure_needs(closure);
    bool found = members->worker_count == 0;
    for (uint32_t i = 0; i < members->worker_capacity && !found; i++) {
        const cadre_member_t *worker = members->workers[i];
        found = is_for(closure, worker) && cadre_abilities_meet(&worker->abilities, &needs);
    }
    return found;
}

static cause_t
queued_cause(const cadre_waiting_t *self, const cadre_closure_t *closure)
{
    if (closure->tag != CADRE_TAG_NONE &&
        !cadre_membership_worker_at(self->members, closure->tag)) {
        return FOR_ABSENT;
    }
    if (missing_resource(self, closure)) {
        return FOR_RESOURCE;
    }
    return is_able(self, closure) ? FOR_ROOM : FOR_ABLE;
}

static cause_t
cause_of(const cadre_waiting_t *self, const cadre_closure_t *closure)
{
    switch (closure->state) {
    case CADRE_CLOSURE_BLOCKED:
        return FOR_RESULT;
    case CADRE_CLOSURE_LATER:
        return FOR_TURN;
    case CADRE_CLOSURE_ASIDE:
        return FOR_SHARD;
    case CADRE_CLOSURE_HELD:
        return FOR_STEP;
    case CADRE_CLOSURE_NEW:
    case CADRE_CLOSURE_QUEUED:
        break;
    case CADRE_CLOSURE_IN_FLIGHT:
    case CADRE_CLOSURE_ENDED:
        return FOR_END;
    }
    return queued_cause(self, closure);
}

/* List number `at` of those whose closures wait on no worker; NULL: there are no more. */
static const cadre_closure_list_t *
waiting_list(const cadre_closure_queue_t *queue, size_t at)
{
    enum { OTHERS = 3, OF_LANE = 4 };
    const cadre_closure_list_t *others[OTHERS] = {&queue->aside, &queue->blocked, &queue->later};
    if (at < OTHERS) {
        return others[at];
    }
    at -= OTHERS;
    if (at / OF_LANE >= queue->lanes.count) {
        return NULL;
    }
    const cadre_closure_lane_t *lane = queue->lanes.lanes[at / OF_LANE];
    const cadre_closure_list_t *lists[OF_LANE] = {&lane->tagged, &lane->begun, &lane->ready,
                                                  &lane->common};
    return lists[at % OF_LANE];
}

/* Returns the closure on no worker that says most about what hangs, of those that are waited for;
 * NULL: none was found. All of a list wait for the same, but for those with a tag. */
static const cadre_closure_t *
find_waiting(const cadre_waiting_t *self, const cadre_waited_t *waited)
{
    const cadre_closure_t *found = NULL;
    const cadre_closure_list_t *list = NULL;
    for (size_t at = 0; (list = waiting_list(self->queue, at)); at++) {
        const cadre_closure_t *closure = list->first;
        bool is_known = false;
        for (int i = 0; closure && !is_known && i < LOOKED_MAX; i++) {
            if (is_waited_for(closure, waited)) {
                found = !found || cause_of(self, closure) < cause_of(self, found) ? closure : found;
                is_known = closure->tag == CADRE_TAG_NONE;
            }
            closure = closure->next;
        }
    }
    return found;
}

/* Returns how many closures that are waited for have not ended and are on no worker. */
static size_t
count_waiting(const cadre_waiting_t *self, const cadre_waited_t *waited)
{
    if (waited->group) {
        const cadre_group_totals_t *totals = &waited->group->totals;
        return (size_t)(totals->scheduled - totals->finished - totals->failed - totals->cancelled) -
               waited->group->in_flight;
    }
    if (waited->drop == 0) {
        return cadre_closure_queue_waiting(self->queue) + self->queue->common_aside;
    }

    size_t count = 0;
    const cadre_closure_list_t *list = NULL;
    for (size_t at = 0; (list = waiting_list(self->queue, at)); at++) {
        for (const cadre_closure_t *closure = list->first; closure; closure = closure->next) {
            count += is_waited_for(closure, waited);
        }
    }
    return count;
}

/* --- words of one closure --- */

/* Writes id, if it has one, and function of a closure. */
static const char *
name_words(const cadre_waiting_t *self, const cadre_closure_t *closure,
           char text[CADRE_WAITING_TEXT_SIZE])
{
    char id[32] = "";
    if (closure->id != 0) {
        snprintf(id, sizeof(id), " %" PRIu64, closure->id);
    }
    snprintf(text, CADRE_WAITING_TEXT_SIZE, "closure%s (function %s)", id,
             self->catalogue->functions[closure->function - 1]->name);
    return text;
}

/* Writes which closure is on which worker, and the shard that it waits for. */
static void
write_in_flight(const cadre_waiting_t *self, const cadre_closure_t *closure, uint64_t now_ms,
                char text[CADRE_WAITING_CLOSURE_SIZE])
{
    char words[CADRE_WAITING_TEXT_SIZE];
    char waits[64] = "";
    uint64_t ms = 0;
    const uint32_t shard = cadre_reach_waits_for(closure->worker, closure->id, &ms);
    if (shard != UINT32_MAX) {
        snprintf(waits, sizeof(waits), ", waits for ps %" PRIu32 " for %" PRIu64 " s", shard,
                 ms / 1000);
    }
    snprintf(text, CADRE_WAITING_CLOSURE_SIZE, "%s%s",
             cadre_closure_words(closure, self->catalogue, now_ms, words), waits);
}

/* Returns whether a worker builds the resource. */
static bool
is_being_built(const cadre_waiting_t *self, const cadre_resource_t *resource)
{
    for (uint32_t i = 0; i < self->members->worker_capacity; i++) {
        const cadre_member_t *worker = self->members->workers[i];
        if (worker &&
            cadre_resource_is_under_way(resource, &worker->resources_told, &worker->abilities)) {
            return true;
        }
    }
    return false;
}

/* Writes which resource the closure waits for, and the function that builds it. */
static void
write_resource(const cadre_waiting_t *self, const cadre_closure_t *closure,
               char text[CADRE_WAITING_CLOSURE_SIZE])
{
    const cadre_resource_t *resource = missing_resource(self, closure);
    snprintf(text, CADRE_WAITING_CLOSURE_SIZE, "resource %s, which %s by function %s",
             resource->name,
             is_being_built(self, resource) ? "is being built" : "no worker has built",
             self->catalogue->functions[resource->call->function - 1]->name);
}

/* Writes whose result the closure waits for, as far as that is on a worker. */
static void
write_source(const cadre_waiting_t *self, const cadre_closure_t *closure, uint64_t now_ms,
             char text[CADRE_WAITING_CLOSURE_SIZE])
{
    const cadre_closure_t *source = NULL;
    for (size_t i = 0; i < closure->argument_count && !source; i++) {
        const cadre_closure_argument_t *argument = &closure->arguments[i];
        source = argument->waits ? find_source(self, argument->from) : NULL;
    }
    char words[CADRE_WAITING_TEXT_SIZE] = "another closure";
    if (source) {
        cadre_closure_words(source, self->catalogue, now_ms, words);
    }
    snprintf(text, CADRE_WAITING_CLOSURE_SIZE, "a result of %s", words);
}

/* Writes what a closure on no worker waits for. */
static void
write_cause(const cadre_waiting_t *self, const cadre_closure_t *closure, uint64_t now_ms,
            char text[CADRE_WAITING_CLOSURE_SIZE])
{
    const size_t size_bytes = CADRE_WAITING_CLOSURE_SIZE;
    switch (cause_of(self, closure)) {
    case FOR_ABSENT:
        snprintf(text, size_bytes, "worker %" PRIu32 ", which is absent", closure->tag);
        return;
    case FOR_RESOURCE:
        write_resource(self, closure, text);
        return;
    case FOR_ABLE:
        snprintf(text, size_bytes, "a worker that can run it");
        return;
    case FOR_SHARD:
        snprintf(text, size_bytes, "a ps that is away");
        return;
    case FOR_RESULT:
        write_source(self, closure, now_ms, text);
        return;
    case FOR_TURN:
        snprintf(text, size_bytes, "its turn");
        return;
    case FOR_STEP:
        snprintf(text, size_bytes, "the end of its step");
        return;
    case FOR_END:
    case FOR_ROOM:
        break;
    }
    if (closure->tag == CADRE_TAG_NONE) {
        snprintf(text, size_bytes, "a free worker");
    } else {
        snprintf(text, size_bytes, "worker %" PRIu32 " to be free", closure->tag);
    }
}

const char *
cadre_waiting_closure(const cadre_waiting_t *self, const cadre_closure_t *closure, uint64_t now_ms,
                      char text[CADRE_WAITING_CLOSURE_SIZE])
{
    if (closure->state == CADRE_CLOSURE_IN_FLIGHT) {
        write_in_flight(self, closure, now_ms, text);
        return text;
    }
    char cause[CADRE_WAITING_CLOSURE_SIZE];
    char name[CADRE_WAITING_TEXT_SIZE];
    write_cause(self, closure, now_ms, cause);
    snprintf(text, CADRE_WAITING_CLOSURE_SIZE, "%.200s waits for %.560s",
             name_words(self, closure, name), cause);
    return text;
}

/* --- closures that have not ended --- */

/* Appends the words of a closure to a text of `length` bytes, where they fit. Returns the new
 * length. */
static size_t
append_closure(const cadre_waiting_t *self, const cadre_closure_t *closure, uint64_t now_ms,
               char text[CADRE_WAITING_CLOSURES_SIZE], size_t length)
{
    char words[CADRE_WAITING_CLOSURE_SIZE];
    cadre_waiting_closure(self, closure, now_ms, words);
    if (length + 2 + strlen(words) >= CADRE_WAITING_CLOSURES_SIZE) {
        return length;
    }
    return length +
           (size_t)snprintf(text + length, CADRE_WAITING_CLOSURES_SIZE - length, "; %s", words);
}

/* Writes how many of the closures have not ended, and names one that waits for something else than
 * those on workers, then the oldest on workers. */
const char *
cadre_waiting_closures(const cadre_waiting_t *self, const cadre_waited_t *waited, uint64_t now_ms,
                       char text[CADRE_WAITING_CLOSURES_SIZE])
{
    size_t in_flight = 0;
    const cadre_closure_t *closure = next_in_flight(self, waited, 0, &in_flight);
    const size_t count = count_waiting(self, waited);
    size_t length = (size_t)snprintf(text, CADRE_WAITING_CLOSURES_SIZE,
                                     "%zu on %" PRIu32 " workers, %zu wait for one", in_flight,
                                     self->members->worker_count, count);

    const cadre_closure_t *waiting = count > 0 ? find_waiting(self, waited) : NULL;
    if (waiting && (!closure || cause_of(self, waiting) != FOR_ROOM)) {
        length = append_closure(self, waiting, now_ms, text, length);
    }
    for (int i = 0; closure && i < NAMED_MAX; i++) {
        length = append_closure(self, closure, now_ms, text, length);
        closure = next_in_flight(self, waited, closure->id, &in_flight);
    }
    return text;
}
