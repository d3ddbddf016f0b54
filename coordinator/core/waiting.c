#include "coordinator/core/waiting.h"

#include <inttypes.h>
#include <stdio.h>

#include "coordinator/core/coordinator_core.h"

enum { NAMED_MS = 5000 }; /* a closure that has run for so long is named */

/* Nothing new is begun until a checkpoint is committed. While they fail, that is what somebody has
 * to see to. */
static const char *
room_words(const cadre_core_t *core, char text[CADRE_WAITING_TEXT_SIZE])
{
    const cadre_checkpoint_t *checkpoint = &core->checkpoint;
    bool fails = checkpoint->last_status < 0;
    snprintf(text, CADRE_WAITING_TEXT_SIZE,
             "a checkpoint, because the memory for a replay is full%s%s",
             fails ? " and checkpoints fail: " : "", fails ? checkpoint->last_text : "");
    return text;
}

const char *
cadre_waiting_words(const cadre_core_t *core, const char *otherwise,
                    char text[CADRE_WAITING_TEXT_SIZE])
{
    const char *recovery = cadre_recovery_words(&core->recovery, text);
    if (recovery) {
        return recovery;
    }
    if (core->replay.holds && core->checkpoint.enabled) {
        return room_words(core, text);
    }
    uint32_t lost = cadre_reach_lost_shard(core);
    if (lost != UINT32_MAX) {
        snprintf(text, CADRE_WAITING_TEXT_SIZE,
                 "%s; no worker reaches ps %u: see to the network between them", otherwise, lost);
        return text;
    }
    if (!cadre_windows_have_room(&core->windows)) {
        return cadre_windows_words(&core->windows, text);
    }
    const cadre_longest_t *longest = &core->longest;
    if (longest->closure && longest->ran_ms >= NAMED_MS) {
        char waits[64] = "";
        if (longest->shard != UINT32_MAX) {
            snprintf(waits, sizeof(waits), ", and waits for ps %u for %" PRIu64 " s",
                     longest->shard, longest->waits_ms / 1000);
        }
        snprintf(text, CADRE_WAITING_TEXT_SIZE,
                 "%s; closure %" PRIu64 " (%s) has run on worker %u for %" PRIu64 " s%s", otherwise,
                 longest->closure, longest->function, longest->worker, longest->ran_ms / 1000,
                 waits);
        return text;
    }
    return otherwise;
}
