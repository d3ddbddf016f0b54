#include "coordinator/api/evaluation_rows.h"

#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "worker/slot/id_origin.h"

bool
cadre_evaluation_rows_is_table(const cadre_program_variable_t *variable)
{
    return variable->rank == 2 && variable->shape[0] == CADRE_PROGRAM_TABLE_ROWS;
}

/* Makes the row program, if there is a table. */
static int
make(cadre_evaluation_rows_t *self, const cadre_program_t *program)
{
    const int count = cadre_program_variable_count(program);
    cadre_auto(cadre_free) bool *tables = cadre_calloc((size_t)count, sizeof(*tables));
    bool has_table = false;
    for (int i = 0; i < count; i++) {
        tables[i] = cadre_evaluation_rows_is_table(cadre_program_variable(program, i));
        has_table = has_table || tables[i];
    }
    int status = has_table ? cadre_row_program_new(program, tables, &self->made) : 0;
    for (int i = 0; status == 0 && i < count; i++) {
        if (tables[i] && (!self->made || self->made->variables[i] < 0)) {
            status =
                cadre_fail(CADRE_EINVALID,
                           "program %s: table %s can only be looked up: its rows as a whole "
                           "are no node that has a value",
                           cadre_program_name(program), cadre_program_variable(program, i)->name);
        }
    }
    return status;
}

/* Returns the ids of a lookup: an argument of the run, or what the id program has computed. */
static const cadre_tensor_t *
ids_of(const cadre_evaluation_rows_t *self, const cadre_slot_run_t *run, int lookup)
{
    const cadre_row_ids_t *source = &self->made->sources[lookup];
    return source->argument >= 0 ? &run->arguments[source->argument] : &self->ids[source->result];
}

/* Computes the ids that are no arguments. */
static int
compute_ids(cadre_evaluation_rows_t *self, cadre_slot_t *slot, const cadre_slot_run_t *run)
{
    if (!self->made->ids) {
        return 0;
    }
    cadre_slot_run_t request = *run;
    request.program = self->made->ids;
    request.variables = NULL;
    request.gradients = NULL;
    request.results = self->ids;
    return cadre_slot_run(slot, &request);
}

/* Lists the keys of each set, and sets the arguments of the row program: those of the run, and for
 * each lookup the positions of its ids in the list. */
static int
list_keys(cadre_evaluation_rows_t *self, const cadre_slot_run_t *run)
{
    const cadre_row_sets_t *sets = &self->made->sets;
    cadre_auto(cadre_free) size_t *firsts =
        cadre_calloc((size_t)sets->lookup_count, sizeof(*firsts));
    for (int i = 0; i < sets->lookup_count; i++) {
        const int set = sets->lookups[i].set;
        const cadre_tensor_t *ids = ids_of(self, run, i);
        int status = cadre_id_list_add(&self->lists[set], &sets->lookups[i], ids, sets->rows[set],
                                       &firsts[i]);
        if (status < 0 && self->made->sources[i].argument < 0) {
            cadre_id_origin_explain(run, &sets->lookups[i], ids, sets->rows[set], status);
        }
        if (status < 0) {
            return cadre_fail_within(status, "%s", cadre_program_name(run->program));
        }
    }

    self->capacity = 1;
    for (int i = 0; i < sets->count; i++) {
        cadre_id_list_finish(&self->lists[i]);
        const int64_t count = (int64_t)self->lists[i].count;
        self->capacity = count > self->capacity ? count : self->capacity;
    }

    for (int i = 0; i < run->argument_count; i++) {
        self->arguments[i] = run->arguments[i];
    }
    for (int i = 0; i < sets->lookup_count; i++) {
        cadre_tensor_t *positions = &self->arguments[run->argument_count + i];
        *positions = *ids_of(self, run, i);
        positions->dtype = CADRE_I32;
        positions->data = self->lists[sets->lookups[i].set].positions + firsts[i];
    }
    return 0;
}

int
cadre_evaluation_rows_init(cadre_evaluation_rows_t *self, cadre_slot_t *slot, cadre_slot_run_t *run)
{
    *self = (cadre_evaluation_rows_t){0};
    int status = make(self, run->program);
    if (status < 0 || !self->made) {
        return status;
    }

    /* checked here as for the program itself: the row program's text would name its positions */
    cadre_auto(cadre_free) int64_t *sizes =
        cadre_calloc((size_t)cadre_program_symbol_count(run->program), sizeof(*sizes));
    status =
        cadre_program_bind(run->program, run->arguments, run->argument_count, CADRE_F32, sizes);
    if (status < 0) {
        return cadre_fail_within(status, "%s", cadre_program_name(run->program));
    }

    const int count = cadre_program_argument_count(self->made->program);
    self->lists = cadre_calloc((size_t)self->made->sets.count, sizeof(*self->lists));
    self->ids = cadre_calloc((size_t)self->made->sets.lookup_count, sizeof(*self->ids));
    self->arguments = cadre_calloc((size_t)count, sizeof(*self->arguments));
    status = compute_ids(self, slot, run);
    status = status < 0 ? status : list_keys(self, run);
    if (status < 0) {
        return status;
    }

    run->program = self->made->program;
    run->arguments = self->arguments;
    run->argument_count = count;
    run->rows = self->capacity;
    return 0;
}

void
cadre_evaluation_rows_fini(cadre_evaluation_rows_t *self)
{
    for (int i = 0; self->lists && i < self->made->sets.count; i++) {
        cadre_id_list_fini(&self->lists[i]);
    }
    for (int i = 0; self->ids && i < self->made->sets.lookup_count; i++) {
        cadre_tensor_fini(&self->ids[i]);
    }
    free(self->lists);
    free(self->ids);
    free(self->arguments);
    cadre_row_program_destroy(&self->made);
    *self = (cadre_evaluation_rows_t){0};
}

const cadre_id_list_t *
cadre_evaluation_rows_of(const cadre_evaluation_rows_t *self, int variable)
{
    return &self->lists[self->made->variables[variable]];
}
