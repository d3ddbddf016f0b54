#include "common/wire/record_list.h"

#include <criterion/criterion.h>

TestSuite(record_list, .timeout = 240);

Test(record_list, numbers_of_a_list_are_the_fields_in_their_order)
{
    const uint64_t numbers[] = {7, 1, 30, 8, 2, 0};
    const cadre_u64s_t list = {numbers, 6};
    cadre_part_list_t parts = cadre_part_list_view(&list);
    cr_assert_eq(parts.count, 2);
    cr_expect_eq(parts.items[0].variable, 7);
    cr_expect_eq(parts.items[0].partition, 1);
    cr_expect_eq(parts.items[0].number, 30);
    cr_expect_eq(parts.items[1].variable, 8);
    cr_expect_eq(parts.items[1].partition, 2);
    cr_expect_eq(parts.items[1].number, 0);
}

Test(record_list, what_is_no_whole_record_is_not_in_a_view)
{
    const uint64_t numbers[] = {7, 1, 30, 8, 2};
    for (size_t count = 0; count <= 5; count++) {
        const cadre_u64s_t list = {numbers, count};
        cr_expect_eq(cadre_wait_list_view(&list).count, count / 3);
        cr_expect_eq(cadre_acknowledged_list_view(&list).count, count / 2);
    }
}

Test(record_list, a_list_has_every_number_of_its_records)
{
    const cadre_probe_answer_t answers[] = {{5, CADRE_PROBED_QUEUED}, {6, CADRE_PROBED_APPLIED}};
    cadre_u64s_t list = cadre_probe_answer_list(answers, 2);
    cr_assert_eq(list.count, 4);
    cr_expect_eq(list.items[0], 5);
    cr_expect_eq(list.items[1], CADRE_PROBED_QUEUED);
    cr_expect_eq(list.items[3], CADRE_PROBED_APPLIED);
    cr_expect_eq(cadre_probe_answer_list(answers, 0).count, 0);
}
