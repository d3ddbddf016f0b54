/* Jobs in one process (options.local); O1 to O12 of docs/conformance.md. */
#include <cadre/client.h>
#include <cadre/worker.h>
#include <dirent.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "tests/conformance/stage.h"
#include "tests/system/scratch.h"

TestSuite(conformance_local, .timeout = 900);

enum {
    COLUMNS = 8,
    ROWS = 64,
    CLOSURES = 200,
    JOBS = 3,
    MANY = 3 << 20, /* elements of a variable whose updates need several messages, and room first */
    MANY_CLOSURES = 24,
    SAVE_CLOSURES = 21, /* after so many, whole steps of three, a checkpoint is saved, if any */
};

static const double LEAST = 1e-20; /* its square is no normal number */

static int
add_one(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    return cadre_invocation_push_number(invocation, "total", 1);
}

/* Pushes to "least" what its learning rate makes too small to be a normal number. */
static int
add_least(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    return cadre_invocation_push_number(invocation, "least", LEAST);
}

/* Pulls all of "many" and pushes a 1 to each element. */
static int
add_ones(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const cadre_tensor_t *values = NULL;
    int s = cadre_invocation_pull(invocation, "many", &values);
    float *ones = malloc(MANY * sizeof(*ones));
    for (int i = 0; i < MANY; i++) {
        ones[i] = 1;
    }
    const cadre_tensor_t gradient = cadre_tensor_view(CADRE_F32, ones, (const int64_t[]){MANY}, 1);
    s = s ? s : cadre_invocation_push(invocation, "many", &gradient);
    free(ones);
    return s;
}

static int
refuse(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    return cadre_invocation_fail(invocation, CADRE_EDATA, "no such number");
}

static int
register_natives(cadre_registry_t *registry)
{
    int status = cadre_registry_add(registry, "add_one", add_one, NULL);
    status = status ? status : cadre_registry_add(registry, "add_ones", add_ones, NULL);
    status = status ? status : cadre_registry_add(registry, "add_least", add_least, NULL);
    return status ? status : cadre_registry_add(registry, "refuse", refuse, NULL);
}

static cadre_coordinator_options_t
local_options(void)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.local = true;
    options.natives = register_natives;
    options.seed = 1;
    return options;
}

static cadre_variable_t *
create_total(cadre_coordinator_t *job)
{
    cadre_variable_t *total = NULL;
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    OK(cadre_variable_create(job, "total", CADRE_F32, NULL, 0, &options, &total));
    return total;
}

static void
schedule(cadre_coordinator_t *job, const char *name, int count)
{
    cadre_function_t *function = NULL;
    OK(cadre_function_native(job, name, &function));
    for (int i = 0; i < count; i++) {
        OK(cadre_coordinator_schedule(job, function, NULL, LOCAL_WAIT_MS, NULL));
    }
}

static double
read_number(cadre_variable_t *variable)
{
    double number = 0;
    OK(cadre_variable_read_number(variable, &number, LOCAL_WAIT_MS));
    return number;
}

/* How many sockets of the system this process has. */
static int
count_sockets(void)
{
    int count = 0;
    char target[PATH_MAX];
    DIR *folder = opendir("/proc/self/fd");
    cr_assert_not_null(folder);
    for (struct dirent *entry = NULL; (entry = readdir(folder));) {
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);
        count += length > 0 && strncmp(target, "socket:", 7) == 0;
    }
    closedir(folder);
    return count;
}

Test(conformance_local, O1_native_functions_of_the_program_run_without_process_or_socket)
{
    int before = count_sockets();
    cadre_coordinator_t *job = NULL;
    cadre_coordinator_options_t options = local_options();
    OK(cadre_coordinator_open(&options, &job));
    cadre_variable_t *total = create_total(job);
    schedule(job, "add_one", CLOSURES);
    OK(cadre_coordinator_join(job, LOCAL_WAIT_MS));
    cr_expect_eq(read_number(total), CLOSURES);
    cr_expect_eq(count_sockets(), before);

    schedule(job, "refuse", 1);
    FAILS(cadre_coordinator_join(job, LOCAL_WAIT_MS), CADRE_EDATA, "no such number");
    schedule(job, "add_one", 1);
    OK(cadre_coordinator_join(job, LOCAL_WAIT_MS));
    cr_expect_eq(read_number(total), CLOSURES + 1);
    cadre_coordinator_close(&job);
    cr_expect_eq(count_sockets(), before);
}

/* A line through ROWS points, whose slope and offset a program finds. */
static int
train_line(cadre_coordinator_t *job, bool saves, double *slope)
{
    cadre_program_t *p = cadre_program_new("line");
    const cadre_dim_t rows[] = {cadre_dim_symbol("B"), cadre_dim(1)};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, rows, 2);
    cadre_node_t y = cadre_op_arg(p, "y", CADRE_F32, rows, 2);
    cadre_node_t w = cadre_op_var(p, "w", (const int64_t[]){1, 1}, 2);
    cadre_op_minimize(p, cadre_op_mse(p, cadre_op_matmul(p, x, w), y));

    cadre_function_t *step = NULL;
    cadre_variable_t *weight = NULL;
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer.learning_rate = 0.1;
    float x_of[ROWS];
    float y_of[ROWS];
    for (int i = 0; i < ROWS; i++) {
        x_of[i] = (float)i / ROWS - 0.5f;
        y_of[i] = 3 * x_of[i];
    }
    cadre_tensor_t in = cadre_tensor_view(CADRE_F32, x_of, (const int64_t[]){ROWS, 1}, 2);
    cadre_tensor_t out = cadre_tensor_view(CADRE_F32, y_of, (const int64_t[]){ROWS, 1}, 2);
    const cadre_argument_t arguments[] = {{"x", &in}, {"y", &out}};
    const cadre_call_t call = cadre_call_tensors(arguments, 2);
    int s =
        cadre_variable_create(job, "w", CADRE_F32, (const int64_t[]){1, 1}, 2, &options, &weight);
    s = s ? s : cadre_function_register(job, &p, &step);
    for (int i = 0; i < CLOSURES && !s; i++) {
        s = cadre_coordinator_schedule(job, step, &call, LOCAL_WAIT_MS, NULL);
        if (saves && !s && (i + 1) % SAVE_CLOSURES == 0) {
            s = cadre_checkpoint_save(job, NULL, LOCAL_WAIT_MS, NULL);
        }
    }
    s = s ? s : cadre_coordinator_join(job, LOCAL_WAIT_MS);
    s = s ? s : cadre_variable_read_number(weight, slope, LOCAL_WAIT_MS);
    cadre_program_destroy(&p);
    return s;
}

/* One of several jobs of a process. */
static void *
run_job(void *result)
{
    double *slope = result;
    cadre_coordinator_t *job = NULL;
    cadre_coordinator_options_t options = local_options();
    int s = cadre_coordinator_open(&options, &job);
    s = s ? s : train_line(job, false, slope);
    cadre_coordinator_close(&job);
    return s ? result : NULL;
}

Test(conformance_local, O2_several_jobs_of_one_process_train_at_once)
{
    pthread_t threads[JOBS];
    double slopes[JOBS] = {0};
    for (int i = 0; i < JOBS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, run_job, &slopes[i]), 0);
    }
    for (int i = 0; i < JOBS; i++) {
        void *failed = NULL;
        cr_assert_eq(pthread_join(threads[i], &failed), 0);
        cr_expect_null(failed);
        cr_expect_float_eq(slopes[i], 3, 0.2, "%g", slopes[i]);
    }
}

Test(conformance_local, O3_a_job_is_resumed_from_its_checkpoint)
{
    scratch_t scratch;
    scratch_open(&scratch);
    cadre_coordinator_options_t options = local_options();
    options.checkpoint_dir = scratch.path;
    options.resume = CADRE_RESUME_AUTO;
    for (int round = 1; round <= 2; round++) {
        cadre_coordinator_t *job = NULL;
        OK(cadre_coordinator_open(&options, &job));
        cadre_variable_t *total = create_total(job);
        cr_expect_eq(read_number(total), (round - 1) * CLOSURES);
        schedule(job, "add_one", CLOSURES);
        OK(cadre_coordinator_join(job, LOCAL_WAIT_MS));
        OK(cadre_checkpoint_save(job, NULL, LOCAL_WAIT_MS, NULL));
        cr_expect_eq(read_number(total), round * CLOSURES);
        cadre_coordinator_close(&job);
    }
    scratch_close(&scratch);
}

static int
fail_to_register(cadre_registry_t *registry)
{
    int status = cadre_registry_add(registry, "add_one", add_one, NULL);
    return status ? status : cadre_registry_add(registry, "add_one", add_one, NULL);
}

Test(conformance_local, O4_what_does_not_go_with_it_is_refused)
{
    cadre_coordinator_t *job = NULL;
    cadre_coordinator_options_t options = local_options();
    options.address = "tcp://127.0.0.1:*";
    FAILS(cadre_coordinator_open(&options, &job), CADRE_ECONFIG, "with local it is ipc:///PATH");
    options = local_options();
    options.ps_count = 2;
    FAILS(cadre_coordinator_open(&options, &job), CADRE_ECONFIG, "leave ps_count out");
    options = local_options();
    options.local_slots = CADRE_SLOTS_MAX + 1;
    FAILS(cadre_coordinator_open(&options, &job), CADRE_ECONFIG, "local_slots 1025 is not in 0..");
    options = local_options();
    options.local_ps_lanes = CADRE_LANES_MAX + 1;
    FAILS(cadre_coordinator_open(&options, &job), CADRE_ECONFIG,
          "local_ps_lanes 257 is not in 0..");
    options = local_options();
    options.local_device = "tpu";
    FAILS(cadre_coordinator_open(&options, &job), CADRE_ECONFIG, "options: local_device");
    options = cadre_coordinator_options();
    options.local_threads = 1;
    FAILS(cadre_coordinator_open(&options, &job), CADRE_ECONFIG, "set local");
    options = local_options();
    options.local = false;
    FAILS(cadre_coordinator_open(&options, &job), CADRE_ECONFIG, "set local");
    options = cadre_coordinator_options();
    options.address = "inproc://cadre-job-coordinator";
    FAILS(cadre_coordinator_open(&options, &job), CADRE_ECONFIG, "set local");
    options = local_options();
    options.natives = fail_to_register;
    FAILS(cadre_coordinator_open(&options, &job), CADRE_ECONFIG, "options: natives");
    cr_expect_null(job);
}

Test(conformance_local, O5_the_environment_of_a_cluster_is_not_looked_at)
{
    setenv("CADRE_CLUSTER", "no JSON", 1);
    setenv("TF_CONFIG", "no JSON", 1);
    setenv("CADRE_STRATEGY", "none", 1);
    setenv("CADRE_KEYS", "/nowhere", 1);
    setenv("CADRE_INSECURE_TRANSPORT", "maybe", 1);
    cadre_coordinator_t *job = NULL;
    cadre_coordinator_options_t options = local_options();
    OK(cadre_coordinator_open(&options, &job));
    cr_expect_str_eq(cadre_coordinator_address(job), "inproc://cadre-job-coordinator");
    cadre_coordinator_close(&job);
}

/* What a native function that is not to end waits for. */
typedef struct {
    atomic_bool begun;
    atomic_bool released;
} held_t;

static held_t held;

static int
hold(cadre_invocation_t *invocation, void *state)
{
    held_t *self = state;
    (void)invocation;
    atomic_store(&self->begun, true);
    for (deadline_t deadline = deadline_in(LOCAL_WAIT_MS);
         !atomic_load(&self->released) && again(deadline);) {
    }
    return 0;
}

static int
register_hold(cadre_registry_t *registry)
{
    return cadre_registry_add(registry, "hold", hold, &held);
}

Test(conformance_local, O6_closing_does_not_wait_for_a_closure_that_does_not_end)
{
    cadre_coordinator_t *job = NULL;
    cadre_coordinator_options_t options = local_options();
    options.natives = register_hold;
    OK(cadre_coordinator_open(&options, &job));
    schedule(job, "hold", 1);
    EVENTUALLY(atomic_load(&held.begun));
    cadre_coordinator_close(&job);
    cr_expect_not(atomic_load(&held.released));
    atomic_store(&held.released, true);
}

Test(conformance_local, O7_opening_and_closing_may_be_repeated)
{
    for (int i = 0; i < 10; i++) {
        cadre_coordinator_t *job = NULL;
        cadre_coordinator_options_t options = local_options();
        OK(cadre_coordinator_open(&options, &job));
        cr_expect_eq(cadre_coordinator_totals(job).workers, 1);
        cr_expect_eq(cadre_coordinator_totals(job).ps, 1);
        cadre_coordinator_close(&job);
    }
}

/* The strategy `local` is synchronous: each closure is a step, so that jobs of one seed end with
 * the same bits. */
Test(conformance_local, O8_with_the_strategy_local_the_result_follows_from_the_seed)
{
    double slopes[2] = {0};
    for (int i = 0; i < 2; i++) {
        cadre_coordinator_t *job = NULL;
        cadre_coordinator_options_t options = local_options();
        options.strategy = CADRE_STRATEGY_LOCAL;
        OK(cadre_coordinator_open(&options, &job));
        OK(train_line(job, false, &slopes[i]));
        cadre_coordinator_close(&job);
    }
    cr_expect_float_eq(slopes[0], 3, 0.2, "%g", slopes[0]);
    cr_expect_eq(slopes[0], slopes[1]);
}

/* A step of three closures, run by one slot each, by two slots in turn, with the strategy's word,
 * and beside checkpoints: the same bits. */
Test(conformance_local, O10_slots_stand_for_the_workers_of_a_synchronous_strategy)
{
    enum { STEP = 3, JOBS_OF_STEPS = 4 };
    double slopes[JOBS_OF_STEPS] = {0};
    scratch_t scratch;
    scratch_open(&scratch);
    for (int i = 0; i < JOBS_OF_STEPS; i++) {
        cadre_coordinator_t *job = NULL;
        cadre_coordinator_options_t options = local_options();
        options.checkpoint_dir = i == 3 ? scratch.path : NULL;
        options.strategy = i < 2 ? CADRE_STRATEGY_MIRRORED : CADRE_STRATEGY_PARAMETER_SERVER;
        options.consistency = CADRE_SYNC;
        options.local_slots = i < 2 ? STEP : 0;
        options.local_threads = i;
        options.step_closures = i > 0 ? STEP : 0;
        OK(cadre_coordinator_open(&options, &job));
        OK(train_line(job, i == 3, &slopes[i]));
        cadre_coordinator_close(&job);
    }
    scratch_close(&scratch);
    cr_expect_float_eq(slopes[0], 2, 0.2, "%g", slopes[0]);
    cr_expect_eq(slopes[0], slopes[1]);
    cr_expect_eq(slopes[0], slopes[2]);
    cr_expect_eq(slopes[0], slopes[3]);

    cadre_coordinator_t *job = NULL;
    cadre_coordinator_options_t options = local_options();
    options.strategy = CADRE_STRATEGY_CENTRAL;
    options.local_slots = STEP;
    options.step_closures = STEP + 1;
    FAILS(cadre_coordinator_open(&options, &job), CADRE_ECONFIG, "as there are workers, 3");
}

/* A step is ended by a call on the coordinator's thread, which is the program's kind of thread: it
 * computes there as a ps does, for which numbers that are not normal are 0. */
Test(conformance_local, O12_a_step_rounds_on_the_coordinator_as_on_a_ps)
{
    cadre_coordinator_t *job = NULL;
    cadre_coordinator_options_t options = local_options();
    options.strategy = CADRE_STRATEGY_MIRRORED;
    options.local_slots = 2;
    OK(cadre_coordinator_open(&options, &job));

    cadre_variable_t *least = NULL;
    cadre_variable_options_t falls = cadre_variable_options();
    falls.optimizer = cadre_optimizer(CADRE_OPTIMIZER_SGD);
    falls.optimizer.learning_rate = LEAST;
    falls.initializer = cadre_initializer(CADRE_INITIALIZER_ZEROS);
    OK(cadre_variable_create(job, "least", CADRE_F32, NULL, 0, &falls, &least));
    schedule(job, "add_least", 2);
    OK(cadre_coordinator_join(job, LOCAL_WAIT_MS));
    cr_expect_eq(read_number(least), 0, "%g", read_number(least));
    cadre_coordinator_close(&job);
}

Test(conformance_local, O11_clients_reach_it_where_it_has_an_address)
{
    scratch_t scratch;
    scratch_open(&scratch);
    cadre_auto(cadre_free) char *path = scratch_path(&scratch, "job");
    cadre_auto(cadre_free) char *address = cadre_asprintf("ipc://%s", path);
    cadre_auto(cadre_free) char *trace = scratch_path(&scratch, "worker.json");
    cadre_coordinator_t *job = NULL;
    cadre_coordinator_options_t options = local_options();
    options.address = address;
    options.local_trace = trace;
    OK(cadre_coordinator_open(&options, &job));
    cr_expect_str_eq(cadre_coordinator_address(job), address);
    cadre_coordinator_t *second = NULL;
    FAILS(cadre_coordinator_open(&options, &second), CADRE_EEXISTS, address);
    cadre_variable_t *total = create_total(job);
    schedule(job, "add_one", CLOSURES);
    OK(cadre_coordinator_join(job, LOCAL_WAIT_MS));
    cr_expect_eq(read_number(total), CLOSURES);

    cadre_client_t *client = NULL;
    cadre_client_options_t of_client = cadre_client_options();
    of_client.address = address;
    OK(cadre_client_open(&of_client, &client));
    cadre_tensor_t value = {0};
    OK(cadre_client_read(client, "total", &value, LOCAL_WAIT_MS));
    cr_expect_eq(*(const float *)value.data, CLOSURES);
    cadre_tensor_fini(&value);
    cadre_client_close(&client);
    cadre_coordinator_close(&job);

    json_t *events = json_load_file(trace, 0, NULL);
    cr_expect_geq(json_array_size(events), CLOSURES);
    json_decref(events);
    scratch_close(&scratch);
}

/* Updates of 12 MiB have to wait for room in the shard, two slots send them at once, and
 * checkpoints are taken meanwhile: what the shard does not answer at once comes later, from its own
 * thread. */
Test(conformance_local, O9_large_updates_of_both_slots_count_once_beside_checkpoints)
{
    scratch_t scratch;
    scratch_open(&scratch);
    cadre_coordinator_options_t options = local_options();
    options.checkpoint_dir = scratch.path;
    cadre_coordinator_t *job = NULL;
    OK(cadre_coordinator_open(&options, &job));

    cadre_variable_t *many = NULL;
    cadre_variable_options_t adds = cadre_variable_options();
    adds.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    adds.initializer = cadre_initializer(CADRE_INITIALIZER_ZEROS);
    OK(cadre_variable_create(job, "many", CADRE_F32, (const int64_t[]){MANY}, 1, &adds, &many));
    for (int round = 0; round < 3; round++) {
        schedule(job, "add_ones", MANY_CLOSURES / 3);
        OK(cadre_checkpoint_save(job, NULL, LOCAL_WAIT_MS, NULL));
    }
    OK(cadre_coordinator_join(job, LOCAL_WAIT_MS));

    cadre_tensor_t values = {.data = NULL};
    OK(cadre_variable_read(many, &values, LOCAL_WAIT_MS));
    for (int i = 0; i < MANY; i++) {
        const float value = ((const float *)values.data)[i];
        cr_assert_eq(value, MANY_CLOSURES, "element %d is %g", i, value);
    }
    cadre_tensor_fini(&values);
    cadre_coordinator_close(&job);
    scratch_close(&scratch);
}
