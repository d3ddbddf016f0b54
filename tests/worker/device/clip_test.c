/* Clipped gradients against their formulas, in double. */
#include <math.h>

#include "common/graph/program_data.h"
#include "tests/worker/device/run_program.h"

TestSuite(clip, .timeout = 240);

static double
norm_of(const cadre_tensor_t *x)
{
    double sum = 0;
    for (int64_t i = 0; i < cadre_tensor_count(x); i++) {
        sum += (double)f32_at(x, i) * (double)f32_at(x, i);
    }
    return sqrt(sum);
}

/* Expects each element of `got` to be that of `x` times `factor`. */
static void
expect_scaled(const cadre_tensor_t *got, const cadre_tensor_t *x, double factor)
{
    for (int64_t i = 0; i < cadre_tensor_count(x); i++) {
        const double wanted = (double)f32_at(x, i) * factor;
        cr_assert(fabs((double)f32_at(got, i) - wanted) <= 1e-5 * fmax(fabs(wanted), 1e-3),
                  "%d: %.9g, not %.9g", (int)i, (double)f32_at(got, i), wanted);
    }
}

/* numpy.clip(x, -0.5, 0.25) */
Test(clip, keeps_each_element_within_bounds)
{
    cadre_tensor_t x = random_tensor(CADRE_F32, (int64_t[]){37, 5}, 2, 1);
    cadre_program_t *p = cadre_program_new("clip");
    cadre_tensor_t y =
        run_once(p, cadre_op_clip_by_value(p, arg_like(p, "x", &x), -0.5F, 0.25F), &x);
    for (int64_t i = 0; i < cadre_tensor_count(&x); i++) {
        const float wanted = fminf(fmaxf(f32_at(&x, i), -0.5F), 0.25F);
        cr_assert_eq(f32_at(&y, i), wanted, "%d", (int)i);
    }
    cadre_tensor_fini(&y);
    cadre_tensor_fini(&x);
}

/* x * norm / max(norm, sqrt(sum(x * x))), below the norm, at it and above it, and of zeros. */
Test(clip, shortens_a_gradient_to_a_norm_and_leaves_a_shorter_one)
{
    cadre_tensor_t x = random_tensor(CADRE_F32, (int64_t[]){9, 4, 3}, 3, 2);
    const double length = norm_of(&x);
    const double norms[] = {0.01, 0.5 * length, 2 * length};
    for (size_t i = 0; i < 3; i++) {
        cadre_program_t *p = cadre_program_new("clip");
        cadre_tensor_t y =
            run_once(p, cadre_op_clip_by_norm(p, arg_like(p, "x", &x), (float)norms[i]), &x);
        expect_scaled(&y, &x, fmin(1, norms[i] / length));
        cadre_tensor_fini(&y);
    }
    cadre_tensor_fini(&x);

    float zeros[3] = {0};
    cadre_tensor_t zero = {.dtype = CADRE_F32, .rank = 1, .shape = {3}, .data = zeros};
    cadre_program_t *p = cadre_program_new("clip");
    cadre_tensor_t y = run_once(p, cadre_op_clip_by_norm(p, arg_like(p, "x", &zero), 1), &zero);
    expect_scaled(&y, &zero, 1);
    cadre_tensor_fini(&y);
}

/* The same with the norm of all of them together, which it gives as well. */
Test(clip, shortens_several_gradients_by_the_norm_of_all)
{
    cadre_tensor_t x[2] = {random_tensor(CADRE_F32, (int64_t[]){6, 4}, 2, 1),
                           random_tensor(CADRE_F32, (int64_t[]){11}, 1, 2)};
    const double length = hypot(norm_of(&x[0]), norm_of(&x[1]));
    const double norms[] = {0.3 * length, 3 * length};
    for (size_t i = 0; i < 2; i++) {
        for (int which = 0; which < 3; which++) {
            cadre_program_t *p = cadre_program_new("clip");
            cadre_node_t nodes[2] = {arg_like(p, "x", &x[0]), arg_like(p, "y", &x[1])};
            cadre_node_t all = cadre_op_clip_by_global_norm(p, nodes, 2, (float)norms[i]);
            cadre_tensor_t y = run_once(p, which < 2 ? nodes[which] : all, x);
            if (which < 2) {
                expect_scaled(&y, &x[which], fmin(1, norms[i] / length));
            } else {
                cr_assert_float_eq(f32_at(&y, 0), length, 1e-5 * length);
            }
            cadre_tensor_fini(&y);
        }
    }
    cadre_tensor_fini(&x[0]);
    cadre_tensor_fini(&x[1]);
}

/* The text of the first mistake in building `p`, which it ends. */
static void
expect_mistake(cadre_program_t *p, const char *text)
{
    cr_assert_eq(cadre_program_finish(p), CADRE_EINVALID);
    cr_assert(strstr(cadre_error_text(), text), "%s is not in %s", text, cadre_error_text());
    cadre_program_destroy(&p);
}

Test(clip, refuses_bounds_that_are_none)
{
    const cadre_dim_t dims[] = {cadre_dim(3)};
    cadre_program_t *p = cadre_program_new("clip");
    cadre_op_clip_by_value(p, cadre_op_arg(p, "x", CADRE_F32, dims, 1), 1, 0.5F);
    expect_mistake(p, "clip by value: 1 is not up to 0.5");
    p = cadre_program_new("clip");
    cadre_op_clip_by_norm(p, cadre_op_arg(p, "x", CADRE_F32, dims, 1), 0);
    expect_mistake(p, "clip by norm: the norm must be above 0, not 0");
    p = cadre_program_new("clip");
    cadre_op_clip_by_global_norm(p, NULL, 0, 1);
    expect_mistake(p, "clip by global norm: of no nodes");
}
