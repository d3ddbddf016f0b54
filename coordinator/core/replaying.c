/*
 * replaying - what the core does with what is kept for a replay: it repeats assignments at their
 * places, ends passes, and watches the bounds. Closures are handed out by the dispatcher.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/wire/codec.h"
#include "coordinator/core/coordinator_core.h"

/* --- a pass --- */

static void
on_assigned(void *context, uint64_t detail, const cadre_message_t *reply, int status)
{
    (void)detail;
    cadre_core_t *core = context;
    bool answered = reply && reply->type == CADRE_MESSAGE_REPLY;
    if (answered) {
        status = -(int)reply->reply.status;
    }
    bool is_made = answered && status == 0;
    bool is_refused_again = answered && status == CADRE_ENOTFINITE;
    if (!is_made && !is_refused_again && status != CADRE_ECANCELLED) {
        cadre_effects_log(&core->effects, 'E', "assignment_not_repeated", "why=\"%.200s\"",
                          answered ? reply->reply.text : "it answered out of turn");
    }
    if (core->replay.assign_pending > 0) {
        cadre_replay_assigned(&core->replay);
    }
}

/* One that begins anew begins the pass anew: what it were asked before would come out of turn. */
static bool
next_shard_is_ready(const cadre_core_t *core)
{
    const cadre_replay_t *replay = &core->replay;
    return replay->assign_next < replay->assign_count &&
           core->shards[replay->assigns[replay->assign_next].shard].state == CADRE_PLACE_READY;
}

/* It is in what the shard began with, or its variable was dropped and nothing needs that. */
static bool
is_needless(const cadre_core_t *core, const cadre_replay_assign_t *assign)
{
    return cadre_replay_assign_number(&core->replay) <=
               cadre_recovery_point(core, assign->shard)->assigns ||
           cadre_catalogue_is_vacant(&core->catalogue, assign->variable);
}

static void
repeat_assigns(cadre_core_t *core)
{
    const cadre_replay_assign_t *assign = NULL;
    while (next_shard_is_ready(core) && (assign = cadre_replay_next_assign(&core->replay))) {
        if (is_needless(core, assign)) {
            cadre_replay_assigned(&core->replay);
            continue;
        }
        cadre_message_t message;
        const cadre_outbox_entry_t *entry = &assign->entry;
        cadre_chunk_t **chunks = cadre_calloc(entry->chunk_count, sizeof(cadre_chunk_t *));
        for (size_t i = 0; i < entry->chunk_count; i++) {
            chunks[i] = cadre_chunk_ref(entry->chunks[i]);
        }
        int status = cadre_message_decode(cadre_chunk_data(entry->header),
                                          cadre_chunk_size_bytes(entry->header), chunks,
                                          entry->chunk_count, &message);
        cadre_assert(status == 0);
        message.assign.checkpoint = 0; /* while closures run again no cut is open */
        message.assign.cut = 0;
        cadre_shard_requests_ask(&core->repairs, assign->shard, &message, on_assigned, core,
                                 assign->shard);
        cadre_message_fini(&message);
        free(chunks);
    }
}

static void
end_pass(cadre_core_t *core)
{
    uint64_t since_ms = core->effects.now_ms;
    for (uint32_t shard = 0; shard < core->options.ps_count; shard++) {
        cadre_place_t *place = &core->shards[shard];
        if (place->replaying && place->lost_ms < since_ms) {
            since_ms = place->lost_ms;
        }
        place->replaying = false;
    }
    cadre_effects_log(&core->effects, 'I', "replay_done",
                      "closures=%zu assignments=%zu ms_since_lost=%" PRIu64,
                      core->replay.pass_count, cadre_replay_pass_assigns(&core->replay),
                      core->effects.now_ms - since_ms);
    cadre_effects_note_progress(&core->effects);
}

/* --- bounds --- */

/* Twice the bound: nothing new is begun. Checkpoints must have failed for long, or take long, and
 * somebody may have to make room for them. */
static void
hold_dispatch(cadre_core_t *core, bool holds)
{
    const cadre_checkpoint_t *checkpoint = &core->checkpoint;
    bool fails = checkpoint->last_status < 0;
    bool changes = checkpoint->enabled && holds != core->replay_holds;
    if (changes && holds) {
        cadre_effects_log(
            &core->effects, 'W', "dispatch_held",
            "closures=%zu bytes=%zu why=\"%s%.200s\" next=\"nothing new begins until a "
            "checkpoint is committed%s\"",
            core->replay.kept.count, core->replay.size_bytes,
            fails ? "the memory for a replay is full and checkpoints fail: "
                  : "the memory for a replay is full",
            fails ? checkpoint->last_text : "",
            fails ? ": make room where they are written, or mend it" : "");
    } else if (changes) {
        cadre_effects_log(&core->effects, 'I', "dispatch_goes_on", "closures=%zu bytes=%zu",
                          core->replay.kept.count, core->replay.size_bytes);
    }
    core->replay_holds = holds;
}

/* Kept closures reach their bound: a checkpoint makes room, or keeping ends. */
static void
watch_bounds(cadre_core_t *core)
{
    int fullness =
        core->replay.keeping ? cadre_replay_fullness(&core->replay, core->begun.next_id) : 0;
    cadre_checkpoint_t *checkpoint = &core->checkpoint;
    hold_dispatch(core, fullness >= 2);
    if (fullness == 0 || !cadre_recovery_is_calm(core)) {
        return;
    }
    if (!checkpoint->enabled) {
        size_t closures = core->replay.kept.count;
        size_t assigns = core->replay.assign_count;
        core->unsaved += closures;
        cadre_replay_stop(&core->replay);
        cadre_effects_log(
            &core->effects, 'W', "replay_given_up",
            "closures=%zu assignments=%zu next=\"there are no checkpoints: from now on "
            "a lost ps costs updates and assignments\"",
            closures, assigns);
    } else if (checkpoint->state == CADRE_CHECKPOINT_IDLE &&
               core->effects.now_ms >= checkpoint->retry_ms) {
        cadre_checkpoint_begin(core, NULL);
    }
}

/* --- time --- */

void
cadre_recovery_replay(cadre_core_t *core)
{
    repeat_assigns(core);
    if (cadre_replay_ends(&core->replay)) {
        end_pass(core);
    }
    watch_bounds(core);
}
