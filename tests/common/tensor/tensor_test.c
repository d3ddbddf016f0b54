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
