#include "coordinator/cli/terminal/notice.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>

TestSuite(notice, .timeout = 240);

static bool
is_readable(const cadre_notices_t *notices)
{
    struct pollfd item = {.fd = cadre_notices_fd(notices), .events = POLLIN};
    return poll(&item, 1, 0) == 1;
}

Test(notice, an_event_of_the_coordinator_comes_with_its_level_name_and_pairs)
{
    cadre_notices_t *notices = NULL;
    cadre_notice_t notice;
    cr_assert_eq(cadre_notices_open(&notices), 0);
    cr_expect_not(is_readable(notices));
    cadre_notice_log(notices, 'W', "worker_lost", "worker=3 closures=6");
    cr_expect(is_readable(notices));
    cr_assert(cadre_notice_receive(notices, &notice));
    cr_expect_eq(notice.kind, CADRE_NOTICE_LOG);
    cr_expect_eq(notice.level, 'W');
    cr_expect_str_eq(notice.event, "worker_lost");
    cr_expect_str_eq(notice.text, "worker=3 closures=6");
    cr_expect_not(cadre_notice_receive(notices, &notice));
    cr_expect_not(is_readable(notices));
    cadre_notices_close(&notices);
    cr_expect_null(notices);
}

/* A terminal that stands still for long: the run ends all the same, and says what was lost. */
Test(notice, who_sends_waits_for_nobody_and_the_end_is_told)
{
    enum { LOST = 3 };
    cadre_notices_t *notices = NULL;
    cadre_notice_t notice;
    cr_assert_eq(cadre_notices_open(&notices), 0);
    for (int i = 0; i < CADRE_NOTICES_MAX + LOST; i++) {
        cadre_notice_say(notices, CADRE_NOTICE_INFO, "epoch %d", i);
        cadre_notice_say(notices, CADRE_NOTICE_PROGRESS, "%s", "");
    }
    cadre_notice_say(notices, CADRE_NOTICE_DONE, "%s", "");
    size_t progress = 0;
    for (int i = 0; i < CADRE_NOTICES_MAX; i++) {
        cr_assert(cadre_notice_receive(notices, &notice));
        progress += notice.kind == CADRE_NOTICE_PROGRESS;
    }
    cr_expect_eq(progress, CADRE_NOTICES_PROGRESS_MAX / 2);
    cr_assert(cadre_notice_receive(notices, &notice));
    cr_expect_eq(notice.kind, CADRE_NOTICE_DONE);
    cr_assert(cadre_notice_receive(notices, &notice));
    cr_expect_str_eq(notice.event, "events_lost");
    cr_expect_str_eq(notice.text, "count=131");
    cr_expect_not(cadre_notice_receive(notices, &notice));
    cadre_notices_close(&notices);
}

Test(notice, events_that_nobody_takes_are_dropped_counted_and_hold_up_no_one)
{
    enum { DROPPED = 1000 };
    cadre_notices_t *notices = NULL;
    char pairs[2 * CADRE_NOTICE_TEXT_SIZE];
    cadre_notice_t notice;
    cr_assert_eq(cadre_notices_open(&notices), 0);
    memset(pairs, 'x', sizeof(pairs) - 1);
    pairs[sizeof(pairs) - 1] = '\0';
    for (int i = 0; i < CADRE_NOTICES_MAX + DROPPED; i++) {
        cadre_notice_log(notices, 'I', "flood", pairs);
    }
    for (int i = 0; i < CADRE_NOTICES_MAX; i++) {
        cr_assert(cadre_notice_receive(notices, &notice));
        cr_expect_str_eq(notice.event, "flood");
        cr_expect_eq(strlen(notice.text), CADRE_NOTICE_TEXT_SIZE - 1, "longer ones are cut");
    }
    cr_assert(cadre_notice_receive(notices, &notice));
    cr_expect_str_eq(notice.event, "events_lost");
    cr_expect_str_eq(notice.text, "count=1000");
    cr_expect_not(cadre_notice_receive(notices, &notice));
    cadre_notices_close(&notices);
}
