#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/chunk_layout.h"
#include "common/memory.h"
#include "common/status.h"
#include "common/wire_dtype.h"
#include "ps/shard_state.h"

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

/* --- from a checkpoint --- */

/* CADRE_ENOTFOUND when the checkpoint does not hold the variable, CADRE_EDTYPE or CADRE_ESHAPE when
 * it holds another one of the same name. */
static int
check_stored(const cadre_loader_t *loader, const char *name, const cadre_partition_spec_t *spec)
{
    cadre_stored_variable_t stored = {.rank = 0};
    int status = loader->find(loader->context, name, &stored);
    if (status < 0) {
        return status;
    }
    if (stored.dtype != spec->dtype) {
        return cadre_fail(CADRE_EDTYPE, "the checkpoint holds it with another dtype");
    }
    if (stored.rank != spec->rank ||
        memcmp(stored.shape, spec->shape, sizeof(spec->shape[0]) * (size_t)spec->rank) != 0) {
        return cadre_fail(CADRE_ESHAPE, "the checkpoint holds it with another shape");
    }
    return 0;
}

static int
read_range(const cadre_loader_t *loader, const cadre_checkpoint_range_t *range, void *out,
           uint64_t *version)
{
    uint64_t here = 0;
    int status = loader->read(loader->context, range, out, &here);
    if (status == 0 && here > *version) {
        *version = here;
    }
    return status < 0 ? cadre_fail_within(status, "%s", range->kind) : 0;
}

/* Reads the values (slot < 0) or one slot, a chunk at a time; `version` becomes the largest. */
static int
load_kind(const cadre_loader_t *loader, const cadre_shard_part_t *part, int slot, uint64_t *version)
{
    const cadre_partition_spec_t *spec = cadre_partition_spec(part->partition);
    const cadre_chunk_layout_t *layout = cadre_partition_layout(part->partition);
    size_t element_size = cadre_dtype_size(spec->dtype);
    size_t row_size_bytes = spec->rows > 0 ? layout->size_bytes / (size_t)spec->rows : 0;
    int64_t first = (int64_t)(row_size_bytes / element_size) * spec->first_row;
    cadre_checkpoint_range_t range = {
        .variable = part->name,
        .kind = slot < 0 ? CADRE_CHECKPOINT_KIND_VALUE
                         : cadre_optimizer_slot_name(&spec->optimizer, (size_t)slot),
        .dtype = slot < 0 ? spec->dtype : CADRE_F32,
    };
    cadre_auto(cadre_free) void *bytes = cadre_aligned_alloc(CADRE_CHUNK_SIZE_MAX);
    int status = 0;
    for (size_t k = 0; status == 0 && k < layout->count; k++) {
        size_t offset = cadre_chunk_layout_offset(layout, k);
        size_t size_bytes = cadre_chunk_layout_size(layout, k);
        range.first_element = first + (int64_t)(offset / element_size);
        range.count = (int64_t)(size_bytes / element_size);
        status = read_range(loader, &range, bytes, version);
        if (status == 0) {
            status = cadre_partition_restore(part->partition, slot, offset, bytes, size_bytes);
        }
    }
    return status;
}

/* Loads values, slots and counts. Slots are taken all or none: where the checkpoint lacks one, it
 * was written under another optimizer, and CADRE_ENOTFOUND tells the caller to begin again without
 * them (`with_slots` false). */
static int
load(const cadre_loader_t *loader, cadre_shard_part_t *part, bool with_slots)
{
    const cadre_optimizer_spec_t *optimizer = &cadre_partition_spec(part->partition)->optimizer;
    size_t slots = with_slots ? cadre_optimizer_slot_count(optimizer) : 0;
    uint64_t version = 0;
    uint64_t steps = 0;
    for (size_t slot = 0; slot < slots; slot++) {
        int status = load_kind(loader, part, (int)slot, &steps);
        if (status < 0) {
            return status;
        }
    }
    int status = load_kind(loader, part, -1, &version);
    if (status == CADRE_ENOTFOUND) {
        return cadre_fail(CADRE_ECORRUPT, "the checkpoint names it and has no values of it");
    }
    cadre_partition_restore_counts(part->partition, version, steps);
    return status;
}

/* --- create --- */

/* Opens part->partition, with the values that the checkpoint has of it, if it has; `fresh`: what it
 * has under this name was another one. */
static int
open_partition(cadre_shard_t *self, cadre_shard_part_t *part, const cadre_partition_spec_t *spec,
               bool fresh)
{
    const cadre_loader_t *loader = &self->options.loader;
    int stored = self->loading && !fresh ? check_stored(loader, part->name, spec) : CADRE_ENOTFOUND;
    if (stored < 0 && stored != CADRE_ENOTFOUND) {
        return stored;
    }
    int status = cadre_partition_open(&part->partition, spec, self->pool);
    if (status < 0 || stored == CADRE_ENOTFOUND) {
        return status;
    }
    status = load(loader, part, true);
    if (status == CADRE_ENOTFOUND) {
        cadre_partition_close(&part->partition);
        status = cadre_partition_open(&part->partition, spec, self->pool);
        status = status == 0 ? load(loader, part, false) : status;
    }
    if (status < 0) {
        cadre_partition_close(&part->partition);
    }
    return status;
}

int
cadre_shard_create(cadre_shard_t *self, const cadre_create_message_t *create)
{
    cadre_partition_spec_t spec = {.rank = 0};
    int status = cadre_shard_check_generation(self, create->generation);
    if (status == 0) {
        status = decode_spec(create, &spec);
    }
    if (status < 0) {
        return status;
    }
    uint64_t key = create->variable << 16 | create->partition;
    const cadre_shard_part_t *known = cadre_u64_map_get(&self->parts, key);
    if (known) {
        if (strcmp(known->name, create->name) == 0 &&
            spec_equal(cadre_partition_spec(known->partition), &spec)) {
            return 0; /* said again */
        }
        return cadre_fail(CADRE_EEXISTS, "%s, partition %" PRIu64 ": exists and is another one",
                          known->name, create->partition);
    }
    if (create->variable <= self->dropped) {
        return cadre_fail(CADRE_EFENCED, "%s, partition %" PRIu64 ": was dropped", create->name,
                          create->partition);
    }
    cadre_shard_part_t *part = cadre_calloc(1, sizeof(*part));
    snprintf(part->name, sizeof(part->name), "%s", create->name);
    status = measure(self, &spec, &part->size_bytes);
    if (status == 0) {
        status = open_partition(self, part, &spec, create->fresh != 0);
    }
    if (status < 0) {
        free(part);
        return cadre_fail_within(status, "%s, partition %" PRIu64, create->name, create->partition);
    }
    self->size_bytes += part->size_bytes;
    cadre_u64_map_put(&self->parts, key, part);
    return 0;
}

/* --- drop --- */

/* Puts the keys of the variable's parts into `keys`, where that is not NULL; returns how many there
 * are. */
static size_t
find_parts(const cadre_shard_t *self, uint64_t variable, uint64_t *keys)
{
    size_t count = 0;
    const cadre_shard_part_t *part = NULL;
    for (size_t cursor = 0; (part = cadre_u64_map_next(&self->parts, &cursor));) {
        const cadre_partition_spec_t *spec = cadre_partition_spec(part->partition);
        if (spec->variable == variable && keys) {
            keys[count] = spec->variable << 16 | spec->partition;
        }
        count += spec->variable == variable;
    }
    return count;
}

int
cadre_shard_retire(cadre_shard_t *self, const cadre_retire_message_t *retire)
{
    int status = cadre_shard_check_generation(self, retire->generation);
    if (status < 0) {
        return status;
    }
    size_t count = find_parts(self, retire->variable, NULL);
    cadre_auto(cadre_free) uint64_t *keys = cadre_calloc(count, sizeof(*keys));
    find_parts(self, retire->variable, keys);
    for (size_t i = 0; i < count; i++) {
        cadre_shard_part_t *part = cadre_u64_map_get(&self->parts, keys[i]);
        part->retired = true;
        part->last_checkpoint = retire->checkpoint;
    }
    return 0;
}

int
cadre_shard_drop(cadre_shard_t *self, const cadre_drop_message_t *drop)
{
    int status = cadre_shard_check_generation(self, drop->generation);
    if (status < 0) {
        return status;
    }
    size_t count = find_parts(self, drop->variable, NULL);
    cadre_auto(cadre_free) uint64_t *keys = cadre_calloc(count, sizeof(*keys));
    find_parts(self, drop->variable, keys);
    for (size_t i = 0; i < count; i++) {
        cadre_shard_part_t *part = cadre_u64_map_take(&self->parts, keys[i]);
        self->size_bytes -= part->size_bytes;
        cadre_partition_close(&part->partition);
        cadre_partition_close(&part->image);
        free(part);
    }
    self->dropped = drop->variable > self->dropped ? drop->variable : self->dropped;
    return 0;
}
