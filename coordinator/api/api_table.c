/* The public calls on tables that are not about their rows (api_create.c, api_rows.c). */
#include <cadre/table.h>

#include "common/base/status.h"
#include "coordinator/coordinator.h"

bool
cadre_variable_is_table(const cadre_variable_t *self)
{
    return self->table != NULL;
}

/* Reads the counters of all parts of a table, added up. */
int
cadre_variable_read_counts(cadre_variable_t *self, cadre_table_counts_t *counts, int64_t timeout_ms)
{
    uint64_t totals[CADRE_TABLE_COUNTER_COUNT];
    if (!self || !self->table) {
        return cadre_fail(CADRE_EINVALID, "counts of %s, which is no table",
                          self ? self->name : "NULL");
    }

    cadre_coordinator_t *coordinator = self->coordinator;
    cadre_operation_t operation = {.target = totals};
    cadre_gate_lock(coordinator->gate);
    cadre_operations_count_table(&coordinator->core.operations, self, &operation);
    int status = cadre_coordinator_await(coordinator, &operation,
                                         cadre_gate_deadline_ms(timeout_ms), self->name);
    cadre_gate_unlock(coordinator->gate);
    if (status < 0 || !counts) {
        return status;
    }

    *counts = (cadre_table_counts_t){
#define C(name) .name = totals[CADRE_TABLE_COUNTER_##name],
        CADRE_TABLE_COUNTERS(C)
#undef C
    };
    return 0;
}
