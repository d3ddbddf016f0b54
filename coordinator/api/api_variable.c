/* The public calls on variables and functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/coordinator.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/graph/program.h"
#include "common/tensor/dtype.h"
#include "common/tensor/split.h"
#include "common/tensor/tensor.h"
#include "coordinator/coordinator.h"
#include "coordinator/core/catalogue/variable_slots.h"

/* Under the lock: waits until no closure can name the variable that was dropped by drop `number`
 * any more. The synchronous step that is being filled ends with the closures it has, or they would
 * be waited for without end. */
static int
await_retired(cadre_coordinator_t *self, uint64_t number, int64_t deadline_ms)
{
    int64_t since_ms = 0;
    cadre_coordinator_cut_step_short(self);
    while (self->core.drops.retired < number) {
        int status = cadre_coordinator_wait_while_usable(
            self, deadline_ms, "closures that may use a variable to end", &since_ms);
        if (status < 0) {
            return cadre_coordinator_fail_unended(self, &(cadre_waited_t){.drop = number}, status);
        }
    }
    return 0;
}

/* Drops a variable, and waits until closures that may use it have ended. The drop stands even if
 * the wait fails. */
int
cadre_variable_drop(cadre_variable_t **self_p, int64_t timeout_ms)
{
    cadre_variable_t *self = self_p ? *self_p : NULL;
    if (!self) {
        return 0;
    }

    *self_p = NULL;

    cadre_coordinator_t *coordinator = self->coordinator;
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);

    cadre_gate_lock(coordinator->gate);
    uint64_t number = cadre_core_drop_variable(&coordinator->core, self);
    cadre_core_advance_drops(&coordinator->core);
    int status = await_retired(coordinator, number, deadline_ms);
    cadre_gate_unlock_and_wake(coordinator->gate);
    return status;
}

/* Reads what `operation` names: the values, their running average or a slot, which the variable
 * has. */
static int
read_one(cadre_variable_t *self, cadre_operation_t operation, cadre_tensor_t *value,
         int64_t timeout_ms)
{
    cadre_coordinator_t *coordinator = self->coordinator;
    cadre_tensor_t tensor = {0};
    int status = cadre_variable_check_dense(self);
    if (status < 0) {
        return status;
    }
    status = cadre_tensor_init(&tensor, self->dtype, self->shape, self->rank);
    if (status < 0) {
        return status;
    }

    operation.target = tensor.data;
    cadre_gate_lock(coordinator->gate);
    cadre_operations_read(&coordinator->core.operations, self, &operation);
    status = cadre_coordinator_await(coordinator, &operation, cadre_gate_deadline_ms(timeout_ms),
                                     self->name);
    cadre_gate_unlock(coordinator->gate);
    if (status < 0 || !value) {
        cadre_tensor_fini(&tensor);
        return status;
    }

    cadre_tensor_fini(value);
    *value = tensor;
    return 0;
}

int
cadre_variable_read(cadre_variable_t *self, cadre_tensor_t *value, int64_t timeout_ms)
{
    if (!self) {
        return cadre_fail(CADRE_EINVALID, "this is no variable: NULL");
    }
    return read_one(self, (cadre_operation_t){.average = false}, value, timeout_ms);
}

/* Reads the running average of a variable that was created with one. */
int
cadre_variable_read_average(cadre_variable_t *self, cadre_tensor_t *value, int64_t timeout_ms)
{
    if (!self) {
        return cadre_fail(CADRE_EINVALID, "this is no variable: NULL");
    }
    if (self->optimizer.average_momentum == 0) {
        return cadre_fail(CADRE_EINVALID,
                          "variable %s keeps no average: create it with average_momentum",
                          self->name);
    }
    return read_one(self, (cadre_operation_t){.average = true}, value, timeout_ms);
}

int
cadre_variable_slot_count(const cadre_variable_t *self)
{
    return (int)cadre_optimizer_slot_count(&self->optimizer);
}

const char *
cadre_variable_slot_name(const cadre_variable_t *self, int slot)
{
    const bool is_there = slot >= 0 && slot < cadre_variable_slot_count(self);
    return is_there ? cadre_optimizer_slot_name(&self->optimizer, (size_t)slot) : NULL;
}

/* Reads a slot of a variable's optimizer by its name, with the steps of each part. */
int
cadre_variable_read_slot(cadre_variable_t *self, const char *slot, cadre_tensor_t *value,
                         uint64_t *steps, int64_t timeout_ms)
{
    if (!self) {
        return cadre_fail(CADRE_EINVALID, "this is no variable: NULL");
    }
    cadre_operation_t operation = {.steps = steps};
    int status = cadre_variable_slots_find(self, slot, &operation.slot);
    return status < 0 ? status : read_one(self, operation, value, timeout_ms);
}

/* Reads a variable of one element as a number. */
int
cadre_variable_read_number(cadre_variable_t *self, double *number, int64_t timeout_ms)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t value = {0};
    int status = cadre_variable_read(self, &value, timeout_ms);
    if (status < 0) {
        return status;
    }
    return cadre_tensor_number(&value, number);
}

/* Checks that a value can be assigned: mode, dtype and shape. */
static int
check_assign(const cadre_variable_t *self, cadre_assign_t mode, const cadre_tensor_t *value)
{
    char mine[CADRE_SHAPE_TEXT_SIZE];
    char theirs[CADRE_SHAPE_TEXT_SIZE];

    if (!self) {
        return cadre_fail(CADRE_EINVALID, "this is no variable: NULL");
    }

    int status = cadre_variable_check_dense(self);
    if (status < 0) {
        return status;
    }

    if ((int)mode < CADRE_VARIABLE_SET || mode > CADRE_VARIABLE_MAXIMUM) {
        return cadre_fail(CADRE_EINVALID, "assign to %s: %d is no mode", self->name, (int)mode);
    }

    if (!value || !value->data) {
        return cadre_fail(CADRE_EINVALID, "assign to %s: there is no value", self->name);
    }

    if (value->dtype != self->dtype) {
        return cadre_fail(CADRE_EDTYPE, "assign to %s: it is %s, the value %s", self->name,
                          cadre_dtype_text(self->dtype), cadre_dtype_text(value->dtype));
    }

    if (!cadre_shape_equal(self->shape, self->rank, value->shape, value->rank)) {
        return cadre_fail(CADRE_ESHAPE, "assign to %s: it is %s, the value %s", self->name,
                          cadre_shape_text(self->shape, self->rank, mine),
                          cadre_shape_text(value->shape, value->rank, theirs));
    }

    if (mode == CADRE_VARIABLE_DIVIDE &&
        cadre_dtype_has_zero(value->dtype, value->data, (size_t)cadre_tensor_count(value))) {
        return cadre_fail(CADRE_EINVALID, "assign to %s: a divisor is 0", self->name);
    }

    return 0;
}

/* Under the lock: has the value assigned on every part, and waits until the shards have
 * answered. */
static int
assign(cadre_variable_t *self, cadre_assign_t mode, const cadre_tensor_t *value,
       int64_t deadline_ms)
{
    int status = cadre_coordinator_await_room(self->coordinator, deadline_ms);
    if (status < 0) {
        return status;
    }
    cadre_operation_t operation;
    cadre_operations_assign(&self->coordinator->core.operations, self, (cadre_assign_mode_t)mode,
                            value->data, &operation);
    return cadre_coordinator_await(self->coordinator, &operation, deadline_ms, self->name);
}

/* Sets a variable to a value, or adds or subtracts the value. */
int
cadre_variable_assign(cadre_variable_t *self, cadre_assign_t mode, const cadre_tensor_t *value,
                      int64_t timeout_ms)
{
    int status = check_assign(self, mode, value);
    if (status < 0) {
        return status;
    }

    cadre_gate_t *gate = self->coordinator->gate;
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);

    cadre_gate_lock(gate);
    status = assign(self, mode, value, deadline_ms);
    cadre_gate_unlock(gate);
    return status;
}

/* Changes the schedule of the variable, then asks its shards by a CREATE of each part, from which
 * they take over the longer schedule. A shard that is restored meanwhile is created with it. */
int
cadre_variable_change_rate(cadre_variable_t *self, uint64_t updates, double rate,
                           int64_t timeout_ms)
{
    cadre_coordinator_t *coordinator = self->coordinator;
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    cadre_operation_t operation = {.pending = 0};

    cadre_gate_lock(coordinator->gate);
    int status = cadre_catalogue_change_rate(self, updates, rate);
    if (status == 0) {
        cadre_operations_create(&coordinator->core.operations, self, &operation);
        status = cadre_coordinator_await(coordinator, &operation, deadline_ms, self->name);
    }
    cadre_gate_unlock(coordinator->gate);
    return status;
}

const char *
cadre_variable_name(const cadre_variable_t *self)
{
    return self->name;
}

cadre_dtype_t
cadre_variable_dtype(const cadre_variable_t *self)
{
    return self->dtype;
}

cadre_dtype_t
cadre_variable_wire(const cadre_variable_t *self)
{
    return self->wire;
}

int
cadre_variable_shape(const cadre_variable_t *self, int64_t shape[CADRE_RANK_MAX])
{
    if (shape) {
        memcpy(shape, self->shape, sizeof(self->shape));
    }
    return self->rank;
}

int
cadre_variable_partition_count(const cadre_variable_t *self)
{
    return (int)self->partitions;
}

/* Gives the rows of a part, and the shard that has it; each output may be NULL. */
void
cadre_variable_partition(const cadre_variable_t *self, int partition, int64_t *first_row,
                         int64_t *rows, int *shard)
{
    if (first_row) {
        *first_row = cadre_split_first(self->rows, self->partitions, partition);
    }
    if (rows) {
        *rows = cadre_split_rows(self->rows, self->partitions, partition);
    }
    if (shard) {
        *shard = self->shards[partition];
    }
}

/* --- functions --- */

/* Returns whether it is what a program needs: a table looks to programs like a variable of
 * CADRE_PROGRAM_TABLE_ROWS rows. */
static bool
serves(const cadre_variable_t *self, const cadre_program_variable_t *needed)
{
    int64_t shape[CADRE_RANK_MAX];
    int rank = self->rank;
    memcpy(shape, self->shape, sizeof(shape));
    if (self->table) {
        shape[0] = CADRE_PROGRAM_TABLE_ROWS;
        shape[1] = self->shape[0];
        rank = 2;
    }
    return self->dtype == needed->dtype &&
           cadre_shape_equal(shape, rank, needed->shape, needed->rank);
}

/* Under the lock: checks that every variable of the program exists, with the dtype and shape that
 * the program says. */
static int
check_variables(const cadre_coordinator_t *self, const cadre_program_t *program)
{
    for (int i = 0; i < cadre_program_variable_count(program); i++) {
        const cadre_program_variable_t *needed = cadre_program_variable(program, i);
        const cadre_variable_t *variable =
            cadre_catalogue_variable(&self->core.catalogue, needed->name);
        char mine[CADRE_SHAPE_TEXT_SIZE];
        char theirs[CADRE_SHAPE_TEXT_SIZE];

        if (!variable || !variable->created || variable->dropped > 0) {
            return cadre_fail(CADRE_ENOTFOUND, "program %s: there is no variable %s",
                              cadre_program_name(program), needed->name);
        }

        if (!serves(variable, needed)) {
            return cadre_fail(CADRE_ESHAPE, "program %s: variable %s is %s %s, not %s %s",
                              cadre_program_name(program), needed->name,
                              cadre_dtype_text(variable->dtype),
                              cadre_shape_text(variable->shape, variable->rank, mine),
                              cadre_dtype_text(needed->dtype),
                              cadre_shape_text(needed->shape, needed->rank, theirs));
        }
    }

    return 0;
}

/* Under the lock: adds a function like `like` and tells workers of it, or gives the function that
 * was registered with the same content before. */
static int
add_function(cadre_coordinator_t *self, const cadre_function_t *like, cadre_function_t **out)
{
    bool is_new = false;
    cadre_function_t *function = NULL;
    int status = cadre_catalogue_add_function(&self->core.catalogue, like, &function, &is_new);
    if (status < 0) {
        return status;
    }
    if (is_new) {
        cadre_announcements_tell_function(&self->core.announcements, function);
    }
    if (out) {
        *out = function;
    }

    return 0;
}

/* Under the lock: checks the variables that the program names, and adds it as a function. */
static int
add_program(cadre_coordinator_t *self, const cadre_program_t *program, const cadre_function_t *like,
            cadre_function_t **out)
{
    int status = check_variables(self, program);
    if (status < 0) {
        return status;
    }
    return add_function(self, like, out);
}

/* Registers a program as a function, and destroys the program: workers get its encoded bytes. */
int
cadre_function_register(cadre_coordinator_t *self, cadre_program_t **program_p,
                        cadre_function_t **out)
{
    cadre_program_t *program = program_p ? *program_p : NULL;
    int status = program ? cadre_program_finish(program)
                         : cadre_fail(CADRE_EINVALID, "this is no program: NULL");
    if (status < 0) {
        return status;
    }

    size_t size_bytes = 0;
    const uint8_t *bytes = cadre_program_bytes(program, &size_bytes);
    cadre_function_t like = {.coordinator = self,
                             .kind = CADRE_FUNCTION_PROGRAM,
                             .name = (char *)(uintptr_t)cadre_program_name(program),
                             .hash = cadre_program_hash(program),
                             .may_push = cadre_program_push_count(program) > 0,
                             .program = cadre_chunk_new_copy(bytes, size_bytes)};

    cadre_gate_lock(self->gate);
    status = add_program(self, program, &like, out);
    cadre_gate_unlock_and_wake(self->gate);
    cadre_chunk_unref(&like.program);
    if (status < 0) {
        return status;
    }

    cadre_program_destroy(program_p);
    return 0;
}

/* Gives the native function of this name, which workers may or may not have. What it does is not
 * known here, so it counts as one that may push. */
int
cadre_function_native(cadre_coordinator_t *self, const char *name, cadre_function_t **out)
{
    cadre_function_t like = {.coordinator = self,
                             .kind = CADRE_FUNCTION_NATIVE,
                             .may_push = true,
                             .name = (char *)(uintptr_t)(name ? name : "")};
    cadre_gate_lock(self->gate);
    int status = add_function(self, &like, out);
    cadre_gate_unlock_and_wake(self->gate);
    return status;
}
