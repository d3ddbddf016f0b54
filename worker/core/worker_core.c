#include "worker/core/worker_core.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "worker/core/worker_builds.h"
#include "worker/core/worker_wants.h"

struct cadre_worker_core {
    cadre_worker_options_t options;
    cadre_worker_effects_t effects;
    cadre_worker_counters_t counters;
    cadre_directory_t directory;
    cadre_worker_values_t *values;
    cadre_worker_runs_t *runs;
    cadre_worker_wants_t wants;

    cadre_session_t *session; /* the effects' */
    bool superseded;   /* another coordinator has taken over, and its session cannot begin yet:
                          slots still hold runs of the coordinator before */
    uint64_t untaken;  /* HELLOs sent while `superseded`; part of HELLO's `round`, which goes up so
                          that the coordinator tells everything again */
    bool is_dismissed; /* the worker was told to drain */
};

/* Replaces options of 0 by their defaults. */
static void
fill_in(cadre_worker_options_t *options)
{
    options->window = options->window ? options->window : CADRE_WINDOW_SIZE_MIN;
    options->push_part_size =
        options->push_part_size ? options->push_part_size : CADRE_PUSH_PART_SIZE;
    options->partitions_max =
        options->partitions_max ? options->partitions_max : CADRE_PARTITIONS_PER_UPDATE_MAX;
    options->kept_values_max =
        options->kept_values_max ? options->kept_values_max : CADRE_KEPT_VALUES_SIZE_MAX;
}

/* Returns the core of a worker that has no connection yet; `options` say which of their fields are
 * borrowed. */
cadre_worker_core_t *
cadre_worker_core_new(const cadre_worker_options_t *options, uint64_t now_ms)
{
    cadre_assert(options->slots >= 1 && options->slots <= CADRE_SLOTS_MAX);
    cadre_worker_core_t *self = cadre_calloc(1, sizeof(*self));
    self->options = *options;
    fill_in(&self->options);
    cadre_worker_effects_init(&self->effects, &options->session);
    self->session = self->effects.session;

    /* Content numbers (value_cache.h) start above all that an earlier core of this process can
     * have given, at fewer than 2^20 a millisecond: devices may still hold values under those
     * numbers. */
    const cadre_worker_values_options_t values = {.window = self->options.window,
                                                  .push_part_size = self->options.push_part_size,
                                                  .partitions_max = self->options.partitions_max,
                                                  .shard_timeout_ms = options->shard_timeout_ms,
                                                  .row_cache_bytes = options->row_cache_bytes,
                                                  .row_cache_patient = options->row_cache_patient,
                                                  .observes = options->observes,
                                                  .content_last = (now_ms + 1) << 20};
    const cadre_worker_runs_options_t runs = {.slots = options->slots,
                                              .ahead = options->ahead,
                                              .kept_values_max = self->options.kept_values_max};
    self->values =
        cadre_worker_values_new(&values, &self->directory, &self->effects, &self->counters);
    self->runs = cadre_worker_runs_new(&runs, &self->directory, self->values, &self->effects,
                                       &self->counters);
    return self;
}

/* Frees the core. Runs and values go before the directory, effects and counters, which they
 * borrow. */
void
cadre_worker_core_destroy(cadre_worker_core_t **self_p)
{
    cadre_worker_core_t *self = *self_p;
    if (!self) {
        return;
    }
    cadre_worker_runs_destroy(&self->runs);
    cadre_worker_values_destroy(&self->values);
    cadre_directory_fini(&self->directory);
    cadre_worker_effects_fini(&self->effects);
    cadre_free(self_p);
}

cadre_outbox_t *
cadre_worker_core_outbox(cadre_worker_core_t *self)
{
    return &self->effects.outbox;
}

const cadre_directory_t *
cadre_worker_core_directory(const cadre_worker_core_t *self)
{
    return &self->directory;
}

const cadre_task_t *
cadre_worker_core_task(const cadre_worker_core_t *self)
{
    return cadre_session_task(self->session);
}

bool
cadre_worker_core_event(cadre_worker_core_t *self, cadre_worker_event_t *event)
{
    return cadre_worker_effects_take_event(&self->effects, event);
}

cadre_run_t *
cadre_worker_core_run(const cadre_worker_core_t *self, uint64_t id)
{
    return cadre_worker_runs_find(self->runs, id);
}

/* Returns the cached value of a partition, for the simulation to look at. */
const cadre_cached_value_t *
cadre_worker_core_held(const cadre_worker_core_t *self, uint32_t variable, uint32_t partition,
                       uint64_t generation)
{
    return cadre_worker_values_held(self->values, variable, partition, generation);
}

/* Returns the figures of the worker for its status and metrics. */
cadre_worker_core_figures_t
cadre_worker_core_figures(const cadre_worker_core_t *self)
{
    const cadre_shard_set_t unreachable = cadre_worker_values_unreachable(self->values);
    return (cadre_worker_core_figures_t){.state = cadre_session_state(self->session),
                                         .contact = cadre_session_contact(self->session),
                                         .session =
                                             cadre_session_coordinator(self->session)->incarnation,
                                         .epoch = cadre_session_epoch(self->session),
                                         .build = self->options.session.build,
                                         .slots = self->options.slots,
                                         .held = cadre_worker_runs_count(self->runs),
                                         .waiting = cadre_worker_runs_waiting(self->runs),
                                         .running = cadre_worker_runs_running(self->runs),
                                         .unreachable = cadre_shard_set_count(&unreachable),
                                         .pushes = cadre_worker_values_pushes(self->values),
                                         .counters = self->counters.items,
                                         .staleness = cadre_worker_values_staleness(self->values)};
}

/* --- session --- */

/* Sends HELLO: what this worker is, the closures that it has, and how many definitions it knows.
 * `round` goes up when messages of the coordinator may have been lost; it then tells everything
 * again. */
static void
say_hello(cadre_worker_core_t *self, uint64_t now_ms)
{
    if (self->superseded && cadre_worker_runs_running(self->runs) == 0) {
        self->untaken++; /* the next WELCOME can be taken; what was told so far was not */
    }
    cadre_u64s_t held = cadre_worker_runs_held(self->runs);
    cadre_message_t message = cadre_session_hello(self->session, now_ms);
    message.hello.devices = self->options.devices;
    message.hello.slots = self->options.slots;
    message.hello.held = held;
    message.hello.round = cadre_session_rounds(self->session) + self->untaken;
    message.hello.definitions = self->directory.definitions;
    message.hello.functions = self->directory.functions_complete;
    cadre_session_say(self->session, &message);
    free((void *)held.items);
}

/* Sends a HEARTBEAT with the closures, resources and lacks of this worker and what it hears of
 * shards. */
static void
say_heartbeat(cadre_worker_core_t *self, uint64_t now_ms)
{
    const cadre_directory_t *directory = &self->directory;
    cadre_u64s_t held = cadre_worker_runs_held(self->runs);
    cadre_shard_set_t unheard = cadre_worker_values_unreachable(self->values);
    cadre_wait_t waits[CADRE_WAITS_MAX];
    size_t wait_count = cadre_worker_values_waits(self->values, now_ms, waits);

    cadre_message_t message = cadre_session_heartbeat(self->session, now_ms);
    cadre_heartbeat_message_t *heartbeat = &message.heartbeat;
    heartbeat->held = held;
    heartbeat->counters = (cadre_u64s_t){self->counters.items, CADRE_WORKER_COUNTER_COUNT};
    heartbeat->known = cadre_resource_set_list(&directory->resources_known);
    heartbeat->built = cadre_resource_set_list(&directory->resources_built);
    heartbeat->unreachable = cadre_shard_set_list(&unheard);
    heartbeat->waits = cadre_wait_list(waits, wait_count);
    heartbeat->lacks = (cadre_u64s_t){directory->lacks, directory->lack_count};
    cadre_session_say(self->session, &message);
    free((void *)held.items);
    cadre_worker_effects_take_hurry(&self->effects);
}

/* Ends the session: cancels the runs that slots still hold, and drops the others. */
static void
end(cadre_worker_core_t *self, cadre_worker_event_kind_t kind, const cadre_session_effect_t *effect)
{
    cadre_worker_runs_drop(self->runs);
    cadre_worker_runs_disown(self->runs, true);
    cadre_worker_event_t event = {.kind = kind, .status = effect->status};
    memcpy(event.text, effect->text, sizeof(event.text));
    cadre_worker_effects_emit(&self->effects, &event);
}

/* Carries out the effects of the session; called after every input to it. */
static void
obey(cadre_worker_core_t *self, uint64_t now_ms)
{
    cadre_session_effect_t effect;
    while (cadre_session_effect(self->session, &effect)) {
        switch (effect.kind) {
        case CADRE_EFFECT_HELLO:
            say_hello(self, now_ms);
            break;
        case CADRE_EFFECT_HEARTBEAT:
            say_heartbeat(self, now_ms);
            break;
        case CADRE_EFFECT_REDIAL:
            cadre_worker_effects_emit(&self->effects,
                                      &(cadre_worker_event_t){.kind = CADRE_WORKER_REDIAL});
            break;
        case CADRE_EFFECT_DISOWNED: /* runs that wait for news of shards would wait for ever */
            cadre_worker_runs_drop(self->runs);
            break;
        case CADRE_EFFECT_REFUSED:
            end(self, CADRE_WORKER_REFUSED, &effect);
            break;
        case CADRE_EFFECT_LEFT:
            end(self, CADRE_WORKER_LEFT, &effect);
            break;
        }
    }
}

/* Returns whether there are descriptors for the connections to all ps of the job; else refuses the
 * job. Without a descriptor ZeroMQ does not even try to connect, and does not say so. */
static bool
has_room(cadre_worker_core_t *self, const cadre_welcome_message_t *welcome)
{
    if (self->options.shards_max == 0 || welcome->shards <= self->options.shards_max) {
        return true;
    }
    int status =
        cadre_fail(CADRE_ECONFIG,
                   "the job has %" PRIu64 " ps, and this worker descriptors for %" PRIu32 ": %s",
                   welcome->shards, self->options.shards_max, self->options.shards_why);
    cadre_session_refuse(self->session, status, cadre_error_text());
    return false;
}

/* Begins a session with another coordinator: forgets all definitions, values and reports of the
 * session before, of which this coordinator knows nothing. The requests to shards end first, as
 * that needs the shards of the old directory. */
static void
begin_session(cadre_worker_core_t *self, const cadre_message_t *welcome)
{
    cadre_worker_values_end_session(self->values);
    cadre_worker_builds_release_all(&self->directory, &self->effects);
    cadre_directory_init(&self->directory, (uint32_t)welcome->welcome.shards);
    cadre_worker_values_begin_session(self->values);
    cadre_worker_runs_begin_session(self->runs);
    cadre_worker_effects_emit(&self->effects, &(cadre_worker_event_t){.kind = CADRE_WORKER_RESET});
}

/* Takes WELCOME: goes on with the session, or begins one with another coordinator (another
 * incarnation), once no slot holds a run of the session before. */
static void
on_welcome(cadre_worker_core_t *self, const cadre_message_t *message, uint64_t now_ms)
{
    if (!has_room(self, &message->welcome)) {
        return;
    }
    if (message->incarnation != cadre_session_coordinator(self->session)->incarnation) {
        cadre_worker_runs_drop(self->runs);
        self->superseded = cadre_worker_runs_running(self->runs) > 0;
        cadre_worker_runs_disown(self->runs, self->superseded);
        if (self->superseded) {
            return; /* HELLO is repeated until no slot holds a run; then WELCOME comes again */
        }
        begin_session(self, message);
    }
    self->superseded = false;
    cadre_worker_runs_disown(self->runs, false);
    cadre_session_begin(self->session, message, now_ms);
    cadre_worker_runs_resend(self->runs, message->request);
}

void
cadre_worker_core_connected(cadre_worker_core_t *self, uint64_t now_ms)
{
    cadre_session_connected(self->session, now_ms);
    obey(self, now_ms);
}

void
cadre_worker_core_disconnected(cadre_worker_core_t *self, uint64_t now_ms)
{
    cadre_session_disconnected(self->session, now_ms);
}

bool
cadre_worker_core_in_touch(const cadre_worker_core_t *self, uint64_t now_ms)
{
    return cadre_session_is_in_touch(self->session, now_ms);
}

/* --- leaving --- */

/* Begins to drain: hands back what no slot holds, and leaves when the slots have finished. Does
 * nothing after the end of the session. */
void
cadre_worker_core_drain(cadre_worker_core_t *self, const char *reason, uint64_t now_ms)
{
    if (cadre_session_state(self->session) == CADRE_SESSION_LEFT) {
        return;
    }
    self->is_dismissed = true;
    cadre_session_drain(self->session, reason);
    /* A worker that is no member yet does not drain: the session is over at once. */
    if (cadre_worker_core_is_draining(self)) {
        cadre_worker_runs_drain(self->runs, cadre_session_reason(self->session), now_ms);
    }
    obey(self, now_ms);
}

bool
cadre_worker_core_is_draining(const cadre_worker_core_t *self)
{
    return cadre_session_state(self->session) == CADRE_SESSION_DRAINING;
}

bool
cadre_worker_core_is_dismissed(const cadre_worker_core_t *self)
{
    return self->is_dismissed;
}

void
cadre_worker_core_abandon(cadre_worker_core_t *self, const char *reason, uint64_t now_ms)
{
    cadre_session_leave(self->session, reason);
    obey(self, now_ms);
}

/* Returns whether this worker drains and has nothing left to wait for: its runs have ended and are
 * acknowledged; or, where the coordinator answers no reports any more (disowned), its slots are
 * free. */
static bool
has_drained(const cadre_worker_core_t *self)
{
    bool is_disowned = cadre_session_is_disowned(self->session);
    return cadre_worker_core_is_draining(self) &&
           (cadre_worker_runs_count(self->runs) == 0 ||
            (is_disowned && cadre_worker_runs_running(self->runs) == 0));
}

/* Returns the values after telling them whether the coordinator is in touch: they send nothing to
 * shards while the coordinator may have given this worker up. */
static cadre_worker_values_t *
values_at(cadre_worker_core_t *self, uint64_t now_ms)
{
    cadre_worker_values_set_touch(self->values, cadre_worker_core_in_touch(self, now_ms));
    return self->values;
}

/* --- time --- */

/* Begins the builds of resources that are due, while the worker is a member and does not drain;
 * returns when the next is. */
static uint64_t
build(cadre_worker_core_t *self, uint64_t now_ms)
{
    return cadre_session_state(self->session) == CADRE_SESSION_MEMBER
               ? cadre_worker_runs_build(self->runs, now_ms)
               : UINT64_MAX;
}

/* Makes a HEARTBEAT due at once when the coordinator waits for what it tells; returns when it is
 * due, UINT64_MAX when nobody waits. */
static uint64_t
hurry_heartbeat(cadre_worker_core_t *self, uint64_t now_ms)
{
    if (!cadre_worker_effects_take_hurry(&self->effects)) {
        return UINT64_MAX;
    }
    cadre_session_hurry(self->session, now_ms);
    return now_ms;
}

/* Runs all timers; returns when the next is due. A HEARTBEAT is hurried first and last: before the
 * session's tick, which sends it, and after what may ask for one. */
static uint64_t
tick(cadre_worker_core_t *self, uint64_t now_ms)
{
    hurry_heartbeat(self, now_ms);
    uint64_t due_ms = cadre_session_tick(self->session, now_ms);
    obey(self, now_ms);
    if (has_drained(self)) {
        cadre_worker_core_abandon(self, cadre_session_reason(self->session), now_ms);
        return UINT64_MAX;
    }
    /* Only a member asks shards, and builds resources. */
    if (!cadre_session_contact(self->session).is_member) {
        return due_ms;
    }

    due_ms = cadre_min_u64(due_ms, cadre_worker_values_tick(values_at(self, now_ms), now_ms));
    cadre_worker_wants_ask(&self->wants, &self->directory, self->runs, self->values, &self->effects,
                           now_ms);
    due_ms = cadre_min_u64(due_ms, build(self, now_ms));
    cadre_worker_runs_release_leaving(self->runs);
    due_ms = cadre_min_u64(due_ms, hurry_heartbeat(self, now_ms));
    return cadre_min_u64(due_ms, now_ms + CADRE_WANT_RETRY_MS);
}

/* Runs the timers; returns when it must be called again at the latest. If this process was late by
 * itself (stopped, swapped out), that time is taken off the silence of shards. */
uint64_t
cadre_worker_core_tick(cadre_worker_core_t *self, uint64_t now_ms)
{
    uint64_t late_ms = cadre_session_wake(self->session, now_ms);
    if (late_ms > 0) {
        cadre_worker_values_excuse(self->values, late_ms, now_ms); /* this process stood still */
    }
    uint64_t due_ms = tick(self, now_ms);
    cadre_session_rest(self->session, due_ms);
    return due_ms;
}

void
cadre_worker_core_set_due(cadre_worker_core_t *self, uint64_t due_ms)
{
    cadre_session_rest(self->session, due_ms);
}

/* --- runs --- */

void
cadre_worker_core_pull(cadre_worker_core_t *self, cadre_run_t *run, const cadre_wanted_t *wanted,
                       size_t count, uint64_t now_ms)
{
    cadre_worker_values_pull(values_at(self, now_ms), run, wanted, count, now_ms);
}

void
cadre_worker_core_push(cadre_worker_core_t *self, cadre_run_t *run,
                       const cadre_gradient_t *gradients, size_t count, uint64_t now_ms)
{
    cadre_worker_values_push(values_at(self, now_ms), run, gradients, count, now_ms);
}

void
cadre_worker_core_loaded(cadre_worker_core_t *self, uint64_t closure, int status, const char *text,
                         uint64_t now_ms)
{
    cadre_worker_runs_loaded(self->runs, closure, status, text, now_ms);
}

void
cadre_worker_core_note_blocks_read(cadre_worker_core_t *self, uint64_t blocks)
{
    cadre_worker_counters_add(&self->counters, CADRE_WORKER_COUNTER_blocks_read, blocks);
}

void
cadre_worker_core_finish(cadre_worker_core_t *self, cadre_run_t *run,
                         const cadre_run_outcome_t *outcome, uint64_t now_ms)
{
    cadre_worker_runs_finish(self->runs, run, outcome, now_ms);
}

void
cadre_worker_core_give_up(cadre_worker_core_t *self, cadre_run_t *run, cadre_failure_t failure,
                          int status, const char *text, uint64_t now_ms)
{
    cadre_worker_runs_give_up(self->runs, run, failure, status, text, now_ms);
}

/* --- answers of the shell, messages of the coordinator and of shards --- */

/* Sends DATASET_READY: whether this worker could open a dataset, and which rows it has. */
static void
say_ready(cadre_worker_core_t *self, const cadre_dataset_entry_t *entry)
{
    cadre_message_t message =
        cadre_worker_effects_message(&self->effects, CADRE_MESSAGE_DATASET_READY);
    message.dataset_ready = entry->ready;
    cadre_worker_effects_tell(&self->effects, &message);
}

/* Takes the shell's answer to OPEN_DATASET: tells the coordinator, and lets closures that wait for
 * the dataset go on, or fail. */
void
cadre_worker_core_dataset_opened(cadre_worker_core_t *self, uint32_t dataset,
                                 const cadre_dataset_ready_message_t *ready, uint64_t now_ms)
{
    cadre_dataset_entry_t *entry = cadre_directory_dataset(&self->directory, dataset);
    if (!entry) {
        return; /* an answer for an earlier session: this one has no such dataset */
    }
    cadre_dataset_entry_answer(entry, ready);
    say_ready(self, entry);
    cadre_worker_runs_advance(self->runs, now_ms);
}

/* Takes a FUNCTION. When it is a native function that this worker does not have, tells shell and
 * coordinator. Without a registry (tests) the worker counts as having every function. */
static int
set_function(cadre_worker_core_t *self, const cadre_message_t *message)
{
    const cadre_function_message_t *function = &message->function;
    const cadre_registry_t *registry = self->options.registry;
    bool lacking = function->kind == CADRE_FUNCTION_NATIVE && registry &&
                   !cadre_registry_find(registry, function->name);
    bool is_new = !cadre_directory_function(&self->directory, (uint32_t)function->id);
    int status = cadre_directory_set_function(&self->directory, message, lacking);
    if (status == 0 && lacking && is_new) {
        cadre_worker_event_t event = {.kind = CADRE_WORKER_LACKS, .index = (uint32_t)function->id};
        snprintf(event.text, sizeof(event.text), "%s", function->name);
        cadre_worker_effects_emit(&self->effects, &event);
        cadre_worker_effects_hurry(
            &self->effects); /* the coordinator then gives closures of the function to others */
    }
    return status;
}

/* Has a dataset opened that the coordinator names, once all of its rows came where these are not in
 * a file. If it is open already, answers again: the first answer may have been lost, and a second
 * one does no harm. */
static int
set_dataset(cadre_worker_core_t *self, const cadre_message_t *message, uint64_t now_ms)
{
    uint32_t id = (uint32_t)message->dataset.id;
    bool is_whole = false;
    int status = cadre_directory_set_dataset(&self->directory, message, &is_whole);
    if (status < 0) {
        return status;
    }

    cadre_dataset_entry_t *entry = cadre_directory_dataset(&self->directory, id);
    uint64_t piece = cadre_dataset_entry_take_wanted(entry, CADRE_WANT_RETRY_MS, now_ms);
    if (piece > 0) {
        cadre_worker_wants_rows(&self->effects, id, piece);
    } else if (is_whole) {
        cadre_worker_effects_emit(
            &self->effects,
            &(cadre_worker_event_t){.kind = CADRE_WORKER_OPEN_DATASET, .index = id});
    } else if (entry->answered) {
        say_ready(self, entry);
    }
    return 0;
}

/* Takes VARIABLE or DEFINITIONS, and drops cached values of variables that are gone since. */
static int
take_variables(cadre_worker_core_t *self, const cadre_message_t *message)
{
    uint64_t gone = self->directory.gone;
    int status = message->type == CADRE_MESSAGE_VARIABLE
                     ? cadre_directory_set_variable(&self->directory, &message->variable)
                     : cadre_directory_take_definitions(&self->directory, message);
    if (self->directory.gone > gone) {
        cadre_worker_values_forget_gone(self->values);
    }
    return status;
}

/* Takes a message that defines something (shard, variable, function, resource, dataset), and lets
 * closures that waited for it go on. `news`: the shard is served otherwise than before. */
static void
on_definition(cadre_worker_core_t *self, cadre_message_t *message, uint64_t now_ms)
{
    bool news = false;
    int status = 0;
    if (message->type == CADRE_MESSAGE_SHARD) {
        status = cadre_directory_set_shard(&self->directory, &message->shard, &news);
        if (news) {
            cadre_worker_values_shard_moved(values_at(self, now_ms), (uint32_t)message->shard.index,
                                            now_ms);
        }
        if (status == 0) {
            cadre_worker_values_told(self->values, (uint32_t)message->shard.index);
        }
    } else if (message->type == CADRE_MESSAGE_VARIABLE ||
               message->type == CADRE_MESSAGE_DEFINITIONS) {
        status = take_variables(self, message);
    } else if (message->type == CADRE_MESSAGE_FUNCTION) {
        status = set_function(self, message);
    } else if (message->type == CADRE_MESSAGE_RESOURCE) {
        status = cadre_directory_set_resource(&self->directory, message);
        build(self, now_ms);
    } else {
        status = set_dataset(self, message, now_ms);
    }
    if (status < 0) {
        cadre_worker_core_malformed(self);
        return;
    }
    /* A waiting closure may have lacked this definition. */
    cadre_worker_runs_advance(self->runs, now_ms);
}

/* Acts on a message of the coordinator that the session has passed on. */
static void
on_message(cadre_worker_core_t *self, cadre_message_t *message, uint64_t now_ms)
{
    switch ((cadre_for_worker_t)message->type) {
    case CADRE_FOR_WORKER_SHARD:
    case CADRE_FOR_WORKER_VARIABLE:
    case CADRE_FOR_WORKER_DEFINITIONS:
    case CADRE_FOR_WORKER_FUNCTION:
    case CADRE_FOR_WORKER_DATASET:
    case CADRE_FOR_WORKER_RESOURCE:
        on_definition(self, message, now_ms);
        return;
    case CADRE_FOR_WORKER_CLOSURE:
        if (!cadre_worker_runs_on_closure(self->runs, message, now_ms)) {
            cadre_worker_core_malformed(self);
        }
        return;
    case CADRE_FOR_WORKER_CANCEL:
        cadre_worker_runs_on_cancel(self->runs, &message->cancel, now_ms);
        return;
    case CADRE_FOR_WORKER_ACK:
        cadre_worker_runs_on_ack(self->runs, &message->ack);
        cadre_worker_runs_resend(self->runs, message->request);
        return;
    case CADRE_FOR_WORKER_DRAIN:
        cadre_worker_core_drain(self, "drained by the coordinator", now_ms);
        return;
    case CADRE_FOR_WORKER_WELCOME: /* messages that the session has taken already */
    case CADRE_FOR_WORKER_REFUSED:
    case CADRE_FOR_WORKER_UNKNOWN_PEER:
    case CADRE_FOR_WORKER_STOP:
    case CADRE_FOR_WORKER_VALUES: /* messages that only a shard may send */
    case CADRE_FOR_WORKER_APPLIED:
    case CADRE_FOR_WORKER_PROBED:
    case CADRE_FOR_WORKER_GRANT:
    case CADRE_FOR_WORKER_NONE:
        break;
    }
    cadre_worker_core_malformed(self);
}

/* Acts on a message of the coordinator: the session looks at it first, and takes what concerns
 * membership. */
static void
from_coordinator(cadre_worker_core_t *self, cadre_message_t *message, uint64_t now_ms)
{
    switch (cadre_session_receive(self->session, message, now_ms)) {
    case CADRE_NEWS_NONE:
        break;
    case CADRE_NEWS_WELCOME:
        on_welcome(self, message, now_ms);
        break;
    case CADRE_NEWS_MESSAGE:
        on_message(self, message, now_ms);
        break;
    case CADRE_NEWS_MALFORMED:
        cadre_worker_core_malformed(self);
        break;
    }
    obey(self, now_ms);
}

/* Acts on a message of a ps, unless it is of the process that served the shard before: that one may
 * still be heard, and says nothing of the state that the shard has now. */
static void
from_shard(cadre_worker_core_t *self, uint32_t shard, cadre_message_t *message, uint64_t now_ms)
{
    if (message->incarnation != self->directory.shards[shard].task.incarnation) {
        return;
    }
    if (!cadre_worker_values_receive(values_at(self, now_ms), shard, message, now_ms)) {
        cadre_worker_core_malformed(self);
    }
}

/* Acts on a message of the coordinator or of a shard, and takes it. After the end of the session
 * messages are dropped. */
void
cadre_worker_core_receive(cadre_worker_core_t *self, const cadre_task_t *from,
                          cadre_message_t *message, uint64_t now_ms)
{
    if (cadre_session_state(self->session) == CADRE_SESSION_LEFT) {
        cadre_message_fini(message);
        return;
    }
    if (from->role == CADRE_ROLE_COORDINATOR) {
        from_coordinator(self, message, now_ms);
    } else if (from->index < self->directory.shard_count) {
        from_shard(self, from->index, message, now_ms);
    } else {
        cadre_worker_core_malformed(self);
    }
    cadre_message_fini(message);
}

void
cadre_worker_core_malformed(cadre_worker_core_t *self)
{
    cadre_worker_counters_note(&self->counters, CADRE_WORKER_COUNTER_malformed);
}
