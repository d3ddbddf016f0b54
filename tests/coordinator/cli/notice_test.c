#include "coordinator/cli/notice.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

TestSuite(notice, .timeout = 240);

Test(notice, an_event_of_the_coordinator_comes_with_its_level_name_and_pairs)
{
    int ends[2];
    cadre_notice_t notice;
    cr_assert_eq(cadre_notice_channel(ends), 0);
    cadre_notice_log(&ends[1], 'W', "worker_lost", "worker=3 closures=6");
    cr_assert(cadre_notice_receive(ends[0], &notice));
    cr_assert_eq(notice.kind, CADRE_NOTICE_LOG);
    cr_assert_eq(notice.level, 'W');
    cr_assert_str_eq(notice.event, "worker_lost");
    cr_assert_str_eq(notice.text, "worker=3 closures=6");
    cr_assert_not(cadre_notice_receive(ends[0], &notice));
    close(ends[0]);
    close(ends[1]);
}

Test(notice, events_that_nobody_takes_are_dropped_and_hold_up_no_one)
{
    enum { MORE_THAN_FIT = 100000 };
    int ends[2];
    char pairs[2 * CADRE_NOTICE_TEXT_SIZE];
    cadre_notice_t notice;
    cr_assert_eq(cadre_notice_channel(ends), 0);
    memset(pairs, 'x', sizeof(pairs) - 1);
    pairs[sizeof(pairs) - 1] = '\0';
    for (int i = 0; i < MORE_THAN_FIT; i++) {
        cadre_notice_log(&ends[1], 'I', "flood", pairs);
    }
    cr_assert(cadre_notice_receive(ends[0], &notice));
    cr_assert_eq(strlen(notice.text), CADRE_NOTICE_TEXT_SIZE - 1, "longer ones are cut");
    close(ends[0]);
    close(ends[1]);
}
