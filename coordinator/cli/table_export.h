/*
 * table_export - the rows of a table of a checkpoint as files: for NumPy, or as text.
 *
 *     NAME@keys.npy   u64 [rows]         NAME.txt   "ROWS DIM", then a line for each row: its key
 *     NAME.npy        f32 [rows, dim]               and numbers, as word2vec writes vectors
 *
 * Rows are written as they are read, so that a table may be larger than memory; they are in no
 * order, but row i of the one file is that of key i of the other.
 *
 * Thread: any one.
 */
#ifndef CADRE_COORDINATOR_CLI_TABLE_EXPORT_H
#define CADRE_COORDINATOR_CLI_TABLE_EXPORT_H

#include <jansson.h>
#include <stdbool.h>

#include "common/checkpoint/checkpoint_reader.h"

/* Adds the names of the files of the table `variable` to the array `files`. */
void cadre_table_export_files(const char *variable, bool as_text, json_t *files);

/* Writes the table `variable` into these files of the open directory `folder`. What was written
 * goes on failure. CADRE_EEXISTS when there is such a file, CADRE_EIO; fails otherwise as
 * cadre_table_rows_each. */
int cadre_table_export(cadre_checkpoint_reader_t *reader, const char *variable, int folder,
                       bool as_text);

#endif
