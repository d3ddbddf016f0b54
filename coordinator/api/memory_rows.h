/*
 * memory_rows - checks the rows of a dataset that a program has in arrays, and takes a copy.
 *
 * Thread: any; no state.
 */
#ifndef CADRE_COORDINATOR_API_MEMORY_ROWS_H
#define CADRE_COORDINATOR_API_MEMORY_ROWS_H

#include <cadre/coordinator.h>

#include "common/tensor/row_chunks.h"

/* Copies rows and labels into the chunks that workers are sent; 64-bit numbers become keys, of
 * CADRE_KEY_PARTS numbers each. Fails as cadre_dataset_from_columns, with a text that names the
 * column or the row. */
int cadre_memory_rows_take(const cadre_columns_t *columns, cadre_row_chunks_t *out);

#endif
