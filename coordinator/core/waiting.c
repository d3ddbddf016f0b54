#include "coordinator/core/waiting.h"

#include <inttypes.h>
#include <stdio.h>

#include "coordinator/core/coordinator_core.h"
#include "coordinator/core/windows.h"

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
cadre_waiting_closure(const cadre_core_t *core, const cadre_closure_t *closure,
                      char text[CADRE_WAITING_TEXT_SIZE])
{
    char where[96] = "which waits for a worker";
    char name[32];
    if (closure->state == CADRE_CLOSURE_IN_FLIGHT) {
        snprintf(where, sizeof(where), "on %s for %" PRIu64 " s",
                 cadre_member_name(closure->worker, name),
                 (core->effects.now_ms - closure->begun_ms) / 1000);
    }
    snprintf(text, CADRE_WAITING_TEXT_SIZE,
             "closure %" PRIu64 " (function %s) %s, attempt %" PRIu64, closure->id,
             core->catalogue.functions[closure->function - 1]->name, where, closure->attempt);
    return text;
}

const char *
cadre_waiting_window(const cadre_core_t *core, char text[CADRE_WAITING_TEXT_SIZE])
{
    const cadre_closure_t *oldest =
        core->settle_pending == 0 ? cadre_begun_oldest(&core->begun) : NULL;
    if (oldest) {
        return cadre_waiting_closure(core, oldest, text);
    }
    snprintf(text, CADRE_WAITING_TEXT_SIZE, "%u shards to answer SETTLE", core->settle_pending);
    return text;
}

const char *
cadre_waiting_recovery(const cadre_core_t *core, char text[CADRE_WAITING_TEXT_SIZE])
{
    for (uint32_t shard = 0; shard < core->options.ps_count; shard++) {
        const cadre_place_t *place = &core->recovery.places[shard];
        if (place->state == CADRE_PLACE_AWAY && place->lost_once) {
            snprintf(text, CADRE_WAITING_TEXT_SIZE,
                     "ps %u to come back (it is lost for %" PRIu64 " s)", shard,
                     (core->effects.now_ms - place->lost_ms) / 1000);
            return text;
        }
        if (place->state == CADRE_PLACE_RESTORING) {
            const char *path = cadre_recovery_point(&core->recovery, shard)->path;
            snprintf(text, CADRE_WAITING_TEXT_SIZE,
                     "ps %u to be restored%s%.200s: it has %u requests to answer", shard,
                     path[0] ? " from " : "", path, place->pending);
            return text;
        }
    }
    if (core->replay.active) {
        snprintf(text, CADRE_WAITING_TEXT_SIZE, "%zu closures to run again",
                 core->replay.redo.count + core->replay.aside.count + core->replay.in_flight);
        return text;
    }
    return NULL;
}

const char *
cadre_waiting_words(const cadre_core_t *core, const char *otherwise,
                    char text[CADRE_WAITING_TEXT_SIZE])
{
    const char *recovery = cadre_waiting_recovery(core, text);
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
    if (!cadre_windows_have_room(core)) {
        return cadre_waiting_window(core, text);
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
