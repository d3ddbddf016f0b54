/*
 * suspicion - whether something kills the workers that have it: a closure that runs, or a resource
 * that is built.
 *
 * Owner:   the closure or resource. Thread: under the coordinator's lock.
 *
 * Workers die of many things, so one death proves little. From CADRE_SUSPECT_DEATHS deaths on a
 * closure or resource is suspect: it is tried alone, rather where no worker died of it yet
 * (dispatch/trials.h), so that nothing else can be to blame. And each death is weighed against how
 * long workers live without it: the death of a worker that had the closure for 3 s was to be
 * expected in a place whose processes last 2 s on the average. A closure or resource is poison at
 * CADRE_POISON_DEATHS deaths, if these are at least CADRE_POISON_FACTOR times the expected ones.
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

/* The processes that died in one place while they had the suspect. */
typedef struct {
    uint32_t index;   /* index of the place */
    uint32_t process; /* number of the last process that died there */
    char host[64];    /* name of the host of process `process`, truncated to fit */
    uint64_t had_ms;  /* how long all processes that died in this place had the suspect, summed */
    uint64_t deaths;
} cadre_victim_t;

/* Zeroed memory is no suspicion. */
typedef struct {
    uint32_t deaths;
    double expected; /* how many deaths were to be expected if the suspect were innocent */
    /* Incarnation of the process that died last; 0: none, or it turned out to be alive. */
    uint64_t last;
    uint32_t last_index;  /* index of the place of the process that died last */
    uint64_t last_ms;     /* how long the process that died last had the suspect */
    double last_expected; /* what the last death added to `expected` */
    cadre_victim_t *victims;
    size_t victim_count;
} cadre_suspicion_t;

/* A worker that died, and how long processes in its place and elsewhere lived. */
typedef struct {
    uint32_t index;
    uint32_t process;
    uint64_t incarnation;
    const char *host;
    uint64_t had_ms; /* how long the worker had the suspect */
    cadre_record_t
        place;          /* how long processes in its place have lived, and how many died, before */
    cadre_record_t all; /* how long processes in all places have lived, and how many died, before */
} cadre_death_t;

void cadre_suspicion_fini(cadre_suspicion_t *self);

/* Counts the death of a worker that had the suspect. */
void cadre_suspicion_add(cadre_suspicion_t *self, const cadre_death_t *death);

/* Takes the last death back if it was counted for this incarnation, which turns out to be alive.
 * Returns whether it did. */
bool cadre_suspicion_forgive(cadre_suspicion_t *self, uint64_t incarnation);

/* Forgets all deaths: the suspect has proved to be innocent. */
void cadre_suspicion_clear(cadre_suspicion_t *self);

bool cadre_suspicion_is_strong(const cadre_suspicion_t *self);
bool cadre_suspicion_is_proved(const cadre_suspicion_t *self);

/* Returns 2 when a worker in this place died while it had the suspect, 1 when a worker on this host
 * did, else 0. */
int cadre_suspicion_knows(const cadre_suspicion_t *self, uint32_t index, const char *host);

/* Writes "worker 0 (process 17), worker 1 (process 18, the last of 3)" into `text`, cut at `size`.
 */
void cadre_suspicion_text(const cadre_suspicion_t *self, char *text, size_t size);

#endif
