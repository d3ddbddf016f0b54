/*
 * api_test - every call of the public API from several threads at once, on real ps and workers:
 * nothing is lost or counted twice, every future ends, and ThreadSanitizer must see no race, here
 * or in the tasks.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/conformance/functions.h"
#include "tests/system/local_cluster.h"

enum {
    SCHEDULERS = 3,
    CLOSURES = 400, /* of each scheduler */
    TROUBLE = 150,  /* closures of each scheduler while others fail and cancel */
    VARIABLES = 12, /* that one thread creates meanwhile */
};

typedef struct {
    local_cluster_t cluster;
    cadre_coordinator_t *coordinator;
    cadre_variable_t *wide;
    cadre_variable_t *other;
    atomic_bool over; /* the schedulers have scheduled everything */
} shared_t;

static void
ok(int status, const char *what)
{
    if (status < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, cadre_status_name(status), cadre_error_text());
        abort();
    }
}

static cadre_variable_t *
create(shared_t *self, const char *name)
{
    cadre_variable_options_t options = cadre_variable_options();
    const int64_t shape[] = {WIDE_ROWS};
    cadre_variable_t *variable = NULL;
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 2;
    ok(cadre_variable_create(self->coordinator, name, CADRE_F32, shape, 1, &options, &variable),
       "create");
    return variable;
}

static cadre_function_t *
function(shared_t *self, const char *name)
{
    cadre_function_t *native = NULL;
    ok(cadre_function_native(self->coordinator, name, &native), "function");
    return native;
}

/* --- who schedules --- */

static void
wait_by_descriptor(cadre_future_t *future)
{
    int fd = -1;
    ok(cadre_future_fd(future, &fd), "descriptor");
    struct pollfd item = {.fd = fd, .events = POLLIN};
    require(poll(&item, 1, LOCAL_WAIT_MS) == 1, "a future ends");
    ok(cadre_future_wait(future, 0), "a future that has ended");
}

static void *
schedule_all(void *argument)
{
    shared_t *self = argument;
    const cadre_function_t *add_one = function(self, "add_one");
    for (int i = 0; i < CLOSURES; i++) {
        cadre_future_t *future = NULL;
        ok(cadre_coordinator_schedule(self->coordinator, add_one, NULL, -1, i % 4 ? &future : NULL),
           "schedule");
        if (i % 32 == 1) {
            wait_by_descriptor(future);
        } else if (i % 32 == 2) {
            cadre_tensor_t none = {.data = NULL};
            require(cadre_future_fetch(future, "none", &none, -1) == CADRE_ENOTFOUND, "no result");
        }
        cadre_future_destroy(&future);
    }
    return NULL;
}

/* Some of these fail and some are cancelled: all end. */
static void *
schedule_in_trouble(void *argument)
{
    shared_t *self = argument;
    const cadre_function_t *add_one = function(self, "add_one");
    const cadre_function_t *fails = function(self, "push_nan");
    cadre_future_t *futures[TROUBLE];
    size_t count = 0;
    for (int i = 0; i < TROUBLE; i++) {
        int status = cadre_coordinator_schedule(self->coordinator, i % 50 == 25 ? fails : add_one,
                                                NULL, -1, &futures[count]);
        count += status == 0;
        if (i % 60 == 59) {
            ok(cadre_coordinator_cancel(self->coordinator, LOCAL_WAIT_MS), "cancel");
        }
    }
    for (size_t i = 0; i < count; i++) {
        int status = cadre_future_wait(futures[i], LOCAL_WAIT_MS);
        require(status == 0 || status == CADRE_ENOTFINITE || status == CADRE_ECANCELLED,
                "every future ends");
        cadre_future_destroy(&futures[i]);
    }
    return NULL;
}

/* --- who looks on, until the schedulers are through --- */

static float
first_of(cadre_variable_t *variable)
{
    cadre_tensor_t value = {.data = NULL};
    ok(cadre_variable_read(variable, &value, LOCAL_WAIT_MS), "read");
    float first = *(const float *)value.data;
    cadre_tensor_fini(&value);
    return first;
}

static void *
read_on(void *argument)
{
    shared_t *self = argument;
    float last = 0;
    while (!atomic_load(&self->over)) {
        float now = first_of(self->wide);
        require(now >= last, "a sum of ones only grows");
        last = now;
    }
    return NULL;
}

static void *
assign_on(void *argument)
{
    shared_t *self = argument;
    float values[WIDE_ROWS] = {0};
    cadre_tensor_t ones = {.dtype = CADRE_F32, .rank = 1, .shape = {WIDE_ROWS}, .data = values};
    for (int i = 0; i < WIDE_ROWS; i++) {
        values[i] = 1;
    }
    float sum = 0;
    while (!atomic_load(&self->over)) {
        ok(cadre_variable_assign(self->other, CADRE_VARIABLE_ADD, &ones, LOCAL_WAIT_MS), "assign");
        sum += 1;
        float now = first_of(self->other);
        require(now >= sum && now <= sum, "an assignment counts once");
    }
    return NULL;
}

static void *
save_on(void *argument)
{
    shared_t *self = argument;
    uint64_t last = 0;
    while (!atomic_load(&self->over)) {
        uint64_t checkpoint = 0;
        ok(cadre_checkpoint_save(self->coordinator, "{\"by\": \"thread\"}", LOCAL_WAIT_MS,
                                 &checkpoint),
           "save");
        require(checkpoint > last, "checkpoints are numbered upwards");
        last = checkpoint;
        char *path = cadre_checkpoint_last(self->coordinator);
        require(path != NULL, "the checkpoint has a path");
        free(path);
    }
    return NULL;
}

static void *
look_on(void *argument)
{
    shared_t *self = argument;
    while (!atomic_load(&self->over)) {
        cadre_totals_t totals = cadre_coordinator_totals(self->coordinator);
        require(totals.finished <= totals.scheduled, "no closure finishes twice");
        char *text = NULL;
        ok(cadre_coordinator_status_json(self->coordinator, &text), "status");
        free(text);
        cadre_shard_totals_t shard;
        ok(cadre_shard_totals(self->coordinator, 1, &shard, LOCAL_WAIT_MS), "shard totals");
        bool done = false;
        ok(cadre_coordinator_is_done(self->coordinator, &done), "done");
        int status = cadre_coordinator_join(self->coordinator, 1);
        require(status == 0 || status == CADRE_ETIMEOUT, "join");
    }
    return NULL;
}

static void *
define_on(void *argument)
{
    shared_t *self = argument;
    for (int i = 0; i < VARIABLES; i++) {
        char name[32];
        snprintf(name, sizeof(name), "variable-%d", i);
        const float first = first_of(create(self, name));
        require(first >= 0 && first <= 0, "a new variable begins at zero");
        snprintf(name, sizeof(name), "function-%d", i);
        function(self, name);
    }
    return NULL;
}

/* --- the phases --- */

static void
start(pthread_t *thread, void *(*run)(void *), shared_t *self)
{
    require(pthread_create(thread, NULL, run, self) == 0, "a thread starts");
}

/* Everything at once; a worker is killed meanwhile. */
static void
run_everything(shared_t *self)
{
    static void *(*const onlookers[])(void *) = {read_on, assign_on, save_on, look_on, define_on};
    pthread_t schedulers[SCHEDULERS];
    pthread_t others[CADRE_COUNT_OF(onlookers)];
    for (size_t i = 0; i < CADRE_COUNT_OF(onlookers); i++) {
        start(&others[i], onlookers[i], self);
    }
    for (int i = 0; i < SCHEDULERS; i++) {
        start(&schedulers[i], schedule_all, self);
    }
    deadline_t deadline = deadline_in(LOCAL_WAIT_MS);
    while (cadre_coordinator_totals(self->coordinator).finished < CLOSURES / 2) {
        require(again(deadline), "closures finish");
    }
    local_cluster_restart(&self->cluster, LOCAL_WORKER, 0);
    for (int i = 0; i < SCHEDULERS; i++) {
        pthread_join(schedulers[i], NULL);
    }
    ok(cadre_coordinator_join(self->coordinator, LOCAL_WAIT_MS), "join");
    atomic_store(&self->over, true);
    for (size_t i = 0; i < CADRE_COUNT_OF(onlookers); i++) {
        pthread_join(others[i], NULL);
    }
    float sum = first_of(self->wide);
    require(sum >= SCHEDULERS * CLOSURES && sum <= SCHEDULERS * CLOSURES, "each counts once");
    for (int shard = 0; shard < 2; shard++) {
        cadre_shard_totals_t totals;
        ok(cadre_shard_totals(self->coordinator, shard, &totals, LOCAL_WAIT_MS), "shard totals");
        require(totals.applied == SCHEDULERS * CLOSURES, "each shard applied each closure once");
    }
}

static void
run_trouble(shared_t *self)
{
    pthread_t schedulers[SCHEDULERS];
    for (int i = 0; i < SCHEDULERS; i++) {
        start(&schedulers[i], schedule_in_trouble, self);
    }
    for (int i = 0; i < SCHEDULERS; i++) {
        pthread_join(schedulers[i], NULL);
    }
    (void)cadre_coordinator_join(self->coordinator, LOCAL_WAIT_MS); /* what nobody has raised */
    float before = first_of(self->wide);
    const cadre_function_t *add_one = function(self, "add_one");
    for (int i = 0; i < 10; i++) {
        ok(cadre_coordinator_schedule(self->coordinator, add_one, NULL, -1, NULL), "schedule");
    }
    ok(cadre_coordinator_join(self->coordinator, LOCAL_WAIT_MS), "join after trouble");
    float after = first_of(self->wide);
    require(after >= before + 10 && after <= before + 10, "the coordinator is usable again");
}

static void *
wait_for_nothing(void *argument)
{
    shared_t *self = argument;
    int status = cadre_coordinator_wait_ready(self->coordinator, 1000, LOCAL_WAIT_MS);
    require(status == CADRE_EINTERRUPTED, "an interruption ends a wait");
    return NULL;
}

static void
run_interruption(shared_t *self)
{
    pthread_t waiters[SCHEDULERS];
    for (int i = 0; i < SCHEDULERS; i++) {
        start(&waiters[i], wait_for_nothing, self);
    }
    cadre_coordinator_interrupt(self->coordinator, true);
    for (int i = 0; i < SCHEDULERS; i++) {
        pthread_join(waiters[i], NULL);
    }
    cadre_coordinator_interrupt(self->coordinator, false);
}

int
main(void)
{
    static shared_t self;
    local_cluster_options_t options = {.ps = 2, .workers = 2};
    options.coordinator.queue_capacity = 64;
    options.coordinator.checkpoint_dir = local_checkpoints;
    local_cluster_open(&self.cluster, &options);
    self.coordinator = self.cluster.coordinator;
    self.wide = create(&self, "wide");
    self.other = create(&self, "other");
    run_everything(&self);
    run_trouble(&self);
    run_interruption(&self);
    cadre_totals_t totals = cadre_coordinator_totals(self.coordinator);
    printf("%llu closures, %llu attempts, %llu checkpoints, %llu workers lost\n",
           (unsigned long long)totals.scheduled, (unsigned long long)totals.attempts,
           (unsigned long long)totals.checkpoints, (unsigned long long)totals.workers_lost);
    local_cluster_close(&self.cluster);
    return 0;
}
