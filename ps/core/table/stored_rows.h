/*
 * stored_rows - how the rows of a checkpoint lie in its pages, and what of each row a table takes
 * that keeps its rows otherwise: with another optimizer, row_wise or not, counting uses or not.
 *
 * Values always go on. Slots go on where there was one of the name and width of each; otherwise all
 * of them begin as those of new rows, and the steps at 0, as those of dense variables do
 * (ps/core/checkpoint_load.c).
 *
 * Owner:   one load.
 * Thread:  the one that loads.
 */
#ifndef CADRE_PS_CORE_TABLE_STORED_ROWS_H
#define CADRE_PS_CORE_TABLE_STORED_ROWS_H

#include <stdbool.h>

#include "common/checkpoint/table_file.h"
#include "common/spec/table_spec.h"
#include "ps/core/table/row_pages.h"

typedef struct {
    cadre_row_pages_t *layout; /* of the pages; it has no rows */
    cadre_row_source_t source;
    bool same; /* pages lie, and go on, as those of the table do */
} cadre_stored_rows_t;

/* Compares what a checkpoint describes with the table of `spec`, which `own` describes. The caller
 * ends it with fini, after success alone. Fails with
 *
 * CADRE_ESHAPE: rows have another dim or storage.
 * CADRE_ECORRUPT: no table has such pages. */
int cadre_stored_rows_init(cadre_stored_rows_t *self, const cadre_table_record_t *stored,
                           const cadre_table_record_t *own);

void cadre_stored_rows_fini(cadre_stored_rows_t *self);

#endif
