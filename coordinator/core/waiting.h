/*
 * waiting - what a call of the API waits for, in words.
 *
 * Owner:   none: it only looks at the core. Thread: under the coordinator's lock.
 */
#ifndef CADRE_COORDINATOR_CORE_WAITING_H
#define CADRE_COORDINATOR_CORE_WAITING_H

#include "coordinator/core/closures/closure_words.h"

struct cadre_core;

/* What everything waits for now: a shard that is away, closures that run again, a checkpoint that
 * has to make room, a closure that keeps the windows full. Written to `text` where need be;
 * `otherwise`, what the call itself waits for, when there is none of these. */
const char *cadre_waiting_words(const struct cadre_core *core, const char *otherwise,
                                char text[CADRE_WAITING_TEXT_SIZE]);

#endif
