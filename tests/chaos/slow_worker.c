/*
 * One worker of four that is stopped nine tenths of the time: how long an epoch takes with backup
 * attempts and without, beside the three healthy workers alone.
 */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"
#include "tests/chaos/chaos.h"
#include "tests/conformance/functions.h"
#include "tests/system/local_cluster.h"
#include "tests/system/process.h"

enum {
    HEALTHY = 3, /* workers; the slow one comes on top */
    PS = 2,
    BACKUPS = 2,
    STEP_CLOSURES = 4, /* more than there are healthy workers */
    WARM_UP = 12,      /* closures before the epoch that is measured */
    STOPPED_MS = 90,
    RUNNING_MS = 10,
    RATIO_MAX = 130, /* of the epoch of the healthy workers alone, in percent */
};

/* --- a worker that is slow --- */

typedef struct {
    pid_t pid;
    pthread_t thread;
    _Atomic bool ends;
} brake_t;

static void *
run_brake(void *argument)
{
    brake_t *self = argument;
    while (!atomic_load(&self->ends)) {
        kill(self->pid, SIGSTOP);
        poll(NULL, 0, STOPPED_MS);
        kill(self->pid, SIGCONT);
        poll(NULL, 0, RUNNING_MS);
    }
    return NULL;
}

static void
brake_start(brake_t *self, pid_t pid)
{
    self->pid = pid;
    atomic_init(&self->ends, false);
    require(pthread_create(&self->thread, NULL, run_brake, self) == 0, "a thread");
}

static void
brake_end(brake_t *self)
{
    atomic_store(&self->ends, true);
    pthread_join(self->thread, NULL);
}

/* --- an epoch --- */

typedef struct {
    bool has_slow;
    cadre_consistency_t consistency;
    uint32_t backup_attempts;
} setting_t;

typedef struct {
    double took_ms;
    uint64_t begun; /* backup attempts */
    uint64_t won;
} epoch_t;

static uint64_t
number_after(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    require(at != NULL, key);
    return strtoull(at + strlen(key), NULL, 10);
}

static void
run_closures(cadre_coordinator_t *job, const cadre_function_t *toil, int count)
{
    for (int i = 0; i < count; i++) {
        require(cadre_coordinator_schedule(job, toil, NULL, LOCAL_WAIT_MS, NULL) == 0,
                cadre_error_text());
    }
    require(cadre_coordinator_join(job, LOCAL_WAIT_MS) == 0, cadre_error_text());
}

static void
check_total(cadre_variable_t *wide, int closures)
{
    cadre_tensor_t value = {.data = NULL};
    require(cadre_variable_read(wide, &value, LOCAL_WAIT_MS) == 0, cadre_error_text());
    for (int64_t i = 0; i < cadre_tensor_count(&value); i++) {
        const float found = ((const float *)value.data)[i];
        require(found >= (float)closures && found <= (float)closures, "each closure's update once");
    }
    cadre_tensor_fini(&value);
}

/* Runs an epoch of `count` closures on a cluster of its own. */
static epoch_t
run_epoch(const setting_t *setting, int count)
{
    local_cluster_t cluster;
    local_cluster_options_t options = {
        .ps = PS, .workers = HEALTHY + setting->has_slow, .slots = 1};
    options.coordinator.consistency = setting->consistency;
    options.coordinator.step_closures = setting->consistency == CADRE_SYNC ? STEP_CLOSURES : 0;
    options.coordinator.backup_attempts = setting->backup_attempts;
    local_cluster_open(&cluster, &options);
    cadre_coordinator_t *job = cluster.coordinator;

    cadre_variable_options_t variable = cadre_variable_options();
    const int64_t shape[] = {WIDE_ROWS};
    cadre_variable_t *wide = NULL;
    cadre_function_t *toil = NULL;
    variable.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    variable.partitioner = CADRE_PARTITION_FIXED;
    variable.count = PS;
    require(cadre_variable_create(job, "wide", CADRE_F32, shape, 1, &variable, &wide) == 0,
            cadre_error_text());
    require(cadre_function_native(job, "toil", &toil) == 0, cadre_error_text());

    brake_t brake;
    if (setting->has_slow) {
        brake_start(&brake, cluster.tasks[LOCAL_WORKER][HEALTHY]);
    }
    run_closures(job, toil, WARM_UP);
    const int64_t begun_ms = cadre_clock_now_ms();
    run_closures(job, toil, count);
    epoch_t epoch = {.took_ms = (double)(cadre_clock_now_ms() - begun_ms)};
    if (setting->has_slow) {
        brake_end(&brake);
    }

    check_total(wide, WARM_UP + count);
    cadre_auto(cadre_free) char *status = NULL;
    require(cadre_coordinator_status_json(job, &status) == 0, cadre_error_text());
    const char *backups = strstr(status, "\"backup_attempts\":");
    require(backups != NULL, "backup attempts in the status");
    epoch.begun = number_after(backups, "\"begun\":");
    epoch.won = number_after(backups, "\"won\":");
    local_cluster_close(&cluster);
    return epoch;
}

/* --- the test --- */

static void
compare(chaos_run_t *run, cadre_consistency_t consistency, const char *name)
{
    const setting_t healthy = {.consistency = consistency};
    const setting_t slow = {.has_slow = true, .consistency = consistency};
    const setting_t backed = {
        .has_slow = true, .consistency = consistency, .backup_attempts = BACKUPS};
    const epoch_t alone = run_epoch(&healthy, run->count);
    const epoch_t without = run_epoch(&slow, run->count);
    const epoch_t with = run_epoch(&backed, run->count);

    const double ratio = with.took_ms / alone.took_ms;
    require(alone.begun + without.begun == 0, "no backup attempts unless they are asked for");
    require(with.begun > 0, "backup attempts");
    require(run->short_form || ratio * 100 <= RATIO_MAX,
            "an epoch that takes at most 1.3 times that of the healthy workers alone");
    chaos_say(run,
              "%s%s: %d closures on %d workers %.0f ms, with a slow one %.2f times that, with "
              "backup attempts %.2f times (%" PRIu64 " begun, %" PRIu64 " won)",
              run->text[0] ? "; " : "", name, run->count, HEALTHY, alone.took_ms,
              without.took_ms / alone.took_ms, ratio, with.begun, with.won);
    char key[32];
    snprintf(key, sizeof(key), "%s_without", name);
    chaos_number(run, key, without.took_ms / alone.took_ms);
    snprintf(key, sizeof(key), "%s_with", name);
    chaos_number(run, key, ratio);
}

void
chaos_slow_worker(chaos_run_t *run)
{
    compare(run, CADRE_ASYNC, "async");
    compare(run, CADRE_SYNC, "sync");
}
