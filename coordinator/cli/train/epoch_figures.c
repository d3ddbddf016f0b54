#include "coordinator/cli/train/epoch_figures.h"

#include <jansson.h>
#include <math.h>

#include "common/base/memory.h"
#include "coordinator/cli/train/model.h"

/* Raises the largest staleness of the progress to what the ps report. A ps that does not answer in
 * time is left out. */
static void
note_largest(const cadre_epoch_figures_t *self, cadre_progress_t *progress)
{
    for (int shard = 0; shard < (int)self->job->ps; shard++) {
        cadre_shard_totals_t totals;
        if (cadre_shard_totals(self->coordinator, shard, &totals, CADRE_EPOCH_FIGURES_MS) == 0 &&
            totals.staleness_max > progress->staleness_max) {
            progress->staleness_max = totals.staleness_max;
        }
    }
}

/* Gives how many closures of this run had their staleness reported, and the sum over them, as the
 * status of the job has it. Returns false where there is no status. */
static bool
sum_staleness(const cadre_epoch_figures_t *self, uint64_t *closures, uint64_t *sum)
{
    cadre_auto(cadre_free) char *text = NULL;
    if (cadre_coordinator_status_json(self->coordinator, &text) < 0) {
        return false;
    }

    json_t *status = json_loads(text, 0, NULL);
    size_t index;
    json_t *bucket;
    *closures = 0;
    json_array_foreach(json_object_get(status, "staleness"), index, bucket)
    {
        *closures += (uint64_t)json_integer_value(json_object_get(bucket, "closures"));
    }
    *sum = (uint64_t)json_integer_value(json_object_get(status, "staleness_sum"));
    json_decref(status);
    return true;
}

/* Sets the mean staleness of the progress to that of the closures since the last call. */
static void
note_mean(cadre_epoch_figures_t *self, cadre_progress_t *progress)
{
    uint64_t closures = 0;
    uint64_t sum = 0;
    progress->staleness_mean = NAN;
    if (!sum_staleness(self, &closures, &sum)) {
        return;
    }

    if (closures > self->closures) {
        progress->staleness_mean = (double)(sum - self->sum) / (double)(closures - self->closures);
    }
    self->closures = closures;
    self->sum = sum;
}

/* Returns how many updates the ps have applied at this place. A synchronous step is one update; the
 * last step of an epoch may have fewer closures than the others. */
uint64_t
cadre_epoch_figures_updates(const cadre_epoch_figures_t *self, const cadre_training_plan_t *plan,
                            const cadre_training_place_t *place)
{
    const int64_t epoch = cadre_training_plan_epoch_closures(plan);
    if ((cadre_consistency_t)self->job->consistency != CADRE_SYNC || epoch == 0) {
        return (uint64_t)place->closures;
    }

    const int64_t step = self->job->step_closures;
    const int64_t steps_per_epoch = (epoch + step - 1) / step;
    const int64_t rest = place->closures % epoch;
    return (uint64_t)(place->closures / epoch * steps_per_epoch + (rest + step - 1) / step);
}

/* Sets staleness and learning rate of the progress to those of the epoch that ends at `place`. */
void
cadre_epoch_figures_note(cadre_epoch_figures_t *self, const cadre_training_plan_t *plan,
                         const cadre_training_place_t *place, cadre_progress_t *progress)
{
    if ((cadre_consistency_t)self->job->consistency == CADRE_SYNC) {
        /* Each step starts from what the step before it made. To ask every ps would take about as
         * long as ten steps of a small model. */
        progress->staleness_mean = 0;
    } else {
        note_largest(self, progress);
        note_mean(self, progress);
    }
    const cadre_optimizer_spec_t optimizer = cadre_model_optimizer(self->job);
    const cadre_training_plateau_t *plateau = &place->watch.plateau;
    progress->learning_rate =
        plateau->changes > 0
            ? plateau->rates[plateau->changes - 1]
            : cadre_schedule_spec_rate(&optimizer.schedule,
                                       optimizer.parameters[CADRE_LEARNING_RATE],
                                       cadre_epoch_figures_updates(self, plan, place));
}
