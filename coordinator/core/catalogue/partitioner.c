#include "coordinator/core/catalogue/partitioner.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"

static int64_t
at_most(int64_t value, int64_t limit)
{
    return value < limit ? value : limit;
}

/* Checks the numbers of partitions along each axis, as the caller of the API gives them
 * (CADRE_PARTITION_GIVEN): only axis 0 can be cut. */
static int
check_given(const int64_t *parts, int count, const int64_t *shape, int rank)
{
    if (count != rank || count == 0 || !parts) {
        return cadre_fail(CADRE_EINVALID, "parts have %d entries, the variable has %d axes", count,
                          rank);
    }
    for (int i = 0; i < count; i++) {
        if (parts[i] < 1) {
            return cadre_fail(CADRE_EINVALID, "axis %d is cut into %" PRId64 " parts", i, parts[i]);
        }
        if (i > 0 && parts[i] != 1) {
            return cadre_fail(CADRE_EINVALID, "only axis 0 can be cut, not axis %d", i);
        }
    }
    if (parts[0] > shape[0]) {
        return cadre_fail(CADRE_EINVALID, "%" PRId64 " parts of %" PRId64 " rows", parts[0],
                          shape[0]);
    }
    return 0;
}

/* Checks the numbers of the options that say how to cut a variable into partitions; 0 is a
 * default. */
static int
check_options(const cadre_variable_options_t *options)
{
    if (options->count < 0 || options->bytes < 0 || options->max_partitions < 0) {
        return cadre_fail(CADRE_EINVALID,
                          "partitioner: count %d, bytes %" PRId64
                          ", max_partitions %d: none may be negative",
                          options->count, options->bytes, options->max_partitions);
    }
    if (options->count > 0 && options->partitioner != CADRE_PARTITION_FIXED) {
        return cadre_fail(CADRE_EINVALID, "partitioner: count %d is for CADRE_PARTITION_FIXED",
                          options->count);
    }
    return 0;
}

/* Gives into how many partitions a variable is cut, along axis 0 (rows): a fixed number, as many as
 * have at least `bytes` each, or at most `bytes` each, or what the program gave. */
int
cadre_partitioner_count(const cadre_variable_options_t *options, const int64_t *shape, int rank,
                        size_t element_size_bytes, uint32_t shard_count, uint32_t *count)
{
    int status = check_options(options);
    if (status < 0) {
        return status;
    }

    int64_t rows = rank > 0 ? shape[0] : 1;
    int64_t row_size_bytes = (int64_t)element_size_bytes;
    for (int i = 1; i < rank; i++) {
        row_size_bytes *= shape[i];
    }

    int64_t most = options->max_partitions ? options->max_partitions : (int64_t)shard_count;
    int64_t bytes = options->bytes ? options->bytes : CADRE_PARTITION_BYTES;
    int64_t parts = 1;

    switch (options->partitioner) {
    case CADRE_PARTITION_FIXED:
        parts = options->count ? options->count : (int64_t)shard_count;
        break;
    case CADRE_PARTITION_MIN_BYTES:
        parts = at_most(rows * row_size_bytes / bytes, most);
        break;
    case CADRE_PARTITION_MAX_BYTES: {
        int64_t rows_per_part = row_size_bytes > 0 ? bytes / row_size_bytes : rows;
        rows_per_part = rows_per_part > 1 ? rows_per_part : 1;
        parts = at_most(rows / rows_per_part + (rows % rows_per_part != 0), most);
        break;
    }
    case CADRE_PARTITION_GIVEN:
        status = check_given(options->parts, options->part_count, shape, rank);
        if (status < 0) {
            return status;
        }
        parts = options->parts[0];
        break;
    default:
        return cadre_fail(CADRE_EINVALID, "partitioner: %d is no kind", (int)options->partitioner);
    }

    /* no empty partition, and at least one */
    parts = at_most(parts, rows);
    parts = parts > 1 ? parts : 1;
    if (parts > CADRE_PARTITIONS_PER_VARIABLE_MAX) {
        return cadre_fail(CADRE_EINVALID, "partitioner: %" PRId64 " parts, %d are the most", parts,
                          CADRE_PARTITIONS_PER_VARIABLE_MAX);
    }
    *count = (uint32_t)parts;
    return 0;
}

void
cadre_placement_init(cadre_placement_t *self, uint32_t shard_count, bool round_robin)
{
    *self = (cadre_placement_t){.round_robin = round_robin, .shard_count = shard_count};
    self->load_bytes = cadre_calloc(shard_count, sizeof(*self->load_bytes));
    self->is_used = cadre_calloc(shard_count, sizeof(*self->is_used));
}

void
cadre_placement_fini(cadre_placement_t *self)
{
    free(self->load_bytes);
    free(self->is_used);
    *self = (cadre_placement_t){0};
}

void
cadre_placement_set_fill(cadre_placement_t *self, uint64_t fill_bytes)
{
    self->fill_bytes = fill_bytes;
}

/* Returns the first shard that a partition of this size does not fill, if it is all of a variable,
 * else the one with the fewest bytes. */
static uint32_t
choose_by_bytes(const cadre_placement_t *self, uint64_t size_bytes, bool is_whole)
{
    uint32_t least = 0;
    for (uint32_t i = 0; i < self->shard_count; i++) {
        if (is_whole && self->load_bytes[i] + size_bytes <= self->fill_bytes) {
            return i;
        }
        if (self->load_bytes[i] < self->load_bytes[least]) {
            least = i;
        }
    }
    return least;
}

/* Chooses the shard of a new partition, and counts its bytes there. */
uint32_t
cadre_placement_place(cadre_placement_t *self, uint64_t size_bytes, bool is_whole)
{
    uint32_t shard = self->next;
    if (self->round_robin) {
        self->next = (self->next + 1) % self->shard_count;
    } else {
        shard = choose_by_bytes(self, size_bytes, is_whole);
    }
    cadre_placement_add(self, shard, size_bytes);
    return shard;
}

void
cadre_placement_add(cadre_placement_t *self, uint32_t shard, uint64_t size_bytes)
{
    self->load_bytes[shard] += size_bytes;
    self->is_used[shard] = true;
}

void
cadre_placement_take(cadre_placement_t *self, uint32_t shard, uint64_t size_bytes)
{
    cadre_assert(self->load_bytes[shard] >= size_bytes);
    self->load_bytes[shard] -= size_bytes;
}
