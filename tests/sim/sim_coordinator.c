#include "tests/sim/sim_coordinator.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/manifest.h"
#include "coordinator/core/checkpoint/checkpoint_manifest.h"
#include "tests/sim/sim_lacks.h"
#include "tests/sim/sim_swarm.h"

enum { ANSWER_MS_MAX = 20 };

/* The user hears of the end of a call. */
static void
note_ended(sim_coordinator_t *self, sim_call_t *call, const cadre_results_t *end)
{
    self->check->cancels_all = self->user_cancels;
    bool is_own = end->status < 0 && !sim_check_has_failed_source(self->check, call);
    if (is_own && strstr(end->text, " run it: worker")) {
        sim_lacks_check_unserved(self->check, &self->core, call);
        self->check->unserved++;
    }
    if (call->client > 0 && end->status == CADRE_ECANCELLED && !self->user_cancels &&
        cadre_u64_map_get(&self->core.clients.attached, call->client)) {
        sim_check_fail(self->check, "call %u of a client that is attached is cancelled",
                       call->index);
    }
    sim_check_ended(self->check, call, end);
}

void
sim_coordinator_take_ended(sim_coordinator_t *self)
{
    cadre_results_t *end = NULL;
    while ((end = cadre_effects_take_ended(&self->core.effects))) {
        if (!self->deposed) {
            note_ended(self, end->future, end);
        }
        cadre_results_unref(&end);
    }
}

/* What the user's program knows of a cut. */
static char *
on_progress(void *context, uint64_t cut, uint64_t of_clients)
{
    (void)context;
    (void)of_clients;
    return cadre_asprintf("{\"cut\": %" PRIu64 "}", cut);
}

/* Begins where the newest checkpoint ends. */
static void
resume(sim_coordinator_t *self, const sim_checkpoint_t *checkpoint)
{
    cadre_totals_t totals;
    char *progress = NULL;
    char expected[64];
    uint64_t cut = checkpoint->manifest->cut;
    if (cadre_checkpoint_totals(checkpoint->manifest, &totals, &progress) < 0) {
        sim_check_fail(self->check, "I5: %s", cadre_error_text());
    }
    snprintf(expected, sizeof(expected), "{\"cut\":%" PRIu64 "}", cut);
    if (progress && strcmp(progress, expected) != 0 && strcmp(progress, "{\"epoch\":3}") != 0) {
        sim_check_fail(self->check, "I5: the progress at cut %" PRIu64 " is %s", cut, progress);
    }
    sim_check_totals(self->check, cut, &totals);
    cadre_core_resume(&self->core, checkpoint->path, checkpoint->id, cut, &totals);
    if (cadre_checkpoint_sequences(checkpoint->manifest, &self->core.checkpoint.held) < 0) {
        sim_check_fail(self->check, "I5: %s", cadre_error_text());
    }
    for (size_t i = 0; i < checkpoint->manifest->variable_count; i++) {
        cadre_checkpoint_await(&self->core.checkpoint, checkpoint->manifest->variables[i].name);
    }
    free(progress);
}

void
sim_coordinator_start(sim_coordinator_t *self)
{
    sim_state_t *files[SIM_SHARDS_MAX] = {NULL};
    self->disk->doubtful = NULL;
    sim_disk_clean(self->disk);
    const sim_checkpoint_t *newest = sim_disk_newest(self->disk, true);
    self->task = (cadre_task_t){CADRE_ROLE_COORDINATOR, 0, cadre_random_next_u64(self->random)};
    self->options.incarnation = self->task.incarnation;
    self->options.epoch = cadre_random_next_u64(self->random) >> 2 | 1;
    for (uint32_t i = 0; newest && i < self->check->shard_count; i++) {
        files[i] = newest->files[i].state;
    }
    cadre_sequences_t held = {.count = 0};
    if (newest && cadre_checkpoint_sequences(newest->manifest, &held) < 0) {
        sim_check_fail(self->check, "I5: %s", cadre_error_text());
    }
    sim_check_begin_life(self->check, self->options.epoch, newest ? newest->manifest->cut : 1,
                         &held, files);
    cadre_sequences_fini(&held);
    cadre_core_init(&self->core, &self->options, self->network->now_ms);
    self->core.checkpoint.on_progress = on_progress;
    if (sim_swarm_has(self->check->seed, "chains", 2) || sim_is_rotten(self->check->seed)) {
        cadre_checkpoint_chain(&self->core.checkpoint,
                               (uint32_t)sim_swarm_draw(self->check->seed, "full every", 2, 5));
    }
    if (newest) {
        resume(self, newest);
    }
    self->resumed = newest ? newest->holds : 0;
    self->alive = true;
    self->life++;
    self->abreast_ms = self->network->now_ms;
    memset(self->heard_ms, 0, sizeof(self->heard_ms));
    memset(self->lost, 0, sizeof(self->lost));
    self->paused_ms = 0;
    self->is_at_end = false;
    self->has_left = false;
    self->user_cancels = false;
    self->draft = 0;
    self->store_ms = 0;
    self->tick_due_ms = UINT64_MAX;
    sim_network_at(self->network, 0, SIM_TICK, SIM_COORDINATOR_NODE, 0);
}

void
sim_coordinator_depose(sim_coordinator_t *self, uint32_t node, sim_coordinator_t *next)
{
    *next = *self;
    next->manifest = NULL;
    next->alive = false;
    next->failed += self->core.totals.checkpoints_failed;
    memset(&next->core, 0, sizeof(next->core));
    self->deposed = true;
    self->node = node;
    self->tick_due_ms = UINT64_MAX;
}

static void
drop_manifest(sim_coordinator_t *self)
{
    if (self->manifest) {
        cadre_manifest_fini(self->manifest);
        cadre_free(&self->manifest);
    }
}

void
sim_coordinator_stop(sim_coordinator_t *self)
{
    cadre_effect_t event;
    if (!self->alive) {
        return;
    }
    self->alive = false;
    while (cadre_effects_take(&self->core.effects, &event)) {
        if (event.kind == CADRE_EFFECT_STORE && event.store.manifest) {
            cadre_manifest_fini(event.store.manifest);
            free(event.store.manifest);
        }
    }
    self->failed += self->core.totals.checkpoints_failed;
    drop_manifest(self);
    cadre_core_fini(&self->core);
}

/* --- the store: one order after the other --- */

static void
later(sim_coordinator_t *self, sim_event_kind_t kind, uint64_t ms_max, uint64_t value)
{
    uint64_t now_ms = self->network->now_ms;
    uint64_t from_ms = self->store_ms > now_ms ? self->store_ms : now_ms;
    sim_event_t event = {.due_ms = from_ms + sim_between(self->random, 0, ms_max),
                         .kind = kind,
                         .node = SIM_COORDINATOR_NODE,
                         .value = value,
                         .life = self->life};
    self->store_ms = event.due_ms;
    sim_network_put(self->network, &event);
}

static void
on_order(sim_coordinator_t *self, const cadre_store_order_t *order)
{
    if (self->deposed) { /* the directory's lock refuses it: no answer ever comes */
        drop_manifest(self);
        self->manifest = order->manifest;
        return;
    }
    if (order->manifest) {
        drop_manifest(self);
        self->manifest = order->manifest;
    }
    bool is_slow = self->slow_store && sim_chance(self->random, 2500);
    later(self, SIM_STORED, is_slow ? 2 * (uint64_t)CADRE_CHECKPOINT_COMMIT_MS : self->store_ms_max,
          order->checkpoint << 3 | order->kind);
}

/* The id of the next draft, as the real store chooses it. */
static uint64_t
next_id(const sim_coordinator_t *self)
{
    const sim_checkpoint_t *newest = sim_disk_newest(self->disk, false);
    uint64_t id = newest ? newest->id : 0;
    return (id >= self->draft ? id : self->draft) + 1;
}

/* A manifest holds the numbers of the closures below its cut that ended well. */
static void
check_sequences(const sim_coordinator_t *self)
{
    cadre_sequences_t held = {.count = 0};
    if (cadre_checkpoint_sequences(self->manifest, &held) < 0) {
        sim_check_fail(self->check, "I5: %s", cadre_error_text());
    }
    for (uint32_t i = 0; i < self->check->call_count; i++) {
        const sim_call_t *call = self->check->calls[i];
        bool is_in = call->client == 0 && !call->lost && call->id > 0 &&
                     call->id < self->manifest->cut && call->ended && call->status == 0 &&
                     !call->undone;
        uint64_t sequence = (uint64_t)i + 1;
        if ((cadre_sequences_next(&held, sequence) > sequence) != is_in) {
            sim_check_fail(self->check,
                           "I5: the manifest at cut %" PRIu64 " %s closure %" PRIu64
                           " with number %" PRIu64,
                           self->manifest->cut, is_in ? "lacks" : "holds", call->id, sequence);
        }
    }
    cadre_sequences_fini(&held);
}

/* What a shard may be told to begin with is there. */
static void
check_points(const sim_coordinator_t *self)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(self->core.recovery.points.at); i++) {
        const char *path = self->core.recovery.points.at[i].path;
        const sim_checkpoint_t *checkpoint =
            path && path[0] ? sim_disk_find(self->disk, path) : NULL;
        if (checkpoint && checkpoint->removed) {
            sim_check_fail(self->check, "I5: %s is removed, the coordinator names it still", path);
        }
    }
}

static int
carry_out(sim_coordinator_t *self, cadre_store_order_kind_t kind, uint64_t checkpoint)
{
    const char *path = NULL;
    bool fails = sim_chance(self->random, self->store_fails);
    int status = fails ? cadre_fail(CADRE_EIO, "the disk of the simulation is bad") : 0;
    if (kind == CADRE_STORE_ABORT) {
        sim_disk_clean(self->disk);
        return 0;
    }
    if (kind == CADRE_STORE_RETAIN) {
        sim_disk_retain(self->disk, checkpoint);
        check_points(self);
        return 0;
    }
    if (kind == CADRE_STORE_OPEN) {
        sim_disk_clean(self->disk);
        self->draft = next_id(self);
        if (status == 0) {
            sim_disk_draft(self->disk, self->draft);
        }
        return status;
    }
    if (status == 0) {
        cadre_totals_t totals;
        char *progress = NULL;
        cadre_checkpoint_totals(self->manifest, &totals, &progress);
        sim_check_totals(self->check, self->manifest->cut, &totals);
        check_sequences(self);
        free(progress);
        status = sim_disk_commit(self->disk, self->draft, &self->manifest, &path);
        self->committed += status == 0;
    }
    if (status < 0) {
        sim_disk_clean(self->disk);
    }
    drop_manifest(self);
    return status;
}

void
sim_coordinator_stored(sim_coordinator_t *self, const sim_event_t *event)
{
    if (event->life != self->life || !self->alive) {
        return;
    }
    cadre_store_order_kind_t kind = (cadre_store_order_kind_t)(event->value & 7);
    int status = carry_out(self, kind, event->value >> 3);
    if (kind == CADRE_STORE_OPEN || kind == CADRE_STORE_COMMIT) {
        uint64_t failed = status < 0 ? 4 : 0;
        later(self, SIM_ANSWERED, ANSWER_MS_MAX, self->draft << 3 | failed | kind);
    } else if (kind == CADRE_STORE_RETAIN) {
        sim_event_t done = {.due_ms = self->network->now_ms + 1,
                            .kind = SIM_ANSWERED,
                            .node = SIM_COORDINATOR_NODE,
                            .value = kind,
                            .life = self->life};
        sim_network_put(self->network, &done);
    }
}

void
sim_coordinator_answered(sim_coordinator_t *self, const sim_event_t *event)
{
    if (event->life != self->life || !self->alive) {
        return;
    }
    char path[32];
    uint64_t id = event->value >> 3;
    cadre_store_answer_t answer = {.kind = (cadre_store_order_kind_t)(event->value & 3),
                                   .checkpoint = id,
                                   .status = event->value >> 2 & 1 ? CADRE_EIO : 0,
                                   .text = path};
    if (answer.status < 0) {
        answer.text = "the disk of the simulation is bad";
    } else if (answer.kind == CADRE_STORE_COMMIT) {
        snprintf(path, sizeof(path), "ckpt-%" PRIu64, id);
    } else {
        snprintf(path, sizeof(path), "draft-%" PRIu64, self->disk->made);
    }
    cadre_core_stored(&self->core, &answer, self->network->now_ms);
    sim_coordinator_take_ended(self);
}

/* --- events --- */

/* A task is given up: not for silence when a heartbeat of it has come, read or not, unless there
 * was always more to read for a whole lease. */
static void
on_lost(sim_coordinator_t *self, const char *text)
{
    const char *process = strstr(text, "process=");
    uint32_t node = process ? (uint32_t)strtoul(process + strlen("process="), NULL, 10) : 0;
    uint64_t silent_ms = self->network->now_ms - self->heard_ms[node];
    self->lost[node] = true;
    bool is_behind = self->network->now_ms >= self->abreast_ms + self->options.lease_ms;
    if (strstr(text, "its lease ran out") && silent_ms < self->options.lease_ms && !is_behind) {
        sim_check_fail(self->check,
                       "node %u is given up for silence, its heartbeat came %" PRIu64 " ms ago",
                       node, silent_ms);
    }
}

/* Why a closure is given up that was to run again. */
static int
given_up_status(const char *text)
{
    if (strstr(text, "its data differ")) {
        return CADRE_EDATA;
    }
    if (strstr(text, " run it: worker")) {
        return CADRE_ENOTFOUND;
    }
    if (strstr(text, "rows_max")) {
        return CADRE_EFULL;
    }
    return strstr(text, "deadline") ? CADRE_ETIMEOUT : CADRE_EPOISON;
}

/* A client has gone: what it had scheduled does not wait for a worker any more. */
static void
check_left(sim_coordinator_t *self)
{
    for (uint32_t i = 0; self->has_left && i < self->check->call_count; i++) {
        const sim_call_t *call = self->check->calls[i];
        if (call->client > 0 && call->scheduled && !call->lost && call->id == 0 && !call->ended &&
            !cadre_u64_map_get(&self->core.clients.attached, call->client)) {
            sim_check_fail(self->check, "call %u of a client that has gone waits for a worker",
                           call->index);
        }
    }
    self->has_left = false;
}

static void
on_log(sim_coordinator_t *self, const cadre_effect_t *event)
{
    const char *number = strstr(event->text, "closure=");
    if (self->verbose) {
        printf("%8" PRIu64 " log %c %s %s\n", self->network->now_ms, event->level, event->name,
               event->text);
    }
    if (strcmp(event->name, "worker_lost") == 0 || strcmp(event->name, "ps_lost") == 0) {
        on_lost(self, event->text);
    }
    if (strcmp(event->name, "checkpoint_failed") == 0 && strstr(event->text, " after step ")) {
        sim_check_fail(self->check, "I5: a checkpoint of other steps: %s", event->text);
    }
    self->has_left = self->has_left || strcmp(event->name, "client_left") == 0;
    if (strcmp(event->name, "replay_failed") == 0 && number) {
        sim_check_given_up(self->check, strtoull(number + strlen("closure="), NULL, 10),
                           given_up_status(event->text));
    }
}

void
sim_coordinator_take_events(sim_coordinator_t *self)
{
    cadre_effect_t event;
    while (cadre_effects_take(&self->core.effects, &event)) {
        if (event.kind == CADRE_EFFECT_STORE) {
            on_order(self, &event.store);
        } else if (event.kind == CADRE_EFFECT_SHARD_MOVED &&
                   self->core.recovery.places[event.shard].health.mutes >
                       0) { /* all goes out again */
            sim_network_disturb(self->network, SIM_COORDINATOR_NODE, self->network->now_ms);
        } else if (event.kind == CADRE_EFFECT_LOG && !self->deposed) {
            on_log(self, &event);
        }
    }
}

/* Shards that cannot read the newest checkpoint begin with the one before, if that is sound. */
static void
doubt_newest(const sim_coordinator_t *self)
{
    const char *newest = self->core.recovery.points.at[0].path;
    const char *before = self->core.recovery.points.at[1].path;
    const sim_checkpoint_t *spare = before && before[0] ? sim_disk_find(self->disk, before) : NULL;
    bool is_sound = before && (!before[0] || (spare && !spare->damaged && !spare->removed));
    self->disk->doubtful =
        is_sound && newest && newest[0] ? sim_disk_find(self->disk, newest) : NULL;
}

/* Whether neither of the checkpoints that shards may begin with is whole. */
static bool
has_nothing_whole(const sim_coordinator_t *self)
{
    bool found = false;
    for (size_t i = 0; i < CADRE_COUNT_OF(self->core.recovery.points.at); i++) {
        const char *path = self->core.recovery.points.at[i].path;
        const sim_checkpoint_t *checkpoint =
            path && path[0] ? sim_disk_find(self->disk, path) : NULL;
        found = found || (path && !(checkpoint && checkpoint->damaged));
    }
    return !found;
}

void
sim_coordinator_turn(sim_coordinator_t *self)
{
    uint64_t now_ms = self->network->now_ms;
    bool unread = self->network->unread[SIM_COORDINATOR_NODE] > 0;
    self->abreast_ms = unread ? self->abreast_ms : now_ms;
    uint64_t due_ms = cadre_core_tick(&self->core, now_ms, unread);
    sim_coordinator_take_ended(self);
    const cadre_checkpoint_t *checkpoint = &self->core.checkpoint;
    if (checkpoint->state == CADRE_CHECKPOINT_CUT) {
        sim_check_cut(self->check, self->options.epoch, checkpoint->id, checkpoint->cut);
    }
    sim_coordinator_take_events(self);
    if (due_ms < self->tick_due_ms || self->tick_due_ms <= now_ms) {
        self->tick_due_ms = due_ms;
        if (due_ms != UINT64_MAX) {
            sim_network_at(self->network, due_ms > now_ms ? due_ms - now_ms : 1, SIM_TICK,
                           self->node, 0);
        }
    }
    if (self->deposed) {
        return;
    }
    check_left(self);
    doubt_newest(self);
    self->check->relaxed = self->check->relaxed || !self->core.replay.keeping;
    if (self->core.fatal && self->check->refused_steps > 0 &&
        strstr(self->core.fatal_text, SIM_REFUSED_STEP)) {
        self->check->is_fatal = true;
    } else if (self->core.fatal && strstr(self->core.fatal_text, "is damaged") &&
               has_nothing_whole(self)) {
        self->is_at_end = true;
    } else if (self->core.fatal) {
        sim_check_fail(self->check, "the job cannot go on: %s", self->core.fatal_text);
    }
    if (cadre_effects_take_progress(&self->core.effects)) {
        sim_network_at(self->network, 0, SIM_SCRIPT, SIM_COORDINATOR_NODE, 0);
    }
}
