#include "worker/slot/row_lookups.h"

#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "worker/slot/id_origin.h"

/* Returns whether the program pushes to a variable. */
static bool
is_pushed(const cadre_program_t *program, int variable)
{
    for (int i = 0; i < cadre_program_push_count(program); i++) {
        if (cadre_program_push(program, i)->variable == variable) {
            return true;
        }
    }
    return false;
}

/* Fails where rows of a variable that is no table are looked up by keys of i64, which are not below
 * its rows. */
static int
check_keys(const cadre_row_program_t *made, const cadre_program_t *program,
           const cadre_variable_entry_t *const *variables)
{
    for (int i = 0; i < cadre_program_variable_count(program); i++) {
        for (int k = 0; k < made->sets.lookup_count && !variables[i]->is_table; k++) {
            const cadre_row_lookup_t *lookup = &made->sets.lookups[k];
            if (lookup->set == made->variables[i] &&
                cadre_program_node(program, lookup->index)->dtype == CADRE_I64) {
                return cadre_fail(CADRE_EINVALID,
                                  "program %s looks up %s by ids of i64, which are keys, and it is "
                                  "no table",
                                  cadre_program_name(program), variables[i]->name);
            }
        }
    }
    return 0;
}

/* Fails where a table is not only looked up, so that there would be no end of what to pull. */
static int
check_tables(const cadre_row_lookups_t *self, const cadre_program_t *program,
             const cadre_variable_entry_t *const *variables)
{
    for (int i = 0; i < cadre_program_variable_count(program); i++) {
        if (variables[i]->is_table && (!self->made || self->made->variables[i] < 0)) {
            return cadre_fail(CADRE_EINVALID,
                              "table %s can only be looked up, which program %s "
                              "does not",
                              variables[i]->name, cadre_program_name(program));
        }
    }
    return 0;
}

/* Finds which variables run by rows. What is rounded by which rows there are would follow from the
 * partitions, and from the rows that another closure looks up: a variable that can travel whole
 * does so then. */
static int
make_program(cadre_row_lookups_t *self, const cadre_program_t *program,
             const cadre_variable_entry_t *const *variables, bool *may)
{
    int status = cadre_row_program_new(program, may, &self->made);
    bool again = false;
    for (int i = 0; self->made && i < cadre_program_variable_count(program); i++) {
        const bool is_summed = self->made->sets.sums[cadre_program_variable(program, i)->node];
        again = again || (may[i] && is_summed && !variables[i]->is_table);
        may[i] = may[i] && (!is_summed || variables[i]->is_table);
    }
    if (again) {
        cadre_row_program_destroy(&self->made);
        status = cadre_row_program_new(program, may, &self->made);
    }
    return status;
}

int
cadre_row_lookups_init(cadre_row_lookups_t *self, const cadre_program_t *program,
                       const cadre_variable_entry_t *const *variables)
{
    const int count = cadre_program_variable_count(program);
    cadre_auto(cadre_free) bool *may = cadre_calloc((size_t)count, sizeof(*may));
    for (int i = 0; i < count; i++) {
        may[i] = variables[i]->takes_rows || !is_pushed(program, i);
    }
    *self = (cadre_row_lookups_t){0};
    int status = make_program(self, program, variables, may);
    status = status < 0 ? status : check_tables(self, program, variables);
    if (status == 0 && self->made) {
        status = check_keys(self->made, program, variables);
    }
    if (status < 0) {
        cadre_row_program_destroy(&self->made);
    }
    if (!self->made) {
        return status;
    }

    for (int i = 0; i < count; i++) {
        self->has_table = self->has_table || variables[i]->is_table;
    }
    const size_t sets = (size_t)self->made->sets.count;
    const size_t lookups = (size_t)self->made->sets.lookup_count;
    const size_t arguments = (size_t)cadre_program_argument_count(self->made->program);
    self->lists = cadre_calloc(sets, sizeof(*self->lists));
    self->rows = cadre_calloc(sets, sizeof(*self->rows));
    self->firsts = cadre_calloc(lookups, sizeof(*self->firsts));
    self->ids = cadre_calloc(lookups, sizeof(*self->ids));
    self->arguments = cadre_calloc(arguments, sizeof(*self->arguments));
    return 0;
}

void
cadre_row_lookups_fini(cadre_row_lookups_t *self)
{
    for (int i = 0; self->made && i < self->made->sets.count; i++) {
        cadre_id_list_fini(&self->lists[i]);
    }
    free(self->lists);
    free(self->rows);
    free(self->firsts);
    free(self->ids);
    free(self->arguments);
    cadre_row_program_destroy(&self->made);
    *self = (cadre_row_lookups_t){0};
}

/* Returns the ids of a lookup: an argument of the run, or what the id program has computed. */
static const cadre_tensor_t *
ids_of(const cadre_row_lookups_t *self, const cadre_slot_run_t *run, int lookup)
{
    const cadre_row_ids_t *source = &self->made->sources[lookup];
    return source->argument >= 0 ? &run->arguments[source->argument] : &self->ids[source->result];
}

/* Adds the ids of all lookups to the lists of their sets. */
static int
list_ids(cadre_row_lookups_t *self, const cadre_slot_run_t *run)
{
    const cadre_row_sets_t *sets = &self->made->sets;
    for (int i = 0; i < sets->count; i++) {
        cadre_id_list_begin(&self->lists[i]);
    }
    for (int i = 0; i < sets->lookup_count; i++) {
        const int set = sets->lookups[i].set;
        const cadre_tensor_t *ids = ids_of(self, run, i);
        int status = cadre_id_list_add(&self->lists[set], &sets->lookups[i], ids, sets->rows[set],
                                       &self->firsts[i]);
        if (status < 0 && self->made->sources[i].argument < 0) {
            cadre_id_origin_explain(run, &sets->lookups[i], ids, sets->rows[set], status);
        }
        if (status < 0) {
            return cadre_fail_within(status, "%s", cadre_program_name(run->program));
        }
    }
    for (int i = 0; i < sets->count; i++) {
        cadre_id_list_finish(&self->lists[i]);
    }
    return 0;
}

/* Returns the rows that variables get where a list has `count`: at most a quarter more, so that
 * runs of like size share a plan. */
static int64_t
capacity_for(size_t count)
{
    int64_t step = 1;
    while ((size_t)(8 * step) <= count) {
        step *= 2;
    }
    return ((int64_t)count + step - 1) / step * step;
}

/* Completes the lists, each with a row of every partition. */
static void
list_rows(cadre_row_lookups_t *self, const cadre_program_t *program,
          const cadre_variable_entry_t *const *variables)
{
    for (int i = 0; i < cadre_program_variable_count(program); i++) {
        const int set = self->made->variables[i];
        if (set >= 0 && variables[i]->is_table) {
            cadre_id_list_spread(&self->lists[set], variables[i]->partitions);
        } else if (set >= 0) {
            cadre_id_list_cover(&self->lists[set], variables[i]->rows, variables[i]->partitions);
        }
    }
    self->capacity = 1;
    for (int i = 0; i < self->made->sets.count; i++) {
        const cadre_id_list_t *list = &self->lists[i];
        const int64_t capacity = capacity_for(list->count);
        self->rows[i] = (cadre_rows_t){.ids = list->ids, .count = list->count};
        self->capacity = capacity > self->capacity ? capacity : self->capacity;
    }
}

/* Sets the arguments of the row program: those of the run, and positions, shaped as their ids. */
static void
set_arguments(cadre_row_lookups_t *self, const cadre_slot_run_t *run)
{
    for (int i = 0; i < self->made->argument_count; i++) {
        self->arguments[i] = run->arguments[i];
    }
    for (int i = 0; i < self->made->sets.lookup_count; i++) {
        cadre_tensor_t *positions = &self->arguments[self->made->argument_count + i];
        const int set = self->made->sets.lookups[i].set;
        *positions = *ids_of(self, run, i);
        positions->dtype = CADRE_I32;
        positions->data = self->lists[set].positions + self->firsts[i];
    }
}

/* Computes the ids that are no arguments. */
static int
compute_ids(cadre_row_lookups_t *self, cadre_slot_t *slot, const cadre_slot_run_t *run)
{
    const cadre_slot_run_t request = {.program = self->made->ids,
                                      .arguments = run->arguments,
                                      .argument_count = self->made->argument_count,
                                      .seed = run->seed,
                                      .results = self->ids};
    return cadre_slot_run(slot, &request);
}

static void
drop_ids(cadre_row_lookups_t *self)
{
    const int count = self->made->ids ? cadre_program_result_count(self->made->ids) : 0;
    for (int i = 0; i < count; i++) {
        cadre_tensor_fini(&self->ids[i]);
    }
}

int
cadre_row_lookups_find(cadre_row_lookups_t *self, cadre_slot_t *slot, const cadre_slot_run_t *run,
                       const cadre_variable_entry_t *const *variables)
{
    int status = self->made->ids ? compute_ids(self, slot, run) : 0;
    if (status < 0) {
        return status;
    }
    status = list_ids(self, run);
    if (status == 0) {
        list_rows(self, run->program, variables);
        set_arguments(self, run);
    }
    drop_ids(self);
    return status;
}

/* Returns whether the rows that were found of each variable are all it has. */
static bool
are_all(const cadre_row_lookups_t *self)
{
    for (int i = 0; i < self->made->sets.count; i++) {
        if (self->rows[i].count < (size_t)self->made->sets.rows[i]) {
            return false;
        }
    }
    return true;
}

bool
cadre_row_lookups_pay(const cadre_row_lookups_t *self, const cadre_program_t *program,
                      const cadre_variable_entry_t *const *variables)
{
    size_t by_rows = 0;
    size_t whole = 0;
    if (self->has_table) {
        return true;
    }
    for (int i = 0; i < cadre_program_variable_count(program); i++) {
        const cadre_rows_t *rows = cadre_row_lookups_of(self, i);
        const size_t row_size_bytes = variables[i]->wire_row_size_bytes;
        if (rows && is_pushed(program, i)) {
            return !are_all(self);
        }
        by_rows += rows ? rows->count * (row_size_bytes + sizeof(uint64_t)) : 0;
        whole += rows ? (size_t)variables[i]->rows * row_size_bytes : 0;
    }
    return by_rows < whole;
}

const cadre_rows_t *
cadre_row_lookups_of(const cadre_row_lookups_t *self, int variable)
{
    const int set = self->made ? self->made->variables[variable] : -1;
    return set >= 0 ? &self->rows[set] : NULL;
}
