/*
 * variables - VARIABLES WORKERS [PROCESSES]: from the last join to the first closure; CPU, memory
 *
 * Creates the variables, small ones, then lets the workers join all at once, then schedules two
 * closures for each. PROCESSES 1: each worker is a process, not a light one. Wanted of 2,000 x 300:
 * the first closure within 10 s of the last join, under 1 GB.
 */
#include <unistd.h>

#include "common/memory.h"
#include "tests/scale/scale.h"

enum { FIRST_CLOSURE_S = 10, MEMORY_MIB = 1000 };

static void
create(scale_cluster_t *cluster, long count)
{
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = "add";
    options.count = 1;
    double from = scale_now();
    double cpu = scale_cpu();
    for (long i = 0; i < count; i++) {
        cadre_variable_t *variable = NULL;
        cadre_auto(cadre_free) char *name =
            cadre_asprintf("model.encoder.layer_%ld.attention.query.kernel", i);
        scale_check(cadre_variable_create(cluster->coordinator, name, CADRE_F32, (int64_t[]){1}, 1,
                                          &options, &variable),
                    name);
    }
    printf("created %ld variables in %.1f s, %.1f s of the coordinator's CPU\n", count,
           scale_now() - from, scale_cpu() - cpu);
}

static double
await_finished(scale_cluster_t *cluster, uint64_t count)
{
    for (deadline_t deadline = deadline_in(SCALE_WAIT_MS);
         cadre_totals(cluster->coordinator).finished < count;) {
        require(again(deadline), "closures that end");
    }
    return scale_now();
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
        scale_check(cadre_schedule(cluster.coordinator, function, NULL, SCALE_WAIT_MS, NULL),
                    "a closure");
    }
    double first = await_finished(&cluster, 1);
    double all = await_finished(&cluster, 2 * (uint64_t)workers);

    cadre_totals_t totals = cadre_totals(cluster.coordinator);
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
