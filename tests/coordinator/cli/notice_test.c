#include "coordinator/cli/notice.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
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

/* Epochs end faster than a terminal shows them: what the coordinator says meanwhile is not lost. */
Test(notice, an_event_is_kept_while_others_wait_for_room)
{
    cadre_notices_t *notices = NULL;
    cadre_notice_t notice;
    cr_assert_eq(cadre_notices_open(&notices), 0);
    for (int i = 0; i < CADRE_NOTICES_WAIT_MAX; i++) {
        cadre_notice_say(notices, CADRE_NOTICE_INFO, "epoch %d", i);
    }
    cadre_notice_log(notices, 'W', "worker_lost", "worker=3");
    for (int i = 0; i < CADRE_NOTICES_WAIT_MAX; i++) {
        cr_assert(cadre_notice_receive(notices, &notice));
        cr_expect_eq(notice.kind, CADRE_NOTICE_INFO);
    }
    cr_assert(cadre_notice_receive(notices, &notice));
    cr_expect_str_eq(notice.event, "worker_lost");
    cadre_notices_close(&notices);
}

typedef struct {
    cadre_notices_t *notices;
    atomic_int said;
} speaker_t;

enum { SAID = 3 * CADRE_NOTICES_WAIT_MAX };

static void *
speak(void *context)
{
    speaker_t *self = context;
    for (int i = 0; i < SAID; i++) {
        cadre_notice_say(self->notices, CADRE_NOTICE_INFO, "%d", i);
        atomic_fetch_add(&self->said, 1);
    }
    return NULL;
}

Test(notice, who_may_wait_waits_for_room_and_loses_nothing)
{
    speaker_t speaker = {.notices = NULL};
    cadre_notice_t notice;
    pthread_t thread;
    cr_assert_eq(cadre_notices_open(&speaker.notices), 0);
    cr_assert_eq(pthread_create(&thread, NULL, speak, &speaker), 0);
    for (int i = 0; i < SAID;) {
        if (cadre_notice_receive(speaker.notices, &notice)) {
            char wanted[16];
            snprintf(wanted, sizeof(wanted), "%d", i++);
            cr_assert_str_eq(notice.text, wanted);
            cr_expect_leq(atomic_load(&speaker.said), i + CADRE_NOTICES_WAIT_MAX);
        }
    }
    pthread_join(thread, NULL);
    cadre_notices_close(&speaker.notices);
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
