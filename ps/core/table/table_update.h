/*
 * table_update - numbers of rows by key, as they come: gradients, or what is assigned.
 *
 * Owner:   the caller of a table; keys and numbers are borrowed.
 * Thread:  any: nothing here changes an update.
 */
#ifndef CADRE_PS_CORE_TABLE_TABLE_UPDATE_H
#define CADRE_PS_CORE_TABLE_TABLE_UPDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/tensor/chunk.h"
#include "common/tensor/dtype.h"
#include "ps/core/values/lanes.h"

enum { CADRE_TABLE_PIECE_KEYS = 1024 }; /* of an update, that a lane takes at a time, at most */

/* The rows stand one after the other, in one piece, or in chunks of `chunk_rows` but the last, and
 * may begin at any address. */
typedef struct {
    size_t count;
    const uint64_t *keys;         /* [count] */
    const void *numbers;          /* [count, dim]; NULL: in chunks */
    cadre_chunk_t *const *chunks; /* borrowed */
    size_t chunk_rows;
    cadre_dtype_t dtype;        /* f32 or bf16; 0: f32 */
    const cadre_lanes_t *lanes; /* borrowed: they help with a large update; NULL: nobody does */
} cadre_table_update_t;

cadre_dtype_t cadre_table_update_dtype(const cadre_table_update_t *self);

/* Returns the rows of `dim` numbers from number `first` on, as many as stand in one piece:
 * `*count`. */
const unsigned char *cadre_table_update_rows(const cadre_table_update_t *self, size_t dim,
                                             size_t first, size_t *count);

/* Copies `count` numbers that stand at `from`, as f32. */
void cadre_table_update_copy(const cadre_table_update_t *self, const void *from, float *to,
                             size_t count);

/* Returns how many keys a lane takes at a time, of rows of `dim` numbers; and how many such pieces
 * there are: 0 where the lanes are not to be woken. */
size_t cadre_table_update_piece_keys(size_t dim);
size_t cadre_table_update_piece_count(const cadre_table_update_t *self, size_t dim);

/* Returns whether all numbers are finite; the lanes help. */
bool cadre_table_update_is_finite(const cadre_table_update_t *self, size_t dim);

#endif
