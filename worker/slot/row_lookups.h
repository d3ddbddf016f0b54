/*
 * row_lookups - which rows a closure needs of the variables that its program only looks up, and
 * what its row program is given instead of their ids.
 *
 * Owner:   a prepared program (program_runner.h). Thread: the slot's.
 *
 * The rows are a function of the closure alone, so each of its attempts pulls and pushes the same.
 * Each partition of a variable is among them with a row at least, its first where nothing reads
 * another: so an update of rows is an update of each partition, as one of whole variables is, and
 * counts as a step of its optimizer.
 */
#ifndef CADRE_WORKER_SLOT_ROW_LOOKUPS_H
#define CADRE_WORKER_SLOT_ROW_LOOKUPS_H

#include "common/graph/row_program.h"
#include "worker/core/closure_run.h"
#include "worker/device/device.h"
#include "worker/slot/id_list.h"

/* Zeroed memory is that of a program whose variables are all whole. */
typedef struct {
    cadre_row_program_t *made; /* NULL: all variables are whole */
    bool has_table;            /* a variable is a table, which never is whole */
    cadre_id_list_t *lists;    /* [sets], like the next */
    cadre_rows_t *rows;        /* the rows of the last run; borrowed from the lists */
    size_t *firsts;            /* [lookups]: where the positions of each begin in its list */
    cadre_tensor_t *ids;       /* [results of the id program], while they are looked for */
    cadre_tensor_t *arguments; /* [arguments of the row program], borrowed */
    int64_t capacity;          /* rows that the variables have in the last run, padding included */
} cadre_row_lookups_t;

/* Makes the row program of a program whose variables are `variables`. Fails as
 * cadre_row_program_new, and with CADRE_EINVALID for a table that is not only looked up. */
int cadre_row_lookups_init(cadre_row_lookups_t *self, const cadre_program_t *program,
                           const cadre_variable_entry_t *const *variables);
void cadre_row_lookups_fini(cadre_row_lookups_t *self);

/* Finds the rows that a run of the whole program with these arguments needs, on `slot`; `run` has
 * the program, the arguments and the seed. Fails with CADRE_EDATA for an id that is out of range,
 * else as cadre_slot_run. */
int cadre_row_lookups_find(cadre_row_lookups_t *self, cadre_slot_t *slot,
                           const cadre_slot_run_t *run,
                           const cadre_variable_entry_t *const *variables);

/* Returns whether the run is to be one of rows. If the program pushes to the variables: unless all
 * of their rows were found, since rows that are not pushed may be meant to rest. Else: if fewer
 * bytes travel by rows than with whole variables. */
bool cadre_row_lookups_pay(const cadre_row_lookups_t *self, const cadre_program_t *program,
                           const cadre_variable_entry_t *const *variables);

/* Returns the rows that were found of a variable of the program; NULL: it is whole. */
const cadre_rows_t *cadre_row_lookups_of(const cadre_row_lookups_t *self, int variable);

#endif
