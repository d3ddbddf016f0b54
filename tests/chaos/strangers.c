/*
 * A thousand strangers at the doors of a job whose tasks know each other by keys: the job goes on
 * nearly as fast as alone, and costs nearly as little memory.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/system/clock.h"
#include "tests/chaos/chaos.h"
#include "tests/chaos/crowd.h"
#include "tests/chaos/field.h"
#include "tests/sanitizer.h"
#include "tests/system/process.h"

enum {
    PS = 2,
    WORKERS = 2,
    LEASE_MS = 60000, /* nobody is to be lost for being slow */
    STRANGERS = 1000,
    PORT = 20200,
    ROUND_MS = 15000, /* quiet, then not, in turn: both see the same machine */
    SHORT_ROUND_MS = 1000,
    MEMORY_MIB = 64,    /* that they may cost all tasks together */
    LEAST_PERCENT = 70, /* of the closures that a quiet job ends in the same time */
};

static const char HOST[] = "127.94.1.1";

typedef struct {
    scratch_t scratch;
    field_t field;
    char *keys; /* "CADRE_KEYS=DIRECTORY" */
    char addresses[PS][BOARD_PATH_SIZE];
    crowd_target_t targets[PS + 1];
} siege_t;

static void
prepare(void *context, field_role_t role, int index, field_start_t *start)
{
    siege_t *self = context;
    start->environment[0] = self->keys;
    if (role == FIELD_PS) {
        start->address = self->addresses[index];
    }
}

static int64_t
memory_kib(const siege_t *self)
{
    int64_t sum = process_memory_kib(self->field.pids[FIELD_JOB][0], "VmRSS:");
    for (int i = 0; i < PS; i++) {
        sum += process_memory_kib(self->field.pids[FIELD_PS][i], "VmRSS:");
    }
    return sum;
}

/* How many closures a second ended; and how much memory the tasks had at most. */
static double
measure(siege_t *self, int64_t ms, int64_t *most_kib)
{
    uint64_t before = self->field.board->finished;
    int64_t begin_ms = cadre_clock_now_ms();
    while (cadre_clock_now_ms() < begin_ms + ms) {
        field_spend(&self->field, 100);
        int64_t kib = memory_kib(self);
        *most_kib = kib > *most_kib ? kib : *most_kib;
    }
    double seconds = (double)(cadre_clock_now_ms() - begin_ms) / 1000;
    return (double)(self->field.board->finished - before) / seconds;
}

static void
siege_open(siege_t *self, chaos_run_t *run)
{
    static char coordinator[BOARD_PATH_SIZE];
    uint16_t port = (uint16_t)(PORT + getpid() % 10000);
    *self = (siege_t){.keys = NULL};
    scratch_open(&self->scratch);
    self->keys = field_make_keys(&self->scratch);
    snprintf(coordinator, sizeof(coordinator), "tcp://%s:%u", HOST, port);
    self->targets[0] = (crowd_target_t){HOST, port};
    for (int i = 0; i < PS; i++) {
        uint16_t own = (uint16_t)(port + 1 + i);
        snprintf(self->addresses[i], sizeof(self->addresses[i]), "tcp://%s:%u", HOST, own);
        self->targets[i + 1] = (crowd_target_t){HOST, own};
    }
    field_options_t options = {.ps = PS,
                               .workers = WORKERS,
                               .address = coordinator,
                               .settings = {.seed = run->seed, .lease_ms = LEASE_MS},
                               .prepare = prepare,
                               .context = self};
    field_open(&self->field, &options);
}

void
chaos_strangers(chaos_run_t *run)
{
    siege_t siege;
    board_t last;
    int64_t ms = run->short_form ? SHORT_ROUND_MS : ROUND_MS;
    int64_t quiet_kib = 0;
    int64_t most_kib = 0;
    double *ratios = cadre_calloc((size_t)run->count, sizeof(*ratios));
    siege_open(&siege, run);
    measure(&siege, ms, &quiet_kib); /* until buffers have their sizes */
    for (int i = 0; i < run->count; i++) {
        double quiet = measure(&siege, ms, &quiet_kib);
        pid_t crowd = crowd_start(siege.targets, PS + 1, STRANGERS, run->seed + (uint64_t)i);
        field_spend(&siege.field, 1000);
        ratios[i] = measure(&siege, ms, &most_kib) / quiet;
        crowd_stop(crowd);
    }
    field_close(&siege.field, &last);
    double p50 = chaos_percentile(ratios, run->count, 50);
    double grown_mib = (double)(most_kib - quiet_kib) / 1024;
    require(last.workers_lost == 0 && last.ps_lost == 0, "nobody is lost");
    require(SANITIZER || grown_mib < MEMORY_MIB, "strangers cost little memory");
    require(run->short_form || 100 * p50 >= LEAST_PERCENT, "the job goes on");
    chaos_say(run,
              "%d strangers for %d x %" PRId64 " ms at the coordinator and %d ps: %" PRIu64
              " updates exact, nobody lost; closures a second %.2f of the quiet job's (p50); "
              "memory of coordinator and ps grew by %.1f MiB",
              STRANGERS, run->count, ms, PS, last.updates, p50, grown_mib);
    chaos_number(run, "strangers", STRANGERS);
    chaos_number(run, "throughput_ratio", p50);
    chaos_number(run, "memory_mib", grown_mib);
    chaos_number(run, "updates", (double)last.updates);
    scratch_close(&siege.scratch);
    free(siege.keys);
    free(ratios);
}
