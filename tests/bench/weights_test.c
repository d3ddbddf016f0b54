#include "bench/weights.h"

#include <criterion/criterion.h>

#include "bench/mlp.h"
#include "common/base/memory.h"

enum { VARIABLE = 3 }; /* the bias of the last layer: ten zeros at first */

/* Makes the weights of the digits' network under sgd at a rate of 1. */
static cadre_bench_weights_t *
make(int loops)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *program = NULL;
    cr_assert_eq(cadre_bench_mlp_program(&cadre_bench_digits, &program), 0);
    cadre_optimizer_spec_t spec;
    cr_assert_eq(cadre_optimizer_spec_parse(&spec, "sgd"), 0);
    cr_assert_eq(cadre_optimizer_spec_set(&spec, "learning_rate", 1), 0);
    cadre_ps_optimizer_t optimizer;
    cr_assert_eq(cadre_optimizer_init(&optimizer, &spec, CADRE_F32), 0);
    return cadre_bench_weights_new(program, &optimizer, loops);
}

/* Applies gradients of -1: each number grows by 1. */
static void
apply(cadre_bench_weights_t *weights, int set)
{
    float *gradients[CADRE_BENCH_VARIABLES_MAX] = {NULL};
    for (int i = 0; i <= VARIABLE; i++) {
        size_t count = cadre_bench_weights_count(weights, i);
        gradients[i] = cadre_calloc(count, sizeof(float));
        for (size_t k = 0; k < count; k++) {
            gradients[i][k] = -1;
        }
    }
    cadre_bench_weights_apply(weights, set, gradients);
    for (int i = 0; i <= VARIABLE; i++) {
        cadre_free(&gradients[i]);
    }
}

Test(bench_weights, loses_no_gradient_and_changes_nothing_that_is_read)
{
    const void *first[CADRE_BENCH_VARIABLES_MAX] = {NULL};
    const void *second[CADRE_BENCH_VARIABLES_MAX] = {NULL};
    cadre_bench_weights_t *weights = make(2);
    int first_set = cadre_bench_weights_take(weights, first);
    for (int i = 0; i < 4; i++) {
        int second_set = cadre_bench_weights_take(weights, second);
        cr_assert_eq(*(const float *)second[VARIABLE], (float)i);
        apply(weights, second_set);
        cr_assert_eq(*(const float *)first[VARIABLE], 0);
        cr_assert_eq(*(const float *)second[VARIABLE], (float)i);
    }

    apply(weights, first_set);
    cadre_bench_weights_take(weights, first);
    cr_assert_eq(*(const float *)first[VARIABLE], 5);

    cadre_bench_weights_t *other = weights; /* the second loop's */
    cadre_bench_weights_drop(&weights);
    cadre_bench_weights_drop(&other);
}

Test(bench_weights, of_one_loop_are_changed_in_place)
{
    const void *values[CADRE_BENCH_VARIABLES_MAX] = {NULL};
    cadre_bench_weights_t *weights = make(1);
    apply(weights, cadre_bench_weights_take(weights, values));
    cr_assert_eq(*(const float *)values[VARIABLE], 1);
    cadre_bench_weights_drop(&weights);
}
