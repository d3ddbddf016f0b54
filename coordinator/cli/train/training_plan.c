#include "coordinator/cli/train/training_plan.h"

#include <jansson.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"

int64_t
cadre_training_plan_batches(const cadre_training_plan_t *self, int64_t position)
{
    int64_t remaining = self->rows - position;
    if (remaining <= 0) {
        return 0;
    }
    return self->drop_last ? remaining / self->batch_size
                           : (remaining + self->batch_size - 1) / self->batch_size;
}

bool
cadre_training_plan_evaluates(const cadre_training_plan_t *self, int64_t epoch)
{
    if (epoch >= self->epochs - 1) {
        return true;
    }
    return self->evaluate_every > 0 && (epoch + 1) % self->evaluate_every == 0;
}

int64_t
cadre_training_plan_total(const cadre_training_plan_t *self)
{
    int64_t total = self->start.closures;
    if (self->start.epoch < self->epochs) {
        total += cadre_training_plan_batches(self, self->start.position);
        total += (self->epochs - self->start.epoch - 1) * cadre_training_plan_batches(self, 0);
    }
    return total;
}

/* Rows that the first `closures` batches from row `position` on hold. */
static int64_t
rows_of(const cadre_training_plan_t *self, int64_t closures, int64_t position)
{
    int64_t rows = closures * self->batch_size;
    return cadre_min_i64(rows, self->rows - position);
}

int64_t
cadre_training_plan_rows(const cadre_training_plan_t *self, int64_t closures)
{
    int64_t epoch_closures = cadre_training_plan_batches(self, 0);
    int64_t epoch_rows = rows_of(self, epoch_closures, 0);
    int64_t rows = self->start.epoch * epoch_rows;
    int64_t position = self->start.position;

    rows += cadre_min_i64(position, epoch_rows);
    int64_t remaining = cadre_max_i64(closures - self->start.closures, 0);
    int64_t batches = cadre_training_plan_batches(self, position);
    if (remaining <= batches || epoch_closures == 0) {
        return rows + rows_of(self, remaining, cadre_min_i64(position, epoch_rows));
    }

    rows += rows_of(self, batches, position);
    remaining -= batches;
    return rows + remaining / epoch_closures * epoch_rows +
           rows_of(self, remaining % epoch_closures, 0);
}

cadre_training_place_t
cadre_training_plan_at(const cadre_training_plan_t *self, uint64_t cut)
{
    cadre_training_place_t place = self->start;
    int64_t remaining = cut > self->first_id ? (int64_t)(cut - self->first_id) : 0;
    while (remaining > 0 && place.epoch < self->epochs) {
        int64_t batches = cadre_training_plan_batches(self, place.position);
        if (remaining < batches) {
            place.position += remaining * self->batch_size;
            place.closures += remaining;
            return place;
        }

        place.closures += batches;
        remaining -= batches;
        int64_t evaluations =
            cadre_training_plan_evaluates(self, place.epoch) ? self->evaluation_closures : 0;
        place.position = self->rows;
        if (remaining < evaluations) {
            place.evaluations += remaining;
            return place;
        }

        place.evaluations += evaluations;
        remaining -= evaluations;
        place.epoch++;
        place.position = 0;
    }

    place.evaluations += remaining; /* of a finished job that was only evaluated again */
    return place;
}

char *
cadre_training_place_encode(const cadre_training_place_t *place)
{
    return cadre_asprintf(
        "{\"epoch\": %lld, \"position\": %lld, \"closures\": %lld, \"evaluations\": %lld}",
        (long long)place->epoch, (long long)place->position, (long long)place->closures,
        (long long)place->evaluations);
}

int
cadre_training_place_decode(const char *text, cadre_training_place_t *place)
{
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    json_int_t epoch = -1;
    json_int_t position = -1;
    json_int_t closures = -1;
    json_int_t evaluations = -1;
    int status = json_unpack(root, "{s:I, s:I, s:I, s:I !}", "epoch", &epoch, "position", &position,
                             "closures", &closures, "evaluations", &evaluations);

    json_decref(root);
    if (status != 0 || epoch < 0 || position < 0 || closures < 0 || evaluations < 0) {
        return cadre_fail(CADRE_EMALFORMED,
                          "the checkpoint's progress is not that of a job file: %s", text);
    }

    *place = (cadre_training_place_t){
        .epoch = epoch, .position = position, .closures = closures, .evaluations = evaluations};
    return 0;
}
