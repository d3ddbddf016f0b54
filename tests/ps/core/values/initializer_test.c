#include "ps/core/values/initializer.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(initializer, .timeout = 240);

enum { COUNT = 120000 };

static cadre_ps_initializer_t
make(const char *kind, const int64_t *shape, int rank, uint64_t seed)
{
    cadre_initializer_spec_t spec;
    cr_assert_eq(cadre_initializer_spec_parse(&spec, kind), 0);
    spec.seed = seed;
    cadre_ps_initializer_t initializer;
    cr_assert_eq(cadre_initializer_init(&initializer, &spec, CADRE_F32, shape, rank), 0);
    return initializer;
}

/* Bits, wherever the cut falls: this is what makes initial values independent of partitions. */
Test(initializer, gives_an_element_one_value_for_any_cut)
{
    static const char *const kinds[] = {
        "zeros",          "constant",      "uniform",    "normal",    "truncated_normal",
        "glorot_uniform", "glorot_normal", "he_uniform", "he_normal", "lecun_uniform",
        "lecun_normal",   "identity",
    };
    enum { TOTAL = 1000 };
    for (size_t kind = 0; kind < CADRE_COUNT_OF(kinds); kind++) {
        cadre_ps_initializer_t initializer = make(kinds[kind], (int64_t[]){100, 10}, 2, 9);
        float whole[TOTAL];
        cadre_initializer_fill(&initializer, 0, TOTAL, whole);
        for (size_t parts = 1; parts <= 13; parts++) {
            float cut[TOTAL];
            for (size_t part = 0; part < parts; part++) {
                size_t first = TOTAL * part / parts;
                size_t end = TOTAL * (part + 1) / parts;
                cadre_initializer_fill(&initializer, first, end - first, cut + first);
            }
            cr_assert_arr_eq(cut, whole, sizeof(whole), "%s in %zu parts", kinds[kind], parts);
        }
    }
}

Test(initializer, gives_other_seeds_and_elements_other_values)
{
    static const char *const kinds[] = {"uniform", "normal", "truncated_normal"};
    for (size_t kind = 0; kind < CADRE_COUNT_OF(kinds); kind++) {
        float values[3];
        cadre_ps_initializer_t initializer = make(kinds[kind], (int64_t[]){100}, 1, 1);
        cadre_initializer_fill(&initializer, 0, 1, &values[0]);
        cadre_initializer_fill(&initializer, 50, 1, &values[1]);
        initializer = make(kinds[kind], (int64_t[]){100}, 1, 2);
        cadre_initializer_fill(&initializer, 0, 1, &values[2]);
        cr_assert_neq(values[0], values[1]);
        cr_assert_neq(values[0], values[2]);
    }
}

typedef struct {
    double mean;
    double stddev;
    double low;
    double high;
} summary_t;

static summary_t
summarise(const cadre_ps_initializer_t *initializer)
{
    static float values[COUNT];
    cadre_initializer_fill(initializer, 0, COUNT, values);
    summary_t summary = {.low = INFINITY, .high = -INFINITY};
    double squares = 0;
    for (size_t i = 0; i < COUNT; i++) {
        double value = (double)values[i];
        summary.mean += value / COUNT;
        squares += value * value / COUNT;
        summary.low = fmin(summary.low, value);
        summary.high = fmax(summary.high, value);
    }
    summary.stddev = sqrt(squares - summary.mean * summary.mean);
    return summary;
}

Test(initializer, draws_the_distributions_it_names)
{
    const int64_t shape[] = {COUNT};
    cadre_ps_initializer_t initializer = make("uniform", shape, 1, 4);
    summary_t summary = summarise(&initializer);
    cr_assert(summary.low >= -0.05 && summary.low < -0.0499);
    cr_assert(summary.high <= 0.05 && summary.high > 0.0499);
    cr_assert_float_eq(summary.mean, 0, 5e-4);

    initializer = make("normal", shape, 1, 4);
    summary = summarise(&initializer);
    cr_assert_float_eq(summary.mean, 0, 1e-3);
    cr_assert_float_eq(summary.stddev, 0.05, 1e-3);
    cr_assert_gt(summary.high, 0.15, "beyond three standard deviations");

    cadre_initializer_spec_t spec;
    cr_assert_eq(cadre_initializer_spec_parse(&spec, "truncated_normal"), 0);
    spec.parameters[CADRE_NORMAL_MEAN] = 3;
    spec.parameters[CADRE_NORMAL_STDDEV] = 2;
    cr_assert_eq(cadre_initializer_init(&initializer, &spec, CADRE_F32, shape, 1), 0);
    summary = summarise(&initializer);
    cr_assert_float_eq(summary.mean, 3, 0.03);
    cr_assert_float_eq(summary.stddev, 2 * 0.8796256610, 0.02);
    cr_assert(summary.low >= -1 && summary.high <= 7);
    cr_assert(summary.low < -0.99 && summary.high > 6.99);
}

/* Keras' compute_fans and VarianceScaling. */
Test(initializer, scales_by_the_fans_of_the_whole_shape)
{
    static const struct {
        int64_t shape[CADRE_RANK_MAX];
        int rank;
        double fan_in;
        double fan_out;
    } cases[] = {
        {{0}, 0, 1, 1},
        {{50}, 1, 50, 50},
        {{300, 100}, 2, 300, 100},
        {{7, 20, 30}, 3, 140, 210},
        {{3, 3, 16, 32}, 4, 144, 288},
        {{0, 0}, 2, 0, 0},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        const int64_t *shape = cases[i].shape;
        double average = fmax(1, (cases[i].fan_in + cases[i].fan_out) / 2);
        double in = fmax(1, cases[i].fan_in);

        cadre_ps_initializer_t initializer = make("glorot_uniform", shape, cases[i].rank, 1);
        summary_t summary = summarise(&initializer);
        cr_assert_float_eq(summary.high, sqrt(3 / average), 1e-3 * summary.high, "case %zu", i);
        cr_assert_float_eq(summary.low, -sqrt(3 / average), 1e-3 * summary.high, "case %zu", i);

        initializer = make("he_uniform", shape, cases[i].rank, 1);
        summary = summarise(&initializer);
        cr_assert_float_eq(summary.high, sqrt(6 / in), 1e-3 * summary.high, "case %zu", i);

        /* The variance after truncation is the one asked for. */
        initializer = make("glorot_normal", shape, cases[i].rank, 1);
        summary = summarise(&initializer);
        double stddev = sqrt(1 / average);
        cr_assert_float_eq(summary.stddev, stddev, 0.01 * stddev, "case %zu", i);
        cr_assert_float_eq(summary.high, 2 * stddev / 0.8796256610342398, 0.002 * stddev);

        initializer = make("he_normal", shape, cases[i].rank, 1);
        summary = summarise(&initializer);
        stddev = sqrt(2 / in);
        cr_assert_float_eq(summary.stddev, stddev, 0.01 * stddev, "case %zu", i);
        cr_assert_float_eq(summary.high, 2 * stddev / 0.8796256610342398, 0.002 * stddev);

        initializer = make("lecun_uniform", shape, cases[i].rank, 1);
        summary = summarise(&initializer);
        cr_assert_float_eq(summary.high, sqrt(3 / in), 1e-3 * summary.high, "case %zu", i);

        initializer = make("lecun_normal", shape, cases[i].rank, 1);
        summary = summarise(&initializer);
        stddev = sqrt(1 / in);
        cr_assert_float_eq(summary.stddev, stddev, 0.01 * stddev, "case %zu", i);
    }
}

Test(initializer, puts_the_value_where_row_and_column_are_the_same)
{
    cadre_initializer_spec_t spec;
    cadre_ps_initializer_t initializer;
    const int64_t shape[] = {3, 4};
    cr_assert_eq(cadre_initializer_spec_parse(&spec, "identity"), 0);
    spec.parameters[CADRE_IDENTITY_VALUE] = 5;
    cr_assert_eq(cadre_initializer_init(&initializer, &spec, CADRE_I64, shape, 2), 0);
    const int64_t expected[] = {5, 0, 0, 0, 0, 5, 0, 0, 0, 0, 5, 0};
    int64_t values[12];
    cadre_initializer_fill(&initializer, 0, 12, values);
    cr_assert_arr_eq(values, expected, sizeof(values));
    cr_assert_eq(cadre_initializer_init(&initializer, &spec, CADRE_I64, shape, 1), CADRE_ESHAPE);
}

Test(initializer, fills_constants_of_each_type)
{
    cadre_initializer_spec_t spec;
    cadre_ps_initializer_t initializer;
    const int64_t shape[] = {3};
    cr_assert_eq(cadre_initializer_spec_parse(&spec, "constant"), 0);
    spec.parameters[CADRE_CONSTANT_VALUE] = -7;

    float f32[3] = {0};
    cr_assert_eq(cadre_initializer_init(&initializer, &spec, CADRE_F32, shape, 1), 0);
    cadre_initializer_fill(&initializer, 0, 2, f32);
    cr_assert(f32[0] == -7 && f32[1] == -7 && f32[2] == 0);
    double f64[3] = {0};
    cr_assert_eq(cadre_initializer_init(&initializer, &spec, CADRE_F64, shape, 1), 0);
    cadre_initializer_fill(&initializer, 1, 2, f64);
    cr_assert(f64[0] == -7 && f64[1] == -7 && f64[2] == 0);
    int32_t i32[3] = {0};
    cr_assert_eq(cadre_initializer_init(&initializer, &spec, CADRE_I32, shape, 1), 0);
    cadre_initializer_fill(&initializer, 0, 2, i32);
    cr_assert(i32[0] == -7 && i32[1] == -7 && i32[2] == 0);
    int64_t i64[3] = {0};
    cr_assert_eq(cadre_initializer_init(&initializer, &spec, CADRE_I64, shape, 1), 0);
    cadre_initializer_fill(&initializer, 0, 2, i64);
    cr_assert(i64[0] == -7 && i64[1] == -7 && i64[2] == 0);

    cr_assert_eq(cadre_initializer_init(&initializer, &spec, CADRE_U8, shape, 1), CADRE_EDTYPE);
    cr_assert_eq(cadre_initializer_init(&initializer, &spec, CADRE_F32, (int64_t[]){-1}, 1),
                 CADRE_EINVALID);
}
