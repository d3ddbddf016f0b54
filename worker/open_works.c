#include "worker/open_works.h"

#include <stdlib.h>

#include "common/base/memory.h"

void
cadre_open_works_init(cadre_open_works_t *self, size_t place_count)
{
    *self = (cadre_open_works_t){.places = cadre_calloc(place_count, sizeof(*self->places))};
    self->started_last_p = &self->started;
}

void
cadre_open_works_fini(cadre_open_works_t *self)
{
    free(self->places);
    self->places = NULL;
}

cadre_work_t *
cadre_open_works_start(cadre_open_works_t *self, cadre_run_t *run)
{
    cadre_work_t *work = cadre_work_new(run);
    self->places[run->slot] = work;
    *self->started_last_p = work;
    self->started_last_p = &work->next;
    self->count++;
    return work;
}

cadre_work_t *
cadre_open_works_at(const cadre_open_works_t *self, uint32_t place)
{
    return self->places[place];
}

void
cadre_open_works_end(cadre_open_works_t *self, const cadre_work_t *work)
{
    self->places[work->run->slot] = NULL;
    self->count--;
}

void
cadre_open_works_put(cadre_open_works_t *self, cadre_work_queue_t *queue)
{
    cadre_work_queue_put(queue, self->started);
    self->started = NULL;
    self->started_last_p = &self->started;
}
