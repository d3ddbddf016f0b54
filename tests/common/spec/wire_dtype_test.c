#include "common/spec/wire_dtype.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/status.h"

TestSuite(wire_dtype, .timeout = 240);

Test(wire_dtype, is_the_variables_own_or_bf16_for_f32)
{
    cadre_dtype_t wire = CADRE_U8;
    cr_assert_eq(cadre_wire_dtype_decode(0, CADRE_I64, &wire), 0);
    cr_assert_eq(wire, CADRE_I64);
    cr_assert_eq(cadre_wire_dtype_decode(CADRE_BF16, CADRE_F32, &wire), 0);
    cr_assert_eq(wire, CADRE_BF16);
    cr_assert_eq(cadre_wire_dtype_encode(CADRE_F32, CADRE_BF16), CADRE_BF16);
    cr_assert_eq(cadre_wire_dtype_encode(CADRE_F32, CADRE_F32), 0);
}

Test(wire_dtype, nothing_else)
{
    cadre_dtype_t wire = CADRE_U8;
    for (uint64_t number = 1; number < 300; number++) {
        if (number != CADRE_BF16) {
            cr_assert_eq(cadre_wire_dtype_decode(number, CADRE_F32, &wire), CADRE_EDTYPE, "%d",
                         (int)number);
        }
        cr_assert_eq(cadre_wire_dtype_decode(number, CADRE_I32, &wire), CADRE_EDTYPE);
    }
    cr_assert_eq(cadre_wire_dtype_decode(CADRE_BF16, CADRE_F64, &wire), CADRE_EDTYPE);
    cr_assert(strstr(cadre_error_text(), "f64 cannot be bf16 on the wire"), "%s",
              cadre_error_text());
    cr_assert_eq(wire, CADRE_U8);
}

Test(wire_dtype, of_a_job_file_is_at_the_place_of_its_word)
{
    cr_assert_str_eq(CADRE_WIRE_DTYPE_WORDS, "f32|bf16");
    cr_assert_eq(cadre_wire_dtype_at(0), CADRE_F32);
    cr_assert_eq(cadre_wire_dtype_at(1), CADRE_BF16);
}
