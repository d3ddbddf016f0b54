/*
 * Every schedule against Keras' formulas. The expected rates are those of
 * keras/src/optimizers/schedules/learning_rate_schedule.py, evaluated in Python's doubles:
 *
 *     ExponentialDecay          initial * decay_rate ** p, p = step / decay_steps (floor(p))
 *     InverseTimeDecay          initial / (1 + decay_rate * p)
 *     PolynomialDecay           (initial - end) * (1 - p) ** power + end
 *     CosineDecay               initial * ((1 - alpha) * 0.5 * (1 + cos(pi * p)) + alpha)
 *     CosineDecayRestarts       the same in period i = floor(log(1 - p * (1 - t_mul)) / log(t_mul))
 *     PiecewiseConstantDecay    values[i] for boundaries[i - 1] < step <= boundaries[i]
 */
#include "common/spec/schedule_spec.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(schedule_spec, .timeout = 240);

enum { STEPS = 10 };

static const uint64_t steps[STEPS] = {0, 1, 9, 10, 11, 25, 30, 31, 70, 1000};

typedef struct {
    cadre_schedule_t schedule;
    double rates[STEPS];
} case_t;

/* All with an initial rate of 0.1. */
static const case_t cases[] = {
    {{.kind = CADRE_SCHEDULE_CONSTANT}, {.1, .1, .1, .1, .1, .1, .1, .1, .1, .1}},
    {{.kind = CADRE_SCHEDULE_CONSTANT, .warmup_steps = 10},
     {0, .01, .09, .1, .1, .1, .1, .1, .1, .1}},
    {{.kind = CADRE_SCHEDULE_PIECEWISE_CONSTANT,
      .boundary_count = 2,
      .boundaries = {10, 30},
      .values = {.05, .001}},
     {.1, .1, .1, .1, .05, .05, .05, .001, .001, .001}},
    {{.kind = CADRE_SCHEDULE_EXPONENTIAL, .decay_steps = 10, .decay_rate = .5},
     {.1, 0.093303299153680741, 0.053588673126814659, .05, 0.046651649576840371,
      0.017677669529663691, 0.0125, 0.011662912394210093, 0.00078125, 7.8886090522101185e-32}},
    {{.kind = CADRE_SCHEDULE_EXPONENTIAL, .decay_steps = 10, .decay_rate = .5, .staircase = true},
     {.1, .1, .1, .05, .05, .025, .0125, .0125, 0.00078125, 7.8886090522101185e-32}},
    {{.kind = CADRE_SCHEDULE_INVERSE_TIME, .decay_steps = 10, .decay_rate = .5},
     {.1, 0.095238095238095233, 0.068965517241379309, 0.066666666666666666, 0.064516129032258063,
      0.044444444444444446, .04, 0.03921568627450981, 0.022222222222222223, 0.0019607843137254902}},
    {{.kind = CADRE_SCHEDULE_INVERSE_TIME, .decay_steps = 10, .decay_rate = .5, .staircase = true},
     {.1, .1, .1, 0.066666666666666666, 0.066666666666666666, .05, .04, .04, 0.022222222222222223,
      0.0019607843137254902}},
    {{.kind = CADRE_SCHEDULE_POLYNOMIAL, .decay_steps = 30, .end_learning_rate = .01, .power = 2},
     {.1, .0941, .0541, .05, .0461, .0125, .01, .01, .01, .01}},
    {{.kind = CADRE_SCHEDULE_POLYNOMIAL,
      .decay_steps = 30,
      .end_learning_rate = .01,
      .power = .5,
      .cycle = true},
     {.1, 0.098487287222515763, 0.085299402388066811, 0.083484692283495351, 0.081624018317879937,
      0.046742346141747673, .01, 0.072569960843842637, 0.052426406871192856, 0.022602520756252104}},
    {{.kind = CADRE_SCHEDULE_COSINE, .decay_steps = 30, .alpha = .1},
     {.1, 0.099753485291572297, 0.08145033635316129, .0775, 0.073303148938411014,
      0.016028856829700257, .01, .01, .01, .01}},
    /* CosineDecay(0.02, 60, alpha=0.1, warmup_target=0.1, warmup_steps=10) */
    {{.kind = CADRE_SCHEDULE_COSINE,
      .decay_steps = 60,
      .alpha = .1,
      .warmup_steps = 10,
      .warmup_initial = .02},
     {.02, .028, .092, .1, 0.099938329063955833, 0.086819805153394644, .0775, 0.075429572488279611,
      .01, .01}},
    {{.kind = CADRE_SCHEDULE_COSINE_RESTARTS,
      .decay_steps = 10,
      .alpha = .1,
      .t_mul = 2,
      .m_mul = .5},
     {.1, 0.097797543233281922, 0.012202456766718092, .055, 0.0547229876633906,
      0.016590097423302683, .0325, 0.032465320004497693, .02125, 0.010532279561005518}},
    {{.kind = CADRE_SCHEDULE_COSINE_RESTARTS, .decay_steps = 10, .t_mul = 1, .m_mul = .9},
     {.1, 0.097552825814757688, 0.0024471741852423235, .09, 0.087797543233281927, .0405, .0729,
      0.07111601001895837, 0.04782969, 2.6561398887587545e-06}},
};

Test(schedule_spec, follows_the_formulas_of_keras)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        for (size_t k = 0; k < STEPS; k++) {
            double rate = -1;
            cr_assert_eq(cadre_schedule_rate(&cases[i].schedule, .1, steps[k], &rate), 0, "%s",
                         cadre_error_text());
            cr_assert(fabs(rate - cases[i].rates[k]) <= 1e-14 * fmax(cases[i].rates[k], 1e-18),
                      "case %zu, step %zu: %.17g, not %.17g", i, k, rate, cases[i].rates[k]);
        }
    }
}

Test(schedule_spec, begins_each_period_at_its_height)
{
    /* Where a logarithm may round to either side: 3^k periods of 7 steps. */
    const cadre_schedule_t restarts = {
        .kind = CADRE_SCHEDULE_COSINE_RESTARTS, .decay_steps = 7, .t_mul = 3, .m_mul = 1};
    uint64_t begin = 0;
    uint64_t length = 7;
    for (int period = 0; period < 20; period++) {
        double rate = 0;
        cr_assert_eq(cadre_schedule_rate(&restarts, .1, begin, &rate), 0);
        cr_assert_float_eq(rate, .1, 1e-12, "period %d begins with %g", period, rate);
        begin += length;
        length *= 3;
    }
}

Test(schedule_spec, keeps_a_rate_finite_however_it_grows)
{
    const cadre_schedule_t grows = {
        .kind = CADRE_SCHEDULE_EXPONENTIAL, .decay_steps = 1, .decay_rate = 1e10};
    double rate = 0;
    cr_assert_eq(cadre_schedule_rate(&grows, 1, UINT64_MAX, &rate), 0);
    cr_assert_eq(rate, CADRE_LEARNING_RATE_MAX);
}

Test(schedule_spec, is_the_same_in_a_program_s_words_and_on_the_wire)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_schedule_spec_t spec;
        cadre_schedule_spec_t again;
        double numbers[CADRE_SCHEDULE_NUMBERS_MAX];
        cr_assert_eq(cadre_schedule_spec_take(&spec, &cases[i].schedule), 0);
        cadre_schedule_t given = cadre_schedule_spec_give(&spec);
        cr_assert_eq(cadre_schedule_spec_take(&again, &given), 0);
        cr_assert(cadre_schedule_spec_equal(&spec, &again), "case %zu", i);

        size_t count = cadre_schedule_spec_encode(&spec, numbers);
        cr_assert_eq(cadre_schedule_spec_decode(&again, (uint64_t)spec.kind, numbers, count), 0);
        cr_assert(cadre_schedule_spec_equal(&spec, &again), "case %zu", i);
        numbers[count - 1] += .125;
        if (cadre_schedule_spec_decode(&again, (uint64_t)spec.kind, numbers, count) == 0) {
            cr_assert_not(cadre_schedule_spec_equal(&spec, &again), "case %zu", i);
        }
        cr_assert_eq(cadre_schedule_spec_decode(&again, (uint64_t)spec.kind, numbers, count - 1),
                     CADRE_EMALFORMED);
    }
}

Test(schedule_spec, knows_every_kind_by_its_name_and_number)
{
    static const char *const names[] = {"constant",       "piecewise_constant", "exponential",
                                        "inverse_time",   "polynomial",         "cosine",
                                        "cosine_restarts"};
    cadre_schedule_t schedule;
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cr_assert_eq(cadre_schedule_named(names[i], &schedule), 0);
        cr_assert_eq((size_t)schedule.kind, i + 1);
        cr_assert_str_eq(cadre_schedule_kind_text(schedule.kind), names[i]);
    }
    cr_assert_eq(cadre_schedule_named("step", &schedule), CADRE_ENOTFOUND);
    cr_assert_str_eq(cadre_error_text(),
                     "no schedule 'step'; there are constant piecewise_constant exponential "
                     "inverse_time polynomial cosine cosine_restarts");
    schedule = cadre_schedule(CADRE_SCHEDULE_COSINE_RESTARTS);
    cr_assert(schedule.t_mul == 2 && schedule.m_mul == 1 && schedule.alpha == 0);
    schedule = cadre_schedule(CADRE_SCHEDULE_POLYNOMIAL);
    cr_assert(schedule.end_learning_rate == 0.0001 && schedule.power == 1 && !schedule.cycle);
}

static void
expect_refused(const cadre_schedule_t *schedule, const char *text)
{
    double rate = 0;
    cr_assert_eq(cadre_schedule_rate(schedule, .1, 0, &rate), CADRE_EINVALID, "%s", text);
    cr_assert(strstr(cadre_error_text(), text), "%s is not in %s", text, cadre_error_text());
}

Test(schedule_spec, refuses_what_is_out_of_range)
{
    cadre_schedule_t schedule = {.warmup_steps = 5};
    expect_refused(&schedule, "schedule: kind 0 is none");
    schedule = cadre_schedule(CADRE_SCHEDULE_COSINE);
    expect_refused(&schedule, "cosine: decay_steps must be in [1, ");
    schedule.decay_steps = 1;
    schedule.alpha = 1.5;
    expect_refused(&schedule, "cosine: alpha");
    schedule = cadre_schedule(CADRE_SCHEDULE_EXPONENTIAL);
    schedule.decay_steps = 1;
    expect_refused(&schedule, "exponential: decay_rate");

    schedule = cadre_schedule(CADRE_SCHEDULE_PIECEWISE_CONSTANT);
    expect_refused(&schedule, "there are no boundaries");
    schedule.boundary_count = CADRE_SCHEDULE_BOUNDARIES_MAX + 1;
    expect_refused(&schedule, "17 boundaries are not in 1 to 16");
    schedule.boundary_count = 2;
    schedule.boundaries[0] = 5;
    schedule.boundaries[1] = 5;
    expect_refused(&schedule, "boundaries must rise and be at least 0; 5 comes after 5");
    schedule.boundaries[1] = 6;
    schedule.values[1] = -1;
    expect_refused(&schedule, "values must be in [0, 1e+10], not -1");
    schedule.values[1] = (double)NAN;
    expect_refused(&schedule, "values must be in");

    cadre_schedule_spec_t spec;
    const double numbers[CADRE_SCHEDULE_NUMBERS_MAX] = {0, 0, 10, 0.5, 2};
    cr_assert_eq(cadre_schedule_spec_decode(&spec, 0, numbers, 0), 0, "none");
    cr_assert_eq((int)spec.kind, 0);
    cr_assert_eq(cadre_schedule_spec_decode(&spec, 0, numbers, 1), CADRE_EMALFORMED);
    cr_assert_eq(cadre_schedule_spec_decode(&spec, 8, numbers, 2), CADRE_EMALFORMED);
    cr_assert_eq(cadre_schedule_spec_decode(&spec, 3, numbers, 5), CADRE_EINVALID, "staircase 2");
    cr_assert_eq(cadre_schedule_spec_decode(&spec, 2, numbers, 2), CADRE_EINVALID);
    cr_assert_eq(cadre_schedule_spec_decode(&spec, 2, numbers, 34), CADRE_EINVALID);
    cr_assert_eq(cadre_schedule_spec_decode(&spec, 2, numbers, 36), CADRE_EMALFORMED);
}

Test(schedule_spec, is_extended_behind_what_it_was)
{
    cadre_schedule_spec_t spec = {0};
    const cadre_schedule_spec_t none = {0};
    cr_assert_eq(cadre_schedule_spec_extend(&spec, 10, 0.5), 0);
    const cadre_schedule_spec_t once = spec;
    cr_assert_eq(cadre_schedule_spec_extend(&spec, 10, 0.5), 0, "the same again");
    cr_expect(cadre_schedule_spec_equal(&spec, &once));
    cr_assert_eq(cadre_schedule_spec_extend(&spec, 20, 0.25), 0);
    cr_expect_eq(cadre_schedule_spec_rate(&spec, 1, 9), 1);
    cr_expect_eq(cadre_schedule_spec_rate(&spec, 1, 10), 0.5);
    cr_expect_eq(cadre_schedule_spec_rate(&spec, 1, 19), 0.5);
    cr_expect_eq(cadre_schedule_spec_rate(&spec, 1, 20), 0.25);

    cr_expect(cadre_schedule_spec_extends(&spec, &once) &&
              cadre_schedule_spec_extends(&once, &none));
    cr_expect(cadre_schedule_spec_extends(&once, &once));
    cr_expect_not(cadre_schedule_spec_extends(&once, &spec));
    cr_expect_not(cadre_schedule_spec_extends(&none, &once));
    cadre_schedule_spec_t other = once;
    other.values[0] = 0.125;
    cr_expect_not(cadre_schedule_spec_extends(&spec, &other));
    other = once;
    other.parameters[CADRE_SCHEDULE_WARMUP_STEPS] = 1;
    cr_expect_not(cadre_schedule_spec_extends(&spec, &other));
}

Test(schedule_spec, is_not_extended_where_rates_would_change_that_were_used)
{
    cadre_schedule_spec_t spec = {0};
    cr_expect_eq(cadre_schedule_spec_extend(&spec, 0, 0.5), CADRE_EINVALID);
    cr_expect_eq(cadre_schedule_spec_extend(&spec, 1, -0.5), CADRE_EINVALID);
    cr_expect_eq(spec.kind, 0);
    for (uint64_t i = 1; i <= CADRE_SCHEDULE_BOUNDARIES_MAX; i++) {
        cr_assert_eq(cadre_schedule_spec_extend(&spec, 10 * i, 1.0 / (double)i), 0);
        cr_expect_lt(cadre_schedule_spec_extend(&spec, 10 * i, 2), 0);
        cr_expect_lt(cadre_schedule_spec_extend(&spec, 10 * i - 1, 2), 0);
    }
    cr_expect_eq(cadre_schedule_spec_extend(&spec, 1000, 2), CADRE_EFULL);

    cadre_schedule_spec_t cosine;
    cr_assert_eq(cadre_schedule_spec_parse(&cosine, "cosine"), 0);
    cr_expect_eq(cadre_schedule_spec_extend(&cosine, 1, 2), CADRE_EINVALID);
}

Test(schedule_spec, scales_a_rate_with_the_rows_of_an_update)
{
    double rate = 0;
    cr_assert_eq(cadre_scaled_rate(CADRE_SCALE_LINEAR, 0.1, 1024, 256, &rate), 0);
    cr_expect_float_eq(rate, 0.4, 1e-12);
    cr_assert_eq(cadre_scaled_rate(CADRE_SCALE_SQRT, 0.1, 1024, 256, &rate), 0);
    cr_expect_float_eq(rate, 0.2, 1e-12);
    cr_assert_eq(cadre_scaled_rate(CADRE_SCALE_NONE, 0.1, 1024, 256, &rate), 0);
    cr_expect_eq(rate, 0.1);
    cr_expect_eq(cadre_scaled_rate(CADRE_SCALE_LINEAR, 0.1, 0, 256, &rate), CADRE_EINVALID);
    cr_expect_eq(cadre_scaled_rate(CADRE_SCALE_LINEAR, 0.1, 1, -1, &rate), CADRE_EINVALID);
    cr_expect_eq(cadre_scaled_rate((cadre_scale_t)3, 0.1, 1, 1, &rate), CADRE_EINVALID);
    cr_expect_eq(rate, 0.1, "it is left as it was");
}
