/*
 * windows - how far the shards' applied windows have moved, and whether dispatch has room in them.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A shard remembers CADRE_APPLIED_WINDOW_MAX update ids above its base. Commits move the base; past
 * half of the window the coordinator asks the shards to settle: to move the base to the lowest
 * closure that has not ended. No closure is begun beyond the window: so one closure that does not
 * end, or a shard that does not answer, can hold up dispatch. Which one it is, is logged when that
 * begins and every CADRE_WINDOW_REPORT_MS.
 */
#ifndef CADRE_COORDINATOR_CORE_SHARDS_WINDOWS_H
#define CADRE_COORDINATOR_CORE_SHARDS_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/closures/begun.h"
#include "coordinator/core/closures/closure_queue.h"
#include "coordinator/core/members/closure_words.h"
#include "coordinator/core/shards/recovery.h"

enum { CADRE_WINDOW_REPORT_MS = 30000 };

/* The objects that the windows read and call; borrowed for their life. */
typedef struct {
    const cadre_catalogue_t *catalogue;
    const cadre_closure_queue_t *queue;
    const cadre_begun_t *begun;
    const cadre_replay_t *replay;
    const cadre_shard_recovery_t *recovery;
    cadre_shard_requests_t *requests;
    cadre_effects_t *effects;
} cadre_windows_links_t;

typedef struct {
    cadre_windows_links_t links;
    /* Base that every shard has at least; dispatch stays within the window above it. */
    uint64_t settled;
    /* Base that the shards were last asked to take; 0: a shard has not taken it. */
    uint64_t settling;
    uint32_t pending; /* how many shards have not answered SETTLE */
    uint64_t told_ms; /* when the log may say again that the window is full */
} cadre_windows_t;

void cadre_windows_init(cadre_windows_t *self, const cadre_windows_links_t *links);

/* Notes that every shard has this base, or would be restored from a checkpoint with this base. */
void cadre_windows_raise(cadre_windows_t *self, uint64_t base);

/* Returns whether the window has room for one more closure, of as many steps as a closure may
 * have. */
bool cadre_windows_have_room(const cadre_windows_t *self);

/* Writes which closure or how many shards keep the windows full; returns the words. */
const char *cadre_windows_words(const cadre_windows_t *self, char text[CADRE_WAITING_TEXT_SIZE]);

/* Asks the shards to settle when that is due, and logs what holds up dispatch. Called every turn;
 * returns when it must be called again at the latest. */
uint64_t cadre_windows_tick(cadre_windows_t *self);

#endif
