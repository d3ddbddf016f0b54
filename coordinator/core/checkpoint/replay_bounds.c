#include "coordinator/core/checkpoint/replay_bounds.h"

/* Lets no new closure begin while the replay log is at twice its bound (`holds`), and logs when
 * that begins and ends: checkpoints must have failed or taken long, and somebody may have to free
 * disk space for them. */
static void
hold_dispatch(cadre_replay_t *replay, const cadre_checkpoint_t *checkpoint,
              cadre_effects_t *effects, bool holds)
{
    bool fails = checkpoint->last_status < 0;
    bool changes = checkpoint->enabled && holds != replay->holds;
    if (changes && holds) {
        cadre_effects_log(
            effects, 'W', "dispatch_paused",
            "closures=%zu bytes=%zu why=\"%s%.200s\" next=\"nothing new begins until a "
            "checkpoint is committed%s\"",
            replay->kept.count, replay->size_bytes,
            fails ? "the memory for a replay is full and checkpoints fail: "
                  : "the memory for a replay is full",
            fails ? checkpoint->last_text : "",
            fails ? ": make room where they are written, or mend it" : "");
    } else if (changes) {
        cadre_effects_log(effects, 'I', "dispatch_resumed", "closures=%zu bytes=%zu",
                          replay->kept.count, replay->size_bytes);
    }

    cadre_replay_hold(replay, holds);
}

/* Compares the memory that is kept for a replay with its bound. At the bound it begins a
 * checkpoint, or gives the replay up where there are none; at twice the bound it pauses
 * dispatch. */
void
cadre_replay_bounds_tick(cadre_replay_t *replay, uint64_t next_id,
                         const cadre_shard_recovery_t *recovery, cadre_checkpoint_t *checkpoint,
                         cadre_effects_t *effects)
{
    int fullness = replay->keeping ? cadre_replay_fullness(replay, next_id) : 0;
    hold_dispatch(replay, checkpoint, effects, fullness >= 2);
    if (fullness == 0 || !cadre_recovery_is_calm(recovery)) {
        return;
    }

    if (!checkpoint->enabled) {
        size_t closures = replay->kept.count;
        size_t assigns = replay->assign_count;
        cadre_replay_stop(replay);
        cadre_effects_log(
            effects, 'W', "replay_disabled",
            "closures=%zu assignments=%zu next=\"there are no checkpoints: from now on "
            "a lost ps costs updates and assignments\"",
            closures, assigns);
    } else if (checkpoint->state == CADRE_CHECKPOINT_IDLE &&
               effects->now_ms >= checkpoint->retry_ms) {
        cadre_checkpoint_begin_for_room(checkpoint);
    }
}
