/*
 * What keys cost: the same cluster over tcp, in the clear and with CURVE. Closures that do nothing,
 * and a value of 64 MB that this process reads from one ps and assigns to it, which is one
 * connection. The ceiling of each figure is what it is in the clear, measured in turn with it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/cluster.h"
#include "bench/measure.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/cli/train/job_keys.h"

enum {
    CLOSURES_FULL = 50000,
    CLOSURES_QUICK = 5000,
    VALUE_SIZE = 64 << 20,
    PASSES_FULL = 8, /* over the value, in one run */
    PASSES_QUICK = 2,
    REPETITIONS = 5,
    WORKERS = 2,
    PATH_SIZE = 512,
};

typedef struct {
    cadre_bench_cluster_t cluster;
    cadre_function_t *noop;
    cadre_variable_t *variable;
    cadre_tensor_t value;
    int closures;
    int passes;
    double cpu_us;      /* of all tasks per closure, in the last run */
    double read_cpu_s;  /* per GB */
    double write_cpu_s; /* the same */
} subject_t;

/* --- runs --- */

static int
run_closures(void *context, double *value)
{
    subject_t *self = context;
    double seconds = 0;
    double before = 0;
    double after = 0;
    int status = cadre_bench_cluster_cpu_seconds(&self->cluster, &before);
    if (status < 0) {
        return status;
    }

    status = cadre_bench_cluster_run(&self->cluster, self->noop, self->closures, &seconds);
    if (status < 0) {
        return status;
    }

    status = cadre_bench_cluster_cpu_seconds(&self->cluster, &after);
    if (status < 0) {
        return status;
    }

    *value = self->closures / seconds;
    self->cpu_us = 1e6 * (after - before) / self->closures;
    return 0;
}

static int
pass(subject_t *self, bool write)
{
    if (write) {
        return cadre_variable_assign(self->variable, CADRE_VARIABLE_SET, &self->value,
                                     CADRE_BENCH_WAIT_MS);
    }
    cadre_tensor_fini(&self->value);
    return cadre_variable_read(self->variable, &self->value, CADRE_BENCH_WAIT_MS);
}

static int
run_passes(subject_t *self, bool write, double *value, double *cpu_s)
{
    double before = 0;
    double after = 0;
    double begin = cadre_bench_now();
    int status = cadre_bench_cluster_cpu_seconds(&self->cluster, &before);
    if (status < 0) {
        return status;
    }

    for (int i = 0; i < self->passes; i++) {
        status = pass(self, write);
        if (status < 0) {
            return status;
        }
    }

    status = cadre_bench_cluster_cpu_seconds(&self->cluster, &after);
    if (status < 0) {
        return status;
    }

    double gb = 1e-9 * VALUE_SIZE * self->passes;
    *value = gb / (cadre_bench_now() - begin);
    *cpu_s = (after - before) / gb;
    return 0;
}

static int
run_reads(void *context, double *value)
{
    subject_t *self = context;
    return run_passes(self, false, value, &self->read_cpu_s);
}

static int
run_writes(void *context, double *value)
{
    subject_t *self = context;
    return run_passes(self, true, value, &self->write_cpu_s);
}

/* --- two clusters --- */

static int
open_subject(cadre_bench_t *bench, const char *keys, subject_t *self)
{
    self->closures = cadre_bench_amount(bench, CLOSURES_FULL, CLOSURES_QUICK);
    self->passes = cadre_bench_amount(bench, PASSES_FULL, PASSES_QUICK);
    int status = cadre_bench_cluster_open_tcp(bench, WORKERS, keys, &self->cluster);
    if (status < 0) {
        return status;
    }

    status = cadre_function_native(self->cluster.coordinator, "noop", &self->noop);
    if (status < 0) {
        return status;
    }

    cadre_variable_options_t options = cadre_variable_options();
    options.initializer = cadre_initializer(CADRE_INITIALIZER_ZEROS);
    status =
        cadre_variable_create(self->cluster.coordinator, "value", CADRE_F32,
                              (int64_t[]){VALUE_SIZE / 4096, 1024}, 2, &options, &self->variable);
    if (status < 0) {
        return status;
    }

    return pass(self, false);
}

static void
close_subject(subject_t *self)
{
    cadre_tensor_fini(&self->value);
    cadre_bench_cluster_close(&self->cluster);
}

static void
add(cadre_bench_t *bench, const char *name, const char *unit, double guarded, double plain)
{
    cadre_bench_figure_t figure = {.section = "keys",
                                   .unit = unit,
                                   .value = guarded,
                                   .ceiling_name = "the same over tcp without keys",
                                   .ceiling = plain};
    cadre_bench_report_add(&bench->report, &figure, "%s", name);
}

static int
measure(cadre_bench_t *bench, subject_t *plain, subject_t *guarded)
{
    cadre_bench_measure_t measures[] = {{run_closures, plain, 0}, {run_closures, guarded, 0},
                                        {run_reads, plain, 0},    {run_reads, guarded, 0},
                                        {run_writes, plain, 0},   {run_writes, guarded, 0}};
    int status = cadre_bench_measure_in_turn(measures, CADRE_COUNT_OF(measures),
                                             cadre_bench_amount(bench, REPETITIONS, 3));
    if (status < 0) {
        return status;
    }

    add(bench, "no-op closures, keys", "/s", measures[1].value, measures[0].value);
    add(bench, "CPU of all tasks per closure, keys", "us", guarded->cpu_us, plain->cpu_us);
    add(bench, "read 64 MB, keys", "GB/s", measures[3].value, measures[2].value);
    add(bench, "CPU of all tasks per GB read, keys", "s", guarded->read_cpu_s, plain->read_cpu_s);
    add(bench, "assign 64 MB, keys", "GB/s", measures[5].value, measures[4].value);
    add(bench, "CPU of all tasks per GB assigned, keys", "s", guarded->write_cpu_s,
        plain->write_cpu_s);
    return 0;
}

/* --- the keys --- */

static int
make_keys(char *directory)
{
    cadre_auto(cadre_job_keys_fini) cadre_job_keys_t keys = {0};
    if (!mkdtemp(directory)) {
        return cadre_fail(CADRE_EIO, "no directory for keys");
    }
    int status = cadre_job_keys_make(&keys);
    if (status < 0) {
        return status;
    }
    return cadre_job_keys_write(&keys, directory);
}

static void
remove_keys(const char *directory)
{
    char path[PATH_SIZE];
    for (cadre_key_role_t role = 0; role < CADRE_KEY_ROLES; role++) {
        for (int secret = 0; secret < 2; secret++) {
            cadre_auto(cadre_free) char *file = cadre_job_keys_path(directory, role, secret);
            unlink(file);
        }
    }

    snprintf(path, sizeof(path), "%s/allowed", directory);
    rmdir(path);
    rmdir(directory);
}

static int
measure_both(cadre_bench_t *bench, const char *directory)
{
    cadre_auto(close_subject) subject_t guarded = {.passes = 0};
    cadre_auto(close_subject) subject_t plain = {.passes = 0};
    int status = open_subject(bench, NULL, &plain);
    if (status < 0) {
        return status;
    }

    status = open_subject(bench, directory, &guarded);
    if (status < 0) {
        return status;
    }

    return measure(bench, &plain, &guarded);
}

int
cadre_bench_keys(cadre_bench_t *self)
{
    char directory[] = "/tmp/cadre-bench-XXXXXX";
    int status = make_keys(directory);
    status = status < 0 ? status : measure_both(self, directory);
    remove_keys(directory);
    return status;
}
