#include "worker/slot/load.h"

#include <criterion/criterion.h>

TestSuite(load, .timeout = 240);

Test(load, finds_the_columns_of_each_batch_by_name)
{
    uint64_t items[3 * 4] = {0};
    cadre_closure_message_t closure = {.id = 5, .batches = {items, 12}};
    cadre_load_t *load = cadre_load_new();
    cadre_load_begin(load, &closure);
    cr_expect_eq(load->count, 3);
    cr_expect_eq(cadre_load_tensor(load, "x"), &load->batches[0].x);
    cr_expect_eq(cadre_load_tensor(load, "y"), &load->batches[0].y);
    cr_expect_eq(cadre_load_tensor(load, "x1"), &load->batches[1].x);
    cr_expect_eq(cadre_load_tensor(load, "y2"), &load->batches[2].y);
    const char *const nobody[] = {"", "x0", "x3", "z", "xx", "x01", "X"};
    for (size_t i = 0; i < sizeof(nobody) / sizeof(nobody[0]); i++) {
        cr_expect_null(cadre_load_tensor(load, nobody[i]), "%s", nobody[i]);
    }
    cadre_load_destroy(&load);
}
