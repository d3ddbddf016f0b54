#include "worker/core/worker_core.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/session/contact.h"
#include "common/wire/codec.h"
#include "worker/core/worker_builds.h"
#include "worker/core/worker_wants.h"

enum { HELLO_RETRY_MS = 1000 }; /* until WELCOME */

struct cadre_worker_core {
    cadre_worker_options_t options;
    cadre_worker_effects_t effects;
    cadre_worker_counters_t counters;
    cadre_directory_t directory;
    cadre_worker_values_t *values;
    cadre_worker_runs_t *runs;
    cadre_worker_wants_t wants;

    cadre_worker_state_t state;
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
    uint64_t mute_due_ms; /* while in CADRE_WORKER_HELLO and the coordinator says nothing */
    uint64_t heartbeat_due_ms;
    uint64_t tick_due_ms; /* when the shell promised to tick again, at the latest */
    uint64_t heartbeat_sequence;
    char leave_reason[CADRE_TEXT_SIZE_MAX + 1];
    bool dismissed; /* told to drain */
    bool disowned;  /* draining, and the coordinator has forgotten this worker: no ACK will come */
};

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

cadre_worker_core_t *
cadre_worker_core_new(const cadre_worker_options_t *options, uint64_t now_ms)
{
    cadre_assert(options->slots >= 1 && options->slots <= CADRE_SLOTS_MAX);
    cadre_worker_core_t *self = cadre_calloc(1, sizeof(*self));
    self->options = *options;
    fill_in(&self->options);
    self->heartbeat_ms = CADRE_HEARTBEAT_MS;
    self->hello_due_ms = now_ms;
    self->mute_due_ms = UINT64_MAX;
    self->tick_due_ms = UINT64_MAX;
    cadre_worker_effects_speak_as(&self->effects, &options->task, 0);

    /* Contents are numbered above all that a core before this one can have given in this process.
     */
    const cadre_worker_values_options_t values = {.window = self->options.window,
                                                  .push_part_size = self->options.push_part_size,
                                                  .partitions_max = self->options.partitions_max,
                                                  .shard_timeout_ms = options->shard_timeout_ms,
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
    return &self->options.task;
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

const cadre_cached_value_t *
cadre_worker_core_held(const cadre_worker_core_t *self, uint32_t variable, uint32_t partition,
                       uint64_t generation)
{
    return cadre_worker_values_held(self->values, variable, partition, generation);
}

cadre_worker_core_figures_t
cadre_worker_core_figures(const cadre_worker_core_t *self)
{
    const cadre_shard_set_t unreachable = cadre_worker_values_unreachable(self->values);
    return (cadre_worker_core_figures_t){.state = self->state,
                                         .session = self->session,
                                         .epoch = self->epoch,
                                         .lease_ms = self->lease_ms,
                                         .heard_ms = self->contact.heard_ms,
                                         .build = self->options.build,
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

static void
say_hello(cadre_worker_core_t *self, uint64_t now_ms)
{
    if (self->superseded && cadre_worker_runs_running(self->runs) == 0) {
        self->round++; /* what the other coordinator told so far was not taken */
    }
    cadre_u64s_t held = cadre_worker_runs_held(self->runs);
    cadre_message_t message = cadre_worker_effects_message(&self->effects, CADRE_MESSAGE_HELLO);
    message.hello = (cadre_hello_message_t){.lowest = CADRE_PROTOCOL_LOWEST,
                                            .highest = CADRE_PROTOCOL_VERSION,
                                            .schema = cadre_message_schema_hash(),
                                            .role = CADRE_ROLE_WORKER,
                                            .index = self->options.task.index,
                                            .build = self->options.build,
                                            .host = self->options.host,
                                            .process = self->options.process,
                                            .devices = self->options.devices,
                                            .slots = self->options.slots,
                                            .session = self->session,
                                            .held = held,
                                            .round = self->round,
                                            .definitions = self->directory.definitions,
                                            .functions = self->directory.functions_complete};
    message.request = cadre_contact_ask(&self->contact, now_ms);
    cadre_worker_effects_ask(&self->effects, &message);
    free((void *)held.items);
    self->hello_due_ms = now_ms + HELLO_RETRY_MS;
}

static void
say_heartbeat(cadre_worker_core_t *self, uint64_t now_ms)
{
    const cadre_directory_t *directory = &self->directory;
    cadre_u64s_t held = cadre_worker_runs_held(self->runs);
    cadre_shard_set_t unheard = cadre_worker_values_unreachable(self->values);
    cadre_wait_t waits[CADRE_WAITS_MAX];
    size_t wait_count = cadre_worker_values_waits(self->values, now_ms, waits);
    cadre_message_t message = cadre_worker_effects_message(&self->effects, CADRE_MESSAGE_HEARTBEAT);
    message.heartbeat =
        (cadre_heartbeat_message_t){.sequence = ++self->heartbeat_sequence,
                                    .held = held,
                                    .counters = {self->counters.items, CADRE_WORKER_COUNTER_COUNT},
                                    .known = cadre_resource_set_list(&directory->resources_known),
                                    .built = cadre_resource_set_list(&directory->resources_built),
                                    .unreachable = cadre_shard_set_list(&unheard),
                                    .waits = cadre_wait_list(waits, wait_count),
                                    .lacks = {directory->lacks, directory->lack_count}};
    message.request = cadre_contact_ask(&self->contact, now_ms);
    cadre_worker_effects_ask(&self->effects, &message);
    free((void *)held.items);
    self->heartbeat_due_ms = now_ms + self->heartbeat_ms;
    cadre_worker_effects_take_hurry(&self->effects);
}

static void
leave(cadre_worker_core_t *self, const char *reason)
{
    if (self->state == CADRE_WORKER_STATE_LEFT) {
        return;
    }
    cadre_message_t message = cadre_worker_effects_message(&self->effects, CADRE_MESSAGE_GOODBYE);
    message.goodbye.reason = reason;
    cadre_worker_effects_tell(&self->effects, &message);
    self->state = CADRE_WORKER_STATE_LEFT;
    cadre_worker_runs_disown(self->runs, true);
    cadre_worker_event_t event = {.kind = CADRE_WORKER_LEFT};
    snprintf(event.text, sizeof(event.text), "%s", reason);
    cadre_worker_effects_emit(&self->effects, &event);
}

/* The coordinator does not take this worker. */
static void
be_refused(cadre_worker_core_t *self, const cadre_refused_message_t *refused)
{
    cadre_worker_runs_drop(self->runs);
    self->state = CADRE_WORKER_STATE_LEFT;
    cadre_worker_runs_disown(self->runs, true);
    cadre_worker_event_t event = {.kind = CADRE_WORKER_REFUSED,
                                  .status =
                                      refused->status ? -(int)refused->status : CADRE_EREFUSED};
    snprintf(event.text, sizeof(event.text), "%s", refused->text);
    cadre_worker_effects_emit(&self->effects, &event);
}

/* A job with more ps than there are descriptors for is not ours: their connections are not even
 * tried without one, and nobody says so. */
static bool
has_room(cadre_worker_core_t *self, const cadre_welcome_message_t *welcome)
{
    if (self->options.shards_max == 0 || welcome->shards <= self->options.shards_max) {
        return true;
    }
    cadre_fail(CADRE_ECONFIG,
               "the job has %" PRIu64 " ps, and this worker descriptors for %" PRIu32 ": %s",
               welcome->shards, self->options.shards_max, self->options.shards_why);
    be_refused(self, &(cadre_refused_message_t){.status = (uint64_t)-CADRE_ECONFIG,
                                                .text = cadre_error_text()});
    return false;
}

/* Everything of the session before is void: another coordinator knows nothing of it. */
static void
begin_session(cadre_worker_core_t *self, const cadre_message_t *welcome)
{
    cadre_worker_values_end_session(self->values);
    cadre_worker_builds_release_all(&self->directory, &self->effects);
    cadre_directory_init(&self->directory, (uint32_t)welcome->welcome.shards);
    cadre_worker_values_begin_session(self->values);
    cadre_worker_runs_begin_session(self->runs);
    self->session = welcome->incarnation;
    cadre_worker_effects_emit(&self->effects, &(cadre_worker_event_t){.kind = CADRE_WORKER_RESET});
}

/* Takes up the session, or a new one once the runs of the one before have ended. */
static void
on_welcome(cadre_worker_core_t *self, const cadre_message_t *message, uint64_t now_ms)
{
    bool late = self->contact.answers && message->request < self->hello_first;
    if (self->state != CADRE_WORKER_STATE_HELLO || late || !has_room(self, &message->welcome)) {
        return;
    }
    if (message->incarnation != self->session) {
        cadre_worker_runs_drop(self->runs);
        self->superseded = cadre_worker_runs_running(self->runs) > 0;
        cadre_worker_runs_disown(self->runs, self->superseded);
        if (self->superseded) {
            return; /* HELLO is repeated until the slots' runs have ended */
        }
        begin_session(self, message);
    }
    self->superseded = false;
    cadre_worker_runs_disown(self->runs, false);
    self->state = CADRE_WORKER_STATE_MEMBER;
    self->epoch = message->epoch;
    self->options.task.index = (uint32_t)message->welcome.index;
    cadre_worker_effects_speak_as(&self->effects, &self->options.task, self->epoch);
    self->heartbeat_ms = message->welcome.heartbeat_ms ? message->welcome.heartbeat_ms : 1;
    self->lease_ms = message->welcome.lease_ms;
    cadre_contact_answered(&self->contact, message->request);
    cadre_worker_runs_resend(self->runs, message->request);
    say_heartbeat(self, now_ms);
}

/* Says HELLO: to a coordinator that may not know this worker, or not any more. */
static void
rejoin(cadre_worker_core_t *self, uint64_t now_ms)
{
    if (self->state == CADRE_WORKER_STATE_MEMBER) {
        self->state = CADRE_WORKER_STATE_HELLO;
        self->hello_first = self->contact.asked + 1;
        self->round++;
    }
    if (self->state == CADRE_WORKER_STATE_HELLO) {
        say_hello(self, now_ms);
    }
}

void
cadre_worker_core_connected(cadre_worker_core_t *self, uint64_t now_ms)
{
    self->mute_due_ms = now_ms + CADRE_MUTE_MS;
    self->round++;
    rejoin(self, now_ms);
}

void
cadre_worker_core_drain(cadre_worker_core_t *self, const char *reason, uint64_t now_ms)
{
    if (self->state == CADRE_WORKER_STATE_LEFT) {
        return;
    }
    snprintf(self->leave_reason, sizeof(self->leave_reason), "%s", reason);
    self->dismissed = true;
    if (self->state == CADRE_WORKER_STATE_HELLO) {
        cadre_worker_core_abandon(self, reason); /* nobody would take reports */
        return;
    }
    self->state = CADRE_WORKER_STATE_DRAINING;
    cadre_worker_runs_drain(self->runs, self->leave_reason, now_ms);
}

bool
cadre_worker_core_is_draining(const cadre_worker_core_t *self)
{
    return self->state == CADRE_WORKER_STATE_DRAINING;
}

bool
cadre_worker_core_is_dismissed(const cadre_worker_core_t *self)
{
    return self->dismissed;
}

void
cadre_worker_core_abandon(cadre_worker_core_t *self, const char *reason)
{
    if (self->state != CADRE_WORKER_STATE_LEFT) {
        cadre_worker_runs_drop(self->runs);
        leave(self, reason);
    }
}

/* --- contact --- */

bool
cadre_worker_core_in_touch(const cadre_worker_core_t *self, uint64_t now_ms)
{
    return now_ms < cadre_contact_lost_ms(&self->contact, self->lease_ms);
}

/* The coordinator will give this worker's closures to others, or has. One that drains lets it. */
static void
lose_touch(cadre_worker_core_t *self, uint64_t now_ms)
{
    if (self->state == CADRE_WORKER_STATE_DRAINING) {
        cadre_worker_runs_drop(self->runs);
        self->disowned = true;
    } else {
        self->mute_due_ms = now_ms + CADRE_MUTE_MS;
        rejoin(self, now_ms);
    }
}

/* The values, which send nothing to shards while the coordinator may have given this worker up. */
static cadre_worker_values_t *
values_at(cadre_worker_core_t *self, uint64_t now_ms)
{
    cadre_worker_values_set_touch(self->values, cadre_worker_core_in_touch(self, now_ms));
    return self->values;
}

/* --- time --- */

static uint64_t
earlier(uint64_t left_ms, uint64_t right_ms)
{
    return left_ms < right_ms ? left_ms : right_ms;
}

/* Says HELLO, or that nobody hears it; when to be called again. */
static uint64_t
tick_hello(cadre_worker_core_t *self, uint64_t now_ms)
{
    if (now_ms >= self->mute_due_ms) {
        self->mute_due_ms = now_ms + CADRE_MUTE_MS;
        cadre_worker_effects_emit(&self->effects,
                                  &(cadre_worker_event_t){.kind = CADRE_WORKER_MUTE});
    } else if (now_ms >= self->hello_due_ms) {
        say_hello(self, now_ms);
    }
    return earlier(self->hello_due_ms, self->mute_due_ms);
}

/* The shell comes when it has promised to, so what it is late by was this process's own stall: it
 * was stopped, or the machine swapped. Nobody could be heard meanwhile, so nobody was mute. Contact
 * with the coordinator is not excused: that one may have counted the silence. */
static void
excuse_stall(cadre_worker_core_t *self, uint64_t now_ms)
{
    uint64_t late_ms = now_ms > self->tick_due_ms ? now_ms - self->tick_due_ms : 0;
    if (late_ms < CADRE_OWN_STALL_MS) {
        return;
    }
    self->mute_due_ms += self->mute_due_ms != UINT64_MAX ? late_ms : 0;
    cadre_worker_values_excuse(self->values, late_ms, now_ms);
}

/* Begins the builds that are due; when the next one is. */
static uint64_t
build(cadre_worker_core_t *self, uint64_t now_ms)
{
    return self->state == CADRE_WORKER_STATE_MEMBER ? cadre_worker_runs_build(self->runs, now_ms)
                                                    : UINT64_MAX;
}

/* A HEARTBEAT is due at once when the coordinator waits for what it tells. */
static void
hurry_heartbeat(cadre_worker_core_t *self, uint64_t now_ms)
{
    if (cadre_worker_effects_take_hurry(&self->effects)) {
        self->heartbeat_due_ms = now_ms;
    }
}

static uint64_t
tick(cadre_worker_core_t *self, uint64_t now_ms)
{
    if (self->state == CADRE_WORKER_STATE_LEFT) {
        return UINT64_MAX;
    }
    if (self->state != CADRE_WORKER_STATE_HELLO && !cadre_worker_core_in_touch(self, now_ms)) {
        lose_touch(self, now_ms);
    }
    if (self->state == CADRE_WORKER_STATE_HELLO) {
        return tick_hello(self, now_ms);
    }
    bool done = cadre_worker_runs_count(self->runs) == 0 ||
                (self->disowned && cadre_worker_runs_running(self->runs) == 0);
    if (self->state == CADRE_WORKER_STATE_DRAINING && done) {
        leave(self, self->leave_reason);
        return UINT64_MAX;
    }
    hurry_heartbeat(self, now_ms);
    if (now_ms >= self->heartbeat_due_ms) {
        say_heartbeat(self, now_ms);
    }
    uint64_t due_ms = cadre_worker_values_tick(values_at(self, now_ms), now_ms);
    cadre_worker_wants_ask(&self->wants, &self->directory, self->runs, self->values, &self->effects,
                           now_ms);
    due_ms = earlier(due_ms, build(self, now_ms));
    hurry_heartbeat(self, now_ms);
    if (!self->disowned) {
        due_ms = earlier(due_ms, cadre_contact_lost_ms(&self->contact, self->lease_ms));
    }
    return earlier(earlier(due_ms, self->heartbeat_due_ms), now_ms + CADRE_WANT_RETRY_MS);
}

uint64_t
cadre_worker_core_tick(cadre_worker_core_t *self, uint64_t now_ms)
{
    excuse_stall(self, now_ms);
    self->tick_due_ms = tick(self, now_ms);
    return self->tick_due_ms;
}

void
cadre_worker_core_set_due(cadre_worker_core_t *self, uint64_t due_ms)
{
    self->tick_due_ms = due_ms;
}

/* --- runs --- */

void
cadre_worker_core_pull(cadre_worker_core_t *self, cadre_run_t *run,
                       const cadre_variable_entry_t *const *variables, size_t count,
                       uint64_t now_ms)
{
    cadre_worker_values_pull(values_at(self, now_ms), run, variables, count, now_ms);
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

/* --- what comes in --- */

/* Tells the coordinator what became of a dataset. */
static void
say_ready(cadre_worker_core_t *self, const cadre_dataset_entry_t *entry)
{
    cadre_message_t message =
        cadre_worker_effects_message(&self->effects, CADRE_MESSAGE_DATASET_READY);
    message.dataset_ready = entry->ready;
    cadre_worker_effects_tell(&self->effects, &message);
}

void
cadre_worker_core_dataset_opened(cadre_worker_core_t *self, uint32_t dataset,
                                 const cadre_dataset_ready_message_t *ready, uint64_t now_ms)
{
    cadre_dataset_entry_t *entry = cadre_directory_dataset(&self->directory, dataset);
    if (!entry) {
        return; /* of a session before */
    }
    cadre_dataset_entry_answer(entry, ready);
    say_ready(self, entry);
    cadre_worker_runs_advance(self->runs, now_ms);
}

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
        cadre_worker_effects_hurry(&self->effects); /* so that closures go elsewhere */
    }
    return status;
}

/* One that is there already is told again because the answer was lost, or nobody waits for it any
 * more: that does no harm. */
static int
set_dataset(cadre_worker_core_t *self, const cadre_message_t *message)
{
    uint32_t id = (uint32_t)message->dataset.id;
    bool is_new = false;
    int status = cadre_directory_set_dataset(&self->directory, message, &is_new);
    const cadre_dataset_entry_t *entry = cadre_directory_dataset(&self->directory, id);
    if (status == 0 && is_new) {
        cadre_worker_effects_emit(
            &self->effects,
            &(cadre_worker_event_t){.kind = CADRE_WORKER_OPEN_DATASET, .index = id});
    } else if (status == 0 && entry->answered) {
        say_ready(self, entry);
    }
    return status;
}

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
        status = set_dataset(self, message);
    }
    if (status < 0) {
        cadre_worker_core_malformed(self);
        return;
    }
    cadre_worker_runs_advance(self->runs, now_ms);
}

static void
on_unknown_peer(cadre_worker_core_t *self, uint64_t now_ms)
{
    if (self->state == CADRE_WORKER_STATE_DRAINING && !self->disowned) {
        self->disowned = true;
        cadre_worker_runs_drop(self->runs); /* nor will news of the shards that they wait for */
    }
    rejoin(self, now_ms);
}

/* Whether a message is of the session that this worker is in; before WELCOME those that end it are.
 */
static bool
is_of_session(const cadre_worker_core_t *self, const cadre_message_t *message)
{
    bool ends = message->type == CADRE_MESSAGE_STOP || message->type == CADRE_MESSAGE_REFUSED;
    return self->state == CADRE_WORKER_STATE_HELLO ? ends : message->incarnation == self->session;
}

static void
of_session(cadre_worker_core_t *self, cadre_message_t *message, uint64_t now_ms)
{
    switch (message->type) {
    case CADRE_MESSAGE_SHARD:
    case CADRE_MESSAGE_VARIABLE:
    case CADRE_MESSAGE_DEFINITIONS:
    case CADRE_MESSAGE_FUNCTION:
    case CADRE_MESSAGE_DATASET:
    case CADRE_MESSAGE_RESOURCE:
        on_definition(self, message, now_ms);
        break;
    case CADRE_MESSAGE_CLOSURE:
        if (!cadre_worker_runs_on_closure(self->runs, message, now_ms)) {
            cadre_worker_core_malformed(self);
        }
        break;
    case CADRE_MESSAGE_CANCEL:
        cadre_worker_runs_on_cancel(self->runs, &message->cancel, now_ms);
        break;
    case CADRE_MESSAGE_ACK:
        cadre_contact_answered(&self->contact, message->request);
        cadre_worker_runs_on_ack(self->runs, &message->ack);
        cadre_worker_runs_resend(self->runs, message->request);
        break;
    case CADRE_MESSAGE_DRAIN:
        cadre_worker_core_drain(self, "drained by the coordinator", now_ms);
        break;
    case CADRE_MESSAGE_REFUSED:
        be_refused(self, &message->refused);
        break;
    case CADRE_MESSAGE_STOP:
        cadre_worker_core_abandon(self, message->stop.reason);
        break;
    case CADRE_MESSAGE_HELLO:
    case CADRE_MESSAGE_WELCOME:
    case CADRE_MESSAGE_UNKNOWN_PEER:
    case CADRE_MESSAGE_STATUS:
    case CADRE_MESSAGE_STATUS_TEXT:
    case CADRE_MESSAGE_HEARTBEAT:
    case CADRE_MESSAGE_GOODBYE:
    case CADRE_MESSAGE_REPLY:
    case CADRE_MESSAGE_DATASET_READY:
    case CADRE_MESSAGE_WANT:
    case CADRE_MESSAGE_CLOSURE_DONE:
    case CADRE_MESSAGE_CLOSURE_FAILED:
    case CADRE_MESSAGE_CREATE:
    case CADRE_MESSAGE_SETTLE:
    case CADRE_MESSAGE_DROP:
    case CADRE_MESSAGE_RETIRE:
    case CADRE_MESSAGE_SNAPSHOT:
    case CADRE_MESSAGE_CLOSE_CUT:
    case CADRE_MESSAGE_SNAPSHOT_TAKEN:
    case CADRE_MESSAGE_SNAPSHOT_WRITTEN:
    case CADRE_MESSAGE_CHECKPOINT_END:
    case CADRE_MESSAGE_RESTORE:
    case CADRE_MESSAGE_COUNT:
    case CADRE_MESSAGE_PULL:
    case CADRE_MESSAGE_VALUES:
    case CADRE_MESSAGE_PUSH:
    case CADRE_MESSAGE_APPLIED:
    case CADRE_MESSAGE_ASSIGN:
    case CADRE_MESSAGE_PROBE:
    case CADRE_MESSAGE_PROBED:
    case CADRE_MESSAGE_RESERVE:
    case CADRE_MESSAGE_GRANT:
        cadre_worker_core_malformed(self);
        break;
    }
}

static void
from_coordinator(cadre_worker_core_t *self, cadre_message_t *message, uint64_t now_ms)
{
    if (message->type == CADRE_MESSAGE_WELCOME) {
        on_welcome(self, message, now_ms);
    } else if (message->type == CADRE_MESSAGE_UNKNOWN_PEER) {
        on_unknown_peer(self, now_ms);
    } else if (is_of_session(self, message)) {
        of_session(self, message, now_ms);
    } /* else it will be sent again */
}

/* One that served the shard before may be heard still: it says nothing of who serves it now. */
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

void
cadre_worker_core_receive(cadre_worker_core_t *self, const cadre_task_t *from,
                          cadre_message_t *message, uint64_t now_ms)
{
    if (self->state == CADRE_WORKER_STATE_LEFT) {
        cadre_message_fini(message);
        return;
    }
    if (from->role == CADRE_ROLE_COORDINATOR) {
        self->mute_due_ms = now_ms + CADRE_MUTE_MS;
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
