#include "common/spec/device_list.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(device_list, .timeout = 240);

static void
expect_items(const char *list, const char *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cadre_auto(cadre_free) char *item = cadre_device_list_item(list, i);
        cr_expect_str_eq(item, items[i], "%zu of %s is %s", i, list, item);
    }
}

Test(device_list, gives_its_names_in_turn)
{
    cr_expect_eq(cadre_device_list_count("cuda:0,cpu,cuda:2"), 3);
    expect_items("cuda:0,cpu,cuda:2",
                 (const char *const[]){"cuda:0", "cpu", "cuda:2", "cuda:0", "cpu"}, 5);
    cr_expect_eq(cadre_device_list_count("cpu"), 1);
    expect_items("cpu", (const char *const[]){"cpu", "cpu"}, 2);
}

Test(device_list, is_of_devices_and_auto_alone)
{
    static const char *const good[] = {"auto", "auto:3", "cpu", "cuda", "cuda:0,cuda:0", "cpu,cpu"};
    static const struct {
        const char *list;
        const char *error;
    } bad[] = {
        {"", "no device \"\""},
        {"cpu,", "no device \"\""},
        {"cpu,,cpu", "no device \"\""},
        {"cuda:0, cuda:1", "no device \" cuda:1\""},
        {"cuda:0,gpu", "no device \"gpu\""},
        {"auto,cpu", "\"auto\" stands alone"},
        {"cpu,auto:1", "\"auto\" stands alone"},
        {"cpu,tpu", "there is no device for TPUs"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(good); i++) {
        cr_expect_eq(cadre_device_list_check(good[i]), 0, "%s", good[i]);
    }
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cr_expect_eq(cadre_device_list_check(bad[i].list), CADRE_EINVALID, "%s", bad[i].list);
        cr_expect_not_null(strstr(cadre_error_text(), bad[i].error), "%s", cadre_error_text());
    }
}
