#include "worker/slot/program_runner.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/u64_map.h"
#include "common/base/utf8.h"
#include "common/system/clock.h"
#include "worker/slot/gradient_buffer.h"
#include "worker/slot/row_lookups.h"
#include "worker/slot/value_buffer.h"

/* A program as this slot runs it. */
typedef struct {
    const cadre_function_entry_t *function;
    cadre_program_t *program;
    int status; /* of decoding the program; why it failed is in `text` */
    char text[CADRE_TEXT_SIZE_MAX + 1];
    bool found; /* `variables` are set */
    /* `variables` are right for closures that were scheduled after so many drops of variables */
    uint64_t drops;
    const cadre_variable_entry_t **variables; /* [variable_count], like the next five */
    cadre_wanted_t *wanted;                   /* what is pulled of each */
    cadre_value_buffer_t *buffers;            /* memory of the pulled values */
    const void **values;                      /* the pulled values, contiguous */
    uint64_t *contents;                       /* content numbers of the values; 0: unknown */
    cadre_dtype_t *variable_dtypes;           /* dtypes of `values` */
    cadre_row_lookups_t lookups;        /* the variables of which a run may need some rows only */
    bool is_by_rows;                    /* the run under way is one of the row program */
    cadre_tensor_t *arguments;          /* [argument_count], borrowed from the closure */
    cadre_gradient_buffer_t *gradients; /* [push_count], like the next three */
    cadre_dtype_t *gradient_dtypes;     /* dtypes of `gradient_data` */
    void **gradient_data;               /* where the device writes each gradient */
    bool *not_finite;                   /* set by the device for a gradient that is not finite */
    cadre_tensor_t *results;            /* [result_count], zeroed between runs */
} prepared_t;

struct cadre_program_runner {
    cadre_device_t *device;
    cadre_slot_t *slot;
    cadre_slot_link_t *link;
    cadre_u64_map_t prepared; /* by function id */
    uint64_t functions_gone;  /* how many functions were gone when `prepared` was last looked
                               * through */
};

/* --- preparing --- */

/* Frees a prepared program with its buffers; `program` is NULL when it could not be decoded. */
static void
destroy_prepared(prepared_t *self)
{
    int variables = self->program ? cadre_program_variable_count(self->program) : 0;
    int pushes = self->program ? cadre_program_push_count(self->program) : 0;

    for (int i = 0; self->buffers && i < variables; i++) {
        cadre_value_buffer_fini(&self->buffers[i]);
    }

    for (int i = 0; self->gradients && i < pushes; i++) {
        cadre_gradient_buffer_fini(&self->gradients[i]);
    }

    free(self->variable_dtypes);
    free(self->gradient_dtypes);
    free(self->not_finite);
    free(self->buffers);
    free(self->gradients);
    free((void *)self->variables);
    free(self->wanted);
    free((void *)self->values);
    free(self->contents);
    free(self->arguments);
    free((void *)self->gradient_data);
    free(self->results);
    cadre_row_lookups_fini(&self->lookups);
    cadre_program_destroy(&self->program);
    free(self);
}

/* Fails unless a variable has the dtype and shape that the program was built with. */
static int
check_variable(const cadre_program_variable_t *wanted, const cadre_variable_entry_t *entry)
{
    char left[CADRE_SHAPE_TEXT_SIZE];
    char right[CADRE_SHAPE_TEXT_SIZE];

    if (entry->dtype != wanted->dtype) {
        return cadre_fail(CADRE_EDTYPE, "the program takes variable %s as %s, it is %s",
                          wanted->name, cadre_dtype_text(wanted->dtype),
                          cadre_dtype_text(entry->dtype));
    }

    const int64_t table[] = {CADRE_PROGRAM_TABLE_ROWS, entry->shape[0]};
    const bool is_same =
        entry->is_table ? cadre_shape_equal(wanted->shape, wanted->rank, table, 2)
                        : cadre_shape_equal(wanted->shape, wanted->rank, entry->shape, entry->rank);
    if (!is_same) {
        return cadre_fail(CADRE_ESHAPE, "the program takes variable %s as %s, it is %s",
                          wanted->name, cadre_shape_text(wanted->shape, wanted->rank, left),
                          cadre_shape_text(entry->shape, entry->rank, right));
    }

    return 0;
}

/* Sets in which dtypes the slot reads values and writes gradients: those of the wire where its
 * device converts them itself, else those of the variables. */
static void
set_dtypes(const cadre_program_runner_t *self, const prepared_t *prepared)
{
    for (int i = 0; i < cadre_program_variable_count(prepared->program); i++) {
        const cadre_variable_entry_t *variable = prepared->variables[i];
        prepared->variable_dtypes[i] =
            cadre_slot_takes(self->slot, variable->wire) ? variable->wire : variable->dtype;
    }
    for (int i = 0; i < cadre_program_push_count(prepared->program); i++) {
        int variable = cadre_program_push(prepared->program, i)->variable;
        prepared->gradient_dtypes[i] = prepared->variable_dtypes[variable];
    }
}

/* Looks up the program's variables, once for all closures that were scheduled after the same number
 * of drops of variables: after a drop a name may mean another variable. */
static int
find_variables(cadre_program_runner_t *self, prepared_t *prepared)
{
    if (prepared->found && prepared->drops == self->link->drops) {
        return 0;
    }

    prepared->found = false;
    for (int i = 0; i < cadre_program_variable_count(prepared->program); i++) {
        const cadre_program_variable_t *wanted = cadre_program_variable(prepared->program, i);
        int status = cadre_slot_link_resolve(self->link, wanted->name, &prepared->variables[i]);
        if (status < 0) {
            return status;
        }
        status = check_variable(wanted, prepared->variables[i]);
        if (status < 0) {
            return status; /* not remembered: a variable that fits may be created later */
        }
    }

    cadre_row_lookups_fini(&prepared->lookups);
    int status = cadre_row_lookups_init(&prepared->lookups, prepared->program, prepared->variables);
    if (status < 0) {
        return status;
    }
    set_dtypes(self, prepared);
    prepared->found = true;
    prepared->drops = self->link->drops;
    return 0;
}

/* Decodes the program of a function, and makes the arrays and buffers that its runs use. */
static int
decode(cadre_device_t *device, const cadre_function_entry_t *function, prepared_t *prepared)
{
    int status =
        cadre_program_decode(cadre_chunk_data(function->program),
                             cadre_chunk_size_bytes(function->program), &prepared->program);
    if (status < 0) {
        return cadre_fail_within(status, "function %s", function->name);
    }

    const cadre_program_t *program = prepared->program;
    size_t variables = (size_t)cadre_program_variable_count(program);
    size_t pushes = (size_t)cadre_program_push_count(program);

    /* Sized once: every closure of this function fills the same arrays. */
    prepared->variables = cadre_calloc(variables, sizeof(*prepared->variables));
    prepared->wanted = cadre_calloc(variables, sizeof(*prepared->wanted));
    prepared->buffers = cadre_calloc(variables, sizeof(*prepared->buffers));
    prepared->values = cadre_calloc(variables, sizeof(*prepared->values));
    prepared->contents = cadre_calloc(variables, sizeof(*prepared->contents));
    prepared->variable_dtypes = cadre_calloc(variables, sizeof(*prepared->variable_dtypes));
    prepared->arguments =
        cadre_calloc((size_t)cadre_program_argument_count(program), sizeof(cadre_tensor_t));
    prepared->gradients = cadre_calloc(pushes, sizeof(*prepared->gradients));
    prepared->gradient_data = cadre_calloc(pushes, sizeof(*prepared->gradient_data));
    prepared->gradient_dtypes = cadre_calloc(pushes, sizeof(*prepared->gradient_dtypes));
    prepared->not_finite = cadre_calloc(pushes, sizeof(*prepared->not_finite));
    prepared->results =
        cadre_calloc((size_t)cadre_program_result_count(program), sizeof(cadre_tensor_t));
    for (size_t i = 0; i < variables; i++) {
        prepared->buffers[i].memory.device = device;
    }

    for (size_t i = 0; i < pushes; i++) {
        prepared->gradients[i].unconverted.device = device;
    }

    return 0;
}

/* Frees the programs of functions that no closure may name any more. Looks through all programs
 * only where the worker has heard of such functions since. */
static void
forget_gone(cadre_program_runner_t *self)
{
    const uint64_t gone = self->link->work->call->functions_gone;
    if (gone == self->functions_gone) {
        return;
    }
    self->functions_gone = gone;

    cadre_u64_map_t kept = {.entries = NULL};
    prepared_t *prepared = NULL;
    for (size_t cursor = 0; (prepared = cadre_u64_map_next(&self->prepared, &cursor));) {
        if (atomic_load_explicit(&prepared->function->is_gone, memory_order_relaxed)) {
            destroy_prepared(prepared);
        } else {
            cadre_u64_map_put(&kept, prepared->function->id, prepared);
        }
    }
    cadre_u64_map_fini(&self->prepared);
    self->prepared = kept;
}

/* Gives the program of the work's function, with its variables looked up. A program is decoded once
 * in a session; if that failed, so does every closure of the function. */
static int
prepare(cadre_program_runner_t *self, prepared_t **out)
{
    const cadre_function_entry_t *function = self->link->work->call->function;
    forget_gone(self);
    prepared_t *prepared = cadre_u64_map_get(&self->prepared, function->id);
    if (!prepared) {
        prepared = cadre_calloc(1, sizeof(*prepared));
        prepared->function = function;
        prepared->status = decode(self->device, function, prepared);
        if (prepared->status < 0) {
            cadre_utf8_clean(cadre_error_text(), CADRE_TEXT_SIZE_MAX, prepared->text);
        }
        cadre_u64_map_put(&self->prepared, function->id, prepared);
    }

    *out = prepared;
    if (prepared->status < 0) {
        return cadre_fail(prepared->status, "%s", prepared->text);
    }

    return find_variables(self, prepared);
}

cadre_program_runner_t *
cadre_program_runner_new(cadre_device_t *device, cadre_slot_t *slot, cadre_slot_link_t *link)
{
    cadre_program_runner_t *self = cadre_calloc(1, sizeof(*self));
    self->device = device;
    self->slot = slot;
    self->link = link;
    return self;
}

/* Forgets all programs, whose function ids and variables belong to the session before. */
void
cadre_program_runner_reset(cadre_program_runner_t *self)
{
    prepared_t *prepared = NULL;
    for (size_t cursor = 0; (prepared = cadre_u64_map_next(&self->prepared, &cursor));) {
        destroy_prepared(prepared);
    }
    cadre_u64_map_fini(&self->prepared);
    self->functions_gone = 0;
}

void
cadre_program_runner_destroy(cadre_program_runner_t **self_p)
{
    cadre_program_runner_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cadre_program_runner_reset(self);
    free(self);
}

/* --- running --- */

/* Sets the arguments in the program's order: views of the closure's tensors and batches. */
static int
bind(const cadre_work_t *work, const prepared_t *prepared, const cadre_tensor_t *tensors)
{
    for (int i = 0; i < cadre_program_argument_count(prepared->program); i++) {
        const char *name = cadre_program_argument(prepared->program, i)->name;
        const cadre_tensor_t *found = cadre_work_argument(work, tensors, name);
        if (!found) {
            return cadre_fail(CADRE_EINVALID, "program %s: argument %s is missing",
                              cadre_program_name(prepared->program), name);
        }
        prepared->arguments[i] = *found;
    }

    return 0;
}

/* Returns the rows of a variable that the run needs; NULL: all. */
static const cadre_rows_t *
rows_of(const prepared_t *prepared, int variable)
{
    return prepared->is_by_rows ? cadre_row_lookups_of(&prepared->lookups, variable) : NULL;
}

/* Finds the rows of variables that the closure needs, where its program only looks some up, and
 * decides whether the run is one of them: with few rows in all, whole variables are less. */
static int
find_rows(cadre_program_runner_t *self, prepared_t *prepared)
{
    prepared->is_by_rows = false;
    if (!prepared->lookups.made) {
        return 0;
    }

    cadre_work_t *work = self->link->work;
    const cadre_slot_run_t run = {.program = prepared->program,
                                  .arguments = prepared->arguments,
                                  .seed = work->call->message.closure.seed};
    int64_t begin_us = cadre_clock_now_us();
    int status = cadre_row_lookups_find(&prepared->lookups, self->slot, &run, prepared->variables);
    work->compute_us += (uint64_t)(cadre_clock_now_us() - begin_us);
    if (status < 0) {
        return status;
    }
    prepared->is_by_rows =
        cadre_row_lookups_pay(&prepared->lookups, prepared->program, prepared->variables);
    return 0;
}

/* Puts a pulled value, or rows of one, into the memory that the device reads. */
static const void *
put_value(prepared_t *prepared, int variable, cadre_value_t *value)
{
    cadre_value_buffer_t *buffer = &prepared->buffers[variable];
    const bool on_wire = prepared->variable_dtypes[variable] == prepared->variables[variable]->wire;
    if (rows_of(prepared, variable)) {
        return cadre_value_buffer_put_rows(buffer, value, (size_t)prepared->lookups.capacity,
                                           on_wire);
    }
    return on_wire ? cadre_value_buffer_put_wire(buffer, value)
                   : cadre_value_buffer_put(buffer, value);
}

/* Pulls the program's variables, and joins the chunks of each into one piece of memory: in the wire
 * dtype if the device takes it, else in the variable's own. */
static int
pull(cadre_program_runner_t *self, prepared_t *prepared)
{
    size_t count = (size_t)cadre_program_variable_count(prepared->program);
    if (count == 0) {
        return 0;
    }

    for (size_t i = 0; i < count; i++) {
        prepared->wanted[i] =
            (cadre_wanted_t){.variable = prepared->variables[i], .rows = rows_of(prepared, (int)i)};
    }
    cadre_value_t *values = NULL;
    int status = cadre_slot_link_pull(self->link, prepared->wanted, count, &values);
    if (status < 0) {
        return status;
    }

    for (size_t i = 0; i < count; i++) {
        prepared->contents[i] = values[i].content;
        values[i].variable = prepared->variables[i]; /* also where no row came */
        prepared->values[i] = put_value(prepared, (int)i, &values[i]);
    }

    cadre_values_fini(&values, count);
    return 0;
}

static const cadre_variable_entry_t *
pushed_variable(const prepared_t *prepared, int push)
{
    return prepared->variables[cadre_program_push(prepared->program, push)->variable];
}

/* Returns whether the device writes this gradient in its wire dtype, so that it need not be
 * converted. */
static bool
is_written_for_wire(const prepared_t *prepared, int push)
{
    return prepared->gradient_dtypes[push] == pushed_variable(prepared, push)->wire;
}

/* Returns the rows of a pushed variable that the run needs; NULL: all. */
static const cadre_rows_t *
pushed_rows(const prepared_t *prepared, int push)
{
    return rows_of(prepared, cadre_program_push(prepared->program, push)->variable);
}

/* Sets where the device writes each gradient: into the chunk that is sent, if it writes the wire
 * dtype, else into memory that is converted afterwards. */
static void
reserve_gradients(const prepared_t *prepared)
{
    for (int i = 0; i < cadre_program_push_count(prepared->program); i++) {
        const cadre_variable_entry_t *variable = pushed_variable(prepared, i);
        const int64_t rows = pushed_rows(prepared, i) ? prepared->lookups.capacity : variable->rows;
        prepared->not_finite[i] = false;
        prepared->gradient_data[i] = cadre_gradient_buffer_reserve(
            &prepared->gradients[i], variable, (size_t)rows, is_written_for_wire(prepared, i));
    }
}

/* Completes all gradients in their wire dtypes; fails, so that nothing is pushed, if one of them is
 * not finite. */
static int
close_gradients(const prepared_t *prepared)
{
    int status = 0;
    for (int i = 0; status == 0 && i < cadre_program_push_count(prepared->program); i++) {
        const cadre_variable_entry_t *variable = pushed_variable(prepared, i);
        const cadre_rows_t *rows = pushed_rows(prepared, i);
        if (!is_written_for_wire(prepared, i)) {
            status = cadre_gradient_buffer_close(&prepared->gradients[i], variable,
                                                 rows ? rows->count : (size_t)variable->rows);
        } else if (prepared->not_finite[i]) {
            status = cadre_gradient_fail(variable);
        }
    }

    return status;
}

/* Runs the prepared program on the device, and counts the time. */
static int
compute(cadre_program_runner_t *self, prepared_t *prepared)
{
    cadre_work_t *work = self->link->work;
    reserve_gradients(prepared);
    int64_t begin_us = cadre_clock_now_us();
    const cadre_row_lookups_t *lookups = &prepared->lookups;
    const cadre_program_t *program =
        prepared->is_by_rows ? lookups->made->program : prepared->program;
    cadre_slot_run_t run = {.program = program,
                            .arguments =
                                prepared->is_by_rows ? lookups->arguments : prepared->arguments,
                            .argument_count = cadre_program_argument_count(program),
                            .rows = lookups->capacity,
                            .variables = prepared->values,
                            .variable_dtypes = prepared->variable_dtypes,
                            .versions = prepared->contents,
                            .seed = work->call->message.closure.seed,
                            .gradients = prepared->gradient_data,
                            .gradient_dtypes = prepared->gradient_dtypes,
                            .not_finite = prepared->not_finite,
                            .results = prepared->results};
    int status = cadre_slot_run(self->slot, &run);

    work->compute_us += (uint64_t)(cadre_clock_now_us() - begin_us);
    cadre_slot_link_trace(self->link, CADRE_TRACE_COMPUTE, begin_us, 0);
    /* The values have been read: others may write to their chunks again. */
    for (int i = 0; i < cadre_program_variable_count(prepared->program); i++) {
        cadre_value_buffer_release(&prepared->buffers[i]);
    }

    return status;
}

/* Pushes the gradients of all variables that the program pushes to, as one step; none if one of
 * them is not finite. */
static int
push(cadre_program_runner_t *self, const prepared_t *prepared)
{
    size_t count = (size_t)cadre_program_push_count(prepared->program);
    int status = close_gradients(prepared);
    if (status < 0 || count == 0) {
        return status;
    }

    cadre_gradient_t *gradients = cadre_calloc(count, sizeof(*gradients));
    for (size_t i = 0; i < count; i++) {
        gradients[i] = (cadre_gradient_t){.variable = pushed_variable(prepared, (int)i),
                                          .gradient = prepared->gradients[i].chunk,
                                          .rows = pushed_rows(prepared, (int)i)};
    }

    status = cadre_slot_link_push(self->link, gradients, count);
    free(gradients);
    return status;
}

/* Copies the program's results, under their names, into the outcome of the work. */
static int
give_results(cadre_work_t *work, const prepared_t *prepared)
{
    size_t count = (size_t)cadre_program_result_count(prepared->program);
    const char **names = cadre_calloc(count, sizeof(*names));
    for (size_t i = 0; i < count; i++) {
        names[i] = cadre_program_result(prepared->program, (int)i)->name;
    }
    int status = cadre_work_give_results(work, names, prepared->results, count);
    free((void *)names);
    return status;
}

static void
drop_results(const prepared_t *prepared)
{
    for (int i = 0; i < cadre_program_result_count(prepared->program); i++) {
        cadre_tensor_fini(&prepared->results[i]);
    }
}

/* Runs a prepared program: pulls its variables, or the rows that it needs of them, computes, pushes
 * the gradients, and gives the results. */
static int
run_prepared(cadre_program_runner_t *self, prepared_t *prepared)
{
    cadre_work_t *work = self->link->work;
    int status = find_rows(self, prepared);
    if (status < 0) {
        return status;
    }

    status = pull(self, prepared);
    if (status < 0) {
        return status;
    }

    status = compute(self, prepared);
    if (status < 0) {
        return status;
    }

    status = push(self, prepared);
    if (status == 0 && cadre_work_wants_results(work)) {
        status = give_results(work, prepared);
    }

    drop_results(prepared);
    return status;
}

/* Returns whether a failure is the device's, so that the closure may do well on another worker,
 * whose device works or has more memory. */
static bool
is_device_failure(int status)
{
    return status == CADRE_EDEVICE || status == CADRE_ENOMEMORY;
}

/* A closure's arguments, read for one run. */
typedef struct {
    cadre_tensor_t *tensors;
    size_t count;
} arguments_t;

static void
arguments_fini(arguments_t *self)
{
    cadre_tensors_fini(&self->tensors, self->count);
}

/* Runs the closure, from its program to its results. */
static int
run_closure(cadre_program_runner_t *self)
{
    cadre_work_t *work = self->link->work;
    cadre_auto(arguments_fini) arguments_t arguments = {0};
    prepared_t *prepared = NULL;
    int status = prepare(self, &prepared);
    if (status < 0) {
        return status;
    }

    status = cadre_closure_call_tensors(work->call, &arguments.tensors, &arguments.count);
    if (status < 0) {
        return status;
    }

    status = bind(work, prepared, arguments.tensors);
    if (status < 0) {
        return status;
    }

    return run_prepared(self, prepared);
}

/* Runs the closure that is the link's work, whose function is a program. A failure of the device is
 * reported as such, because the closure then runs again elsewhere. */
void
cadre_program_runner_run(cadre_program_runner_t *self)
{
    cadre_work_t *work = self->link->work;
    int status = run_closure(self);
    if (status == 0) {
        return;
    }

    cadre_failure_t failure = is_device_failure(status) ? CADRE_FAILURE_DEVICE : CADRE_FAILURE_USER;
    cadre_work_end(work, status, failure, cadre_error_text());
}
