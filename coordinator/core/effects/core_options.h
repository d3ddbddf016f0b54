/*
 * core_options - the options of the coordinator's core.
 *
 * Owner:   plain data; the core keeps a copy, which its objects read.
 * Thread:  under the coordinator's lock.
 */
#ifndef CADRE_COORDINATOR_CORE_EFFECTS_CORE_OPTIONS_H
#define CADRE_COORDINATOR_CORE_EFFECTS_CORE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cadre/coordinator.h>

typedef struct {
    uint64_t incarnation;  /* random, of this process */
    uint64_t epoch;        /* of the session: random, also after a resume, so that what tasks say of
                              any other session is known by it; at least 1 */
    const char *transport; /* "curve", "plain" or "insecure", for people; NULL: plain */
    const char *job;       /* borrowed for the life of the core, like the next one */
    const char *build;     /* this release, for people whose task is of another one */
    uint32_t ps_count;
    uint32_t workers_max;    /* that there are descriptors for; 0: as many as may join, */
    const char *workers_why; /* and what to do about it, borrowed */
    uint64_t seed;
    size_t queue_capacity;
    uint64_t lease_ms;
    uint64_t deadline_ms; /* of a closure that has none of its own; 0: none */
    uint64_t heartbeat_ms;
    uint64_t resend_ms;
    uint64_t ps_timeout_ms;
    cadre_recovery_t recovery;
    cadre_consistency_t consistency;
    uint32_t step_closures; /* at least 1 */
    uint32_t staleness_bound;
    uint32_t backup_attempts; /* closures that may have a second attempt at a time; 0: none */
    bool round_robin;
} cadre_core_options_t;

#endif
