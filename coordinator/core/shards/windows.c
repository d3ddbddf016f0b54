#include "coordinator/core/shards/windows.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/wire/codec.h"

void
cadre_windows_init(cadre_windows_t *self, const cadre_windows_links_t *links)
{
    *self = (cadre_windows_t){.links = *links, .settled = 1};
}

void
cadre_windows_raise(cadre_windows_t *self, uint64_t base)
{
    self->settled = base > self->settled ? base : self->settled;
}

bool
cadre_windows_have_room(const cadre_windows_t *self)
{
    return self->links.begun->next_id - self->settled <= CADRE_APPLIED_WINDOW_MAX - CADRE_STEPS_MAX;
}

/* Takes a shard's answer to SETTLE. The new base counts when all shards have taken it. */
static void
on_settled(void *context, uint64_t shard, const cadre_message_t *reply, int status)
{
    (void)shard;
    cadre_windows_t *self = context;
    if (status < 0 || !reply || reply->type != CADRE_MESSAGE_REPLY || reply->reply.status != 0) {
        self->settling = 0; /* later all shards are asked again, with the base of that time */
    }
    if (--self->pending == 0 && self->settling > self->settled) {
        self->settled = self->settling;
    }
}

/* Asks all shards to settle, past half of the window and if the base would move by a quarter:
 * without checkpoints nothing else moves their windows. Dispatch relies on the new base only when
 * every shard has answered. */
static void
settle(cadre_windows_t *self)
{
    if (self->pending > 0 ||
        self->links.begun->next_id - self->settled < CADRE_APPLIED_WINDOW_MAX / 2) {
        return;
    }

    uint64_t lowest = cadre_begun_lowest(self->links.begun);
    if (lowest - self->settled < CADRE_APPLIED_WINDOW_MAX / 4) {
        return;
    }

    uint32_t ps_count = self->links.recovery->links.options->ps_count;
    self->settling = lowest;
    self->pending = ps_count;
    for (uint32_t shard = 0; shard < ps_count; shard++) {
        cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_SETTLE);
        message.settle =
            (cadre_settle_message_t){.base = lowest,
                                     .generation = self->links.recovery->places[shard].generation,
                                     .shard = shard};
        cadre_shard_requests_ask(self->links.requests, shard, &message, on_settled, self, shard);
    }
}

/* Returns whether nothing but the window keeps queued closures from being begun. A replay has a
 * limit of its own, and a full replay log is logged by the checkpoints. */
static bool
holds_alone(const cadre_windows_t *self)
{
    return !cadre_windows_have_room(self) && !self->links.replay->active &&
           !self->links.replay->holds && cadre_closure_queue_has_work(self->links.queue);
}

/* Writes what keeps the windows full: the oldest closure, or shards that have not answered. */
const char *
cadre_windows_words(const cadre_windows_t *self, char text[CADRE_WAITING_TEXT_SIZE])
{
    const cadre_closure_t *oldest =
        self->pending == 0 ? cadre_begun_oldest(self->links.begun) : NULL;
    if (oldest) {
        return cadre_closure_words(oldest, self->links.catalogue, self->links.effects->now_ms,
                                   text);
    }
    snprintf(text, CADRE_WAITING_TEXT_SIZE, "%u shards to answer SETTLE", self->pending);
    return text;
}

/* Logs that the applied windows of the shards are full, so that nothing new begins, and what they
 * wait for. */
static void
report(cadre_windows_t *self)
{
    char text[CADRE_WAITING_TEXT_SIZE];
    cadre_effects_log(self->links.effects, 'W', "window_full",
                      "for=\"%.300s\" ids=%" PRIu64 " queued=%zu "
                      "next=\"nothing new begins before that has ended\"",
                      cadre_windows_words(self, text), self->links.begun->next_id - self->settled,
                      cadre_closure_queue_all_waiting(self->links.queue));
}

/* Asks the shards to settle when that is due, and logs while full windows hold up dispatch. Returns
 * when to call again. */
uint64_t
cadre_windows_tick(cadre_windows_t *self)
{
    settle(self);
    if (!holds_alone(self)) {
        return UINT64_MAX; /* told_ms stays: a window that is full again soon is not logged twice */
    }
    if (self->links.effects->now_ms >= self->told_ms) {
        self->told_ms = self->links.effects->now_ms + CADRE_WINDOW_REPORT_MS;
        report(self);
    }
    return self->told_ms;
}
