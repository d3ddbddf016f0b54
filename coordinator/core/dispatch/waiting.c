#include "coordinator/core/dispatch/waiting.h"

#include <inttypes.h>
#include <stdio.h>

enum { NAMED_MS = 5000 }; /* a closure that has run for so long is named */

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
