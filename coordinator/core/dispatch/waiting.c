#include "coordinator/core/dispatch/waiting.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    NAMED_MS = 5000, /* a text names closures that have been running for so long */
    NAMED_MAX = 4,   /* most closures that a text names */
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

/* --- closures that have not ended --- */

/* Returns whether a join of the group (NULL: of the job) waits for the closure. One that runs again
 * for a replay has ended for the program. */
static bool
is_waited_for(const cadre_closure_t *closure, const cadre_closure_group_t *group)
{
    return !closure->kept && (group ? closure->group == group : closure->tag == CADRE_TAG_NONE);
}

/* Returns the closure in flight with the lowest id above `id`, of the group (NULL: of all untagged
 * ones), and sets `count` to how many of them are in flight. */
static const cadre_closure_t *
next_in_flight(const cadre_waiting_t *self, const cadre_closure_group_t *group, uint64_t id,
               size_t *count)
{
    const cadre_closure_t *next = NULL;
    *count = 0;
    for (uint32_t i = 0; i < self->members->worker_capacity; i++) {
        const cadre_member_t *worker = self->members->workers[i];
        const cadre_closure_t *closure = worker ? worker->in_flight.first : NULL;
        for (; closure; closure = closure->next) {
            const bool counts = is_waited_for(closure, group);
            *count += counts;
            if (counts && closure->id > id && (!next || closure->id < next->id)) {
                next = closure;
            }
        }
    }
    return next;
}

/* Writes the words of one closure: id, function, worker, and the shard that it waits for. Returns
 * the length of the text, 0 when it did not fit. */
static size_t
name_closure(const cadre_waiting_t *self, const cadre_closure_t *closure, uint64_t now_ms,
             char *text, size_t size_bytes)
{
    char words[CADRE_WAITING_TEXT_SIZE];
    char waits[64] = "";
    uint64_t ms = 0;
    const uint32_t shard = cadre_reach_waits_for(closure->worker, closure->id, &ms);
    if (shard != UINT32_MAX) {
        snprintf(waits, sizeof(waits), ", waits for ps %" PRIu32 " for %" PRIu64 " s", shard,
                 ms / 1000);
    }
    int length = snprintf(text, size_bytes, "; %s%s",
                          cadre_closure_words(closure, self->catalogue, now_ms, words), waits);
    return length > 0 && (size_t)length < size_bytes ? (size_t)length : 0;
}

/* Returns how many closures of the group (NULL: untagged ones) have not ended and are on no
 * worker. */
static size_t
count_waiting(const cadre_waiting_t *self, const cadre_closure_group_t *group)
{
    if (!group) {
        return cadre_closure_queue_waiting(self->queue) + self->queue->common_aside;
    }
    const cadre_group_totals_t *totals = &group->totals;
    return (size_t)(totals->scheduled - totals->finished - totals->failed - totals->cancelled) -
           group->in_flight;
}

/* Writes how many closures of the group have not ended, and names the oldest on workers. */
const char *
cadre_waiting_closures(const cadre_waiting_t *self, const cadre_closure_group_t *group,
                       uint64_t now_ms, char text[CADRE_WAITING_CLOSURES_SIZE])
{
    size_t in_flight = 0;
    const cadre_closure_t *closure = next_in_flight(self, group, 0, &in_flight);
    size_t length = (size_t)snprintf(text, CADRE_WAITING_CLOSURES_SIZE,
                                     "%zu on %" PRIu32 " workers, %zu wait for one", in_flight,
                                     self->members->worker_count, count_waiting(self, group));

    for (int i = 0; closure && i < NAMED_MAX; i++) {
        length += name_closure(self, closure, now_ms, text + length,
                               CADRE_WAITING_CLOSURES_SIZE - length);
        closure = next_in_flight(self, group, closure->id, &in_flight);
    }
    return text;
}
