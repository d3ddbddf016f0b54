#include "worker/shard_link.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "common/limits.h"
#include "common/memory.h"

TestSuite(shard_link, .timeout = 240);

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
answered(cadre_shard_link_t *link, uint64_t id)
{
    cadre_link_request_t request;
    if (!cadre_shard_link_answered(link, id, &request)) {
        return false;
    }
    cadre_outbox_entry_fini(&request.entry);
    free(request.context);
    return true;
}

Test(shard_link, sends_nothing_before_the_address_is_known)
{
    cadre_shard_link_t link;
    cadre_outbox_t outbox = {0};
    cadre_shard_link_init(&link);
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
    cadre_shard_link_init(&link);
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
    cadre_shard_link_init(&link);
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

Test(shard_link, sends_again_what_is_unanswered_when_it_is_due)
{
    cadre_shard_link_t link;
    cadre_outbox_t outbox = {0};
    cadre_shard_link_init(&link);
    link.open = true;
    ask(&link, 1, 1, 8);
    cadre_shard_link_pump(&link, 100, &outbox);
    ask(&link, 2, 1, 8);
    cadre_shard_link_pump(&link, 150, &outbox);
    sent(&outbox);
    cr_expect_eq(cadre_shard_link_due_ms(&link, 50), 150);
    cadre_shard_link_tick(&link, 149, 50, &outbox);
    cr_expect_eq(sent(&outbox), 0);
    cadre_shard_link_tick(&link, 150, 50, &outbox);
    cr_expect_eq(sent(&outbox), 1);
    cr_expect_eq(cadre_shard_link_due_ms(&link, 50), 200);
    cr_expect(answered(&link, 1));
    cr_expect_not(answered(&link, 1), "the second answer is late");
    cr_expect(answered(&link, 2));
    cr_expect_eq(cadre_shard_link_due_ms(&link, 50), UINT64_MAX);
    cr_expect_eq(link.in_flight_bytes, 0);
    cadre_shard_link_fini(&link);
}

Test(shard_link, tells_since_when_nothing_is_answered_and_nothing_comes)
{
    enum { MUTE_MS = 100 };
    cadre_shard_link_t link;
    cadre_outbox_t outbox = {0};
    cadre_shard_link_init(&link);
    link.open = true;
    cr_expect_eq(cadre_shard_link_asked_ms(&link), UINT64_MAX);
    cr_expect_not(cadre_shard_link_is_mute(&link, 100000, MUTE_MS));
    ask(&link, 1, 1, 8);
    cadre_shard_link_pump(&link, 1000, &outbox);
    ask(&link, 2, 1, 8);
    cadre_shard_link_pump(&link, 1010, &outbox);
    cadre_shard_link_tick(&link, 1060, 50, &outbox); /* repeating is not asking anew */
    cr_expect_eq(cadre_shard_link_asked_ms(&link), 1000);
    cr_expect_not(cadre_shard_link_is_mute(&link, 1000 + MUTE_MS - 1, MUTE_MS));
    cr_expect(cadre_shard_link_is_mute(&link, 1000 + MUTE_MS, MUTE_MS));
    link.heard_ms = 1050;
    cr_expect_not(cadre_shard_link_is_mute(&link, 1050 + MUTE_MS - 1, MUTE_MS));
    cr_expect(cadre_shard_link_is_mute(&link, 1050 + MUTE_MS, MUTE_MS));
    link.open = false;
    cr_expect_not(cadre_shard_link_is_mute(&link, 1050 + MUTE_MS, MUTE_MS), "nobody is asked");
    link.open = true;
    cr_expect(answered(&link, 1));
    cr_expect_eq(cadre_shard_link_asked_ms(&link), 1010);
    sent(&outbox);
    cadre_shard_link_fini(&link);
}

Test(shard_link, forgets_the_requests_of_one_closure)
{
    cadre_shard_link_t link;
    cadre_outbox_t outbox = {0};
    cadre_shard_link_init(&link);
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
