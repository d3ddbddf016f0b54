#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/wire_dtype.h"
#include "common/tensor/chunk_layout.h"
#include "ps/core/shard_state.h"

/* --- the spec --- */

static int
decode_shape(const cadre_create_message_t *create, cadre_partition_spec_t *spec)
{
    if (create->shape.count > CADRE_RANK_MAX) {
        return cadre_fail(CADRE_ESHAPE, "rank %zu is over %d", create->shape.count, CADRE_RANK_MAX);
    }
    spec->rank = (int)create->shape.count;
    for (int i = 0; i < spec->rank; i++) {
        if (create->shape.items[i] > INT64_MAX) {
            return cadre_fail(CADRE_ESHAPE, "dimension %d is over its limit", i);
        }
        spec->shape[i] = (int64_t)create->shape.items[i];
    }
    return 0;
}

static int
decode_spec(const cadre_create_message_t *create, cadre_partition_spec_t *spec)
{
    if (!cadre_checkpoint_name_valid(create->name, CADRE_NAME_SIZE_MAX)) {
        return cadre_fail(CADRE_EINVALID, "a variable has a bad name");
    }
    if (!cadre_dtype_valid(create->dtype)) {
        return cadre_fail(CADRE_EDTYPE, "there is no dtype %" PRIu64, create->dtype);
    }
    if (create->partition >= create->partitions) {
        return cadre_fail(CADRE_EINVALID, "partition %" PRIu64 " of %" PRIu64, create->partition,
                          create->partitions);
    }
    cadre_dtype_t wire = CADRE_F32;
    int status = cadre_wire_dtype_decode(create->wire, (cadre_dtype_t)create->dtype, &wire);
    if (status < 0) {
        return status;
    }
    *spec = (cadre_partition_spec_t){.variable = create->variable,
                                     .partition = create->partition,
                                     .dtype = (cadre_dtype_t)create->dtype,
                                     .wire = wire,
                                     .first_row = (int64_t)create->first_row,
                                     .rows = (int64_t)create->rows};
    status = decode_shape(create, spec);
    if (status == 0) {
        status = cadre_initializer_spec_decode(&spec->initializer, create->initializer,
                                               create->initializer_parameters.items,
                                               create->initializer_parameters.count, create->seed);
    }
    if (status == 0) {
        status = cadre_optimizer_spec_decode(&spec->optimizer, create->optimizer,
                                             create->optimizer_parameters.items,
                                             create->optimizer_parameters.count);
    }
    return status;
}

static bool
numbers_equal(const double *left, const double *right, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (left[i] != right[i]) {
            return false;
        }
    }
    return true;
}

static bool
spec_equal(const cadre_partition_spec_t *left, const cadre_partition_spec_t *right)
{
    return left->dtype == right->dtype && left->wire == right->wire && left->rank == right->rank &&
           left->first_row == right->first_row && left->rows == right->rows &&
           left->initializer.kind == right->initializer.kind &&
           left->initializer.seed == right->initializer.seed &&
           left->optimizer.kind == right->optimizer.kind &&
           memcmp(left->shape, right->shape, sizeof(left->shape)) == 0 &&
           numbers_equal(left->initializer.parameters, right->initializer.parameters,
                         CADRE_INITIALIZER_PARAMETERS_MAX) &&
           numbers_equal(left->optimizer.parameters, right->optimizer.parameters,
                         CADRE_OPTIMIZER_PARAMETERS_MAX);
}

/* What the partition will take of the shard's memory, before a byte of it is taken. */
static int
measure(const cadre_shard_t *self, const cadre_partition_spec_t *spec, uint64_t *size_bytes)
{
    cadre_chunk_layout_t layout = {.count = 0};
    size_t row_size_bytes = 0;
    int row_rank = spec->rank > 0 ? spec->rank - 1 : 0;
    int status = cadre_shape_size(spec->dtype, spec->shape + 1, row_rank, NULL, &row_size_bytes);
    if (status == 0) {
        status = cadre_chunk_layout_init(&layout, (uint64_t)spec->rows, row_size_bytes);
    }
    if (status < 0) {
        return status;
    }
    if (layout.count > CADRE_MESSAGE_CHUNKS_MAX) {
        return cadre_fail(CADRE_ETOOLARGE,
                          "a partition of %zu chunks does not fit a message of %d: use more "
                          "partitions",
                          layout.count, CADRE_MESSAGE_CHUNKS_MAX);
    }
    /* 4,096 chunks of 1 MiB, slots of the same layout, the copy for the wire: no overflow. */
    *size_bytes = layout.size_bytes * (1 + cadre_optimizer_slot_count(&spec->optimizer));
    if (spec->wire != spec->dtype) {
        *size_bytes += cadre_chunk_layout_narrow(&layout, cadre_dtype_size(spec->dtype),
                                                 cadre_dtype_size(spec->wire))
                           .size_bytes;
    }
    if (*size_bytes > self->options.size_bytes_max - self->size_bytes) {
        return cadre_fail(CADRE_EFULL,
                          "%" PRIu64 " bytes more do not fit the shard, which holds %" PRIu64
                          " of at most %" PRIu64,
                          *size_bytes, self->size_bytes, self->options.size_bytes_max);
    }
    return 0;
}

/* --- create --- */

static uint64_t
key_of(const cadre_partition_spec_t *spec)
{
    return spec->variable << 16 | spec->partition;
}

void
cadre_shard_add_part(cadre_shard_t *self, cadre_shard_part_t *part)
{
    const cadre_partition_spec_t *spec = cadre_partition_spec(part->partition);
    cadre_u64_map_put(&self->parts, key_of(spec), part);
    part->next = cadre_u64_map_put(&self->variables, spec->variable, part);
}

/* Writes what everything begins with: some GiB, and as many seconds, at the most. */
static void
draw(const cadre_shard_t *self, cadre_partition_t *partition)
{
    const size_t chunks = cadre_partition_layout(partition)->count;
    const cadre_partition_spec_t *spec = cadre_partition_spec(partition);
    const int slots = (int)cadre_optimizer_slot_count(&spec->optimizer);
    for (int slot = -1; slot < slots; slot++) {
        for (size_t k = 0; k < chunks; k++) {
            cadre_partition_initialise(partition, slot, k);
            if (self->options.on_step) {
                self->options.on_step(self->options.step_context);
            }
        }
    }
}

/* Whether the checkpoint that is open may hold it: what is fresh it does not, whatever it has under
 * that name. */
static bool
is_loaded(const cadre_shard_t *self, const cadre_create_message_t *create)
{
    return self->loading && create->fresh == 0;
}

/* A part of the new spec, blank where it is to be loaded. */
static int
open_part(cadre_shard_t *self, const cadre_create_message_t *create,
          const cadre_partition_spec_t *spec, cadre_shard_part_t **out)
{
    cadre_shard_part_t *part = cadre_calloc(1, sizeof(*part));
    snprintf(part->name, sizeof(part->name), "%s", create->name);
    int status = measure(self, spec, &part->size_bytes);
    if (status == 0) {
        status = cadre_partition_open_blank(&part->partition, spec, self->pool);
    }
    if (status == 0 && !is_loaded(self, create)) {
        draw(self, part->partition);
    }
    if (status < 0) {
        free(part);
        return cadre_fail_within(status, "%s, partition %" PRIu64, create->name, create->partition);
    }
    self->size_bytes += part->size_bytes;
    *out = part;
    return 0;
}

static int
check_same(const cadre_shard_part_t *known, const cadre_partition_spec_t *its,
           const cadre_create_message_t *create, const cadre_partition_spec_t *spec)
{
    if (strcmp(known->name, create->name) == 0 && spec_equal(its, spec)) {
        return 0; /* said again */
    }
    return cadre_fail(CADRE_EEXISTS, "%s, partition %" PRIu64 ": exists and is another one",
                      known->name, create->partition);
}

/* Makes the part, which is not there; `pending`: it is answered when its load is back. */
static int
make_part(cadre_shard_t *self, const cadre_shard_question_t *question,
          const cadre_partition_spec_t *spec, bool *pending)
{
    const cadre_create_message_t *create = &question->message->create;
    if (create->variable <= self->dropped) {
        return cadre_fail(CADRE_EFENCED, "%s, partition %" PRIu64 ": was dropped", create->name,
                          create->partition);
    }
    cadre_shard_part_t *part = NULL;
    int status = open_part(self, create, spec, &part);
    if (status < 0) {
        return status;
    }
    *pending = is_loaded(self, create);
    if (*pending) {
        cadre_shard_load_part(self, question, &part);
    } else {
        cadre_shard_add_part(self, part);
    }
    return 0;
}

static int
create_part(cadre_shard_t *self, const cadre_shard_question_t *question, bool *pending)
{
    const cadre_create_message_t *create = &question->message->create;
    cadre_partition_spec_t spec = {.rank = 0};
    int status = cadre_shard_check_generation(self, create->generation);
    if (status == 0) {
        status = decode_spec(create, &spec);
    }
    if (status < 0) {
        return status;
    }
    const cadre_shard_part_t *known = cadre_u64_map_get(&self->parts, key_of(&spec));
    if (known) {
        return check_same(known, cadre_partition_spec(known->partition), create, &spec);
    }
    cadre_shard_loading_t *loading = cadre_u64_map_get(&self->loading_parts, key_of(&spec));
    if (!loading) {
        return make_part(self, question, &spec, pending);
    }
    status = check_same(loading->part, &loading->spec, create, &spec);
    if (status == 0) {
        *pending = true;
        cadre_shard_ask_again(loading, question);
    }
    return status;
}

void
cadre_shard_create(cadre_shard_t *self, const cadre_shard_question_t *question)
{
    bool pending = false;
    int status = create_part(self, question, &pending);
    if (!pending) {
        cadre_shard_reply(self, question, status);
    }
}

/* --- drop --- */

int
cadre_shard_retire(cadre_shard_t *self, const cadre_retire_message_t *retire)
{
    int status = cadre_shard_check_generation(self, retire->generation);
    if (status < 0) {
        return status;
    }
    cadre_shard_part_t *part = cadre_u64_map_get(&self->variables, retire->variable);
    for (; part; part = part->next) {
        part->retired = true;
        part->last_checkpoint = retire->checkpoint;
    }
    return 0;
}

int
cadre_shard_drop(cadre_shard_t *self, const cadre_drop_message_t *drop, cadre_outbox_t *outbox)
{
    int status = cadre_shard_check_generation(self, drop->generation);
    if (status < 0) {
        return status;
    }
    cadre_shard_drop_loads(self, drop->variable, outbox);
    cadre_shard_part_t *next = cadre_u64_map_take(&self->variables, drop->variable);
    while (next) {
        cadre_shard_part_t *part = next;
        next = part->next;
        cadre_u64_map_take(&self->parts, key_of(cadre_partition_spec(part->partition)));
        self->size_bytes -= part->size_bytes;
        cadre_partition_close(&part->partition);
        cadre_partition_close(&part->image);
        free(part);
    }
    self->dropped = drop->variable > self->dropped ? drop->variable : self->dropped;
    return 0;
}
