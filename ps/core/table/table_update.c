#include "ps/core/table/table_update.h"

#include <string.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/tensor/bf16.h"

enum { PIECE_NUMBERS = 65536 }; /* of a piece, at most, or one row */

cadre_dtype_t
cadre_table_update_dtype(const cadre_table_update_t *self)
{
    return self->dtype == 0 ? CADRE_F32 : self->dtype;
}

const unsigned char *
cadre_table_update_rows(const cadre_table_update_t *self, size_t dim, size_t first, size_t *count)
{
    const size_t row_size = dim * cadre_dtype_size(cadre_table_update_dtype(self));
    if (self->numbers) {
        *count = self->count - first;
        return (const unsigned char *)self->numbers + first * row_size;
    }

    const size_t before = first % self->chunk_rows;
    *count = cadre_min_u64(self->count - first, self->chunk_rows - before);
    const unsigned char *chunk = cadre_chunk_data(self->chunks[first / self->chunk_rows]);
    return chunk + before * row_size;
}

void
cadre_table_update_copy(const cadre_table_update_t *self, const void *from, float *to, size_t count)
{
    if (cadre_table_update_dtype(self) == CADRE_BF16) {
        cadre_bf16_to_f32(from, to, count);
    } else {
        memcpy(to, from, count * sizeof(*to));
    }
}

size_t
cadre_table_update_piece_keys(size_t dim)
{
    return cadre_max_u64(1, cadre_min_u64(CADRE_TABLE_PIECE_KEYS, PIECE_NUMBERS / dim));
}

size_t
cadre_table_update_piece_count(const cadre_table_update_t *self, size_t dim)
{
    const bool helps = self->lanes && self->lanes->run;
    if (!helps || self->count * dim < CADRE_LANES_ALONE_COUNT) {
        return 0;
    }
    return (self->count - 1) / cadre_table_update_piece_keys(dim) + 1;
}

/* Returns whether the numbers of `count` keys from number `first` on are finite. */
static bool
are_finite(const cadre_table_update_t *self, size_t dim, size_t first, size_t count)
{
    for (size_t done = 0, here = 0; done < count; done += here) {
        const void *rows = cadre_table_update_rows(self, dim, first + done, &here);
        here = cadre_min_u64(here, count - done);
        if (!cadre_dtype_is_finite(cadre_table_update_dtype(self), rows, here * dim)) {
            return false;
        }
    }
    return true;
}

/* What lanes look at, and find. */
typedef struct {
    const cadre_table_update_t *update;
    size_t dim;
    bool *finite; /* [pieces] */
} check_t;

static void
check_piece(void *argument, size_t index)
{
    const check_t *check = argument;
    const size_t keys = cadre_table_update_piece_keys(check->dim);
    const size_t first = index * keys;
    const size_t count = cadre_min_u64(check->update->count - first, keys);
    check->finite[index] = are_finite(check->update, check->dim, first, count);
}

bool
cadre_table_update_is_finite(const cadre_table_update_t *self, size_t dim)
{
    const size_t pieces = cadre_table_update_piece_count(self, dim);
    if (pieces == 0) {
        return are_finite(self, dim, 0, self->count);
    }
    cadre_auto(cadre_free) bool *finite = cadre_calloc(pieces, sizeof(*finite));
    check_t check = {self, dim, finite};
    cadre_lanes_run(self->lanes, pieces, check_piece, &check);
    return !memchr(finite, false, pieces);
}
