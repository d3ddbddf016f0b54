#include "common/tensor/dtype.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/base/memory.h"

TestSuite(dtype, .timeout = 240);

static float
float_of(uint32_t bits)
{
    float x = 0;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

Test(dtype, has_a_row_for_each_of_the_list)
{
#define CHECK(name, code, size_bytes, text)                                                        \
    cr_expect(cadre_dtype_valid(code));                                                            \
    cr_expect_eq(cadre_dtype_size(name), size_bytes);                                              \
    cr_expect_eq(cadre_dtype_of_text(text), name);                                                 \
    cr_expect(cadre_dtype_traits(name)->number, "%s", text);
    CADRE_DTYPE_LIST(CHECK)
#undef CHECK
}

Test(dtype, of_another_number_is_none)
{
    const uint64_t numbers[] = {0, 8, 255, UINT64_C(1) << 32 | 1, UINT64_MAX};
    for (size_t i = 0; i < CADRE_COUNT_OF(numbers); i++) {
        cr_expect_not(cadre_dtype_valid(numbers[i]), "%llu", (unsigned long long)numbers[i]);
    }
    const cadre_dtype_traits_t *row = cadre_dtype_traits((cadre_dtype_t)99);
    cr_expect(!row->is_of_variables && !row->is_of_programs && !row->from_f32);
    cr_expect_eq(cadre_dtype_size((cadre_dtype_t)99), 0);
    cr_expect_str_eq(cadre_dtype_text((cadre_dtype_t)99), "?");
    cr_expect_eq(cadre_dtype_of_text("f8"), 0);
}

Test(dtype, finds_a_number_that_is_not_finite_at_any_place)
{
    enum { NUMBERS = 67 };
    const double bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    char bytes[NUMBERS * 8 + 1];
    for (size_t shift = 0; shift < 2; shift++) {
        for (size_t i = 0; i < NUMBERS * CADRE_COUNT_OF(bad); i++) {
            float f32[NUMBERS];
            double f64[NUMBERS];
            for (size_t k = 0; k < NUMBERS; k++) {
                f32[k] = k % 2 ? -3.4028235e38F : 1e-45F;
                f64[k] = k % 2 ? -1.7976931348623157e308 : 4.9e-324;
            }
            memcpy(bytes + shift, f32, sizeof(f32));
            cr_assert(cadre_dtype_is_finite(CADRE_F32, bytes + shift, NUMBERS));
            memcpy(bytes + shift, f64, sizeof(f64));
            cr_assert(cadre_dtype_is_finite(CADRE_F64, bytes + shift, NUMBERS));
            f64[i % NUMBERS] = bad[i / NUMBERS];
            memcpy(bytes + shift, f64, sizeof(f64));
            cr_assert_not(cadre_dtype_is_finite(CADRE_F64, bytes + shift, NUMBERS));
            cr_assert(cadre_dtype_is_finite(CADRE_I64, bytes + shift, NUMBERS));
            f32[i % NUMBERS] = (float)bad[i / NUMBERS];
            memcpy(bytes + shift, f32, sizeof(f32));
            cr_assert_not(cadre_dtype_is_finite(CADRE_F32, bytes + shift, NUMBERS));
            cr_assert(cadre_dtype_is_finite(CADRE_I32, bytes + shift, NUMBERS));
        }
    }
    cr_assert(cadre_dtype_is_finite(CADRE_F32, bytes, 0));
}

Test(dtype, finds_the_first_number_that_only_f32_holds)
{
    static const uint32_t beyond[] = {0x7f7f8000, 0xff7f8000, 0x7f7fffff, 0xff7fffff};
    static const uint32_t not_beyond[] = {0x7f7f7fff, 0xff7f7fff, 0x7f800000,
                                          0xff800000, 0x7fc00000, 0};
    float numbers[5] = {0};
    for (size_t i = 0; i < CADRE_COUNT_OF(not_beyond); i++) {
        numbers[2] = float_of(not_beyond[i]);
        cr_assert_eq(cadre_dtype_find_beyond(CADRE_BF16, numbers, 5), 5, "%x",
                     (unsigned)not_beyond[i]);
    }
    for (size_t i = 0; i < CADRE_COUNT_OF(beyond); i++) {
        numbers[3] = float_of(beyond[i]);
        numbers[4] = float_of(beyond[0]);
        cr_assert_eq(cadre_dtype_find_beyond(CADRE_BF16, numbers, 5), 3, "%x", (unsigned)beyond[i]);
    }
    cr_assert_eq(cadre_dtype_find_beyond(CADRE_BF16, numbers, 0), 0);
}
