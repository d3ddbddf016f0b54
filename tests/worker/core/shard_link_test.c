#include "worker/core/shard_link.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "common/base/limits.h"
#include "common/base/memory.h"

TestSuite(shard_link, .timeout = 240);

enum { WINDOW = 100 };

static void
ask(cadre_shard_link_t *link, uint64_t request, uint64_t closure, size_t size_bytes)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_PULL, .request = request, .incarnation = 1};
    cadre_link_request_t question = {.request = request,
                                     .closure = closure,
                                     .context = cadre_calloc(1, 1),
                                     .size_bytes = size_bytes};
    cadre_outbox_entry_init(&question.entry, &(cadre_task_t){CADRE_ROLE_PS, 0, 9}, &message);
    cadre_shard_link_ask(link, &question);
}

static size_t
sent(cadre_outbox_t *outbox)
{
    size_t count = cadre_outbox_count(outbox);
    cadre_outbox_fini(outbox);
    return count;
}

static bool
answered_at(cadre_shard_link_t *link, uint64_t id, uint64_t now_ms)
{
    cadre_link_request_t request;
    if (!cadre_shard_link_answered(link, id, now_ms, &request)) {
        return false;
    }
    cadre_link_request_fini(&request);
    return true;
}

static bool
answered(cadre_shard_link_t *link, uint64_t id)
{
    return answered_at(link, id, 0);
}

Test(shard_link, sends_nothing_before_the_address_is_known)
{
    cadre_shard_link_t link;
    cadre_outbox_t outbox = {0};
    cadre_shard_link_init(&link, WINDOW);
    ask(&link, 1, 1, 8);
    cadre_shard_link_pump(&link, 0, &outbox);
    cr_expect_eq(sent(&outbox), 0);
    link.open = true;
    cadre_shard_link_pump(&link, 0, &outbox);
    cr_expect_eq(sent(&outbox), 1);
    cadre_shard_link_fini(&link);
}

Test(shard_link, fills_its_credit_to_the_byte_and_no_further)
{
    cadre_shard_link_t link;
    cadre_outbox_t outbox = {0};
    cadre_shard_link_init(&link, WINDOW);
    link.open = true;
    ask(&link, 1, 1, CADRE_IN_FLIGHT_SIZE_MAX - 8);
    ask(&link, 2, 1, 8);
    ask(&link, 3, 1, 1);
    cadre_shard_link_pump(&link, 0, &outbox);
    cr_expect_eq(sent(&outbox), 2);
    cr_expect(answered(&link, 2));
    cadre_shard_link_pump(&link, 0, &outbox);
    cr_expect_eq(sent(&outbox), 1);
    cadre_shard_link_fini(&link);
}

Test(shard_link, sends_a_request_larger_than_the_credit_alone)
{
    cadre_shard_link_t link;
    cadre_outbox_t outbox = {0};
    cadre_shard_link_init(&link, WINDOW);
    link.open = true;
    ask(&link, 1, 1, (size_t)CADRE_IN_FLIGHT_SIZE_MAX + 1);
    ask(&link, 2, 1, 1);
    cadre_shard_link_pump(&link, 0, &outbox);
    cr_expect_eq(sent(&outbox), 1);
    cr_expect(answered(&link, 1));
    cadre_shard_link_pump(&link, 0, &outbox);
    cr_expect_eq(sent(&outbox), 1);
    cadre_shard_link_fini(&link);
}

/* The ids that a PROBE asks after now; none when none is due. */
static size_t
probed(cadre_shard_link_t *link, uint64_t now_ms, uint64_t number, uint64_t ids[8])
{
    static cadre_probe_t probes[CADRE_PROBE_REQUESTS_MAX];
    size_t count = 0;
    cadre_shard_link_probe(link, now_ms, number, probes, &count);
    for (size_t i = 0; i < count && i < 8; i++) {
        ids[i] = probes[i].request;
    }
    return count;
}

Test(shard_link, sends_nothing_again_and_asks_ever_more_seldom)
{
    cadre_shard_link_t link;
    cadre_outbox_t outbox = {0};
    uint64_t ids[8];
    cadre_shard_link_init(&link, WINDOW);
    link.open = true;
    cr_expect_eq(cadre_shard_link_due_ms(&link, 0), UINT64_MAX);
    ask(&link, 1, 1, 8);
    ask(&link, 2, 1, 8);
    cadre_shard_link_pump(&link, 0, &outbox);
    sent(&outbox);
    cr_expect_eq(cadre_shard_link_due_ms(&link, 0), CADRE_PROBE_MS);
    cr_expect_eq(probed(&link, CADRE_PROBE_MS - 1, 10, ids), 0);
    cr_expect_eq(probed(&link, CADRE_PROBE_MS, 10, ids), 2);
    cr_expect_eq(ids[0], 1);
    cr_expect_eq(ids[1], 2);
    uint64_t now_ms = CADRE_PROBE_MS;
    const uint64_t waits_ms[] = {2000, 4000, 4000, 4000};
    for (size_t i = 0; i < 4; i++) {
        cr_expect_eq(probed(&link, now_ms + waits_ms[i] - 1, 11 + i, ids), 0, "wait %zu", i);
        now_ms += waits_ms[i];
        cr_expect_eq(probed(&link, now_ms, 11 + i, ids), 2, "wait %zu", i);
    }
    cadre_shard_link_heard(&link, now_ms);
    cr_expect(answered_at(&link, 1, now_ms)); /* it moves */
    cr_expect_eq(cadre_shard_link_due_ms(&link, 0), now_ms + CADRE_PROBE_MS);
    cr_expect_eq(sent(&outbox), 0);
    cadre_shard_link_fini(&link);
}

/* Others come and are answered all the time: the lost one is asked after all the same. */
Test(shard_link, asks_after_the_oldest_although_younger_ones_are_answered)
{
    enum { TURN_MS = CADRE_PROBE_MS / 4 };
    cadre_shard_link_t link;
    cadre_outbox_t outbox = {0};
    uint64_t ids[8];
    cadre_shard_link_init(&link, WINDOW);
    link.open = true;
    ask(&link, 1, 1, 8);
    for (uint64_t i = 0; i < 4; i++) {
        ask(&link, 2 + i, 2, 8);
        cadre_shard_link_pump(&link, i * TURN_MS, &outbox);
        cr_expect_eq(probed(&link, i * TURN_MS, 100 + i, ids), 0);
        cadre_shard_link_heard(&link, i * TURN_MS + 1);
        cr_expect(answered_at(&link, 2 + i, i * TURN_MS + 1));
    }
    cr_expect_eq(probed(&link, CADRE_PROBE_MS, 104, ids), 1);
    cr_expect_eq(ids[0], 1);
    sent(&outbox);
    cadre_shard_link_fini(&link);
}

Test(shard_link, asks_after_the_oldest_when_there_are_too_many)
{
    cadre_shard_link_t link;
    cadre_outbox_t outbox = {0};
    uint64_t ids[8];
    cadre_shard_link_init(&link, WINDOW);
    link.open = true;
    for (uint64_t id = 1; id <= CADRE_PROBE_REQUESTS_MAX + 1; id++) {
        ask(&link, id, 1, 8);
    }
    cadre_shard_link_pump(&link, 0, &outbox);
    sent(&outbox);
    cr_expect_eq(probed(&link, CADRE_PROBE_MS, 5000, ids), CADRE_PROBE_REQUESTS_MAX);
    cr_expect_eq(ids[0], 1);
    cadre_shard_link_fini(&link);
}

Test(shard_link, sends_again_what_a_probe_behind_it_proves_lost)
{
    cadre_shard_link_t link;
    cadre_outbox_t outbox = {0};
    uint64_t ids[8];
    cadre_shard_link_init(&link, WINDOW);
    link.open = true;
    ask(&link, 1, 1, 8);
    cadre_shard_link_pump(&link, 0, &outbox);
    cr_expect_eq(probed(&link, 1000, 10, ids), 1);
    cr_expect_eq(probed(&link, 3000, 11, ids), 1);
    ask(&link, 2, 1, 8);
    cadre_shard_link_pump(&link, 3000, &outbox);
    sent(&outbox);
    cr_expect(cadre_shard_link_lost(&link, 1, 10, false, &outbox));
    cr_expect_eq(sent(&outbox), 1);
    cr_expect_not(cadre_shard_link_lost(&link, 1, 11, false, &outbox), "sent since that was asked");
    cr_expect_not(cadre_shard_link_lost(&link, 2, 11, false, &outbox), "sent behind it");
    cr_expect_not(cadre_shard_link_lost(&link, 3, 11, false, &outbox), "nobody waits for it");
    cr_expect_eq(sent(&outbox), 0);
    cr_expect_eq(probed(&link, 7000, 12, ids), 2);
    cr_expect(cadre_shard_link_lost(&link, 1, 12, false, &outbox));
    cr_expect(answered(&link, 1));
    cr_expect_not(cadre_shard_link_lost(&link, 1, 12, false, &outbox));
    cr_expect_eq(sent(&outbox), 1);
    cadre_shard_link_fini(&link);
}

Test(shard_link, sends_what_is_unanswered_over_a_new_connection)
{
    cadre_shard_link_t link;
    cadre_outbox_t outbox = {0};
    cadre_shard_link_init(&link, WINDOW);
    link.open = true;
    ask(&link, 1, 1, CADRE_IN_FLIGHT_SIZE_MAX);
    ask(&link, 2, 1, 8);
    cadre_shard_link_pump(&link, 0, &outbox);
    sent(&outbox);
    cadre_shard_link_repeat(&link, 5000, &outbox);
    cr_expect_eq(sent(&outbox), 1, "the other one has never been sent");
    cr_expect_eq(link.in_flight, 1);
    cadre_shard_link_fini(&link);
}

Test(shard_link, tells_since_when_nothing_is_answered_and_nothing_comes)
{
    cadre_shard_link_t link;
    cadre_outbox_t outbox = {0};
    cadre_shard_link_init(&link, WINDOW);
    link.open = true;
    cr_expect_eq(cadre_shard_link_owed_ms(&link), UINT64_MAX);
    cr_expect_not(cadre_shard_link_is_mute(&link, 100000));
    ask(&link, 1, 1, 8);
    cadre_shard_link_pump(&link, 1000, &outbox);
    ask(&link, 2, 1, 8);
    cadre_shard_link_pump(&link, 1010, &outbox);
    cr_expect_eq(cadre_shard_link_owed_ms(&link), 1000);
    cr_expect_not(cadre_shard_link_is_mute(&link, 1000 + CADRE_MUTE_MS - 1));
    cr_expect(cadre_shard_link_is_mute(&link, 1000 + CADRE_MUTE_MS));
    cadre_shard_link_heard(&link, 1050);
    cr_expect_not(cadre_shard_link_is_mute(&link, 1050 + CADRE_MUTE_MS - 1));
    cr_expect(cadre_shard_link_is_mute(&link, 1050 + CADRE_MUTE_MS));
    link.open = false;
    cr_expect_not(cadre_shard_link_is_mute(&link, 1050 + CADRE_MUTE_MS), "nobody is asked");
    link.open = true;
    cr_expect(answered(&link, 1));
    cr_expect_eq(cadre_shard_link_owed_ms(&link), 1050, "it owes another answer");
    cr_expect(answered(&link, 2));
    cr_expect_eq(cadre_shard_link_owed_ms(&link), UINT64_MAX);
    ask(&link, 3, 1, 8);
    cadre_shard_link_pump(&link, 9000, &outbox);
    cr_expect_eq(cadre_shard_link_owed_ms(&link), 9000);
    sent(&outbox);
    cadre_shard_link_fini(&link);
}

Test(shard_link, gives_many_bytes_their_time_and_each_connection_more_than_the_one_before)
{
    cadre_shard_link_t link;
    cadre_outbox_t outbox = {0};
    cadre_shard_link_init(&link, WINDOW);
    link.open = true;
    ask(&link, 1, 1, 4 * (size_t)CADRE_LINK_RATE_MIN);
    cadre_shard_link_pump(&link, 0, &outbox);
    uint64_t limit_ms = CADRE_MUTE_MS + 4000;
    cr_expect_not(cadre_shard_link_is_mute(&link, limit_ms - 1));
    cr_expect(cadre_shard_link_is_mute(&link, limit_ms));
    link.mutes = 2;
    cr_expect_not(cadre_shard_link_is_mute(&link, 4 * limit_ms - 1));
    cr_expect(cadre_shard_link_is_mute(&link, 4 * limit_ms));
    link.mutes = UINT32_MAX;
    cr_expect(cadre_shard_link_is_mute(&link, 2 * CADRE_MUTE_MAX_MS));
    cadre_shard_link_heard(&link, 0);
    cr_expect(cadre_shard_link_is_mute(&link, limit_ms), "it was heard");
    sent(&outbox);
    cadre_shard_link_fini(&link);
}

Test(shard_link, is_over_when_nothing_has_come_for_the_timeout_whatever_connections_there_were)
{
    enum { TIMEOUT_MS = 12000 };
    cadre_shard_link_t link;
    cadre_outbox_t outbox = {0};
    cadre_shard_link_init(&link, WINDOW);
    link.open = true;
    cr_expect_not(cadre_shard_link_is_over(&link, 1000000, TIMEOUT_MS), "nothing is owed");
    ask(&link, 1, 1, 8);
    cadre_shard_link_pump(&link, 1000, &outbox);
    cadre_shard_link_repeat(&link, 6000, &outbox);
    cr_expect_not(cadre_shard_link_is_over(&link, 1000 + TIMEOUT_MS - 1, TIMEOUT_MS));
    cr_expect(cadre_shard_link_is_over(&link, 1000 + TIMEOUT_MS, TIMEOUT_MS));
    cr_expect_not(cadre_shard_link_is_over(&link, 1000 + TIMEOUT_MS, 0), "0 is never");
    cadre_shard_link_excuse(&link, 3000, 20000);
    cr_expect_not(cadre_shard_link_is_over(&link, 4000 + TIMEOUT_MS - 1, TIMEOUT_MS));
    cr_expect(cadre_shard_link_is_over(&link, 4000 + TIMEOUT_MS, TIMEOUT_MS));
    cadre_shard_link_heard(&link, 5000);
    cr_expect_not(cadre_shard_link_is_over(&link, 5000 + TIMEOUT_MS - 1, TIMEOUT_MS));
    cadre_shard_link_excuse(&link, 9000, 6000);
    cr_expect(cadre_shard_link_is_over(&link, 6000 + TIMEOUT_MS, TIMEOUT_MS), "now at the most");
    sent(&outbox);
    cadre_shard_link_fini(&link);
}

Test(shard_link, is_over_later_where_much_is_under_way)
{
    enum { TIMEOUT_MS = 12000 };
    cadre_shard_link_t link;
    cadre_outbox_t outbox = {0};
    cadre_shard_link_init(&link, WINDOW);
    link.open = true;
    ask(&link, 1, 1, 4 * (size_t)CADRE_LINK_RATE_MIN);
    cadre_shard_link_pump(&link, 0, &outbox);
    uint64_t connections_ms = 3 * (CADRE_MUTE_MS + 4000);
    cr_expect_not(cadre_shard_link_is_over(&link, connections_ms - 1, TIMEOUT_MS));
    cr_expect(cadre_shard_link_is_over(&link, connections_ms, TIMEOUT_MS));
    cr_expect_not(cadre_shard_link_is_over(&link, connections_ms, 2 * connections_ms));
    sent(&outbox);
    cadre_shard_link_fini(&link);
}

Test(shard_link, asks_an_unreachable_shard_again_and_again_without_any_request)
{
    cadre_shard_link_t link;
    uint64_t ids[8];
    cadre_shard_link_init(&link, WINDOW);
    link.open = true;
    cadre_shard_link_give_up(&link, 0);
    link.mutes = 9;
    for (uint64_t now_ms = 1000; now_ms < 6000; now_ms += CADRE_PROBE_MS) {
        size_t count = 1;
        static cadre_probe_t probes[CADRE_PROBE_REQUESTS_MAX];
        cr_expect(cadre_shard_link_probe(&link, now_ms, now_ms, probes, &count));
        cr_expect_eq(count, 0);
        cr_expect_not(
            cadre_shard_link_probe(&link, now_ms + CADRE_PROBE_MS - 1, now_ms, probes, &count));
    }
    cr_expect(cadre_shard_link_is_mute(&link, CADRE_MUTE_MS), "and over another connection");
    cr_expect_not(cadre_shard_link_is_over(&link, 1000000, 1000), "that is known");
    cadre_shard_link_heard(&link, 6000);
    cr_expect_not(link.unreachable);
    cr_expect_eq(probed(&link, 60000, 100000, ids), 0);
    cr_expect_eq(cadre_shard_link_due_ms(&link, 1000), UINT64_MAX);
    cadre_shard_link_fini(&link);
}

Test(shard_link, forgets_the_requests_of_one_closure)
{
    cadre_shard_link_t link;
    cadre_outbox_t outbox = {0};
    cadre_shard_link_init(&link, WINDOW);
    link.open = true;
    for (uint64_t id = 1; id <= 6; id++) {
        ask(&link, id, id % 2, 8);
    }
    cadre_shard_link_pump(&link, 0, &outbox);
    ask(&link, 7, 1, 8); /* unsent, and last */
    cadre_shard_link_forget(&link, 1);
    cr_expect_eq(link.in_flight, 3);
    cr_expect_eq(link.in_flight_bytes, 3 * 8);
    cr_expect_not(answered(&link, 1));
    ask(&link, 8, 2, 8);
    sent(&outbox);
    cadre_shard_link_pump(&link, 0, &outbox);
    cr_expect_eq(sent(&outbox), 1, "the list is whole");
    cadre_shard_link_fini(&link);
}
