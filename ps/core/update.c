#include "ps/core/update.h"

#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/status.h"

void
cadre_update_fini(cadre_update_t *self)
{
    free(self->parts);
    free(self->checks);
    free(self->pieces);
    *self = (cadre_update_t){0};
}

void
cadre_update_clear(cadre_update_t *self)
{
    self->count = 0;
}

static cadre_update_part_t *
add(cadre_update_t *self, cadre_partition_t *partition)
{
    self->parts = cadre_grow(self->parts, self->count, &self->capacity, sizeof(*self->parts));
    cadre_update_part_t *part = &self->parts[self->count++];
    *part = (cadre_update_part_t){.partition = partition};
    return part;
}

void
cadre_update_add(cadre_update_t *self, cadre_partition_t *partition, cadre_chunk_t *const *chunks)
{
    add(self, partition)->one = (cadre_gradient_term_t){.chunks = chunks, .weight = 1};
}

void
cadre_update_add_rows(cadre_update_t *self, cadre_partition_t *partition,
                      const cadre_row_gradient_t *rows)
{
    add(self, partition)->one =
        (cadre_gradient_term_t){.chunks = rows->chunks, .rows = rows->count, .weight = 1};
}

void
cadre_update_compensate(cadre_update_t *self, cadre_chunk_t *const *pulled)
{
    self->parts[self->count - 1].one.pulled = pulled;
}

void
cadre_update_add_sum(cadre_update_t *self, cadre_partition_t *partition,
                     const cadre_gradient_sum_t *gradient)
{
    add(self, partition)->gradient = *gradient;
}

/* Returns whether the update has so many elements that waking other threads is worth it. */
static bool
is_large(const cadre_update_t *self)
{
    size_t elements = 0;
    for (size_t i = 0; i < self->count; i++) {
        const cadre_partition_t *partition = self->parts[i].partition;
        elements += cadre_partition_layout(partition)->size_bytes /
                    cadre_dtype_size(cadre_partition_spec(partition)->dtype);
    }
    return elements >= CADRE_LANES_ALONE_COUNT;
}

/* Calls `each` for every index, on the lanes if the update is large, else on this thread alone. */
static void
run(const cadre_update_t *self, const cadre_lanes_t *lanes, size_t count,
    void (*each)(void *argument, size_t index), void *argument)
{
    static const cadre_lanes_t alone = {.run = NULL};
    cadre_lanes_run(is_large(self) ? lanes : &alone, count, each, argument);
}

static void
check_one(void *argument, size_t index)
{
    cadre_update_check_t *check = (cadre_update_check_t *)argument + index;
    check->finite = cadre_partition_is_finite(check->partition, check->chunk);
}

/* Checks on the lanes that all numbers of the update are finite, a chunk at a time. */
int
cadre_update_check(cadre_update_t *self, const cadre_lanes_t *lanes, size_t *part)
{
    size_t count = 0;
    for (size_t i = 0; i < self->count; i++) {
        count += cadre_partition_wire_layout(self->parts[i].partition)->count;
    }
    if (count > self->check_capacity) {
        self->check_capacity = count;
        self->checks = cadre_realloc(self->checks, count, sizeof(*self->checks));
    }
    size_t at = 0;
    for (size_t i = 0; i < self->count; i++) {
        const cadre_update_part_t *entry = &self->parts[i];
        size_t chunks = cadre_partition_wire_layout(entry->partition)->count;
        for (size_t k = 0; k < chunks; k++) {
            self->checks[at++] = (cadre_update_check_t){
                .partition = entry->partition, .chunk = entry->one.chunks[k], .part = i, .k = k};
        }
    }
    /* Lanes check in any order; the error names the first bad chunk in the update's order. */
    run(self, lanes, count, check_one, self->checks);
    for (size_t i = 0; i < count; i++) {
        if (!self->checks[i].finite) {
            *part = self->checks[i].part;
            return cadre_fail(CADRE_ENOTFINITE, "chunk %zu holds an infinite number or NaN",
                              self->checks[i].k);
        }
    }
    return 0;
}

static void
apply_one(void *argument, size_t index)
{
    cadre_partition_apply_piece((const cadre_partition_piece_t *)argument + index);
}

/* Applies the update on the lanes: cuts it into pieces of all its partitions, has every piece
 * applied, and then puts the results in place. */
void
cadre_update_apply(cadre_update_t *self, const cadre_lanes_t *lanes)
{
    size_t count = 0;
    for (size_t i = 0; i < self->count; i++) {
        count += cadre_partition_piece_count(self->parts[i].partition);
    }
    if (count > self->piece_capacity) {
        self->piece_capacity = count;
        self->pieces = cadre_realloc(self->pieces, count, sizeof(*self->pieces));
    }
    size_t at = 0;
    for (size_t i = 0; i < self->count; i++) {
        const cadre_update_part_t *entry = &self->parts[i];
        const cadre_gradient_sum_t one = {&entry->one, 1};
        const cadre_gradient_sum_t *gradient = entry->gradient.count > 0 ? &entry->gradient : &one;
        cadre_partition_begin_apply(entry->partition, gradient, self->pieces + at);
        at += cadre_partition_piece_count(entry->partition);
    }
    run(self, lanes, count, apply_one, self->pieces);
    for (size_t i = 0; i < self->count; i++) {
        cadre_partition_end_apply(self->parts[i].partition);
    }
}
