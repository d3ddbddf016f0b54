/*
 * What a job costs that does nothing: CPU time of each task while nothing is scheduled, and whether
 * a worker's memory grows with the closures it has run.
 */
#include <poll.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/cluster.h"
#include "bench/measure.h"
#include "common/base/memory.h"

enum {
    WORKERS = 2,
    TASKS = 2 + WORKERS, /* coordinator, ps, workers */
    IDLE_MS_FULL = 5000,
    IDLE_MS_QUICK = 2000,
    FEW = 1000,
    MANY_FULL = 100000,
    MANY_QUICK = 20000,
};

static const char *const names[TASKS] = {"coordinator", "ps", "worker 0", "worker 1"};

static int
cpu_of_all(const pid_t *pids, double *seconds)
{
    int status = 0;
    for (int i = 0; i < TASKS; i++) {
        status = cadre_bench_cpu_seconds(pids[i], &seconds[i]);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

static int
measure_cpu(cadre_bench_t *bench, const cadre_bench_cluster_t *cluster)
{
    const pid_t pids[TASKS] = {getpid(), cluster->ps, cluster->workers[0], cluster->workers[1]};
    double before[TASKS];
    double after[TASKS];
    int idle_ms = cadre_bench_amount(bench, IDLE_MS_FULL, IDLE_MS_QUICK);
    int status = cpu_of_all(pids, before);

    poll(NULL, 0, idle_ms);
    if (status == 0) {
        status = cpu_of_all(pids, after);
    }

    for (int i = 0; i < TASKS && status == 0; i++) {
        const cadre_bench_figure_t figure = {.section = "idle",
                                             .unit = "ms",
                                             .value = 1e3 * (after[i] - before[i]),
                                             .ceiling_name = "of wall time",
                                             .ceiling = idle_ms};
        cadre_bench_report_add(&bench->report, &figure, "CPU, %s", names[i]);
    }

    return status;
}

static int
run_to(cadre_bench_cluster_t *cluster, const cadre_function_t *noop, int closures, double *bytes)
{
    double seconds = 0;
    int status = cadre_bench_cluster_run(cluster, noop, closures, &seconds);
    if (status < 0) {
        return status;
    }
    return cadre_bench_resident_bytes(cluster->workers[0], bytes);
}

static int
measure_memory(cadre_bench_t *bench, cadre_bench_cluster_t *cluster)
{
    int many = cadre_bench_amount(bench, MANY_FULL, MANY_QUICK);
    double few_bytes = 0;
    double many_bytes = 0;
    cadre_function_t *noop = NULL;
    int status = cadre_function_native(cluster->coordinator, "noop", &noop);
    if (status < 0) {
        return status;
    }

    status = run_to(cluster, noop, FEW, &few_bytes);
    if (status < 0) {
        return status;
    }

    status = run_to(cluster, noop, many - FEW, &many_bytes);
    if (status < 0) {
        return status;
    }

    const cadre_bench_figure_t figure = {.section = "idle",
                                         .unit = "MB",
                                         .value = many_bytes * 1e-6,
                                         .ceiling_name = "after 1,000 closures",
                                         .ceiling = few_bytes * 1e-6};
    cadre_bench_report_add(&bench->report, &figure, "worker memory after %d closures", many);
    return 0;
}

int
cadre_bench_idle(cadre_bench_t *self)
{
    cadre_auto(cadre_bench_cluster_close) cadre_bench_cluster_t cluster = {.coordinator = NULL};
    int status = cadre_bench_cluster_open(self, WORKERS, &cluster);
    if (status < 0) {
        return status;
    }

    status = measure_memory(self, &cluster);
    if (status < 0) {
        return status;
    }

    return measure_cpu(self, &cluster);
}
