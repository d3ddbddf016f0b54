/* The public call that puts values of a checkpoint back into the running job. */
#include <inttypes.h>
#include <stdlib.h>

#include <cadre/catalogue.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"
#include "common/tensor/tensor.h"
#include "coordinator/checkpoint_files.h"
#include "coordinator/coordinator.h"

/* Finds the variables that are to get values: those of the names, or all that the job has. The
 * caller frees the list. */
static int
find_variables(cadre_coordinator_t *self, const char *const *names, size_t *count,
               cadre_variable_t ***out)
{
    if (!names) {
        return cadre_variable_list(self, out, count);
    }

    cadre_auto(cadre_free) cadre_variable_t **found = cadre_calloc(*count + 1, sizeof(*found));
    for (size_t i = 0; i < *count; i++) {
        int status = cadre_variable_find(self, names[i], &found[i]);
        if (status < 0) {
            return status;
        }
    }
    *out = found;
    found = NULL;
    return 0;
}

/* Fails unless the variable has the dtype and shape in the checkpoint that it has in the job. */
static int
check_variable(const cadre_checkpoint_reader_t *reader, uint64_t checkpoint,
               const cadre_variable_t *variable)
{
    cadre_tensor_t like;
    int status = cadre_variable_check_dense(variable);
    if (status < 0) {
        return status;
    }
    status = cadre_checkpoint_files_like(reader, variable->name, &like);
    if (status < 0) {
        return status;
    }
    if (like.dtype != variable->dtype) {
        return cadre_fail(CADRE_EDTYPE, "variable %s is %s, and %s in checkpoint %" PRIu64,
                          variable->name, cadre_dtype_text(variable->dtype),
                          cadre_dtype_text(like.dtype), checkpoint);
    }
    if (!cadre_shape_equal(variable->shape, variable->rank, like.shape, like.rank)) {
        char mine[CADRE_SHAPE_TEXT_SIZE];
        char theirs[CADRE_SHAPE_TEXT_SIZE];
        return cadre_fail(CADRE_ESHAPE, "variable %s is %s, and %s in checkpoint %" PRIu64,
                          variable->name, cadre_shape_text(variable->shape, variable->rank, mine),
                          cadre_shape_text(like.shape, like.rank, theirs), checkpoint);
    }
    return 0;
}

/* Fails when a closure is queued or in flight: it would see some variables with values of before,
 * and others with those of the checkpoint. */
static int
check_quiet(cadre_coordinator_t *self)
{
    cadre_gate_lock(self->gate);
    bool is_quiet = cadre_closure_queue_done(&self->core.queue);
    cadre_gate_unlock(self->gate);
    return is_quiet ? 0
                    : cadre_fail(CADRE_ESTATE, "closures are queued or in flight: join, or cancel "
                                               "them, before values of a checkpoint are put back");
}

/* Returns the time that is left until the deadline, as the timeout of another call. */
static int64_t
left_until(int64_t deadline_ms)
{
    int64_t left_ms = deadline_ms == INT64_MAX ? -1 : deadline_ms - cadre_clock_now_ms();
    return deadline_ms == INT64_MAX || left_ms > 0 ? left_ms : 0;
}

/* Assigns the values that the checkpoint holds for one variable. */
static int
put_back(cadre_checkpoint_reader_t *reader, cadre_variable_t *variable, int64_t deadline_ms)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t value = {0};
    int status = cadre_checkpoint_files_values(reader, variable->name, &value);
    if (status < 0) {
        return status;
    }
    return cadre_variable_assign(variable, CADRE_VARIABLE_SET, &value, left_until(deadline_ms));
}

/* Puts values of a checkpoint back. Everything that can be wrong with it is found before the first
 * variable changes: its files are verified, and all variables are compared with it. */
int
cadre_checkpoint_restore_values(cadre_coordinator_t *self, uint64_t checkpoint,
                                const char *const *names, size_t count, int64_t timeout_ms)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    cadre_auto(cadre_free) cadre_variable_t **variables = NULL;
    int status = find_variables(self, names, &count, &variables);
    if (status < 0) {
        return status;
    }

    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    status = cadre_checkpoint_files_open(self, checkpoint, &reader);
    if (status < 0) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        status = check_variable(reader, checkpoint, variables[i]);
        if (status < 0) {
            return status;
        }
    }

    status = check_quiet(self);
    for (size_t i = 0; status == 0 && i < count; i++) {
        status = put_back(reader, variables[i], deadline_ms);
    }
    return status;
}
