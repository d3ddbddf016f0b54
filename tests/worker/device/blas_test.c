/* Which kernels OpenBLAS is loaded with. Each test is a process of its own, which loads it. */
#include "worker/device/blas.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "common/base/status.h"

TestSuite(blas, .timeout = 240);

static void
load(void)
{
    cr_assert_eq(cadre_blas_load(), 0, "%s", cadre_error_text());
}

/* [1 2; 3 4] times its transpose. */
static void
expect_product(void)
{
    const cadre_blas_product_t product = {.m = 2, .n = 2, .inner = 2, .transpose_right = true};
    const cadre_real_t x[4] = {1, 2, 3, 4};
    const cadre_real_t wanted[4] = {5, 11, 11, 25};
    cadre_real_t out[4] = {0};
    cadre_blas_multiply(&product, x, x, out);
    for (int i = 0; i < 4; i++) {
        cr_expect_float_eq(out[i], wanted[i], 1e-6, "%d: %g", i, (double)out[i]);
    }
}

/* OpenBLAS takes a processor that it does not know for one of 2004. */
Test(blas, takes_no_processor_with_avx2_for_one_without)
{
    unsetenv("OPENBLAS_CORETYPE");
    load();
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        cr_expect_str_neq(cadre_blas_kernels(), "Prescott");
    }
#endif
    expect_product();
}

Test(blas, leaves_the_choice_to_the_environment)
{
    cr_assert_eq(setenv("OPENBLAS_CORETYPE", "Prescott", 1), 0);
    load();
#ifdef __x86_64__
    cr_expect_str_eq(cadre_blas_kernels(), "Prescott");
#endif
    expect_product();
}

Test(blas, is_loaded_once)
{
    load();
    const char *kernels = cadre_blas_kernels();
    load();
    cr_expect_eq(cadre_blas_kernels(), kernels);
    cadre_blas_set_threads(1);
    cr_expect_eq(cadre_blas_set_threads(2), 1);
    cr_expect_eq(cadre_blas_set_threads(1), 2);
}
