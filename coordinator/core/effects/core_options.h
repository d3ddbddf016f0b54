/*
 * core_options - the options of the coordinator's core.
 *
 * Owner:   plain data; the core keeps a copy, which its classes read.
 * Thread:  under the coordinator's lock.
 */
#ifndef CADRE_COORDINATOR_CORE_EFFECTS_CORE_OPTIONS_H
#define CADRE_COORDINATOR_CORE_EFFECTS_CORE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cadre/coordinator.h>

typedef struct {
    uint64_t incarnation; /* random number of this process */
    /* Random number of the session, new after a resume, too, so that messages of another session
     * are recognised by it; at least 1. */
    uint64_t epoch;
    const char *transport; /* "curve", "plain" or "insecure", for people; NULL: plain */
    const char *job;       /* name of the job; borrowed for the life of the core, like `build` */
    const char *build;     /* name of this release, for the error when a task is of another one */
    uint32_t ps_count;
    uint32_t workers_max; /* how many workers there are file descriptors for; 0: no limit */
    /* Why there are no more file descriptors and what to do about it, for the error; borrowed. */
    const char *workers_why;
    uint64_t seed;
    size_t queue_capacity;
    uint64_t lease_ms;
    uint64_t deadline_ms; /* deadline of a closure that has none of its own; 0: none */
    uint64_t heartbeat_ms;
    uint64_t resend_ms;
    uint64_t ps_timeout_ms;
    cadre_recovery_t recovery;
    cadre_consistency_t consistency;
    uint32_t step_closures; /* closures of a synchronous step, at least 1 */
    /* Steps are of one closure, and the job has one ps, and one worker of one slot, which are never
     * lost alone, and no native functions: an update is applied when it arrives
     * (coordinator/core/closures/pace.h). */
    bool is_serial;
    uint32_t staleness_bound;
    uint32_t backup_attempts;  /* closures that may have a second attempt at a time; 0: none */
    cadre_strategy_t strategy; /* for people; 0: the default */
    bool client_closures;      /* clients may schedule closures */
    bool round_robin;
    uint64_t fill_bytes; /* bytes that a shard gets before the one behind it gets any; 0: none */
} cadre_core_options_t;

/* Returns whether the shards hold updates until the end of a synchronous step. */
static inline bool
cadre_core_options_have_steps(const cadre_core_options_t *self)
{
    return self->consistency == CADRE_SYNC && !self->is_serial;
}

#endif
