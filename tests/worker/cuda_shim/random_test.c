/*
 * Whole programs of every operation, with gradients, by the CUDA kernels: what single operations do
 * not show is that each finds its inputs as the steps before have left them.
 */
#include "tests/graph/random_program.h"
#include "tests/worker/cuda_shim/compare.h"

TestSuite(random, .timeout = 240);

enum { ROWS = 5, WEIGHTS = RANDOM_SIDE * RANDOM_SIDE, SEEDS = SANITIZER ? 5 : 15 };

typedef struct {
    cadre_tensor_t results[RANDOM_RESULTS];
    float gradients[2][WEIGHTS];
} outcome_t;

typedef struct {
    cadre_program_t *program;
    cadre_tensor_t x;
    cadre_tensor_t variables[2];
} subject_t;

static subject_t
subject_of(uint64_t seed, int size)
{
    const int64_t side[] = {RANDOM_SIDE, RANDOM_SIDE};
    subject_t subject = {.program = random_program(seed, size)};
    subject.x = random_tensor(CADRE_F32, (int64_t[]){ROWS, RANDOM_SIDE}, 2, seed);
    subject.variables[0] = random_tensor(CADRE_F32, side, 2, seed + 1000);
    subject.variables[1] = random_tensor(CADRE_F32, side, 2, seed + 2000);
    cr_assert_eq(cadre_program_finish(subject.program), 0, "%s", cadre_error_text());
    return subject;
}

static void
subject_free(subject_t *subject)
{
    cadre_program_destroy(&subject->program);
    cadre_tensor_fini(&subject->x);
    cadre_tensor_fini(&subject->variables[0]);
    cadre_tensor_fini(&subject->variables[1]);
}

/* On the CPU device when `mode` is NULL. */
static void
run_subject(const subject_t *subject, const kernel_mode_t *mode, outcome_t *out)
{
    cadre_slot_run_t run = {
        .program = subject->program,
        .arguments = &subject->x,
        .argument_count = 1,
        .variables = (const void *[]){subject->variables[0].data, subject->variables[1].data},
        .seed = COMPARE_SEED,
        .gradients = (void *[]){out->gradients[0], out->gradients[1]},
        .results = out->results};
    if (mode) {
        cr_assert_eq(kernel_device_run(&run, mode), 0);
        return;
    }
    cadre_slot_options_t options = {.checks.poison = true};
    runner_t runner = runner_open(&options);
    cr_assert_eq(cadre_slot_run(runner.slot, &run), 0, "%s", cadre_error_text());
    runner_close(&runner);
}

static void
outcome_free(outcome_t *outcome)
{
    for (int i = 0; i < RANDOM_RESULTS; i++) {
        cadre_tensor_fini(&outcome->results[i]);
    }
}

Test(random, programs_give_the_same_bits_in_each_order_and_in_place)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        subject_t subject = subject_of(seed, RANDOM_POOL_MAX);
        outcome_t first = {0};
        run_subject(&subject, &compare_modes[0], &first);
        for (size_t mode = 1; mode < CADRE_COUNT_OF(compare_modes); mode++) {
            outcome_t other = {0};
            run_subject(&subject, &compare_modes[mode], &other);
            for (int i = 0; i < RANDOM_RESULTS; i++) {
                compare_near(&other.results[i], &first.results[i], 0);
            }
            cr_assert_eq(memcmp(other.gradients, first.gradients, sizeof(first.gradients)), 0,
                         "seed %d, mode %d", (int)seed, (int)mode);
            outcome_free(&other);
        }
        outcome_free(&first);
        subject_free(&subject);
    }
}

/* Programs of a few operations, so that rounding does not grow. */
Test(random, short_programs_come_near_the_cpu)
{
    for (uint64_t seed = 1; seed <= 4 * SEEDS; seed++) {
        subject_t subject = subject_of(seed, 9);
        outcome_t wanted = {0};
        outcome_t got = {0};
        run_subject(&subject, NULL, &wanted);
        run_subject(&subject, &compare_modes[seed % CADRE_COUNT_OF(compare_modes)], &got);
        for (int i = 0; i < RANDOM_RESULTS; i++) {
            compare_near(&got.results[i], &wanted.results[i], 2e-4);
        }
        for (int i = 0; i < 2 * WEIGHTS; i++) {
            double a = (double)got.gradients[i / WEIGHTS][i % WEIGHTS];
            double b = (double)wanted.gradients[i / WEIGHTS][i % WEIGHTS];
            cr_assert((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 2e-4 * fmax(1, fabs(b)),
                      "seed %d: gradient %d is %.9g, not %.9g", (int)seed, i, a, b);
        }
        outcome_free(&wanted);
        outcome_free(&got);
        subject_free(&subject);
    }
}
