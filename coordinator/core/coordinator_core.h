/*
 * coordinator_core - everything a coordinator decides.
 *
 * Owner:   libcadre's coordinator (or the simulation).
 * Thread:  under the coordinator's lock (coordinator/README.md, rule 1): its actor and the threads
 * that call the API.
 *
 * A core: no socket, thread, clock or file. Messages and the time go in, messages (the outbox) and
 * events come out. Files are the store's: it is asked by STORE events and answers with
 * cadre_core_stored.
 */
#ifndef CADRE_COORDINATOR_CORE_COORDINATOR_CORE_H
#define CADRE_COORDINATOR_CORE_COORDINATOR_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/checkpoint/checkpoint.h"
#include "coordinator/core/closures/begun.h"
#include "coordinator/core/closures/closure_queue.h"
#include "coordinator/core/dispatch/acks.h"
#include "coordinator/core/dispatch/apart.h"
#include "coordinator/core/dispatch/attempts.h"
#include "coordinator/core/dispatch/backups.h"
#include "coordinator/core/dispatch/closure_sender.h"
#include "coordinator/core/dispatch/dispatcher.h"
#include "coordinator/core/dispatch/overruns.h"
#include "coordinator/core/dispatch/reach.h"
#include "coordinator/core/dispatch/reports.h"
#include "coordinator/core/dispatch/trials.h"
#include "coordinator/core/dispatch/waiting.h"
#include "coordinator/core/effects/core_options.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/job_metrics.h"
#include "coordinator/core/members/leases.h"
#include "coordinator/core/members/members.h"
#include "coordinator/core/members/membership.h"
#include "coordinator/core/members/rights.h"
#include "coordinator/core/provisioning/announcements.h"
#include "coordinator/core/provisioning/operations.h"
#include "coordinator/core/provisioning/resources.h"
#include "coordinator/core/provisioning/worker_admission.h"
#include "coordinator/core/shards/drops.h"
#include "coordinator/core/shards/recovery.h"
#include "coordinator/core/shards/replay.h"
#include "coordinator/core/shards/shard_requests.h"
#include "coordinator/core/shards/windows.h"

typedef struct cadre_core cadre_core_t;

enum { CADRE_TICK_MS_MAX = 1000 }; /* from one tick to the next */

struct cadre_core {
    cadre_core_options_t options;
    cadre_effects_t effects; /* of the turn, for the shell; and its time */

    cadre_membership_t membership;
    cadre_leases_t leases;
    cadre_rights_t rights;
    cadre_members_t members; /* how they come and go */
    cadre_catalogue_t catalogue;
    cadre_announcements_t announcements; /* its announcements to workers */
    cadre_drops_t drops;                 /* of variables */
    cadre_closure_queue_t queue;
    cadre_begun_t begun;
    cadre_replay_t replay;
    cadre_shard_requests_t requests; /* of the API and checkpoints */
    cadre_shard_recovery_t recovery;
    cadre_windows_t windows;
    cadre_checkpoint_t checkpoint;
    cadre_operations_t operations;      /* what is done with values on shards */
    cadre_resources_t resources;        /* who builds which, and has it */
    cadre_worker_admission_t admission; /* which workers are given what */
    cadre_totals_t totals;

    /* Who runs what: coordinator/core/dispatch. */
    cadre_apart_t apart;
    cadre_closure_sender_t sender;
    cadre_attempts_t attempts;
    cadre_acks_t acks;
    cadre_reach_t reach;
    cadre_steps_t steps;
    cadre_reports_t reports;
    cadre_dispatcher_t dispatcher;
    cadre_overruns_t overruns;
    cadre_backups_t backups;
    cadre_trials_t trials;
    cadre_waiting_t waiting;

    cadre_job_metrics_t metrics;

    int fatal; /* the job cannot go on: every call answers this */
    char fatal_text[CADRE_CLOSURE_ERROR_SIZE];
    bool stopping;
    bool keys_unreadable; /* as cadre_keyring_unreadable says */
};

void cadre_core_init(cadre_core_t *self, const cadre_core_options_t *options, uint64_t now_ms);

/* Ends whatever is queued or in flight as CADRE_ECLOSED; nothing is called then but
 * cadre_core_fini. */
void cadre_core_close(cadre_core_t *self);

/* Closes it, where that was not done. */
void cadre_core_fini(cadre_core_t *self);

/* Begins from the checkpoint `id` at `path`, which is copied: before the first task joins. */
void cadre_core_resume(cadre_core_t *self, const char *path, uint64_t id, uint64_t cut,
                       const cadre_totals_t *totals);

/* --- what the shell calls --- */

/* A message from the task `from`; takes it. */
void cadre_core_receive(cadre_core_t *self, const cadre_task_t *from, cadre_message_t *message,
                        uint64_t now_ms);

/* Keys were withdrawn, and with them all connections to the coordinator end: who joined under a key
 * that is not among the `count` allowed ones is lost, and everybody else has a lease to say HELLO
 * again. Sorts `ids`, those of the allowed keys (cadre_peer_key_t). */
void cadre_core_keys_withdrawn(cadre_core_t *self, uint64_t *ids, size_t count, uint64_t now_ms);

/* The connection to a task is gone: it is lost, but after an own stall of the coordinator or when
 * keys were withdrawn, when it has a lease to say HELLO again (members/leases.h). */
void cadre_core_gone(cadre_core_t *self, const cadre_task_t *task, uint64_t now_ms);

/* A task does not read what it is sent: what waited for it has been dropped, so it is lost. */
void cadre_core_overrun(cadre_core_t *self, const cadre_task_t *task, uint64_t now_ms);

/* Some connection closed: sends every member something harmless, so that the shell learns which
 * cannot be reached. */
void cadre_core_probe(cadre_core_t *self);

/* Timers, then work for free workers, then acknowledgements. Called after every batch of messages
 * and calls; `unread`: more messages wait than that batch took. Returns when it wants to be called
 * again, CADRE_TICK_MS_MAX from now at the latest: a shell that comes later has been stalled, and
 * no lease is judged over that (members/leases.h). */
uint64_t cadre_core_tick(cadre_core_t *self, uint64_t now_ms, bool unread);

/* The store's answer to an order. */
void cadre_core_stored(cadre_core_t *self, const cadre_store_answer_t *answer, uint64_t now_ms);

/* The store could not remove older checkpoints after a commit. */
void cadre_core_note_retention_failed(cadre_core_t *self);

/* Whether the files of keys can be read. */
void cadre_core_note_keys(cadre_core_t *self, bool are_unreadable);

enum { CADRE_CORE_UNREADY_SIZE = 256 };

/* Says why the job cannot go on now, in words; "" when every shard is ready. */
void cadre_core_unready(const cadre_core_t *self, char text[CADRE_CORE_UNREADY_SIZE]);

/* Adds to `text` what runs here, and the figures of the job. */
void cadre_core_metrics(const cadre_core_t *self, uint64_t now_ms, cadre_metrics_text_t *text);

/* Tells every task to stop. */
void cadre_core_stop(cadre_core_t *self, const char *reason);

/* --- what the API calls --- */

/* Ends what is queued as cancelled, and has workers told to stop the rest. */
void cadre_core_cancel(cadre_core_t *self);

/* Counts a closure that was put into the queue. */
void cadre_core_note_scheduled(cadre_core_t *self);

/* Begins to drop a variable that was created, and was not dropped: tells the workers. Returns the
 * drop's number (coordinator/core/shards/drops.h). The handle is the core's from now on. */
uint64_t cadre_core_drop_variable(cadre_core_t *self, cadre_variable_t *variable);

/* Takes the steps of drops that are due: tells shards, workers and the checkpoint. Every tick does
 * so; a call that has just dropped a variable may find it gone at once. */
void cadre_core_advance_drops(cadre_core_t *self);

/* Ends a variable that nothing can name any more, or whose creation has failed, or was given up,
 * and was forgotten: the shards drop what they may have of it, in front of what is asked from now
 * on, and workers learn that its id is vacant. */
void cadre_core_forget_variable(cadre_core_t *self, cadre_variable_t *variable);

/* The same for one that no shard was asked for. */
void cadre_core_unlist_variable(cadre_core_t *self, cadre_variable_t *variable);

#endif
