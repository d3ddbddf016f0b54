#include "ps/core/ps_counters.h"

void
cadre_ps_counters_clear(cadre_ps_counters_t *self)
{
    uint64_t malformed = self->items[CADRE_PS_COUNTER_malformed];
    *self = (cadre_ps_counters_t){.items = {0}};
    self->items[CADRE_PS_COUNTER_malformed] = malformed;
}

void
cadre_ps_counters_note(cadre_ps_counters_t *self, int counter)
{
    self->items[counter]++;
}

void
cadre_ps_counters_note_update(cadre_ps_counters_t *self, uint64_t size_bytes, uint64_t rows,
                              uint64_t staleness)
{
    self->items[CADRE_PS_COUNTER_applied]++;
    self->items[CADRE_PS_COUNTER_push_bytes] += size_bytes;
    self->items[CADRE_PS_COUNTER_rows_pushed] += rows;
    self->items[CADRE_PS_COUNTER_staleness_sum] += staleness;
    if (staleness > self->items[CADRE_PS_COUNTER_staleness_max]) {
        self->items[CADRE_PS_COUNTER_staleness_max] = staleness;
    }
}

void
cadre_ps_counters_note_late(cadre_ps_counters_t *self, bool is_compensated)
{
    cadre_ps_counters_note(self, is_compensated ? CADRE_PS_COUNTER_compensated
                                                : CADRE_PS_COUNTER_uncompensated);
}

void
cadre_ps_counters_note_pulled(cadre_ps_counters_t *self, uint64_t size_bytes, uint64_t rows)
{
    self->items[CADRE_PS_COUNTER_pull_bytes] += size_bytes;
    self->items[CADRE_PS_COUNTER_rows_pulled] += rows;
}

void
cadre_ps_counters_note_unchanged(cadre_ps_counters_t *self, uint64_t rows)
{
    self->items[CADRE_PS_COUNTER_rows_unchanged] += rows;
}

void
cadre_ps_counters_note_step(cadre_ps_counters_t *self, uint64_t step)
{
    self->step = step;
}

void
cadre_ps_counters_restore(cadre_ps_counters_t *self, const cadre_shard_state_t *state)
{
#define TAKE_OVER(name) self->items[CADRE_PS_COUNTER_##name] = state->name;
    CADRE_SHARD_COUNTER_LIST(TAKE_OVER)
#undef TAKE_OVER
}

void
cadre_ps_counters_store(const cadre_ps_counters_t *self, cadre_shard_state_t *state)
{
#define TAKE_OVER(name) state->name = self->items[CADRE_PS_COUNTER_##name];
    CADRE_SHARD_COUNTER_LIST(TAKE_OVER)
#undef TAKE_OVER
}
