/*
 * The pool of the CPU device: every iteration once, whoever takes it; and that the number of
 * threads changes no bit of what programs compute.
 */
#include "worker/device/cpu_pool.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/worker/device/run_program.h"

TestSuite(cpu_pool, .timeout = 240);

enum { COUNT = 1000 };

typedef struct {
    int hits[COUNT];
    int64_t parts;
    pthread_mutex_t mutex;
} tally_t;

static void
tally_part(const void *context, int64_t begin, int64_t end)
{
    tally_t *tally = (tally_t *)(uintptr_t)context;
    pthread_mutex_lock(&tally->mutex);
    tally->parts++;
    pthread_mutex_unlock(&tally->mutex);
    for (int64_t i = begin; i < end; i++) {
        tally->hits[i]++;
    }
}

/* Each iteration hit once more. Shared if there is enough for two; a part is a quarter of a grain,
 * at least. */
static void
run_loop(cadre_cpu_pool_t *pool, int threads, int64_t count, int64_t grain)
{
    tally_t tally = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    cadre_cpu_pool_run(pool, count, grain, tally_part, &tally);
    for (int64_t i = 0; i < COUNT; i++) {
        cr_assert_eq(tally.hits[i], i < count, "%d of %d by %d", (int)i, (int)count, (int)grain);
    }
    int64_t grains = count / (grain > 0 ? grain : 1);
    bool shared = threads > 1 && grains > 1;
    cr_assert(shared ? tally.parts > 1 && tally.parts <= 4 * grains : tally.parts == 1,
              "%d parts of %d by %d", (int)tally.parts, (int)count, (int)grain);
}

Test(cpu_pool, runs_each_iteration_once)
{
    const int64_t counts[] = {0, 1, 2, 7, 8, 9, 31, 500, 999, COUNT};
    for (int threads = 0; threads <= 5; threads++) {
        cadre_cpu_pool_t *pool = threads > 0 ? cadre_cpu_pool_new(threads) : NULL;
        for (size_t i = 0; i < CADRE_COUNT_OF(counts); i++) {
            for (int64_t grain = 0; grain <= 64; grain += 4) {
                run_loop(pool, threads, counts[i], grain);
            }
        }
        cadre_cpu_pool_destroy(&pool);
        cr_assert_null(pool);
    }
}

/* ---- programs ---- */

enum { RESULTS = 12, ROWS = 5003, COLUMNS = 300 };

/* Of each operation that is shared out one that is large enough to be. */
static cadre_program_t *
large_program(const cadre_tensor_t arguments[3])
{
    cadre_program_t *p = cadre_program_new("large");
    cadre_node_t x = arg_like(p, "x", &arguments[0]);
    cadre_node_t row = arg_like(p, "row", &arguments[1]);
    cadre_node_t index = arg_like(p, "index", &arguments[2]);
    cadre_node_t images = cadre_op_reshape(
        p, x, (cadre_dim_t[]){cadre_dim(ROWS), cadre_dim(10), cadre_dim(10), cadre_dim(3)}, 4);
    int32_t starts[ROWS];
    for (int i = 0; i < ROWS; i++) {
        starts[i] = i;
    }
    cadre_tensor_t offsets = {.dtype = CADRE_I32, .rank = 1, .shape = {ROWS}, .data = starts};
    cadre_node_t nodes[] = {
        cadre_op_tanh(p, cadre_op_add(p, cadre_op_square(p, x), row)),
        cadre_op_softmax(p, x),
        cadre_op_log_softmax(p, cadre_op_slice(p, x, 1, 0, 32)),
        cadre_op_xent(p, x, index),
        cadre_op_rownorm(p, x, 1e-5F),
        cadre_op_sum(p, x, 1),
        cadre_op_sum(p, x, 0),
        cadre_op_mean_all(p, x),
        cadre_op_reduce_max(p, x, 1),
        cadre_op_transpose(p, x, (int[]){1, 0}),
        cadre_op_im2col(p, images, (int[]){3, 3}, 2, 1),
        cadre_op_bag(p, x, index, cadre_op_const(p, &offsets), (cadre_node_t){0}, CADRE_BAG_SUM),
    };
    for (int i = 0; i < RESULTS; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "%d", i);
        cadre_op_result(p, name, nodes[i]);
    }
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    return p;
}

static void
run_with(int threads, const cadre_program_t *p, const cadre_tensor_t *arguments,
         cadre_tensor_t results[RESULTS])
{
    runner_t runner = {0};
    cadre_slot_options_t options = {.checks.poison = true};
    cr_assert_eq(cadre_device_open("cpu", threads, &runner.device), 0);
    cr_assert_eq(cadre_slot_open(runner.device, &options, &runner.slot), 0);
    cadre_slot_run_t run = {
        .program = p, .arguments = arguments, .argument_count = 3, .results = results};
    cr_assert_eq(cadre_slot_run(runner.slot, &run), 0, "%s", cadre_error_text());
    runner_close(&runner);
}

Test(cpu_pool, gives_the_same_bits_with_any_number_of_threads)
{
    cadre_tensor_t arguments[] = {random_tensor(CADRE_F32, (int64_t[]){ROWS, COLUMNS}, 2, 1),
                                  random_tensor(CADRE_F32, (int64_t[]){COLUMNS}, 1, 2),
                                  random_tensor(CADRE_I32, (int64_t[]){ROWS}, 1, 3)};
    cadre_program_t *p = large_program(arguments);
    cadre_tensor_t wanted[RESULTS] = {0};
    run_with(1, p, arguments, wanted);
    for (int threads = 2; threads <= 5; threads++) {
        cadre_tensor_t results[RESULTS] = {0};
        run_with(threads, p, arguments, results);
        for (int i = 0; i < RESULTS; i++) {
            cr_assert_eq(
                memcmp(wanted[i].data, results[i].data, cadre_tensor_size_bytes(&wanted[i])), 0,
                "%d threads: result %d differs", threads, i);
            cadre_tensor_fini(&results[i]);
        }
    }
    for (int i = 0; i < RESULTS; i++) {
        cadre_tensor_fini(&wanted[i]);
    }
    for (int i = 0; i < 3; i++) {
        cadre_tensor_fini(&arguments[i]);
    }
    cadre_program_destroy(&p);
}
