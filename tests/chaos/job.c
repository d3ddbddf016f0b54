/*
 * job - the coordinator program of the chaos tests, a process of its own.
 *
 *     chaos_job BOARD
 *
 * It takes its settings from the board, creates the variables of the additive model, schedules
 * closures at random from the seed without end, and shows on the board how far it is. Told to
 * finish it joins, reads everything back and says whether every total is as it must be. Resumed it
 * checks first that the values are those of the checkpoint's cut: an id below the cut is an update
 * that every element has.
 */
#include <cadre/coordinator.h>
#include <cadre/table.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "tests/chaos/reporter.h"
#include "tests/system/scratch.h"

enum {
    CALL_MS = 60000,           /* for a call that must succeed, through faults and replays */
    JOIN_MS = 90000,           /* the same for everything at the end */
    SCHEDULE_MS = 50,          /* looks at `finish` in between */
    UPDATES_MAX = 1 << 23,     /* f32 counts exactly up to twice that */
    MIX = 1000,                /* of so many calls: */
    MIX_TICKS = 100,           /* "ticks" */
    MIX_SLOW = 15,             /* "slow" */
    MIX_ASSIGN = 2,            /* an assignment */
    SEED_STREAM_STEP = 1 << 8, /* each start of the job draws other numbers */
};

typedef struct {
    board_t *board;
    cadre_coordinator_t *coordinator;
    cadre_variable_t *alpha;
    cadre_variable_t *beta;
    cadre_variable_t *gamma;
    cadre_variable_t *rows; /* a table; NULL: there is none */
    cadre_function_t *tick;
    cadre_function_t *ticks;
    cadre_function_t *slow;
    double gamma_value; /* what each of its elements must be */
    uint64_t updates;   /* scheduled, those below a resumed cut included */
    cadre_random_t random;
} job_t;

/* --- starting --- */

static void
must(const job_t *self, int status, const char *what)
{
    reporter_must(self->board, status, what);
}

static cadre_variable_t *
create(job_t *self, const char *name, cadre_dtype_t dtype, int64_t rows, int parts)
{
    cadre_variable_options_t options = cadre_variable_options();
    cadre_variable_t *variable = NULL;
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = parts;
    must(self, cadre_variable_create(self->coordinator, name, dtype, &rows, 1, &options, &variable),
         name);
    return variable;
}

static double
element(const cadre_tensor_t *value, int64_t i)
{
    return value->dtype == CADRE_I64 ? (double)((const int64_t *)value->data)[i]
                                     : (double)((const float *)value->data)[i];
}

/* Every element of the variable must be `wanted`. */
static void
expect(job_t *self, cadre_variable_t *variable, double wanted, const char *when)
{
    cadre_tensor_t value = {.data = NULL};
    must(self, cadre_variable_read(variable, &value, CALL_MS), "read");
    for (int64_t i = 0; i < cadre_tensor_count(&value); i++) {
        double found = element(&value, i);
        if (found < wanted || found > wanted) {
            reporter_fail(self->board, "%s: element %" PRId64 " of %s is %.0f, not %.0f", when, i,
                          cadre_variable_name(variable), found, wanted);
        }
    }
    cadre_tensor_fini(&value);
}

static cadre_variable_t *
create_table(job_t *self)
{
    cadre_table_options_t options = cadre_table_options();
    cadre_variable_t *table = NULL;
    options.optimizer.learning_rate = 1;
    must(self, cadre_variable_create_table(self->coordinator, "rows", TABLE_DIM, &options, &table),
         "rows");
    return table;
}

/* Reads `count` rows of the table from key `first` on; each must be one number TABLE_DIM times
 * over. Returns the sum of these, and the largest and smallest in `range`. */
static double
sum_rows(job_t *self, uint64_t first, size_t count, double range[2])
{
    double sum = 0;
    cadre_tensor_t rows = {.data = NULL};
    cadre_auto(cadre_free) uint64_t *keys = cadre_calloc(count, sizeof(*keys));
    for (size_t i = 0; i < count; i++) {
        keys[i] = first + i;
    }
    must(self, cadre_variable_read_keys(self->rows, keys, count, &rows, CALL_MS), "read of rows");
    for (size_t i = 0; i < count; i++) {
        const float *row = (const float *)rows.data + i * TABLE_DIM;
        for (int k = 1; k < TABLE_DIM; k++) {
            if (row[k] < row[0] || row[k] > row[0]) {
                reporter_fail(self->board, "row %" PRIu64 " is a mixture of %.0f and %.0f", keys[i],
                              (double)row[0], (double)row[k]);
            }
        }
        range[0] = i == 0 || (double)row[0] > range[0] ? (double)row[0] : range[0];
        range[1] = i == 0 || (double)row[0] < range[1] ? (double)row[0] : range[1];
        sum += (double)row[0];
    }
    cadre_tensor_fini(&rows);
    return sum;
}

/* Every update stands once in each row that all name, and once in one of the others. */
static void
expect_rows(job_t *self, double wanted, const char *when)
{
    double range[2] = {wanted, wanted};
    if (!self->rows) {
        return;
    }
    sum_rows(self, 0, TABLE_FIXED, range);
    if (range[0] > wanted || range[1] < wanted) {
        reporter_fail(self->board, "%s: rows that all updates name are %.0f to %.0f, not %.0f",
                      when, range[1], range[0], wanted);
    }
    const double sum = sum_rows(self, TABLE_FIRST, TABLE_SPREAD, range);
    if (sum < wanted || sum > wanted) {
        reporter_fail(self->board, "%s: the other rows have %.0f updates, not %.0f", when, sum,
                      wanted);
    }
}

static void
take_up(job_t *self)
{
    uint64_t cut = 0;
    const char *path = NULL;
    const char *progress = NULL;
    cadre_tensor_t value = {.data = NULL};
    if (cadre_checkpoint_resumed(self->coordinator, &path, &cut, &progress)) {
        self->updates = cut - 1;
        atomic_fetch_add(&self->board->resumed, 1);
    }
    const char *when = cut ? "resumed" : "begun";
    expect(self, self->alpha, (double)self->updates, when);
    expect(self, self->beta, (double)self->updates, when);
    expect_rows(self, (double)self->updates, when);
    /* How many assignments lie before the cut is known to the checkpoint only. */
    must(self, cadre_variable_read(self->gamma, &value, CALL_MS), "read");
    self->gamma_value = element(&value, 0);
    cadre_tensor_fini(&value);
    expect(self, self->gamma, self->gamma_value, when);
}

static cadre_function_t *
name_function(job_t *self, const char *name)
{
    cadre_function_t *function = NULL;
    must(self, cadre_function_native(self->coordinator, name, &function), name);
    return function;
}

static void
start(job_t *self)
{
    board_t *board = self->board;
    atomic_store(&board->state, BOARD_STARTING);
    remove(board->status); /* of the job before */
    uint64_t starts = atomic_fetch_add(&board->starts, 1);
    cadre_random_init(&self->random, board->seed, SEED_STREAM_STEP + starts);
    const cadre_coordinator_options_t options = reporter_options(board);
    must(self, cadre_coordinator_open(&options, &self->coordinator), "open");
    must(self, cadre_coordinator_wait_ready(self->coordinator, 0, CALL_MS), "wait");
    self->alpha = create(self, "alpha", CADRE_F32, board->alpha_rows, ALPHA_PARTS);
    self->beta = create(self, "beta", CADRE_I64, BETA_ROWS, 2);
    self->gamma = create(self, "gamma", CADRE_F32, GAMMA_ROWS, 2);
    self->rows = board->table ? create_table(self) : NULL;
    self->tick = name_function(self, board->table ? "tick_table" : "tick");
    self->ticks = name_function(self, board->table ? "ticks_table" : "ticks");
    self->slow = name_function(self, board->table ? "slow_table" : "slow");
    take_up(self);
    atomic_store(&board->state, BOARD_RUNNING);
}

/* --- load --- */

static void
schedule(job_t *self, const cadre_function_t *function, uint32_t steps)
{
    cadre_call_t call = {.size = sizeof(call), .steps = steps};
    int status;
    do {
        status = cadre_coordinator_schedule(self->coordinator, function, &call, SCHEDULE_MS, NULL);
    } while (status == CADRE_ETIMEOUT && !atomic_load(&self->board->finish));
    if (status != CADRE_ETIMEOUT) {
        must(self, status, "schedule");
        self->updates += steps;
    }
}

static void
assign(job_t *self)
{
    float ones[GAMMA_ROWS];
    for (int i = 0; i < GAMMA_ROWS; i++) {
        ones[i] = 1.0f;
    }
    cadre_tensor_t value = {.dtype = CADRE_F32, .rank = 1, .shape = {GAMMA_ROWS}, .data = ones};
    must(self, cadre_variable_assign(self->gamma, CADRE_VARIABLE_ADD, &value, CALL_MS), "assign");
    self->gamma_value++;
}

static void
check_values(job_t *self, const char *when)
{
    expect(self, self->alpha, (double)self->updates, when);
    expect(self, self->beta, (double)self->updates, when);
    expect(self, self->gamma, self->gamma_value, when);
    expect_rows(self, (double)self->updates, when);
}

/* Everything that was scheduled must end, and count. */
static void
pass_fence(job_t *self, uint32_t fence)
{
    must(self, cadre_coordinator_join(self->coordinator, JOIN_MS), "join at a fence");
    check_values(self, "at a fence");
    atomic_store(&self->board->fenced, fence);
}

static void *
run_load(void *argument)
{
    job_t *self = argument;
    while (!atomic_load(&self->board->finish) && self->updates < UPDATES_MAX) {
        uint32_t fence = atomic_load(&self->board->fence);
        if (fence != atomic_load(&self->board->fenced)) {
            pass_fence(self, fence);
        }
        uint64_t drawn = cadre_random_below(&self->random, MIX);
        if (drawn < MIX_ASSIGN) {
            if (self->board->assign) {
                assign(self);
            }
        } else if (drawn < MIX_ASSIGN + MIX_SLOW) {
            schedule(self, self->slow, 1);
        } else if (drawn < MIX_ASSIGN + MIX_SLOW + MIX_TICKS) {
            schedule(self, self->ticks, TICKS_STEPS);
        } else {
            schedule(self, self->tick, 1);
        }
    }
    return NULL;
}

/* --- the end --- */

static void
check_shards(job_t *self)
{
    board_t *board = self->board;
    for (int shard = 0; shard < board->ps; shard++) {
        cadre_shard_totals_t totals;
        must(self, cadre_shard_totals(self->coordinator, shard, &totals, CALL_MS), "count");
        if (totals.applied != self->updates) {
            reporter_fail(self->board, "shard %d counts %" PRIu64 " updates applied, not %" PRIu64,
                          shard, totals.applied, self->updates);
        }
        atomic_fetch_add(&board->duplicate, totals.duplicate);
        atomic_fetch_add(&board->refused, totals.refused);
    }
}

static void
join(job_t *self)
{
    int status;
    deadline_t deadline = deadline_in(JOIN_MS);
    do {
        status = cadre_coordinator_join(self->coordinator, SCHEDULE_MS);
        reporter_show(self->board, self->coordinator);
    } while (status == CADRE_ETIMEOUT && again(deadline));
    must(self, status, "join");
}

static void
check_totals(job_t *self)
{
    atomic_store(&self->board->updates, self->updates);
    check_values(self, "at the end");
    check_shards(self);
    cadre_totals_t totals = cadre_coordinator_totals(self->coordinator);
    if (totals.finished != totals.scheduled || totals.failed != 0) {
        reporter_fail(self->board,
                      "%" PRIu64 " closures scheduled, %" PRIu64 " finished, %" PRIu64 " failed",
                      totals.scheduled, totals.finished, totals.failed);
    }
}

static void
run(job_t *self)
{
    pthread_t load;
    board_t *board = self->board;
    deadline_t never = deadline_in(INT32_MAX);
    while (board->nothing && !atomic_load(&board->load) && again(never)) {
        reporter_show(self->board, self->coordinator);
    }
    require(pthread_create(&load, NULL, run_load, self) == 0, "a thread");
    while (!atomic_load(&board->finish) && again(never)) {
        reporter_show(self->board, self->coordinator);
    }
    pthread_join(load, NULL);
    join(self);
    check_totals(self);
    reporter_show(self->board, self->coordinator);
}

int
main(int argc, char **argv)
{
    job_t self = {.board = argc == 2 ? board_map(argv[1], false) : NULL};
    require(self.board != NULL, "usage: chaos_job BOARD");
    start(&self);
    run(&self);
    cadre_coordinator_close(&self.coordinator);
    atomic_store(&self.board->state, BOARD_DONE);
    return 0;
}
