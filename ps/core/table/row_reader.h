/*
 * row_reader - values of rows by key, as a table has them to be pulled: a key that has no row has
 * the values that its row would begin with.
 *
 * Owner:   one call of a table, whose parts it borrows.
 * Thread:  the shard's; with lanes these read too, which change nothing that they share.
 */
#ifndef CADRE_PS_CORE_TABLE_ROW_READER_H
#define CADRE_PS_CORE_TABLE_ROW_READER_H

#include <stddef.h>
#include <stdint.h>

#include "common/spec/table_spec.h"
#include "common/tensor/chunk.h"
#include "common/tensor/dtype.h"
#include "ps/core/table/row_index.h"
#include "ps/core/table/row_pages.h"
#include "ps/core/table/row_workspace.h"
#include "ps/core/values/initializer.h"
#include "ps/core/values/lanes.h"

typedef struct {
    const cadre_table_spec_t *spec;
    const cadre_ps_initializer_t *initializer; /* each row has a seed of its own */
    const cadre_row_index_t *index;
    const cadre_row_pages_t *pages;
} cadre_row_reader_t;

/* Rows that are wanted, and where they go: one after the other, in one piece, or in chunks of
 * `chunk_rows` but the last. */
typedef struct {
    size_t count;
    const uint64_t *keys;         /* [count], in any order and as often as they are named */
    cadre_dtype_t dtype;          /* in which they are written: f32 or bf16 */
    void *values;                 /* [count, dim]; NULL: in chunks */
    cadre_chunk_t *const *chunks; /* borrowed */
    size_t chunk_rows;
    const cadre_lanes_t *lanes; /* borrowed: they help with many rows; NULL: nobody does */
} cadre_row_pull_t;

/* Writes the first values of a key as they are stored: what was bf16 once stays so. */
void cadre_row_reader_first(const cadre_row_reader_t *self, uint64_t key, float *values);

/* Writes the rows that are wanted. `workspace` is of the same table. Fails with CADRE_ENOTFINITE
 * when a finite value is infinite as bf16; some rows may be written then. */
int cadre_row_reader_pull(const cadre_row_reader_t *self, cadre_row_workspace_t *workspace,
                          const cadre_row_pull_t *pull);

#endif
