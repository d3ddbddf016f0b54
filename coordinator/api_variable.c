/* The public calls on variables, functions and datasets. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cadre/coordinator.h>

#include "common/graph/program.h"
#include "common/memory.h"
#include "common/split.h"
#include "common/status.h"
#include "common/tensor.h"
#include "coordinator/coordinator.h"
#include "coordinator/options.h"

cadre_variable_options_t
cadre_variable_options(void)
{
    return (cadre_variable_options_t){.size = sizeof(cadre_variable_options_t)};
}

/* Whether each slot of `optimizer` is one of `before`: only then a ps takes them from the
 * checkpoint (slots are known by their names). */
static bool
has_slots(const cadre_optimizer_spec_t *before, const cadre_optimizer_spec_t *optimizer)
{
    size_t found = 0;
    size_t count = cadre_optimizer_slot_count(optimizer);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < cadre_optimizer_slot_count(before); k++) {
            found += strcmp(cadre_optimizer_slot_name(before, k),
                            cadre_optimizer_slot_name(optimizer, i)) == 0;
        }
    }
    return found == count;
}

/* Says that a variable goes on with another optimizer than the one in the resumed checkpoint. */
static void
tell_other_optimizer(cadre_coordinator_t *self, const cadre_variable_t *variable)
{
    char **resumed = cadre_name_map_get(&self->resumed_names, variable->name);
    const char *before =
        resumed ? self->resumed_optimizers[resumed - self->resumed_variables] : NULL;
    const char *now = cadre_optimizer_kind_text(variable->optimizer.kind);
    cadre_optimizer_spec_t spec;
    if (!before || variable->again || strcmp(before, now) == 0 ||
        cadre_optimizer_spec_parse(&spec, before) < 0) {
        return;
    }
    const char *next = "the values go on; its slots and steps begin anew";
    if (cadre_optimizer_slot_count(&variable->optimizer) == 0) {
        next = "the values go on; it has no slots";
    } else if (has_slots(&spec, &variable->optimizer)) {
        next = "the values go on, and the slots, which have the same names";
    }
    cadre_core_log(&self->core, 'W', "optimizer_changed", "variable=%s was=%s is=%s next=\"%s\"",
                   variable->name, before, now, next);
}

/* Under the lock. */
static int
create(cadre_coordinator_t *self, cadre_variable_t *variable)
{
    cadre_operation_t operation;
    int64_t timeout_ms = (int64_t)self->core.options.ps_timeout_ms;
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    int64_t since_ms = 0;
    variable->coordinator = self;
    while (self->core.membership.ps_joined < self->core.options.ps_count) {
        int status = cadre_coordinator_usable(self);
        if (status == 0) {
            status = cadre_coordinator_wait(self, deadline_ms, "every ps to join", &since_ms);
        }
        if (status < 0) {
            return status == CADRE_ETIMEOUT ? cadre_coordinator_fail_absent(self, 0) : status;
        }
    }
    cadre_core_create_variable(&self->core, variable, &operation);
    int status = cadre_coordinator_await(self, &operation, deadline_ms, "a variable to be created");
    if (status == 0) {
        variable->created = true;
        tell_other_optimizer(self, variable);
        cadre_core_announce_variable(&self->core, variable);
    }
    return status;
}

/* Whether the resumed checkpoint holds it and it was not created yet. */
static bool
is_resumed(const cadre_coordinator_t *self, const char *name)
{
    return name && cadre_name_map_get(&self->resumed_names, name) &&
           !cadre_catalogue_variable(&self->core.catalogue, name) &&
           !cadre_catalogue_was_dropped(&self->core.catalogue, name);
}

/* What the resumed checkpoint holds of a variable is lost to the job with its next checkpoint,
 * which holds only what was created by then: a shard that is restored later would begin with
 * initial values while the others have the resumed ones. */
static int
check_late(const cadre_coordinator_t *self, const char *name)
{
    if (!is_resumed(self, name) || strcmp(self->core.points[0].path, self->resumed_path) == 0) {
        return 0;
    }
    return cadre_fail(CADRE_ESTATE,
                      "variable %s: %s, which was resumed, holds it, and it had to be created "
                      "before the job's next checkpoint",
                      name, self->resumed_path);
}

/* Whether it is to be created later: ids are dense and in order of creation, one variable at a
 * time; another of its name may not be dropped yet; and a checkpoint under way will tell whether a
 * resumed one is too late. */
static bool
must_wait(const cadre_coordinator_t *self, const char *name)
{
    const cadre_variable_t *namesake =
        name ? cadre_catalogue_variable(&self->core.catalogue, name) : NULL;
    return self->core.creating || (namesake && namesake->dropped > 0) ||
           (self->core.checkpoint.state != CADRE_CHECKPOINT_IDLE && is_resumed(self, name));
}

int
cadre_variable_create(cadre_coordinator_t *self, const char *name, cadre_dtype_t dtype,
                      const int64_t *shape, int rank, const cadre_variable_options_t *given,
                      cadre_variable_t **out)
{
    cadre_variable_options_t options = cadre_variable_options();
    int status = cadre_options_take(given ? given : &options, &options, sizeof(options),
                                    "cadre_variable_options_t");
    if (status < 0) {
        return status;
    }
    cadre_tensor_t like = {.dtype = dtype, .rank = rank};
    status = cadre_shape_size(dtype, shape, rank, NULL, NULL);
    if (status < 0) {
        return cadre_fail_within(status, "variable %s", name ? name : "");
    }
    for (int i = 0; i < rank; i++) {
        like.shape[i] = shape[i];
    }
    cadre_gate_lock(self->gate);
    cadre_variable_t *variable = NULL;
    int64_t since_ms = 0;
    int64_t deadline_ms = cadre_gate_deadline_ms((int64_t)self->core.options.ps_timeout_ms);
    while (status == 0 && must_wait(self, name)) {
        status =
            cadre_coordinator_wait(self, deadline_ms, "another variable or checkpoint", &since_ms);
    }
    if (status == 0) {
        status = check_late(self, name);
    }
    if (status == 0) {
        status =
            cadre_catalogue_add_variable(&self->core.catalogue, name, &like, &options, &variable);
    }
    if (status == 0) {
        self->core.creating = true;
        status = create(self, variable);
        self->core.creating = false;
        cadre_gate_broadcast(self->gate);
        if (status < 0) {
            status = cadre_fail_within(status, "variable %s", name);
            cadre_core_forget_variable(&self->core, variable);
        }
    }
    cadre_gate_unlock_and_wake(self->gate);
    if (status == 0 && out) {
        *out = variable;
    }
    return status;
}

int
cadre_variable_drop(cadre_variable_t **self_p, int64_t timeout_ms)
{
    cadre_variable_t *self = self_p ? *self_p : NULL;
    if (!self) {
        return 0;
    }
    *self_p = NULL;
    cadre_coordinator_t *coordinator = self->coordinator;
    int64_t since_ms = 0;
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    cadre_gate_lock(coordinator->gate);
    uint64_t number = cadre_drops_call(&coordinator->core, self);
    cadre_drops_tick(&coordinator->core);
    int status = 0;
    while (status == 0 && coordinator->core.drops.retired < number) {
        status = cadre_coordinator_usable(coordinator);
        if (status == 0) {
            status = cadre_coordinator_wait(coordinator, deadline_ms,
                                            "closures that may use a variable to end", &since_ms);
        }
    }
    cadre_gate_unlock_and_wake(coordinator->gate);
    return status;
}

int
cadre_variable_read(cadre_variable_t *self, cadre_tensor_t *value, int64_t timeout_ms)
{
    if (!self) {
        return cadre_fail(CADRE_EINVALID, "this is no variable: NULL");
    }
    cadre_coordinator_t *coordinator = self->coordinator;
    cadre_tensor_t tensor = {0};
    int status = cadre_tensor_init(&tensor, self->dtype, self->shape, self->rank);
    if (status < 0) {
        return status;
    }
    cadre_operation_t operation = {.target = tensor.data};
    cadre_gate_lock(coordinator->gate);
    cadre_core_read_variable(&coordinator->core, self, &operation);
    status = cadre_coordinator_await(coordinator, &operation, cadre_gate_deadline_ms(timeout_ms),
                                     self->name);
    cadre_gate_unlock(coordinator->gate);
    if (status < 0 || !value) {
        cadre_tensor_fini(&tensor);
        return status;
    }
    *value = tensor;
    return 0;
}

/* Under the lock. Assignments are kept for a replay, so they wait for room like new closures. */
static int
await_room(cadre_coordinator_t *self, int64_t deadline_ms)
{
    int64_t since_ms = 0;
    int status = 0;
    while (status == 0 && self->core.replay_holds) {
        status = cadre_coordinator_usable(self);
        if (status == 0) {
            status = cadre_coordinator_wait(self, deadline_ms, "room for a replay", &since_ms);
        }
    }
    return status;
}

int
cadre_variable_assign(cadre_variable_t *self, cadre_assign_t mode, const cadre_tensor_t *value,
                      int64_t timeout_ms)
{
    char mine[CADRE_SHAPE_TEXT_SIZE];
    char theirs[CADRE_SHAPE_TEXT_SIZE];
    if (!self) {
        return cadre_fail(CADRE_EINVALID, "this is no variable: NULL");
    }
    if (mode != CADRE_SET && mode != CADRE_ADD && mode != CADRE_SUBTRACT) {
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
    cadre_coordinator_t *coordinator = self->coordinator;
    cadre_operation_t operation;
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    cadre_gate_lock(coordinator->gate);
    int status = await_room(coordinator, deadline_ms);
    if (status == 0) {
        cadre_core_assign_variable(&coordinator->core, self, (cadre_assign_mode_t)mode, value->data,
                                   &operation);
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
    memcpy(shape, self->shape, sizeof(self->shape));
    return self->rank;
}

int
cadre_variable_partition_count(const cadre_variable_t *self)
{
    return (int)self->partitions;
}

void
cadre_variable_partition(const cadre_variable_t *self, int partition, int64_t *first_row,
                         int64_t *rows, int *shard)
{
    *first_row = cadre_split_first(self->rows, self->partitions, partition);
    *rows = cadre_split_rows(self->rows, self->partitions, partition);
    *shard = self->shards[partition];
}

/* --- functions --- */

/* Under the lock: every variable of the program exists as the program says. */
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
        if (variable->dtype != CADRE_F32 ||
            !cadre_shape_equal(variable->shape, variable->rank, needed->shape, needed->rank)) {
            return cadre_fail(CADRE_ESHAPE, "program %s: variable %s is %s %s, not f32 %s",
                              cadre_program_name(program), needed->name,
                              cadre_dtype_text(variable->dtype),
                              cadre_shape_text(variable->shape, variable->rank, mine),
                              cadre_shape_text(needed->shape, needed->rank, theirs));
        }
    }
    return 0;
}

/* Under the lock. */
static int
add_function(cadre_coordinator_t *self, const cadre_function_t *like, cadre_function_t **out)
{
    bool is_new = false;
    cadre_function_t *function = NULL;
    int status = cadre_catalogue_add_function(&self->core.catalogue, like, &function, &is_new);
    if (status == 0 && is_new) {
        cadre_core_announce_function(&self->core, function);
    }
    if (status == 0 && out) {
        *out = function;
    }
    return status;
}

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
                             .program = cadre_chunk_new_copy(bytes, size_bytes)};
    cadre_gate_lock(self->gate);
    status = check_variables(self, program);
    if (status == 0) {
        status = add_function(self, &like, out);
    }
    cadre_gate_unlock_and_wake(self->gate);
    cadre_chunk_unref(&like.program);
    if (status == 0) {
        cadre_program_destroy(program_p);
    }
    return status;
}

int
cadre_function_native(cadre_coordinator_t *self, const char *name, cadre_function_t **out)
{
    cadre_function_t like = {.coordinator = self,
                             .kind = CADRE_FUNCTION_NATIVE,
                             .name = (char *)(uintptr_t)(name ? name : "")};
    cadre_gate_lock(self->gate);
    int status = add_function(self, &like, out);
    cadre_gate_unlock_and_wake(self->gate);
    return status;
}

/* --- datasets --- */

int
cadre_dataset_open(cadre_coordinator_t *self, const char *name, const char *description,
                   int64_t timeout_ms, cadre_dataset_t **out)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    int64_t since_ms = 0;
    cadre_dataset_t *dataset = NULL;
    cadre_gate_lock(self->gate);
    int status = cadre_catalogue_add_dataset(&self->core.catalogue, name, description, &dataset);
    if (status == 0) {
        dataset->coordinator = self;
        cadre_core_announce_dataset(&self->core, dataset);
    }
    while (status == 0 && !dataset->opened) {
        status = cadre_coordinator_usable(self);
        if (status == 0) {
            status =
                cadre_coordinator_wait(self, deadline_ms, "a worker to open the data", &since_ms);
        }
    }
    if (status == 0 && dataset->status < 0) {
        status = cadre_fail(dataset->status, "dataset %s: %s", name, dataset->text);
        dataset->name[0] = '\0'; /* the name is free for another try */
    }
    cadre_gate_unlock_and_wake(self->gate);
    if (status == 0 && out) {
        *out = dataset;
    }
    return status;
}

cadre_dataset_info_t
cadre_dataset_info(const cadre_dataset_t *self)
{
    return self->info;
}

int
cadre_dataset_begin(cadre_dataset_t *self, uint64_t epoch, int64_t first, int64_t batch_size,
                    bool shuffle, bool drop_last)
{
    if (batch_size < 1 || first < 0 || first > self->info.rows) {
        return cadre_fail(
            CADRE_EINVALID, "dataset %s: batch size %lld or first position %lld of %lld rows",
            self->name, (long long)batch_size, (long long)first, (long long)self->info.rows);
    }
    uint64_t order = 0;
    if (shuffle) {
        uint64_t key[] = {self->coordinator->core.options.seed, epoch};
        order = XXH3_64bits_withSeed(self->name, strlen(self->name), XXH3_64bits(key, sizeof(key)));
        order = order ? order : 1;
    }
    cadre_gate_lock(self->coordinator->gate);
    self->order = order;
    self->next = first;
    self->batch_size = batch_size;
    self->drop_last = drop_last;
    cadre_gate_unlock(self->coordinator->gate);
    return 0;
}

bool
cadre_dataset_next(cadre_dataset_t *self, cadre_batch_t *batch)
{
    cadre_gate_lock(self->coordinator->gate);
    int64_t left = self->info.rows - self->next;
    int64_t count = left < self->batch_size ? left : self->batch_size;
    bool more = count > 0 && !(self->drop_last && count < self->batch_size);
    if (more) {
        *batch = (cadre_batch_t){
            .dataset = self, .order = self->order, .first = self->next, .count = count};
        self->next += count;
    }
    cadre_gate_unlock(self->coordinator->gate);
    return more;
}
