/*
 * suspicion - whether something kills the workers that have it: a closure that runs, or a resource
 * that is built.
 *
 * Owner:   the closure or resource. Thread: under the coordinator's lock.
 *
 * Workers die of many things, so a death proves little. From CADRE_SUSPECT_DEATHS on it is suspect:
 * it is tried alone, rather where nobody died of it yet (dispatch/trials.h), so that nothing else
 * can be to blame. And each death is weighed against how long workers live without it: one that had
 * it for 3 s in a place whose processes last 2 s on the average was to be expected. It is poison at
 * CADRE_POISON_DEATHS when that is CADRE_POISON_FACTOR times what was to be expected, or more.
 */
#ifndef CADRE_COORDINATOR_CORE_CLOSURES_SUSPICION_H
#define CADRE_COORDINATOR_CORE_CLOSURES_SUSPICION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"

enum { CADRE_POISON_FACTOR = 4 };

/* How long processes lived, in one place or in several, and how many of them died. */
typedef struct {
    uint64_t lived_ms;
    uint64_t deaths;
} cadre_record_t;

/* Those that died in one place while they had it. */
typedef struct {
    uint32_t index;   /* of the place */
    uint32_t process; /* of the last one */
    char host[64];    /* its name, cut */
    uint64_t had_ms;  /* together */
    uint64_t deaths;
} cadre_victim_t;

/* Zeroed memory is no suspicion. */
typedef struct {
    uint32_t deaths;
    double expected;      /* of them, if it were innocent */
    uint64_t last;        /* incarnation of the last one; 0: none, or it was cut off only */
    uint32_t last_index;  /* its place, */
    uint64_t last_ms;     /* how long it had it, */
    double last_expected; /* and its part of `expected` */
    cadre_victim_t *victims;
    size_t victim_count;
} cadre_suspicion_t;

/* A worker that died, and what is known of the others. */
typedef struct {
    uint32_t index;
    uint32_t process;
    uint64_t incarnation;
    const char *host;
    uint64_t had_ms;      /* how long it had what is suspected */
    cadre_record_t place; /* processes in its place, this one without its death */
    cadre_record_t all;   /* in all places, this one without its death */
} cadre_death_t;

void cadre_suspicion_fini(cadre_suspicion_t *self);

/* Counts a death. */
void cadre_suspicion_add(cadre_suspicion_t *self, const cadre_death_t *death);

/* The process with this incarnation is not dead: takes its death back, where it was the last one
 * that was counted. True when it was. */
bool cadre_suspicion_forgive(cadre_suspicion_t *self, uint64_t incarnation);

/* Forgets everything: it has proved to be innocent. */
void cadre_suspicion_clear(cadre_suspicion_t *self);

bool cadre_suspicion_is_strong(const cadre_suspicion_t *self);
bool cadre_suspicion_is_proved(const cadre_suspicion_t *self);

/* 2 when somebody died of it in this place, 1 when somebody did on this host, else 0. */
int cadre_suspicion_knows(const cadre_suspicion_t *self, uint32_t index, const char *host);

/* "worker 0 (process 17), worker 1 (process 18, the last of 3)" into `text`, cut at `size`. */
void cadre_suspicion_text(const cadre_suspicion_t *self, char *text, size_t size);

#endif
