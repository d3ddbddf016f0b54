/*
 * worker_state - the inside of worker_core, shared by its files: worker_core.c (session, timers,
 * messages), worker_closures.c (closures from arrival to their end), worker_wants.c (definitions
 * that they miss), worker_arguments.c (what they take from others), worker_reports.c (what the
 * coordinator is told of them), worker_values.c (pull and push) and worker_builds.c (resources).
 */
#ifndef CADRE_WORKER_CORE_WORKER_STATE_H
#define CADRE_WORKER_CORE_WORKER_STATE_H

#include "common/session/contact.h"
#include "common/session/session.h"
#include "worker/core/kept_values.h"
#include "worker/core/shard_link.h"
#include "worker/core/staleness.h"
#include "worker/core/value_cache.h"
#include "worker/core/worker_core.h"

enum {
    CADRE_RECENT_MAX = 1024, /* acknowledged closures remembered against late duplicates */
    CADRE_WANT_RETRY_MS = 1000,
};

typedef enum {
    CADRE_WORKER_STATE_HELLO,    /* HELLO is out, no WELCOME yet */
    CADRE_WORKER_STATE_MEMBER,   /* welcomed */
    CADRE_WORKER_STATE_DRAINING, /* finishes what runs, takes nothing new */
    CADRE_WORKER_STATE_LEFT,     /* GOODBYE is out */
} cadre_worker_session_state_t;

typedef struct {
    uint64_t closure;
    uint64_t attempt;
} cadre_recent_t;

/* What became of updates: sent = answered (the counters applied, duplicate and refused) + abandoned
 * + pending. */
typedef struct {
    uint64_t sent; /* each once */
    uint64_t abandoned;
    uint64_t pending;
    uint64_t repeated; /* times that one was sent again */
} cadre_push_totals_t;

struct cadre_worker_core {
    cadre_worker_options_t options;
    cadre_task_t coordinator; /* destination of control messages; any incarnation */
    cadre_outbox_t outbox;
    cadre_worker_event_t *events; /* a growing array, taken from the front */
    size_t event_first;
    size_t event_count;
    size_t event_capacity;

    cadre_worker_session_state_t session_state;
    uint64_t session; /* incarnation of the coordinator; 0 before the first WELCOME */
    bool superseded;  /* another coordinator is there; slots still hold runs of the one before */
    uint64_t epoch;
    uint64_t heartbeat_ms; /* intervals, from WELCOME */
    uint64_t lease_ms;
    cadre_contact_t contact;
    uint64_t round; /* of HELLO: how often what was told may not have been taken */
    uint64_t
        hello_first; /* number of the first HELLO since the state is CADRE_WORKER_STATE_HELLO: a
                             WELCOME that answers an earlier one, or none, is no answer to it */
    uint64_t hello_due_ms;
    uint64_t mute_due_ms; /* while in CADRE_WORKER_STATE_HELLO and the coordinator says nothing */
    uint64_t heartbeat_due_ms;
    uint64_t want_due_ms;
    uint64_t tick_due_ms; /* when the shell promised to tick again, at the latest */
    uint64_t heartbeat_sequence;
    uint64_t request_last; /* request ids only go up */
    char leave_reason[CADRE_TEXT_SIZE_MAX + 1];
    bool dismissed; /* told to drain */

    cadre_directory_t directory;
    cadre_value_cache_t cache;
    cadre_kept_values_t kept;
    cadre_shard_link_t *links; /* [directory.shard_count] */

    cadre_u64_map_t runs;     /* by closure id */
    cadre_run_t *queue_first; /* QUEUED, in order of arrival */
    cadre_run_t **queue_last_p;
    size_t waiting;    /* runs in WAITING */
    uint32_t running;  /* runs that were STARTed and have not finished */
    bool *slot_in_use; /* [options.slots + options.ahead] */
    bool disowned; /* draining, and the coordinator has forgotten this worker: no ACK will come */
    cadre_recent_t recent[CADRE_RECENT_MAX]; /* at closure % CADRE_RECENT_MAX: ids ascend */
    uint64_t counters[CADRE_WORKER_COUNTER_COUNT];
    cadre_push_totals_t pushes;  /* `repeated` of links that are closed; see worker_metrics.c */
    cadre_staleness_t staleness; /* where options.observes */
};

/* --- worker_core.c --- */

/* An empty message of this type with the sender's fields filled in. */
cadre_message_t cadre_worker_message(cadre_worker_core_t *self, cadre_message_type_t type);

/* Appends an event; takes its values. */
void cadre_worker_emit(cadre_worker_core_t *self, const cadre_worker_event_t *event);

/* Takes up the session, or a new one once the runs of the one before have ended. */
void cadre_worker_on_welcome(cadre_worker_core_t *self, const cadre_message_t *message,
                             uint64_t now_ms);

/* Says HELLO: to a coordinator that may not know this worker, or not any more. */
void cadre_worker_rejoin(cadre_worker_core_t *self, uint64_t now_ms);

/* Has the next turn send a HEARTBEAT: the coordinator waits for what it tells. */
void cadre_worker_hurry_heartbeat(cadre_worker_core_t *self, uint64_t now_ms);

/* --- worker_closures.c --- */

void cadre_worker_on_closure(cadre_worker_core_t *self, cadre_message_t *message, uint64_t now_ms);
void cadre_worker_on_cancel(cadre_worker_core_t *self, const cadre_cancel_message_t *cancel,
                            uint64_t now_ms);

/* Moves runs whose definitions are complete to the queue, and queued ones to free slots. */
void cadre_worker_advance(cadre_worker_core_t *self, uint64_t now_ms);

/* Reports a run that no slot holds as failed; a build ends so, for good where it is the user's
 * failure. */
void cadre_worker_give_up(cadre_worker_core_t *self, cadre_run_t *run, cadre_failure_t failure,
                          int status, const char *text, uint64_t now_ms);

/* Hands back everything that no slot holds. */
void cadre_worker_hand_back(cadre_worker_core_t *self, uint64_t now_ms);

/* Tells the coordinator what became of a dataset. */
void cadre_worker_say_ready(cadre_worker_core_t *self, const cadre_dataset_entry_t *entry);

/* The ids of all runs, into a list that the caller frees. */
cadre_u64s_t cadre_worker_held(const cadre_worker_core_t *self);

/* Drops every run that no slot holds; cancels the others and what they wait for. */
void cadre_worker_drop_runs(cadre_worker_core_t *self);

/* The coordinator does not take this worker. */
void cadre_worker_be_refused(cadre_worker_core_t *self, const cadre_refused_message_t *refused);

/* Begins the run that builds a resource; takes the message. */
void cadre_worker_begin_build(cadre_worker_core_t *self, cadre_message_t *message,
                              const cadre_resource_entry_t *entry, uint64_t now_ms);

/* --- worker_wants.c --- */

/* Asks for the definitions that waiting runs miss, and for news of shards that are away or do not
 * answer: what the coordinator has told may have been lost. */
void cadre_worker_want(cadre_worker_core_t *self, uint64_t now_ms);

/* --- worker_arguments.c --- */

/* Keeps the values that came with a run, and gives it those that it was not told: false when one of
 * these is not here. */
bool cadre_worker_take_values(cadre_worker_core_t *self, cadre_run_t *run);

/* Keeps the results of a run that ends well: what its report is about to tell. */
void cadre_worker_keep_results(cadre_worker_core_t *self, const cadre_run_t *run,
                               const cadre_tensor_list_t *results, size_t count);

/* --- worker_builds.c --- */

/* Begins the builds that are due; when the next one is. */
uint64_t cadre_worker_build(cadre_worker_core_t *self, uint64_t now_ms);

/* A build has ended; what it holds is taken out of `outcome`. */
void cadre_worker_built(cadre_worker_core_t *self, const cadre_run_t *run,
                        cadre_run_outcome_t *outcome, uint64_t now_ms);

/* A build is given up before its end: it is to be tried again. */
void cadre_worker_unbuild(cadre_worker_core_t *self, const cadre_run_t *run, uint64_t now_ms);

/* Gives the run what the resources that it names hold. CADRE_EAGAIN while one is not built,
 * CADRE_EINVALID when one has failed, with why. */
int cadre_worker_take_resources(cadre_worker_core_t *self, cadre_run_t *run, const char **text);

/* Has the shell destroy what was held; NULL is fine. The directory's, all of them: no slot runs. */
void cadre_worker_release(cadre_worker_core_t *self, cadre_holding_t *holding);
void cadre_worker_release_all(cadre_worker_core_t *self);

/* --- worker_reports.c --- */

/* A run has ended: the shell may drop its batches. */
void cadre_worker_forget_batches(cadre_worker_core_t *self, const cadre_run_t *run);

/* Each makes a run REPORTING: its report is kept until it is acknowledged. */
void cadre_worker_report_done(cadre_worker_core_t *self, cadre_run_t *run,
                              const cadre_run_outcome_t *outcome, uint64_t now_ms);
void cadre_worker_report_failure(cadre_worker_core_t *self, cadre_run_t *run,
                                 cadre_failure_t failure, int status, const char *text);

void cadre_worker_send_report(cadre_worker_core_t *self, cadre_run_t *run);

/* The coordinator has answered the HELLO or HEARTBEAT of this number, and acknowledged before what
 * it had received before: reports that are older than the question are lost, and go out again. */
void cadre_worker_resend_reports(cadre_worker_core_t *self, uint64_t number);
void cadre_worker_on_ack(cadre_worker_core_t *self, const cadre_message_t *message);

/* Whether a CLOSURE is a late copy: that attempt, or a later one, has been acknowledged. */
bool cadre_worker_acknowledged_before(const cadre_worker_core_t *self, uint64_t closure,
                                      uint64_t attempt);

/* --- worker_values.c --- */

void cadre_worker_on_values(cadre_worker_core_t *self, uint32_t shard, cadre_message_t *message,
                            uint64_t now_ms);
void cadre_worker_on_applied(cadre_worker_core_t *self, uint32_t shard,
                             const cadre_message_t *message, uint64_t now_ms);

void cadre_worker_on_grant(cadre_worker_core_t *self, uint32_t shard,
                           const cadre_message_t *message, uint64_t now_ms);
void cadre_worker_on_probed(cadre_worker_core_t *self, uint32_t shard,
                            const cadre_message_t *message, uint64_t now_ms);

/* Sends what credit allows, asks after what is unanswered, gives mute connections up. Returns when
 * the next of it is due. */
uint64_t cadre_worker_tick_links(cadre_worker_core_t *self, uint64_t now_ms);

/* Ends the pull or push under way, if there is one, without waiting for its shards. */
void cadre_worker_abandon(cadre_worker_core_t *self, cadre_run_t *run);

/* A shard is served by somebody else, or by nobody: what was asked of who did fails. */
void cadre_worker_shard_moved(cadre_worker_core_t *self, uint32_t shard, uint64_t now_ms);

/* --- worker_metrics.c --- */

/* What became of the updates of this core so far. */
cadre_push_totals_t cadre_worker_pushes(const cadre_worker_core_t *self);

/* An update was applied: notes how stale it was, where options.observes. `parts` of the run were in
 * it, in the order in which `applied` names their versions. */
void cadre_worker_observe(cadre_worker_core_t *self, const cadre_run_t *run, const size_t *parts,
                          size_t count, const cadre_applied_message_t *applied);

#endif
