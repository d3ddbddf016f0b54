#include "tests/sim/sim_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/sim_faults.h"
#include "tests/sim/sim_look.h"
#include "tests/sim/sim_resize.h"
#include "tests/sim/sim_swarm.h"
#include "worker/core/worker_core.h"

enum {
    RANDOM_STREAM = 0x636c75,
    USUAL_WORKERS = 5,
    USUAL_SHARDS = 4,
    SETTLE_MS = 120000, /* one operation must end within this once there are no faults */
    STOP_MS = 30000,    /* and every task must have left within this after STOP was sent */
    EVENTS_MAX = 3000000,
    FAULTS_MS_MAX = 300000, /* then there are none any more */
};

static uint64_t
draw(sim_cluster_t *self, uint64_t low, uint64_t high)
{
    return sim_between(&self->random, low, high);
}

/* --- a job from a seed --- */

/* One seed in fifty has as many tasks as there can be. */
static bool
is_large(const sim_cluster_t *self)
{
    return !self->in_series && sim_swarm_has(self->seed, "large", 50);
}

/* How often the program changes a learning rate, in 10,000 operations. */
static uint32_t
rate_chance(uint64_t seed)
{
    return sim_swarm_has(seed, "rates", 3)
               ? (uint32_t)sim_swarm_draw(seed, "chance of rates", 200, 2000)
               : 0;
}

/* How often the program goes back to a checkpoint, in 10,000 operations. */
static uint32_t
back_chance(uint64_t seed)
{
    return sim_swarm_has(seed, "going back", 3) && !sim_is_resized(seed)
               ? (uint32_t)sim_swarm_draw(seed, "chance of going back", 200, 1500)
               : 0;
}

/* How often the program drops a variable, in 10,000 operations. */
static uint32_t
drop_chance(uint64_t seed)
{
    return sim_swarm_has(seed, "drops", 3) && !sim_is_resized(seed)
               ? (uint32_t)sim_swarm_draw(seed, "chance of drops", 200, 3000)
               : 0;
}

/* How often disks fail and checkpoints are damaged, and how a lost shard is made good. */
static void
swarm_coordinator(sim_cluster_t *self)
{
    static const uint32_t chances[] = {0, 0, 0, 300, 1000, 5000};
    static const uint32_t often[] = {3000, 6000, 9000};
    static const cadre_recovery_t recoveries[] = {CADRE_RECOVERY_REPLAY,   CADRE_RECOVERY_REPLAY,
                                                  CADRE_RECOVERY_REPLAY,   CADRE_RECOVERY_REPLAY,
                                                  CADRE_RECOVERY_ROLLBACK, CADRE_RECOVERY_ROLLBACK,
                                                  CADRE_RECOVERY_RELAXED};
    size_t last = CADRE_COUNT_OF(chances) - 1;
    self->shard_plan.write_fails = chances[sim_swarm_draw(self->seed, "write fails", 0, last)];
    self->shard_plan.read_fails = chances[sim_swarm_draw(self->seed, "read fails", 0, last)];
    self->coordinator->store_fails = chances[sim_swarm_draw(self->seed, "store fails", 0, last)];
    if (sim_is_rotten(self->seed)) {
        self->shard_plan.rots = often[sim_swarm_draw(self->seed, "rots", 0, 2)];
        self->shard_plan.write_fails = 0;
        self->coordinator->store_fails = 0;
        self->disk.keep = 3;
    }
    self->coordinator->options.recovery =
        recoveries[sim_swarm_draw(self->seed, "recovery", 0, CADRE_COUNT_OF(recoveries) - 1)];
    cadre_core_options_t *options = &self->coordinator->options;
    options->step_closures = 1;
    self->shard_plan.refuses_steps = self->refuses_steps;
    options->is_serial = self->in_series;
    if (self->in_series) {
        options->consistency = CADRE_SYNC;
        options->recovery = CADRE_RECOVERY_ROLLBACK;
    } else if (self->refuses_steps || sim_swarm_has(self->seed, "steps", 6)) {
        options->consistency = CADRE_SYNC;
        options->step_closures = (uint32_t)sim_swarm_draw(self->seed, "step", 1, 8);
        options->recovery = CADRE_RECOVERY_ROLLBACK;
    } else if (sim_swarm_has(self->seed, "bounded", 8)) {
        options->consistency = CADRE_BOUNDED;
        options->staleness_bound = (uint32_t)sim_swarm_draw(self->seed, "bound", 0, 12);
        self->check.staleness_bound = options->staleness_bound;
    }
    if (!self->in_series && sim_swarm_has(self->seed, "backups", 3)) {
        options->backup_attempts = (uint32_t)sim_swarm_draw(self->seed, "backup attempts", 1, 4);
    }
    if (sim_swarm_has(self->seed, "fill", 4)) { /* some shards have no variables, or few */
        options->fill_bytes = sim_swarm_draw(self->seed, "fill bytes", 1, 2000);
    }
    if (drop_chance(self->seed) > 0) { /* what lies where must not depend on when something went */
        self->coordinator->options.round_robin = true;
    }
    self->disk.damage_every =
        self->disk.keep > 1 ? (uint32_t)sim_swarm_draw(self->seed, "damage", 0, 3) : 0;
}

static void
make_coordinator(sim_cluster_t *self)
{
    self->lease_ms = draw(self, 0, 1) ? 10000 : 3000;
    self->disk = (sim_disk_t){
        .check = &self->check, .random = &self->random, .keep = (uint32_t)draw(self, 1, 3)};
    static const uint32_t load_ms[] = {1, 50, 1000, 15000};
    self->shard_plan =
        (sim_shard_plan_t){.load_ms_max = load_ms[sim_swarm_draw(self->seed, "load", 0, 3)],
                           .write_ms_max = draw(self, 0, 3) ? 400 : 5000,
                           .count_ms = draw(self, 0, 1) ? 0 : 100};
    self->coordinator = &self->coordinators[0];
    *self->coordinator =
        (sim_coordinator_t){.network = &self->network,
                            .check = &self->check,
                            .random = &self->random,
                            .disk = &self->disk,
                            .store_ms_max = draw(self, 0, 3) ? 60 : 4000,
                            .slow_store = sim_swarm_has(self->seed, "slow store", 20),
                            .verbose = self->verbose};
    self->coordinator->options =
        (cadre_core_options_t){.job = "sim",
                               .ps_count = self->shard_count,
                               .seed = self->seed,
                               .queue_capacity = draw(self, 0, 2) ? 1000 : draw(self, 1, 8),
                               .lease_ms = self->lease_ms,
                               .heartbeat_ms = self->lease_ms / 10,
                               .resend_ms = draw(self, 0, 1) ? 1000 : 200,
                               .ps_timeout_ms = 600000,
                               .round_robin = draw(self, 0, 1),
                               .client_closures = true};
    swarm_coordinator(self);
    self->node_count = 1;
    sim_coordinator_start(self->coordinator);
}

/* A task starts at every place, by and by. */
static void
make_places(sim_cluster_t *self)
{
    uint32_t workers =
        is_large(self) ? SIM_WORKER_PLACES_MAX : (uint32_t)draw(self, 1, USUAL_WORKERS);
    workers = self->in_series ? 1 : workers;
    uint32_t fixed = (uint32_t)draw(self, 0, workers);
    bool ps_fixed = draw(self, 0, 4) > 0;
    self->same_addresses = self->same_addresses && ps_fixed;
    self->place_count = self->ps_places + workers;
    for (uint32_t i = 0; i < self->place_count; i++) {
        bool is_ps = i < self->ps_places;
        uint32_t index = is_ps ? i : i - self->ps_places;
        bool is_fixed = is_ps ? ps_fixed : index < fixed;
        self->places[i] = (sim_place_t){.role = is_ps ? CADRE_ROLE_PS : CADRE_ROLE_WORKER,
                                        .index = is_fixed ? index : CADRE_INDEX_ANY,
                                        .slots = self->in_series ? 1 : (uint32_t)draw(self, 1, 4),
                                        .ahead = self->in_series ? 0 : (uint32_t)draw(self, 0, 2),
                                        .task = SIM_NEVER};
        bool is_late = !is_ps && draw(self, 0, 3) == 0;
        sim_network_at(&self->network, draw(self, 0, is_late ? 20000 : 500), SIM_FAULT,
                       SIM_COORDINATOR_NODE, 1 + i);
    }
    self->script.plan.tagged_workers = fixed;
}

/* Half of the worlds have so little room for updates that most are asked for, and go in parts. */
static void
draw_windows(sim_cluster_t *self, sim_plan_t *plan)
{
    static const uint64_t budgets[] = {1000, 10000, 100000};
    static const size_t windows[] = {1, 100, 1000};
    static const size_t sizes[] = {1, 100, 1000};
    static const size_t partitions[] = {1, 2, 0};
    if (!sim_swarm_has(self->seed, "small windows", 2)) {
        return;
    }
    self->shard_plan.intake_bytes = budgets[sim_swarm_draw(self->seed, "intake", 0, 2)];
    self->shard_plan.window = windows[sim_swarm_draw(self->seed, "window", 0, 2)];
    plan->window = self->shard_plan.window;
    plan->push_part_size = sizes[sim_swarm_draw(self->seed, "part size", 0, 2)];
    plan->partitions_max = partitions[sim_swarm_draw(self->seed, "partitions", 0, 2)];
}

/* One synchronous world in three has so little room for what a step holds that some updates are
 * refused. */
static void
draw_step_bytes(sim_cluster_t *self)
{
    static const uint64_t limits[] = {1, 200, 2000};
    if (self->coordinator->options.consistency == CADRE_SYNC &&
        sim_swarm_has(self->seed, "small steps", 3)) {
        self->shard_plan.step_bytes = limits[sim_swarm_draw(self->seed, "step bytes", 0, 2)];
    }
}

/* In one world of three there are clients. */
static void
make_clients(sim_cluster_t *self)
{
    if (!self->in_series && !self->refuses_steps && sim_swarm_has(self->seed, "clients", 3)) {
        sim_network_at(&self->network, sim_swarm_draw(self->seed, "first client", 0, 10000),
                       SIM_CLIENT, SIM_COORDINATOR_NODE, 0);
    }
}

static void
make_script(sim_cluster_t *self)
{
    sim_plan_t *plan = &self->script.plan;
    static const uint32_t fails[] = {0, 0, 20, 200};
    static const uint32_t chances[] = {0, 0, 500, 5000};
    static const uint64_t row_caches[] = {0, 2000, 8000, 1 << 20};
    plan->big = draw(self, 0, 39) == 0;
    plan->jumps = draw(self, 0, 39) == 0;
    plan->operations = (uint32_t)draw(self, 5, plan->big ? 15 : 50);
    plan->variables = (uint32_t)draw(self, 1, 5);
    plan->burst_max = plan->big ? 10 : (uint32_t)draw(self, 1, 60);
    plan->compute_ms_max = draw(self, 0, 1) ? 5 : 200;
    plan->long_compute_ms = (uint32_t)draw(self, 1, 8000);
    plan->fails = fails[draw(self, 0, 3)];
    plan->gives_up = chances[sim_swarm_draw(self->seed, "gives up", 0, 3)];
    plan->tags = draw(self, 0, 3) ? 0 : 500;
    if (self->coordinator->options.consistency == CADRE_SYNC) {
        plan->tags = 0; /* those are part of no step */
    }
    plan->drops = drop_chance(self->seed);
    plan->rates = rate_chance(self->seed);
    plan->backs = back_chance(self->seed);
    plan->groups = sim_swarm_has(self->seed, "groups", 2);
    plan->priorities = self->coordinator->options.consistency == CADRE_ASYNC &&
                       sim_swarm_has(self->seed, "priorities", 3);
    plan->checkpoints = draw(self, 0, 3) > 0;
    plan->every_ms = plan->checkpoints && draw(self, 0, 1) ? draw(self, 200, 5000) : 0;
    bool by_steps = plan->checkpoints && sim_swarm_has(self->seed, "checkpoints by steps", 3);
    plan->every_steps = by_steps ? sim_swarm_draw(self->seed, "steps", 1, 200) : 0;
    if (sim_is_rotten(self->seed) || sim_is_resized(self->seed)) {
        plan->checkpoints = true;
        plan->every_ms = sim_swarm_draw(self->seed, "checkpoints that rot", 100, 800);
        plan->variables = plan->variables < 3 ? 3 : plan->variables;
    }
    plan->dataset = draw(self, 0, 2) == 0;
    plan->rows_in_memory = sim_swarm_has(self->seed, "rows in memory", 2);
    plan->resources = draw(self, 0, 1) == 0;
    plan->futures = draw(self, 0, 2) > 0;
    plan->values_max = draw(self, 0, 5) ? 0 : draw(self, 6000, 60000);
    plan->kept_values_max = draw(self, 0, 1) ? 0 : draw(self, 5000, 40000);
    plan->row_cache_bytes = row_caches[sim_swarm_draw(self->seed, "row cache", 0, 3)];
    draw_windows(self, plan);
    draw_step_bytes(self);
    plan->shard_timeout_ms = sim_swarm_draw(self->seed, "shard timeout", 1, 6) * 5000;
    plan->bad_values = chances[sim_swarm_draw(self->seed, "bad values", 0, 3)];
    bool is_short = !plan->big && !sim_is_rotten(self->seed) && !sim_is_resized(self->seed) &&
                    sim_swarm_has(self->seed, "short of memory", 4);
    self->check.short_shard =
        is_short ? (uint32_t)sim_swarm_draw(self->seed, "short shard", 0, self->shard_count - 1)
                 : SIM_NEVER;
    self->check.few_values = plan->values_max > 0;
    self->script.cluster = self;
    self->script.coordinator = self->coordinator;
    self->script.check = &self->check;
    self->script.network = &self->network;
    sim_script_start(&self->script, self->seed);
}

/* --- how it goes on and ends --- */

static void
check_progress(sim_cluster_t *self)
{
    uint64_t now_ms = self->network.now_ms;
    const sim_script_t *script = &self->script;
    uint64_t since_ms = script->done_ms > self->calm_ms ? script->done_ms : self->calm_ms;
    since_ms = self->check.ended_ms > since_ms ? self->check.ended_ms : since_ms;
    if (self->calm && now_ms > since_ms + SETTLE_MS) {
        const cadre_closure_queue_t *queue = &self->coordinator->core.queue;
        sim_check_fail(&self->check,
                       "I6: stuck since %" PRIu64 " ms, waiting for %s; %zu queued, %zu in flight, "
                       "%zu + %zu tagged, checkpoint state %d",
                       script->done_ms, sim_operation_text(script->operation), queue->lanes.common,
                       queue->in_flight, queue->lanes.tagged, queue->tagged_in_flight,
                       self->coordinator->core.checkpoint.state);
    }
    if (self->network.events > EVENTS_MAX) {
        sim_check_fail(&self->check, "I6: no end after %d events, waiting for %s", EVENTS_MAX,
                       sim_operation_text(script->operation));
    }
}

/* Why the cluster is not at rest: something is held, unanswered or on its way, other than
 * heartbeats; "" when it is. */
static const char *
unrest(sim_cluster_t *self, char text[128])
{
    const cadre_core_t *core = &self->coordinator->core;
    text[0] = '\0';
    if (core->begun.closures.count > 0 || core->requests.count > 0 ||
        core->checkpoint.state != CADRE_CHECKPOINT_IDLE ||
        !cadre_recovery_is_calm(&core->recovery)) {
        snprintf(
            text, 128,
            "the coordinator has %zu closures, %zu requests, checkpoint state %d, it is %scalm",
            core->begun.closures.count, core->requests.count, core->checkpoint.state,
            cadre_recovery_is_calm(&core->recovery) ? "" : "not ");
    }
    uint32_t shard = sim_look_disagreement(self);
    if (text[0] == '\0' && core->clients.attached.count > 0) {
        snprintf(text, 128, "%zu clients are attached", core->clients.attached.count);
    }
    if (text[0] == '\0' && shard != SIM_NEVER) {
        snprintf(text, 128, "coordinator and ps disagree about shard %u (I10)", shard);
    }
    for (uint32_t i = 0; text[0] == '\0' && i < self->ps_count; i++) {
        const sim_shard_t *ps = &self->shards[i];
        bool is_member = cadre_membership_find(&core->membership, ps->task.incarnation) != NULL;
        if (ps->core && is_member && ps->state && ps->state->image) {
            snprintf(text, 128, "ps node %u has the cut of checkpoint %" PRIu64 " open", ps->node,
                     ps->state->checkpoint);
        }
    }
    for (uint32_t i = 0; text[0] == '\0' && i < self->worker_count; i++) {
        const sim_worker_t *worker = &self->workers[i];
        bool counts = worker->core && !worker->isolated;
        size_t held = counts ? cadre_worker_core_figures(worker->core).held : 0;
        if (counts && (worker->leaving || held > 0)) {
            snprintf(text, 128, "worker node %u holds %zu closures%s", worker->node, held,
                     worker->leaving ? " and was told to leave" : "");
        }
    }
    return text;
}

/* The script has ended: the rest must come to rest soon. */
static bool
is_at_rest(sim_cluster_t *self)
{
    char text[128];
    if (self->rest_ms == 0) {
        bool is_before = self->network.now_ms < self->calm_ms;
        self->rest_ms = (is_before ? self->calm_ms : self->network.now_ms) + SETTLE_MS;
        self->coordinator->core.checkpoint.every_ms = 0;
        self->coordinator->core.checkpoint.every_steps = 0;
    }
    if (unrest(self, text)[0] == '\0') {
        return true;
    }
    if (self->network.now_ms > self->rest_ms) {
        sim_check_fail(&self->check, "I6: the cluster does not come to rest: %s", text);
    }
    return false;
}

static void
next_event(sim_cluster_t *self)
{
    sim_event_t event;
    if (!sim_network_next(&self->network, &event)) {
        sim_check_fail(&self->check, "I6: nothing will ever happen, waiting for %s",
                       sim_operation_text(self->script.operation));
    }
    sim_cluster_event(self, &event);
    sim_look(self);
}

/* Whether it is time for the faults to end. */
static bool
is_over(const sim_cluster_t *self, bool ended)
{
    uint64_t now_ms = self->network.now_ms;
    bool enough = self->faults >= self->faults_min && now_ms >= self->faults_end_ms;
    return !self->calm &&
           (ended || enough || now_ms >= FAULTS_MS_MAX || !sim_cluster_has_room(self));
}

/* To the end of the script, or until it quits: true when it ended. */
static bool
run(sim_cluster_t *self)
{
    bool ended = false;
    do {
        next_event(self);
        if (self->check.is_fatal) {
            return false;
        }
        if (self->quit_faults && self->faults >= self->quit_faults && self->coordinator->alive) {
            return false;
        }
        ended = self->coordinator->alive && sim_script_ended(&self->script);
        if (is_over(self, ended)) {
            sim_faults_end(self);
        }
        if (!ended) {
            check_progress(self);
        }
    } while (!ended || !is_at_rest(self));
    return true;
}

/* Whether somebody who can be told to leave has not left. */
static bool
has_anyone(const sim_cluster_t *self)
{
    bool found = false;
    for (uint32_t i = 0; i < self->worker_count; i++) {
        found = found || (self->workers[i].core && !self->workers[i].isolated);
    }
    for (uint32_t i = 0; i < self->ps_count; i++) {
        found = found || (self->shards[i].core && !self->shards[i].isolated);
    }
    return found;
}

/* The coordinator closes: every task that it reaches is told, and leaves. */
static void
stop(sim_cluster_t *self)
{
    if (!self->calm) {
        sim_faults_end(self);
    }
    self->stopping = true;
    for (uint32_t i = 0; i < self->ps_count; i++) {
        self->shards[i].stopping = true;
    }
    uint64_t deadline_ms = self->network.now_ms + STOP_MS;
    cadre_core_stop(&self->coordinator->core, "the script is over");
    sim_cluster_turn_coordinator(self);
    while (has_anyone(self)) {
        next_event(self);
        bool is_paused = self->coordinator->paused_ms > self->network.now_ms;
        deadline_ms = is_paused ? self->coordinator->paused_ms + STOP_MS : deadline_ms;
        if (self->network.now_ms > deadline_ms) {
            sim_check_fail(&self->check, "I6: not every task has left");
        }
    }
}

/* Whether the call adds to any variable: some only say that they will. */
static bool
pushes_anything(const sim_call_t *call)
{
    bool pushes = false;
    for (uint32_t step = 0; step < call->steps; step++) {
        pushes = pushes || call->pushes[step] != 0;
    }
    return pushes;
}

/* A step that a shard refused to end is never over: no closure of a step has ended well, and the
 * job has ended with the error. */
static void
check_refused(const sim_cluster_t *self)
{
    if (self->check.refused_steps == 0) {
        return;
    }
    if (!self->check.is_fatal) {
        sim_check_fail(&self->check, "a refused END_STEP was lost");
    }
    for (uint32_t i = 0; i < self->check.call_count; i++) {
        const sim_call_t *call = self->check.calls[i];
        if (call->ended && call->status == 0 && pushes_anything(call)) {
            sim_check_fail(&self->check, "call %u ended well, and its step has not ended", i);
        }
    }
}

static void
final_checks(sim_cluster_t *self)
{
    sim_cluster_check_joined(self);
    sim_cluster_check_drops(self);
    for (uint32_t i = 0; i < self->worker_count; i++) {
        if (self->workers[i].core) {
            sim_worker_reconcile(&self->workers[i]);
        }
    }
    const cadre_totals_t *totals = &self->coordinator->core.totals;
    if (totals->scheduled != sim_check_life(&self->check)->scheduled) {
        sim_check_fail(&self->check, "%" PRIu64 " calls were scheduled, the totals say %" PRIu64,
                       sim_check_life(&self->check)->scheduled, totals->scheduled);
    }
    for (uint32_t i = 0; i < self->check.call_count; i++) {
        const sim_call_t *call = self->check.calls[i];
        const bool is_asked = call->client == 0 || call->scheduled;
        if (is_asked && (call->lost ? !call->redone : !call->ended)) {
            sim_check_fail(&self->check, "I6: call %u never ended", i);
        }
    }
}

static sim_summary_t
summarize(const sim_cluster_t *self)
{
    const cadre_totals_t *totals = &self->coordinator->core.totals;
    return (sim_summary_t){.trace = self->network.trace,
                           .events = self->network.events,
                           .closures = self->check.call_count,
                           .faults = self->faults,
                           .time_ms = self->network.now_ms,
                           .messages = self->network.sent,
                           .restores = self->check.restores,
                           .replayed = self->check.replayed,
                           .taken = self->check.taken,
                           .found = self->check.found,
                           .lives = self->coordinator->life,
                           .committed = self->coordinator->committed,
                           .given_up = self->coordinator->failed + totals->checkpoints_failed,
                           .backups = self->coordinator->core.attempts.backups,
                           .won = self->coordinator->core.attempts.backups_won,
                           .refused = self->script.refused,
                           .errors = self->script.errors,
                           .unserved = self->check.unserved,
                           .full_steps = self->check.full_steps,
                           .full_tables = self->check.full_tables,
                           .rows_gone = self->check.rows_gone,
                           .compensated = self->check.compensated,
                           .uncompensated = self->check.uncompensated,
                           .in_images = self->check.in_images,
                           .hopeless = self->check.hopeless,
                           .rotten = self->check.rotten,
                           .resized = self->resized,
                           .went_back = self->check.went_back,
                           .row_updates = self->check.row_updates,
                           .row_steps = self->check.row_steps,
                           .keyless = self->check.keyless,
                           .chained = self->check.chained,
                           .is_fatal = self->check.is_fatal};
}

sim_summary_t
sim_run(const sim_options_t *options)
{
    sim_cluster_t *self = cadre_calloc(1, sizeof(*self));
    uint64_t seed = options->seed;
    self->seed = seed;
    self->quiet = options->quiet || options->in_series;
    self->in_series = options->in_series;
    self->refuses_steps = options->refuses_steps;
    self->verbose = options->verbose;
    cadre_random_init(&self->random, seed, RANDOM_STREAM);
    sim_network_init(&self->network, seed);
    self->shard_count = is_large(self) ? SIM_SHARDS_MAX : (uint32_t)draw(self, 1, USUAL_SHARDS);
    self->shard_count = self->in_series ? 1 : self->shard_count;
    const bool is_resized = sim_is_resized(seed) && !self->quiet && !is_large(self);
    self->ps_places = is_resized ? USUAL_SHARDS : self->shard_count;
    sim_check_init(&self->check, seed, self->shard_count);
    self->check.now_ms = &self->network.now_ms;
    self->check.events = &self->network.events;
    self->check.in_series = self->in_series;
    sim_faults_init(self);
    make_coordinator(self);
    make_places(self);
    make_script(self);
    make_clients(self);
    self->quit_faults = draw(self, 0, 9) || self->quiet ? 0 : draw(self, SIM_FAULTS_MIN, 15);
    if (run(self)) {
        final_checks(self);
    }
    check_refused(self);
    stop(self);
    sim_summary_t summary = summarize(self);
    sim_cluster_fini(self);
    free(self);
    return summary;
}
