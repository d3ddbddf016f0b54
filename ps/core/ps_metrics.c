#include "ps/core/ps_metrics.h"

/* Returns why this ps is not ready, the first reason that holds; "" when it is. */
const char *
cadre_ps_unready(const cadre_ps_figures_t *self)
{
    if (self->leaving) {
        return "it is leaving";
    }
    if (!self->contact.is_connected) {
        return "it has no connection to the coordinator";
    }
    if (!self->contact.is_member) {
        return "it has not joined: the coordinator has not welcomed it";
    }
    return self->generation ? "" : "its shard has not been told where to begin, or is being loaded";
}

/* Adds the metrics of updates that workers pushed. */
static void
add_updates(const cadre_ps_figures_t *self, cadre_metrics_text_t *text)
{
    const uint64_t *counters = self->counters;
    cadre_metrics_text_family(text, "cadre_ps_updates_total", CADRE_METRIC_COUNTER,
                              "Updates that workers pushed and the shard answered, by result. "
                              "Starts from the checkpoint's count after a restore.");
    cadre_metrics_text_label(text, "result", "applied");
    cadre_metrics_text_count(text, counters[CADRE_PS_COUNTER_applied]);
    cadre_metrics_text_label(text, "result", "duplicate");
    cadre_metrics_text_count(text, counters[CADRE_PS_COUNTER_duplicate]);
    cadre_metrics_text_label(text, "result", "refused");
    cadre_metrics_text_count(text, counters[CADRE_PS_COUNTER_refused]);
    cadre_metrics_text_counter(text, "cadre_ps_push_bytes_total",
                               counters[CADRE_PS_COUNTER_push_bytes],
                               "Bytes of gradients in the updates that were applied.");
    cadre_metrics_text_counter(text, "cadre_ps_rows_pushed_total",
                               counters[CADRE_PS_COUNTER_rows_pushed],
                               "Rows of which updates that were applied had gradients, without "
                               "those of whole partitions.");
    cadre_metrics_text_counter(
        text, "cadre_ps_staleness_versions_total", counters[CADRE_PS_COUNTER_staleness_sum],
        "Sum of the staleness of applied updates; divide by their number for the mean.");
    cadre_metrics_text_gauge(text, "cadre_ps_staleness_versions_max",
                             (double)counters[CADRE_PS_COUNTER_staleness_max],
                             "The largest staleness of an applied update.");
    cadre_metrics_text_family(text, "cadre_ps_late_gradients_total", CADRE_METRIC_COUNTER,
                              "Late gradients of partitions with delay compensation, by result.");
    cadre_metrics_text_label(text, "result", "compensated");
    cadre_metrics_text_count(text, counters[CADRE_PS_COUNTER_compensated]);
    cadre_metrics_text_label(text, "result", "as_it_came");
    cadre_metrics_text_count(text, counters[CADRE_PS_COUNTER_uncompensated]);
}

/* Adds the metrics of pulls, of assignments and of malformed messages. */
static void
add_pulls(const cadre_ps_figures_t *self, cadre_metrics_text_t *text)
{
    const uint64_t *counters = self->counters;
    cadre_metrics_text_counter(text, "cadre_ps_pulls_total", counters[CADRE_PS_COUNTER_pulls],
                               "Pulls that were answered, refused ones too.");
    cadre_metrics_text_counter(
        text, "cadre_ps_pulled_unchanged_total", counters[CADRE_PS_COUNTER_unchanged],
        "Partitions that were pulled and not sent, because the worker had that version.");
    cadre_metrics_text_counter(text, "cadre_ps_pull_bytes_total",
                               counters[CADRE_PS_COUNTER_pull_bytes],
                               "Bytes of values that were sent.");
    cadre_metrics_text_counter(text, "cadre_ps_rows_pulled_total",
                               counters[CADRE_PS_COUNTER_rows_pulled],
                               "Rows that were sent, without those of whole partitions.");
    cadre_metrics_text_counter(
        text, "cadre_ps_rows_unchanged_total", counters[CADRE_PS_COUNTER_rows_unchanged],
        "Rows of tables that were pulled and not sent, because the worker had "
        "them as they are.");
    cadre_metrics_text_counter(text, "cadre_ps_assignments_total",
                               counters[CADRE_PS_COUNTER_assigned],
                               "Assignments that were applied.");
    cadre_metrics_text_counter(text, "cadre_ps_malformed_messages_total",
                               counters[CADRE_PS_COUNTER_malformed],
                               "Malformed messages, dropped without an answer.");
}

/* Adds the metrics of what the shard holds: its generation, its memory, what waits there. */
static void
add_shard(const cadre_ps_figures_t *self, cadre_metrics_text_t *text)
{
    cadre_metrics_text_gauge(text, "cadre_ps_shard_generation", (double)self->generation,
                             "Generation of the shard; 0: it serves nobody.");
    cadre_metrics_text_counter(text, "cadre_ps_restores_total", self->restores,
                               "Generations that the shard has had in this process.");
    cadre_metrics_text_gauge(text, "cadre_ps_partitions", (double)self->shard.partitions,
                             "Partitions that the shard serves.");
    cadre_metrics_text_gauge(text, "cadre_ps_shard_bytes", (double)self->shard.size_bytes,
                             "Bytes of values and optimizer slots of the shard.");
    cadre_metrics_text_gauge(text, "cadre_ps_shard_limit_bytes", (double)self->size_bytes_max,
                             "Limit of the bytes of values and optimizer slots.");
    cadre_metrics_text_gauge(text, "cadre_ps_pulls_waiting", (double)self->shard.pulls_waiting,
                             "Pulls that flow control holds back.");
    cadre_metrics_text_gauge(
        text, "cadre_ps_push_granted_bytes", (double)self->shard.granted_bytes,
        "Bytes reserved for large updates that were granted and are under way.");
    cadre_metrics_text_gauge(text, "cadre_ps_push_collected_bytes",
                             (double)self->shard.collected_bytes,
                             "Bytes received of large updates that are not complete yet.");
    cadre_metrics_text_gauge(text, "cadre_ps_step_held_bytes", (double)self->shard.held_bytes,
                             "Bytes of updates that are held until their synchronous step ends.");
    cadre_metrics_text_gauge(text, "cadre_ps_step_limit_bytes", (double)self->shard.held_bytes_max,
                             "Limit of the bytes that are held for synchronous steps.");
}

/* Adds the metrics of the rows of tables. */
static void
add_tables(const cadre_ps_figures_t *self, cadre_metrics_text_t *text)
{
    const cadre_table_figures_t *tables = &self->shard.tables;
    cadre_metrics_text_gauge(text, "cadre_ps_table_rows", (double)tables->rows,
                             "Rows of tables that the shard has.");
    cadre_metrics_text_gauge(text, "cadre_ps_table_bytes", (double)tables->size_bytes,
                             "Bytes of tables, also counted in cadre_ps_shard_bytes.");
    cadre_metrics_text_counter(text, "cadre_ps_table_rows_created_total", tables->created,
                               "Rows of tables that were made. Starts from the checkpoint's count "
                               "after a restore, as those below.");
    cadre_metrics_text_counter(text, "cadre_ps_table_rows_evicted_total", tables->evicted,
                               "Rows of tables that made room for others.");
    cadre_metrics_text_counter(text, "cadre_ps_table_rows_expired_total", tables->expired,
                               "Rows of tables that were too old or too small.");
    cadre_metrics_text_counter(
        text, "cadre_ps_table_gradients_unadmitted_total", tables->unadmitted,
        "Gradients of rows that were dropped, because their key was not seen "
        "often enough yet, or there was no room.");
}

/* Adds the metrics of the session with the coordinator; its silence counts only while this ps is a
 * member and has heard of it. */
static void
add_session(const cadre_ps_figures_t *self, uint64_t now_ms, cadre_metrics_text_t *text)
{
    const cadre_session_contact_t *contact = &self->contact;
    bool is_known = contact->is_member && contact->heard_ms && now_ms > contact->heard_ms;
    cadre_metrics_text_gauge(text, "cadre_ps_joined", contact->is_member && contact->is_connected,
                             "Whether the ps is a member of a job.");
    cadre_metrics_text_counter(text, "cadre_ps_sessions_total", self->sessions,
                               "Sessions with a coordinator that were begun.");
    cadre_metrics_text_gauge(
        text, "cadre_ps_lease_seconds", (double)contact->lease_ms / 1000,
        "Silence after which the coordinator presumes the ps dead; 0: not known yet.");
    cadre_metrics_text_gauge(
        text, "cadre_ps_coordinator_silence_seconds",
        is_known ? (double)(now_ms - contact->heard_ms) / 1000 : 0,
        "Seconds since the newest request that the coordinator has answered was sent.");
}

/* Adds the metrics of snapshots that were written for checkpoints. */
static void
add_snapshots(const cadre_ps_figures_t *self, cadre_metrics_text_t *text)
{
    cadre_metrics_text_family(text, "cadre_ps_snapshots_total", CADRE_METRIC_COUNTER,
                              "Snapshots of the shard for checkpoints, by result.");
    cadre_metrics_text_label(text, "result", "written");
    cadre_metrics_text_count(text, self->written);
    cadre_metrics_text_label(text, "result", "failed");
    cadre_metrics_text_count(text, self->failed);
    cadre_metrics_text_gauge(text, "cadre_ps_snapshot_bytes", (double)self->written_bytes,
                             "Size of the file that was written last.");
    cadre_metrics_text_gauge(text, "cadre_ps_snapshot_seconds", (double)self->written_ms / 1000,
                             "How long it took to write that file.");
}

/* Writes all metrics of a ps. */
void
cadre_ps_metrics(const cadre_ps_figures_t *self, uint64_t now_ms, cadre_metrics_text_t *text)
{
    cadre_metrics_text_build(text, "ps", self->build);
    add_updates(self, text);
    add_pulls(self, text);
    add_shard(self, text);
    add_tables(self, text);
    add_session(self, now_ms, text);
    add_snapshots(self, text);
}
