/*
 * checkpoint_rows - puts the rows that a checkpoint holds of a table back into the running job.
 *
 * Owner:   nobody: it has no state. Thread: any one but the coordinator's.
 */
#ifndef CADRE_COORDINATOR_API_CHECKPOINT_ROWS_H
#define CADRE_COORDINATOR_API_CHECKPOINT_ROWS_H

#include "common/checkpoint/checkpoint_reader.h"
#include "coordinator/core/catalogue/catalogue.h"

/* Assigns all rows of the table that the checkpoint has, some MiB at once; rows that were made
 * since stay as they are. The shape was compared before. Fails as cadre_checkpoint_reader_pages and
 * cadre_variable_assign_keys, when some rows may have been assigned. */
int cadre_checkpoint_rows_put(cadre_checkpoint_reader_t *reader, cadre_variable_t *table,
                              int64_t deadline_ms);

#endif
