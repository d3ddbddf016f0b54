#include "bench/cluster.h"

#include <stdio.h>
#include <unistd.h>

#include "bench/measure.h"
#include "bench/process.h"
#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"

enum { LEAVE_MS = 3000 };

/* Where the tasks of a cluster are, and how they know each other. */
typedef struct {
    const char *coordinator; /* to bind */
    const char *ps;
    const char *keys; /* directory; NULL: none */
} places_t;

static int
start_tasks(cadre_bench_t *bench, const places_t *places, cadre_bench_cluster_t *self, int workers)
{
    const char *coordinator = cadre_coordinator_address(self->coordinator);
    const char *flag = places->keys ? "--keys" : NULL;
    const char *const ps[] = {"--index",  "0",  "--coordinator", coordinator, "--address",
                              places->ps, flag, places->keys,    NULL};
    int status = cadre_bench_process_start("cadre-ps", ps, bench->verbose, &self->ps);
    if (status < 0) {
        return status;
    }

    for (int i = 0; i < workers; i++) {
        char index[12];
        snprintf(index, sizeof(index), "%d", i);
        const char *const worker[] = {"--index",    index, "--coordinator", coordinator, flag,
                                      places->keys, NULL};
        status = cadre_bench_process_start("cadre-worker", worker, bench->verbose,
                                           &self->workers[self->worker_count++]);
        if (status < 0) {
            return status;
        }
    }

    return 0;
}

static int
open_at(cadre_bench_t *bench, int workers, const places_t *places, cadre_bench_cluster_t *self)
{
    cadre_assert(workers <= CADRE_BENCH_WORKERS_MAX);
    *self = (cadre_bench_cluster_t){.coordinator = NULL};
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.job = "bench";
    options.address = places->coordinator;
    options.keys = places->keys;
    options.ps_count = 1;
    options.seed = 1;
    int status = cadre_coordinator_open(&options, &self->coordinator);
    if (status < 0) {
        return status;
    }

    status = start_tasks(bench, places, self, workers);
    if (status < 0) {
        return status;
    }

    return cadre_coordinator_wait_ready(self->coordinator, workers, CADRE_BENCH_WAIT_MS);
}

static int
open_or_close(cadre_bench_t *bench, int workers, const places_t *places,
              cadre_bench_cluster_t *self)
{
    int status = open_at(bench, workers, places, self);
    if (status < 0) {
        cadre_fail_within(status, "a cluster of 1 ps and %d workers", workers);
        cadre_bench_cluster_close(self);
    }
    return status;
}

int
cadre_bench_cluster_open(cadre_bench_t *bench, int workers, cadre_bench_cluster_t *self)
{
    cadre_auto(cadre_free) char *coordinator = cadre_bench_address(bench, "coordinator");
    cadre_auto(cadre_free) char *ps = cadre_bench_address(bench, "ps");
    return open_or_close(bench, workers, &(places_t){coordinator, ps, NULL}, self);
}

int
cadre_bench_cluster_open_tcp(cadre_bench_t *bench, int workers, const char *keys,
                             cadre_bench_cluster_t *self)
{
    const places_t places = {CADRE_BENCH_TCP, CADRE_BENCH_TCP, keys};
    return open_or_close(bench, workers, &places, self);
}

void
cadre_bench_cluster_close(cadre_bench_cluster_t *self)
{
    cadre_coordinator_close(&self->coordinator);
    for (int i = 0; i < self->worker_count; i++) {
        cadre_bench_process_end(&self->workers[i], LEAVE_MS);
    }
    cadre_bench_process_end(&self->ps, LEAVE_MS);
    *self = (cadre_bench_cluster_t){.coordinator = NULL};
}

int
cadre_bench_cluster_cpu_seconds(const cadre_bench_cluster_t *self, double *seconds)
{
    double sum = 0;
    double part = 0;
    int status = cadre_bench_cpu_seconds(getpid(), &sum);
    for (int i = -1; i < self->worker_count && status == 0; i++) {
        status = cadre_bench_cpu_seconds(i < 0 ? self->ps : self->workers[i], &part);
        sum += part;
    }
    *seconds = sum;
    return status;
}

int
cadre_bench_cluster_run(cadre_bench_cluster_t *self, const cadre_function_t *function, int count,
                        double *seconds)
{
    int status = 0;
    double begin = cadre_bench_now();

    for (int i = 0; i < count && status == 0; i++) {
        status = cadre_coordinator_schedule(self->coordinator, function, NULL, CADRE_BENCH_WAIT_MS,
                                            NULL);
    }

    if (status == 0) {
        status = cadre_coordinator_join(self->coordinator, CADRE_BENCH_WAIT_MS);
    }

    *seconds = cadre_bench_now() - begin;
    return status;
}
