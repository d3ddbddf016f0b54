/*
 * The functions of element_math.h against the library's in double, over the whole range of floats.
 */
#include "worker/device/element_math.h"

#include <criterion/criterion.h>

TestSuite(element_math, .timeout = 240);

enum { STRIDE = 997 }; /* of the bits that are tried: four million floats */

static const double ulps_max = 2;

/* How many units in the last place `got` is from `wanted`. */
static double
distance(float got, double wanted)
{
    float nearest = (float)wanted;
    if (isnan(wanted) || isnan(got)) {
        return isnan(wanted) && isnan(got) ? 0 : INFINITY;
    }
    if (got == nearest) {
        return 0;
    }
    if (isinf(got) || isinf(nearest)) {
        return INFINITY;
    }
    double unit = (double)nextafterf(fabsf(nearest), INFINITY) - (double)fabsf(nearest);
    return fabs((double)got - wanted) / unit;
}

static void
compare(const char *name, float (*function)(float), double (*reference)(double), float low,
        float high)
{
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += STRIDE) {
        float x = cadre_math_from_bits((uint32_t)bits);
        if (isnan(x) || (x >= low && x <= high)) {
            float got = function(x);
            double wanted = reference((double)x);
            cr_assert(distance(got, wanted) <= ulps_max, "%s of %.9g is %.9g, not %.9g", name,
                      (double)x, (double)got, wanted);
        }
    }
}

Test(element_math, is_within_two_units_of_the_last_place)
{
    compare("exp", cadre_math_exp, exp, -INFINITY, INFINITY);
    compare("log", cadre_math_log, log, -INFINITY, INFINITY);
    compare("log1p", cadre_math_log1p_unit, log1p, 0, 1);
    compare("tanh", cadre_math_tanh, tanh, -INFINITY, INFINITY);
    compare("erf", cadre_math_erf, erf, -INFINITY, INFINITY);
}

Test(element_math, knows_the_ends_of_the_range)
{
    cr_assert_eq(cadre_math_exp(0), 1);
    cr_assert_eq(cadre_math_exp(INFINITY), INFINITY);
    cr_assert_eq(cadre_math_exp(-INFINITY), 0);
    cr_assert_eq(cadre_math_exp(88.8F), INFINITY);
    cr_assert(isfinite(cadre_math_exp(88.7F)));
    cr_assert_gt(cadre_math_exp(-103), 0); /* not normal any more */
    cr_assert_eq(cadre_math_exp(-104), 0);
    cr_assert_eq(cadre_math_log(1), 0);
    cr_assert_eq(cadre_math_log(0), -INFINITY);
    cr_assert_eq(cadre_math_log(-0.0F), -INFINITY);
    cr_assert_eq(cadre_math_log(INFINITY), INFINITY);
    cr_assert(isnan(cadre_math_log(-1)));
    cr_assert(isnan(cadre_math_log(-INFINITY)));
    cr_assert_eq(cadre_math_log1p_unit(0), 0);
    const float ends[] = {-INFINITY, -0.0F, 0, INFINITY};
    const float values[] = {-1, 0, 0, 1};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(cadre_math_tanh(ends[i]), values[i]);
        cr_assert_eq(cadre_math_erf(ends[i]), values[i]);
    }
}
