#include "coordinator/status_json.h"

#include <jansson.h>

#include "common/base/memory.h"
#include "common/spec/strategy_spec.h"
#include "coordinator/core/checkpoint/checkpoint_words.h"
#include "coordinator/core/members/table_totals.h"

static const char *const ps_counters[] = {
#define C(name) #name,
    CADRE_PS_COUNTERS(C)
#undef C
};
static const char *const worker_counters[] = {
#define C(name) #name,
    CADRE_WORKER_COUNTERS(C)
#undef C
};

static const char *const table_counters[] = {
#define C(name) #name,
    CADRE_TABLE_COUNTERS(C)
#undef C
};

/* Returns which closures that run on a worker wait for which shard, and for how long. */
static json_t *
waits_json(const cadre_core_t *core, const cadre_member_t *member)
{
    json_t *waits = json_array();
    /* Each wait is three numbers: closure, shard, milliseconds. */
    for (size_t i = 0; i < member->wait_items; i += 3) {
        const uint64_t *wait = &member->waits[i];
        const cadre_closure_t *closure = cadre_begun_find(&core->begun, wait[0]);
        closure = closure ? closure : cadre_replay_find(&core->replay, wait[0]);
        if (closure) {
            const char *function = core->catalogue.functions[closure->function - 1]->name;
            json_array_append_new(waits,
                                  json_pack("{s:I, s:s, s:I, s:I}", "closure", (json_int_t)wait[0],
                                            "function", function, "shard", (json_int_t)wait[1],
                                            "ms", (json_int_t)wait[2]));
        }
    }

    return waits;
}

/* Returns the shards that the worker does not reach. */
static json_t *
unreachable_json(const cadre_core_t *core, const cadre_member_t *member)
{
    json_t *shards = json_array();
    for (uint32_t i = 0; i < core->options.ps_count; i++) {
        if (cadre_shard_set_has(&member->unreachable, i)) {
            json_array_append_new(shards, json_integer((json_int_t)i));
        }
    }
    return shards;
}

/* Returns which functions and datasets a worker lacks, and why. */
static json_t *
lacks_json(const cadre_core_t *core, const cadre_member_t *member)
{
    json_t *lacks = json_array();
    char what[CADRE_LACK_TEXT_SIZE];
    char why[CADRE_LACK_TEXT_SIZE];
    for (uint32_t i = 0; cadre_worker_admission_lack(&core->admission, member, i, what, why); i++) {
        json_array_append_new(lacks, json_pack("{s:s, s:s}", "what", what, "why", why));
    }
    return lacks;
}

/* Returns the state of one ps or worker. */
static json_t *
task_json(const cadre_core_t *core, const cadre_member_t *member, uint64_t now_ms)
{
    bool is_ps = member->task.role == CADRE_ROLE_PS;
    uint64_t silent_ms = now_ms > member->heard_ms ? now_ms - member->heard_ms : 0;

    const char *const *names = is_ps ? ps_counters : worker_counters;
    size_t count = is_ps ? CADRE_PS_COUNTER_COUNT : CADRE_WORKER_COUNTER_COUNT;
    json_t *counters = json_object();
    for (size_t i = 0; i < count; i++) {
        json_object_set_new(counters, names[i], json_integer((json_int_t)member->counters[i]));
    }

    json_t *object = json_pack(
        "{s:s, s:i, s:s, s:i, s:s, s:I, s:i, s:o}", "role", cadre_role_text(member->task.role),
        "index", (int)member->index, "host", member->host, "process", (int)member->process, "state",
        member->suspect ? "suspect" : "healthy", "silent_ms", (json_int_t)silent_ms, "in_flight",
        (int)member->in_flight.count, "counters", counters);

    /* The oldest closure is one that the worker runs, not one that waits for a slot. */
    const cadre_closure_t *oldest = member->in_flight.first;
    if (oldest && oldest->is_running) {
        /* `running_ms` is on a clock that leaves out the coordinator's own stalls. */
        json_object_set_new(
            object, "runs",
            json_pack(
                "{s:I, s:s, s:I}", "closure", (json_int_t)oldest->id, "function",
                core->catalogue.functions[oldest->function - 1]->name, "ms",
                (json_int_t)(core->effects.now_ms - core->leases.stalled_ms - oldest->running_ms)));
    }

    if (!is_ps) {
        json_object_set_new(object, "lacks", lacks_json(core, member));
        json_object_set_new(object, "waits", waits_json(core, member));
        json_object_set_new(object, "unreachable", unreachable_json(core, member));
    }

    if (member->overdue_count > 0) {
        json_object_set_new(object, "overdue", json_integer((json_int_t)member->overdue_count));
    }

    return object;
}

/* Returns the state and generation of each shard. */
static json_t *
shards_json(const cadre_core_t *core)
{
    json_t *shards = json_array();
    for (uint32_t i = 0; i < core->options.ps_count; i++) {
        const cadre_place_t *place = &core->recovery.places[i];
        json_array_append_new(
            shards, json_pack("{s:i, s:s, s:I}", "index", (int)i, "state",
                              place->replaying ? "replaying" : cadre_place_state_text(place->state),
                              "generation", (json_int_t)place->generation));
    }

    return shards;
}

/* Returns how many variables there are. `dropping`: their drop was called, and earlier closures may
 * still use them; `kept`: dropped, but held by shards for closures that may run again. */
static json_t *
variables_json(const cadre_core_t *core)
{
    json_int_t count = 0;
    for (uint32_t i = 0; i < core->catalogue.variable_count; i++) {
        const cadre_variable_t *variable = core->catalogue.variables[i];
        count += variable->created && variable->dropped == 0;
    }
    const cadre_drops_t *drops = &core->drops;
    return json_pack("{s:I, s:I, s:I}", "count", count, "dropping",
                     (json_int_t)(drops->called - drops->retired), "kept",
                     (json_int_t)(drops->retired - drops->done));
}

/* Returns what all ps hold of each table; "shards": how many of them have told. */
static json_t *
tables_json(const cadre_core_t *core)
{
    cadre_auto(cadre_free) cadre_table_totals_t *totals =
        cadre_calloc(CADRE_TABLES_TOLD_MAX, sizeof(*totals));
    const size_t count = cadre_table_totals(&core->catalogue, &core->membership, totals);
    json_t *tables = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *object =
            json_pack("{s:s, s:I, s:i}", "name", totals[i].table->name, "width",
                      (json_int_t)totals[i].table->shape[0], "shards", (int)totals[i].shards);
        for (size_t k = 0; k < CADRE_TABLE_COUNTER_COUNT; k++) {
            json_object_set_new(object, table_counters[k],
                                json_integer((json_int_t)totals[i].counters[k]));
        }
        json_array_append_new(tables, object);
    }
    return tables;
}

/* Returns for each resource how many workers have built it: where the closures that name it can
 * run. */
static json_t *
resources_json(const cadre_core_t *core)
{
    json_t *resources = json_array();
    for (uint32_t i = 0; i < core->catalogue.resource_count; i++) {
        const cadre_resource_t *resource = core->catalogue.resources[i];
        if (resource->removed) {
            continue;
        }
        int ready = 0;
        for (uint32_t k = 0; k < core->membership.worker_capacity; k++) {
            const cadre_member_t *member = core->membership.workers[k];
            ready += member && cadre_resource_set_has(&member->abilities.built, resource->id);
        }

        const cadre_function_t *function = core->catalogue.functions[resource->call->function - 1];
        json_t *object =
            json_pack("{s:s, s:s, s:i, s:i}", "name", resource->name, "function", function->name,
                      "ready", ready, "workers", (int)core->membership.worker_count);
        if (resource->error) {
            json_object_set_new(object, "error", json_string(resource->error));
        }

        json_array_append_new(resources, object);
    }

    return resources;
}

/* Returns the state of each member: all ps, then all workers. */
static json_t *
tasks_json(const cadre_core_t *core, uint64_t now_ms)
{
    json_t *tasks = json_array();
    for (uint32_t i = 0; i < core->membership.ps_count; i++) {
        if (core->membership.ps[i]) {
            json_array_append_new(tasks, task_json(core, core->membership.ps[i], now_ms));
        }
    }

    for (uint32_t i = 0; i < core->membership.worker_capacity; i++) {
        if (core->membership.workers[i]) {
            json_array_append_new(tasks, task_json(core, core->membership.workers[i], now_ms));
        }
    }

    return tasks;
}

/* Returns how many closures were how stale: for each bucket its largest staleness in versions, and
 * the number of closures. */
static json_t *
staleness_json(const cadre_staleness_histogram_t *staleness)
{
    json_t *buckets = json_array();
    for (size_t i = 0; i <= CADRE_STALENESS_BOUND_COUNT; i++) {
        json_t *bound = i < CADRE_STALENESS_BOUND_COUNT
                            ? json_integer((json_int_t)cadre_staleness_bounds[i])
                            : json_null();
        json_array_append_new(buckets, json_pack("{s:o, s:I}", "at_most", bound, "closures",
                                                 (json_int_t)staleness->counts[i]));
    }
    return buckets;
}

/* Returns the state of the checkpoint that is being taken. */
static json_t *
under_way_json(const cadre_checkpoint_t *checkpoint, uint64_t now_ms)
{
    char waits[CADRE_CHECKPOINT_WAITS_SIZE];
    cadre_checkpoint_waits(checkpoint, waits);
    return json_pack("{s:I, s:I, s:s}", "ms", (json_int_t)(now_ms - checkpoint->begun_ms),
                     "closures", (json_int_t)checkpoint->below, "waits_for", waits);
}

/* Returns the state of the whole job as JSON text, which the caller frees. */
char *
cadre_core_status_json(const cadre_core_t *core, uint64_t now_ms)
{
    const cadre_totals_t *totals = &core->totals;
    json_t *status = json_pack(
        "{s:s, s:s, s:i, s:o, s:o, s:{s:I, s:I, s:I, s:I, s:I, s:I}, s:{s:I, s:I, s:I}, "
        "s:{s:I, s:I, s:I, s:I, s:I}, s:{s:I, s:I, s:I, s:s?}}",
        "schema", "cadre.status/v1", "job", core->options.job, "ps_expected",
        (int)core->options.ps_count, "tasks", tasks_json(core, now_ms), "shards", shards_json(core),
        "closures", "scheduled", (json_int_t)totals->scheduled, "finished",
        (json_int_t)totals->finished, "failed", (json_int_t)totals->failed, "attempts",
        (json_int_t)totals->attempts, "queued",
        (json_int_t)cadre_closure_queue_all_waiting(&core->queue), "in_flight",
        (json_int_t)cadre_closure_queue_all_in_flight(&core->queue), "failures", "worker",
        (json_int_t)totals->workers_lost, "ps", (json_int_t)totals->ps_lost, "reports",
        (json_int_t)totals->reports_refused, "recovery", "restored",
        (json_int_t)totals->ps_restored, "replayed", (json_int_t)totals->replayed, "kept",
        (json_int_t)core->replay.kept.count, "left",
        (json_int_t)(core->replay.redo.count + core->replay.aside.count + core->replay.in_flight),
        "at_risk", (json_int_t)totals->closures_at_risk, "checkpoints", "committed",
        (json_int_t)totals->checkpoints, "failed", (json_int_t)totals->checkpoints_failed,
        "retention_failed", (json_int_t)totals->retentions_failed, "last",
        core->checkpoint.last_path);

    /* Members of the JSON objects that later releases have added; those before keep their names. */
    json_object_set_new(json_object_get(status, "closures"), "deadlines_missed",
                        json_integer((json_int_t)totals->deadlines_missed));
    json_object_set_new(json_object_get(status, "closures"), "backup_attempts",
                        json_pack("{s:I, s:I, s:I}", "under_way", (json_int_t)core->attempts.racing,
                                  "begun", (json_int_t)core->attempts.backups, "won",
                                  (json_int_t)core->attempts.backups_won));
    json_object_set_new(json_object_get(status, "closures"), "returned",
                        json_integer((json_int_t)core->reach.returned));
    json_object_set_new(status, "staleness", staleness_json(&core->reports.staleness));
    json_object_set_new(status, "staleness_sum",
                        json_integer((json_int_t)core->reports.staleness.sum));
    json_object_set_new(json_object_get(status, "closures"), "blocked",
                        json_integer((json_int_t)core->queue.blocked.count));
    json_object_set_new(status, "messages",
                        json_pack("{s:I}", "dropped", (json_int_t)core->rights.dropped));
    const char *transport = core->options.transport;
    json_object_set_new(status, "strategy",
                        json_string(cadre_strategy_spec((int64_t)core->options.strategy)->word));
    json_object_set_new(status, "transport", json_string(transport ? transport : "plain"));
    json_object_set_new(status, "keys_unreadable", json_boolean(core->keys_unreadable));
    json_object_set_new(status, "resources", resources_json(core));
    json_object_set_new(status, "variables", variables_json(core));
    json_object_set_new(status, "tables", tables_json(core));
    json_object_set_new(status, "clients", json_integer((json_int_t)core->clients.attached.count));
    if (core->checkpoint.state != CADRE_CHECKPOINT_IDLE) {
        json_object_set_new(json_object_get(status, "checkpoints"), "under_way",
                            under_way_json(&core->checkpoint, now_ms));
    }

    char *text = json_dumps(status, JSON_COMPACT);
    json_decref(status);
    return text;
}
