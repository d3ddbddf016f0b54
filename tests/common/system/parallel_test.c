#include "common/system/parallel.h"

#include <criterion/criterion.h>
#include <sys/resource.h>

TestSuite(parallel, .timeout = 240);

enum { COUNT = 10000 };

static void
count_up(void *context, size_t index)
{
    int *calls = context;
    calls[index]++;
}

Test(parallel, calls_once_for_every_number)
{
    static int calls[COUNT + 1];
    cadre_parallel_for(COUNT, count_up, calls);
    for (size_t i = 0; i < COUNT; i++) {
        cr_assert_eq(calls[i], 1, "%zu", i);
    }
    cr_assert_eq(calls[COUNT], 0);
    cadre_parallel_for(0, count_up, calls);
    cadre_parallel_for(1, count_up, calls);
    cr_assert_eq(calls[0], 2);
    cr_assert_eq(calls[1], 1);
}

Test(parallel, does_the_work_alone_where_no_thread_can_be_started)
{
    static int calls[COUNT];
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_NPROC, &none); /* which root may ignore: then this is the test above */
    cadre_parallel_for(COUNT, count_up, calls);
    for (size_t i = 0; i < COUNT; i++) {
        cr_assert_eq(calls[i], 1, "%zu", i);
    }
}
