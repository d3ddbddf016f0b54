/* The public calls that open, close and look at a coordinator. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/coordinator.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/options.h"
#include "coordinator/status_json.h"

/* Frees the coordinator, whose threads do not run (any more); what was never opened is NULL,
 * which each of these calls takes. */
static void
destroy(cadre_coordinator_t *self)
{
    cadre_http_server_close(&self->http);
    cadre_monitor_close(&self->monitor);
    cadre_socket_close(&self->control, 0);
    cadre_authenticator_close(&self->authenticator, CADRE_ACTOR_STOP_MS);
    /* Frees log lines of early connections even if the core was never made. */
    cadre_effects_fini(&self->core.effects);
    if (self->context) {
        cadre_context_close(&self->context);
    }

    cadre_gate_unref(&self->gate);
    cadre_shortcut_destroy(&self->shortcut);
    cadre_lock_file_close(&self->checkpoint_lock);
    cadre_lock_file_close(&self->address_lock);
    cadre_ipc_directory_remove(&self->own_directory);
    free(self->job);
    free(self->checkpoint_dir);
    free(self->descriptors_why);
    free(self->resumed_path);
    free(self->resumed_progress);
    cadre_sequences_fini(&self->resumed_sequences);
    for (size_t i = 0; i < self->resumed_variable_count; i++) {
        free(self->resumed_variables[i]);
        free(self->resumed_optimizers[i]);
    }

    cadre_name_map_fini(&self->resumed_names);
    free(self->resumed_variables);
    free(self->resumed_optimizers);
    free(self->resumed_tables);
    free(self);
}

/* Opens everything that can fail before there are threads. */
static int
open_parts(cadre_coordinator_t *self, const cadre_coordinator_options_t *options)
{
    int status = cadre_gate_open(&self->gate);
    if (status < 0) {
        return status;
    }
    status = cadre_context_open(&self->context);
    if (status < 0) {
        return status;
    }
    return cadre_coordinator_set_up(self, options);
}

/* Starts the store, if there is a checkpoint directory, and then the coordinator's actor. */
static int
start_actors(cadre_coordinator_t *self)
{
    int status = 0;
    if (self->checkpoint_dir) {
        status =
            cadre_actor_open(self->context, "cadre-store", cadre_store_run, self, &self->store);
    }

    if (status < 0) {
        return status;
    }
    return cadre_actor_open(self->context, "cadre-coord", cadre_coordinator_run, self,
                            &self->actor);
}

/* Starts ps and worker as threads, and waits until they have joined: nothing is to come that could
 * be waited for later. */
static int
open_local(cadre_coordinator_t *self, const cadre_coordinator_options_t *options)
{
    const cadre_local_tasks_options_t tasks = {
        .coordinator = *cadre_socket_endpoint(self->control),
        .outside = options->address ? self->address : NULL,
        .shortcut = self->shortcut,
        .natives = options->natives,
        .slots = (uint32_t)options->local_slots,
        .threads = options->local_threads,
        .ps_lanes = (unsigned)options->local_ps_lanes,
        .device = options->local_device,
        .data_dir = options->local_data_dir,
        .trace = options->local_trace,
    };
    int status = cadre_local_tasks_open(self->context, &tasks, &self->local);
    return status < 0 ? status : cadre_coordinator_wait_ready(self, 1, CADRE_LOCAL_JOIN_MS);
}

/* Opens a coordinator: first what can fail, then its threads, then with `local` a ps and a worker
 * in this process. */
int
cadre_coordinator_open(const cadre_coordinator_options_t *given, cadre_coordinator_t **out)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    int status =
        given ? cadre_options_take(given, &options, sizeof(options), "cadre_coordinator_options_t")
              : 0;
    if (status < 0) {
        return status;
    }
    if (!out) {
        return cadre_fail(CADRE_EINVALID, "there is nowhere to put the coordinator: NULL");
    }

    cadre_coordinator_t *self = cadre_calloc(1, sizeof(*self));
    status = open_parts(self, &options);
    if (status < 0) {
        destroy(self);
        return status;
    }

    self->shortcut = options.local ? cadre_shortcut_new() : NULL;
    status = start_actors(self);
    /* Store and authenticator may run already, and the authenticator writes to the log of the
     * core. */
    if (status < 0) {
        cadre_actor_stop(&self->store, CADRE_ACTOR_STOP_MS);
        cadre_authenticator_close(&self->authenticator, CADRE_ACTOR_STOP_MS);
        cadre_core_fini(&self->core);
        destroy(self);
        return status;
    }

    status = options.local ? open_local(self, &options) : 0;
    if (status < 0) {
        /* Closing may set other error texts. */
        cadre_auto(cadre_free) char *reason = cadre_strdup(cadre_error_text());
        cadre_coordinator_close(&self);
        return cadre_fail(status, "%s", reason);
    }

    *out = self;
    return 0;
}

/* Closes a coordinator: tells all tasks that the job is over, waits up to CADRE_STOP_WAIT_MS for
 * them to leave, ends the threads, and ends what is left of closures, so that their futures say
 * CADRE_ECLOSED. */
void
cadre_coordinator_close(cadre_coordinator_t **coordinator_p)
{
    cadre_coordinator_t *self = coordinator_p ? *coordinator_p : NULL;
    if (!self) {
        return;
    }

    *coordinator_p = NULL;
    cadre_gate_lock(self->gate);
    cadre_core_stop(&self->core, "the job is over");
    int64_t deadline_ms = cadre_gate_deadline_ms(CADRE_STOP_WAIT_MS);
    /* An interrupt would end this wait at once. */
    atomic_store(&self->gate->interrupted, false);
    while (self->core.membership.members.count > 0 &&
           cadre_gate_wait(self->gate, deadline_ms) == 0) {
    }

    self->gate->closed = true;
    cadre_gate_broadcast(self->gate);
    cadre_gate_unlock_and_wake(self->gate);
    if (cadre_local_tasks_close(&self->local) < 0 ||
        cadre_actor_stop(&self->actor, CADRE_ACTOR_STOP_MS) < 0 ||
        cadre_actor_stop(&self->store, CADRE_STORE_STOP_MS) < 0 ||
        cadre_authenticator_close(&self->authenticator, CADRE_ACTOR_STOP_MS) < 0) {
        return; /* a thread hangs, perhaps in a disk: the objects that it uses are not freed */
    }

    cadre_gate_lock(self->gate);
    cadre_core_close(&self->core);
    cadre_coordinator_tell_ended(self);
    cadre_core_fini(&self->core);
    cadre_gate_broadcast(self->gate);
    cadre_gate_unlock(self->gate);
    destroy(self);
}

/* Fails with CADRE_ETIMEOUT and a text that says how many tasks have joined; where no other task
 * can know the address, the text says how to get a cluster. */
int
cadre_coordinator_fail_absent(cadre_coordinator_t *self, int workers)
{
    const cadre_membership_t *membership = &self->core.membership;
    return cadre_fail(CADRE_ETIMEOUT, "%u of %u ps and %u of %d workers joined %s in time%s",
                      membership->ps_joined, membership->ps_count, membership->worker_count,
                      workers, self->address,
                      self->invited ? ""
                                    : "; neither CADRE_CLUSTER nor TF_CONFIG describes a cluster: "
                                      "for one on this machine, cadre run -- PROGRAM");
}

/* Under the lock: waits until every ps and so many workers have joined. */
static int
await_tasks(cadre_coordinator_t *self, int workers, int64_t deadline_ms)
{
    const cadre_membership_t *membership = &self->core.membership;
    int64_t since_ms = 0;
    while (membership->ps_joined < membership->ps_count ||
           (int64_t)membership->worker_count < workers) {
        int status =
            cadre_coordinator_wait_while_usable(self, deadline_ms, "tasks to join", &since_ms);
        if (status < 0) {
            return status;
        }
    }

    return 0;
}

/* Waits until every ps and this many workers have joined. */
int
cadre_coordinator_wait_ready(cadre_coordinator_t *self, int workers, int64_t timeout_ms)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    cadre_gate_lock(self->gate);
    int status = await_tasks(self, workers, deadline_ms);
    if (status == CADRE_ETIMEOUT) {
        status = cadre_coordinator_fail_absent(self, workers);
    }
    cadre_gate_unlock(self->gate);
    return status;
}

/* Under the lock: asks a worker to leave, and waits until it has left. */
static int
drain_worker(cadre_coordinator_t *self, uint32_t index, int64_t deadline_ms)
{
    const cadre_membership_t *membership = &self->core.membership;
    cadre_member_t *worker =
        index < membership->worker_capacity ? membership->workers[index] : NULL;
    if (!worker) {
        return cadre_fail(CADRE_ENOTFOUND, "there is no worker %" PRIu32, index);
    }

    /* Another worker may have the index by the end of the wait, so this one is known by its
     * incarnation. */
    uint64_t incarnation = worker->task.incarnation;
    int64_t since_ms = 0;

    cadre_members_drain(&self->core.members, worker);
    while (cadre_membership_find(membership, incarnation)) {
        int status =
            cadre_coordinator_wait_while_usable(self, deadline_ms, "a worker to leave", &since_ms);
        if (status < 0) {
            return status;
        }
    }

    return 0;
}

/* Has a worker leave, and waits for that. */
int
cadre_worker_drain(cadre_coordinator_t *self, uint32_t index, int64_t timeout_ms)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    cadre_gate_lock(self->gate);
    int status = drain_worker(self, index, deadline_ms);
    cadre_gate_unlock(self->gate);
    return status;
}

const char *
cadre_coordinator_address(const cadre_coordinator_t *self)
{
    return self->address;
}

const char *
cadre_coordinator_http(const cadre_coordinator_t *self)
{
    return self->http ? cadre_http_server_address(self->http) : NULL;
}

void
cadre_coordinator_interrupt(cadre_coordinator_t *self, bool interrupted)
{
    atomic_store(&self->gate->interrupted, interrupted);
}

/* Gives the state of the job as JSON text, which the caller frees. */
int
cadre_coordinator_status_json(cadre_coordinator_t *self, char **text)
{
    if (text) {
        cadre_gate_lock(self->gate);
        *text = cadre_core_status_json(&self->core, (uint64_t)cadre_clock_now_ms());
        cadre_gate_unlock(self->gate);
    }
    return 0;
}

/* Under the lock: returns the counters of the job, and how many tasks and closures there are. */
static cadre_totals_t
totals_now(const cadre_core_t *core)
{
    cadre_totals_t totals = core->totals;
    totals.workers = (int)core->membership.worker_count;
    totals.ps = (int)core->membership.ps_joined;
    totals.queued = cadre_closure_queue_all_waiting(&core->queue);
    totals.in_flight = cadre_closure_queue_all_in_flight(&core->queue);
    return totals;
}

cadre_totals_t
cadre_coordinator_totals(cadre_coordinator_t *self)
{
    cadre_gate_lock(self->gate);
    cadre_totals_t totals = totals_now(&self->core);
    cadre_gate_unlock(self->gate);
    return totals;
}

cadre_totals_t
cadre_coordinator_own_totals(cadre_coordinator_t *self)
{
    cadre_gate_lock(self->gate);
    cadre_totals_t totals = totals_now(&self->core);
    const cadre_totals_t *of_clients = &self->core.of_clients;
    totals.scheduled -= of_clients->scheduled;
    totals.finished -= of_clients->finished;
    totals.failed -= of_clients->failed;
    totals.attempts -= of_clients->attempts;
    cadre_gate_unlock(self->gate);
    return totals;
}

/* Returns how many closures make one update, which the options have decided for good. */
int
cadre_coordinator_replicas(const cadre_coordinator_t *self)
{
    const cadre_core_options_t *options = &self->core.options;
    return options->consistency == CADRE_SYNC ? (int)options->step_closures : 1;
}

/* Asks a shard for its counters, and waits for the answer. */
int
cadre_shard_totals(cadre_coordinator_t *self, int shard, cadre_shard_totals_t *totals,
                   int64_t timeout_ms)
{
    if (shard < 0 || (uint32_t)shard >= self->core.options.ps_count) {
        return cadre_fail(CADRE_EINVALID, "shard %d of %u", shard, self->core.options.ps_count);
    }

    cadre_shard_totals_t answer = {0};
    cadre_operation_t operation = {.target = &answer};

    cadre_gate_lock(self->gate);
    cadre_operations_count(&self->core.operations, (uint32_t)shard, &operation);
    int status = cadre_coordinator_await(self, &operation, cadre_gate_deadline_ms(timeout_ms),
                                         "a shard's counters");
    cadre_gate_unlock(self->gate);
    if (status < 0) {
        return status;
    }
    if (totals) {
        *totals = answer;
    }

    return 0;
}
