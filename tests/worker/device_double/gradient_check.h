/*
 * gradient_check - the executor built in double, numeric differences with eps 1e-5 against the
 * gradients that cadre_op_gradient builds. In float the same check fails correct models.
 */
#ifndef CADRE_TESTS_WORKER_DEVICE_DOUBLE_GRADIENT_CHECK_H
#define CADRE_TESTS_WORKER_DEVICE_DOUBLE_GRADIENT_CHECK_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/graph/program_data.h"
#include "common/tensor/tensor.h"
#include "worker/device/device.h"

enum { ROWS = 5, CLASSES = 4, VARIABLES_MAX = 32 };

static const double eps = 1e-5;
static const double tolerance = 1e-5;      /* relative, */
static const double gradient_floor = 1e-3; /* but for gradients below this: of it */

/* A node that depends on variables made by var(); of any shape. */
typedef cadre_node_t gradient_build_t(cadre_program_t *p);

typedef struct {
    cadre_program_t *program; /* decoded from its encoded form, as a worker has it */
    cadre_slot_t *slot;
    cadre_tensor_t arguments[CADRE_ARGUMENTS_MAX];
    void *variables[VARIABLES_MAX]; /* of doubles */
    void *gradients[VARIABLES_MAX]; /* per push */
    int64_t counts[VARIABLES_MAX];
} gradient_check_t;

static inline cadre_node_t
var(cadre_program_t *p, const char *name, int rank, int64_t a, int64_t b, int64_t c)
{
    int64_t shape[3] = {a, b, c};
    return cadre_op_var(p, name, shape, rank);
}

static inline cadre_node_t
vector(cadre_program_t *p, const char *name, int64_t size)
{
    return var(p, name, 1, size, 0, 0);
}

static inline cadre_node_t
matrix(cadre_program_t *p, const char *name, int64_t rows, int64_t columns)
{
    return var(p, name, 2, rows, columns, 0);
}

static inline cadre_node_t
batch(cadre_program_t *p, const char *name, cadre_dtype_t dtype, int64_t width)
{
    cadre_dim_t dims[2] = {cadre_dim_symbol("B"), cadre_dim(width)};
    return cadre_op_arg(p, name, dtype, dims, width > 0 ? 2 : 1);
}

/* Values in 0.2 to 1.2, alternating in sign when `sign` is -1: away from the kinks at 0. */
static inline void
fill(double *values, int64_t count, uint64_t stream, int sign)
{
    for (int64_t i = 0; i < count; i++) {
        double value = 0.2 + (double)cadre_random_uniform(7, stream, (uint64_t)i);
        bool flip = sign < 0 && cadre_random_uniform(8, stream, (uint64_t)i) < 0.5F;
        values[i] = flip ? -value : value;
    }
}

static inline void
make_argument(const cadre_program_argument_t *argument, uint64_t stream, cadre_tensor_t *tensor)
{
    int64_t shape[CADRE_PROGRAM_RANK_MAX] = {0};
    for (int i = 0; i < argument->shape.rank; i++) {
        cadre_extent_t extent = argument->shape.extents[i];
        shape[i] = extent.factor * (extent.symbol < 0 ? 1 : ROWS);
    }
    cadre_dtype_t dtype = argument->dtype == CADRE_F32 ? CADRE_F64 : CADRE_I32;
    cr_assert_eq(cadre_tensor_init(tensor, dtype, shape, argument->shape.rank), 0);
    int64_t count = cadre_tensor_count(tensor);
    if (dtype == CADRE_F64) {
        fill(tensor->data, count, stream, -1);
        return;
    }
    int32_t *labels = tensor->data;
    for (int64_t i = 0; i < count; i++) {
        labels[i] = (int32_t)((i * 3 + 1) % CLASSES);
    }
}

/* The loss: the node itself if it is a number, else its product with fixed random weights. */
static inline cadre_node_t
to_number(cadre_program_t *p, cadre_node_t y)
{
    if (p->status < 0) {
        return y;
    }
    cadre_extents_t shape = cadre_program_at(p, y)->shape;
    if (shape.rank == 0) {
        return y;
    }
    cadre_node_t weights = cadre_program_emit_rand(p, &shape);
    return cadre_op_sum_all(
        p, cadre_op_mul(p, y, cadre_op_add(p, weights, cadre_op_const_f32(p, 0.5F))));
}

static inline double
run(gradient_check_t *check)
{
    cadre_tensor_t result = {0};
    cadre_slot_run_t request = {.program = check->program,
                                .arguments = check->arguments,
                                .argument_count = cadre_program_argument_count(check->program),
                                .variables = (const void *const *)check->variables,
                                .seed = 42,
                                .gradients = check->gradients,
                                .results = &result};
    int status = cadre_slot_run(check->slot, &request);
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    double loss = *(double *)result.data;
    cadre_tensor_fini(&result);
    return loss;
}

static inline void
prepare(gradient_check_t *check, const char *name, gradient_build_t *build, int sign)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new(name);
    cadre_node_t loss = to_number(p, build(p));
    cadre_op_minimize(p, loss);
    cadre_op_result(p, "loss", loss);
    cr_assert_eq(cadre_program_finish(p), 0, "%s: %s", name, cadre_error_text());
    size_t size_bytes = 0;
    const uint8_t *bytes = cadre_program_bytes(p, &size_bytes);
    cr_assert_eq(cadre_program_decode(bytes, size_bytes, &check->program), 0);
    for (int i = 0; i < cadre_program_argument_count(p); i++) {
        make_argument(cadre_program_argument(p, i), 100 + (uint64_t)i, &check->arguments[i]);
    }
    for (int i = 0; i < cadre_program_variable_count(p); i++) {
        const cadre_program_variable_t *variable = cadre_program_variable(p, i);
        check->counts[i] = 1;
        for (int axis = 0; axis < variable->rank; axis++) {
            check->counts[i] *= variable->shape[axis];
        }
        check->variables[i] = cadre_calloc((size_t)check->counts[i], sizeof(double));
        fill(check->variables[i], check->counts[i], 200 + (uint64_t)i, sign);
    }
    for (int i = 0; i < cadre_program_push_count(p); i++) {
        int64_t count = check->counts[cadre_program_push(p, i)->variable];
        check->gradients[i] = cadre_calloc((size_t)count, sizeof(double));
    }
}

static inline void
compare(gradient_check_t *check, const char *name, int push, double *wanted)
{
    int variable = cadre_program_push(check->program, push)->variable;
    for (int64_t i = 0; i < check->counts[variable]; i++) {
        double *value = (double *)check->variables[variable] + i;
        double kept = *value;
        *value = kept + eps;
        double above = run(check);
        *value = kept - eps;
        double below = run(check);
        *value = kept;
        double numeric = (above - below) / (2 * eps);
        double allowed = tolerance * fmax(gradient_floor, fabs(numeric));
        cr_assert(fabs(numeric - wanted[i]) <= allowed,
                  "%s: gradient of %s at %d is %.9g, the difference quotient %.9g", name,
                  cadre_program_variable(check->program, variable)->name, (int)i, wanted[i],
                  numeric);
    }
}

static inline void
check_signed(const char *name, gradient_build_t *build, int sign)
{
    gradient_check_t check = {0};
    cadre_device_t *device = NULL;
    cadre_slot_options_t options = {.checks.poison = true};
    cr_assert_eq(cadre_device_open("cpu", 1, &device), 0);
    cr_assert_eq(cadre_slot_open(device, &options, &check.slot), 0);
    prepare(&check, name, build, sign);
    cr_assert_gt(cadre_program_push_count(check.program), 0);
    for (int i = 0; i < cadre_program_push_count(check.program); i++) {
        run(&check); /* leaves the gradients at the values as they are */
        int64_t count = check.counts[cadre_program_push(check.program, i)->variable];
        double *wanted = cadre_calloc((size_t)count, sizeof(double));
        for (int64_t k = 0; k < count; k++) {
            wanted[k] = ((double *)check.gradients[i])[k];
        }
        compare(&check, name, i, wanted);
        free(wanted);
    }
    for (int i = 0; i < VARIABLES_MAX; i++) {
        free(check.variables[i]);
        free(check.gradients[i]);
    }
    for (int i = 0; i < cadre_program_argument_count(check.program); i++) {
        cadre_tensor_fini(&check.arguments[i]);
    }
    cadre_slot_close(&check.slot);
    cadre_device_close(&device);
    cadre_program_destroy(&check.program);
}

static inline void
check_gradient(const char *name, gradient_build_t *build)
{
    check_signed(name, build, -1);
}

#endif
