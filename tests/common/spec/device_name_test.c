#include "common/spec/device_name.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(device_name, .timeout = 240);

Test(device_name, is_auto_cpu_or_the_number_of_a_gpu)
{
    static const struct {
        const char *name;
        int device;
    } cases[] = {{"auto", CADRE_DEVICE_AUTO},
                 {"auto:0", CADRE_DEVICE_AUTO},
                 {"auto:3", CADRE_DEVICE_AUTO - 3},
                 {"cpu", CADRE_DEVICE_CPU},
                 {"cuda", 0},
                 {"cuda:0", 0},
                 {"cuda:7", 7},
                 {"cuda:1023", 1023}};
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        int device = -9;
        cr_expect_eq(cadre_device_name_parse(cases[i].name, &device), 0, "%s", cases[i].name);
        cr_expect_eq(device, cases[i].device, "%s", cases[i].name);
    }
}

Test(device_name, of_another_form_is_refused_with_the_choices)
{
    static const char *const bad[] = {"",         "CPU",     "cpu:0",           "auto:",
                                      "cuda:",    "cuda:-1", "cuda:+1",         "cuda:1024",
                                      "cuda0",    "cuda:1 ", "cuda: 1",         "cuda:0x",
                                      "cudacuda", "auto:x",  "cuda:99999999999"};
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        int device = -9;
        cadre_auto(cadre_free) char *text = cadre_asprintf(
            "no device \"%s\": it is auto, cpu, cuda, or cuda:N with N in 0 to 1023", bad[i]);
        cr_expect_eq(cadre_device_name_parse(bad[i], &device), CADRE_EINVALID, "%s", bad[i]);
        cr_expect_str_eq(cadre_error_text(), text);
        cr_expect_eq(device, -9);
    }
}

Test(device_name, of_a_tpu_is_refused_plainly)
{
    static const char *const names[] = {"tpu", "tpu:0"};
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        int device = -9;
        cr_expect_eq(cadre_device_name_parse(names[i], &device), CADRE_EINVALID);
        cr_expect_not_null(strstr(cadre_error_text(), "there is no device for TPUs"));
    }
}

Test(device_name, math_is_a_whole_word_of_the_list)
{
    static const char *const bad[] = {"",  "f",   "f3",    "f322", "tf32|bf16",
                                      "|", "bf1", "bf16|", "F32"};
    cr_expect_eq(cadre_math_check("f32"), 0);
    cr_expect_eq(cadre_math_check("tf32"), 0);
    cr_expect_eq(cadre_math_check("bf16"), 0);
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cr_expect_eq(cadre_math_check(bad[i]), CADRE_EINVALID, "%s", bad[i]);
        cr_expect_not_null(strstr(cadre_error_text(), "is none of f32|tf32|bf16"));
    }
}
