/* What the public headers say beyond docs/conformance.md: whom join waits for, what the seeds of
 * native functions are good for, outputs that nobody wants, totals of a resumed job. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "common/base/memory.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_api, .timeout = 900);

/* --- join --- */

typedef struct {
    stage_t *stage;
    int status;
    atomic_bool ended;
} joiner_t;

static void *
join_once(void *context)
{
    joiner_t *self = context;
    self->status = cadre_coordinator_join(self->stage->coordinator, LOCAL_WAIT_MS);
    atomic_store(&self->ended, true);
    return NULL;
}

/* There is never a moment without a closure in flight: whoever waited for everything would wait for
 * as long as this goes on. */
BOTH_CAPACITIES(conformance_api, join_waits_for_what_was_scheduled_before_it_and_for_nothing_else)
{
    stage_t stage;
    local_cluster_options_t options = {
        .ps = 1, .workers = 1, .slots = 2, .coordinator = {.queue_capacity = capacity}};
    stage_open_with(&stage, &options);
    hold_t before = stage_hold(&stage, "0");
    hold_wait(&before, 1);
    joiner_t joiner = {.stage = &stage};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, join_once, &joiner), 0);
    int count = 1;
    for (deadline_t deadline = deadline_in(LOCAL_WAIT_MS); !atomic_load(&joiner.ended); count++) {
        char name[16];
        snprintf(name, sizeof(name), "%d", count);
        cr_assert(again(deadline), "join returns while others schedule");
        hold_t after = stage_hold(&stage, name);
        hold_wait(&after, 1);
        hold_release(&before);
        OK(cadre_future_wait(before.future, LOCAL_WAIT_MS));
        hold_fini(&before);
        before = after;
    }
    pthread_join(thread, NULL);
    cr_expect_eq(joiner.status, 0);
    bool done = true;
    OK(cadre_coordinator_is_done(stage.coordinator, &done));
    cr_expect_not(done, "one is in flight");
    FAILS(cadre_coordinator_join(stage.coordinator, 50), CADRE_ETIMEOUT, "closures to end");
    hold_release(&before);
    stage_join(&stage);
    stage_expect(&stage, count);
    hold_fini(&before);
    stage_close(&stage);
}

/* --- seeds --- */

/* One step of splitmix64, whose state a fixed number is added to. */
#define STEP UINT64_C(0x9e3779b97f4a7c15)

static uint64_t
next(uint64_t *state)
{
    uint64_t x = *state += STEP;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static double
fraction(uint64_t *state)
{
    return (double)(next(state) >> 11) * 0x1p-53;
}

/* How many steps of splitmix64 lie from one state to another. */
static uint64_t
steps_between(uint64_t from, uint64_t to)
{
    uint64_t inverse = STEP; /* Newton's iteration: right bits double with each round */
    for (int i = 0; i < 6; i++) {
        inverse *= 2 - STEP * inverse;
    }
    return (to - from) * inverse;
}

static int64_t
number_of(cadre_future_t *future, const char *name)
{
    cadre_tensor_t value = {.data = NULL};
    OK(cadre_future_fetch(future, name, &value, LOCAL_WAIT_MS));
    int64_t number = *(const int64_t *)value.data;
    cadre_tensor_fini(&value);
    return number;
}

enum { STREAMS = 64, DARTS = 200000 };

static void
collect_seeds(uint64_t job_seed, uint64_t seeds[STREAMS])
{
    stage_t stage;
    stage_open_with(&stage, &(local_cluster_options_t){
                                .ps = 1, .workers = 2, .coordinator = {.seed = job_seed}});
    cadre_future_t *futures[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        OK(cadre_coordinator_schedule(stage.coordinator, stage_function(&stage, "tell_seed"), NULL,
                                      LOCAL_WAIT_MS, &futures[i]));
    }
    for (int i = 0; i < STREAMS; i++) {
        seeds[i] = (uint64_t)number_of(futures[i], "seed");
        cr_expect_eq(number_of(futures[i], "closure"), i + 1, "ids follow the order");
        cr_expect_eq(cadre_future_closure_id(futures[i]), (uint64_t)i + 1);
        cadre_future_destroy(&futures[i]);
    }
    stage_close(&stage);
}

static void
expect_streams_apart(uint64_t job_seed)
{
    uint64_t seeds[STREAMS];
    uint64_t inside = 0;
    collect_seeds(job_seed, seeds);
    for (int i = 0; i < STREAMS; i++) {
        uint64_t state = seeds[i];
        for (int k = 0; k < i; k++) {
            uint64_t steps = steps_between(seeds[k], seeds[i]);
            steps = steps < -steps ? steps : -steps;
            cr_assert_gt(steps, UINT64_C(2) * DARTS, "streams %d and %d overlap", k, i);
        }
        for (int dart = 0; dart < DARTS; dart++) {
            double x = fraction(&state);
            double y = fraction(&state);
            inside += x * x + y * y < 1;
        }
    }
    const double pi = 3.14159265358979;
    double count = (double)STREAMS * DARTS;
    double deviation = sqrt(pi * (4 - pi) / count);
    double found = 4 * (double)inside / count;
    cr_expect_lt(fabs(found - pi), 4 * deviation, "seed %" PRIu64 ": %f is %.1f deviations off",
                 job_seed, found, fabs(found - pi) / deviation);
}

Test(conformance_api, seeds_of_closures_begin_streams_that_do_not_overlap)
{
    expect_streams_apart(5);
    expect_streams_apart(99);
}

/* --- outputs that nobody wants --- */

static cadre_program_t *
small_program(void)
{
    cadre_program_t *program = cadre_program_new("small");
    cadre_op_result(program, "one", cadre_op_const_f32(program, 1));
    return program;
}

Test(conformance_api, an_output_that_is_not_wanted_may_be_NULL)
{
    stage_t stage;
    stage_open(&stage, 1, 1);
    cadre_coordinator_t *coordinator = stage.coordinator;
    cadre_auto(cadre_free) char *path = stage_write_rows(&stage, 4);
    cadre_auto(cadre_free) char *description =
        cadre_asprintf("{\"format\": \"csv\", \"path\": \"%s\", \"label\": \"last\"}", path);
    cadre_program_t *program = small_program();
    OK(cadre_variable_create(coordinator, "unseen", CADRE_F32, (int64_t[]){3}, 1, NULL, NULL));
    OK(cadre_function_register(coordinator, &program, NULL));
    OK(cadre_function_native(coordinator, "noop", NULL));
    OK(cadre_dataset_open(coordinator, "rows", description, LOCAL_WAIT_MS, NULL));
    OK(cadre_resource_create(coordinator, "place", stage_function(&stage, "build_place"), NULL,
                             NULL));
    OK(cadre_variable_read(stage.wide, NULL, LOCAL_WAIT_MS));
    OK(cadre_shard_totals(coordinator, 0, NULL, LOCAL_WAIT_MS));
    OK(cadre_coordinator_status_json(coordinator, NULL));
    OK(cadre_coordinator_is_done(coordinator, NULL));
    cadre_future_t *future = NULL;
    OK(cadre_coordinator_schedule(coordinator, stage_function(&stage, "results"), NULL,
                                  LOCAL_WAIT_MS, &future));
    OK(cadre_future_fetch(future, "half", NULL, LOCAL_WAIT_MS));
    OK(cadre_future_fd(future, NULL));
    cadre_future_destroy(&future);
    FAILS(cadre_variable_create(coordinator, "unseen", CADRE_F32, NULL, 0, NULL, NULL),
          CADRE_EEXISTS, "unseen");
    stage_close(&stage);
}

Test(conformance_api, a_handle_that_is_NULL_is_refused_and_closing_one_does_nothing)
{
    stage_t stage;
    stage_open(&stage, 1, 1);
    cadre_program_t *program = NULL;
    cadre_coordinator_options_t options = cadre_coordinator_options();
    float value = 1;
    cadre_tensor_t scalar = {.dtype = CADRE_F32, .data = &value};
    FAILS(cadre_future_wait(NULL, 0), CADRE_EINVALID, "no future");
    FAILS(cadre_future_fetch(NULL, NULL, NULL, 0), CADRE_EINVALID, "no future");
    FAILS(cadre_future_fd(NULL, NULL), CADRE_EINVALID, "no future");
    cr_expect_eq(cadre_future_closure_id(NULL), 0);
    FAILS(cadre_variable_read(NULL, NULL, 0), CADRE_EINVALID, "no variable");
    FAILS(cadre_variable_assign(NULL, CADRE_VARIABLE_SET, &scalar, 0), CADRE_EINVALID,
          "no variable");
    FAILS(cadre_function_register(stage.coordinator, &program, NULL), CADRE_EINVALID, "no program");
    FAILS(cadre_function_register(stage.coordinator, NULL, NULL), CADRE_EINVALID, "no program");
    FAILS(cadre_coordinator_open(&options, NULL), CADRE_EINVALID, "nowhere");
    cadre_future_destroy(NULL);
    cadre_coordinator_close(NULL);
    stage_schedule(&stage, "add_one", 2);
    stage_join(&stage);
    stage_expect(&stage, 2);
    stage_close(&stage);
}

/* --- numbers --- */

static const cadre_dtype_t number_types[] = {CADRE_F32, CADRE_F64, CADRE_I32, CADRE_I64};

/* Schedules a closure that pushes `number` to a variable of each type. */
static int
push_numbers(stage_t *stage, float number)
{
    const cadre_tensor_t value = cadre_tensor_view(CADRE_F32, &number, NULL, 0);
    const cadre_argument_t argument = {"number", &value};
    const cadre_call_t call = cadre_call_tensors(&argument, 1);
    cadre_future_t *future = NULL;
    OK(cadre_coordinator_schedule(stage->coordinator, stage_function(stage, "push_numbers"), &call,
                                  LOCAL_WAIT_MS, &future));
    int status = cadre_future_wait(future, LOCAL_WAIT_MS);
    cadre_future_destroy(&future);
    return status;
}

Test(conformance_api, numbers_are_pushed_and_read_whatever_the_type)
{
    stage_t stage;
    cadre_variable_t *variables[4];
    double number = 0;
    stage_open(&stage, 2, 1);
    for (int i = 0; i < 4; i++) {
        cadre_variable_options_t options = cadre_variable_options();
        options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
        options.timeout_ms = LOCAL_WAIT_MS;
        OK(cadre_variable_create(stage.coordinator, cadre_dtype_text(number_types[i]),
                                 number_types[i], NULL, 0, &options, &variables[i]));
    }
    OK(push_numbers(&stage, 3));
    OK(push_numbers(&stage, -1));
    FAILS(push_numbers(&stage, 0.5f), CADRE_EINVALID, "i32");
    for (int i = 0; i < 4; i++) {
        OK(cadre_variable_read_number(variables[i], &number, LOCAL_WAIT_MS));
        cr_expect_eq(number, 2, "%g", number);
    }
    OK(cadre_variable_read_number(variables[0], NULL, LOCAL_WAIT_MS));
    FAILS(cadre_variable_read_number(stage.wide, &number, LOCAL_WAIT_MS), CADRE_ESHAPE, "[");
    FAILS(cadre_variable_read_number(NULL, &number, 0), CADRE_EINVALID, "no variable");
    cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS);
    stage_close(&stage);
}

Test(conformance_api, a_creation_takes_no_longer_than_it_may)
{
    stage_t stage;
    cadre_variable_options_t options = cadre_variable_options();
    stage_open(&stage, 2, 1);
    local_cluster_signal(&stage.cluster, LOCAL_PS, 1, SIGSTOP);
    options.timeout_ms = 50;
    options.partitioner = CADRE_PARTITION_FIXED;
    const int64_t shape[] = {2};
    FAILS(cadre_variable_create(stage.coordinator, "late", CADRE_F32, shape, 1, &options, NULL),
          CADRE_ETIMEOUT, "timeout_ms");
    local_cluster_signal(&stage.cluster, LOCAL_PS, 1, SIGCONT);
    options.timeout_ms = -1;
    OK(cadre_variable_create(stage.coordinator, "late", CADRE_F32, shape, 1, &options, NULL));
    stage_close(&stage);
}

/* --- totals --- */

/* Every field that counts since the job began. */
static void
expect_totals(const cadre_totals_t *found, const cadre_totals_t *wanted)
{
    cr_expect_eq(found->scheduled, wanted->scheduled);
    cr_expect_eq(found->finished, wanted->finished);
    cr_expect_eq(found->failed, wanted->failed);
    cr_expect_eq(found->attempts, wanted->attempts);
    cr_expect_eq(found->workers_lost, wanted->workers_lost);
    cr_expect_eq(found->ps_lost, wanted->ps_lost);
    cr_expect_eq(found->ps_restored, wanted->ps_restored);
    cr_expect_eq(found->replayed, wanted->replayed);
    cr_expect_eq(found->closures_at_risk, wanted->closures_at_risk);
    cr_expect_eq(found->checkpoints, wanted->checkpoints);
    cr_expect_eq(found->checkpoints_failed, wanted->checkpoints_failed);
    cr_expect_eq(found->retentions_failed, wanted->retentions_failed);
}

Test(conformance_api, a_resumed_job_goes_on_counting_where_its_checkpoint_ended)
{
    stage_t stage;
    local_cluster_options_t options = {.ps = 1, .workers = 1};
    options.coordinator.checkpoint_dir = local_checkpoints;
    stage_open_with(&stage, &options);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    stage_schedule(&stage, "add_one", 20);
    stage_join(&stage);
    local_cluster_restart(&stage.cluster, LOCAL_PS, 0);
    EVENTUALLY(cadre_coordinator_totals(stage.coordinator).replayed == 20);
    stage_join(&stage);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    cadre_totals_t before = cadre_coordinator_totals(stage.coordinator);
    cr_expect_eq(before.checkpoints, 2);
    cr_expect_eq(before.ps_restored, 1);
    options.coordinator.resume = CADRE_RESUME_AUTO;
    local_cluster_end_job(&stage.cluster);
    local_cluster_begin_job(&stage.cluster, &options);
    cadre_totals_t after = cadre_coordinator_totals(stage.cluster.coordinator);
    expect_totals(&after, &before);
    local_cluster_close(&stage.cluster);
}

/* --- sequence numbers --- */

Test(conformance_api, a_resumed_job_is_told_which_numbers_its_checkpoint_lacks)
{
    stage_t stage;
    local_cluster_options_t options = {.ps = 1, .workers = 2};
    options.coordinator.checkpoint_dir = local_checkpoints;
    stage_open_with(&stage, &options);
    const cadre_function_t *function = stage_function(&stage, "add_one");
    cr_expect_eq(cadre_checkpoint_next(stage.coordinator, 1), 1, "nothing was resumed");
    cadre_call_t call = {.size = sizeof(call), .sequence = UINT64_MAX};
    FAILS(cadre_coordinator_schedule(stage.coordinator, function, &call, 0, NULL), CADRE_EINVALID,
          "sequence");
    for (call.sequence = 1; call.sequence <= 30; call.sequence++) {
        if (call.sequence != 7) {
            OK(cadre_coordinator_schedule(stage.coordinator, function, &call, LOCAL_WAIT_MS, NULL));
        }
    }
    stage_join(&stage);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    for (; call.sequence <= 40; call.sequence++) {
        OK(cadre_coordinator_schedule(stage.coordinator, function, &call, LOCAL_WAIT_MS, NULL));
    }
    stage_join(&stage); /* and dies without another checkpoint */
    options.coordinator.resume = CADRE_RESUME_AUTO;
    local_cluster_end_job(&stage.cluster);
    local_cluster_begin_job(&stage.cluster, &options);
    cr_expect_eq(cadre_checkpoint_next(stage.cluster.coordinator, 1), 7);
    cr_expect_eq(cadre_checkpoint_next(stage.cluster.coordinator, 8), 31);
    cr_expect_eq(cadre_checkpoint_next(stage.cluster.coordinator, 35), 35);
    local_cluster_close(&stage.cluster);
}

/* --- descriptors --- */

/* libzmq ends the process that accepts a connection without a descriptor left. */
Test(conformance_api, futures_leave_descriptors_to_connections)
{
    enum { LIMIT = 256, FUTURES = 400 };
    stage_t stage;
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    stage_open(&stage, 1, 1);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){LIMIT, limit.rlim_max}), 0);
    cadre_future_t *futures[FUTURES];
    int opened = 0;
    int refused = 0;
    for (int i = 0; i < FUTURES; i++) {
        int fd = -1;
        futures[i] = NULL;
        OK(cadre_coordinator_schedule(stage.coordinator, stage_function(&stage, "noop"), NULL,
                                      LOCAL_WAIT_MS, &futures[i]));
        int status = cadre_future_fd(futures[i], &fd);
        opened += status == 0;
        refused += status == CADRE_EIO;
    }
    cr_expect_gt(opened, 50);
    cr_expect_lt(opened, LIMIT - LIMIT / 4);
    cr_expect_eq(opened + refused, FUTURES);
    local_cluster_start(&stage.cluster, LOCAL_WORKER, 1);
    local_cluster_wait_workers(&stage.cluster, 2);
    stage_schedule(&stage, "add_one", 10);
    stage_join(&stage);
    stage_expect(&stage, 10);
    for (int i = 0; i < FUTURES; i++) {
        OK(cadre_future_wait(futures[i], LOCAL_WAIT_MS));
        cadre_future_destroy(&futures[i]);
    }
    stage_close(&stage);
}
