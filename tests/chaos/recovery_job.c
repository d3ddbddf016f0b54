/*
 * recovery_job - measures how long a shard is away when its ps is killed; to be run by `cadre run`.
 *
 *     chaos_recovery_job CHECKPOINTS KILLS RESULTS
 *
 * Each of two shards holds 64 MB and a small variable. A thread for each shard keeps closures going
 * that add 1 to its small variable. The ps of one shard after the other is killed; at once a new
 * closure for that shard is scheduled, and its end, which a worker reports when the push was
 * applied, is the end of the wait. Meanwhile the longest time between two ends of closures of the
 * other shard is what that shard's users have noticed. RESULTS gets a line for each kill: both
 * times in ms. In the end both small variables must count every closure once.
 */
#include <cadre/coordinator.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/system/clock.h"
#include "tests/system/scratch.h"

enum {
    SHARDS = 2,
    WORKERS = 2,
    BULK_ROWS = 16 << 20, /* f32: 64 MB */
    CHECKPOINT_MS = 5000,
    BEAT_MS = 2, /* between two closures of a thread */
    CALL_MS = 60000,
    STEADY_MS = 800, /* between two kills; each ps then lives for more than a second, and is started
                        again without delay */
};

typedef struct {
    cadre_coordinator_t *coordinator;
    const cadre_function_t *beat;
    cadre_variable_t *variable;
    char name[16];
    pthread_t thread;
    _Atomic bool over;
    _Atomic uint64_t count;     /* closures that ended */
    _Atomic int64_t last_us;    /* when the last one did */
    _Atomic int64_t longest_us; /* between two of them, since it was set to 0 */
} pulse_t;

static void
must(int status, const char *what)
{
    if (status < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, cadre_status_name(status), cadre_error_text());
        exit(1);
    }
}

static void
beat(pulse_t *self)
{
    cadre_tensor_t name = {
        .dtype = CADRE_U8, .rank = 1, .shape = {(int64_t)strlen(self->name)}, .data = self->name};
    cadre_argument_t arguments[] = {{"variable", &name}};
    cadre_call_t call = cadre_call_tensors(arguments, 1);
    cadre_future_t *future = NULL;
    must(cadre_coordinator_schedule(self->coordinator, self->beat, &call, CALL_MS, &future),
         "schedule");
    must(cadre_future_wait(future, CALL_MS), "wait");
    cadre_future_destroy(&future);
    atomic_fetch_add(&self->count, 1);
}

static void *
keep_beating(void *argument)
{
    pulse_t *self = argument;
    atomic_store(&self->last_us, cadre_clock_now_us());
    while (!atomic_load(&self->over)) {
        beat(self);
        int64_t now_us = cadre_clock_now_us();
        int64_t gap_us = now_us - atomic_exchange(&self->last_us, now_us);
        if (gap_us > atomic_load(&self->longest_us)) {
            atomic_store(&self->longest_us, gap_us);
        }
        poll(NULL, 0, BEAT_MS);
    }
    return NULL;
}

/* --- setting up --- */

static void
create(pulse_t *self, int shard)
{
    char bulk_name[16];
    const int64_t rows = BULK_ROWS;
    const int64_t one = 1;
    cadre_variable_t *bulk = NULL;
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    snprintf(bulk_name, sizeof(bulk_name), "bulk-%d", shard);
    snprintf(self->name, sizeof(self->name), "beat-%d", shard);
    must(cadre_variable_create(self->coordinator, bulk_name, CADRE_F32, &rows, 1, &options, &bulk),
         bulk_name);
    options.colocate_with = bulk;
    must(cadre_variable_create(self->coordinator, self->name, CADRE_F32, &one, 1, &options,
                               &self->variable),
         self->name);
    int64_t first = 0;
    int64_t count = 0;
    int place = -1;
    cadre_variable_partition(bulk, 0, &first, &count, &place);
    require(place == shard, "each shard has one of the large variables");
}

static pid_t
pid_of_ps(cadre_coordinator_t *coordinator, int index)
{
    char *text = NULL;
    must(cadre_coordinator_status_json(coordinator, &text), "status");
    json_t *status = json_loads(text, 0, NULL);
    const json_t *tasks = json_object_get(status, "tasks");
    pid_t pid = 0;
    for (size_t i = 0; i < json_array_size(tasks); i++) {
        const json_t *task = json_array_get(tasks, i);
        if (strcmp(json_string_value(json_object_get(task, "role")), "ps") == 0 &&
            json_integer_value(json_object_get(task, "index")) == index) {
            pid = (pid_t)json_integer_value(json_object_get(task, "process"));
        }
    }
    json_decref(status);
    free(text);
    return pid;
}

/* --- measuring --- */

static void
kill_and_measure(pulse_t pulses[SHARDS], int shard, FILE *results)
{
    pulse_t *other = &pulses[(shard + 1) % SHARDS];
    pid_t pid = pid_of_ps(pulses[0].coordinator, shard);
    require(pid > 1, "the process of a ps");
    atomic_store(&other->longest_us, 0);
    int64_t killed_us = cadre_clock_now_us();
    require(kill(pid, SIGKILL) == 0, "kill");
    beat(&pulses[shard]);
    int64_t now_us = cadre_clock_now_us();
    /* One that has not ended yet may be the longest. */
    int64_t open_us = now_us - atomic_load(&other->last_us);
    int64_t longest_us = atomic_load(&other->longest_us);
    longest_us = open_us > longest_us ? open_us : longest_us;
    fprintf(results, "%.3f %.3f\n", (double)(now_us - killed_us) / 1000, (double)longest_us / 1000);
    fflush(results);
}

static void
expect_exact(pulse_t *self)
{
    cadre_tensor_t value = {.data = NULL};
    must(cadre_variable_read(self->variable, &value, CALL_MS), "read");
    double found = (double)*(const float *)value.data;
    double wanted = (double)atomic_load(&self->count);
    if (found < wanted || found > wanted) {
        fprintf(stderr, "%s is %.0f, not %.0f\n", self->name, found, wanted);
        exit(1);
    }
    cadre_tensor_fini(&value);
}

static void
measure(pulse_t pulses[SHARDS], int kills, FILE *results)
{
    for (int i = 0; i < kills; i++) {
        poll(NULL, 0, STEADY_MS);
        kill_and_measure(pulses, i % SHARDS, results);
    }
    for (int i = 0; i < SHARDS; i++) {
        atomic_store(&pulses[i].over, true);
        pthread_join(pulses[i].thread, NULL);
    }
    for (int i = 0; i < SHARDS; i++) {
        expect_exact(&pulses[i]);
    }
    fprintf(results, "closures %" PRIu64 "\n", pulses[0].count + pulses[1].count);
}

int
main(int argc, char **argv)
{
    require(argc == 4, "usage: chaos_recovery_job CHECKPOINTS KILLS RESULTS");
    cadre_coordinator_options_t options = cadre_coordinator_options();
    cadre_coordinator_t *coordinator = NULL;
    cadre_function_t *function = NULL;
    pulse_t pulses[SHARDS] = {{.count = 0}};
    options.checkpoint_dir = argv[1];
    options.checkpoint_every_ms = CHECKPOINT_MS;
    must(cadre_coordinator_open(&options, &coordinator), "open");
    must(cadre_coordinator_wait_ready(coordinator, WORKERS, CALL_MS), "wait");
    must(cadre_function_native(coordinator, "beat", &function), "beat");
    for (int i = 0; i < SHARDS; i++) {
        pulses[i].coordinator = coordinator;
        pulses[i].beat = function;
        create(&pulses[i], i);
    }
    must(cadre_checkpoint_save(coordinator, NULL, CALL_MS, NULL), "checkpoint");
    for (int i = 0; i < SHARDS; i++) {
        require(pthread_create(&pulses[i].thread, NULL, keep_beating, &pulses[i]) == 0, "a thread");
    }
    FILE *results = fopen(argv[3], "we");
    require(results != NULL, argv[3]);
    measure(pulses, (int)strtol(argv[2], NULL, 10), results);
    fclose(results);
    cadre_coordinator_close(&coordinator);
    return 0;
}
