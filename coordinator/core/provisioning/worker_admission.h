/*
 * worker_admission - which workers are given what: not what needs a native function or data that
 * they lack.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A worker says with its heartbeats which native functions it has not, and hands closures of those
 * back; of each dataset it says whether it could open it, how many rows there are and a hash of
 * them all. The rows that most workers have are the job's: a worker with other ones would mix them
 * into it in silence, so it is given none. That is decided when more than half of the workers agree
 * or all have answered, or CADRE_UNSERVED_MS after the first answer.
 *
 * What a worker lacks is said once, in the log and in the status, and the others go on. What no
 * worker that is there can run fails after CADRE_UNSERVED_MS: one that can may be about to join. A
 * process that was started again is judged anew.
 */
#ifndef CADRE_COORDINATOR_CORE_PROVISIONING_WORKER_ADMISSION_H
#define CADRE_COORDINATOR_CORE_PROVISIONING_WORKER_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/closures/closure_queue.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/membership.h"
#include "coordinator/core/members/rights.h"
#include "coordinator/core/provisioning/announcements.h"
#include "coordinator/core/provisioning/resources.h"
#include "coordinator/core/shards/replay.h"

enum { CADRE_LACK_TEXT_SIZE = CADRE_TEXT_SIZE_MAX + 256 };

/* What admission reads, and whom it tells: all borrowed for its life. Of members it writes which
 * functions and data they have (`abilities`), of datasets what workers answer and what follows. */
typedef struct {
    const cadre_membership_t *members;
    const cadre_catalogue_t *catalogue;
    const cadre_replay_t *replay; /* says what is next to run again */
    cadre_closure_queue_t *queue; /* says what waits, and since when nobody can run it */
    cadre_announcements_t *announcements;
    cadre_resources_t *resources;
    cadre_rights_t *rights; /* counts what is malformed */
    cadre_effects_t *effects;
} cadre_worker_admission_links_t;

typedef struct {
    cadre_worker_admission_links_t links;
    uint32_t lacks;                 /* how often a worker has not what closures may need */
    bool unserved;                  /* closures may wait that no worker can run; */
    cadre_unserved_t redo_unserved; /* one that is to run again does */
    uint64_t due_ms;                /* when to look at that again */
} cadre_worker_admission_t;

void cadre_worker_admission_init(cadre_worker_admission_t *self,
                                 const cadre_worker_admission_links_t *links);

/* --- what workers say --- */

/* Takes which native functions a worker has not, and how it answers for a dataset. */
void cadre_worker_admission_on_heartbeat(cadre_worker_admission_t *self, cadre_member_t *worker,
                                         const cadre_heartbeat_message_t *heartbeat);
void cadre_worker_admission_on_dataset(cadre_worker_admission_t *self, cadre_member_t *worker,
                                       const cadre_dataset_ready_message_t *ready);

/* A worker has handed a closure back because it lacks the function. */
void cadre_worker_admission_on_unable(cadre_worker_admission_t *self, cadre_member_t *worker,
                                      uint32_t function);

/* Forgets what a member that goes has said. */
void cadre_worker_admission_on_lost(cadre_worker_admission_t *self, const cadre_member_t *member);

/* --- time --- */

/* Asks again who has not answered for a dataset; returns whether there is one. */
bool cadre_worker_admission_chase(cadre_worker_admission_t *self);

/* Decides which rows a dataset has, where it is time to. Called every turn. */
void cadre_worker_admission_tick(cadre_worker_admission_t *self);

/* Returns whether it is time to look for closures that no worker can run, and notes that this
 * happens now. */
bool cadre_worker_admission_take_due(cadre_worker_admission_t *self);

/* Returns the closure that is next to run again, or one that is queued, if no worker has been able
 * to run it for CADRE_UNSERVED_MS, and in `*status` and this thread's error text why; else NULL.
 * The caller ends it. */
cadre_closure_t *cadre_worker_admission_find_unserved_again(cadre_worker_admission_t *self,
                                                            int *status);
cadre_closure_t *cadre_worker_admission_find_unserved(cadre_worker_admission_t *self, int *status);

/* --- what others ask --- */

/* Writes what the worker lacks, number `at` from 0 on: `what` ("function f", "dataset d"), and why;
 * false: there are no more. */
bool cadre_worker_admission_lack(const cadre_worker_admission_t *self, const cadre_member_t *worker,
                                 uint32_t at, char what[CADRE_LACK_TEXT_SIZE],
                                 char why[CADRE_LACK_TEXT_SIZE]);

#endif
