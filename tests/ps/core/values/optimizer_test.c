/*
 * Every optimizer against a reference: Keras' update rules, and those of one paper, once more, per
 * element, in double, written down from keras/src/optimizers/ and the paper without looking at the
 * kernels.
 */
#include "ps/core/values/optimizer.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"

TestSuite(optimizer, .timeout = 240);

enum { COUNT = 203, STEPS = 100, SETTINGS_MAX = 7 };

typedef struct {
    const char *name;
    struct {
        const char *parameter;
        double value;
    } settings[SETTINGS_MAX];
} case_t;

static const case_t cases[] = {
    {"sgd", {{"learning_rate", 0.01}}},
    {"sgd", {{"learning_rate", 0.7}}},
    {"momentum", {{"learning_rate", 0.01}, {"momentum", 0.9}}},
    {"momentum", {{"learning_rate", 0.1}, {"momentum", 0.5}}},
    {"momentum", {{"learning_rate", 0.1}, {"momentum", 0}}},
    {"nesterov", {{"learning_rate", 0.01}, {"momentum", 0.9}}},
    {"nesterov", {{"learning_rate", 0.1}, {"momentum", 0.3}}},
    {"adagrad", {{"learning_rate", 0.001}}},
    {"adagrad", {{"learning_rate", 1}, {"initial_accumulator_value", 0}, {"epsilon", 1e-3}}},
    {"rmsprop", {{"learning_rate", 0.001}}},
    {"rmsprop", {{"learning_rate", 0.1}, {"rho", 0.5}, {"epsilon", 0.01}}},
    {"rmsprop", {{"learning_rate", 0.01}, {"momentum", 0.8}}},
    {"rmsprop", {{"learning_rate", 0.01}, {"centered", 1}, {"epsilon", 1e-4}}},
    {"rmsprop", {{"learning_rate", 0.01}, {"centered", 1}, {"momentum", 0.6}, {"epsilon", 1e-4}}},
    {"adam", {{"learning_rate", 0.001}}},
    {"adam", {{"learning_rate", 0.1}, {"beta_1", 0.5}, {"beta_2", 0.9}, {"epsilon", 0.1}}},
    {"adam", {{"learning_rate", 0.1}, {"beta_1", 0}}},
    {"adamw", {{"learning_rate", 0.001}}},
    {"adamw", {{"learning_rate", 0.1}, {"weight_decay", 0.3}, {"beta_1", 0.8}}},
    {"ftrl", {{"learning_rate", 0.001}}},
    {"ftrl", {{"learning_rate", 0.5}, {"l1", 0.3}, {"l2", 0.2}, {"beta", 1}}},
    {"ftrl", {{"learning_rate", 0.5}, {"l2_shrinkage", 0.01}, {"l1", 2}}},
    {"ftrl", {{"learning_rate", 0.1}, {"learning_rate_power", -0.7}, {"l1", 0.01}, {"beta", 0.5}}},
    {"ftrl", {{"learning_rate", 0.1}, {"learning_rate_power", 0}, {"l2", 0.5}}},
    {"delayed_nesterov", {{"learning_rate", 0.7}}},
    {"delayed_nesterov", {{"learning_rate", 0.1}, {"momentum", 0.5}, {"delay", 7}}},
    {"delayed_nesterov", {{"learning_rate", 0.1}, {"delay", 1}}},
    {"add", {{NULL, 0}}},
};

static cadre_ps_optimizer_t
make(const case_t *which)
{
    cadre_optimizer_spec_t spec;
    cr_assert_eq(cadre_optimizer_spec_parse(&spec, which->name), 0);
    for (size_t i = 0; i < SETTINGS_MAX && which->settings[i].parameter; i++) {
        cr_assert_eq(
            cadre_optimizer_spec_set(&spec, which->settings[i].parameter, which->settings[i].value),
            0);
    }
    cadre_ps_optimizer_t optimizer;
    cr_assert_eq(cadre_optimizer_init(&optimizer, &spec, CADRE_F32), 0);
    return optimizer;
}

/* What a test case sets, else Keras' default. */
static double
hyper(const case_t *which, const char *parameter, double otherwise)
{
    for (size_t i = 0; i < SETTINGS_MAX && which->settings[i].parameter; i++) {
        if (strcmp(which->settings[i].parameter, parameter) == 0) {
            return which->settings[i].value;
        }
    }
    return otherwise;
}

/* Keras' variables of one element: weight, and its optimizer variables under the names there. */
typedef struct {
    double variable;
    double momentum;
    double velocity;
    double average_gradient;
    double accumulator;
    double linear;
    double gradient_sum;
    double peak; /* largest magnitude so far: what f32 rounding is relative to */
} element_t;

static void
reference_sgd(const case_t *c, element_t *e, double gradient)
{
    double lr = hyper(c, "learning_rate", 0.01);
    if (strcmp(c->name, "sgd") == 0) {
        e->variable = e->variable - gradient * lr;
        return;
    }
    double momentum = hyper(c, "momentum", 0.9);
    e->momentum = e->momentum * momentum - gradient * lr;
    if (strcmp(c->name, "nesterov") == 0) {
        e->variable += e->momentum * momentum - gradient * lr;
    } else {
        e->variable += e->momentum;
    }
}

/* Algorithm 3 of Liu and others 2024 (arXiv 2401.09135), c = 0, with t from 0 as there: the buffer
 * takes each gradient; every N-th step moves the momentum by its mean and applies it. */
static void
reference_delayed_nesterov(const case_t *c, element_t *e, double gradient, int t)
{
    double lr = hyper(c, "learning_rate", 0.7);
    double beta = hyper(c, "momentum", 0.9);
    double n = hyper(c, "delay", 4);
    e->gradient_sum += gradient;
    if ((t + 1) % (int)n == 0) {
        e->momentum = beta * e->momentum + e->gradient_sum / n;
        e->variable -= lr * (beta * e->momentum + gradient / n);
        e->gradient_sum = 0;
    } else {
        e->variable -= lr * (gradient / n);
    }
}

static void
reference_adagrad(const case_t *c, element_t *e, double gradient)
{
    e->accumulator += pow(gradient, 2);
    e->variable -= hyper(c, "learning_rate", 0.001) * gradient /
                   sqrt(e->accumulator + hyper(c, "epsilon", 1e-7));
}

static void
reference_rmsprop(const case_t *c, element_t *e, double gradient)
{
    double rho = hyper(c, "rho", 0.9);
    double momentum = hyper(c, "momentum", 0);
    e->velocity = rho * e->velocity + (1 - rho) * pow(gradient, 2);
    double denominator = e->velocity + hyper(c, "epsilon", 1e-7);
    if (hyper(c, "centered", 0) != 0) {
        e->average_gradient = rho * e->average_gradient + (1 - rho) * gradient;
        denominator -= pow(e->average_gradient, 2);
    }
    double increment = hyper(c, "learning_rate", 0.001) * gradient / sqrt(denominator);
    if (momentum > 0) {
        e->momentum = momentum * e->momentum + increment;
        e->variable -= e->momentum;
    } else {
        e->variable -= increment;
    }
}

static void
reference_adam(const case_t *c, element_t *e, double gradient, int iterations)
{
    double lr = hyper(c, "learning_rate", 0.001);
    double beta_1 = hyper(c, "beta_1", 0.9);
    double beta_2 = hyper(c, "beta_2", 0.999);
    if (strcmp(c->name, "adamw") == 0) {
        e->variable = e->variable - e->variable * hyper(c, "weight_decay", 0.004) * lr;
    }
    double beta_1_power = pow(beta_1, iterations + 1);
    double beta_2_power = pow(beta_2, iterations + 1);
    double alpha = lr * sqrt(1 - beta_2_power) / (1 - beta_1_power);
    e->momentum += (gradient - e->momentum) * (1 - beta_1);
    e->velocity += (pow(gradient, 2) - e->velocity) * (1 - beta_2);
    e->variable -= (e->momentum * alpha) / (sqrt(e->velocity) + hyper(c, "epsilon", 1e-7));
}

static void
reference_ftrl(const case_t *c, element_t *e, double gradient)
{
    double lr = hyper(c, "learning_rate", 0.001);
    double lr_power = hyper(c, "learning_rate_power", -0.5);
    double l1 = hyper(c, "l1", 0);
    double l2_reg = hyper(c, "l2", 0) + hyper(c, "beta", 0) / (2.0 * lr);
    double grad_to_use = gradient + 2 * hyper(c, "l2_shrinkage", 0) * e->variable;
    double new_accum = e->accumulator + pow(gradient, 2);
    e->linear += grad_to_use -
                 (pow(new_accum, -lr_power) - pow(e->accumulator, -lr_power)) / lr * e->variable;
    double quadratic = pow(new_accum, -lr_power) / lr + 2 * l2_reg;
    double linear_clipped = fmax(-l1, fmin(l1, e->linear));
    e->variable = (linear_clipped - e->linear) / quadratic;
    e->accumulator = new_accum;
}

static void
reference(const case_t *c, element_t *e, double gradient, int iterations)
{
    if (strcmp(c->name, "adagrad") == 0) {
        reference_adagrad(c, e, gradient);
    } else if (strcmp(c->name, "rmsprop") == 0) {
        reference_rmsprop(c, e, gradient);
    } else if (strncmp(c->name, "adam", 4) == 0) {
        reference_adam(c, e, gradient, iterations);
    } else if (strcmp(c->name, "ftrl") == 0) {
        reference_ftrl(c, e, gradient);
    } else if (strcmp(c->name, "delayed_nesterov") == 0) {
        reference_delayed_nesterov(c, e, gradient, iterations);
    } else if (strcmp(c->name, "add") == 0) {
        e->variable += gradient;
    } else {
        reference_sgd(c, e, gradient);
    }
}

static float
normal_at(uint64_t seed, uint64_t stream, uint64_t index)
{
    float value = 0;
    cadre_random_fill_normal(seed, stream, index, 1, &value);
    return value;
}

/* Both signs, zeros always and now and then, one sign only, very small and very large. */
static float
gradient_at(size_t i, int step)
{
    float normal = normal_at(17, (uint64_t)step, i);
    switch (i % 6) {
    case 0:
        return i == 0 || step % 3 == 0 ? 0 : normal;
    case 1:
        return fabsf(normal);
    case 2:
        return -fabsf(normal) - 0.5F;
    case 3:
        return normal * 1e-4F;
    case 4:
        return normal * 300;
    default:
        return normal;
    }
}

typedef struct {
    float value[COUNT + 1]; /* one more than is updated */
    float slots[CADRE_OPTIMIZER_SLOTS_MAX][COUNT + 1];
} state_t;

static void
init_state(const cadre_ps_optimizer_t *optimizer, state_t *state)
{
    memset(state, 0, sizeof(*state));
    for (size_t i = 0; i <= COUNT; i++) {
        state->value[i] = i % 7 == 0 ? 0 : normal_at(3, 1, i);
        for (size_t slot = 0; slot < optimizer->slot_count; slot++) {
            state->slots[slot][i] = cadre_optimizer_slot_initial(&optimizer->spec, slot);
        }
    }
}

static void
apply(const cadre_ps_optimizer_t *optimizer, int step, const void *gradient, const state_t *in,
      state_t *out)
{
    cadre_optimizer_span_t span = {
        .count = COUNT, .gradient = gradient, .value_in = in->value, .value_out = out->value};
    for (size_t slot = 0; slot < optimizer->slot_count; slot++) {
        span.slots_in[slot] = in->slots[slot];
        span.slots_out[slot] = out->slots[slot];
    }
    cadre_optimizer_apply(optimizer, (uint64_t)step, &span);
}

static void
expect_near(const case_t *c, int step, const element_t *element, float actual)
{
    double tolerance = 1e-5 * fmax(1, element->peak);
    cr_assert(fabs((double)actual - element->variable) <= tolerance,
              "%s (case %td) step %d: %.9g instead of %.9g", c->name, c - cases, step,
              (double)actual, element->variable);
}

Test(optimizer, follows_keras_over_a_hundred_steps)
{
    for (size_t number = 0; number < CADRE_COUNT_OF(cases); number++) {
        const case_t *c = &cases[number];
        cadre_ps_optimizer_t optimizer = make(c);
        state_t state;
        init_state(&optimizer, &state);
        element_t elements[COUNT];
        for (size_t i = 0; i < COUNT; i++) {
            elements[i] = (element_t){
                .variable = (double)state.value[i],
                .accumulator = hyper(c, "initial_accumulator_value", 0.1),
            };
        }
        for (int step = 1; step <= STEPS; step++) {
            float gradient[COUNT];
            for (size_t i = 0; i < COUNT; i++) {
                gradient[i] = gradient_at(i, step);
                reference(c, &elements[i], (double)gradient[i], step - 1);
            }
            apply(&optimizer, step, gradient, &state, &state);
            for (size_t i = 0; i < COUNT; i++) {
                elements[i].peak = fmax(elements[i].peak, fabs(elements[i].variable));
                expect_near(c, step, &elements[i], state.value[i]);
            }
        }
    }
}

Test(optimizer, gives_the_same_bits_in_place_and_into_another_buffer_and_from_any_address)
{
    for (size_t number = 0; number < CADRE_COUNT_OF(cases); number++) {
        cadre_ps_optimizer_t optimizer = make(&cases[number]);
        state_t in_place;
        state_t copies[2];
        init_state(&optimizer, &in_place);
        init_state(&optimizer, &copies[0]);
        init_state(&optimizer, &copies[1]);
        state_t untouched = in_place;
        for (int step = 1; step <= 10; step++) {
            float gradient[COUNT];
            char bytes[sizeof(gradient) + 3];
            for (size_t i = 0; i < COUNT; i++) {
                gradient[i] = gradient_at(i, step);
            }
            memcpy(bytes + step % 4, gradient, sizeof(gradient));
            state_t before = copies[1 - step % 2];
            apply(&optimizer, step, gradient, &in_place, &in_place);
            apply(&optimizer, step, bytes + step % 4, &copies[1 - step % 2], &copies[step % 2]);
            cr_assert_arr_eq(&before, &copies[1 - step % 2], sizeof(before), "%s wrote its input",
                             cases[number].name);
            cr_assert_arr_eq(&in_place, &copies[step % 2], sizeof(in_place), "%s",
                             cases[number].name);
        }
        cr_assert_eq(in_place.value[COUNT], untouched.value[COUNT], "wrote beyond its count");
    }
}

static float
single(const case_t *c, float value, float gradient, int steps)
{
    cadre_ps_optimizer_t optimizer = make(c);
    float slots[CADRE_OPTIMIZER_SLOTS_MAX] = {0};
    cadre_optimizer_span_t span = {
        .count = 1, .gradient = &gradient, .value_in = &value, .value_out = &value};
    for (size_t i = 0; i < optimizer.slot_count; i++) {
        slots[i] = cadre_optimizer_slot_initial(&optimizer.spec, i);
        span.slots_in[i] = span.slots_out[i] = &slots[i];
    }
    for (int step = 1; step <= steps; step++) {
        cadre_optimizer_apply(&optimizer, (uint64_t)step, &span);
    }
    return value;
}

/* The figures in Keras' own documentation. */
Test(optimizer, gives_the_figures_of_the_documentation)
{
    const case_t rmsprop = {"rmsprop", {{"learning_rate", 0.1}}};
    cr_assert_float_eq(single(&rmsprop, 10, 10, 1), 9.683772, 1e-6);
    const case_t adam = {"adam", {{"learning_rate", 0.1}}};
    cr_assert_float_eq(single(&adam, 10, 10, 1), 9.9, 1e-6);
    const case_t sgd = {"sgd", {{"learning_rate", 0.1}}};
    cr_assert_float_eq(single(&sgd, 1, 1, 1), 0.9, 1e-7);
}

/* Gradients of 1 under sgd, from 0: minus the sum of the rates, 0, 0.1, 0.2, 0.3, 0.4 and then 0.4
 * times one half for each further step (warm-up of 4 steps, exponential by 0.5). */
Test(optimizer, takes_the_rate_of_the_step_from_the_schedule)
{
    cadre_optimizer_spec_t spec;
    cadre_ps_optimizer_t optimizer;
    cr_assert_eq(cadre_optimizer_spec_parse(&spec, "sgd"), 0);
    cr_assert_eq(cadre_optimizer_spec_set(&spec, "learning_rate", 0.4), 0);
    cr_assert_eq(cadre_schedule_spec_parse(&spec.schedule, "exponential"), 0);
    spec.schedule.parameters[CADRE_SCHEDULE_WARMUP_STEPS] = 4;
    spec.schedule.parameters[CADRE_SCHEDULE_DECAY_STEPS] = 1;
    spec.schedule.parameters[CADRE_EXPONENTIAL_DECAY_RATE] = 0.5;
    cr_assert_eq(cadre_optimizer_init(&optimizer, &spec, CADRE_F32), 0);

    static const float expected[] = {0, -0.1F, -0.3F, -0.6F, -1.0F, -1.2F, -1.3F, -1.35F};
    const float gradient = 1;
    float value = 0;
    const cadre_optimizer_span_t span = {
        .count = 1, .gradient = &gradient, .value_in = &value, .value_out = &value};
    for (uint64_t step = 1; step <= CADRE_COUNT_OF(expected); step++) {
        cadre_optimizer_apply(&optimizer, step, &span);
        cr_assert_float_eq(value, expected[step - 1], 1e-6, "step %d: %g", (int)step,
                           (double)value);
    }
}

/* The other kinds at a rate that a schedule has reached do what they do at that rate. */
Test(optimizer, does_with_a_scheduled_rate_what_it_does_with_that_rate)
{
    for (size_t number = 0; number < CADRE_COUNT_OF(cases); number++) {
        const case_t *c = &cases[number];
        cadre_ps_optimizer_t constant = make(c);
        if (constant.spec.kind == CADRE_OPTIMIZER_ADD) {
            continue;
        }
        cadre_ps_optimizer_t halved = constant;
        cr_assert_eq(cadre_schedule_spec_parse(&halved.spec.schedule, "piecewise_constant"), 0);
        halved.spec.schedule.boundary_count = 1;
        halved.spec.schedule.boundaries[0] = 0;
        halved.spec.schedule.values[0] = halved.spec.parameters[CADRE_LEARNING_RATE];
        halved.spec.parameters[CADRE_LEARNING_RATE] = 1e5;

        state_t expected;
        state_t found;
        float gradient[COUNT];
        init_state(&constant, &expected);
        found = expected;
        for (int step = 2; step <= 20; step++) {
            for (size_t i = 0; i < COUNT; i++) {
                gradient[i] = gradient_at(i, step);
            }
            apply(&constant, step, gradient, &expected, &expected);
            apply(&halved, step, gradient, &found, &found);
        }
        cr_assert_arr_eq(&expected, &found, sizeof(found), "%s (case %zu)", c->name, number);
    }
}

Test(optimizer, stays_finite_where_ftrl_s_schedule_begins_with_0)
{
    const case_t c = {"ftrl", {{"learning_rate", 0.1}}};
    cadre_ps_optimizer_t optimizer = make(&c);
    cr_assert_eq(cadre_schedule_spec_parse(&optimizer.spec.schedule, "constant"), 0);
    optimizer.spec.schedule.parameters[CADRE_SCHEDULE_WARMUP_STEPS] = 3;
    state_t state;
    float gradient[COUNT];
    init_state(&optimizer, &state);
    for (int step = 1; step <= 20; step++) {
        for (size_t i = 0; i < COUNT; i++) {
            gradient[i] = gradient_at(i, step);
        }
        apply(&optimizer, step, gradient, &state, &state);
    }
    for (size_t i = 0; i < COUNT; i++) {
        cr_assert(isfinite(state.value[i]), "%zu", i);
    }
}

Test(optimizer, stays_finite_where_keras_divides_zero_by_zero)
{
    const case_t ftrl = {"ftrl", {{"learning_rate", 0.1}, {"initial_accumulator_value", 0}}};
    cr_assert_eq(single(&ftrl, 3, 0, 2), 0);
    const case_t power = {
        "ftrl",
        {{"learning_rate", 0.1}, {"initial_accumulator_value", 0}, {"learning_rate_power", -0.75}}};
    cr_assert_eq(single(&power, 3, 0, 2), 0);
    /* A constant gradient has no variance: rounding must not make it negative. */
    const case_t centered = {"rmsprop", {{"centered", 1}, {"epsilon", 1e-30}}};
    for (float gradient = 0.1F; gradient < 1000; gradient *= 1.7F) {
        cr_assert(!isnan(single(&centered, 1, gradient, 300)));
    }
    const case_t adam = {"adam", {{"epsilon", 1e-30}}};
    cr_assert_eq(single(&adam, 3, 0, 5), 3);
    const case_t adagrad = {"adagrad", {{"initial_accumulator_value", 0}, {"epsilon", 1e-30}}};
    cr_assert_eq(single(&adagrad, 3, 0, 5), 3);
}

Test(optimizer, adds_and_subtracts_in_each_type)
{
    cadre_optimizer_spec_t spec;
    cr_assert_eq(cadre_optimizer_spec_parse(&spec, "add"), 0);
    cadre_ps_optimizer_t add;

    double f64[] = {1e300, -2.5, 0};
    const double f64_by[] = {1e284, 0.25, 1e-320};
    cadre_optimizer_span_t span = {
        .count = 3, .gradient = f64_by, .value_in = f64, .value_out = f64};
    cr_assert_eq(cadre_optimizer_init(&add, &spec, CADRE_F64), 0);
    cadre_optimizer_apply(&add, 1, &span);
    cr_assert(f64[0] == 1e300 + 1e284 && f64[1] == -2.25 && f64[2] == 1e-320);

    int32_t i32[] = {INT32_MAX, -5, 7};
    const int32_t i32_by[] = {1, 3, -9};
    span =
        (cadre_optimizer_span_t){.count = 3, .gradient = i32_by, .value_in = i32, .value_out = i32};
    cr_assert_eq(cadre_optimizer_init(&add, &spec, CADRE_I32), 0);
    cadre_optimizer_apply(&add, 1, &span);
    cr_assert(i32[0] == INT32_MIN && i32[1] == -2 && i32[2] == -2);
    cadre_optimizer_add(CADRE_I32, true, &span);
    cr_assert(i32[0] == INT32_MAX && i32[1] == -5 && i32[2] == 7);

    int64_t i64[] = {INT64_MAX - 1, -5};
    const int64_t i64_by[] = {1, INT64_C(1) << 40};
    int64_t sum[2] = {0};
    span =
        (cadre_optimizer_span_t){.count = 2, .gradient = i64_by, .value_in = i64, .value_out = sum};
    cr_assert_eq(cadre_optimizer_init(&add, &spec, CADRE_I64), 0);
    cadre_optimizer_apply(&add, 1, &span);
    cr_assert(sum[0] == INT64_MAX && sum[1] == (INT64_C(1) << 40) - 5 && i64[1] == -5);
    cadre_optimizer_add(CADRE_I64, true, &span);
    cr_assert(sum[0] == INT64_MAX - 2 && sum[1] == -5 - (INT64_C(1) << 40));

    float f32[] = {1.5F, -4};
    const float f32_by[] = {0.25F, 4};
    span =
        (cadre_optimizer_span_t){.count = 2, .gradient = f32_by, .value_in = f32, .value_out = f32};
    cadre_optimizer_add(CADRE_F32, true, &span);
    cr_assert(f32[0] == 1.25F && f32[1] == -8);
    double f64_minus[] = {1, 2};
    span = (cadre_optimizer_span_t){
        .count = 2, .gradient = f64_by, .value_in = f64_minus, .value_out = f64_minus};
    cadre_optimizer_add(CADRE_F64, true, &span);
    cr_assert(f64_minus[0] == 1 - 1e284 && f64_minus[1] == 1.75);
}

Test(optimizer, refuses_types_it_cannot_update)
{
    cadre_optimizer_spec_t spec;
    cadre_ps_optimizer_t optimizer;
    cr_assert_eq(cadre_optimizer_spec_parse(&spec, "adam"), 0);
    cr_assert_eq(cadre_optimizer_init(&optimizer, &spec, CADRE_F64), CADRE_EDTYPE);
    cr_assert_eq(cadre_optimizer_spec_parse(&spec, "add"), 0);
    cr_assert_eq(cadre_optimizer_init(&optimizer, &spec, CADRE_BF16), CADRE_EDTYPE);
}
