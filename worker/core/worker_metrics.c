#include "worker/core/worker_metrics.h"

#include <inttypes.h>
#include <stdio.h>

/* Returns why the worker takes no closures now, for a readiness check; "" when it does. */
const char *
cadre_worker_unready(const cadre_worker_core_t *core, uint64_t now_ms)
{
    const cadre_worker_core_figures_t figures = cadre_worker_core_figures(core);
    switch (figures.state) {
    case CADRE_SESSION_LEFT:
        return "it has left the job";
    case CADRE_SESSION_DRAINING:
        return "it is draining";
    case CADRE_SESSION_HELLO:
        return figures.contact.is_connected
                   ? "it has not joined: the coordinator has not welcomed it"
                   : "it has no connection to the coordinator";
    case CADRE_SESSION_MEMBER:
        break;
    }
    if (!figures.contact.is_connected) {
        return "it has no connection to the coordinator";
    }
    return cadre_worker_core_in_touch(core, now_ms) ? ""
                                                    : "the coordinator has not answered for long";
}

/* Writes the metrics of the closures that this worker has and has ended. */
static void
add_closures(const cadre_worker_core_figures_t *core, cadre_metrics_text_t *text)
{
    const uint64_t *counters = core->counters;
    cadre_metrics_text_family(text, "cadre_worker_closures_total", CADRE_METRIC_COUNTER,
                              "Closures that ended here, by how.");
    cadre_metrics_text_label(text, "result", "finished");
    cadre_metrics_text_count(text, counters[CADRE_WORKER_COUNTER_finished]);
    cadre_metrics_text_label(text, "result", "failed");
    cadre_metrics_text_count(text, counters[CADRE_WORKER_COUNTER_failed]);
    cadre_metrics_text_label(text, "result", "returned");
    cadre_metrics_text_count(text, counters[CADRE_WORKER_COUNTER_cancelled]);
    cadre_metrics_text_gauge(text, "cadre_worker_closures_held", (double)core->held,
                             "Closures that the worker has: waiting, running, not acknowledged.");
    cadre_metrics_text_gauge(text, "cadre_worker_closures_waiting", (double)core->waiting,
                             "Closures held that wait for definitions, batches or arguments.");
    cadre_metrics_text_gauge(text, "cadre_worker_closures_started", core->running,
                             "Closures held that run or wait for a slot.");
    cadre_metrics_text_gauge(text, "cadre_worker_slots", core->slots,
                             "Closures that run at a time.");
    cadre_metrics_text_counter(text, "cadre_worker_examples_total",
                               counters[CADRE_WORKER_COUNTER_examples],
                               "Rows of datasets in the closures that finished.");
    cadre_metrics_text_counter(text, "cadre_worker_blocks_read_total",
                               counters[CADRE_WORKER_COUNTER_blocks_read],
                               "Blocks of 4096 rows that were read again from files of streamed "
                               "datasets.");
    cadre_metrics_text_family(text, "cadre_worker_compute_seconds_total", CADRE_METRIC_COUNTER,
                              "Time that slots computed for the closures that finished.");
    cadre_metrics_text_number(text, (double)counters[CADRE_WORKER_COUNTER_compute_us] / 1e6);
}

/* Writes the metrics of updates that this worker pushes. */
static void
add_updates(const cadre_worker_core_figures_t *core, cadre_metrics_text_t *text)
{
    const uint64_t *counters = core->counters;
    const cadre_push_totals_t pushes = core->pushes;
    cadre_metrics_text_counter(text, "cadre_worker_updates_sent_total", pushes.sent,
                               "Updates that were to be pushed, one for each closure step and "
                               "shard: answered, abandoned and pending together.");
    cadre_metrics_text_family(text, "cadre_worker_updates_answered_total", CADRE_METRIC_COUNTER,
                              "Updates that a shard has answered, by result.");
    cadre_metrics_text_label(text, "result", "applied");
    cadre_metrics_text_count(text, counters[CADRE_WORKER_COUNTER_applied]);
    cadre_metrics_text_label(text, "result", "duplicate");
    cadre_metrics_text_count(text, counters[CADRE_WORKER_COUNTER_duplicate]);
    cadre_metrics_text_label(text, "result", "refused");
    cadre_metrics_text_count(text, counters[CADRE_WORKER_COUNTER_refused]);
    cadre_metrics_text_counter(text, "cadre_worker_updates_abandoned_total", pushes.abandoned,
                               "Updates whose answer nobody waits for any more: the closure was "
                               "given up, or the shard lost.");
    cadre_metrics_text_gauge(text, "cadre_worker_updates_pending", (double)pushes.pending,
                             "Updates that are not answered yet.");
    cadre_metrics_text_counter(text, "cadre_worker_updates_repeated_total", pushes.repeated,
                               "Times that an update was sent again because it, or its answer, was "
                               "lost.");
    cadre_metrics_text_counter(text, "cadre_worker_push_bytes_total",
                               counters[CADRE_WORKER_COUNTER_push_bytes],
                               "Bytes of gradients in the updates that were to be pushed.");
    cadre_metrics_text_counter(text, "cadre_worker_rows_pushed_total",
                               counters[CADRE_WORKER_COUNTER_rows_pushed],
                               "Rows of which these updates had gradients, without those of whole "
                               "partitions.");
}

/* Writes the metrics of values pulled, of arguments, and of malformed messages. */
static void
add_values(const cadre_worker_core_figures_t *core, cadre_metrics_text_t *text)
{
    const uint64_t *counters = core->counters;
    cadre_metrics_text_counter(text, "cadre_worker_pull_bytes_total",
                               counters[CADRE_WORKER_COUNTER_pull_bytes],
                               "Bytes of values that were received.");
    cadre_metrics_text_counter(text, "cadre_worker_rows_pulled_total",
                               counters[CADRE_WORKER_COUNTER_rows_pulled],
                               "Rows that were received, without those of whole partitions.");
    cadre_metrics_text_counter(
        text, "cadre_worker_rows_held_total", counters[CADRE_WORKER_COUNTER_rows_held],
        "Rows of tables that were here when they were pulled, so that the ps "
        "was asked whether they had changed.");
    cadre_metrics_text_counter(text, "cadre_worker_rows_unchanged_total",
                               counters[CADRE_WORKER_COUNTER_rows_unchanged],
                               "Rows of tables that had not changed, and were not sent again.");
    cadre_metrics_text_family(text, "cadre_worker_arguments_total", CADRE_METRIC_COUNTER,
                              "Results of other closures that closures took as arguments, by "
                              "whether the worker had kept them.");
    cadre_metrics_text_label(text, "result", "found");
    cadre_metrics_text_count(text, counters[CADRE_WORKER_COUNTER_values_found]);
    cadre_metrics_text_label(text, "result", "missed");
    cadre_metrics_text_count(text, counters[CADRE_WORKER_COUNTER_values_missed]);
    cadre_metrics_text_counter(text, "cadre_worker_malformed_messages_total",
                               counters[CADRE_WORKER_COUNTER_malformed],
                               "Malformed messages, dropped.");
}

/* Writes the metrics of the worker's membership in the job. Silence of the coordinator is known
 * only after its first answer (`heard_ms` is not 0). */
static void
add_session(const cadre_worker_core_figures_t *core, const cadre_worker_figures_t *figures,
            uint64_t now_ms, cadre_metrics_text_t *text)
{
    const cadre_session_contact_t *contact = &core->contact;
    bool is_known = contact->heard_ms && now_ms > contact->heard_ms;
    uint64_t silent_ms = is_known ? now_ms - contact->heard_ms : 0;
    cadre_metrics_text_gauge(text, "cadre_worker_joined",
                             contact->is_member && contact->is_connected,
                             "Whether the worker is a member of a job.");
    cadre_metrics_text_gauge(
        text, "cadre_worker_lease_seconds", (double)contact->lease_ms / 1000,
        "Silence after which the coordinator presumes the worker dead; 0: not known yet.");
    cadre_metrics_text_gauge(
        text, "cadre_worker_coordinator_silence_seconds", (double)silent_ms / 1000,
        "Seconds since the newest request that the coordinator has answered was sent.");
    cadre_metrics_text_gauge(text, "cadre_worker_shards_unreachable", core->unreachable,
                             "Shards from which the worker hears nothing though it asks.");
    cadre_metrics_text_gauge(text, "cadre_worker_draining", figures->drains,
                             "Whether the worker finishes what it has and takes nothing new.");
    cadre_metrics_text_gauge(text, "cadre_worker_drain_seconds", (double)figures->drain_ms / 1000,
                             "How long it has been draining.");
}

/* Writes the worker's page of metrics. The label "worker" is its index, and empty until it has
 * joined. */
void
cadre_worker_metrics(const cadre_worker_core_t *core, const cadre_worker_figures_t *figures,
                     uint64_t now_ms, cadre_metrics_text_t *text)
{
    const cadre_worker_core_figures_t its = cadre_worker_core_figures(core);
    const uint32_t index = cadre_worker_core_task(core)->index;
    char worker[24] = "";
    if (index != CADRE_INDEX_ANY) {
        snprintf(worker, sizeof(worker), "%" PRIu32, index);
    }
    cadre_metrics_text_build(text, "worker", its.build);
    add_closures(&its, text);
    add_updates(&its, text);
    add_values(&its, text);
    add_session(&its, figures, now_ms, text);
    cadre_staleness_metrics(its.staleness, worker, text);
}
