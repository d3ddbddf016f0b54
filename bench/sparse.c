/*
 * A table of many small rows on two real ps: bytes of a row, how long a checkpoint takes in full,
 * after one row of a hundred has changed and while they change, what memory that takes and gives
 * back, and how long a job stands still when a ps is killed. It needs some GiB of memory and of
 * disk, and some minutes.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

#include <cadre/table.h>

#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/process.h"
#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "coordinator/coordinator.h"

enum {
    DIM = 16,
    PS = 2,
    ROWS_FULL = 20000000,
    ROWS_QUICK = 2000000,
    IDS = 50000,   /* of a closure */
    CHANGED = 100, /* one row of so many */
    UPDATES_LATER = 200,
    KILLS_FULL = 20,
    KILLS_QUICK = 4,
    WAIT_MS = 600000,
    LEASE_MS = 30000, /* no ps is to be given up because others use the CPUs */
    LEAVE_MS = 10000,
    DESCRIPTORS = 8,
};

typedef struct {
    cadre_bench_t *bench;
    int rows;
    char *directory; /* of checkpoints */
    cadre_coordinator_t *coordinator;
    pid_t ps[PS];
    pid_t worker;
    cadre_variable_t *table;
    cadre_function_t *step;
    cadre_random_t random;
    double resident_before; /* of all ps */
} subject_t;

static int
remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

static void
subject_fini(subject_t *self)
{
    cadre_coordinator_close(&self->coordinator);
    cadre_bench_process_end(&self->worker, LEAVE_MS);
    for (int i = 0; i < PS; i++) {
        cadre_bench_process_end(&self->ps[i], LEAVE_MS);
    }
    if (self->directory) {
        nftw(self->directory, remove_one, DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
    }
    free(self->directory);
}

/* --- the job --- */

static int
start_ps(subject_t *self, int index)
{
    cadre_auto(cadre_free) char *address = cadre_bench_address(self->bench, "ps");
    char number[12];
    snprintf(number, sizeof(number), "%d", index);
    const char *const arguments[] = {"--index",
                                     number,
                                     "--coordinator",
                                     cadre_coordinator_address(self->coordinator),
                                     "--address",
                                     address,
                                     NULL};
    return cadre_bench_process_start("cadre-ps", arguments, self->bench->verbose, &self->ps[index]);
}

static int
start_tasks(subject_t *self)
{
    int status = 0;
    for (int i = 0; i < PS && status == 0; i++) {
        status = start_ps(self, i);
    }
    if (status < 0) {
        return status;
    }
    const char *const worker[] = {"--coordinator", cadre_coordinator_address(self->coordinator),
                                  NULL};
    status = cadre_bench_process_start("cadre-worker", worker, self->bench->verbose, &self->worker);
    return status < 0 ? status : cadre_coordinator_wait_ready(self->coordinator, 1, WAIT_MS);
}

/* Makes the function that gives each row of its ids a gradient of 1, and so makes those that are
 * not there. */
static int
make_step(subject_t *self)
{
    cadre_program_t *program = cadre_program_new("step");
    const cadre_dim_t dims[] = {cadre_dim(IDS)};
    cadre_node_t rows = cadre_op_table(program, "rows", DIM);
    cadre_node_t ids = cadre_op_arg(program, "ids", CADRE_I32, dims, 1);
    cadre_op_minimize(program, cadre_op_sum_all(program, cadre_op_take(program, rows, ids)));
    return cadre_function_register(self->coordinator, &program, &self->step);
}

static int
make_table(subject_t *self)
{
    cadre_table_options_t options = cadre_table_options();
    options.initializer = cadre_initializer(CADRE_INITIALIZER_UNIFORM);
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADAGRAD);
    options.row_wise = true;
    int status =
        cadre_variable_create_table(self->coordinator, "rows", DIM, &options, &self->table);
    return status < 0 ? status : make_step(self);
}

/* Adds up what `measure` gives for each ps. */
static int
bytes_of_ps(const subject_t *self, int (*measure)(pid_t, double *), double *bytes)
{
    *bytes = 0;
    for (int i = 0; i < PS; i++) {
        double of_one = 0;
        int status = measure(self->ps[i], &of_one);
        if (status < 0) {
            return status;
        }
        *bytes += of_one;
    }
    return 0;
}

static int
subject_init(cadre_bench_t *bench, subject_t *self)
{
    *self = (subject_t){.bench = bench, .rows = cadre_bench_amount(bench, ROWS_FULL, ROWS_QUICK)};
    cadre_random_init(&self->random, 1, 1);
    cadre_auto(cadre_free) char *pattern = cadre_asprintf("%s/cadre-XXXXXX", bench->directory);
    if (!mkdtemp(pattern)) {
        return cadre_fail(CADRE_EIO, "no directory in %s", bench->directory);
    }
    self->directory = cadre_strdup(pattern);

    cadre_auto(cadre_free) char *address = cadre_bench_address(bench, "coordinator");
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.job = "bench";
    options.address = address;
    options.ps_count = PS;
    options.seed = 1;
    options.checkpoint_dir = self->directory;
    options.lease_ms = LEASE_MS;
    int status = cadre_coordinator_open(&options, &self->coordinator);
    if (status < 0) {
        return status;
    }
    status = start_tasks(self);
    if (status < 0) {
        return status;
    }
    status = make_table(self);
    return status < 0 ? status
                      : bytes_of_ps(self, cadre_bench_resident_bytes, &self->resident_before);
}

/* Schedules an update of IDS rows: those from `first` on, or random ones where that is negative. */
static int
schedule(subject_t *self, int first)
{
    cadre_auto(cadre_free) int32_t *ids = cadre_calloc(IDS, sizeof(*ids));
    for (int i = 0; i < IDS; i++) {
        ids[i] = first < 0 ? (int32_t)cadre_random_below(&self->random, (uint64_t)self->rows)
                           : first + i;
    }
    const cadre_tensor_t tensor = {.dtype = CADRE_I32, .rank = 1, .shape = {IDS}, .data = ids};
    const cadre_argument_t argument = {"ids", &tensor};
    cadre_call_t call = cadre_call_tensors(&argument, 1);
    return cadre_coordinator_schedule(self->coordinator, self->step, &call, WAIT_MS, NULL);
}

/* Updates `count` rows, from `first` on or random ones, and waits until all have been. */
static int
update(subject_t *self, int first, int count)
{
    int status = 0;
    for (int done = 0; done < count && status == 0; done += IDS) {
        status = schedule(self, first < 0 ? first : first + done);
    }
    return status < 0 ? status : cadre_coordinator_join(self->coordinator, WAIT_MS);
}

/* --- figures --- */

static void
add_figure(subject_t *self, const char *name, const char *unit, double value)
{
    const cadre_bench_figure_t figure = {.section = "sparse", .unit = unit, .value = value};
    cadre_bench_report_add(&self->bench->report, &figure, "%s", name);
}

static int
measure_growth(subject_t *self)
{
    const double begin = cadre_bench_now();
    int status = update(self, 0, self->rows);
    if (status < 0) {
        return status;
    }
    const double seconds = cadre_bench_now() - begin;
    cadre_table_counts_t counts;
    status = cadre_variable_read_counts(self->table, &counts, WAIT_MS);
    if (status < 0) {
        return status;
    }
    double resident = 0;
    status = bytes_of_ps(self, cadre_bench_resident_bytes, &resident);
    if (status < 0) {
        return status;
    }

    const double rows = (double)counts.rows;
    add_figure(self, "rows made by closures", "M rows/s", rows * 1e-6 / seconds);
    cadre_bench_figure_t figure = {.section = "sparse",
                                   .unit = "bytes",
                                   .value = (double)counts.size_bytes / rows,
                                   .ceiling_name = "key, values and slots",
                                   .ceiling = sizeof(uint64_t) + (DIM + 1) * sizeof(float)};
    cadre_bench_report_add(&self->bench->report, &figure, "a row of %d, of %.1f M", DIM,
                           rows * 1e-6);
    figure.value = (resident - self->resident_before) / rows;
    cadre_bench_report_add(&self->bench->report, &figure, "a row, of the memory of both ps");
    return 0;
}

static int
measure_checkpoint(subject_t *self, const char *name)
{
    const double begin = cadre_bench_now();
    int status = cadre_checkpoint_save(self->coordinator, NULL, WAIT_MS, NULL);
    if (status == 0) {
        add_figure(self, name, "s", cadre_bench_now() - begin);
    }
    return status;
}

/* Adds what a row takes of the memory of both ps, by `measure`. */
static int
measure_memory(subject_t *self, const char *name, int (*measure)(pid_t, double *))
{
    double bytes = 0;
    int status = bytes_of_ps(self, measure, &bytes);
    if (status == 0) {
        add_figure(self, name, "bytes", (bytes - self->resident_before) / self->rows);
    }
    return status;
}

/* Takes a checkpoint while random rows change, which copies every page that one of them is in, and
 * then has updates enough for the ps to give the memory of the others back. */
static int
measure_snapshot(subject_t *self)
{
    int status = 0;
    for (int done = 0; done < self->rows / CHANGED && status == 0; done += IDS) {
        status = schedule(self, -1);
    }
    if (status < 0) {
        return status;
    }
    status = measure_checkpoint(self, "checkpoint while 1 % random rows change");
    if (status < 0) {
        return status;
    }
    status = cadre_coordinator_join(self->coordinator, WAIT_MS);
    if (status < 0) {
        return status;
    }
    status = measure_memory(self, "a row, most of that memory", cadre_bench_peak_bytes);
    if (status < 0) {
        return status;
    }
    status = update(self, -1, UPDATES_LATER * IDS);
    if (status < 0) {
        return status;
    }
    status = measure_memory(self, "a row, of that memory, 200 updates later",
                            cadre_bench_resident_bytes);

    /* Two checkpoints later no closure before them is run again when a ps is killed. */
    for (int i = 0; i < 2 && status == 0; i++) {
        status = cadre_checkpoint_save(self->coordinator, NULL, WAIT_MS, NULL);
    }
    return status;
}

static int
measure_checkpoints(subject_t *self)
{
    int status = measure_checkpoint(self, "checkpoint of all rows");
    if (status < 0) {
        return status;
    }
    status = update(self, 0, self->rows / CHANGED);
    if (status < 0) {
        return status;
    }
    status = measure_checkpoint(self, "checkpoint, 1 % of rows made together changed");
    if (status < 0) {
        return status;
    }
    status = update(self, -1, self->rows / CHANGED);
    if (status < 0) {
        return status;
    }
    status = measure_checkpoint(self, "checkpoint, 1 % random rows changed");
    return status < 0 ? status : measure_snapshot(self);
}

/* Kills a ps, starts another, and waits until an update that both have part in is applied. */
static int
kill_one(subject_t *self, int index, double *seconds)
{
    const double begin = cadre_bench_now();
    cadre_bench_process_end(&self->ps[index], 0);
    int status = start_ps(self, index);
    if (status < 0) {
        return status;
    }
    status = update(self, -1, IDS);
    *seconds = cadre_bench_now() - begin;
    return status;
}

static int
measure_kills(subject_t *self)
{
    double seconds[KILLS_FULL];
    const int kills = cadre_bench_amount(self->bench, KILLS_FULL, KILLS_QUICK);
    for (int i = 0; i < kills; i++) {
        int status = kill_one(self, i % PS, &seconds[i]);
        if (status < 0) {
            return status;
        }
    }
    add_figure(self, "kill -9 of a ps to an applied update, p50", "s",
               cadre_bench_quantile(seconds, (size_t)kills, 0.5));
    add_figure(self, "kill -9 of a ps to an applied update, p99", "s",
               cadre_bench_quantile(seconds, (size_t)kills, 0.99));
    return 0;
}

int
cadre_bench_sparse(cadre_bench_t *self)
{
    cadre_auto(subject_fini) subject_t subject = {.bench = self};
    int status = subject_init(self, &subject);
    if (status < 0) {
        return status;
    }
    status = measure_growth(&subject);
    if (status < 0) {
        return status;
    }
    status = measure_checkpoints(&subject);
    return status < 0 ? status : measure_kills(&subject);
}
