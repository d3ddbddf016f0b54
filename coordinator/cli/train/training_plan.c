#include "coordinator/cli/train/training_plan.h"

#include <jansson.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"

int
cadre_training_plan_deal(cadre_training_plan_t *self, int64_t ranges, const char *path)
{
    cadre_training_place_t *start = &self->start;
    const bool is_within = start->position > 0 && start->position < self->rows;
    const int64_t had_ranges = start->ranges > 0 ? start->ranges : 1;
    const int64_t had_rows = start->ranges > 0 ? start->batch_rows : self->batch_size;
    const bool is_like = had_ranges == ranges && (ranges == 1 || had_rows == self->batch_size);
    if (is_within && !is_like) {
        return cadre_fail(CADRE_ECONFIG,
                          "%s was taken within a pass over rows that come from %lld ranges in "
                          "batches of %lld, and now they come from %lld in batches of %lld, in "
                          "another order: give it the \"ranges\" and batches that it had, or begin "
                          "anew with --resume never",
                          path, (long long)had_ranges, (long long)had_rows, (long long)ranges,
                          (long long)self->batch_size);
    }
    start->ranges = ranges > 1 ? ranges : 0;
    start->batch_rows = ranges > 1 ? self->batch_size : 0;
    return 0;
}

/* Returns how many closures train in a pass from row `position` on. The last may be smaller, unless
 * drop_last leaves it out. */
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

int64_t
cadre_training_plan_epoch_closures(const cadre_training_plan_t *self)
{
    int64_t pass = cadre_training_plan_batches(self, 0);
    return self->steps_per_epoch > 0 && pass > 0 ? self->steps_per_epoch : pass;
}

/* Returns the closures from `place` to the end of its epoch, also of an epoch that steps_max ends
 * earlier. */
static int64_t
left_in_epoch(const cadre_training_plan_t *self, const cadre_training_place_t *place)
{
    if (self->steps_per_epoch == 0) {
        return cadre_training_plan_batches(self, place->position);
    }
    return cadre_max_i64(cadre_training_plan_epoch_closures(self) - place->begun, 0);
}

/* Returns whether steps_max closures have trained; false when the job has no such limit. */
static bool
has_all_steps(const cadre_training_plan_t *self, const cadre_training_place_t *place)
{
    return self->steps_max > 0 && place->closures >= self->steps_max;
}

/* Returns how many closures train from the place to the end of its epoch or, if that is earlier, to
 * the end of the training. */
int64_t
cadre_training_plan_left(const cadre_training_plan_t *self, const cadre_training_place_t *place)
{
    if (place->epoch >= self->epochs || has_all_steps(self, place)) {
        return 0;
    }

    int64_t left = left_in_epoch(self, place);
    return self->steps_max > 0 ? cadre_min_i64(left, self->steps_max - place->closures) : left;
}

/* Moves the place over `closures` that train, at most those left in its epoch. With steps_per_epoch
 * an epoch may go over several passes: the place is then in the last of them. */
void
cadre_training_plan_advance(const cadre_training_plan_t *self, cadre_training_place_t *place,
                            int64_t closures)
{
    int64_t left = cadre_training_plan_batches(self, place->position);
    int64_t whole = cadre_training_plan_batches(self, 0);

    place->closures += closures;
    place->begun += self->steps_per_epoch > 0 ? closures : 0;
    if (closures > left && whole > 0) {
        place->pass += 1 + (closures - left - 1) / whole;
        place->position = 0;
        closures = (closures - left - 1) % whole + 1;
        left = whole;
    }

    /* At the end of a pass all rows count as done, also those that drop_last leaves out. */
    place->position = closures < left ? place->position + closures * self->batch_size : self->rows;
}

bool
cadre_training_plan_is_over(const cadre_training_plan_t *self, const cadre_training_place_t *place)
{
    return place->closures >= cadre_training_plan_total(self);
}

/* Returns whether an evaluation follows at this place, the end of an epoch or of the training:
 * always after the last epoch or step, else after every `evaluate_every` epochs. */
bool
cadre_training_plan_evaluates(const cadre_training_plan_t *self,
                              const cadre_training_place_t *place)
{
    if (place->epoch >= self->epochs - 1 || has_all_steps(self, place)) {
        return true;
    }
    return self->evaluate_every > 0 && (place->epoch + 1) % self->evaluate_every == 0;
}

/* Moves the place from the end of its epoch to the beginning of the next. A place inside an epoch,
 * where steps_max may end the training, is not moved. */
void
cadre_training_plan_next_epoch(const cadre_training_plan_t *self, cadre_training_place_t *place)
{
    if (left_in_epoch(self, place) > 0) {
        return;
    }

    place->epoch++;
    place->begun = 0;
    if (self->steps_per_epoch == 0) {
        place->pass++;
        place->position = 0;
    }
}

/* Returns how many closures train in the whole job, those before the start of the plan included. */
int64_t
cadre_training_plan_total(const cadre_training_plan_t *self)
{
    int64_t total = self->start.closures;
    if (self->start.epoch < self->epochs) {
        total += left_in_epoch(self, &self->start);
        total += (self->epochs - self->start.epoch - 1) * cadre_training_plan_epoch_closures(self);
    }

    /* A resumed job whose new steps_max is less than it has done already is at its end. */
    return self->steps_max > 0
               ? cadre_max_i64(cadre_min_i64(total, self->steps_max), self->start.closures)
               : total;
}

/* Returns how many rows the first `closures` training closures of the job read. */
int64_t
cadre_training_plan_rows(const cadre_training_plan_t *self, int64_t closures)
{
    cadre_training_place_t place = self->start;
    int64_t pass_closures = cadre_training_plan_batches(self, 0);
    int64_t pass_rows = cadre_min_i64(pass_closures * self->batch_size, self->rows);
    if (closures > place.closures && pass_closures > 0) {
        cadre_training_plan_advance(self, &place, closures - place.closures);
    }
    return place.pass * pass_rows + cadre_min_i64(place.position, pass_rows);
}

/* Returns the place at which exactly the closures below id `cut` have been done: goes over the
 * epochs, each followed by its evaluation if one is due, until no closure remains. */
cadre_training_place_t
cadre_training_plan_at(const cadre_training_plan_t *self, uint64_t cut)
{
    cadre_training_place_t place = self->start;
    int64_t remaining = cut > self->first_id ? (int64_t)(cut - self->first_id) : 0;
    while (remaining > 0 && place.epoch < self->epochs) {
        int64_t closures = cadre_training_plan_left(self, &place);
        cadre_training_plan_advance(self, &place, cadre_min_i64(closures, remaining));
        if (remaining < closures) {
            return place;
        }

        remaining -= closures;
        bool evaluates =
            self->evaluation_closures > 0 && cadre_training_plan_evaluates(self, &place);
        int64_t evaluations = evaluates ? self->evaluation_closures : 0;
        /* An evaluation that the cut divides is done again. What one of a watched plan found, this
         * plan does not know: the place stays before the next epoch. */
        if (remaining < evaluations || (evaluates && self->watched)) {
            place.evaluations += remaining;
            return place;
        }

        place.evaluations += evaluations;
        remaining -= evaluations;
        if (has_all_steps(self, &place)) {
            break;
        }
        cadre_training_plan_next_epoch(self, &place);
    }

    /* Closures after the end come from running a finished job again, which only evaluates. */
    place.evaluations += remaining;
    return place;
}

/* Returns the place as JSON text, freed by the caller. Fields that the job does not use are left
 * out, so that older builds can read it. */
char *
cadre_training_place_encode(const cadre_training_place_t *place)
{
    json_t *object =
        json_pack("{s:I, s:I, s:I, s:I}", "epoch", (json_int_t)place->epoch, "position",
                  (json_int_t)place->position, "closures", (json_int_t)place->closures,
                  "evaluations", (json_int_t)place->evaluations);
    if (place->pass != place->epoch) {
        json_object_set_new(object, "pass", json_integer((json_int_t)place->pass));
    }
    if (place->ranges > 0) {
        json_object_set_new(object, "ranges", json_integer((json_int_t)place->ranges));
        json_object_set_new(object, "batch_rows", json_integer((json_int_t)place->batch_rows));
    }
    if (place->begun > 0) {
        json_object_set_new(object, "begun", json_integer((json_int_t)place->begun));
    }

    json_t *watch = cadre_training_watch_encode(&place->watch);
    if (watch) {
        json_object_set_new(object, "watch", watch);
    }
    if (place->words) {
        json_object_set_new(object, "words", json_loads(place->words, 0, NULL));
    }

    char *text = json_dumps(object, JSON_REAL_PRECISION(17));
    json_decref(object);
    return text;
}

/* Reads a place from JSON; fields that may be absent keep the values of a job that does not use
 * them. */
static int
decode(const json_t *root, cadre_training_place_t *place)
{
    json_int_t epoch = -1;
    json_int_t position = -1;
    json_int_t closures = -1;
    json_int_t evaluations = -1;
    json_int_t pass = -1;
    json_int_t begun = 0;
    json_int_t ranges = 0;
    json_int_t batch_rows = 0;
    json_t *watch = NULL;
    json_t *words = NULL; /* word_ids.h reads them */
    int status = json_unpack((json_t *)root, "{s:I, s:I, s:I, s:I, s?I, s?I, s?I, s?I, s?o, s?o !}",
                             "epoch", &epoch, "position", &position, "closures", &closures,
                             "evaluations", &evaluations, "pass", &pass, "begun", &begun, "ranges",
                             &ranges, "batch_rows", &batch_rows, "watch", &watch, "words", &words);
    if (status != 0 || epoch < 0 || position < 0 || closures < 0 || evaluations < 0 || begun < 0 ||
        (json_object_get(root, "pass") && pass < 0) || ranges < 0 || batch_rows < 0) {
        return CADRE_EMALFORMED;
    }

    *place = (cadre_training_place_t){.epoch = epoch,
                                      .position = position,
                                      .closures = closures,
                                      .evaluations = evaluations,
                                      .pass = pass < 0 ? epoch : pass,
                                      .begun = begun,
                                      .ranges = ranges,
                                      .batch_rows = batch_rows};
    return watch ? cadre_training_watch_decode(watch, &place->watch) : 0;
}

/* Reads a place from the JSON text that a checkpoint holds. */
int
cadre_training_place_decode(const char *text, cadre_training_place_t *place)
{
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    int status = decode(root, place);
    json_decref(root);
    return status < 0 ? cadre_fail(CADRE_EMALFORMED,
                                   "the checkpoint's progress is not that of a job file: %s", text)
                      : 0;
}
