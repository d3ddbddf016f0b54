#include "coordinator/core/windows.h"

#include <inttypes.h>

#include "common/wire/codec.h"
#include "coordinator/core/coordinator_core.h"
#include "coordinator/core/waiting.h"

bool
cadre_windows_have_room(const cadre_core_t *core)
{
    return core->begun.next_id - core->settled <= CADRE_APPLIED_WINDOW_MAX - CADRE_STEPS_MAX;
}

static void
on_settled(void *context, uint64_t shard, const cadre_message_t *reply, int status)
{
    (void)shard;
    cadre_core_t *core = context;
    if (status < 0 || !reply || reply->type != CADRE_MESSAGE_REPLY || reply->reply.status != 0) {
        core->settling = 0; /* asked again, with what is lowest then */
    }
    if (--core->settle_pending == 0 && core->settling > core->settled) {
        core->settled = core->settling;
    }
}

/* Without checkpoints nothing else moves the shards' windows forward. Dispatch relies on the new
 * base only when every shard has answered. */
static void
settle(cadre_core_t *core)
{
    if (core->settle_pending > 0 ||
        core->begun.next_id - core->settled < CADRE_APPLIED_WINDOW_MAX / 2) {
        return;
    }
    uint64_t lowest = cadre_begun_lowest(&core->begun);
    if (lowest - core->settled < CADRE_APPLIED_WINDOW_MAX / 4) {
        return;
    }
    core->settling = lowest;
    core->settle_pending = core->options.ps_count;
    for (uint32_t shard = 0; shard < core->options.ps_count; shard++) {
        cadre_message_t message = cadre_effects_message(&core->effects, CADRE_MESSAGE_SETTLE);
        message.settle = (cadre_settle_message_t){
            .base = lowest, .generation = core->recovery.places[shard].generation, .shard = shard};
        cadre_shard_requests_ask(&core->requests, shard, &message, on_settled, core, shard);
    }
}

/* Nothing but the window keeps closures that wait from being begun. A replay has a limit of its
 * own, and room for a replay is reported with the checkpoints. */
static bool
holds_alone(const cadre_core_t *core)
{
    return !cadre_windows_have_room(core) && !core->replay.active && !core->replay.holds &&
           cadre_closure_queue_has_work(&core->queue);
}

static void
report(cadre_core_t *core)
{
    char text[CADRE_WAITING_TEXT_SIZE];
    cadre_effects_log(&core->effects, 'W', "window_full",
                      "for=\"%.300s\" ids=%" PRIu64 " queued=%zu "
                      "next=\"nothing new begins before that has ended\"",
                      cadre_waiting_window(core, text), core->begun.next_id - core->settled,
                      cadre_closure_queue_waiting(&core->queue));
}

uint64_t
cadre_windows_tick(cadre_core_t *core)
{
    settle(core);
    if (!holds_alone(core)) {
        return UINT64_MAX; /* when that is so again it is told at once, but not twice in a while */
    }
    if (core->effects.now_ms >= core->window_told_ms) {
        core->window_told_ms = core->effects.now_ms + CADRE_WINDOW_REPORT_MS;
        report(core);
    }
    return core->window_told_ms;
}
