#include "common/system/float_mode.h"

#include <criterion/criterion.h>
#include <float.h>
#include <pthread.h>

TestSuite(float_mode, .timeout = 240);

#if defined(__SSE2__) || defined(__aarch64__)

static float
half_of(volatile const float *number)
{
    return *number * 0.5F;
}

static void *
halve(void *number)
{
    *(float *)number = half_of(number);
    return NULL;
}

Test(float_mode, numbers_too_small_become_zero)
{
    float smallest = FLT_MIN;
    cr_assert_gt(half_of(&smallest), 0);
    cadre_flush_subnormals();
    cr_assert_eq(half_of(&smallest), 0);
    cr_assert_gt(smallest, 0);
}

Test(float_mode, threads_started_later_have_it_too)
{
    float number = FLT_MIN;
    pthread_t thread;
    cadre_flush_subnormals();
    cr_assert_eq(pthread_create(&thread, NULL, halve, &number), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(number, 0);
}

Test(float_mode, integers_and_normal_numbers_stay_exact)
{
    cadre_flush_subnormals();
    volatile float sum = 0;
    for (int i = 0; i < 1000; i++) {
        sum += 1;
    }
    cr_assert_eq(sum, 1000);
    volatile float least = FLT_MIN * 2;
    cr_assert_eq(half_of(&least), FLT_MIN);
}

#endif
