#include "coordinator/core/job_metrics.h"

#include <stdio.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/spec/strategy_spec.h"
#include "coordinator/core/members/table_totals.h"

typedef struct {
    const char *value; /* value of the label */
    uint64_t count;
} labelled_t;

/* Adds two samples of a metric, which differ in the value of one label. */
static void
add_two(cadre_metrics_text_t *text, const char *label, const labelled_t two[2])
{
    for (size_t i = 0; i < 2; i++) {
        cadre_metrics_text_label(text, label, two[i].value);
        cadre_metrics_text_count(text, two[i].count);
    }
}

/* Adds the strategy of the job, as a label of a metric that is always 1. */
static void
add_strategy(const cadre_job_metrics_t *self, cadre_metrics_text_t *text)
{
    cadre_metrics_text_family(text, "cadre_coordinator_strategy", CADRE_METRIC_GAUGE,
                              "1, with the name of the strategy that the job follows.");
    cadre_metrics_text_label(text, "strategy",
                             cadre_strategy_spec((int64_t)self->options->strategy)->word);
    cadre_metrics_text_count(text, 1);
}

/* --- closures --- */

/* Adds how many closures were scheduled and have ended, and what became of attempts at them. */
static void
add_closures(const cadre_job_metrics_t *self, cadre_metrics_text_t *text)
{
    const cadre_totals_t *totals = self->totals;
    cadre_metrics_text_counter(text, "cadre_coordinator_closures_scheduled_total",
                               totals->scheduled,
                               "Closures that were scheduled, resumed parts of the job included.");
    cadre_metrics_text_family(text, "cadre_coordinator_closures_ended_total", CADRE_METRIC_COUNTER,
                              "Closures that ended, by how.");
    add_two(text, "result",
            (labelled_t[]){{"finished", totals->finished}, {"failed", totals->failed}});
    cadre_metrics_text_counter(text, "cadre_coordinator_attempts_total", totals->attempts,
                               "Attempts: closures handed to a worker, retries included.");
    cadre_metrics_text_counter(text, "cadre_coordinator_attempts_returned_total",
                               self->reach->returned,
                               "Attempts given back by workers that did not reach a shard.");
    cadre_metrics_text_counter(text, "cadre_coordinator_backup_attempts_total",
                               self->attempts->backups,
                               "Second attempts at closures that took much longer than usual.");
    cadre_metrics_text_counter(text, "cadre_coordinator_backup_attempts_won_total",
                               self->attempts->backups_won,
                               "Of these, the attempts that ended their closure.");
    cadre_metrics_text_counter(text, "cadre_coordinator_deadlines_missed_total",
                               totals->deadlines_missed,
                               "Deadlines of closures that their attempts ran past.");
    cadre_metrics_text_counter(
        text, "cadre_coordinator_messages_dropped_total", self->rights->dropped,
        "Messages that were malformed, or that their sender's role may not send.");
    cadre_metrics_text_counter(
        text, "cadre_coordinator_reports_refused_total", totals->reports_refused,
        "Completion reports of attempts that the reporting worker was not given.");
}

/* Adds the histogram of how stale the values were that updates were computed from. */
static void
add_staleness(const cadre_job_metrics_t *self, cadre_metrics_text_t *text)
{
    const cadre_staleness_histogram_t *staleness = &self->reports->staleness;
    cadre_metrics_text_family(text, "cadre_coordinator_staleness_versions", CADRE_METRIC_HISTOGRAM,
                              "Versions between the pull and the push of a closure, of the most "
                              "stale part that it pushed to.");
    cadre_metrics_text_histogram(text, cadre_staleness_bounds, staleness->counts,
                                 CADRE_STALENESS_BOUND_COUNT, staleness->sum);
}

/* Adds how many closures wait and are in flight. */
static void
add_queue(const cadre_job_metrics_t *self, cadre_metrics_text_t *text)
{
    cadre_metrics_text_gauge(text, "cadre_coordinator_closures_queued",
                             (double)cadre_closure_queue_all_waiting(self->queue),
                             "Closures that wait for a worker or for the result of another.");
    cadre_metrics_text_gauge(text, "cadre_coordinator_closures_blocked",
                             (double)self->queue->blocked.count,
                             "Closures that wait for the result of another.");
    cadre_metrics_text_gauge(text, "cadre_coordinator_closures_in_flight",
                             (double)cadre_closure_queue_all_in_flight(self->queue),
                             "Closures that workers have.");
    cadre_metrics_text_gauge(text, "cadre_coordinator_queue_capacity",
                             (double)self->options->queue_capacity,
                             "Closures that may wait; then schedule blocks.");
}

/* --- tasks --- */

typedef struct {
    uint64_t suspect;
    uint64_t draining;
    uint64_t unlisted;
} standing_t;

/* Gives the member in place `at` of a role, NULL where none is; returns false behind the last
 * place. */
static bool
member_at(const cadre_job_metrics_t *self, cadre_role_t role, uint32_t at,
          const cadre_member_t **member)
{
    const cadre_membership_t *membership = self->members;
    bool is_ps = role == CADRE_ROLE_PS;
    if (at >= (is_ps ? membership->ps_count : membership->worker_capacity)) {
        return false;
    }
    *member = is_ps ? membership->ps[at] : membership->workers[at];
    return true;
}

/* Adds up how many members of this role are suspect, drain, or are beyond the number that have
 * metrics of their own. */
static void
count_standing(const cadre_job_metrics_t *self, cadre_role_t role, standing_t *standing)
{
    const cadre_member_t *member = NULL;
    for (uint32_t i = 0; member_at(self, role, i, &member); i++) {
        if (member) {
            standing->suspect += member->suspect;
            standing->draining += member->draining;
            standing->unlisted += i >= CADRE_METRICS_TASKS_MAX;
        }
    }
}

/* Adds how many tasks the job has, and in what condition they are. */
static void
add_membership(const cadre_job_metrics_t *self, cadre_metrics_text_t *text)
{
    const cadre_membership_t *membership = self->members;
    standing_t standing = {.suspect = 0};
    count_standing(self, CADRE_ROLE_PS, &standing);
    count_standing(self, CADRE_ROLE_WORKER, &standing);
    cadre_metrics_text_family(text, "cadre_coordinator_tasks", CADRE_METRIC_GAUGE,
                              "Tasks that are members of the job.");
    add_two(text, "role",
            (labelled_t[]){{"ps", membership->ps_joined}, {"worker", membership->worker_count}});
    cadre_metrics_text_gauge(text, "cadre_coordinator_tasks_suspect", (double)standing.suspect,
                             "Tasks that have been silent for some time and get no new work.");
    cadre_metrics_text_gauge(text, "cadre_coordinator_workers_draining", (double)standing.draining,
                             "Workers that finish what they have and take nothing new.");
    cadre_metrics_text_gauge(text, "cadre_coordinator_tasks_unlisted", (double)standing.unlisted,
                             "Tasks without metrics of their own, because there are too many.");
    cadre_metrics_text_family(text, "cadre_coordinator_tasks_lost_total", CADRE_METRIC_COUNTER,
                              "Tasks that were lost: died, were cut off, or silent for a lease.");
    add_two(text, "role",
            (labelled_t[]){{"ps", self->totals->ps_lost}, {"worker", self->totals->workers_lost}});
    cadre_metrics_text_gauge(text, "cadre_coordinator_lease_seconds",
                             (double)self->options->lease_ms / 1000,
                             "Silence after which a task is presumed dead.");
}

/* Labels the next sample with the role and index of a task. */
static void
label_task(const cadre_member_t *member, cadre_metrics_text_t *text)
{
    cadre_metrics_text_label(text, "role", cadre_role_text(member->task.role));
    cadre_metrics_text_label_number(text, "index", member->index);
}

/* Adds, for each task of a role, for how long nothing was heard of it. */
static void
add_silence(const cadre_job_metrics_t *self, cadre_role_t role, uint64_t now_ms,
            cadre_metrics_text_t *text)
{
    const cadre_member_t *member = NULL;
    for (uint32_t i = 0; i < CADRE_METRICS_TASKS_MAX && member_at(self, role, i, &member); i++) {
        if (member) {
            bool is_silent = now_ms > member->heard_ms;
            label_task(member, text);
            cadre_metrics_text_number(text,
                                      is_silent ? (double)(now_ms - member->heard_ms) / 1000 : 0);
        }
    }
}

/* Adds the updates of each task of a role, by result. `counters`: indexes of the applied, duplicate
 * and refused counters among those of the role. */
static void
add_updates(const cadre_job_metrics_t *self, cadre_role_t role, const int counters[3],
            cadre_metrics_text_t *text)
{
    static const char *const results[] = {"applied", "duplicate", "refused"};
    const cadre_member_t *member = NULL;
    for (uint32_t i = 0; i < CADRE_METRICS_TASKS_MAX && member_at(self, role, i, &member); i++) {
        for (size_t k = 0; member && k < 3; k++) {
            label_task(member, text);
            cadre_metrics_text_label(text, "result", results[k]);
            cadre_metrics_text_count(text, member->counters[counters[k]]);
        }
    }
}

/* Adds one counter of bytes of each task of a role. */
static void
add_bytes(const cadre_job_metrics_t *self, cadre_role_t role, int counter,
          cadre_metrics_text_t *text)
{
    const cadre_member_t *member = NULL;
    for (uint32_t i = 0; i < CADRE_METRICS_TASKS_MAX && member_at(self, role, i, &member); i++) {
        if (member) {
            label_task(member, text);
            cadre_metrics_text_count(text, member->counters[counter]);
        }
    }
}

/* Adds the metrics that each task has of its own: silence, updates, bytes. */
static void
add_tasks(const cadre_job_metrics_t *self, uint64_t now_ms, cadre_metrics_text_t *text)
{
    static const int of_ps[] = {CADRE_PS_COUNTER_applied, CADRE_PS_COUNTER_duplicate,
                                CADRE_PS_COUNTER_refused};
    static const int of_workers[] = {CADRE_WORKER_COUNTER_applied, CADRE_WORKER_COUNTER_duplicate,
                                     CADRE_WORKER_COUNTER_refused};
    cadre_metrics_text_family(text, "cadre_coordinator_task_silence_seconds", CADRE_METRIC_GAUGE,
                              "Seconds since a task was last heard.");
    add_silence(self, CADRE_ROLE_PS, now_ms, text);
    add_silence(self, CADRE_ROLE_WORKER, now_ms, text);
    cadre_metrics_text_family(text, "cadre_coordinator_task_updates_total", CADRE_METRIC_COUNTER,
                              "Updates that a ps has answered, and those that a worker has had an "
                              "answer for, as their last heartbeats say.");
    add_updates(self, CADRE_ROLE_PS, of_ps, text);
    add_updates(self, CADRE_ROLE_WORKER, of_workers, text);
    cadre_metrics_text_family(
        text, "cadre_coordinator_task_push_bytes_total", CADRE_METRIC_COUNTER,
        "Bytes of gradients that a ps has applied or a worker pushed, as of its last heartbeat.");
    add_bytes(self, CADRE_ROLE_PS, CADRE_PS_COUNTER_push_bytes, text);
    add_bytes(self, CADRE_ROLE_WORKER, CADRE_WORKER_COUNTER_push_bytes, text);
    cadre_metrics_text_family(
        text, "cadre_coordinator_task_pull_bytes_total", CADRE_METRIC_COUNTER,
        "Bytes of values that a ps has sent or a worker received, as of its last heartbeat.");
    add_bytes(self, CADRE_ROLE_PS, CADRE_PS_COUNTER_pull_bytes, text);
    add_bytes(self, CADRE_ROLE_WORKER, CADRE_WORKER_COUNTER_pull_bytes, text);
}

/* --- tables --- */

/* What all ps hold of each table. */
typedef struct {
    cadre_table_totals_t *totals; /* [count] */
    size_t count;
} tables_t;

/* Adds one figure of each table: that with this position among CADRE_TABLE_COUNTERS. */
static void
add_figure(const tables_t *tables, int figure, cadre_metrics_text_t *text)
{
    for (size_t i = 0; i < tables->count; i++) {
        cadre_metrics_text_label(text, "table", tables->totals[i].table->name);
        cadre_metrics_text_count(text, tables->totals[i].counters[figure]);
    }
}

/* Adds what became of the rows of tables. */
static void
add_rows(const tables_t *tables, cadre_metrics_text_t *text)
{
    cadre_metrics_text_family(
        text, "cadre_coordinator_table_rows_created_total", CADRE_METRIC_COUNTER,
        "Rows of a table that were made. Goes back with a shard that is restored, as those below.");
    add_figure(tables, CADRE_TABLE_COUNTER_created, text);
    cadre_metrics_text_family(text, "cadre_coordinator_table_rows_evicted_total",
                              CADRE_METRIC_COUNTER, "Rows of a table that made room for others.");
    add_figure(tables, CADRE_TABLE_COUNTER_evicted, text);
    cadre_metrics_text_family(text, "cadre_coordinator_table_rows_expired_total",
                              CADRE_METRIC_COUNTER,
                              "Rows of a table that were too old or too small.");
    add_figure(tables, CADRE_TABLE_COUNTER_expired, text);
    cadre_metrics_text_family(
        text, "cadre_coordinator_table_gradients_unadmitted_total", CADRE_METRIC_COUNTER,
        "Gradients of rows of a table that were dropped, because their key was not seen often "
        "enough yet, or there was no room.");
    add_figure(tables, CADRE_TABLE_COUNTER_unadmitted, text);
}

/* Adds what all ps hold of each table; nothing in a job without tables. */
static void
add_tables(const cadre_job_metrics_t *self, cadre_metrics_text_t *text)
{
    cadre_auto(cadre_free) cadre_table_totals_t *totals =
        cadre_calloc(CADRE_TABLES_TOLD_MAX, sizeof(*totals));
    const tables_t tables = {totals, cadre_table_totals(self->catalogue, self->members, totals)};
    if (tables.count == 0) {
        return;
    }
    cadre_metrics_text_family(text, "cadre_coordinator_table_rows", CADRE_METRIC_GAUGE,
                              "Rows of a table on all ps, as their last heartbeats say.");
    add_figure(&tables, CADRE_TABLE_COUNTER_rows, text);
    cadre_metrics_text_family(text, "cadre_coordinator_table_bytes", CADRE_METRIC_GAUGE,
                              "Bytes of memory that a table takes on all ps.");
    add_figure(&tables, CADRE_TABLE_COUNTER_size_bytes, text);
    add_rows(&tables, text);
}

/* --- recovery --- */

/* Adds how many shards are in each state, and for how many closures run again. */
static void
add_shards(const cadre_job_metrics_t *self, cadre_metrics_text_t *text)
{
    uint64_t counts[CADRE_PLACE_STATES] = {0};
    uint64_t replaying = 0;
    for (uint32_t i = 0; i < self->options->ps_count; i++) {
        counts[self->recovery->places[i].state]++;
        replaying += self->recovery->places[i].replaying;
    }
    cadre_metrics_text_family(text, "cadre_coordinator_shards", CADRE_METRIC_GAUGE,
                              "Shards of the job, by state.");
    for (size_t i = 0; i < CADRE_PLACE_STATES; i++) {
        cadre_metrics_text_label(text, "state", cadre_place_state_text((cadre_place_state_t)i));
        cadre_metrics_text_count(text, counts[i]);
    }
    cadre_metrics_text_gauge(text, "cadre_coordinator_shards_replaying", (double)replaying,
                             "Shards for which closures run again.");
}

/* Adds how many shards were restored, and what running closures again has done and has left. */
static void
add_recoveries(const cadre_job_metrics_t *self, cadre_metrics_text_t *text)
{
    const cadre_totals_t *totals = self->totals;
    const cadre_replay_t *replay = self->replay;
    cadre_metrics_text_counter(text, "cadre_coordinator_shards_restored_total", totals->ps_restored,
                               "Shards that were restored.");
    cadre_metrics_text_counter(text, "cadre_coordinator_closures_replayed_total", totals->replayed,
                               "Closures replayed for restored shards after they had ended.");
    cadre_metrics_text_counter(text, "cadre_coordinator_closures_at_risk_total",
                               totals->closures_at_risk,
                               "Closures whose updates were lost with a shard.");
    cadre_metrics_text_gauge(
        text, "cadre_coordinator_replay_kept", (double)replay->kept.count,
        "Closures in the replay log: those that ended since the last checkpoint.");
    cadre_metrics_text_gauge(text, "cadre_coordinator_replay_left",
                             (double)(replay->redo.count + replay->aside.count + replay->in_flight),
                             "Closures of the replay under way that have still to run.");
}

/* --- checkpoints --- */

/* Adds the metrics of checkpoints; none in a job without them. */
static void
add_checkpoints(const cadre_job_metrics_t *self, uint64_t now_ms, cadre_metrics_text_t *text)
{
    const cadre_checkpoint_t *checkpoint = self->checkpoint;
    const cadre_totals_t *totals = self->totals;
    bool is_under_way = checkpoint->state != CADRE_CHECKPOINT_IDLE;
    if (!checkpoint->enabled) {
        return;
    }
    cadre_metrics_text_family(text, "cadre_coordinator_checkpoints_total", CADRE_METRIC_COUNTER,
                              "Checkpoints that were begun and have ended, by how.");
    add_two(
        text, "result",
        (labelled_t[]){{"committed", totals->checkpoints}, {"failed", totals->checkpoints_failed}});
    cadre_metrics_text_counter(text, "cadre_coordinator_retentions_failed_total",
                               totals->retentions_failed,
                               "Commits after which older checkpoints could not be removed.");
    cadre_metrics_text_gauge(
        text, "cadre_coordinator_checkpoint_age_seconds",
        (double)(now_ms - checkpoint->last_ms) / 1000,
        "Seconds since the last commit; before the first one, since the coordinator started.");
    cadre_metrics_text_gauge(text, "cadre_coordinator_checkpoint_bytes",
                             (double)checkpoint->last_bytes,
                             "Size of the shards' files of the last one committed; 0: none was.");
    cadre_metrics_text_gauge(text, "cadre_coordinator_checkpoint_seconds",
                             (double)checkpoint->last_took_ms / 1000,
                             "How long the last one committed took.");
    cadre_metrics_text_gauge(text, "cadre_coordinator_checkpoint_under_way_seconds",
                             is_under_way ? (double)(now_ms - checkpoint->begun_ms) / 1000 : 0,
                             "How long the present one has been under way; 0: none is.");
}

/* Adds all metrics of the job, group after group. */
void
cadre_job_metrics_write(const cadre_job_metrics_t *self, uint64_t now_ms,
                        cadre_metrics_text_t *text)
{
    add_strategy(self, text);
    add_closures(self, text);
    add_staleness(self, text);
    add_queue(self, text);
    add_membership(self, text);
    add_tasks(self, now_ms, text);
    add_tables(self, text);
    add_shards(self, text);
    add_recoveries(self, text);
    add_checkpoints(self, now_ms, text);
}
