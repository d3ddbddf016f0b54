#include "common/tensor/tensor.h"

#include <criterion/criterion.h>

Test(tensor, frees_only_what_it_owns)
{
    float numbers[] = {1, 2};
    cadre_tensor_t view = {.dtype = CADRE_F32, .rank = 1, .shape = {2}, .data = numbers};
    cadre_tensor_fini(&view); /* were it freed, the allocator would abort */
    cr_expect_null(view.data);
    cr_expect_eq(numbers[1], 2);

    cadre_tensor_t owner = {0};
    cr_assert_eq(cadre_tensor_init(&owner, CADRE_F64, (const int64_t[]){3}, 1), 0);
    cr_expect_eq(owner.owned, owner.data);
    cadre_tensor_fini(&owner);
    cr_expect_null(owner.owned);
    cadre_tensor_fini(&owner);
}

Test(tensor, may_be_none_at_its_end)
{
    cadre_tensor_fini(NULL);
}

Test(tensor, is_a_view_of_what_a_program_has)
{
    const int32_t numbers[] = {1, 2, 3, 4};
    const int64_t shape[] = {2, 2};
    cadre_tensor_t view = cadre_tensor_view(CADRE_I32, numbers, shape, 2);
    cr_expect_eq(cadre_tensor_count(&view), 4);
    cr_expect_eq(view.data, numbers);
    cr_expect_null(view.owned);
    view = cadre_tensor_view(CADRE_I32, numbers, shape, CADRE_RANK_MAX + 1);
    cr_expect_null(view.data);
    view = cadre_tensor_view(CADRE_I32, numbers, NULL, 1);
    cr_expect_null(view.data);
}

Test(tensor, with_one_element_is_a_number)
{
    const float f32 = -0.5F;
    const double f64 = 1e100;
    const int32_t i32 = -7;
    const int64_t i64 = 1LL << 40;
    const uint64_t u64 = 9;
    const uint8_t u8 = 255;
    const uint16_t bf16 = 0x3fc0;
    const struct {
        cadre_dtype_t dtype;
        const void *data;
        double number;
    } cases[] = {{CADRE_F32, &f32, -0.5},      {CADRE_F64, &f64, 1e100}, {CADRE_I32, &i32, -7},
                 {CADRE_I64, &i64, 1LL << 40}, {CADRE_U64, &u64, 9},     {CADRE_U8, &u8, 255},
                 {CADRE_BF16, &bf16, 1.5}};
    double number = 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cadre_tensor_t view = cadre_tensor_view(cases[i].dtype, cases[i].data, NULL, 0);
        cr_assert_eq(cadre_tensor_number(&view, &number), 0);
        cr_expect_eq(number, cases[i].number, "%s", cadre_dtype_text(cases[i].dtype));
        view = cadre_tensor_view(cases[i].dtype, cases[i].data, (const int64_t[]){1, 1}, 2);
        cr_assert_eq(cadre_tensor_number(&view, NULL), 0);
    }
    const float two[] = {1, 2};
    cadre_tensor_t view = cadre_tensor_view(CADRE_F32, two, (const int64_t[]){2}, 1);
    cr_expect_eq(cadre_tensor_number(&view, &number), CADRE_ESHAPE);
    view = (cadre_tensor_t){0};
    cr_expect_eq(cadre_tensor_number(&view, &number), CADRE_EINVALID);
    cr_expect_eq(cadre_tensor_number(NULL, &number), CADRE_EINVALID);
}
