#include "ps/core/tables_told.h"

#include <string.h>

#include "common/base/memory.h"

void
cadre_tables_told_counters(const cadre_table_figures_t *figures,
                           uint64_t counters[CADRE_TABLE_COUNTER_COUNT])
{
#define COUNTER(name) figures->name,
    const uint64_t all[] = {CADRE_TABLE_COUNTERS(COUNTER)};
#undef COUNTER
    memcpy(counters, all, sizeof(all));
}

void
cadre_tables_told_add(cadre_tables_told_t *self, uint64_t variable,
                      const cadre_table_figures_t *figures)
{
    const size_t most = CADRE_COUNT_OF(self->items);
    size_t at = self->count; /* in front of those with a higher id */
    while (at > 0 && self->items[at - CADRE_TABLE_TOLD] > variable) {
        at -= CADRE_TABLE_TOLD;
    }
    if (at == most) {
        return;
    }
    self->count += self->count < most ? CADRE_TABLE_TOLD : 0;
    memmove(&self->items[at + CADRE_TABLE_TOLD], &self->items[at],
            (self->count - at - CADRE_TABLE_TOLD) * sizeof(self->items[0]));
    self->items[at] = variable;
    cadre_tables_told_counters(figures, &self->items[at + 1]);
}
