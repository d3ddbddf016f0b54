/*
 * worker_admission - which workers are given what: not what needs a native function or data that
 * they lack.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A worker says with its heartbeats which native functions it lacks, and hands closures of those
 * back; of each dataset it says whether it could open it, how many rows there are and a hash of
 * them all. The rows that most workers have are the job's: a worker with other rows would train on
 * these unnoticed, so it gets no closure that reads the dataset. The job's rows are decided when
 * more than half of the workers agree or all have answered, or CADRE_UNSERVED_MS after the first
 * answer.
 *
 * What a worker lacks is said once, in the log and in the status, and the other workers go on. A
 * closure that no present worker can run fails after CADRE_UNSERVED_MS: a worker that can may be
 * about to join. A process that was started again is judged again.
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
 * functions and data they have (`abilities`), of datasets the answers of workers and which rows are
 * the job's. */
typedef struct {
    const cadre_membership_t *members;
    const cadre_catalogue_t *catalogue;
    const cadre_replay_t *replay; /* says which closure is next to run again */
    cadre_closure_queue_t *queue; /* says which closures wait, and since when no worker can run
                                     them */
    cadre_announcements_t *announcements;
    cadre_resources_t *resources;
    cadre_rights_t *rights; /* counts what is malformed */
    cadre_effects_t *effects;
} cadre_worker_admission_links_t;

typedef struct {
    cadre_worker_admission_links_t links;
    uint32_t lacks;                 /* how many functions and datasets workers lack, counted for
                                       each worker */
    bool unserved;                  /* queued closures may wait that no worker can run, */
    cadre_unserved_t redo_unserved; /* and since when the one that is next to run again does */
    uint64_t due_ms;                /* when to look for such closures again */
} cadre_worker_admission_t;

void cadre_worker_admission_init(cadre_worker_admission_t *self,
                                 const cadre_worker_admission_links_t *links);

/* --- what workers say --- */

/* Take which native functions a worker says it lacks, and its answer about a dataset. */
void cadre_worker_admission_on_heartbeat(cadre_worker_admission_t *self, cadre_member_t *worker,
                                         const cadre_heartbeat_message_t *heartbeat);
void cadre_worker_admission_on_dataset(cadre_worker_admission_t *self, cadre_member_t *worker,
                                       const cadre_dataset_ready_message_t *ready);

/* Notes that a worker lacks a function: it has handed a closure of it back. */
void cadre_worker_admission_on_unable(cadre_worker_admission_t *self, cadre_member_t *worker,
                                      uint32_t function);

/* Forgets what a member has said that goes. */
void cadre_worker_admission_on_lost(cadre_worker_admission_t *self, const cadre_member_t *member);

/* --- time --- */

/* Asks the workers again that have not answered about a dataset; returns whether there is such a
 * worker. */
bool cadre_worker_admission_chase(cadre_worker_admission_t *self);

/* Decides which rows of a dataset are the job's, where it is time to. Called every turn. */
void cadre_worker_admission_tick(cadre_worker_admission_t *self);

/* Returns whether it is time to look for closures that no worker can run, and notes that this
 * happens now. */
bool cadre_worker_admission_take_due(cadre_worker_admission_t *self);

/* Return the closure that is next to run again, or a queued one, if no worker has been able to run
 * it for CADRE_UNSERVED_MS; `*status` and this thread's error text say why. Else NULL. The caller
 * ends the closure. */
cadre_closure_t *cadre_worker_admission_find_unserved_again(cadre_worker_admission_t *self,
                                                            int *status);
cadre_closure_t *cadre_worker_admission_find_unserved(cadre_worker_admission_t *self, int *status);

/* --- what others ask --- */

/* Writes item number `at`, from 0 on, of what the worker lacks: `what` ("function f", "dataset d"),
 * and why; false: there are no more. */
bool cadre_worker_admission_lack(const cadre_worker_admission_t *self, const cadre_member_t *worker,
                                 uint32_t at, char what[CADRE_LACK_TEXT_SIZE],
                                 char why[CADRE_LACK_TEXT_SIZE]);

#endif
