#include "common/wire/row_list.h"

#include <criterion/criterion.h>

#include "common/base/status.h"

TestSuite(row_list, .timeout = 240);

static const uint64_t RECORDS[] = {7, 1, 30, 2, 7, 2, CADRE_ROWS_LISTED, 3,
                                   8, 0, 5,  1, 8, 1, CADRE_ROWS_LISTED, 1};

Test(row_list, gives_stretches_and_ids_in_the_order_of_the_records)
{
    const uint64_t ids[] = {64, 61, 64, 9};
    const uint64_t wanted[] = {30, 31, 64, 61, 64, 5, 9};
    cadre_message_t message = {.type = CADRE_MESSAGE_PULL};
    cadre_message_add_chunk(&message, cadre_chunk_new_copy(ids, sizeof(ids)));
    cadre_row_list_t list;
    cadre_part_rows_t rows;
    cr_assert_eq(cadre_row_list_init(&list, &(cadre_u64s_t){RECORDS, 16}, &message), 0, "%s",
                 cadre_error_text());
    cr_expect_eq(list.id_chunks, 1);
    size_t at = 0;
    for (size_t i = 0; cadre_row_list_next(&list, &rows); i++) {
        cr_expect_eq(rows.variable, RECORDS[4 * i]);
        cr_expect_eq(rows.partition, RECORDS[4 * i + 1]);
        for (size_t k = 0; k < rows.count; k++) {
            cr_expect_eq(cadre_part_rows_at(&rows, k), wanted[at++]);
        }
    }
    cr_expect_eq(at, 7);
    cadre_message_fini(&message);
}

static int
status_of(const uint64_t *numbers, size_t count, size_t id_count)
{
    static const uint64_t ids[8] = {0};
    cadre_message_t message = {.type = CADRE_MESSAGE_PULL};
    cadre_row_list_t list;
    if (id_count > 0) {
        cadre_message_add_chunk(&message, cadre_chunk_new_copy(ids, id_count * sizeof(*ids)));
    }
    int status = cadre_row_list_init(&list, &(cadre_u64s_t){numbers, count}, &message);
    cadre_message_fini(&message);
    return status;
}

Test(row_list, refuses_what_does_not_fit_together)
{
    cr_expect_eq(status_of(RECORDS, 16, 4), 0);
    cr_expect_eq(status_of(RECORDS, 16, 3), CADRE_EMALFORMED, "an id is missing");
    cr_expect_eq(status_of(RECORDS, 16, 5), CADRE_EMALFORMED, "an id is left over");
    cr_expect_eq(status_of(RECORDS, 16, 0), CADRE_EMALFORMED);
    cr_expect_eq(status_of(RECORDS, 15, 4), CADRE_EMALFORMED, "half a record");
    cr_expect_eq(status_of(RECORDS, 0, 0), CADRE_EMALFORMED);
    cr_expect_eq(status_of(RECORDS, 4, 0), 0, "a stretch has no ids");
    const uint64_t none[] = {7, 1, 30, 0};
    cr_expect_eq(status_of(none, 4, 0), CADRE_EMALFORMED);
}

Test(row_list, takes_as_many_rows_as_the_limit_says)
{
    uint64_t records[] = {7, 1, 0, CADRE_ROWS_MAX - 1, 7, 2, 70000, 1};
    cr_expect_eq(status_of(records, 8, 0), 0);
    records[7] = 2;
    cr_expect_eq(status_of(records, 8, 0), CADRE_ETOOLARGE);
    records[7] = UINT64_MAX;
    cr_expect_eq(status_of(records, 8, 0), CADRE_ETOOLARGE, "the sum does not wrap around");
}

/* Reads which rows are held of a message with two chunks: ids, and these ages. */
static int
read_held(cadre_row_list_t *list, cadre_message_t *message, const uint64_t *held, size_t count,
          size_t size_bytes)
{
    static const uint64_t ids[4] = {64, 61, 64, 9};
    static const uint16_t ages[5] = {1, 0, 3, 7, 1};
    *message = (cadre_message_t){.type = CADRE_MESSAGE_PULL};
    cadre_message_add_chunk(message, cadre_chunk_new_copy(ids, sizeof(ids)));
    if (size_bytes > 0) {
        cadre_message_add_chunk(message, cadre_chunk_new_copy(ages, size_bytes));
    }
    cr_assert_eq(cadre_row_list_init(list, &(cadre_u64s_t){RECORDS, 16}, message), 0);
    return cadre_row_list_read_held(list, &(cadre_u64s_t){held, count}, message);
}

Test(row_list, gives_the_versions_of_which_rows_are_held)
{
    const uint64_t held[] = {0, 10, 0, 5};
    const uint64_t wanted[] = {0, 0, 11, 0, 9, 0, 0}; /* 5 - 6 is no version */
    cadre_message_t message;
    cadre_row_list_t list;
    cadre_part_rows_t rows;
    cr_assert_eq(read_held(&list, &message, held, 4, 8), 0, "%s", cadre_error_text());
    size_t at = 0;
    while (cadre_row_list_next(&list, &rows)) {
        for (size_t k = 0; k < rows.count; k++) {
            cr_expect_eq(cadre_part_rows_held(&rows, k), wanted[at], "row %zu", at);
            at++;
        }
    }
    cr_expect_eq(at, 7);
    cadre_message_fini(&message);
}

Test(row_list, refuses_held_rows_that_do_not_fit)
{
    static const struct {
        size_t held;
        size_t size_bytes;
        int status;
    } cases[] = {{4, 8, 0},
                 {0, 0, 0},
                 {3, 8, CADRE_EMALFORMED},
                 {4, 0, CADRE_EMALFORMED},
                 {4, 6, CADRE_EMALFORMED},
                 {4, 10, CADRE_EMALFORMED}};
    const uint64_t held[4] = {0};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cadre_message_t message;
        cadre_row_list_t list;
        cr_expect_eq(read_held(&list, &message, held, cases[i].held, cases[i].size_bytes),
                     cases[i].status, "case %zu", i);
        cadre_message_fini(&message);
    }
}
