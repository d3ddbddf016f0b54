/*
 * worker_admission - keeps from workers the closures that need a native function or a dataset which
 * they lack.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A worker says in its heartbeats which native functions it lacks, and hands closures of these
 * functions back. About each dataset it says whether it could open the files, how many rows they
 * have, and a hash of all rows. The rows that most workers have are the job's: a worker with other
 * rows would train on these unnoticed, so it gets no closure that reads the dataset. The job's rows
 * are decided when more than half of the workers agree, when all have answered, or
 * CADRE_UNSERVED_MS after the first answer.
 *
 * What a worker lacks is logged once and shown in the status, and the other workers go on. A
 * closure that no connected worker can run fails only after CADRE_UNSERVED_MS, as a worker that can
 * run it may be about to join. A process that was started again is judged again.
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

/* The objects that admission reads and calls; borrowed for its life. Of members it writes which
 * functions and datasets they have (`abilities`), of datasets the answers of workers and which rows
 * are the job's. */
typedef struct {
    const cadre_membership_t *members;
    const cadre_catalogue_t *catalogue;
    const cadre_replay_t *replay; /* knows which closure is the next to run again */
    /* Knows which closures wait, and since when no worker can run them. */
    cadre_closure_queue_t *queue;
    cadre_announcements_t *announcements;
    cadre_resources_t *resources;
    cadre_rights_t *rights; /* counts messages that are malformed */
    cadre_effects_t *effects;
} cadre_worker_admission_links_t;

typedef struct {
    cadre_worker_admission_links_t links;
    /* How many functions and datasets all workers lack, summed over the workers. */
    uint32_t lacks;
    bool unserved; /* a queued closure may wait that no worker can run */
    /* Since when no worker can run the closure that is next to run again. */
    cadre_unserved_t redo_unserved;
    uint64_t due_ms; /* when to look again for closures that no worker can run */
} cadre_worker_admission_t;

void cadre_worker_admission_init(cadre_worker_admission_t *self,
                                 const cadre_worker_admission_links_t *links);

/* --- answers of workers --- */

/* Take from a HEARTBEAT which native functions the worker lacks; take its answer about a
 * dataset. */
void cadre_worker_admission_on_heartbeat(cadre_worker_admission_t *self, cadre_member_t *worker,
                                         const cadre_heartbeat_message_t *heartbeat);
void cadre_worker_admission_on_dataset(cadre_worker_admission_t *self, cadre_member_t *worker,
                                       const cadre_dataset_ready_message_t *ready);

/* Notes that a worker lacks a function, because it has handed a closure of that function back. */
void cadre_worker_admission_on_unable(cadre_worker_admission_t *self, cadre_member_t *worker,
                                      uint32_t function);

/* Forgets the answers of a member that goes. */
void cadre_worker_admission_on_lost(cadre_worker_admission_t *self, const cadre_member_t *member);

/* --- every turn --- */

/* Sends datasets again, when it is time, to workers that have not answered about them; returns
 * whether there is such a worker. */
bool cadre_worker_admission_chase(cadre_worker_admission_t *self);

/* Marks a dataset as failed about which nothing was decided, since no caller waits for it any more.
 * Workers that open it all the same keep its rows until the job ends. */
void cadre_worker_admission_give_up(cadre_dataset_t *dataset, int status);

/* Decides which rows of a dataset are the job's, where it is time to. Called every turn. */
void cadre_worker_admission_tick(cadre_worker_admission_t *self);

/* Returns whether it is time to look for closures that no worker can run, and notes that this
 * happens now. */
bool cadre_worker_admission_take_due(cadre_worker_admission_t *self);

/* Return the closure that is next to run again (..._again), or a queued one, if no worker has been
 * able to run it for CADRE_UNSERVED_MS; `*status` and this thread's error text say why. Else NULL.
 * The caller ends the closure. */
cadre_closure_t *cadre_worker_admission_find_unserved_again(cadre_worker_admission_t *self,
                                                            int *status);
cadre_closure_t *cadre_worker_admission_find_unserved(cadre_worker_admission_t *self, int *status);

/* --- queries --- */

/* Writes item number `at`, from 0 on, of the things that the worker lacks: `what` ("function f",
 * "dataset d") and `why` it lacks it; false when there is no such item. */
bool cadre_worker_admission_lack(const cadre_worker_admission_t *self, const cadre_member_t *worker,
                                 uint32_t at, char what[CADRE_LACK_TEXT_SIZE],
                                 char why[CADRE_LACK_TEXT_SIZE]);

#endif
