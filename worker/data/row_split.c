#include "worker/data/row_split.h"

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/permutation.h"

void
cadre_row_split_init(cadre_row_split_t *self, const cadre_data_spec_t *spec, int64_t rows)
{
    *self = (cadre_row_split_t){.rows = rows,
                                .held_out = spec->held_out,
                                .use_held_out = spec->use_held_out,
                                .seed = (uint64_t)spec->split_seed};
}

int64_t
cadre_row_split_blocks(const cadre_row_split_t *self)
{
    return (self->rows + CADRE_BLOCK_ROWS - 1) / CADRE_BLOCK_ROWS;
}

/* Returns how many of the first `rows` rows are held out. */
static int64_t
held_of(const cadre_row_split_t *self, int64_t rows)
{
    return (int64_t)((double)rows * self->held_out);
}

int64_t
cadre_row_split_before(const cadre_row_split_t *self, int64_t block)
{
    const int64_t rows = cadre_min_i64(block * CADRE_BLOCK_ROWS, self->rows);
    const int64_t held = held_of(self, rows);
    return self->use_held_out ? held : rows - held;
}

/* Finds the block that has row `row` of the part. */
static int64_t
find_block(const cadre_row_split_t *self, int64_t row)
{
    int64_t first = 0;
    int64_t last = cadre_row_split_blocks(self) - 1;
    while (first < last) {
        const int64_t middle = first + (last - first) / 2;
        if (cadre_row_split_before(self, middle + 1) > row) {
            last = middle;
        } else {
            first = middle + 1;
        }
    }
    return first;
}

int64_t
cadre_row_split_at(const cadre_row_split_t *self, int64_t row)
{
    if (self->held_out == 0) {
        return row;
    }
    const int64_t block = find_block(self, row);
    const int64_t begin = block * CADRE_BLOCK_ROWS;
    const int64_t end = cadre_min_i64(begin + CADRE_BLOCK_ROWS, self->rows);
    /* A random order of the block's rows, in which those that are held out come first. */
    int64_t position = row - cadre_row_split_before(self, block);
    position += self->use_held_out ? 0 : held_of(self, end) - held_of(self, begin);
    cadre_assert(position >= 0 && position < end - begin);
    cadre_permutation_t order;
    cadre_permutation_init(&order, (uint64_t)(end - begin), self->seed, (uint64_t)block);
    return begin + (int64_t)cadre_permutation_at(&order, (uint64_t)position);
}
