#include "coordinator/core/members/table_totals.h"

#include "common/base/bounds.h"
#include "common/base/limits.h"

/* Each table is its variable, and then its counters. */
enum { TOLD = 1 + CADRE_TABLE_COUNTER_COUNT };

/* Adds what one ps tells of the table. */
static void
add_told(cadre_table_totals_t *self, const cadre_member_t *ps)
{
    for (size_t i = 0; i < ps->table_items; i += TOLD) {
        if (ps->tables[i] != self->table->id) {
            continue;
        }
        self->shards++;
        for (size_t k = 0; k < CADRE_TABLE_COUNTER_COUNT; k++) {
            const uint64_t told = ps->tables[i + 1 + k];
            uint64_t *total = &self->counters[k];
            *total = k == CADRE_TABLE_COUNTER_steps ? cadre_max_u64(*total, told) : *total + told;
        }
        return;
    }
}

size_t
cadre_table_totals(const cadre_catalogue_t *catalogue, const cadre_membership_t *members,
                   cadre_table_totals_t totals[CADRE_TABLES_TOLD_MAX])
{
    size_t count = 0;
    for (uint32_t i = 0; i < catalogue->variable_count && count < CADRE_TABLES_TOLD_MAX; i++) {
        const cadre_variable_t *variable = catalogue->variables[i];
        if (!variable->table || !variable->created || variable->dropped > 0) {
            continue;
        }
        totals[count] = (cadre_table_totals_t){.table = variable};
        for (uint32_t k = 0; k < members->ps_count; k++) {
            if (members->ps[k]) {
                add_told(&totals[count], members->ps[k]);
            }
        }
        count++;
    }
    return count;
}
