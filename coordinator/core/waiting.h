/*
 * waiting - what a call of the API waits for, in words.
 *
 * Owner:   none: it only looks at the core. Thread: under the coordinator's lock.
 */
#ifndef CADRE_COORDINATOR_CORE_WAITING_H
#define CADRE_COORDINATOR_CORE_WAITING_H

#include <stddef.h>

#include "common/base/limits.h"

enum { CADRE_WAITING_TEXT_SIZE = CADRE_TEXT_SIZE_MAX + 128 };

struct cadre_core;
struct cadre_closure;

/* A closure that has not ended, by what it is and where; gives `text`. */
const char *cadre_waiting_closure(const struct cadre_core *core,
                                  const struct cadre_closure *closure,
                                  char text[CADRE_WAITING_TEXT_SIZE]);

/* Who keeps the shards' windows full; gives `text`. */
const char *cadre_waiting_window(const struct cadre_core *core, char text[CADRE_WAITING_TEXT_SIZE]);

/* Which shard is lost or being restored, or how much runs again for one; gives `text`, or NULL when
 * there is nothing of that. */
const char *cadre_waiting_recovery(const struct cadre_core *core,
                                   char text[CADRE_WAITING_TEXT_SIZE]);

/* What everything waits for now: a shard that is away, closures that run again, a checkpoint that
 * has to make room, a closure that keeps the windows full. Written to `text` where need be;
 * `otherwise`, what the call itself waits for, when there is none of these. */
const char *cadre_waiting_words(const struct cadre_core *core, const char *otherwise,
                                char text[CADRE_WAITING_TEXT_SIZE]);

#endif
