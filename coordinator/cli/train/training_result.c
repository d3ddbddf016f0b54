#include "coordinator/cli/train/training_result.h"

#include <stdio.h>
#include <string.h>

#include <cadre/table.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/system/clock.h"

/* Adds to the text why training ended that the metric of its target is undefined, where it is. */
static void
add_what_lacks(cadre_result_t *result, const cadre_job_t *job, const cadre_training_watch_t *watch)
{
    if (!cadre_training_watch_lacks(watch, &job->stop)) {
        return;
    }
    const size_t end = strlen(result->stopped_text);
    char *rest = result->stopped_text + end;
    const size_t size = sizeof(result->stopped_text) - end;
    const int length = snprintf(rest, size, "; ");
    if (length > 0 && (size_t)length < size) {
        cadre_training_describe_rest(job->stop.metric, NULL, watch->without,
                                     result->metrics.known[CADRE_METRIC_LOSS], rest + length,
                                     size - (size_t)length);
    }
}

void
cadre_training_result_note_stop(cadre_result_t *result, const cadre_job_t *job,
                                const cadre_training_plan_t *plan,
                                const cadre_training_place_t *place, cadre_stop_t stop)
{
    const cadre_training_watch_t *watch = &place->watch;
    const char *metric = cadre_metric_text(job->stop.metric);
    char *text = result->stopped_text;
    size_t size = sizeof(result->stopped_text);

    result->stopped = cadre_stop_word(stop);
    switch (stop) {
    case CADRE_STOP_EPOCHS:
        snprintf(text, size, "all %lld epochs are done", (long long)plan->epochs);
        add_what_lacks(result, job, watch);
        break;
    case CADRE_STOP_STEPS:
        snprintf(text, size, "%lld steps are done, as training.stop.steps has it",
                 (long long)place->closures);
        add_what_lacks(result, job, watch);
        break;
    case CADRE_STOP_SECONDS:
        snprintf(text, size, "%.9g s are over, as training.stop.seconds has it", job->stop_seconds);
        add_what_lacks(result, job, watch);
        break;
    case CADRE_STOP_TARGET:
        snprintf(text, size, "%s %.4g has reached %.9g", metric, watch->latest, job->stop.target);
        break;
    case CADRE_STOP_PATIENCE:
        cadre_training_describe_rest(job->stop.metric, watch->has_best ? &watch->best : NULL,
                                     watch->without, result->metrics.known[CADRE_METRIC_LOSS], text,
                                     size);
        break;
    case CADRE_STOP_NOT:
    case CADRE_STOP_COMMAND:
    case CADRE_STOP_FAILURE:
        text[0] = '\0';
        break;
    }
}

void
cadre_training_result_count_updates(cadre_result_t *result, cadre_coordinator_t *coordinator,
                                    size_t shards, bool well)
{
    int64_t end_ms = cadre_clock_now_ms() +
                     (well ? CADRE_TRAINING_RESULT_COUNTERS_MS : CADRE_TRAINING_RESULT_REST_MS);

    result->shard_count = shards;
    result->shards = cadre_calloc(result->shard_count, sizeof(*result->shards));
    for (size_t i = 0; i < result->shard_count; i++) {
        int64_t left_ms = cadre_max_i64(end_ms - cadre_clock_now_ms(), 0);
        if (!well) {
            left_ms = cadre_min_i64(left_ms, CADRE_TRAINING_RESULT_COUNTER_MS);
        }
        cadre_result_shard_t *shard = &result->shards[i];
        shard->is_known = cadre_shard_totals(coordinator, (int)i, &shard->totals, left_ms) == 0;
    }
}

/* Returns what a table holds. */
static json_t *
table_object(const cadre_variable_t *table, const cadre_table_counts_t *counts)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "name", cadre_variable_name(table),
                     "rows", (json_int_t)counts->rows, "size_bytes", (json_int_t)counts->size_bytes,
                     "created", (json_int_t)counts->created, "evicted", (json_int_t)counts->evicted,
                     "expired", (json_int_t)counts->expired, "unadmitted",
                     (json_int_t)counts->unadmitted);
}

void
cadre_training_result_count_tables(cadre_result_t *result, const cadre_model_t *model, bool well)
{
    const int64_t limit_ms =
        well ? CADRE_TRAINING_RESULT_COUNTERS_MS : CADRE_TRAINING_RESULT_COUNTER_MS;
    for (size_t i = 0; i < model->variable_count; i++) {
        cadre_table_counts_t counts;
        cadre_variable_t *variable = model->variables[i];
        if (!cadre_variable_is_table(variable)) {
            continue;
        }
        if (cadre_variable_read_counts(variable, &counts, limit_ms) < 0) {
            return;
        }
        result->tables = result->tables ? result->tables : json_array();
        json_array_append_new(result->tables, table_object(variable, &counts));
    }
}

void
cadre_training_result_note_staleness(cadre_result_t *result, cadre_coordinator_t *coordinator)
{
    cadre_auto(cadre_free) char *text = NULL;
    if (cadre_coordinator_status_json(coordinator, &text) < 0) {
        return;
    }
    json_t *status = json_loads(text, 0, NULL);
    result->staleness = json_incref(json_object_get(status, "staleness"));
    json_decref(status);
}
