/*
 * evaluation_rows - the rows of tables that a program looks up when it runs on the caller's thread,
 * and the program over these rows, which is run instead (common/graph/row_program.h).
 *
 * Owner:   one evaluation. Thread: the caller's.
 */
#ifndef CADRE_COORDINATOR_API_EVALUATION_ROWS_H
#define CADRE_COORDINATOR_API_EVALUATION_ROWS_H

#include "common/graph/row_program.h"
#include "worker/device/device.h"
#include "worker/slot/id_list.h"

/* Zeroed memory is that of a program without tables. */
typedef struct {
    cadre_row_program_t *made;
    cadre_id_list_t *lists;    /* [sets]: the keys of each, ascending */
    cadre_tensor_t *ids;       /* [lookups]: those that the id program has computed */
    cadre_tensor_t *arguments; /* [arguments of the row program], borrowed */
    int64_t capacity;          /* rows of each table in the row program: of the longest list */
} cadre_evaluation_rows_t;

/* Returns whether a variable of a program is a table: no other has so many rows. */
bool cadre_evaluation_rows_is_table(const cadre_program_variable_t *variable);

/* Finds the keys that the run looks up in its tables, on `slot`, and makes `run` one of the row
 * program, without its variables yet. Does nothing where there is no table. The caller ends it with
 * cadre_evaluation_rows_fini, also on failure, after the run.
 *
 * CADRE_EINVALID: a table is not only looked up. CADRE_EDATA: an id is negative. Else fails as
 * cadre_slot_run. */
int cadre_evaluation_rows_init(cadre_evaluation_rows_t *self, cadre_slot_t *slot,
                               cadre_slot_run_t *run);
void cadre_evaluation_rows_fini(cadre_evaluation_rows_t *self);

/* Returns the list of the keys that are looked up in variable number `variable`, a table. */
const cadre_id_list_t *cadre_evaluation_rows_of(const cadre_evaluation_rows_t *self, int variable);

#endif
