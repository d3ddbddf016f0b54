#include "worker/core/worker_counters.h"

void
cadre_worker_counters_note(cadre_worker_counters_t *self, int counter)
{
    self->items[counter]++;
}

void
cadre_worker_counters_add(cadre_worker_counters_t *self, int counter, uint64_t amount)
{
    self->items[counter] += amount;
}
