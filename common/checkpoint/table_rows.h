/*
 * table_rows - the rows of a table in a checkpoint, by key, whatever the pages and shards are that
 * hold them.
 *
 * Owner:   nobody: it has no state. Thread: as that of the reader.
 */
#ifndef CADRE_COMMON_CHECKPOINT_TABLE_ROWS_H
#define CADRE_COMMON_CHECKPOINT_TABLE_ROWS_H

#include "common/checkpoint/checkpoint_reader.h"

/* Takes a row: its key and `dim` numbers, as f32 whatever they are stored as, valid during the
 * call. Anything but 0 ends the walk. */
typedef int (*cadre_table_row_visit_t)(void *context, uint64_t key, const float *values);

/* Gives how many rows a table has on all shards, and of how many numbers. Errors as
 * cadre_table_rows_each. */
int cadre_table_rows_count(cadre_checkpoint_reader_t *reader, const char *variable, uint64_t *rows,
                           uint32_t *dim);

/* Calls `visit` once for each row, in no order; follows the chain. Ends early with the first status
 * that is not 0 and returns it. Fails as cadre_checkpoint_reader_pages. */
int cadre_table_rows_each(cadre_checkpoint_reader_t *reader, const char *variable,
                          cadre_table_row_visit_t visit, void *context);

#endif
