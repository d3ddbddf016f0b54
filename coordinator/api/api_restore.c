/* The public calls that take a running job back to a checkpoint: wholly, or its values alone. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/catalogue.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/tensor.h"
#include "coordinator/api/checkpoint_rows.h"
#include "coordinator/checkpoint_files.h"
#include "coordinator/coordinator.h"
#include "coordinator/core/checkpoint/checkpoint_manifest.h"

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

/* Returns the shape that a variable has in a checkpoint: that of a table is [0, dim]. */
static cadre_tensor_t
shape_of(const cadre_variable_t *variable)
{
    const int first = variable->table ? 1 : 0;
    cadre_tensor_t like = {.dtype = variable->dtype, .rank = variable->rank + first};
    memcpy(like.shape + first, variable->shape, sizeof(int64_t) * (size_t)variable->rank);
    return like;
}

/* Fails unless the variable has the dtype and shape in the checkpoint that it has in the job. */
static int
check_variable(const cadre_checkpoint_reader_t *reader, uint64_t checkpoint,
               const cadre_variable_t *variable)
{
    const cadre_tensor_t own = shape_of(variable);
    cadre_tensor_t like;
    int status = cadre_checkpoint_files_like(reader, variable->name, &like);
    if (status < 0) {
        return status;
    }
    if (like.dtype != variable->dtype) {
        return cadre_fail(CADRE_EDTYPE, "variable %s is %s, and %s in checkpoint %" PRIu64,
                          variable->name, cadre_dtype_text(variable->dtype),
                          cadre_dtype_text(like.dtype), checkpoint);
    }
    if (!cadre_shape_equal(own.shape, own.rank, like.shape, like.rank)) {
        char mine[CADRE_SHAPE_TEXT_SIZE];
        char theirs[CADRE_SHAPE_TEXT_SIZE];
        return cadre_fail(CADRE_ESHAPE, "variable %s is %s, and %s in checkpoint %" PRIu64,
                          variable->name, cadre_shape_text(own.shape, own.rank, mine),
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

/* Assigns the values that the checkpoint holds for one variable. */
static int
put_back(cadre_checkpoint_reader_t *reader, cadre_variable_t *variable, int64_t deadline_ms)
{
    if (variable->table) {
        return cadre_checkpoint_rows_put(reader, variable, deadline_ms);
    }
    cadre_auto(cadre_tensor_fini) cadre_tensor_t value = {0};
    int status = cadre_checkpoint_files_values(reader, variable->name, &value);
    if (status < 0) {
        return status;
    }
    return cadre_variable_assign(variable, CADRE_VARIABLE_SET, &value,
                                 cadre_gate_left_ms(deadline_ms));
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

/* --- the whole state --- */

/* What a call takes from the checkpoint before the job changes. */
typedef struct {
    cadre_checkpoint_reader_t *reader;
    cadre_sequences_t sequences;
    char *progress;
    char *path;
} checkpoint_t;

static void
checkpoint_fini(checkpoint_t *self)
{
    cadre_checkpoint_reader_destroy(&self->reader);
    cadre_sequences_fini(&self->sequences);
    free(self->progress);
    free(self->path);
}

/* Opens and verifies the checkpoint, and reads what its manifest says of the job. */
static int
read_checkpoint(const cadre_coordinator_t *self, uint64_t id, checkpoint_t *checkpoint)
{
    int status = cadre_checkpoint_files_open(self, id, &checkpoint->reader);
    if (status < 0) {
        return status;
    }
    checkpoint->path = cadre_checkpoint_files_path(self, id);

    cadre_totals_t totals;
    const cadre_manifest_t *manifest = cadre_checkpoint_reader_manifest(checkpoint->reader);
    status = cadre_checkpoint_totals(manifest, &totals, &checkpoint->progress);
    return status < 0 ? status : cadre_checkpoint_sequences(manifest, &checkpoint->sequences);
}

/* Under the lock: makes this call the only one that takes the job back, and spares the checkpoint;
 * the store has then nothing left to delete. */
static int
spare(cadre_coordinator_t *self, uint64_t id, int64_t deadline_ms)
{
    cadre_checkpoint_t *state = &self->core.checkpoint;
    int64_t since_ms = 0;
    while (state->spared > 0 || !cadre_checkpoint_is_at_rest(state)) {
        int status = cadre_coordinator_wait_while_usable(self, deadline_ms, "a checkpoint to end",
                                                         &since_ms);
        if (status < 0) {
            return status;
        }
    }
    cadre_checkpoint_spare(state, id);
    return 0;
}

/* Under the lock: fails unless the checkpoint has every variable of the job, with its dtype and
 * shape. */
static int
check_all_variables(const cadre_coordinator_t *self, const checkpoint_t *checkpoint, uint64_t id)
{
    const cadre_catalogue_t *catalogue = &self->core.catalogue;
    for (uint32_t i = 0; i < catalogue->variable_count; i++) {
        const cadre_variable_t *variable = catalogue->variables[i];
        bool is_there = variable->created && variable->dropped == 0; /* not one that was dropped */
        int status = is_there ? check_variable(checkpoint->reader, id, variable) : 0;
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Under the lock: waits until the job may go back, and begins that in the same turn in which it was
 * compared with the checkpoint. */
static int
go_back(cadre_coordinator_t *self, checkpoint_t *checkpoint, uint64_t id, int64_t deadline_ms)
{
    int64_t since_ms = 0;
    const char *what = NULL;
    int status = 0;
    while ((status = cadre_restoration_check(&self->core.restoration, &what)) == CADRE_EAGAIN) {
        status = cadre_coordinator_wait_while_usable(self, deadline_ms, what, &since_ms);
        if (status < 0) {
            return status;
        }
    }
    status = status < 0 ? status : check_all_variables(self, checkpoint, id);
    if (status < 0) {
        return status;
    }

    cadre_restoration_begin(
        &self->core.restoration,
        &(cadre_restoration_target_t){checkpoint->path, id, &checkpoint->sequences});
    cadre_sequences_fini(&self->resumed_sequences);
    cadre_sequences_merge(&self->resumed_sequences, &checkpoint->sequences);
    return 0;
}

/* Under the lock: waits until every shard has been restored. */
static int
await_calm(cadre_coordinator_t *self, int64_t deadline_ms)
{
    int64_t since_ms = 0;
    while (!cadre_recovery_is_calm(&self->core.recovery)) {
        int status = cadre_coordinator_wait_while_usable(self, deadline_ms, "shards to be restored",
                                                         &since_ms);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* With the checkpoint spared: reads it without the lock, then takes the job back to it. */
static int
restore_spared(cadre_coordinator_t *self, uint64_t id, int64_t deadline_ms, char **progress)
{
    cadre_auto(checkpoint_fini) checkpoint_t checkpoint = {.reader = NULL};
    int status = read_checkpoint(self, id, &checkpoint);

    cadre_gate_lock(self->gate);
    status = status < 0 ? status : go_back(self, &checkpoint, id, deadline_ms);
    cadre_checkpoint_spare(&self->core.checkpoint, 0);
    cadre_gate_unlock_and_wake(self->gate);
    if (status < 0) {
        return status;
    }

    cadre_gate_lock(self->gate);
    status = await_calm(self, deadline_ms);
    cadre_gate_unlock_and_wake(self->gate);
    if (status == 0 && progress) {
        *progress = checkpoint.progress;
        checkpoint.progress = NULL;
    }
    return status;
}

/* Takes the job back to a checkpoint. */
int
cadre_checkpoint_restore(cadre_coordinator_t *self, uint64_t checkpoint, int64_t timeout_ms,
                         char **progress)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    cadre_gate_lock(self->gate);
    int status = spare(self, checkpoint, deadline_ms);
    cadre_gate_unlock(self->gate);
    return status < 0 ? status : restore_spared(self, checkpoint, deadline_ms, progress);
}
