#include "ps/huge_keeper.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(huge_keeper, .timeout = 240);

/* Takes a page, which is empty, and fills it. */
static unsigned char *
take(const cadre_huge_source_t *source)
{
    unsigned char *bytes = cadre_huge_source_take(source);
    cr_assert_eq((uintptr_t)bytes % CADRE_HUGE_SIZE, 0);
    cr_assert_eq(bytes[0], 0);
    cr_assert_eq(memcmp(bytes, bytes + 1, CADRE_HUGE_SIZE - 1), 0);
    memset(bytes, 1, CADRE_HUGE_SIZE);
    return bytes;
}

Test(huge_keeper, has_a_page_ready_after_the_first_one)
{
    cadre_huge_keeper_t *keeper = NULL;
    cr_assert_eq(cadre_huge_keeper_open(&keeper), 0, "%s", cadre_error_text());
    const cadre_huge_source_t source = cadre_huge_keeper_source(keeper);
    cadre_huge_free(take(&source));
    cr_assert_eq(cadre_huge_keeper_given(keeper), 0);
    for (size_t given = 1; given <= 5; given++) {
        while (cadre_huge_keeper_given(keeper) < given) { /* until the thread has had its turn */
            cadre_huge_free(take(&source));
            sched_yield();
        }
    }
    cadre_huge_keeper_destroy(&keeper);
    cr_assert_null(keeper);
}

Test(huge_keeper, ends_before_its_pages)
{
    cadre_huge_keeper_t *keeper = NULL;
    cadre_huge_keeper_destroy(&keeper);
    cr_assert_eq(cadre_huge_keeper_open(&keeper), 0, "%s", cadre_error_text());
    const cadre_huge_source_t source = cadre_huge_keeper_source(keeper);
    unsigned char *first = take(&source);
    unsigned char *second = take(&source);
    cr_assert_neq(first, second);
    cadre_huge_keeper_destroy(&keeper);
    cr_assert(first[CADRE_HUGE_SIZE - 1] == 1 && second[CADRE_HUGE_SIZE - 1] == 1);
    cadre_huge_free(first);
    cadre_huge_free(second);
}

Test(huge_keeper, no_source_gives_a_page_that_nobody_touched)
{
    const cadre_huge_source_t none = {.take = NULL};
    cadre_huge_free(take(&none));
}
