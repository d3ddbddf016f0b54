#include "coordinator/core/coordinator_core.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/core/assembly.h"
#include "coordinator/core/checkpoint/replay_bounds.h"

/* --- how closures end --- */

/* Takes a closure that has ended out of all lists and counters. It is kept for a replay if it
 * pushed updates, else freed. */
static void
retire(cadre_core_t *self, cadre_closure_t *closure)
{
    bool is_kept = closure->has_updates && self->replay.keeping;
    if (closure->id) {
        cadre_begun_end(&self->begun, closure);
        bool is_unsaved = closure->has_updates && !is_kept;
        cadre_checkpoint_on_ended(&self->checkpoint, closure, is_unsaved);
    }

    if (closure->results && closure->results->future) {
        cadre_effects_emit_ended(&self->effects, closure->results);
    }

    cadre_apart_forget(&self->apart, closure);
    if (closure->end_status == 0 && closure->sequence > 0) {
        cadre_checkpoint_note_ended(&self->checkpoint, closure);
    }
    if (is_kept) {
        cadre_replay_keep(&self->replay, closure);
        return;
    }
    if (closure->has_updates) {
        cadre_replay_note_unsaved(&self->replay);
    }
    cadre_closure_destroy(&closure);
}

/* Retires the closures that have ended. Called after each call that may end closures, before any
 * code asks which closures are begun and not ended. */
static void
carry_out_ends(cadre_core_t *self)
{
    cadre_closure_t *closure = NULL;
    while ((closure = cadre_closure_queue_take_ended(&self->queue))) {
        retire(self, closure);
    }
}

void
cadre_core_cancel(cadre_core_t *self)
{
    cadre_closure_queue_cancel(&self->queue);
    carry_out_ends(self);
}

void
cadre_core_cancel_group(cadre_core_t *self, cadre_closure_group_t *group)
{
    cadre_closure_queue_cancel_group(&self->queue, group);
    carry_out_ends(self);
}

void
cadre_core_close(cadre_core_t *self)
{
    cadre_steps_restart(&self->steps);
    cadre_attempts_clear(&self->attempts);
    cadre_closure_queue_close(&self->queue);
    carry_out_ends(self);
}

/* --- the beginning and the end --- */

/* Makes an empty core. Its objects hold pointers to each other: it must not be moved. */
void
cadre_core_init(cadre_core_t *self, const cadre_core_options_t *options, uint64_t now_ms)
{
    *self = (cadre_core_t){.options = *options};
    cadre_effects_init(&self->effects, options->incarnation, options->epoch, now_ms);
    cadre_core_assemble(self);
    self->waiting = (cadre_waiting_t){.members = &self->membership,
                                      .catalogue = &self->catalogue,
                                      .queue = &self->queue,
                                      .replay = &self->replay,
                                      .recovery = &self->recovery,
                                      .windows = &self->windows,
                                      .checkpoint = &self->checkpoint,
                                      .reach = &self->reach,
                                      .overruns = &self->overruns};
    self->metrics = (cadre_job_metrics_t){.options = &self->options,
                                          .totals = &self->totals,
                                          .members = &self->membership,
                                          .catalogue = &self->catalogue,
                                          .rights = &self->rights,
                                          .queue = &self->queue,
                                          .attempts = &self->attempts,
                                          .reports = &self->reports,
                                          .reach = &self->reach,
                                          .replay = &self->replay,
                                          .recovery = &self->recovery,
                                          .checkpoint = &self->checkpoint};
}

/* Ends all closures and frees the core. */
void
cadre_core_fini(cadre_core_t *self)
{
    cadre_core_close(self);
    cadre_clients_fini(&self->clients);
    cadre_steps_fini(&self->steps);
    cadre_backups_fini(&self->backups);
    cadre_dispatcher_fini(&self->dispatcher);
    cadre_closure_queue_fini(&self->queue);
    cadre_begun_fini(&self->begun);
    cadre_apart_fini(&self->apart);
    cadre_reach_fini(&self->reach);
    cadre_replay_fini(&self->replay);
    cadre_shard_requests_fini(&self->requests);
    cadre_recovery_fini(&self->recovery);
    cadre_membership_fini(&self->membership);
    cadre_catalogue_fini(&self->catalogue);
    cadre_announcements_fini(&self->announcements);
    cadre_drops_fini(&self->drops);
    cadre_removals_fini(&self->removals);
    cadre_checkpoint_fini(&self->checkpoint);
    cadre_effects_fini(&self->effects);
}

void
cadre_core_resume(cadre_core_t *self, const char *path, uint64_t id, uint64_t cut,
                  const cadre_totals_t *totals)
{
    cadre_recovery_resume(&self->recovery, path, id, cut);
    cadre_windows_raise(&self->windows, cut);
    self->totals = *totals;
    cadre_begun_resume(&self->begun, cut, totals->scheduled);
    cadre_checkpoint_resume(&self->checkpoint, path);
}

/* --- dropping variables, functions, resources --- */

uint64_t
cadre_core_drop_variable(cadre_core_t *self, cadre_variable_t *variable)
{
    uint64_t number = cadre_drops_call(&self->drops, variable);
    cadre_announcements_add_drop(&self->announcements, variable);
    return number;
}

/* Carries out that a drop has retired: no new closure names the variable, its name is free, and
 * later checkpoints leave it out. */
static void
retire_variable(cadre_core_t *self, const cadre_variable_t *variable)
{
    cadre_operations_retire(&self->operations, variable);
    cadre_checkpoint_await_no_more(&self->checkpoint, variable->name);
    cadre_catalogue_free_name(&self->catalogue, variable);
    cadre_effects_log(&self->effects, 'I', "variable_dropped", "variable=%s id=%" PRIu32,
                      variable->name, variable->id);
    cadre_effects_note_progress(&self->effects);
}

int
cadre_core_drop_function(cadre_core_t *self, cadre_function_t *function)
{
    int status = cadre_catalogue_drop_function(&self->catalogue, function);
    if (status == 0) {
        cadre_removals_add(&self->removals, CADRE_DEFINED_FUNCTION, function->id);
    }
    return status;
}

void
cadre_core_drop_resource(cadre_core_t *self, cadre_resource_t *resource)
{
    cadre_catalogue_drop_resource(&self->catalogue, resource);
    cadre_removals_add(&self->removals, CADRE_DEFINED_RESOURCE, resource->id);
}

/* Frees functions and resources that no closure can name any more; workers learn of it. */
static void
advance_removals(cadre_core_t *self)
{
    cadre_removal_t removal;
    while (cadre_removals_take(&self->removals, &removal)) {
        if (removal.of == CADRE_DEFINED_FUNCTION) {
            cadre_catalogue_remove_function(&self->catalogue, removal.id);
        } else {
            cadre_catalogue_remove_resource(&self->catalogue, removal.id);
            cadre_resources_on_removed(&self->resources, self->catalogue.resources[removal.id - 1]);
        }
        cadre_announcements_add_removal(&self->announcements, removal.of, removal.id);
    }
}

/* Retires the drops that are due, then forgets variables that nobody can name any more; the same
 * for functions and resources. */
void
cadre_core_advance_drops(cadre_core_t *self)
{
    cadre_variable_t *variable = NULL;
    while ((variable = cadre_drops_take_retired(&self->drops))) {
        retire_variable(self, variable);
    }

    const cadre_checkpoint_t *checkpoint = &self->checkpoint;
    uint64_t cut = cadre_checkpoint_has_open_cut(checkpoint) ? checkpoint->drops : UINT64_MAX;
    while ((variable = cadre_drops_take_done(&self->drops, cut))) {
        cadre_core_forget_variable(self, variable);
    }
    advance_removals(self);
}

void
cadre_core_forget_variable(cadre_core_t *self, cadre_variable_t *variable)
{
    cadre_operations_drop(&self->operations, variable);
    cadre_core_unlist_variable(self, variable);
}

void
cadre_core_unlist_variable(cadre_core_t *self, cadre_variable_t *variable)
{
    uint32_t id = variable->id;
    cadre_catalogue_drop_variable(&self->catalogue, variable);
    cadre_announcements_add_vacancy(&self->announcements, id);
}

/* --- tasks that leave or are lost --- */

/* Puts the closures in flight on a worker that goes back into the queue. `died`: its process has
 * ended, as far as can be told, so that the closures which it ran may be to blame. */
static void
take_work_back(cadre_core_t *self, cadre_member_t *worker, bool died)
{
    cadre_resources_on_lost(&self->resources, worker, died);
    cadre_attempts_lose(&self->attempts, worker, died);
    carry_out_ends(self);
    cadre_membership_note_end(&self->membership, worker, self->effects.now_ms, died);
}

static void
remove_member(cadre_core_t *self, cadre_member_t *member)
{
    cadre_worker_admission_on_lost(&self->admission, member);
    cadre_members_remove(&self->members, member);
}

/* Takes out a worker that is lost; what it had in flight goes back to the queue. */
static void
lose_worker(cadre_core_t *self, cadre_member_t *worker, const char *why, bool died)
{
    char name[32];
    size_t in_flight = worker->in_flight.count;
    self->totals.workers_lost++;
    take_work_back(self, worker, died);
    cadre_effects_log(&self->effects, 'W', "worker_lost",
                      "task=\"%s\" process=%u why=\"%s\" closures=%zu next=\"%s\"",
                      cadre_member_name(worker, name), worker->process, why, in_flight,
                      "they run again on other workers");
    remove_member(self, worker);
}

/* Takes out a ps that is lost; its shard is away until another ps takes the place. */
static void
lose_ps(cadre_core_t *self, cadre_member_t *ps, const char *why)
{
    char name[32];
    self->totals.ps_lost++;
    cadre_checkpoint_on_lost(&self->checkpoint);
    cadre_effects_log(&self->effects, 'W', "ps_lost",
                      "task=\"%s\" process=%u why=\"%s\" closures=%zu next=\"%s\"",
                      cadre_member_name(ps, name), ps->process, why, ps->in_flight.count,
                      "its shard is restored on the process that takes its place");
    cadre_recovery_on_lost(&self->recovery, ps, why);
    remove_member(self, ps);
}

/* Takes a member out: what it had in flight goes back to the queue, or its shard is away. */
static void
lose(cadre_core_t *self, cadre_member_t *member, const char *why, bool died)
{
    if (member->task.role == CADRE_ROLE_PS) {
        lose_ps(self, member, why);
    } else {
        lose_worker(self, member, why, died);
    }
}

static void
lose_task(cadre_core_t *self, const cadre_task_t *task, uint64_t now_ms, const char *why, bool died)
{
    cadre_effects_set_time(&self->effects, now_ms);
    cadre_member_t *member = cadre_membership_find(&self->membership, task->incarnation);
    if (member) {
        lose(self, member, why, died);
    }
}

void
cadre_core_gone(cadre_core_t *self, const cadre_task_t *task, uint64_t now_ms)
{
    cadre_member_t *member = cadre_membership_find(&self->membership, task->incarnation);
    if (!member || !cadre_leases_keep(&self->leases, member, now_ms)) {
        lose_task(self, task, now_ms, "its connection closed", true);
    }
}

void
cadre_core_overrun(cadre_core_t *self, const cadre_task_t *task, uint64_t now_ms)
{
    char why[96];
    snprintf(why, sizeof(why), "it does not read: over %d MiB wait for it",
             CADRE_SEND_QUEUE_SIZE_MAX >> 20);
    lose_task(self, task, now_ms, why, false);
    cadre_clients_lose(&self->clients, task, why);
    carry_out_ends(self);
}

/* Takes out as lost each member whose key is not among the allowed ones, `ids`, any more. */
void
cadre_core_keys_withdrawn(cadre_core_t *self, uint64_t *ids, size_t count, uint64_t now_ms)
{
    cadre_effects_set_time(&self->effects, now_ms);
    cadre_leases_note_withdrawal(&self->leases);
    cadre_rights_sort_keys(ids, count);
    cadre_member_t *member = NULL;
    while ((member = cadre_rights_find_withdrawn(&self->rights, ids, count))) {
        lose(self, member, "its key is revoked", false);
    }
    cadre_clients_keys_withdrawn(&self->clients, ids, count);
    carry_out_ends(self);
}

/* Takes out a member that leaves. A ps counts as lost, unless the job is ending. */
static void
on_goodbye(cadre_core_t *self, cadre_member_t *member, const char *reason)
{
    char name[32];
    cadre_effects_log(&self->effects, 'I', "task_left", "task=\"%s\" reason=\"%s\"",
                      cadre_member_name(member, name), reason);
    if (member->task.role == CADRE_ROLE_WORKER) {
        take_work_back(self, member, false);
        remove_member(self, member);
    } else if (self->stopping) {
        cadre_recovery_on_lost(&self->recovery, member,
                               reason); /* a worker may still ask which ps serves the shard */
        remove_member(self, member);
    } else {
        lose(self, member, reason, false);
    }
}

/* Gives up a checkpoint under way, and tells all members to stop. */
void
cadre_core_stop(cadre_core_t *self, const char *reason)
{
    self->stopping = true;
    cadre_checkpoint_abort(&self->checkpoint, CADRE_ECLOSED, reason);
    cadre_checkpoint_count(&self->checkpoint, &self->totals);
    const cadre_member_t *member = NULL;
    for (size_t cursor = 0; (member = cadre_u64_map_next(&self->membership.members, &cursor));) {
        cadre_members_tell_stop(&self->members, &member->task, reason);
    }
    cadre_clients_stop(&self->clients, reason);
    carry_out_ends(self);
}

/* --- tasks that join --- */

/* Sends a member WELCOME. `request`: number of the HELLO that it answers, or 0. */
static void
welcome(cadre_core_t *self, const cadre_member_t *member, uint64_t request)
{
    bool is_ps = member->task.role == CADRE_ROLE_PS;
    uint64_t generation =
        is_ps ? cadre_recovery_welcome_generation(&self->recovery, member->index) : 0;
    cadre_members_welcome(&self->members, member, request, generation);
}

void
cadre_core_probe(cadre_core_t *self)
{
    const cadre_member_t *member = NULL;
    for (size_t cursor = 0; (member = cadre_u64_map_next(&self->membership.members, &cursor));) {
        welcome(self, member, 0);
    }
}

/* Judges a HELLO. Each member that it replaces is taken out as lost first, and the HELLO judged
 * again: that ends, as there is one member fewer each time. */
static cadre_hello_verdict_t
judge_hello(cadre_core_t *self, const cadre_task_t *from, const cadre_message_t *message)
{
    /* Each ps writes checkpoints, or reads the one that was resumed. */
    bool needs_folder = self->checkpoint.enabled || self->recovery.points.at[0].path[0];
    cadre_hello_verdict_t verdict =
        cadre_members_on_hello(&self->members, from, message, needs_folder);
    while (verdict.outcome == CADRE_HELLO_REPLACES) {
        bool is_confused = verdict.member->task.incarnation == from->incarnation;
        lose(self, verdict.member, verdict.why, verdict.died);
        if (is_confused) {
            cadre_recovery_on_confused(&self->recovery, from->incarnation);
        }
        verdict = cadre_members_on_hello(&self->members, from, message, needs_folder);
    }
    return verdict;
}

/* Answers the HELLO of a worker. */
static void
greet_worker(cadre_core_t *self, cadre_member_t *worker, const cadre_message_t *message,
             bool is_new)
{
    const cadre_hello_message_t *hello = &message->hello;
    welcome(self, worker, message->request);
    if (is_new || hello->round > worker->round) {
        cadre_announcements_brief(&self->announcements, worker, hello);
        cadre_resources_brief(&self->resources, worker);
    }
    cadre_membership_note_hello(worker, hello->round, self->effects.now_ms);
    cadre_overruns_on_held(worker, hello->held);
    /* true: the worker may have lost even what was sent a moment ago. */
    cadre_reports_on_held(&self->reports, worker, hello->held, true);
}

/* Answers the HELLO of a ps. */
static void
greet_ps(cadre_core_t *self, const cadre_member_t *ps, const cadre_message_t *message, bool is_new)
{
    if (is_new) {
        cadre_recovery_on_ps(&self->recovery, ps, &message->hello);
    } else { /* a ps drops messages that reach it before its WELCOME: ask what it has */
        cadre_recovery_doubt(&self->recovery, ps->index);
    }
    welcome(self, ps, message->request);
}

/* Takes a HELLO: judges it, and answers the sender if that is a member now. */
static void
on_hello(cadre_core_t *self, const cadre_task_t *from, const cadre_message_t *message)
{
    cadre_hello_verdict_t verdict = judge_hello(self, from, message);
    if (verdict.outcome == CADRE_HELLO_CONTESTS) {
        cadre_core_probe(self);
    }

    bool is_new = verdict.outcome == CADRE_HELLO_JOINS;
    if (!is_new && verdict.outcome != CADRE_HELLO_STAYS) {
        return;
    }
    /* A task that was counted as dead was only cut off. */
    if (is_new) {
        cadre_resources_forgive(&self->resources, from->incarnation);
    }
    if (verdict.member->task.role == CADRE_ROLE_PS) {
        greet_ps(self, verdict.member, message, is_new);
    } else {
        greet_worker(self, verdict.member, message, is_new);
    }
    cadre_effects_note_progress(&self->effects);
}

/* --- messages of members --- */

/* Takes a ps out as lost if its HEARTBEAT says that it does not do its work. If its shard stands
 * still it must stop, so that its supervisor starts another process; if it serves another shard or
 * generation it must join again. `ps` is freed in both cases. */
static void
judge_ps(cadre_core_t *self, cadre_member_t *ps, const cadre_heartbeat_message_t *heartbeat)
{
    char why[CADRE_RECOVERY_WHY_SIZE];
    switch (cadre_recovery_on_heartbeat(&self->recovery, ps, heartbeat, why)) {
    case CADRE_PS_GOES_ON:
        return;
    case CADRE_PS_STANDS_STILL:
        cadre_members_tell_stop(&self->members, &ps->task, why);
        break;
    case CADRE_PS_SERVES_ANOTHER:
        cadre_members_tell_unknown(&self->members, &ps->task);
        break;
    }
    lose(self, ps, why, false);
}

/* Takes a member's HEARTBEAT, and answers it, so that the member knows that it is heard. */
static void
on_heartbeat(cadre_core_t *self, cadre_member_t *member, uint64_t request,
             const cadre_heartbeat_message_t *heartbeat)
{
    if (!cadre_membership_note_heartbeat(member, heartbeat)) {
        return; /* a later HEARTBEAT has overtaken it */
    }

    if (member->task.role == CADRE_ROLE_WORKER) {
        cadre_members_repeat_drain(&self->members, member);
        cadre_acks_note_heartbeat(member, request); /* the ACK is sent at the end of the turn */
        cadre_worker_admission_on_heartbeat(&self->admission, member, heartbeat);
        cadre_resources_on_heartbeat(&self->resources, member, heartbeat);
        cadre_reach_on_heartbeat(&self->reach, member, heartbeat);
        cadre_overruns_on_held(member, heartbeat->held);
        /* false: what was sent a moment ago may still be on its way. */
        cadre_reports_on_held(&self->reports, member, heartbeat->held, false);
    } else {
        cadre_message_t ack = cadre_effects_message(&self->effects, CADRE_MESSAGE_ACK);
        ack.request = request; /* so that the ps knows that the coordinator hears it */
        cadre_effects_send(&self->effects, &member->task, &ack);
        judge_ps(self, member, heartbeat);
    }
}

static void
on_closure_failed(cadre_core_t *self, cadre_member_t *worker,
                  const cadre_closure_failed_message_t *failed)
{
    uint32_t lacked = cadre_reports_on_failed(&self->reports, worker, failed);
    if (lacked > 0) {
        cadre_worker_admission_on_unable(&self->admission, worker, lacked);
    }
}

/* Gives a message of a member to the object that handles its type. */
static void
from_member(cadre_core_t *self, cadre_member_t *member, const cadre_message_t *message)
{
    switch ((cadre_for_coordinator_t)message->type) {
    case CADRE_FOR_COORDINATOR_HEARTBEAT:
        on_heartbeat(self, member, message->request, &message->heartbeat);
        break;
    case CADRE_FOR_COORDINATOR_GOODBYE:
        on_goodbye(self, member, message->goodbye.reason);
        break;
    case CADRE_FOR_COORDINATOR_DATASET_READY:
        cadre_worker_admission_on_dataset(&self->admission, member, &message->dataset_ready);
        break;
    case CADRE_FOR_COORDINATOR_WANT:
        cadre_announcements_on_want(&self->announcements, member, &message->want);
        break;
    case CADRE_FOR_COORDINATOR_CLOSURE_DONE:
        cadre_reports_on_done(&self->reports, member, message);
        break;
    case CADRE_FOR_COORDINATOR_CLOSURE_FAILED:
        on_closure_failed(self, member, &message->closure_failed);
        break;
    case CADRE_FOR_COORDINATOR_REPLY:
    case CADRE_FOR_COORDINATOR_VALUES:
    case CADRE_FOR_COORDINATOR_SNAPSHOT_TAKEN:
        cadre_recovery_on_answer(&self->recovery, member->index, message);
        cadre_effects_note_progress(&self->effects); /* a call may be waiting for this answer */
        break;
    case CADRE_FOR_COORDINATOR_PROBED:
        cadre_recovery_on_probed(&self->recovery, member->index, message);
        cadre_effects_note_progress(&self->effects);
        break;
    case CADRE_FOR_COORDINATOR_SNAPSHOT_WRITTEN:
        cadre_checkpoint_on_written(&self->checkpoint, member->index, &message->snapshot_written);
        break;
    case CADRE_FOR_COORDINATOR_HELLO:  /* answered by cadre_core_receive */
    case CADRE_FOR_COORDINATOR_STATUS: /* answered by the shell */
    case CADRE_FOR_COORDINATOR_ATTACH: /* these of clients, who are no members */
    case CADRE_FOR_COORDINATOR_LIST:
    case CADRE_FOR_COORDINATOR_READ:
    case CADRE_FOR_COORDINATOR_SCHEDULE:
    case CADRE_FOR_COORDINATOR_NONE:
        break;
    }
}

/* Gives a message of a client to the object that knows them. While the job ends nobody attaches. */
static void
from_client(cadre_core_t *self, const cadre_task_t *from, const cadre_message_t *message)
{
    if (self->stopping) {
        cadre_members_tell_stop(&self->members, from, "the job is ending");
        return;
    }
    cadre_clients_receive(&self->clients, from, message);
    carry_out_ends(self);
}

/* Returns whether the message was sent before its sender had this session's WELCOME. Closure ids of
 * two sessions overlap, so a report of an earlier session must not end a closure of this one. */
static bool
is_of_another_session(const cadre_core_t *self, const cadre_message_t *message)
{
    return message->epoch != self->options.epoch && message->type != CADRE_MESSAGE_GOODBYE;
}

/* Takes a message: drops it unless its sender may send it, else acts on it. */
void
cadre_core_receive(cadre_core_t *self, const cadre_task_t *from, cadre_message_t *message,
                   uint64_t now_ms)
{
    cadre_effects_set_time(&self->effects, now_ms);
    if (cadre_rights_check(&self->rights, from, message) < 0) {
        const cadre_sender_t sender = {*from, true, message->key};
        cadre_rights_note_dropped(&self->rights, 1, &sender, cadre_error_text());
        cadre_message_fini(message);
        return;
    }

    if (from->role == CADRE_ROLE_CLIENT) {
        from_client(self, from, message);
        cadre_message_fini(message);
        return;
    }

    cadre_member_t *member = cadre_membership_find(&self->membership, from->incarnation);
    bool is_farewell = !member && message->type == CADRE_MESSAGE_GOODBYE;
    if (self->stopping && message->type == CADRE_MESSAGE_HELLO) {
        cadre_members_tell_stop(&self->members, from,
                                "the job is ending"); /* no task may join it now */
    } else if (self->stopping && is_farewell) {
        cadre_effects_log(&self->effects, 'D', "task_left", "role=%d index=%u", from->role,
                          from->index);
    } else if (message->type == CADRE_MESSAGE_HELLO) {
        on_hello(self, from, message);
    } else if (!member || is_of_another_session(self, message)) {
        cadre_members_tell_unknown(&self->members, from);
    } else {
        cadre_membership_heard(member, now_ms);
        from_member(self, member, message);
    }
    carry_out_ends(self);
    cadre_checkpoint_count(&self->checkpoint, &self->totals);
    cadre_message_fini(message);
}

/* --- every turn --- */

/* Carries out the recovery's outcome: what other classes have to do because a shard is READY, or
 * because the job cannot go on. */
static void
carry_out_recovery(cadre_core_t *self)
{
    cadre_recovery_outcome_t outcome;
    if (!cadre_recovery_take_outcome(&self->recovery, &outcome)) {
        return;
    }

    self->totals.ps_restored += outcome.restored;
    self->totals.closures_at_risk += outcome.at_risk;
    if (outcome.restored > 0) {
        cadre_steps_restart(&self->steps);
        carry_out_ends(self);
    }
    if (outcome.is_ready) {
        cadre_closure_queue_release(&self->queue);
    }
    if (outcome.is_unreadable) {
        cadre_checkpoint_on_unreadable(&self->checkpoint);
    }
    if (outcome.status < 0) {
        self->fatal = outcome.status;
        snprintf(self->fatal_text, sizeof(self->fatal_text), "%s", outcome.text);
        cadre_effects_note_progress(&self->effects);
    }
}

/* Moves the recovery of shards on. Returns when to look again. */
static uint64_t
tick_recovery(cadre_core_t *self)
{
    const cadre_recovery_turn_t turn = {.ended = self->checkpoint.ended,
                                        .is_committing =
                                            cadre_checkpoint_decides(&self->checkpoint)};
    uint64_t due_ms = cadre_recovery_tick(&self->recovery, &turn);
    carry_out_recovery(self);
    cadre_replay_bounds_tick(&self->replay, self->begun.next_id, &self->recovery, &self->checkpoint,
                             &self->effects);
    return due_ms;
}

/* Moves the checkpoint on, or gives it up if the job has failed. Returns when to look again. */
static uint64_t
tick_checkpoint(cadre_core_t *self)
{
    bool goes_on = self->fatal == 0;
    if (!goes_on) {
        cadre_checkpoint_abort(&self->checkpoint, self->fatal, self->fatal_text);
    }
    uint64_t due_ms = cadre_checkpoint_tick(&self->checkpoint, goes_on);
    cadre_checkpoint_count(&self->checkpoint, &self->totals);
    return due_ms;
}

/* Ends a closure that is queued, or is to run again for a replay, with `status` and this thread's
 * error text. */
static void
end_waiting(cadre_core_t *self, cadre_closure_t *closure, int status)
{
    if (!closure->kept) {
        cadre_attempts_refuse(&self->attempts, closure, status);
        return;
    }
    cadre_replay_take_out(&self->replay, closure);
    cadre_attempts_give_up(&self->attempts, closure, status, cadre_error_text());
}

/* Decides which rows datasets have, and ends closures that no worker can run: in each turn at most
 * one that is to run again and one that is queued. */
static void
tick_admission(cadre_core_t *self)
{
    cadre_worker_admission_tick(&self->admission);
    if (!cadre_worker_admission_take_due(&self->admission)) {
        return;
    }

    int status = 0;
    cadre_closure_t *again = cadre_worker_admission_find_unserved_again(&self->admission, &status);
    if (again) {
        end_waiting(self, again, status);
    }
    cadre_closure_t *queued = cadre_worker_admission_find_unserved(&self->admission, &status);
    if (queued) {
        end_waiting(self, queued, status);
    }
}

/* Ends closures whose resources have failed, and finds a worker to try each suspect resource. */
static void
tick_resources(cadre_core_t *self)
{
    const cadre_resource_t *failed = NULL;
    while ((failed = cadre_resources_next_failed(&self->resources, failed))) {
        cadre_closure_t *closure = NULL;
        while ((closure = cadre_resources_find_user(&self->resources, failed))) {
            end_waiting(self, closure, cadre_fail(CADRE_EPOISON, "%s", failed->error));
        }
    }

    cadre_resource_t *suspect = NULL;
    while ((suspect = cadre_resources_next_suspect(&self->resources, suspect))) {
        bool is_wanted = cadre_resources_review_trial(&self->resources, suspect);
        cadre_member_t *worker = cadre_trials_resource(&self->trials, suspect, is_wanted);
        if (worker) {
            cadre_resources_try(&self->resources, suspect, worker);
        }
    }
}

/* Takes out members that were silent for a lease. Returns when to look again. */
static uint64_t
tick_leases(cadre_core_t *self, bool unread)
{
    uint64_t stall_ms = cadre_leases_end_stall(&self->leases);
    if (stall_ms > 0) {
        cadre_members_excuse(&self->members, stall_ms);
        cadre_recovery_excuse(&self->recovery, stall_ms);
        cadre_clients_excuse(&self->clients, stall_ms);
    }
    uint64_t due_ms = UINT64_MAX;
    cadre_member_t *expired = NULL;
    while ((expired = cadre_leases_expired(&self->leases, unread, &due_ms))) {
        lose(self, expired, "its lease ran out", false);
    }
    return due_ms;
}

/* Ends closures that no worker can run, and those that have overrun their deadline too often. */
static void
give_up_hopeless(cadre_core_t *self)
{
    tick_admission(self);
    tick_resources(self);
    carry_out_ends(self);
    cadre_overruns_tick(&self->overruns);
    carry_out_ends(self);
}

/* Moves synchronous steps on, unless the job cannot go on. */
static void
tick_steps(cadre_core_t *self)
{
    if (self->fatal == 0) {
        cadre_steps_tick(&self->steps);
        carry_out_ends(self);
    }
}

/* Hands out closures, unless the job cannot go on; first those that are set apart
 * (dispatch/apart.h), as they need workers that are chosen for them. Returns whether it stopped at
 * the limit for one turn. */
static bool
hand_out(cadre_core_t *self)
{
    if (self->fatal) {
        return false;
    }
    tick_steps(self); /* what was cancelled or given up in this turn may have made a step whole */
    cadre_trials_tick(&self->trials);
    carry_out_ends(self);
    bool has_more = cadre_dispatcher_tick(&self->dispatcher);
    carry_out_ends(self);
    return has_more;
}

/* Returns whose reports are to be acknowledged now. */
static cadre_acks_whose_t
acks_due(const cadre_core_t *self)
{
    if (self->stopping) {
        return CADRE_ACKS_ALL;
    }
    return self->steps.held.count > 0 ? CADRE_ACKS_IN_STEP : CADRE_ACKS_DUE;
}

/* Does all that is due by time, then hands out closures and sends acknowledgements. */
uint64_t
cadre_core_tick(cadre_core_t *self, uint64_t now_ms, bool unread)
{
    cadre_effects_set_time(&self->effects, now_ms);
    cadre_effects_tell_held_lines(&self->effects);
    uint64_t due_ms = cadre_min_u64(tick_leases(self, unread), now_ms + CADRE_TICK_MS_MAX);
    if (!self->stopping) {
        due_ms = cadre_min_u64(due_ms, cadre_windows_tick(&self->windows));
        due_ms = cadre_min_u64(due_ms, tick_recovery(self));
        /* A step that was applied is over before the checkpoint looks, and the next one begins
         * after: while closures are queued a cut can be made at no other moment. */
        tick_steps(self);
        due_ms = cadre_min_u64(due_ms, tick_checkpoint(self));
        cadre_core_advance_drops(self);
        /* Workers learn of variables before closures that need them are sent. */
        cadre_announcements_tell_variables(&self->announcements);
        cadre_attempts_cancel(&self->attempts);
        give_up_hopeless(self);
        due_ms = hand_out(self) ? now_ms : due_ms; /* now_ms: more can be handed out at once */
        due_ms = cadre_min_u64(due_ms, cadre_backups_tick(&self->backups));
        due_ms = cadre_min_u64(due_ms, cadre_clients_tick(&self->clients, unread));
        carry_out_ends(self);
        if (self->queue.in_flight + self->queue.tagged_in_flight + self->replay.in_flight > 0) {
            due_ms = cadre_min_u64(due_ms, self->overruns.due_ms);
        }
    }

    cadre_acks_tick(&self->acks, acks_due(self));
    /* What has no answer yet is repeated after `resend_ms`. */
    bool asks = cadre_recovery_pump(&self->recovery);
    bool chasing = cadre_worker_admission_chase(&self->admission) || asks ||
                   cadre_closure_queue_is_cancelling(&self->queue);
    due_ms = chasing ? cadre_min_u64(due_ms, now_ms + self->options.resend_ms) : due_ms;
    cadre_leases_promise(&self->leases, due_ms);
    return due_ms;
}

void
cadre_core_stored(cadre_core_t *self, const cadre_store_answer_t *answer, uint64_t now_ms)
{
    cadre_effects_set_time(&self->effects, now_ms);
    cadre_checkpoint_on_stored(&self->checkpoint, answer);
    cadre_checkpoint_count(&self->checkpoint, &self->totals);
    cadre_effects_note_progress(&self->effects);
}

/* --- counts of the shell and the API --- */

void
cadre_core_note_retention_failed(cadre_core_t *self, uint64_t checkpoint, const char *why)
{
    self->totals.retentions_failed++;
    cadre_effects_log(&self->effects, 'E', "retention_failed",
                      "checkpoint=%" PRIu64 " why=\"%s\" next=\"old ones stay as they are\"",
                      checkpoint, why);
}

void
cadre_core_note_scheduled(cadre_core_t *self)
{
    self->totals.scheduled++;
}

void
cadre_core_note_keys(cadre_core_t *self, bool are_unreadable)
{
    self->keys_unreadable = are_unreadable;
}

/* --- status and metrics --- */

/* Writes why the job does not make progress now; "" when every shard is ready. */
void
cadre_core_unready(const cadre_core_t *self, char text[CADRE_CORE_UNREADY_SIZE])
{
    text[0] = '\0';
    if (self->stopping) {
        snprintf(text, CADRE_CORE_UNREADY_SIZE, "the job is over");
        return;
    }
    if (self->fatal) {
        snprintf(text, CADRE_CORE_UNREADY_SIZE, "the job cannot go on: %.200s", self->fatal_text);
        return;
    }
    for (uint32_t i = 0; i < self->options.ps_count; i++) {
        if (!cadre_recovery_is_ready(&self->recovery, i)) {
            snprintf(text, CADRE_CORE_UNREADY_SIZE, "shard %u of %u is %s", i,
                     self->options.ps_count,
                     cadre_place_state_text(self->recovery.places[i].state));
            return;
        }
    }
}

void
cadre_core_metrics(const cadre_core_t *self, uint64_t now_ms, cadre_metrics_text_t *text)
{
    const char *transport = self->options.transport ? self->options.transport : "plain";
    cadre_metrics_text_build(text, "coordinator", self->options.build);
    cadre_metrics_text_transport(text, "coordinator", transport);
    cadre_metrics_text_keys(text, "coordinator", self->keys_unreadable);
    cadre_job_metrics_write(&self->metrics, now_ms, text);
}
