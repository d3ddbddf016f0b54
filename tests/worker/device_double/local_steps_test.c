/* Closures of local steps, in double: a program of several steps of the inner optimizer pushes what
 * as many closures of one step come to, with the same formulas applied between them. */
#include <math.h>
#include <string.h>

#include "common/base/assert.h"
#include "coordinator/cli/train/job_file.h"
#include "coordinator/cli/train/model.h"
#include "tests/worker/device_double/gradient_check.h"

TestSuite(local_steps, .timeout = 240);

enum { FEATURES = 4, BATCH = 3, STEPS = 4, SHORT = 2, VALUES_MAX = 64 };

static const double sameness = 1e-9; /* relative to 1, of which size the values are */

/* The device, with the rows of one closure and the variables of the model. */
typedef struct {
    cadre_device_t *device;
    cadre_slot_t *slot;
    double x[STEPS * BATCH][FEATURES];
    int32_t y[STEPS * BATCH];
    double values[VARIABLES_MAX][VALUES_MAX];
    double gradients[VARIABLES_MAX][VALUES_MAX]; /* by variable; 0 where none is pushed */
    double slots[VARIABLES_MAX][2][VALUES_MAX];
    int counts[VARIABLES_MAX];
    int variable_count;
} bench_t;

static void
bench_open(bench_t *self)
{
    *self = (bench_t){0};
    cadre_slot_options_t options = {.checks.poison = true};
    cr_assert_eq(cadre_device_open("cpu", 1, &self->device), 0);
    cr_assert_eq(cadre_slot_open(self->device, &options, &self->slot), 0);
    fill(&self->x[0][0], STEPS * BATCH * FEATURES, 1, -1);
    for (int i = 0; i < STEPS * BATCH; i++) {
        self->y[i] = (i * 3 + 1) % CLASSES;
    }
    for (int i = 0; i < VARIABLES_MAX; i++) {
        fill(self->values[i], VALUES_MAX, 50 + (uint64_t)i, -1);
        for (int k = 0; k < VALUES_MAX; k++) {
            self->values[i][k] = fabs(self->values[i][k]); /* variances are among these */
        }
    }
}

static void
bench_close(bench_t *self)
{
    cadre_slot_close(&self->slot);
    cadre_device_close(&self->device);
}

/* Runs the program over `count` rows from `first` on; returns the loss. */
static double
bench_run(bench_t *self, const cadre_program_t *program, int first, int count)
{
    cadre_tensor_t arguments[] = {
        {.dtype = CADRE_F64, .rank = 2, .shape = {count, FEATURES}, .data = self->x[first]},
        {.dtype = CADRE_I32, .rank = 1, .shape = {count}, .data = &self->y[first]}};
    const void *variables[VARIABLES_MAX];
    void *gradients[VARIABLES_MAX] = {NULL};
    memset(self->gradients, 0, sizeof(self->gradients));
    self->variable_count = cadre_program_variable_count(program);
    for (int i = 0; i < self->variable_count; i++) {
        const cadre_program_variable_t *variable = cadre_program_variable(program, i);
        variables[i] = self->values[i];
        self->counts[i] = 1;
        for (int axis = 0; axis < variable->rank; axis++) {
            self->counts[i] *= (int)variable->shape[axis];
        }
        cr_assert_leq(self->counts[i], VALUES_MAX);
    }
    for (int i = 0; i < cadre_program_push_count(program); i++) {
        gradients[i] = self->gradients[cadre_program_push(program, i)->variable];
    }

    cadre_tensor_t result = {0};
    cadre_slot_run_t request = {.program = program,
                                .arguments = arguments,
                                .argument_count = 2,
                                .variables = variables,
                                .seed = 42,
                                .gradients = gradients,
                                .results = &result};
    cr_assert_eq(cadre_slot_run(self->slot, &request), 0, "%s", cadre_error_text());
    double loss = *(double *)result.data;
    cadre_tensor_fini(&result);
    return loss;
}

#define MODEL                                                                                      \
    "\"type\": \"layers\", \"l2\": 0.01, \"layers\": [{\"type\": \"dense\", \"units\": 5, "        \
    "\"activation\": \"tanh\"}, {\"type\": \"batch_norm\"}]"

static void
read_job(cadre_job_t *job, const char *optimizer, const char *training)
{
    cadre_job_init(job);
    cadre_auto(cadre_free) char *text =
        cadre_asprintf("{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\"}}, "
                       "\"model\": {" MODEL "}, \"optimizer\": {%s}, "
                       "\"training\": {\"batch_size\": %d%s}}",
                       optimizer, BATCH, training);
    cr_assert_eq(cadre_job_file_parse(job, "j.json", text), 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_job_finish(job), 0, "%s", cadre_error_text());
}

static cadre_program_t *
train_program(const char *optimizer, const char *training)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    read_job(&job, optimizer, training);
    cadre_program_t *program = NULL;
    cr_assert_eq(cadre_model_program(&job, FEATURES, CLASSES, true, &program), 0, "%s",
                 cadre_error_text());
    return program;
}

/* One step of the optimizer for one element, as ps/core/values/optimizer.h has it. */
static double
moved(const cadre_optimizer_spec_t *spec, int step, double w, double g, double *m, double *v)
{
    const double *p = spec->parameters;
    const double lr = (float)p[CADRE_LEARNING_RATE];
    const double momentum = (float)p[CADRE_MOMENTUM_MOMENTUM];
    if (spec->kind == CADRE_OPTIMIZER_SGD) {
        return w - lr * g;
    }
    if (spec->kind == CADRE_OPTIMIZER_MOMENTUM || spec->kind == CADRE_OPTIMIZER_NESTEROV) {
        *m = momentum * *m - lr * g;
        return w + (spec->kind == CADRE_OPTIMIZER_MOMENTUM ? *m : momentum * *m - lr * g);
    }

    *m += (g - *m) * (float)(1 - p[CADRE_ADAM_BETA_1]);
    *v += (g * g - *v) * (float)(1 - p[CADRE_ADAM_BETA_2]);
    double alpha = p[CADRE_LEARNING_RATE] * sqrt(1 - pow(p[CADRE_ADAM_BETA_2], step)) /
                   (1 - pow(p[CADRE_ADAM_BETA_1], step));
    if (spec->kind == CADRE_OPTIMIZER_ADAMW) {
        w *= (float)(1 - p[CADRE_ADAMW_WEIGHT_DECAY] * p[CADRE_LEARNING_RATE]);
    }
    return w - *m * (float)alpha / (sqrt(*v) + (float)p[CADRE_ADAM_EPSILON]);
}

/* Whether it is a running average of batch_norm, which the ps move by a tenth. */
static bool
is_average(const cadre_program_t *program, int variable)
{
    const char *name = cadre_program_variable(program, variable)->name;
    return strncmp(name, "mean", 4) == 0 || strncmp(name, "variance", 8) == 0;
}

/* Applies the gradients of a closure to the values, as step number `step` from 1. */
static void
bench_apply(bench_t *self, const cadre_program_t *program, const cadre_optimizer_spec_t *spec,
            int step)
{
    for (int i = 0; i < self->variable_count; i++) {
        for (int k = 0; k < self->counts[i]; k++) {
            double *w = &self->values[i][k];
            double g = self->gradients[i][k];
            *w = is_average(program, i)
                     ? *w - (float)0.1 * g
                     : moved(spec, step, *w, g, &self->slots[i][0][k], &self->slots[i][1][k]);
        }
    }
}

/* Compares one closure of `local` over so many rows with closures of one step each, after which
 * every variable must be where the closure says that it is. */
static void
expect_same(const cadre_program_t *local, const char *optimizer, int rows)
{
    cadre_auto(cadre_job_fini) cadre_job_t job;
    read_job(&job, optimizer, "");
    cadre_auto(cadre_program_destroy) cadre_program_t *single = train_program(optimizer, "");
    bench_t *together = cadre_calloc(1, sizeof(*together));
    bench_t *apart = cadre_calloc(1, sizeof(*apart));
    bench_open(together);
    bench_open(apart);

    double loss = bench_run(together, local, 0, rows);
    double sum = 0;
    int steps = 0;
    for (int first = 0; first < rows; first += BATCH) {
        int count = rows - first < BATCH ? rows - first : BATCH;
        sum += count * bench_run(apart, single, first, count);
        bench_apply(apart, single, &job.optimizer_spec, ++steps);
    }

    cr_expect_float_eq(loss, sum / rows, 1e-6, "%s: loss %g, not %g", optimizer, loss, sum / rows);
    cr_assert_eq(together->variable_count, apart->variable_count);
    for (int i = 0; i < apart->variable_count; i++) {
        double rate = is_average(single, i) ? (float)0.1 : 1;
        for (int k = 0; k < apart->counts[i]; k++) {
            double now = together->values[i][k] - rate * together->gradients[i][k];
            double error = is_average(single, i) ? 1e-6 : sameness; /* 10 times 0.1f is not 1 */
            cr_assert_float_eq(now, apart->values[i][k], error, "%s: %s at %d: %.12g, not %.12g",
                               optimizer, cadre_program_variable(local, i)->name, k, now,
                               apart->values[i][k]);
        }
    }

    bench_close(together);
    bench_close(apart);
    cadre_free(&together);
    cadre_free(&apart);
}

static const char *const optimizers[] = {
    "\"type\": \"sgd\", \"learning_rate\": 0.1",
    "\"type\": \"momentum\", \"learning_rate\": 0.05, \"momentum\": 0.8",
    "\"type\": \"nesterov\", \"learning_rate\": 0.05, \"momentum\": 0.8",
    "\"type\": \"adam\", \"learning_rate\": 0.02",
    "\"type\": \"adamw\", \"learning_rate\": 0.02, \"weight_decay\": 0.1",
    "\"type\": \"sgd\", \"learning_rate\": 0.1, \"clip_norm\": 0.05",
    "\"type\": \"adam\", \"learning_rate\": 0.02, \"global_clip_norm\": 0.05",
};

Test(local_steps, of_one_closure_come_to_what_as_many_closures_do)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(optimizers); i++) {
        cadre_auto(cadre_program_destroy) cadre_program_t *local =
            train_program(optimizers[i], ", \"local_steps\": 4");
        expect_same(local, optimizers[i], STEPS * BATCH);
    }
}

Test(local_steps, over_rows_that_are_left_are_fewer_and_the_last_has_fewer_rows)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(optimizers); i++) {
        cadre_auto(cadre_job_fini) cadre_job_t job;
        read_job(&job, optimizers[i], ", \"local_steps\": 4");
        cadre_auto(cadre_program_destroy) cadre_program_t *rest = NULL;
        const int64_t widths[] = {FEATURES, CLASSES};
        const int rows = 2 * BATCH + SHORT;
        cr_assert_eq(cadre_model_rest(&job, widths, rows, &rest), 0, "%s", cadre_error_text());
        expect_same(rest, optimizers[i], rows);
    }
}

Test(local_steps, of_one_step_of_sgd_push_the_gradient_times_its_rate)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *plain = train_program(optimizers[0], "");
    cadre_auto(cadre_program_destroy) cadre_program_t *local = train_program(
        "\"type\": \"sgd\"", ", \"inner\": {\"type\": \"sgd\", \"learning_rate\": 0.1}");
    cr_assert_neq(cadre_program_hash(plain), cadre_program_hash(local));
    expect_same(local, optimizers[0], BATCH);
}

Test(local_steps, clip_the_elements_of_gradients_and_not_what_is_pushed)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *local = train_program(
        "\"type\": \"sgd\", \"learning_rate\": 1, \"clip_value\": 0.001", ", \"local_steps\": 4");
    bench_t *bench = cadre_calloc(1, sizeof(*bench));
    bench_open(bench);
    bench_run(bench, local, 0, STEPS * BATCH);
    double most = 0;
    for (int i = 0; i < bench->variable_count; i++) {
        for (int k = 0; k < bench->counts[i] && !is_average(local, i); k++) {
            most = fmax(most, fabs(bench->gradients[i][k]));
        }
    }
    cr_expect_float_eq(most, STEPS * 0.001, 1e-8, "%g", most);
    bench_close(bench);
    cadre_free(&bench);
}
