/*
 * row_access - rows of a variable as a native function asks for them, and gives their gradients:
 * any order, with repeats.
 *
 * Owner:   whoever holds the struct. Thread: the slot's.
 */
#ifndef CADRE_WORKER_SLOT_ROW_ACCESS_H
#define CADRE_WORKER_SLOT_ROW_ACCESS_H

#include "worker/core/closure_run.h"
#include "worker/slot/id_list.h"

/* Rows by their numbers, each once, and where each that was asked for stands among them. Zeroed
 * memory has none. */
typedef struct {
    cadre_id_list_t list;
    cadre_rows_t rows; /* borrowed from the list */
} cadre_row_access_t;

/* Lists the rows of a variable that `ids` name, of a table by the bits of each. Fails with
 * CADRE_EINVALID for a variable without rows and for less than one id, with CADRE_EDATA for an id
 * that is no row. */
int cadre_row_access_init(cadre_row_access_t *self, const cadre_variable_entry_t *variable,
                          const int64_t *ids, int64_t count);
void cadre_row_access_fini(cadre_row_access_t *self);

/* Adds a row of each partition of the variable that has none, so that an update of the rows is one
 * of every partition. */
void cadre_row_access_cover(cadre_row_access_t *self, const cadre_variable_entry_t *variable);

/* Copies rows, which stand in `from` as they are listed, to `to` as they were asked for. */
void cadre_row_access_gather(const cadre_row_access_t *self, size_t row_size_bytes,
                             const void *from, void *to);

/* Adds up gradients, one for each row that was asked for, in this order. Returns a zeroed array,
 * which the caller frees, with the sums: of the listed rows, or (`is_whole`) of all rows of the
 * variable. */
float *cadre_row_access_sum(const cadre_row_access_t *self, const cadre_variable_entry_t *variable,
                            const float *gradients, bool is_whole);

#endif
