/* The public call that reads several variables as of one moment. */
#include <stdlib.h>

#include <cadre/coordinator.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/tensor.h"
#include "coordinator/coordinator.h"

/* Fails unless all are variables of this coordinator. */
static int
check_variables(const cadre_coordinator_t *self, cadre_variable_t *const *variables, size_t count,
                const cadre_tensor_t *values)
{
    if (count > 0 && (!variables || !values)) {
        return cadre_fail(CADRE_EINVALID, "read of %zu variables: there is no list of %s", count,
                          variables ? "values" : "them");
    }
    for (size_t i = 0; i < count; i++) {
        if (!variables[i]) {
            return cadre_fail(CADRE_EINVALID, "variable %zu of the list is none: NULL", i);
        }
        if (variables[i]->coordinator != self) {
            return cadre_fail(CADRE_EINVALID, "variable %s belongs to another coordinator",
                              variables[i]->name);
        }
        int status = cadre_variable_check_dense(variables[i]);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Under the lock, in a pause: waits until every closure that was begun has ended. */
static int
await_stillness(cadre_coordinator_t *self, int64_t deadline_ms)
{
    int64_t since_ms = 0;
    while (!cadre_pause_is_still(&self->core.pause)) {
        int status = cadre_coordinator_wait_while_usable(
            self, deadline_ms, "closures in flight to end, as variables are read together",
            &since_ms);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Under the lock: reads all, each into its tensor. */
static int
read_all(cadre_coordinator_t *self, cadre_variable_t *const *variables, size_t count,
         cadre_tensor_t *tensors, int64_t deadline_ms)
{
    cadre_operations_t *operations = &self->core.operations;
    cadre_auto(cadre_free) cadre_operation_t *reads = cadre_calloc(count, sizeof(*reads));
    for (size_t i = 0; i < count; i++) {
        reads[i].target = tensors[i].data;
        cadre_operations_read(operations, variables[i], &reads[i]);
    }

    int status = 0;
    for (size_t i = 0; i < count; i++) {
        if (status == 0) {
            status = cadre_coordinator_await(self, &reads[i], deadline_ms, variables[i]->name);
        } else {
            cadre_operations_give_up(operations, &reads[i]);
        }
    }
    return status;
}

/* Under the lock, in a pause: reads all when nothing changes any more; once more where a shard was
 * lost meanwhile, which may have answered after it was restored and before closures had run
 * again. */
static int
read_still(cadre_coordinator_t *self, cadre_variable_t *const *variables, size_t count,
           cadre_tensor_t *tensors, int64_t deadline_ms)
{
    uint64_t generations = 0;
    int status = 0;
    do {
        status = await_stillness(self, deadline_ms);
        generations = self->core.recovery.announced;
        status = status ? status : read_all(self, variables, count, tensors, deadline_ms);
    } while (status == 0 && generations != self->core.recovery.announced);
    return status;
}

/* Frees `count` tensors and their list. */
static void
free_tensors(cadre_tensor_t *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cadre_tensor_fini(&tensors[i]);
    }
    free(tensors);
}

/* Makes a tensor for each variable, which the caller frees. */
static int
make_tensors(cadre_variable_t *const *variables, size_t count, cadre_tensor_t **out)
{
    int status = 0;
    cadre_tensor_t *tensors = cadre_calloc(count, sizeof(*tensors));
    for (size_t i = 0; i < count && status == 0; i++) {
        const cadre_variable_t *variable = variables[i];
        status = cadre_tensor_init(&tensors[i], variable->dtype, variable->shape, variable->rank);
    }
    if (status < 0) {
        free_tensors(tensors, count);
        return status;
    }
    *out = tensors;
    return 0;
}

/* Reads several variables between two closures, and begins no closure meanwhile. */
int
cadre_variable_read_many(cadre_coordinator_t *self, cadre_variable_t *const *variables,
                         size_t count, cadre_tensor_t *values, int64_t timeout_ms)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    int status = check_variables(self, variables, count, values);
    if (status < 0 || count == 0) {
        return status;
    }
    cadre_tensor_t *tensors = NULL;
    status = make_tensors(variables, count, &tensors);
    if (status < 0) {
        return status;
    }

    cadre_gate_lock(self->gate);
    cadre_pause_begin(&self->core.pause);
    cadre_coordinator_cut_step_short(self);
    status = read_still(self, variables, count, tensors, deadline_ms);
    cadre_pause_end(&self->core.pause);
    cadre_gate_unlock_and_wake(self->gate);

    for (size_t i = 0; i < count && status == 0; i++) {
        cadre_tensor_fini(&values[i]);
        values[i] = tensors[i];
        tensors[i] = (cadre_tensor_t){.data = NULL};
    }
    free_tensors(tensors, count);
    return status;
}
