#include "coordinator/cli/train/training_plateau.h"

#include <math.h>

#include "common/base/status.h"

/* Returns whether the value is better than the best so far by more than min_delta. */
static bool
improves(const cadre_training_plateau_t *self, const cadre_plateau_conditions_t *conditions,
         double value)
{
    if (!isfinite(value)) {
        return false;
    }
    if (!self->has_best) {
        return true;
    }
    return cadre_metric_is_higher_better(conditions->metric)
               ? value > self->best + conditions->min_delta
               : value < self->best - conditions->min_delta;
}

/* Lowers the rate, unless it is as low as it may be or has changed as often as a schedule may.
 * Returns whether it did. */
static bool
lower(cadre_training_plateau_t *self, const cadre_plateau_conditions_t *conditions, double initial,
      uint64_t updates)
{
    const int64_t count = self->changes;
    const double now = count > 0 ? self->rates[count - 1] : initial;
    const double rate = fmax(now * conditions->factor, conditions->min_rate);
    /* Without an update since the last change there is nothing that a lower rate could have
     * changed. */
    const double before = count > 0 ? self->updates[count - 1] : 0;
    if (count == CADRE_SCHEDULE_BOUNDARIES_MAX || rate >= now || (double)updates <= before) {
        return false;
    }

    self->updates[count] = (double)updates;
    self->rates[count] = rate;
    self->changes++;
    return true;
}

/* Notes the value of an evaluation: as an improvement, or as one more without, of which `patience`
 * in a row lower the rate. */
bool
cadre_training_plateau_note(cadre_training_plateau_t *self,
                            const cadre_plateau_conditions_t *conditions, double initial,
                            double value, uint64_t updates)
{
    if (improves(self, conditions, value)) {
        self->has_best = true;
        self->best = value;
        self->without = 0;
        return false;
    }

    self->without++;
    if (self->without < conditions->patience) {
        return false;
    }
    self->without = 0;
    return lower(self, conditions, initial, updates);
}

/* Returns the fields that are not zero as a JSON object; NULL when all are. */
json_t *
cadre_training_plateau_encode(const cadre_training_plateau_t *self)
{
    if (!self->has_best && self->without == 0 && self->changes == 0) {
        return NULL;
    }

    json_t *updates = json_array();
    json_t *rates = json_array();
    for (int64_t i = 0; i < self->changes; i++) {
        json_array_append_new(updates, json_integer((json_int_t)self->updates[i]));
        json_array_append_new(rates, json_real(self->rates[i]));
    }
    json_t *best = self->has_best ? json_real(self->best) : NULL;
    return json_pack("{s:o*, s:I, s:o, s:o}", "best", best, "without", (json_int_t)self->without,
                     "updates", updates, "rates", rates);
}

/* Fails because a checkpoint's record was not written by a job file's trainer. */
static int
fail_malformed(void)
{
    return cadre_fail(CADRE_EMALFORMED,
                      "what a checkpoint remembers of changed learning rates is not that of a job "
                      "file");
}

/* Reads the changes: numbers of updates that rise, and a rate for each. */
static int
decode_changes(const json_t *updates, const json_t *rates, cadre_training_plateau_t *out)
{
    const size_t count = json_array_size(updates);
    if (json_array_size(rates) != count || count > CADRE_SCHEDULE_BOUNDARIES_MAX) {
        return fail_malformed();
    }

    for (size_t i = 0; i < count; i++) {
        const double update = json_number_value(json_array_get(updates, i));
        const double rate = json_number_value(json_array_get(rates, i));
        if (!(update > (i > 0 ? out->updates[i - 1] : 0)) || update > 9007199254740992.0 ||
            !(rate >= 0 && rate <= 1e10)) {
            return fail_malformed();
        }
        out->updates[i] = update;
        out->rates[i] = rate;
    }
    out->changes = (int64_t)count;
    return 0;
}

/* Reads it from the JSON object that a checkpoint holds. */
int
cadre_training_plateau_decode(json_t *object, cadre_training_plateau_t *out)
{
    cadre_training_plateau_t plateau = {.has_best = json_object_get(object, "best")};
    json_int_t without = 0;
    json_t *updates = NULL;
    json_t *rates = NULL;
    if (json_unpack(object, "{s?F, s:I, s:o, s:o !}", "best", &plateau.best, "without", &without,
                    "updates", &updates, "rates", &rates) != 0 ||
        without < 0) {
        return fail_malformed();
    }

    plateau.without = without;
    int status = decode_changes(updates, rates, &plateau);
    if (status < 0) {
        return status;
    }
    *out = plateau;
    return 0;
}
