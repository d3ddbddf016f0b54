#include <criterion/criterion.h>

#include "common/base/memory.h"
#include "common/graph/program.h"

TestSuite(binding, .timeout = 240);

/* x [B,4], pairs [2*B,N]. */
static cadre_program_t *
program(void)
{
    cadre_program_t *p = cadre_program_new("model");
    cadre_dim_t x[2] = {cadre_dim_symbol("B"), cadre_dim(4)};
    cadre_dim_t pairs[2] = {cadre_dim_symbol_times("B", 2), cadre_dim_symbol("N")};
    cadre_op_result(p, "x", cadre_op_arg(p, "x", CADRE_F32, x, 2));
    cadre_op_arg(p, "pairs", CADRE_I32, pairs, 2);
    cr_assert_eq(cadre_program_finish(p), 0);
    return p;
}

typedef struct {
    int64_t x[2];
    int64_t pairs[2];
    int status;
    const char *text; /* of the failure */
} case_t;

static const case_t cases[] = {
    {{3, 4}, {6, 5}, 0, NULL},
    {{1, 4}, {2, 1}, 0, NULL},
    {{3, 5}, {6, 5}, CADRE_ESHAPE, "model: argument x is [3,5], not [B,4]"},
    {{3, 4},
     {8, 5},
     CADRE_ESHAPE,
     "model: argument pairs is [8,5], not [2*B,N] with B = 3 as before"},
    {{3, 4},
     {7, 5},
     CADRE_ESHAPE,
     "model: argument pairs is [7,5], not [2*B,N] with B = 3 as before"},
    {{0, 4}, {0, 5}, CADRE_ESHAPE, "model: argument x is [0,4], not [B,4]"},
    {{3, 4}, {6, 0}, CADRE_ESHAPE, "model: argument pairs is [6,0], not [2*B,N]"},
};

Test(binding, finds_what_symbols_stand_for_or_says_what_does_not_fit)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = program();
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        const case_t *one = &cases[i];
        cadre_tensor_t arguments[2] = {
            {.dtype = CADRE_F32, .rank = 2, .shape = {one->x[0], one->x[1]}},
            {.dtype = CADRE_I32, .rank = 2, .shape = {one->pairs[0], one->pairs[1]}}};
        int64_t values[CADRE_SYMBOLS_MAX] = {0};
        int status = cadre_program_bind(p, arguments, 2, CADRE_F32, values);
        cr_assert_eq(status, one->status);
        if (status < 0) {
            cr_assert_str_eq(cadre_error_text(), one->text);
            cr_assert_eq(values[0], 0);
        } else {
            cr_assert_eq(values[0], one->x[0]);
            cr_assert_eq(values[1], one->pairs[1]);
        }
    }
}

Test(binding, checks_count_type_and_rank)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = program();
    int64_t values[CADRE_SYMBOLS_MAX] = {0};
    cadre_tensor_t arguments[2] = {{.dtype = CADRE_F32, .rank = 2, .shape = {3, 4}},
                                   {.dtype = CADRE_F32, .rank = 2, .shape = {6, 5}}};
    cr_assert_eq(cadre_program_bind(p, arguments, 1, CADRE_F32, values), CADRE_EINVALID);
    cr_assert_str_eq(cadre_error_text(), "model: takes 2 arguments, not 1");
    cr_assert_eq(cadre_program_bind(p, arguments, 2, CADRE_F32, values), CADRE_EDTYPE);
    cr_assert_str_eq(cadre_error_text(), "model: argument pairs is f32, not i32");
    arguments[1] = (cadre_tensor_t){.dtype = CADRE_I32, .rank = 3, .shape = {6, 5, 1}};
    cr_assert_eq(cadre_program_bind(p, arguments, 2, CADRE_F32, values), CADRE_ESHAPE);
    cr_assert_eq(cadre_program_bind(p, arguments, 2, CADRE_F64, values), CADRE_EDTYPE);
}
