/*
 * sync_job - the coordinator program of the test of synchronous steps, a process of its own.
 *
 *     chaos_sync_job BOARD
 *
 * It trains a small network, two dense variables and three tables, in steps of STEP_CLOSURES:
 * closure number i has a batch that follows from i. After every MARK_CLOSURES closures it reads all
 * back and puts it where the board says (marks.h): it must be what an earlier start of the job has
 * put there. Told to finish it ends at the next mark.
 */
#include <cadre/coordinator.h>
#include <cadre/program.h>
#include <cadre/table.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/base/random.h"
#include "tests/chaos/marks.h"
#include "tests/chaos/reporter.h"
#include "tests/system/scratch.h"

enum {
    CALL_MS = 60000, /* for a call that must succeed, through faults and recoveries */
    JOIN_MS = 90000,
    BATCH_SEED = 99,
};

typedef struct {
    board_t *board;
    marks_t *marks;
    cadre_coordinator_t *coordinator;
    cadre_variable_t *first;
    cadre_variable_t *second;
    cadre_variable_t *rows; /* a table, */
    cadre_variable_t *rare; /* one of which a step may have no key on some ps, */
    cadre_variable_t *few;  /* and one that keeps FEW_ROWS_MAX rows on each ps */
    cadre_function_t *step;
} job_t;

static void
must(const job_t *self, int status, const char *what)
{
    reporter_must(self->board, status, what);
}

/* --- the model --- */

static cadre_variable_t *
create(job_t *self, const char *name, int64_t rows, int64_t columns)
{
    cadre_variable_options_t options = cadre_variable_options();
    options.initializer = cadre_initializer(CADRE_INITIALIZER_GLOROT_UNIFORM);
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADAM);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = self->board->ps; /* each ps has some of it */
    cadre_variable_t *variable = NULL;
    must(self,
         cadre_variable_create(self->coordinator, name, CADRE_F32, (int64_t[]){rows, columns}, 2,
                               &options, &variable),
         name);
    return variable;
}

static cadre_variable_t *
create_table(job_t *self, const char *name, uint32_t dim, cadre_optimizer_kind_t kind,
             uint64_t rows_max)
{
    cadre_table_options_t options = cadre_table_options();
    options.initializer = cadre_initializer(CADRE_INITIALIZER_NORMAL);
    options.optimizer = cadre_optimizer(kind);
    options.rows_max = rows_max;
    options.when_full = rows_max > 0 ? CADRE_TABLE_FULL_LRU : options.when_full;
    cadre_variable_t *table = NULL;
    must(self, cadre_variable_create_table(self->coordinator, name, dim, &options, &table), name);
    return table;
}

/* The losses of "rare" and "few" are their own: what "few" makes of the number of ps changes
 * nothing else. */
static cadre_function_t *
register_step(job_t *self)
{
    const cadre_dim_t batch[] = {cadre_dim(MODEL_ROWS)};
    const cadre_dim_t inputs[] = {cadre_dim(MODEL_ROWS), cadre_dim(MODEL_INPUTS)};
    const cadre_dim_t outputs[] = {cadre_dim(MODEL_ROWS), cadre_dim(MODEL_OUTPUTS)};
    cadre_program_t *p = cadre_program_new("step");
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, inputs, 2);
    cadre_node_t y = cadre_op_arg(p, "y", CADRE_F32, outputs, 2);
    cadre_node_t keys = cadre_op_arg(p, "keys", CADRE_I32, batch, 1);
    cadre_node_t rare_keys = cadre_op_arg(p, "rare_keys", CADRE_I32, batch, 1);
    cadre_node_t first = cadre_op_var(p, "first", (int64_t[]){MODEL_INPUTS, MODEL_HIDDEN}, 2);
    cadre_node_t second = cadre_op_var(p, "second", (int64_t[]){MODEL_HIDDEN, MODEL_OUTPUTS}, 2);
    cadre_node_t rows = cadre_op_table(p, "rows", MODEL_INPUTS);
    cadre_node_t rare = cadre_op_table(p, "rare", MODEL_OUTPUTS);
    cadre_node_t few = cadre_op_table(p, "few", MODEL_OUTPUTS);

    x = cadre_op_add(p, x, cadre_op_take(p, rows, keys));
    cadre_node_t hidden = cadre_op_tanh(p, cadre_op_matmul(p, x, first));
    hidden = cadre_op_dropout(p, hidden, 0.25f, 3);
    cadre_node_t loss = cadre_op_mse(p, cadre_op_matmul(p, hidden, second), y);
    cadre_node_t loss_of_rare = cadre_op_mse(p, cadre_op_take(p, rare, rare_keys), y);
    cadre_node_t loss_of_few = cadre_op_mse(p, cadre_op_take(p, few, keys), y);
    cadre_op_minimize(p, cadre_op_add(p, loss, cadre_op_add(p, loss_of_rare, loss_of_few)));
    cadre_function_t *function = NULL;
    must(self, cadre_function_register(self->coordinator, &p, &function), "step");
    return function;
}

/* Some keys come more often than others, and some twice in a batch. */
static void
draw_keys(uint64_t number, int32_t keys[MODEL_ROWS])
{
    cadre_random_t random;
    cadre_random_init(&random, BATCH_SEED, number);
    for (int i = 0; i < MODEL_ROWS; i++) {
        const uint64_t below = cadre_random_below(&random, MODEL_KEYS) + 1;
        keys[i] = (int32_t)cadre_random_below(&random, below);
    }
}

static void
schedule(job_t *self, uint64_t number)
{
    int32_t keys[MODEL_ROWS];
    int32_t rare_keys[MODEL_ROWS];
    float x[MODEL_ROWS * MODEL_INPUTS];
    float y[MODEL_ROWS * MODEL_OUTPUTS];
    draw_keys(number, keys);
    for (int i = 0; i < MODEL_ROWS; i++) {
        rare_keys[i] = keys[i] / (MODEL_KEYS / RARE_KEYS);
    }
    cadre_random_fill_normal(BATCH_SEED, 2 * number, 0, MODEL_ROWS * MODEL_INPUTS, x);
    cadre_random_fill_normal(BATCH_SEED, 2 * number + 1, 0, MODEL_ROWS * MODEL_OUTPUTS, y);
    const cadre_tensor_t tensors[] = {
        {.dtype = CADRE_F32, .rank = 2, .shape = {MODEL_ROWS, MODEL_INPUTS}, .data = x},
        {.dtype = CADRE_F32, .rank = 2, .shape = {MODEL_ROWS, MODEL_OUTPUTS}, .data = y},
        {.dtype = CADRE_I32, .rank = 1, .shape = {MODEL_ROWS}, .data = keys},
        {.dtype = CADRE_I32, .rank = 1, .shape = {MODEL_ROWS}, .data = rare_keys}};
    const cadre_argument_t arguments[] = {
        {"x", &tensors[0]}, {"y", &tensors[1]}, {"keys", &tensors[2]}, {"rare_keys", &tensors[3]}};
    cadre_call_t call = cadre_call_tensors(arguments, 4);
    call.sequence = number;
    must(self, cadre_coordinator_schedule(self->coordinator, self->step, &call, CALL_MS, NULL),
         "schedule");
}

/* --- marks --- */

static void
read_variable(job_t *self, cadre_variable_t *variable, float *out, size_t count)
{
    cadre_tensor_t value = {.data = NULL};
    must(self, cadre_variable_read(variable, &value, CALL_MS), "read");
    memcpy(out, value.data, count * sizeof(*out));
    cadre_tensor_fini(&value);
}

static void
read_table(job_t *self, cadre_variable_t *table, size_t key_count, float *out, size_t dim)
{
    uint64_t keys[MODEL_KEYS];
    cadre_tensor_t rows = {.data = NULL};
    for (size_t i = 0; i < key_count; i++) {
        keys[i] = i;
    }
    must(self, cadre_variable_read_keys(table, keys, key_count, &rows, CALL_MS), "read of rows");
    memcpy(out, rows.data, key_count * dim * sizeof(*out));
    cadre_tensor_fini(&rows);
}

/* Everything that was scheduled has ended: what it made goes into a mark. */
static void
make_mark(job_t *self, uint64_t at)
{
    mark_weights_t weights;
    mark_few_t few;
    if (at > MARKS_MAX) {
        reporter_fail(self->board, "more than %d marks", MARKS_MAX);
    }
    read_variable(self, self->first, weights.first, MODEL_INPUTS * MODEL_HIDDEN);
    read_variable(self, self->second, weights.second, MODEL_HIDDEN * MODEL_OUTPUTS);
    read_table(self, self->rows, MODEL_KEYS, weights.rows, MODEL_INPUTS);
    read_table(self, self->rare, RARE_KEYS, weights.rare, MODEL_OUTPUTS);
    read_table(self, self->few, MODEL_KEYS, few.few, MODEL_OUTPUTS);

    mark_t *mark = &self->marks->marks[at];
    if (!atomic_load(&mark->is_there)) {
        mark->weights = weights;
        mark->few = few;
        atomic_store(&mark->is_there, true);
    } else if (memcmp(&mark->weights, &weights, sizeof(weights)) != 0 ||
               memcmp(&mark->few, &few, sizeof(few)) != 0) {
        reporter_fail(self->board, "after %" PRIu64 " closures: not what an earlier start had made",
                      at * MARK_CLOSURES);
    }
    atomic_store(&self->board->marked, at);
}

/* --- the job --- */

static void
start(job_t *self)
{
    board_t *board = self->board;
    cadre_coordinator_options_t options = reporter_options(board);
    atomic_store(&board->state, BOARD_STARTING);
    remove(board->status); /* of the job before */
    atomic_fetch_add(&board->starts, 1);
    options.consistency = CADRE_SYNC;
    options.step_closures = STEP_CLOSURES;
    options.local = board->local;
    options.address = board->local ? NULL : options.address;
    must(self, cadre_coordinator_open(&options, &self->coordinator), "open");
    must(self, cadre_coordinator_wait_ready(self->coordinator, 0, CALL_MS), "wait");
    self->first = create(self, "first", MODEL_INPUTS, MODEL_HIDDEN);
    self->second = create(self, "second", MODEL_HIDDEN, MODEL_OUTPUTS);
    self->rows = create_table(self, "rows", MODEL_INPUTS, CADRE_OPTIMIZER_ADAGRAD, 0);
    self->rare = create_table(self, "rare", MODEL_OUTPUTS, CADRE_OPTIMIZER_ADAM, 0);
    self->few = create_table(self, "few", MODEL_OUTPUTS, CADRE_OPTIMIZER_ADAM, FEW_ROWS_MAX);
    self->step = register_step(self);
    atomic_store(&board->state, BOARD_RUNNING);
}

/* Returns how many closures the checkpoint holds that was resumed: whole steps. */
static uint64_t
taken_up(const job_t *self)
{
    const uint64_t done = cadre_checkpoint_next(self->coordinator, 1) - 1;
    if (done % STEP_CLOSURES != 0) {
        reporter_fail(self->board, "a checkpoint has %" PRIu64 " closures, and a part of a step",
                      done);
    }
    atomic_fetch_add(&self->board->resumed, done > 0);
    return done;
}

static void *
run_load(void *argument)
{
    job_t *self = argument;
    uint64_t done = taken_up(self);
    for (bool ends = false; !ends;) {
        if (done % MARK_CLOSURES == 0) {
            ends = atomic_load(&self->board->finish);
            must(self, cadre_coordinator_join(self->coordinator, JOIN_MS), "join");
            make_mark(self, done / MARK_CLOSURES);
        }
        if (!ends) {
            schedule(self, ++done);
        }
    }
    return NULL;
}

int
main(int argc, char **argv)
{
    pthread_t load;
    job_t self = {.board = argc == 2 ? board_map(argv[1], false) : NULL};
    require(self.board != NULL, "usage: chaos_sync_job BOARD");
    self.marks = marks_map(self.board->marks, false);
    require(self.marks != NULL, self.board->marks);
    start(&self);
    require(pthread_create(&load, NULL, run_load, &self) == 0, "a thread");
    deadline_t never = deadline_in(INT32_MAX);
    while (!atomic_load(&self.board->finish) && again(never)) {
        reporter_show(self.board, self.coordinator);
    }
    pthread_join(load, NULL);
    reporter_show(self.board, self.coordinator);
    cadre_coordinator_close(&self.coordinator);
    atomic_store(&self.board->state, BOARD_DONE);
    return 0;
}
