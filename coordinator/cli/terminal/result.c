#include "coordinator/cli/terminal/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

void
cadre_result_init(cadre_result_t *self)
{
    *self = (cadre_result_t){.accuracy = NAN, .loss = NAN};
}

void
cadre_result_fini(cadre_result_t *self)
{
    free(self->shards);
    json_decref(self->staleness);
    json_decref(self->tables);
    free(self->confusion);
    free(self->checkpoint);
    free(self->best_checkpoint);
    *self = (cadre_result_t){0};
}

/* Returns the rows that this run trained on per second; not a number for a run that never began. */
static double
rows_per_second(const cadre_result_t *self)
{
    return self->seconds > 0 ? (double)(self->examples - self->resumed_examples) / self->seconds
                             : NAN;
}

/* Returns a number as JSON; null when it is NaN or infinite, that is, not known. */
static json_t *
number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* Returns a count of a shard as JSON; null when the shard's ps has not answered. */
static json_t *
count(const cadre_result_shard_t *shard, uint64_t value)
{
    return shard->is_known ? json_integer((json_int_t)value) : json_null();
}

/* Returns what is known of the best checkpoint as a JSON object; null where none is kept. */
static json_t *
best(const cadre_result_t *self)
{
    if (!self->best_metric) {
        return json_null();
    }
    return json_pack("{s:s, s:o, s:I, s:s?}", "metric", self->best_metric, "value",
                     number(self->best), "step", (json_int_t)self->best_step, "checkpoint",
                     self->best_checkpoint);
}

/* Returns the result of a training run as a JSON object, which the caller releases. */
json_t *
cadre_result_object(const cadre_result_t *self)
{
    json_t *updates = json_array();
    for (size_t i = 0; i < self->shard_count; i++) {
        const cadre_result_shard_t *shard = &self->shards[i];
        json_array_append_new(updates, json_pack("{s:I, s:o, s:o, s:o}", "shard", (json_int_t)i,
                                                 "applied", count(shard, shard->totals.applied),
                                                 "duplicate", count(shard, shard->totals.duplicate),
                                                 "refused", count(shard, shard->totals.refused)));
    }

    json_t *object = json_pack(
        "{s:s, s:s?, s:o, s:o, s:I, s:o, s:o, s:{s:I, s:I, s:I}, s:o, s:{s:I, s:I}, s:s?, "
        "s:s?, s:o, s:o, s:o, s:o}",
        "schema", CADRE_RESULT_SCHEMA, "strategy", self->strategy, "accuracy",
        number(self->accuracy), "loss", number(self->loss), "examples", (json_int_t)self->examples,
        "seconds", number(self->seconds), "examples_per_s", number(rows_per_second(self)),
        "closures", "scheduled", (json_int_t)self->scheduled, "finished",
        (json_int_t)self->finished, "attempts", (json_int_t)self->attempts, "updates", updates,
        "failures", "worker", (json_int_t)self->workers_lost, "ps", (json_int_t)self->ps_lost,
        "checkpoint", self->checkpoint, "stopped", self->stopped, "best", best(self), "staleness",
        self->staleness ? json_incref(self->staleness) : json_null(), "metrics",
        cadre_metrics_object(&self->metrics), "confusion_matrix",
        cadre_confusion_array(self->confusion, self->classes));
    if (self->tables) {
        json_object_set(object, "tables", self->tables);
    }
    return object;
}

char *
cadre_result_json(const cadre_result_t *self)
{
    json_t *object = cadre_result_object(self);
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    return text;
}

/* Returns whether the text has to say why training ended: not after all epochs, the usual end. */
static bool
tells_why(const cadre_result_t *self)
{
    return self->stopped_text[0] && self->stopped && strcmp(self->stopped, "epochs") != 0;
}

/* Returns how many rows the tables have, as a clause, or "". */
static char *
table_words(const cadre_result_t *self)
{
    json_int_t rows = 0;
    json_int_t size_bytes = 0;
    size_t i = 0;
    const json_t *table = NULL;
    json_array_foreach(self->tables, i, table)
    {
        rows += json_integer_value(json_object_get(table, "rows"));
        size_bytes += json_integer_value(json_object_get(table, "size_bytes"));
    }
    return self->tables ? cadre_asprintf("; tables of %lld rows, %.1f MB", (long long)rows,
                                         (double)size_bytes / 1e6)
                        : cadre_strdup("");
}

/* Returns the result in words, freed by the caller: first each clause that may be absent, as text
 * or "", then the sentence of all of them. */
char *
cadre_result_text(const cadre_result_t *self)
{
    cadre_auto(cadre_free) char *accuracy =
        isfinite(self->accuracy) ? cadre_asprintf("accuracy %.2f %% and ", 100 * self->accuracy)
                                 : cadre_strdup("");
    cadre_auto(cadre_free) char *rows =
        self->test_rows > 0 ? cadre_asprintf(" on %lld rows held out", (long long)self->test_rows)
                            : cadre_strdup(" on the latest batches");
    cadre_auto(cadre_free) char *metrics = cadre_metrics_words(&self->metrics);
    cadre_auto(cadre_free) char *ps =
        self->ps_lost > 0 ? cadre_asprintf(", %llu ps failures", (unsigned long long)self->ps_lost)
                          : cadre_strdup("");
    cadre_auto(cadre_free) char *here =
        self->resumed_examples > 0
            ? cadre_asprintf(", %lld of them", (long long)(self->examples - self->resumed_examples))
            : cadre_strdup("");
    cadre_auto(cadre_free) char *why =
        tells_why(self) ? cadre_asprintf("; stopped: %s", self->stopped_text) : cadre_strdup("");
    cadre_auto(cadre_free) char *tables = table_words(self);
    double speed = self->seconds > 0 ? rows_per_second(self) : 0;

    cadre_auto(cadre_free) char *strategy =
        self->strategy ? cadre_asprintf("; strategy %s", self->strategy) : cadre_strdup("");
    return cadre_asprintf("%sloss %.4g%s%s; %lld examples%s in %.1f s (%.0f/s), %llu closures in "
                          "%llu attempts, %llu worker failures%s%s%s%s",
                          accuracy, self->loss, metrics, rows, (long long)self->examples, here,
                          self->seconds, speed, (unsigned long long)self->finished,
                          (unsigned long long)self->attempts,
                          (unsigned long long)self->workers_lost, ps, tables, strategy, why);
}
