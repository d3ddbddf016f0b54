/*
 * windows - how far the shards' applied windows have moved, and whether dispatch has room in them.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A shard remembers CADRE_APPLIED_WINDOW_MAX update ids above its base. Commits move the base; past
 * half of the window the shards are told to settle below the lowest closure that has not ended.
 * Nothing new is begun beyond the window: one closure that does not end, or a shard that does not
 * answer, holds dispatch then. Who that is, is logged when it begins and every
 * CADRE_WINDOW_REPORT_MS.
 */
#ifndef CADRE_COORDINATOR_CORE_WINDOWS_H
#define CADRE_COORDINATOR_CORE_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

struct cadre_core;

enum { CADRE_WINDOW_REPORT_MS = 30000 };

/* Returns whether there is room for one more closure, of as many steps as there can be. */
bool cadre_windows_have_room(const struct cadre_core *core);

/* Has the shards settle where that is due, and reports who holds dispatch. Called every turn;
 * returns when it must be called again at the latest. */
uint64_t cadre_windows_tick(struct cadre_core *core);

#endif
