/*
 * What several lanes of a ps gain: updates of 64 MB under Adam, pushed to a real ps that checks,
 * applies and answers them, with as many lanes as there are CPUs beside one lane. One request is
 * unanswered at a time and two are: with two the transport of one hides behind the other.
 */
#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/shard_client.h"
#include "common/base/memory.h"
#include "common/system/cpu_quota.h"

enum { SIZE = 64 << 20, COUNT = 12, REPETITIONS = 7 };

typedef struct {
    cadre_bench_shard_client_t *client;
    size_t count;
    size_t window;
} subject_t;

static int
run_push(void *context, double *value)
{
    const subject_t *self = context;
    double begin = cadre_bench_now();
    int status = cadre_bench_shard_client_push(self->client, 1, self->count, self->window);
    *value = (double)self->count * SIZE / (cadre_bench_now() - begin) * 1e-9;
    return status;
}

static int
measure(cadre_bench_t *bench, subject_t subjects[2], size_t window, int lanes)
{
    cadre_bench_measure_t measures[2] = {{run_push, &subjects[0], 0}, {run_push, &subjects[1], 0}};
    subjects[0].window = window;
    subjects[1].window = window;
    int status = cadre_bench_measure_in_turn(measures, CADRE_COUNT_OF(measures),
                                             cadre_bench_amount(bench, REPETITIONS, 3));
    if (status < 0) {
        return status;
    }

    cadre_bench_figure_t figure = {.section = "lanes",
                                   .unit = "GB/s",
                                   .value = measures[1].value,
                                   .ceiling_name = "one lane",
                                   .ceiling = measures[0].value};
    cadre_bench_report_add(&bench->report, &figure, "push and apply 64 MB adam, %d lanes, %zu",
                           lanes, window);
    return 0;
}

int
cadre_bench_lanes(cadre_bench_t *self)
{
    const int lanes[2] = {1, cadre_cpu_count()};
    subject_t subjects[2] = {{.client = NULL}, {.client = NULL}};
    int status = 0;
    for (int i = 0; i < 2 && status == 0; i++) {
        subjects[i].count = (size_t)cadre_bench_amount(self, COUNT, 3);
        status = cadre_bench_shard_client_open(self, lanes[i], false, &subjects[i].client);
        if (status == 0) {
            status = cadre_bench_shard_client_create(subjects[i].client, 1, SIZE,
                                                     CADRE_OPTIMIZER_ADAM, false);
        }
    }

    for (size_t window = 1; window <= 2 && status == 0; window++) {
        status = measure(self, subjects, window, lanes[1]);
    }

    cadre_bench_shard_client_close(&subjects[0].client);
    cadre_bench_shard_client_close(&subjects[1].client);
    return status;
}
