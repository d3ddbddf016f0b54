#include "common/spec/initializer_spec.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(initializer_spec, .timeout = 240);

static cadre_initializer_spec_t
parsed(const char *text)
{
    cadre_initializer_spec_t spec;
    cr_assert_eq(cadre_initializer_spec_parse(&spec, text), 0, "%s", text);
    return spec;
}

Test(initializer_spec, is_the_same_in_a_program_s_words)
{
    double number = 1;
    for (int kind = 1; kind <= 12; kind++) {
        const char *text = cadre_initializer_kind_text((cadre_initializer_kind_t)kind);
        const cadre_parameter_t *table = NULL;
        cadre_initializer_spec_t spec;
        cadre_initializer_spec_t taken;
        cadre_initializer_t given = cadre_initializer((cadre_initializer_kind_t)kind);
        size_t count = cadre_initializer_parameters((cadre_initializer_kind_t)kind, &table);
        cr_assert_eq(cadre_initializer_spec_parse(&spec, text), 0);
        cr_assert_eq(cadre_initializer_spec_take(&taken, &given), 0);
        cr_assert_arr_eq(taken.parameters, spec.parameters, sizeof(spec.parameters), "%s", text);
        for (size_t i = 0; i < count; i++) {
            number *= 0.5;
            spec.parameters[i] = strcmp(table[i].name, "centered") == 0 ? 1 : number;
        }
        given = cadre_initializer_spec_give(&spec);
        cr_assert_eq(cadre_initializer_spec_take(&taken, &given), 0);
        cr_assert_arr_eq(taken.parameters, spec.parameters, sizeof(spec.parameters), "%s", text);
        cr_assert_eq(cadre_initializer_named(text, &given), 0);
        cr_assert_eq((int)given.kind, kind);
    }
    cr_assert_eq(cadre_initializer_named("no such", NULL), CADRE_ENOTFOUND);
    cr_assert_eq(cadre_initializer_named(NULL, NULL), CADRE_ENOTFOUND);
}

Test(initializer_spec, knows_every_kind_by_its_name_and_number)
{
    static const char *const names[] = {
        "zeros",          "constant",      "uniform",    "normal",    "truncated_normal",
        "glorot_uniform", "glorot_normal", "he_uniform", "he_normal", "lecun_uniform",
        "lecun_normal",   "identity",
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cadre_initializer_spec_t spec = parsed(names[i]);
        cr_assert_eq((size_t)spec.kind, i + 1);
        cr_assert_str_eq(cadre_initializer_kind_text(spec.kind), names[i]);
        cr_assert_eq(cadre_initializer_spec_check(&spec, CADRE_F32, 2), 0);
        const cadre_parameter_t *table = NULL;
        size_t count = cadre_initializer_parameters(spec.kind, &table);
        cadre_initializer_spec_t decoded;
        cr_assert_eq(cadre_initializer_spec_decode(&decoded, i + 1, spec.parameters, count, 7), 0);
        cr_assert_eq(decoded.kind, spec.kind);
        cr_assert_eq(decoded.seed, 7);
        cr_assert_arr_eq(decoded.parameters, spec.parameters, sizeof(spec.parameters));
    }
    cadre_initializer_spec_t spec;
    cr_assert_eq(cadre_initializer_spec_parse(&spec, "orthogonal"), CADRE_ENOTFOUND);
    cr_assert_eq(cadre_initializer_spec_decode(&spec, 0, NULL, 0, 0), CADRE_EMALFORMED);
    cr_assert_eq(cadre_initializer_spec_decode(&spec, 13, NULL, 0, 0), CADRE_EMALFORMED);
    cr_assert_eq(cadre_initializer_spec_decode(&spec, 257, NULL, 0, 0), CADRE_EMALFORMED);
    cr_assert_eq(cadre_initializer_spec_decode(&spec, 2, NULL, 0, 0), CADRE_EMALFORMED);
}

static cadre_initializer_spec_t
taken(cadre_initializer_t given)
{
    cadre_initializer_spec_t spec;
    cr_assert_eq(cadre_initializer_spec_take(&spec, &given), 0);
    return spec;
}

Test(initializer_spec, refuses_values_out_of_range)
{
    cadre_initializer_t given = cadre_initializer(CADRE_INITIALIZER_NORMAL);
    given.stddev = 2;
    cadre_initializer_spec_t spec = taken(given);
    cr_assert_eq(cadre_initializer_spec_check(&spec, CADRE_F32, 2), 0);
    cr_assert_eq(spec.parameters[CADRE_NORMAL_STDDEV], 2);
    given.stddev = -1;
    spec = taken(given);
    cr_assert_eq(cadre_initializer_spec_check(&spec, CADRE_F32, 2), CADRE_EINVALID);
    given.stddev = 2;
    given.mean = NAN;
    spec = taken(given);
    cr_assert_eq(cadre_initializer_spec_check(&spec, CADRE_F32, 2), CADRE_EINVALID);

    given = cadre_initializer(CADRE_INITIALIZER_UNIFORM);
    given.min = 1;
    spec = taken(given);
    cr_assert_eq(cadre_initializer_spec_check(&spec, CADRE_F32, 2), CADRE_EINVALID);
    given.max = 1;
    spec = taken(given);
    cr_assert_eq(cadre_initializer_spec_check(&spec, CADRE_F32, 2), 0);
}

Test(initializer_spec, makes_only_types_that_can_hold_the_values)
{
    cadre_initializer_spec_t spec = parsed("glorot_uniform");
    cr_assert_eq(cadre_initializer_spec_check(&spec, CADRE_F64, 2), CADRE_EDTYPE);
    spec = parsed("zeros");
    cr_assert_eq(cadre_initializer_spec_check(&spec, CADRE_I64, 2), 0);
    cr_assert_eq(cadre_initializer_spec_check(&spec, CADRE_BF16, 2), CADRE_EDTYPE);

    static const struct {
        double value;
        cadre_dtype_t dtype;
        int status;
    } cases[] = {
        {2147483647.0, CADRE_I32, 0},
        {2147483648.0, CADRE_I32, CADRE_EINVALID},
        {-2147483648.0, CADRE_I32, 0},
        {-2147483649.0, CADRE_I32, CADRE_EINVALID},
        {0.5, CADRE_I32, CADRE_EINVALID},
        {9223372036854774784.0, CADRE_I64, 0},
        {9223372036854775808.0, CADRE_I64, CADRE_EINVALID},
        {-9223372036854775808.0, CADRE_I64, 0},
        {1e39, CADRE_F32, CADRE_EINVALID},
        {3e38, CADRE_F32, 0},
        {1e39, CADRE_F64, 0},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_initializer_t given = cadre_initializer(CADRE_INITIALIZER_CONSTANT);
        given.value = cases[i].value;
        spec = taken(given);
        cr_assert_eq(cadre_initializer_spec_check(&spec, cases[i].dtype, 2), cases[i].status,
                     "case %zu", i);
    }
}

Test(initializer_spec, makes_identities_of_matrices_only)
{
    cadre_initializer_spec_t spec = parsed("identity");
    cr_assert_eq(spec.parameters[CADRE_IDENTITY_VALUE], 1);
    cr_assert_eq(cadre_initializer_spec_check(&spec, CADRE_F64, 2), 0);
    cr_assert_eq(cadre_initializer_spec_check(&spec, CADRE_F32, 1), CADRE_ESHAPE);
    cr_assert_eq(cadre_initializer_spec_check(&spec, CADRE_F32, 3), CADRE_ESHAPE);
    spec.parameters[CADRE_IDENTITY_VALUE] = 0.5;
    cr_assert_eq(cadre_initializer_spec_check(&spec, CADRE_I32, 2), CADRE_EINVALID);
}

/* The figures are Keras' VarianceScaling, worked out by hand. */
Test(initializer_spec, scales_the_variance_by_a_fan)
{
    const int64_t shape[] = {3, 16, 48}; /* fan_in 48, fan_out 144 */
    cadre_initializer_t made;
    cr_assert_eq(
        cadre_variance_scaling(12, CADRE_FAN_IN, CADRE_INITIALIZER_NORMAL, shape, 3, &made), 0);
    cr_assert_eq(made.kind, CADRE_INITIALIZER_NORMAL);
    cr_assert_float_eq(made.stddev, 0.5, 1e-12);
    cr_assert_eq(made.mean, 0);
    cr_assert_eq(
        cadre_variance_scaling(3, CADRE_FAN_OUT, CADRE_INITIALIZER_UNIFORM, shape, 3, &made), 0);
    cr_assert_float_eq(made.max, 0.25, 1e-12);
    cr_assert_float_eq(made.min, -0.25, 1e-12);
    cr_assert_eq(cadre_variance_scaling(24, CADRE_FAN_AVERAGE, CADRE_INITIALIZER_TRUNCATED_NORMAL,
                                        shape, 3, &made),
                 0);
    cr_assert_float_eq(made.stddev, 0.5 / 0.87962566103423978, 1e-12);
    cr_assert_eq(cadre_variance_scaling(1, CADRE_FAN_IN, CADRE_INITIALIZER_NORMAL, NULL, 0, &made),
                 0);
    cr_assert_eq(made.stddev, 1);
}

Test(initializer_spec, refuses_variances_that_are_none)
{
    const int64_t shape[] = {4, -1};
    cadre_initializer_t made;
    cadre_initializer_kind_t normal = CADRE_INITIALIZER_NORMAL;
    cr_assert_eq(cadre_variance_scaling(0, CADRE_FAN_IN, normal, shape, 1, &made), CADRE_EINVALID);
    cr_assert_eq(cadre_variance_scaling(NAN, CADRE_FAN_IN, normal, shape, 1, &made),
                 CADRE_EINVALID);
    cr_assert_eq(cadre_variance_scaling(1, (cadre_fan_t)3, normal, shape, 1, &made),
                 CADRE_EINVALID);
    cr_assert_eq(cadre_variance_scaling(1, CADRE_FAN_IN, normal, shape, 2, &made), CADRE_EINVALID);
    cr_assert_eq(cadre_variance_scaling(1, CADRE_FAN_IN, CADRE_INITIALIZER_ZEROS, shape, 1, &made),
                 CADRE_EINVALID);
}
