#include "worker/slot/value_buffer.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/tensor/bf16.h"

TestSuite(value_buffer, .timeout = 240);

enum { COUNT = 12, CHUNKS = 3 };

static cadre_variable_entry_t
entry(cadre_dtype_t wire)
{
    return (cadre_variable_entry_t){.dtype = CADRE_F32,
                                    .wire = wire,
                                    .rank = 1,
                                    .shape = {COUNT},
                                    .rows = COUNT,
                                    .row_size_bytes = sizeof(float),
                                    .wire_row_size_bytes = cadre_dtype_size(wire)};
}

/* The numbers `first`, `first` + 1 and so on, in `chunks` pieces, as they travel. */
static cadre_value_t
new_value(const cadre_variable_entry_t *variable, float first, size_t chunks)
{
    cadre_value_t value = {.variable = variable, .chunk_count = chunks};
    value.chunks = cadre_calloc(chunks, sizeof(cadre_chunk_t *));
    const size_t each = COUNT / chunks;
    for (size_t k = 0; k < chunks; k++) {
        float numbers[COUNT];
        for (size_t i = 0; i < each; i++) {
            numbers[i] = first + (float)(k * each + i);
        }
        value.chunks[k] = cadre_chunk_new_copy(numbers, each * sizeof(float));
        if (variable->wire == CADRE_BF16) {
            cadre_chunk_unref(&value.chunks[k]);
            value.chunks[k] = cadre_chunk_new(2 * each);
            cadre_bf16_from_f32(numbers, cadre_chunk_data(value.chunks[k]), each);
        }
        value.size_bytes += cadre_chunk_size_bytes(value.chunks[k]);
    }
    return value;
}

static void
expect_numbers(const float *data, float first)
{
    for (int i = 0; i < COUNT; i++) {
        cr_assert_eq(data[i], first + (float)i, "%d: %g", i, (double)data[i]);
    }
}

static void
value_fini(cadre_value_t *value)
{
    for (size_t k = 0; k < value->chunk_count; k++) {
        cadre_chunk_unref(&value->chunks[k]);
    }
    free(value->chunks);
}

Test(value_buffer, a_value_of_one_chunk_is_read_where_it_lies)
{
    cadre_value_buffer_t buffer = {0};
    cadre_variable_entry_t variable = entry(CADRE_F32);
    cadre_value_t value = new_value(&variable, 1, 1);
    void *place = cadre_chunk_data(value.chunks[0]);
    cr_assert_eq(cadre_value_buffer_put(&buffer, &value), place);
    expect_numbers(buffer.data, 1);
    value_fini(&value);
    cadre_value_buffer_fini(&buffer);
}

Test(value_buffer, joins_chunks_and_converts_what_came_as_bf16)
{
    static const cadre_dtype_t wires[] = {CADRE_F32, CADRE_BF16};
    cadre_value_buffer_t buffer = {0};
    for (int round = 0; round < 8; round++) {
        cadre_variable_entry_t variable = entry(wires[round % 2]);
        cadre_value_t value = new_value(&variable, (float)round, round < 4 ? CHUNKS : 1);
        cr_assert_eq(cadre_value_buffer_put(&buffer, &value), buffer.data);
        expect_numbers(buffer.data, (float)round);
        value_fini(&value);
    }
    cadre_value_buffer_fini(&buffer);
}

Test(value_buffer, keeps_bf16_as_it_came_for_who_can_read_it)
{
    cadre_value_buffer_t buffer = {0};
    cadre_variable_entry_t variable = entry(CADRE_BF16);
    for (size_t chunks = 1; chunks <= CHUNKS; chunks += 2) {
        float wide[COUNT];
        cadre_value_t value = new_value(&variable, 3, chunks);
        cadre_bf16_to_f32(cadre_value_buffer_put_wire(&buffer, &value), wide, COUNT);
        expect_numbers(wide, 3);
        value_fini(&value);
    }
    cadre_value_buffer_fini(&buffer);
}

/* Puts a value of `content` that begins with `first`; what the buffer then begins with. */
static float
put_numbered(cadre_value_buffer_t *buffer, cadre_dtype_t wire, uint64_t content, float first)
{
    cadre_variable_entry_t variable = entry(wire);
    cadre_value_t value = new_value(&variable, first, CHUNKS);
    cadre_chunk_t *held = cadre_chunk_ref(value.chunks[0]);
    value.content = content;
    const float *data = cadre_value_buffer_put(buffer, &value);
    cr_expect(cadre_chunk_alone(held), "the value's references are dropped in any case");
    cadre_chunk_unref(&held);
    value_fini(&value);
    cadre_value_buffer_release(buffer);
    return data[0];
}

Test(value_buffer, what_is_there_already_is_not_copied_again)
{
    static const cadre_dtype_t wires[] = {CADRE_F32, CADRE_BF16};
    for (size_t i = 0; i < CADRE_COUNT_OF(wires); i++) {
        cadre_value_buffer_t buffer = {0};
        cr_expect_eq(put_numbered(&buffer, wires[i], 7, 1), 1);
        ((float *)buffer.memory.data)[0] = 99; /* would be gone if it were copied */
        cr_expect_eq(put_numbered(&buffer, wires[i], 7, 1), 99);
        cr_expect_eq(put_numbered(&buffer, wires[i], 8, 2), 2);
        cr_expect_eq(put_numbered(&buffer, wires[i], 7, 1), 1);
        cr_expect_eq(put_numbered(&buffer, wires[i], 0, 3), 3, "nothing is known of it");
        cr_expect_eq(put_numbered(&buffer, wires[i], 0, 4), 4);
        cadre_value_buffer_fini(&buffer);
        cr_expect_eq(put_numbered(&buffer, wires[i], 0, 5), 5);
        cadre_value_buffer_fini(&buffer);
    }
}
