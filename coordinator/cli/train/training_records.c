#include "coordinator/cli/train/training_records.h"

#include <stdlib.h>

#include "common/system/clock.h"
#include "coordinator/cli/train/word_ids.h"

void
cadre_training_records_init(cadre_training_records_t *self, cadre_coordinator_t *coordinator,
                            const cadre_job_t *job)
{
    *self = (cadre_training_records_t){.coordinator = coordinator,
                                       .words = cadre_word_ids_text(job->train),
                                       .is_timed = job->stop_seconds > 0};
}

void
cadre_training_records_fini(cadre_training_records_t *self)
{
    free(self->words);
    *self = (cadre_training_records_t){.coordinator = NULL};
}

int
cadre_training_records_resume(cadre_training_records_t *self, const char *path,
                              const char *progress, cadre_training_place_t *place)
{
    *place = (cadre_training_place_t){.epoch = 0};
    int status = progress ? cadre_training_place_decode(progress, place) : 0;
    status = status < 0 ? status : cadre_word_ids_check(path, progress, self->words);
    if (status < 0) {
        return status;
    }
    self->before_ms = place->watch.elapsed_ms;
    place->words = self->words;
    return 0;
}

void
cadre_training_records_start(cadre_training_records_t *self)
{
    self->start_ms = cadre_clock_now_ms();
}

int64_t
cadre_training_records_elapsed_ms(const cadre_training_records_t *self)
{
    const int64_t here_ms = self->start_ms > 0 ? cadre_clock_now_ms() - self->start_ms : 0;
    return self->before_ms + here_ms;
}

/* Returns the place; for a job with a time limit with the time spent so far. */
static cadre_training_place_t
timed(const cadre_training_records_t *self, const cadre_training_place_t *place)
{
    cadre_training_place_t now = *place;
    if (self->is_timed) {
        now.watch.elapsed_ms = cadre_training_records_elapsed_ms(self);
    }
    return now;
}

char *
cadre_training_records_encode(const cadre_training_records_t *self,
                              const cadre_training_place_t *place)
{
    const cadre_training_place_t now = timed(self, place);
    return cadre_training_place_encode(&now);
}

/* Callback of the coordinator, on its thread: returns the progress record of a checkpoint whose cut
 * is closure id `cut`. The plan counts the ids of its own closures alone. */
static char *
progress_at_cut(void *context, uint64_t cut, uint64_t of_clients)
{
    const cadre_training_record_t *record = context;
    cadre_training_place_t place = cadre_training_plan_at(&record->plan, cut - of_clients);
    if (record->since_ms > 0) {
        place.watch.elapsed_ms += cadre_clock_now_ms() - record->since_ms;
    }
    return cadre_training_place_encode(&place);
}

void
cadre_training_records_give(cadre_training_records_t *self, const cadre_training_plan_t *plan,
                            const cadre_training_place_t *place)
{
    const cadre_training_place_t *start = &plan->start;
    int64_t done = place->closures - start->closures;
    done += place->evaluations - start->evaluations;
    self->given = 1 - self->given;
    cadre_training_record_t *record = &self->items[self->given];
    *record = (cadre_training_record_t){.plan = *plan};
    record->plan.start = timed(self, place);
    record->plan.first_id = plan->first_id + (uint64_t)done;
    record->since_ms = self->is_timed ? cadre_clock_now_ms() : 0;
    cadre_checkpoint_on_cut(self->coordinator, progress_at_cut, record);
}
