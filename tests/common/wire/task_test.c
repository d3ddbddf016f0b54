#include "common/wire/task.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(task, .timeout = 240);

static int
parse(const char *text, cadre_task_t *out)
{
    return cadre_task_parse(text, strlen(text), out);
}

static void
check_text(cadre_task_t task, const char *expected)
{
    char text[CADRE_TASK_TEXT_SIZE];
    cr_assert_str_eq(cadre_task_text(&task, text), expected);
    cadre_task_t back = {.role = CADRE_ROLE_EVALUATOR};
    cr_assert_eq(parse(expected, &back), 0);
    cr_assert(cadre_task_equal(&task, &back));
}

Test(task, is_its_routing_id_and_back)
{
    check_text((cadre_task_t){CADRE_ROLE_WORKER, 3, UINT64_C(0x9f0c2b1d4e55)},
               "worker/3/00009f0c2b1d4e55");
    check_text((cadre_task_t){CADRE_ROLE_PS, 0, UINT64_MAX}, "ps/0/ffffffffffffffff");
    check_text((cadre_task_t){CADRE_ROLE_EVALUATOR, 12, 0}, "evaluator/12/0000000000000000");
    check_text((cadre_task_t){CADRE_ROLE_WORKER, CADRE_INDEX_ANY, 1}, "worker/*/0000000000000001");
    check_text((cadre_task_t){CADRE_ROLE_COORDINATOR, UINT32_MAX - 1, UINT64_MAX - 1},
               "coordinator/4294967294/fffffffffffffffe");
}

Test(task, has_one_spelling_only)
{
    static const char *const bad[] = {
        "",
        "worker",
        "worker/3",
        "worker/3/",
        "worker/3/0",
        "/3/0000000000000001",
        "worker//0000000000000001",
        "workers/3/0000000000000001",
        "Worker/3/0000000000000001",
        "chief/3/0000000000000001",
        "?/3/0000000000000001",
        "worker/03/0000000000000001",
        "worker/+3/0000000000000001",
        "worker/-1/0000000000000001",
        "worker/ 3/0000000000000001",
        "worker/3*/0000000000000001",
        "worker/**/0000000000000001",
        "worker/4294967295/0000000000000001",
        "worker/4294967299/0000000000000001",
        "worker/99999999999999999999/0000000000000001",
        "worker/3/000000000000001",
        "worker/3/00000000000000001",
        "worker/3/000000000000000G",
        "worker/3/000000000000000A",
        "worker/3/0x00000000000001",
        "worker/3/0000000000000001/",
        "worker/3/0000000000000001 ",
        "coordinator/4294967294/fffffffffffffffe0",
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cadre_task_t out = {.index = 77};
        cr_assert_eq(parse(bad[i], &out), CADRE_EMALFORMED, "%s", bad[i]);
        cr_assert_eq(out.index, 77, "untouched");
    }
}

Test(task, takes_bytes_that_are_no_string)
{
    cadre_task_t out;
    cr_assert_eq(cadre_task_parse("worker/3/0000000000000001\0", 26, &out), CADRE_EMALFORMED);
    cr_assert_eq(cadre_task_parse("worker/3/0000000000000001xyz", 25, &out), 0);
    cr_assert_eq(cadre_task_parse(NULL, 0, &out), CADRE_EMALFORMED);
    char large[256];
    memset(large, 'a', sizeof(large));
    cr_assert_eq(cadre_task_parse(large, sizeof(large), &out), CADRE_EMALFORMED);
}
