#include "worker/slot/gradient_buffer.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(gradient_buffer, .timeout = 240);

enum { ROWS = 5, COLUMNS = 3, COUNT = ROWS * COLUMNS };

static char name[] = "layer/w";

static cadre_variable_entry_t
entry(cadre_dtype_t wire)
{
    size_t wire_size = cadre_dtype_size(wire);
    return (cadre_variable_entry_t){.name = name,
                                    .dtype = CADRE_F32,
                                    .wire = wire,
                                    .rank = 2,
                                    .shape = {ROWS, COLUMNS},
                                    .rows = ROWS,
                                    .row_size_bytes = COLUMNS * sizeof(float),
                                    .wire_row_size_bytes = COLUMNS * wire_size};
}

Test(gradient_buffer, what_travels_as_it_is_is_computed_into_the_chunk)
{
    cadre_gradient_buffer_t buffer = {0};
    cadre_variable_entry_t variable = entry(CADRE_F32);
    float *room = cadre_gradient_buffer_reserve(&buffer, &variable, ROWS, false);
    cr_assert_eq(room, cadre_chunk_data(buffer.chunk));
    cr_assert_eq(cadre_chunk_size_bytes(buffer.chunk), COUNT * sizeof(float));
    room[0] = NAN; /* the ps looks at f32 */
    cr_assert_eq(cadre_gradient_buffer_close(&buffer, &variable, ROWS), 0);
    cadre_gradient_buffer_fini(&buffer);
}

Test(gradient_buffer, converts_what_was_computed_in_f32)
{
    cadre_gradient_buffer_t buffer = {0};
    cadre_variable_entry_t variable = entry(CADRE_BF16);
    for (int round = 0; round < 3; round++) {
        float *room = cadre_gradient_buffer_reserve(&buffer, &variable, ROWS, false);
        for (int i = 0; i < COUNT; i++) {
            room[i] = (float)(i - round);
        }
        cr_assert_eq(cadre_gradient_buffer_close(&buffer, &variable, ROWS), 0);
        cr_assert_eq(cadre_chunk_size_bytes(buffer.chunk), 2 * COUNT);
        for (int i = 0; i < COUNT; i++) {
            cr_assert_eq(memcmp((char *)cadre_chunk_data(buffer.chunk) + 2 * (ptrdiff_t)i,
                                (char *)&room[i] + 2, 2),
                         0);
        }
    }
    cadre_gradient_buffer_fini(&buffer);
}

Test(gradient_buffer, leaves_a_chunk_alone_that_a_message_holds)
{
    cadre_gradient_buffer_t buffer = {0};
    cadre_variable_entry_t variable = entry(CADRE_BF16);
    cadre_gradient_buffer_reserve(&buffer, &variable, ROWS, false);
    cadre_chunk_t *first = buffer.chunk;
    cadre_gradient_buffer_reserve(&buffer, &variable, ROWS, false);
    cr_assert_eq(buffer.chunk, first, "used again");
    cadre_chunk_t *held = cadre_chunk_ref(buffer.chunk);
    cadre_gradient_buffer_reserve(&buffer, &variable, ROWS, false);
    cr_assert_neq(buffer.chunk, held);
    cadre_chunk_unref(&held);
    cadre_gradient_buffer_fini(&buffer);
}

Test(gradient_buffer, a_device_that_converts_writes_into_the_chunk)
{
    cadre_gradient_buffer_t buffer = {0};
    cadre_variable_entry_t variable = entry(CADRE_BF16);
    void *room = cadre_gradient_buffer_reserve(&buffer, &variable, ROWS, true);
    cr_assert_eq(room, cadre_chunk_data(buffer.chunk));
    cr_assert_eq(cadre_chunk_size_bytes(buffer.chunk), 2 * COUNT);
    cadre_gradient_buffer_fini(&buffer);
}

Test(gradient_buffer, refuses_what_is_not_finite_by_name_also_where_only_rounding_made_it_so)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN, 3.4028234e38f, -3.4028234e38f};
    cadre_gradient_buffer_t buffer = {0};
    cadre_variable_entry_t variable = entry(CADRE_BF16);
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        float numbers[COUNT] = {0};
        cadre_chunk_t *chunk = NULL;
        numbers[COUNT - 1 - i] = bad[i];
        cr_assert_eq(cadre_gradient_new_chunk(&variable, numbers, ROWS, &chunk), CADRE_ENOTFINITE);
        cr_assert_null(chunk);
        cr_assert(strstr(cadre_error_text(), "layer/w"), "%s", cadre_error_text());
        cr_assert(strstr(cadre_error_text(), "bf16"), "%s", cadre_error_text());
        memcpy(cadre_gradient_buffer_reserve(&buffer, &variable, ROWS, false), numbers,
               sizeof(numbers));
        cr_assert_eq(cadre_gradient_buffer_close(&buffer, &variable, ROWS), CADRE_ENOTFINITE);
        numbers[COUNT - 1 - i] = 3.3895e38f; /* below the largest bf16 */
        cr_assert_eq(cadre_gradient_new_chunk(&variable, numbers, ROWS, &chunk), 0);
        cadre_chunk_unref(&chunk);
    }
    cadre_gradient_buffer_fini(&buffer);
}

Test(gradient_buffer, copies_a_gradient_into_a_chunk)
{
    const float numbers[COUNT] = {1, 2, 3};
    cadre_variable_entry_t wide = entry(CADRE_F32);
    cadre_variable_entry_t in_bf16 = entry(CADRE_BF16);
    cadre_chunk_t *chunk = NULL;
    cr_assert_eq(cadre_gradient_new_chunk(&wide, numbers, ROWS, &chunk), 0);
    cr_assert_eq(cadre_chunk_size_bytes(chunk), sizeof(numbers));
    cr_assert_arr_eq(cadre_chunk_data(chunk), numbers, sizeof(numbers));
    cadre_chunk_unref(&chunk);
    cr_assert_eq(cadre_gradient_new_chunk(&in_bf16, numbers, ROWS, &chunk), 0);
    cr_assert_eq(cadre_chunk_size_bytes(chunk), sizeof(numbers) / 2);
    cadre_chunk_unref(&chunk);
}
