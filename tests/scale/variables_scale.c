/*
 * variables - VARIABLES WORKERS [PROCESSES]: from the last join to the first closure; CPU, memory
 *
 * Creates the variables, small ones, then lets the workers join all at once, then schedules two
 * closures for each. PROCESSES 1: each worker is a process, not a light one. Wanted of 2,000 x 300:
 * the first closure within 10 s of the last join, under 1 GB.
 */
#include <stdlib.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/scale/scale.h"

enum {
    FIRST_CLOSURE_S = 10,
    MEMORY_MIB = 1000,
    ALONE_MAX = 1000, /* variables that are created by a call each, to compare */
};

static void
create(scale_cluster_t *cluster, long count)
{
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 1;
    const int64_t shape[] = {1};
    cadre_auto(cadre_free) cadre_variable_definition_t *definitions =
        cadre_calloc((size_t)count, sizeof(*definitions));
    for (long i = 0; i < count; i++) {
        definitions[i] = (cadre_variable_definition_t){
            .name = cadre_asprintf("model.encoder.layer_%ld.attention.query.kernel", i),
            .dtype = CADRE_F32,
            .shape = shape,
            .rank = 1,
            .options = &options};
    }
    long alone = count < ALONE_MAX ? count : ALONE_MAX;
    double from = scale_now();
    double cpu = scale_cpu();
    for (long i = 0; i < alone; i++) {
        scale_check(cadre_variable_create(cluster->coordinator, definitions[i].name, CADRE_F32,
                                          shape, 1, &options, NULL),
                    definitions[i].name);
    }
    double one_ms = 1000 * (scale_now() - from) / (double)alone;
    double one_cpu_ms = 1000 * (scale_cpu() - cpu) / (double)alone;
    from = scale_now();
    cpu = scale_cpu();
    scale_check(cadre_variable_create_many(cluster->coordinator, definitions + alone,
                                           (size_t)(count - alone), NULL),
                "variables");
    double per = 1000 / (double)(count > alone ? count - alone : 1);
    printf(
        "created %ld variables one by one: %.3f ms each, %.3f ms of the coordinator's CPU; %ld in "
        "one call: %.3f ms, %.3f ms\n",
        alone, one_ms, one_cpu_ms, count - alone, per * (scale_now() - from),
        per * (scale_cpu() - cpu));
    for (long i = 0; i < count; i++) {
        free((char *)definitions[i].name);
    }
}

int
main(int argc, char **argv)
{
    scale_arguments_t arguments = scale_arguments(argc, argv);
    long variables = scale_number(&arguments, 0, 2000, 300);
    int workers = (int)scale_number(&arguments, 1, 300, 40);
    scale_cluster_t cluster;
    scale_cluster_open(&cluster, 1, NULL);
    create(&cluster, variables);

    double started = scale_now();
    double cpu = scale_cpu();
    if (scale_number(&arguments, 2, 0, 0)) {
        scale_cluster_add_processes(&cluster, workers, 1);
    } else {
        scale_cluster_add_workers(&cluster, workers, 1);
    }
    scale_check(cadre_coordinator_wait_ready(cluster.coordinator, workers, SCALE_WAIT_MS),
                "the workers");
    double joined = scale_now();
    cadre_function_t *function = NULL;
    scale_check(cadre_function_native(cluster.coordinator, "noop", &function), "a function");
    for (int i = 0; i < 2 * workers; i++) {
        scale_check(
            cadre_coordinator_schedule(cluster.coordinator, function, NULL, SCALE_WAIT_MS, NULL),
            "a closure");
    }
    double first = scale_await_finished(&cluster, 1);
    double all = scale_await_finished(&cluster, 2 * (uint64_t)workers);

    cadre_totals_t totals = cadre_coordinator_totals(cluster.coordinator);
    long memory = scale_memory_peak_mib(getpid());
    int status = scale_verdict(
        first - joined <= FIRST_CLOSURE_S && memory < MEMORY_MIB && totals.workers_lost == 0,
        "variables %ld x %d: joined in %.1f s, first closure %.2f s later, all %d %.2f s; "
        "coordinator %.2f s CPU, %ld MiB at most; workers lost %llu",
        variables, workers, joined - started, first - joined, 2 * workers, all - joined,
        scale_cpu() - cpu, memory, (unsigned long long)totals.workers_lost);
    scale_cluster_close(&cluster);
    return status;
}
