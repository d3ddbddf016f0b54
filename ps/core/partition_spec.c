#include "ps/core/partition_spec.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/bounds.h"
#include "common/base/status.h"
#include "common/checkpoint/shard_file.h"
#include "common/spec/wire_dtype.h"
#include "common/tensor/chunk_layout.h"
#include "common/tensor/dtype.h"

/* Checks the shape that a CREATE names, and fills in rank and shape. */
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

/* The places of a table's numbers in a CREATE. */
enum {
    TABLE_STORAGE = 0,
    TABLE_ROW_WISE = 1,
    TABLE_ADMIT_AFTER = 2,
    TABLE_ROWS_MAX = 3,
    TABLE_WHEN_FULL = 4,
    TABLE_AGE_MAX = 5,
    TABLE_COUNT = 6,
    TABLE_GROUP_LASSO = 0,
    TABLE_NORM_MIN = 1,
    TABLE_NUMBER_COUNT = 2,
};

/* Returns a number as an int, or -1, which no check accepts, where it does not fit. */
static int
small(uint64_t number)
{
    return number <= INT32_MAX ? (int)number : -1;
}

/* Checks what of a CREATE must be so for a table: its type, and which part of it is here. */
static int
check_table_place(const cadre_create_message_t *create, const cadre_partition_spec_t *spec)
{
    if (create->table.count != TABLE_COUNT || create->table_numbers.count != TABLE_NUMBER_COUNT) {
        return cadre_fail(CADRE_EINVALID, "a table is described by %zu and %zu numbers",
                          create->table.count, create->table_numbers.count);
    }
    if (spec->dtype != CADRE_F32) {
        return cadre_fail(CADRE_EDTYPE, "a table is of f32");
    }
    if (spec->rank != 1 || create->first_row != 0 || create->rows != 0) {
        return cadre_fail(CADRE_ESHAPE, "a table has the shape [dim], and no number of rows");
    }
    if (create->partition != create->shard || create->partitions > CADRE_SHARDS_MAX) {
        return cadre_fail(CADRE_EINVALID,
                          "part %" PRIu64 " of %" PRIu64 " of a table is not of "
                          "shard %" PRIu64,
                          create->partition, create->partitions, create->shard);
    }
    return 0;
}

/* Fills in how the rows of a table are kept, and checks the whole. */
static int
decode_table(const cadre_create_message_t *create, cadre_partition_spec_t *spec)
{
    int status = check_table_place(create, spec);
    if (status < 0) {
        return status;
    }

    const uint64_t *items = create->table.items;
    const double *numbers = create->table_numbers.items;
    spec->partitions = create->partitions;
    spec->table = (cadre_table_spec_t){
        .dim = (uint32_t)cadre_min_u64((uint64_t)spec->shape[0], UINT32_MAX),
        .storage = (cadre_dtype_t)cadre_min_u64(items[TABLE_STORAGE], UINT8_MAX),
        .row_wise = items[TABLE_ROW_WISE] != 0,
        .group_lasso = numbers[TABLE_GROUP_LASSO],
        .admit_after = (uint32_t)cadre_min_u64(items[TABLE_ADMIT_AFTER], UINT32_MAX),
        .rows_max = items[TABLE_ROWS_MAX],
        .when_full = (cadre_table_policy_t)small(items[TABLE_WHEN_FULL]),
        .age_max = (uint32_t)cadre_min_u64(items[TABLE_AGE_MAX], UINT32_MAX),
        .norm_min = numbers[TABLE_NORM_MIN],
    };
    const cadre_table_spec_t table = cadre_partition_spec_table(spec);
    return cadre_table_spec_check(&table);
}

/* Checks a CREATE field by field and fills in the spec. */
int
cadre_partition_spec_decode(cadre_partition_spec_t *self, const cadre_create_message_t *create)
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

    *self = (cadre_partition_spec_t){.variable = create->variable,
                                     .partition = create->partition,
                                     .dtype = (cadre_dtype_t)create->dtype,
                                     .wire = wire,
                                     .first_row = (int64_t)create->first_row,
                                     .rows = (int64_t)create->rows};
    status = decode_shape(create, self);
    if (status < 0) {
        return status;
    }

    status = cadre_initializer_spec_decode(&self->initializer, create->initializer,
                                           create->initializer_parameters.items,
                                           create->initializer_parameters.count, create->seed);
    if (status < 0) {
        return status;
    }

    status = cadre_optimizer_spec_decode(&self->optimizer, create->optimizer,
                                         create->optimizer_parameters.items,
                                         create->optimizer_parameters.count);
    if (status < 0) {
        return status;
    }

    self->optimizer.clip_value = create->clip_value.count > 0 ? create->clip_value.items[0] : 0;
    self->optimizer.average_momentum =
        create->average_momentum.count > 0 ? create->average_momentum.items[0] : 0;
    self->optimizer.average_overwrite = create->average_overwrite;
    self->optimizer.delay_compensation =
        create->delay_compensation.count > 0 ? create->delay_compensation.items[0] : 0;
    self->optimizer.lazy = create->lazy > 0;
    status =
        cadre_schedule_spec_decode(&self->optimizer.schedule, create->schedule,
                                   create->schedule_numbers.items, create->schedule_numbers.count);
    if (status < 0) {
        return status;
    }
    return create->table.count > 0 ? decode_table(create, self) : 0;
}

bool
cadre_partition_spec_is_table(const cadre_partition_spec_t *self)
{
    return self->table.dim > 0;
}

cadre_table_spec_t
cadre_partition_spec_table(const cadre_partition_spec_t *self)
{
    cadre_table_spec_t table = self->table;
    table.initializer = self->initializer;
    table.optimizer = self->optimizer;
    return table;
}

/* Returns whether rows of two tables are kept alike, apart from initializer and optimizer. */
static bool
tables_equal(const cadre_table_spec_t *left, const cadre_table_spec_t *right)
{
    return left->dim == right->dim && left->storage == right->storage &&
           left->row_wise == right->row_wise && left->group_lasso == right->group_lasso &&
           left->admit_after == right->admit_after && left->rows_max == right->rows_max &&
           left->when_full == right->when_full && left->age_max == right->age_max &&
           left->norm_min == right->norm_min;
}

/* Returns whether two lists hold the same numbers. */
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

/* Returns whether two specs describe the same partition in every respect but its ids. */
bool
cadre_partition_spec_equal(const cadre_partition_spec_t *left, const cadre_partition_spec_t *right)
{
    return left->dtype == right->dtype && left->wire == right->wire && left->rank == right->rank &&
           left->first_row == right->first_row && left->rows == right->rows &&
           left->partitions == right->partitions && tables_equal(&left->table, &right->table) &&
           left->initializer.kind == right->initializer.kind &&
           left->initializer.seed == right->initializer.seed &&
           memcmp(left->shape, right->shape, sizeof(left->shape)) == 0 &&
           numbers_equal(left->initializer.parameters, right->initializer.parameters,
                         CADRE_INITIALIZER_PARAMETERS_MAX) &&
           cadre_optimizer_spec_equal(&left->optimizer, &right->optimizer);
}

/* Takes over the schedule of `other` where it is the longer one; false when the specs differ in
 * anything else. */
bool
cadre_partition_spec_take_longer(cadre_partition_spec_t *self, const cadre_partition_spec_t *other)
{
    const cadre_schedule_spec_t *schedule = &other->optimizer.schedule;
    const bool is_longer = cadre_schedule_spec_extends(schedule, &self->optimizer.schedule);
    cadre_partition_spec_t same = *other;
    same.optimizer.schedule = self->optimizer.schedule;
    if (!cadre_partition_spec_equal(self, &same) ||
        (!is_longer && !cadre_schedule_spec_extends(&self->optimizer.schedule, schedule))) {
        return false;
    }

    if (is_longer) {
        self->optimizer.schedule = *schedule;
    }
    return true;
}

/* Computes how many bytes of memory the partition takes, from its rows, its slots and its wire
 * dtype. */
int
cadre_partition_spec_measure(const cadre_partition_spec_t *self, uint64_t *size_bytes)
{
    cadre_chunk_layout_t layout = {.count = 0};
    size_t row_size_bytes = 0;
    int row_rank = self->rank > 0 ? self->rank - 1 : 0;
    int status = cadre_shape_size(self->dtype, self->shape + 1, row_rank, NULL, &row_size_bytes);
    if (status < 0) {
        return status;
    }

    status = cadre_chunk_layout_init(&layout, (uint64_t)self->rows, row_size_bytes);
    if (status < 0) {
        return status;
    }

    if (layout.count > CADRE_MESSAGE_CHUNKS_MAX) {
        return cadre_fail(CADRE_ETOOLARGE,
                          "a partition of %zu chunks does not fit a message of %d: use more "
                          "partitions",
                          layout.count, CADRE_MESSAGE_CHUNKS_MAX);
    }

    /* At most 4,096 chunks of 1 MiB for values, for each slot, for each version that is kept and
     * for the copy in the wire dtype: the sum cannot overflow. */
    *size_bytes = layout.size_bytes * (1 + cadre_optimizer_slot_count(&self->optimizer));
    if (self->optimizer.delay_compensation > 0) {
        *size_bytes += layout.size_bytes * CADRE_PULLED_VERSIONS_MAX;
    }
    if (self->wire != self->dtype) {
        *size_bytes += cadre_chunk_layout_convert(&layout, cadre_dtype_size(self->dtype),
                                                  cadre_dtype_size(self->wire))
                           .size_bytes;
    }

    return 0;
}

uint64_t
cadre_partition_key(uint64_t variable, uint64_t partition)
{
    return variable << 16 | partition;
}
