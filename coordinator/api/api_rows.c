/* The public calls on rows of variables, dense ones and tables. */
#include <inttypes.h>
#include <string.h>

#include <cadre/rows.h>
#include <cadre/table.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "common/tensor/tensor.h"
#include "coordinator/coordinator.h"
#include "coordinator/core/catalogue/variable_slots.h"
#include "coordinator/core/provisioning/row_plan.h"

/* Checks that rows may be asked of a variable: by key of a table, by number of a dense one. */
static int
check_kind(const cadre_variable_t *self, bool by_key)
{
    if (!self) {
        return cadre_fail(CADRE_EINVALID, "this is no variable: NULL");
    }
    if (by_key && !self->table) {
        return cadre_fail(CADRE_EINVALID, "variable %s is no table: its rows have no keys",
                          self->name);
    }
    return by_key ? 0 : cadre_variable_check_dense(self);
}

/* Checks that so many rows may be asked of a variable of the right kind. */
static int
check_count(const cadre_variable_t *self, bool by_key, size_t count)
{
    int status = check_kind(self, by_key);
    if (status < 0) {
        return status;
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

/* Gives the shape of `count` rows of a variable, and returns its rank. */
static int
rows_shape(const cadre_variable_t *self, size_t count, int64_t shape[CADRE_RANK_MAX])
{
    memcpy(shape, self->shape, sizeof(self->shape));
    if (self->table) { /* its shape is that of one row */
        shape[1] = shape[0];
    }
    shape[0] = (int64_t)count;
    return self->table ? 2 : self->rank;
}

/* Checks that all ids are rows of the variable. */
static int
check_ids(const cadre_variable_t *self, const int64_t *ids, size_t count)
{
    int status = check_count(self, false, count);
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

/* Reads the rows of a plan: of the values, or of a slot as a PULL names it. */
static int
read_planned(cadre_variable_t *self, const cadre_row_plan_t *plan, uint64_t slot,
             cadre_tensor_t *rows, int64_t timeout_ms)
{
    cadre_coordinator_t *coordinator = self->coordinator;
    cadre_auto(cadre_tensor_fini) cadre_tensor_t tensor = {0};
    int64_t shape[CADRE_RANK_MAX];
    const int rank = rows_shape(self, plan->count, shape);
    if (slot > 0 && self->table) {
        shape[1] = (int64_t)cadre_variable_slots_row_elements(self);
    }
    int status = cadre_tensor_init(&tensor, self->dtype, shape, rank);
    if (status < 0) {
        return status;
    }

    cadre_operation_t operation = {.target = tensor.data, .slot = slot};
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

/* Reads the rows of a variable that `ids` names, which were checked, in that order. */
static int
read_ids(cadre_variable_t *self, uint64_t slot, const int64_t *ids, size_t count,
         cadre_tensor_t *rows, int64_t timeout_ms)
{
    cadre_auto(cadre_row_plan_fini) cadre_row_plan_t plan;
    cadre_row_plan_init(&plan, self, ids, 0, count);
    return read_planned(self, &plan, slot, rows, timeout_ms);
}

int
cadre_variable_read_rows(cadre_variable_t *self, const int64_t *ids, size_t count,
                         cadre_tensor_t *rows, int64_t timeout_ms)
{
    int status = check_ids(self, ids, count);
    return status < 0 ? status : read_ids(self, 0, ids, count, rows, timeout_ms);
}

/* Reads rows of a slot of the variable's optimizer. */
int
cadre_variable_read_slot_rows(cadre_variable_t *self, const char *slot, const int64_t *ids,
                              size_t count, cadre_tensor_t *rows, int64_t timeout_ms)
{
    uint64_t number = 0;
    int status = check_ids(self, ids, count);
    status = status < 0 ? status : cadre_variable_slots_find(self, slot, &number);
    return status < 0 ? status : read_ids(self, number, ids, count, rows, timeout_ms);
}

/* Reads consecutive rows of a variable. */
int
cadre_variable_read_slice(cadre_variable_t *self, int64_t first, size_t count, cadre_tensor_t *rows,
                          int64_t timeout_ms)
{
    int status = check_count(self, false, count);
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
    return read_planned(self, &plan, 0, rows, timeout_ms);
}

/* --- ranges --- */

/* Gives the row that a number of a range means: a negative one counts from the end. The number must
 * be in low..high. */
static int
resolve(const cadre_variable_t *self, const char *what, int64_t number, int64_t low, int64_t high,
        int64_t *row)
{
    if (number < low || number > high) {
        return cadre_fail(CADRE_EINVALID,
                          "%s of a range is %" PRId64 ": of variable %s, which has %" PRId64
                          " rows, it is in %" PRId64 " to %" PRId64,
                          what, number, self->name, self->rows, low, high);
    }
    *row = number < 0 ? number + self->rows : number;
    return 0;
}

/* Gives the first row of a range and how many it has. */
static int
resolve_range(const cadre_variable_t *self, int64_t start, int64_t stop, int64_t step,
              int64_t *first, size_t *count)
{
    const int64_t n = self->rows;
    const bool is_up = step > 0;
    int64_t end = 0;
    if (step == 0) {
        return cadre_fail(CADRE_EINVALID, "the step of a range of variable %s is 0", self->name);
    }
    int status = resolve(self, "the start", start, -n, n - 1, first);
    if (status < 0) {
        return status;
    }
    status = resolve(self, "the stop", stop, is_up ? -n : -n - 1, is_up ? n : n - 1, &end);
    if (status < 0) {
        return status;
    }

    const int64_t width = is_up ? end - *first : *first - end;
    if (width <= 0) {
        return cadre_fail(CADRE_EINVALID,
                          "the range from %" PRId64 " to %" PRId64 " by %" PRId64
                          " of variable %s has no row",
                          start, stop, step, self->name);
    }
    /* as unsigned numbers, since the lowest int64_t has no positive counterpart */
    const uint64_t stride = is_up ? (uint64_t)step : 0 - (uint64_t)step;
    *count = (size_t)(((uint64_t)width - 1) / stride + 1);
    return check_count(self, false, *count);
}

/* Reads the rows of a range: as a slice where they are consecutive, else by their ids. */
int
cadre_variable_read_range(cadre_variable_t *self, int64_t start, int64_t stop, int64_t step,
                          cadre_tensor_t *rows, int64_t timeout_ms)
{
    int64_t first = 0;
    size_t count = 0;
    int status = check_count(self, false, 1);
    if (status < 0) {
        return status;
    }
    status = resolve_range(self, start, stop, step, &first, &count);
    if (status < 0) {
        return status;
    }
    if (step == 1) {
        return cadre_variable_read_slice(self, first, count, rows, timeout_ms);
    }

    cadre_auto(cadre_free) int64_t *ids = cadre_calloc(count, sizeof(*ids));
    for (size_t i = 0; i < count; i++) {
        ids[i] = first + (int64_t)i * step;
    }
    return cadre_variable_read_rows(self, ids, count, rows, timeout_ms);
}

/* --- assign --- */

/* Checks mode, dtype and shape of rows that are to be assigned; the ids were checked. */
static int
check_assign(const cadre_variable_t *self, cadre_assign_t mode, const cadre_tensor_t *rows,
             size_t count)
{
    char mine[CADRE_SHAPE_TEXT_SIZE];
    char theirs[CADRE_SHAPE_TEXT_SIZE];
    int64_t shape[CADRE_RANK_MAX];
    if ((int)mode < CADRE_VARIABLE_SET || mode > CADRE_VARIABLE_MAXIMUM) {
        return cadre_fail(CADRE_EINVALID, "assign rows of %s: %d is no mode", self->name,
                          (int)mode);
    }
    if (!rows || !rows->data) {
        return cadre_fail(CADRE_EINVALID, "assign rows of %s: there is no value", self->name);
    }
    if (rows->dtype != self->dtype) {
        return cadre_fail(CADRE_EDTYPE, "assign rows of %s: it is %s, the rows %s", self->name,
                          cadre_dtype_text(self->dtype), cadre_dtype_text(rows->dtype));
    }
    const int rank = rows_shape(self, count, shape);
    if (!cadre_shape_equal(shape, rank, rows->shape, rows->rank)) {
        return cadre_fail(CADRE_ESHAPE, "assign rows of %s: %zu of them are %s, not %s", self->name,
                          count, cadre_shape_text(shape, rank, mine),
                          cadre_shape_text(rows->shape, rows->rank, theirs));
    }
    if (mode == CADRE_VARIABLE_DIVIDE &&
        cadre_dtype_has_zero(rows->dtype, rows->data, (size_t)cadre_tensor_count(rows))) {
        return cadre_fail(CADRE_EINVALID, "assign rows of %s: a divisor is 0", self->name);
    }
    return 0;
}

/* Fails with CADRE_ENOTFINITE for a row that holds infinity or NaN. Shards would refuse such a
 * row too, but each for itself, with others assigned already. */
static int
check_finite(const cadre_variable_t *self, const int64_t *ids, const cadre_tensor_t *rows)
{
    const size_t count = (size_t)rows->shape[0];
    const size_t row_elements = self->row_size_bytes / cadre_dtype_size(self->dtype);
    for (size_t i = 0; i < count; i++) {
        const char *row = (const char *)rows->data + i * self->row_size_bytes;
        if (!cadre_dtype_is_finite(self->dtype, row, row_elements)) {
            return cadre_fail(CADRE_ENOTFINITE,
                              "assign rows of %s: number %zu, for %s %" PRIu64
                              ", holds infinity or NaN",
                              self->name, i, self->table ? "key" : "row", (uint64_t)ids[i]);
        }
    }
    return 0;
}

/* Checks what rows of valid ids are refused for. */
static int
check_rows(const cadre_variable_t *self, cadre_assign_t mode, const int64_t *ids, size_t count,
           const cadre_tensor_t *rows)
{
    int status = check_assign(self, mode, rows, count);
    if (status < 0) {
        return status;
    }
    return check_finite(self, ids, rows);
}

/* Under the lock: has the rows of a plan assigned, and waits until the shards have answered. */
static int
assign_planned(cadre_coordinator_t *self, const cadre_row_plan_t *plan, cadre_assign_t mode,
               const cadre_tensor_t *rows, int64_t deadline_ms)
{
    int status = cadre_coordinator_await_room(self, deadline_ms);
    if (status < 0) {
        return status;
    }
    cadre_operation_t operation;
    cadre_operations_assign_rows(&self->core.operations, plan, (cadre_assign_mode_t)mode,
                                 rows->data, &operation);
    return cadre_coordinator_await(self, &operation, deadline_ms, plan->variable->name);
}

/* Assigns to rows of valid ids. */
static int
assign_ids(cadre_variable_t *self, cadre_assign_t mode, const int64_t *ids, size_t count,
           const cadre_tensor_t *rows, int64_t timeout_ms)
{
    int status = check_rows(self, mode, ids, count, rows);
    if (status < 0) {
        return status;
    }

    cadre_gate_t *gate = self->coordinator->gate;
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    cadre_auto(cadre_row_plan_fini) cadre_row_plan_t plan;
    cadre_row_plan_init(&plan, self, ids, 0, count);
    cadre_gate_lock(gate);
    status = assign_planned(self->coordinator, &plan, mode, rows, deadline_ms);
    cadre_gate_unlock(gate);
    return status;
}

/* Assigns to rows of a variable. */
int
cadre_variable_assign_rows(cadre_variable_t *self, cadre_assign_t mode, const int64_t *ids,
                           size_t count, const cadre_tensor_t *rows, int64_t timeout_ms)
{
    int status = check_ids(self, ids, count);
    return status < 0 ? status : assign_ids(self, mode, ids, count, rows, timeout_ms);
}

/* --- tables --- */

/* Checks that keys may be asked of a variable. */
static int
check_keys(const cadre_variable_t *self, const uint64_t *keys, size_t count)
{
    int status = check_count(self, true, count);
    if (status < 0) {
        return status;
    }
    return keys ? 0 : cadre_fail(CADRE_EINVALID, "rows of table %s: there are no keys", self->name);
}

/* Reads the rows of a table by key, in the order of the keys. */
int
cadre_variable_read_keys(cadre_variable_t *self, const uint64_t *keys, size_t count,
                         cadre_tensor_t *rows, int64_t timeout_ms)
{
    int status = check_keys(self, keys, count);
    return status < 0 ? status : read_ids(self, 0, (const int64_t *)keys, count, rows, timeout_ms);
}

/* Reads a slot of the table's optimizer by key, in the order of the keys. */
int
cadre_variable_read_slot_keys(cadre_variable_t *self, const char *slot, const uint64_t *keys,
                              size_t count, cadre_tensor_t *rows, int64_t timeout_ms)
{
    uint64_t number = 0;
    int status = check_keys(self, keys, count);
    status = status < 0 ? status : cadre_variable_slots_find(self, slot, &number);
    return status < 0 ? status
                      : read_ids(self, number, (const int64_t *)keys, count, rows, timeout_ms);
}

/* Assigns to rows of a table by key. */
int
cadre_variable_assign_keys(cadre_variable_t *self, cadre_assign_t mode, const uint64_t *keys,
                           size_t count, const cadre_tensor_t *rows, int64_t timeout_ms)
{
    int status = check_keys(self, keys, count);
    if (status < 0) {
        return status;
    }
    return assign_ids(self, mode, (const int64_t *)keys, count, rows, timeout_ms);
}
