#include "coordinator/cli/train/training_stop.h"

#include <math.h>
#include <stdio.h>

#include "common/base/status.h"

/* Returns whether `value` is better than `best` by more than `min_delta`. */
static bool
improves(cadre_metric_t metric, double value, double best, double min_delta)
{
    return cadre_metric_is_higher_better(metric) ? value > best + min_delta
                                                 : value < best - min_delta;
}

/* Notes the value that an evaluation found for the metric of the conditions: as an improvement, or
 * as one more evaluation without one. */
void
cadre_training_watch_note(cadre_training_watch_t *self, const cadre_stop_conditions_t *conditions,
                          double value)
{
    self->has_latest = isfinite(value);
    self->latest = self->has_latest ? value : 0;
    if (self->has_latest && (!self->has_best || improves(conditions->metric, value, self->best,
                                                         conditions->min_delta))) {
        self->has_best = true;
        self->best = value;
        self->without = 0;
        return;
    }

    self->without++;
}

/* Returns whether the value is the best so far of the metric by which the best checkpoint is
 * chosen, and if so keeps it with the number of closures that had trained. */
bool
cadre_training_watch_keep(cadre_training_watch_t *self, cadre_metric_t metric, double value,
                          int64_t closures)
{
    if (!isfinite(value) || (self->has_kept && !improves(metric, value, self->kept, 0))) {
        return false;
    }
    self->has_kept = true;
    self->kept = value;
    self->kept_closures = closures;
    return true;
}

/* Returns whether what evaluations found ends training: the target is reached, or too many
 * evaluations in a row had no improvement. */
cadre_stop_t
cadre_training_watch_stop(const cadre_training_watch_t *self,
                          const cadre_stop_conditions_t *conditions)
{
    bool higher = cadre_metric_is_higher_better(conditions->metric);
    if (conditions->has_target && self->has_latest &&
        (higher ? self->latest >= conditions->target : self->latest <= conditions->target)) {
        return CADRE_STOP_TARGET;
    }
    if (conditions->patience > 0 && self->without >= conditions->patience) {
        return CADRE_STOP_PATIENCE;
    }
    return CADRE_STOP_NOT;
}

/* Returns whether there is a target, and evaluations found no value to compare with it. */
bool
cadre_training_watch_lacks(const cadre_training_watch_t *self,
                           const cadre_stop_conditions_t *conditions)
{
    return conditions->has_target && !self->has_best && self->without > 0;
}

/* Writes which value of the metric was the best, or why it has none. */
void
cadre_training_describe_rest(cadre_metric_t metric, const double *best, int64_t count,
                             bool has_loss, char *text, size_t size)
{
    const char *name = cadre_metric_text(metric);
    char counted[48] = "";
    if (count > 0) {
        snprintf(counted, sizeof(counted), " in %lld evaluations", (long long)count);
    }
    if (best) {
        snprintf(text, size, "%s was not better than %.4g%s", name, *best, counted);
        return;
    }
    const bool is_area = metric == CADRE_METRIC_AUC || metric == CADRE_METRIC_AUC_EXACT;
    snprintf(text, size, "%s is undefined%s: %s", name, counted,
             is_area && has_loss
                 ? "an AUC compares rows of two classes, and all rows held out are of one"
                 : "it is not a number");
}

/* Returns the watch as a JSON object without the fields that are zero; NULL when all are. */
json_t *
cadre_training_watch_encode(const cadre_training_watch_t *self)
{
    json_t *object = json_object();
    if (self->has_latest) {
        json_object_set_new(object, "latest", json_real(self->latest));
    }
    if (self->has_best) {
        json_object_set_new(object, "best", json_real(self->best));
    }
    if (self->without > 0) {
        json_object_set_new(object, "without", json_integer((json_int_t)self->without));
    }
    if (self->has_kept) {
        json_object_set_new(object, "kept", json_real(self->kept));
        json_object_set_new(object, "kept_closures", json_integer((json_int_t)self->kept_closures));
    }
    if (self->elapsed_ms > 0) {
        json_object_set_new(object, "elapsed_ms", json_integer((json_int_t)self->elapsed_ms));
    }

    json_t *plateau = cadre_training_plateau_encode(&self->plateau);
    if (plateau) {
        json_object_set_new(object, "plateau", plateau);
    }

    if (json_object_size(object) == 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* Reads the watch from the JSON object that a checkpoint holds; fields that are absent are zero. */
int
cadre_training_watch_decode(json_t *object, cadre_training_watch_t *out)
{
    cadre_training_watch_t watch = {.has_latest = json_object_get(object, "latest"),
                                    .has_best = json_object_get(object, "best"),
                                    .has_kept = json_object_get(object, "kept")};
    json_int_t without = 0;
    json_int_t kept_closures = 0;
    json_int_t elapsed_ms = 0;
    json_t *plateau = NULL;
    int status =
        json_unpack(object, "{s?F, s?F, s?I, s?F, s?I, s?I, s?o !}", "latest", &watch.latest,
                    "best", &watch.best, "without", &without, "kept", &watch.kept, "kept_closures",
                    &kept_closures, "elapsed_ms", &elapsed_ms, "plateau", &plateau);
    if (status != 0 || without < 0 || kept_closures < 0 || elapsed_ms < 0) {
        return cadre_fail(CADRE_EMALFORMED, "what a checkpoint remembers of evaluations is not "
                                            "that of a job file");
    }

    status = plateau ? cadre_training_plateau_decode(plateau, &watch.plateau) : 0;
    if (status < 0) {
        return status;
    }

    watch.without = without;
    watch.kept_closures = kept_closures;
    watch.elapsed_ms = elapsed_ms;
    *out = watch;
    return 0;
}

/* Returns the word of a reason in results, such as "patience". */
const char *
cadre_stop_word(cadre_stop_t stop)
{
    static const char *const words[] = {
#define X(NAME, word) word,
        CADRE_STOP_LIST(X)
#undef X
    };
    return words[stop];
}
