/*
 * coordinator_core - everything a coordinator decides.
 *
 * Owner:   libcadre's coordinator (or the simulation).
 * Thread:  under the coordinator's lock (coordinator/README.md, rule 1): its actor and the threads
 * that call the API.
 *
 * A core: it has no socket, thread, clock or file. Messages and the time go in, messages (the
 * outbox) and effects come out. Files belong to the store, which gets orders by STORE effects and
 * answers by cadre_core_stored.
 */
#ifndef CADRE_COORDINATOR_CORE_COORDINATOR_CORE_H
#define CADRE_COORDINATOR_CORE_COORDINATOR_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/checkpoint/checkpoint.h"
#include "coordinator/core/checkpoint/restoration.h"
#include "coordinator/core/clients/clients.h"
#include "coordinator/core/closures/begun.h"
#include "coordinator/core/closures/closure_queue.h"
#include "coordinator/core/dispatch/acks.h"
#include "coordinator/core/dispatch/apart.h"
#include "coordinator/core/dispatch/attempts.h"
#include "coordinator/core/dispatch/backups.h"
#include "coordinator/core/dispatch/closure_sender.h"
#include "coordinator/core/dispatch/dispatcher.h"
#include "coordinator/core/dispatch/overruns.h"
#include "coordinator/core/dispatch/pause.h"
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
#include "coordinator/core/shards/removals.h"
#include "coordinator/core/shards/replay.h"
#include "coordinator/core/shards/shard_requests.h"
#include "coordinator/core/shards/windows.h"

typedef struct cadre_core cadre_core_t;

enum { CADRE_TICK_MS_MAX = 1000 }; /* longest time from one tick to the next */

struct cadre_core {
    cadre_core_options_t options;
    cadre_effects_t effects; /* output of the turn for the shell, and the time of the turn */

    cadre_membership_t membership;
    cadre_leases_t leases;
    cadre_rights_t rights;
    cadre_members_t members; /* how tasks join and leave */
    cadre_catalogue_t catalogue;
    cadre_announcements_t announcements; /* tells workers what the catalogue holds */
    cadre_drops_t drops;                 /* variables that are being dropped */
    cadre_removals_t removals;           /* functions and resources that were dropped */
    cadre_closure_queue_t queue;
    cadre_begun_t begun;
    cadre_replay_t replay;
    cadre_shard_requests_t requests; /* requests of the API and of checkpoints to shards */
    cadre_shard_recovery_t recovery;
    cadre_windows_t windows;
    cadre_checkpoint_t checkpoint;
    cadre_restoration_t restoration;
    cadre_operations_t operations;      /* creates, reads and assigns variables on shards */
    cadre_resources_t resources;        /* which workers build and have which resource */
    cadre_worker_admission_t admission; /* which workers have which functions and datasets */
    cadre_clients_t clients; /* programs that are no members: they read, and may schedule */
    cadre_totals_t totals;
    cadre_totals_t of_clients; /* what closures of clients added to them in this session */

    /* Which worker runs which closure: coordinator/core/dispatch. */
    cadre_apart_t apart;
    cadre_closure_sender_t sender;
    cadre_attempts_t attempts;
    cadre_acks_t acks;
    cadre_reach_t reach;
    cadre_pause_t pause;
    cadre_steps_t steps;
    cadre_reports_t reports;
    cadre_dispatcher_t dispatcher;
    cadre_overruns_t overruns;
    cadre_backups_t backups;
    cadre_trials_t trials;
    cadre_waiting_t waiting;

    cadre_job_metrics_t metrics;

    int fatal; /* below 0: the job cannot go on, and every call of the API fails with this */
    char fatal_text[CADRE_CLOSURE_ERROR_SIZE];
    bool stopping;
    bool keys_unreadable; /* files of keys cannot be read (cadre_keyring_unreadable) */
};

void cadre_core_init(cadre_core_t *self, const cadre_core_options_t *options, uint64_t now_ms);

/* Ends all closures, queued or in flight, as CADRE_ECLOSED. Only cadre_core_fini may be called
 * afterwards. */
void cadre_core_close(cadre_core_t *self);

/* Closes the core, if that was not done, and frees it. */
void cadre_core_fini(cadre_core_t *self);

/* Resumes from the checkpoint `id` at `path` (copied). Called before the first task joins. */
void cadre_core_resume(cadre_core_t *self, const char *path, uint64_t id, uint64_t cut,
                       const cadre_totals_t *totals);

/* --- called by the shell --- */

/* Takes a message from the task `from`, and acts on it. */
void cadre_core_receive(cadre_core_t *self, const cadre_task_t *from, cadre_message_t *message,
                        uint64_t now_ms);

/* Notes that keys were withdrawn, whereupon all connections to the coordinator are closed: a member
 * that joined under a key which is not among the `count` allowed ones is lost, and all others have
 * a lease to say HELLO again. Sorts `ids`, those of the allowed keys (cadre_peer_key_t). */
void cadre_core_keys_withdrawn(cadre_core_t *self, uint64_t *ids, size_t count, uint64_t now_ms);

/* Notes that the connection to a task has closed: the task is lost; except after an own stall of
 * the coordinator or after keys were withdrawn, when it has a lease to say HELLO again
 * (members/leases.h). */
void cadre_core_gone(cadre_core_t *self, const cadre_task_t *task, uint64_t now_ms);

/* Takes a task out as lost that does not read its messages, which have therefore been dropped. */
void cadre_core_overrun(cadre_core_t *self, const cadre_task_t *task, uint64_t now_ms);

/* Sends every member a WELCOME without effect, after some connection has closed, so that the shell
 * learns which member cannot be reached. */
void cadre_core_probe(cadre_core_t *self);

/* Looks at all timers, then hands out closures, then sends acknowledgements. Called after every
 * batch of messages and calls; `unread`: more messages wait than that batch took. Returns when it
 * must be called again, CADRE_TICK_MS_MAX from now at the latest: if the shell calls later, that is
 * an own stall, by which all leases are extended (members/leases.h). */
uint64_t cadre_core_tick(cadre_core_t *self, uint64_t now_ms, bool unread);

/* Takes the store's answer to an order. */
void cadre_core_stored(cadre_core_t *self, const cadre_store_answer_t *answer, uint64_t now_ms);

/* Counts and logs that the store could not delete older checkpoints after it had committed
 * `checkpoint`. */
void cadre_core_note_retention_failed(cadre_core_t *self, uint64_t checkpoint, const char *why);

/* Notes whether the files of keys cannot be read. */
void cadre_core_note_keys(cadre_core_t *self, bool are_unreadable);

enum { CADRE_CORE_UNREADY_SIZE = 256 };

/* Writes why the job cannot go on now, in words; "" when every shard is ready. */
void cadre_core_unready(const cadre_core_t *self, char text[CADRE_CORE_UNREADY_SIZE]);

/* Adds the coordinator's build and transport, and the metrics of the job, to `text`. */
void cadre_core_metrics(const cadre_core_t *self, uint64_t now_ms, cadre_metrics_text_t *text);

/* Tells every task to stop. */
void cadre_core_stop(cadre_core_t *self, const char *reason);

/* --- called by the API --- */

/* Ends all queued closures as cancelled, and lets workers be told to stop those in flight. */
void cadre_core_cancel(cadre_core_t *self);

/* Ends the queued closures of a group as cancelled, and lets workers be told to stop those in
 * flight. */
void cadre_core_cancel_group(cadre_core_t *self, cadre_closure_group_t *group);

/* Counts a closure that was put into the queue. */
void cadre_core_note_scheduled(cadre_core_t *self);

/* Begins to drop a variable that was created and not dropped before, and announces it to the
 * workers. Returns the drop's number (coordinator/core/shards/drops.h). The core owns the handle
 * from now on. */
uint64_t cadre_core_drop_variable(cadre_core_t *self, cadre_variable_t *variable);

/* Drop a function (fails as cadre_catalogue_drop_function); drop a resource. Each is removed when
 * no closure can name it any more. The core keeps the handle. */
int cadre_core_drop_function(cadre_core_t *self, cadre_function_t *function);
void cadre_core_drop_resource(cadre_core_t *self, cadre_resource_t *resource);

/* Moves drops and removals on that are due: tells shards, workers and the checkpoint. Every tick
 * does so; a call that has just dropped something does so, too, as the drop may be done at once. */
void cadre_core_advance_drops(cadre_core_t *self);

/* Frees a variable that no closure can name any more, or whose creation has failed or was given up.
 * The shards are asked to drop the partitions that they may have, ahead of all later requests, and
 * workers learn that its id is vacant. */
void cadre_core_forget_variable(cadre_core_t *self, cadre_variable_t *variable);

/* Frees a variable that no shard was asked to create; workers learn that its id is vacant. */
void cadre_core_unlist_variable(cadre_core_t *self, cadre_variable_t *variable);

#endif
