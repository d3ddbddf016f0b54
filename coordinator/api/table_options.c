#include "coordinator/api/table_options.h"

#include "coordinator/options.h"

_Static_assert((int)CADRE_TABLE_FULL_REFUSE == (int)CADRE_TABLE_REFUSE, "the numbers of a spec");
_Static_assert((int)CADRE_TABLE_FULL_LRU == (int)CADRE_TABLE_EVICT_LRU, "the numbers of a spec");
_Static_assert((int)CADRE_TABLE_FULL_LFU == (int)CADRE_TABLE_EVICT_LFU, "the numbers of a spec");

int
cadre_table_options_take(const cadre_table_options_t *given, cadre_table_options_t *out)
{
    *out = cadre_table_options();
    return given ? cadre_options_take(given, out, sizeof(*out), "cadre_table_options_t") : 0;
}

/* Sets what concerns updates. */
static int
set_optimizer(const cadre_table_options_t *self, cadre_optimizer_spec_t *optimizer)
{
    int status = cadre_optimizer_spec_take(optimizer, &self->optimizer);
    if (status < 0) {
        return status;
    }
    optimizer->clip_value = self->clip_value;
    return cadre_schedule_spec_take(&optimizer->schedule, &self->schedule);
}

/* Writes the options as a spec. */
int
cadre_table_options_spec(const cadre_table_options_t *self, uint32_t dim, cadre_table_spec_t *spec)
{
    *spec = cadre_table_spec(dim);
    int status = cadre_initializer_spec_take(&spec->initializer, &self->initializer);
    if (status < 0) {
        return status;
    }
    status = set_optimizer(self, &spec->optimizer);
    if (status < 0) {
        return status;
    }

    spec->storage = self->storage ? self->storage : CADRE_F32;
    spec->initializer.seed = self->seed;
    spec->row_wise = self->row_wise;
    spec->group_lasso = self->group_lasso;
    spec->admit_after = self->admit_after;
    spec->rows_max = self->rows_max;
    spec->when_full = self->when_full ? (cadre_table_policy_t)self->when_full : CADRE_TABLE_REFUSE;
    spec->age_max = self->age_max;
    spec->norm_min = self->norm_min;
    return 0;
}
