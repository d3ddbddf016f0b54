/* The public calls on rows of variables. */
#include <inttypes.h>
#include <string.h>

#include <cadre/rows.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/coordinator.h"
#include "coordinator/core/provisioning/row_plan.h"

/* Checks that so many rows may be asked of a variable. */
static int
check_count(const cadre_variable_t *self, size_t count)
{
    if (!self) {
        return cadre_fail(CADRE_EINVALID, "this is no variable: NULL");
    }
    if (self->rank == 0) {
        return cadre_fail(CADRE_ESHAPE, "variable %s is a scalar and has no rows", self->name);
    }
    if (count == 0) {
        return cadre_fail(CADRE_EINVALID, "no row of variable %s is asked for", self->name);
    }
    if (count > CADRE_ROWS_PER_CALL_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "%zu rows of variable %s: one call takes %d", count,
                          self->name, CADRE_ROWS_PER_CALL_MAX);
    }
    return 0;
}

/* Checks that all ids are rows of the variable. */
static int
check_ids(const cadre_variable_t *self, const int64_t *ids, size_t count)
{
    int status = check_count(self, count);
    if (status < 0) {
        return status;
    }
    if (!ids) {
        return cadre_fail(CADRE_EINVALID, "rows of variable %s: there are no ids", self->name);
    }
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= self->rows) {
            return cadre_fail(CADRE_EINVALID,
                              "id %zu is %" PRId64 ", variable %s has rows 0 to %" PRId64, i,
                              ids[i], self->name, self->rows - 1);
        }
    }
    return 0;
}

/* Reads the rows of a plan. */
static int
read_planned(cadre_variable_t *self, const cadre_row_plan_t *plan, cadre_tensor_t *rows,
             int64_t timeout_ms)
{
    cadre_coordinator_t *coordinator = self->coordinator;
    cadre_auto(cadre_tensor_fini) cadre_tensor_t tensor = {0};
    int64_t shape[CADRE_RANK_MAX];
    memcpy(shape, self->shape, sizeof(shape));
    shape[0] = (int64_t)plan->count;
    int status = cadre_tensor_init(&tensor, self->dtype, shape, self->rank);
    if (status < 0) {
        return status;
    }

    cadre_operation_t operation = {.target = tensor.data};
    cadre_gate_lock(coordinator->gate);
    cadre_operations_read_rows(&coordinator->core.operations, plan, &operation);
    status = cadre_coordinator_await(coordinator, &operation, cadre_gate_deadline_ms(timeout_ms),
                                     self->name);
    cadre_gate_unlock(coordinator->gate);
    if (status < 0 || !rows) {
        return status;
    }

    cadre_tensor_fini(rows);
    *rows = tensor;
    tensor = (cadre_tensor_t){0};
    return 0;
}

/* Reads the rows of a variable that `ids` names, in that order. */
int
cadre_variable_read_rows(cadre_variable_t *self, const int64_t *ids, size_t count,
                         cadre_tensor_t *rows, int64_t timeout_ms)
{
    int status = check_ids(self, ids, count);
    if (status < 0) {
        return status;
    }

    cadre_auto(cadre_row_plan_fini) cadre_row_plan_t plan;
    cadre_row_plan_init(&plan, self, ids, 0, count);
    return read_planned(self, &plan, rows, timeout_ms);
}

/* Reads consecutive rows of a variable. */
int
cadre_variable_read_slice(cadre_variable_t *self, int64_t first, size_t count, cadre_tensor_t *rows,
                          int64_t timeout_ms)
{
    int status = check_count(self, count);
    if (status < 0) {
        return status;
    }
    if (first < 0 || first > self->rows || (int64_t)count > self->rows - first) {
        return cadre_fail(CADRE_EINVALID,
                          "%zu rows from %" PRId64 " on, variable %s has rows 0 to %" PRId64, count,
                          first, self->name, self->rows - 1);
    }

    cadre_auto(cadre_row_plan_fini) cadre_row_plan_t plan;
    cadre_row_plan_init(&plan, self, NULL, first, count);
    return read_planned(self, &plan, rows, timeout_ms);
}
