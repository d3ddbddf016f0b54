#include "ps/core/intake.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "common/base/memory.h"

TestSuite(intake, .timeout = 240);

enum { MIB = 1 << 20, BUDGET_MIB = 200, PEERS = 300 };

static cadre_task_t
peer(uint64_t number)
{
    return (cadre_task_t){CADRE_ROLE_WORKER, 0, number};
}

static void
reserve(cadre_intake_t *self, uint64_t number, uint64_t size_bytes, uint64_t now_ms)
{
    cadre_task_t task = peer(number);
    cadre_intake_reserve(self, &task, 7, size_bytes, now_ms);
}

/* Whose GRANT is said next; 0 for nobody's. */
static uint64_t
granted(cadre_intake_t *self, uint64_t now_ms)
{
    cadre_task_t to = {.incarnation = 0};
    uint64_t request = 0;
    return cadre_intake_grant(self, now_ms, &to, &request) ? to.incarnation : 0;
}

/* Gives a part of one partition and one chunk; whether the update is whole then, and has `count`.
 */
static bool
give(cadre_intake_t *self, uint64_t number, uint64_t part, uint64_t parts, size_t size_bytes,
     size_t count)
{
    cadre_task_t task = peer(number);
    uint64_t triple[] = {1, part, 0};
    uint64_t *triples = NULL;
    cadre_message_t message = {.type = CADRE_MESSAGE_PUSH, .request = 7};
    message.push = (cadre_push_message_t){
        .update = 10, .partitions = {triple, 3}, .part = part, .parts = parts};
    cadre_message_add_chunk(&message, cadre_chunk_new(size_bytes));
    bool is_whole = cadre_intake_take(self, &task, &message, &triples, 0);
    if (is_whole) {
        cr_expect_eq(message.chunk_count, count);
        cr_expect_eq(message.push.partitions.count, 3 * count);
        cr_expect_eq(message.push.partitions.items[3 * count - 2], count - 1);
        cadre_message_fini(&message);
        free(triples);
    }
    return is_whole;
}

Test(intake, tells_windows_that_add_up_to_less_than_half_of_the_budget)
{
    cadre_intake_t *self = cadre_intake_new((uint64_t)BUDGET_MIB * MIB, 0);
    uint64_t told_bytes = 0;
    for (uint64_t i = 1; i <= PEERS; i++) {
        cadre_intake_heard(self, i, 0);
        told_bytes += cadre_intake_window(self);
    }
    cr_expect_lt(told_bytes, (uint64_t)BUDGET_MIB * MIB / 2);
    cr_expect_eq(cadre_intake_window(self), 25 * MIB / (2 * PEERS));
    cadre_intake_clear(self);
    cr_expect_eq(cadre_intake_window(self), 25 * MIB / 16);
    cadre_intake_destroy(&self);
}

Test(intake, grants_no_more_than_half_of_the_budget_and_a_larger_update_alone)
{
    cadre_intake_t *self = cadre_intake_new((uint64_t)BUDGET_MIB * MIB, 0);
    reserve(self, 1, 20 * MIB, 0);
    reserve(self, 2, 20 * MIB, 0);
    reserve(self, 3, 400 * MIB, 0);
    reserve(self, 4, 1 * MIB, 0);
    cr_expect_eq(granted(self, 0), 1);
    cr_expect_eq(granted(self, 0), 2);
    cr_expect_eq(granted(self, 0), 0, "and nobody goes before who waits");
    cr_expect(cadre_intake_is_waiting(self, 3, 7));
    cadre_intake_end(self, 1, 7);
    cr_expect_eq(granted(self, 0), 0);
    cadre_intake_end(self, 2, 7);
    cr_expect_eq(granted(self, 0), 3);
    cr_expect_eq(cadre_intake_granted_bytes(self), 400 * MIB);
    cr_expect_eq(granted(self, 0), 0);
    cadre_intake_end(self, 3, 7);
    cr_expect_eq(granted(self, 0), 4);
    cadre_intake_destroy(&self);
}

Test(intake, lets_one_update_come_after_the_other)
{
    cadre_intake_t *self = cadre_intake_new((uint64_t)1000 * MIB, 0);
    reserve(self, 1, 32 * MIB, 0);
    reserve(self, 2, 32 * MIB, 0);
    cr_expect_eq(granted(self, 0), 1);
    cr_expect_eq(granted(self, CADRE_GRANT_STALL_MS - 1), 0);
    cr_expect_eq(granted(self, CADRE_GRANT_STALL_MS), 1, "maybe the GRANT was lost");
    cr_expect_eq(granted(self, CADRE_GRANT_STALL_MS), 2, "and nothing comes of it");
    cadre_intake_destroy(&self);
}

Test(intake, says_a_grant_again_when_it_is_asked_for_again_and_over_another_connection)
{
    cadre_intake_t *self = cadre_intake_new((uint64_t)BUDGET_MIB * MIB, 0);
    reserve(self, 1, 2, 0);
    cr_expect_eq(granted(self, 0), 1);
    cr_expect_not(give(self, 1, 0, 2, 1, 2));
    cr_expect_not(cadre_intake_is_waiting(self, 1, 7));
    const cadre_task_t again = {CADRE_ROLE_WORKER, 3, 1};
    cadre_intake_reserve(self, &again, 7, 2, 0);
    cr_expect_eq(cadre_intake_collected_bytes(self), 0);
    cadre_task_t to;
    uint64_t request = 0;
    cr_assert(cadre_intake_grant(self, 0, &to, &request));
    cr_expect_eq(to.index, 3);
    cr_expect_eq(request, 7);
    cr_expect_eq(cadre_intake_granted_bytes(self), 2, "once");
    cadre_intake_gone(self, &again);
    cr_expect_not(cadre_intake_is_busy(self));
    cadre_intake_destroy(&self);
}

Test(intake, puts_the_parts_of_an_update_together)
{
    cadre_intake_t *self = cadre_intake_new((uint64_t)BUDGET_MIB * MIB, 0);
    cr_expect_not(give(self, 1, 0, 2, 100, 2), "nothing was reserved");
    reserve(self, 1, 300, 0);
    cr_expect_not(give(self, 1, 0, 3, 100, 3), "it is not granted");
    cr_expect_eq(granted(self, 0), 1);
    cr_expect_not(give(self, 1, 0, 3, 100, 3));
    cr_expect_not(give(self, 1, 2, 3, 100, 3), "one is missing");
    cr_expect_not(give(self, 1, 1, 3, 100, 3));
    cr_expect_eq(cadre_intake_collected_bytes(self), 200);
    cr_expect_not(give(self, 1, 0, 3, 100, 3), "from the beginning");
    cr_expect_eq(cadre_intake_collected_bytes(self), 100);
    cr_expect_not(give(self, 1, 1, 3, 101, 3));
    cr_expect_not(give(self, 1, 2, 3, 100, 3), "more than was reserved");
    cr_expect_not(give(self, 1, 0, 3, 100, 3));
    cr_expect_not(give(self, 1, 1, 3, 100, 3));
    cr_expect(give(self, 1, 2, 3, 100, 3));
    cr_expect_not(cadre_intake_is_busy(self));
    cr_expect_eq(cadre_intake_granted_bytes(self), 0);
    cadre_intake_destroy(&self);
}

Test(intake, withdraws_a_grant_that_nothing_comes_of_when_others_wait)
{
    cadre_intake_t *self = cadre_intake_new((uint64_t)BUDGET_MIB * MIB, 0);
    reserve(self, 1, 100 * MIB, 0);
    cr_expect_eq(granted(self, 0), 1);
    give(self, 1, 0, 2, 100, 2);
    cr_expect_eq(granted(self, 10 * CADRE_GRANT_MS_MAX), 1, "nobody else wants the room");
    reserve(self, 2, 100 * MIB, 0);
    cr_expect_eq(granted(self, CADRE_GRANT_MS_MAX - 1), 0);
    cr_expect_eq(granted(self, CADRE_GRANT_MS_MAX), 0, "in the next turn");
    cr_expect_eq(cadre_intake_collected_bytes(self), 0);
    cr_expect_eq(granted(self, CADRE_GRANT_MS_MAX), 2);
    cadre_intake_destroy(&self);
}

/* A peer asks for room for this request. */
static void
ask(cadre_intake_t *self, uint64_t number, uint64_t request, uint64_t now_ms)
{
    cadre_task_t task = peer(number);
    cadre_intake_heard(self, number, now_ms);
    cadre_intake_reserve(self, &task, request, 100 * MIB, now_ms);
}

Test(intake, withdraws_all_that_silent_peers_have_reserved_together)
{
    cadre_intake_t *self = cadre_intake_new((uint64_t)BUDGET_MIB * MIB, 0);
    for (uint64_t request = 1; request <= 3; request++) {
        ask(self, 1, request, 0);
        ask(self, 2, request, 0);
    }
    ask(self, 3, 1, 0);
    cr_expect_eq(granted(self, 0), 1);
    cadre_intake_heard(self, 3, CADRE_GRANT_MS_MAX - 1); /* it asks what has become of it */
    cr_expect_eq(granted(self, CADRE_GRANT_MS_MAX - 1), 1);
    cr_expect_eq(granted(self, CADRE_GRANT_MS_MAX - 1), 0, "and nobody goes before who waits");
    cr_expect_eq(granted(self, CADRE_GRANT_MS_MAX), 0, "in the next turn");
    cr_expect_eq(granted(self, CADRE_GRANT_MS_MAX), 3);
    cr_expect_not(cadre_intake_is_waiting(self, 2, 3));
    cadre_intake_destroy(&self);
}

Test(intake, excuses_peers_for_as_long_as_they_could_not_be_heard)
{
    enum { LATE_MS = 1000 * 1000 };
    cadre_intake_t *self = cadre_intake_new((uint64_t)BUDGET_MIB * MIB, 0);
    ask(self, 1, 1, 0);
    ask(self, 2, 1, 0);
    cr_expect_eq(granted(self, 0), 1);
    cadre_intake_heard(self, 2, 1000);
    cadre_intake_excuse(self, LATE_MS, 1000 + LATE_MS);
    uint64_t silent_ms = LATE_MS + CADRE_GRANT_MS_MAX; /* since then 1 is */
    while (granted(self, silent_ms - 1)) {
    }
    cr_expect(cadre_intake_is_waiting(self, 1, 1));
    cr_expect_eq(granted(self, silent_ms), 0, "in the next turn");
    cr_expect_eq(granted(self, silent_ms), 2);
    cr_expect_not(cadre_intake_is_waiting(self, 1, 1));
    cadre_intake_destroy(&self);
}
