#include "ps/core/admission.h"

#include <criterion/criterion.h>

TestSuite(admission, .timeout = 240);

enum { MIB = 1 << 20, BUDGET_MIB = 100 };

static cadre_task_t
peer(uint64_t number)
{
    return (cadre_task_t){CADRE_ROLE_WORKER, 0, number};
}

static cadre_admission_answer_t
ask(cadre_admission_t *self, uint64_t number, size_t mib, uint64_t now_ms)
{
    cadre_task_t task = peer(number);
    return cadre_admission_ask(self, &task, mib * MIB, now_ms);
}

static void
hold(cadre_admission_t *self, uint64_t number, size_t mib)
{
    cadre_task_t task = peer(number);
    cadre_sending_add(cadre_admission_sending(self, &task), mib * MIB);
}

static void
let_go(cadre_admission_t *self, uint64_t number, size_t mib)
{
    cadre_task_t task = peer(number);
    cadre_sending_end(cadre_admission_sending(self, &task), mib * MIB);
}

/* The peer has an answer and takes it. */
static void
let_read(cadre_admission_t *self, uint64_t number)
{
    hold(self, number, 1);
    ask(self, number, 1, 0);
    let_go(self, number, 1);
    ask(self, number, 1, 1);
}

static void
wait_for(cadre_admission_t *self, uint64_t number, uint64_t request)
{
    cadre_task_t task = peer(number);
    cadre_message_t message = {.type = CADRE_MESSAGE_PULL, .request = request};
    cadre_admission_wait(self, &task, &message);
}

Test(admission, answers_who_holds_nothing_however_large_it_is)
{
    cadre_admission_t *self = cadre_admission_new((uint64_t)BUDGET_MIB * MIB);
    cr_expect_eq(ask(self, 1, 1000, 0), CADRE_ADMISSION_NOW);
    cadre_admission_destroy(&self);
}

Test(admission, lets_a_link_have_so_much_at_a_time)
{
    static const size_t pieces[] = {1, 22, 1, 8}; /* MiB of an answer */
    cadre_admission_t *self = cadre_admission_new((uint64_t)BUDGET_MIB * MIB);
    for (size_t i = 0; i < 4; i++) {
        hold(self, 1, pieces[i]);
    }
    cr_expect_eq(ask(self, 2, 16, 0), CADRE_ADMISSION_NOW);
    cr_expect_eq(ask(self, 2, 17, 0), CADRE_ADMISSION_SHARED);
    cr_expect_eq(ask(self, 2, 0, 0), CADRE_ADMISSION_NOW, "it has them already");
    let_go(self, 1, 1);
    cr_expect_eq(ask(self, 2, 17, 1), CADRE_ADMISSION_NOW);
    let_go(self, 1, 22);
    cr_expect_eq(ask(self, 2, 41, 2), CADRE_ADMISSION_SHARED);
    let_go(self, 1, 1);
    cr_expect_eq(ask(self, 2, 41, 3), CADRE_ADMISSION_NOW, "while the last of the one before goes");
    let_go(self, 1, 8);
    cadre_admission_destroy(&self);
}

Test(admission, does_not_wait_for_a_peer_that_does_not_read)
{
    cadre_admission_t *self = cadre_admission_new((uint64_t)BUDGET_MIB * MIB);
    let_read(self, 2);
    hold(self, 1, 1);
    hold(self, 1, 39);
    cr_expect_eq(ask(self, 2, 41, 2), CADRE_ADMISSION_SHARED);
    cr_expect_eq(ask(self, 2, 40, CADRE_STALL_MS), CADRE_ADMISSION_SHARED);
    cr_expect_eq(ask(self, 2, 40, CADRE_STALL_MS + 2), CADRE_ADMISSION_NOW);
    let_go(self, 1, 1);
    cr_expect_eq(ask(self, 2, 40, CADRE_STALL_MS + 3), CADRE_ADMISSION_SHARED, "it reads again");
    let_go(self, 1, 39);
    cadre_admission_destroy(&self);
}

Test(admission, bounds_what_one_peer_and_all_of_them_hold)
{
    enum { LATER_MS = CADRE_STALL_MS + 2 };
    cadre_admission_t *self = cadre_admission_new((uint64_t)BUDGET_MIB * MIB);
    let_read(self, 1);
    let_read(self, 2);
    hold(self, 1, 60);
    ask(self, 1, 1, 2);
    cr_expect_eq(ask(self, 1, 5, LATER_MS), CADRE_ADMISSION_PEER);
    cr_expect_eq(ask(self, 1, 4, LATER_MS), CADRE_ADMISSION_NOW);
    cr_expect_eq(ask(self, 2, 40, LATER_MS), CADRE_ADMISSION_NOW);
    cr_expect_eq(ask(self, 2, 41, LATER_MS), CADRE_ADMISSION_SHARED, "the budget");
    let_go(self, 1, 60);
    cadre_admission_destroy(&self);
}

Test(admission, keeps_half_of_the_budget_for_those_that_read)
{
    cadre_admission_t *self = cadre_admission_new((uint64_t)BUDGET_MIB * MIB);
    const cadre_task_t coordinator = {CADRE_ROLE_COORDINATOR, 0, 77};
    let_read(self, 1);
    hold(self, 2, 18);
    hold(self, 3, 18);
    cr_expect_eq(ask(self, 4, 12, 2), CADRE_ADMISSION_NOW);
    hold(self, 4, 12);
    ask(self, 4, 1, 3);
    cr_expect_eq(ask(self, 5, 3, 1000), CADRE_ADMISSION_PEER, "who knows whether it will");
    cr_expect_eq(ask(self, 1, 50, 1000), CADRE_ADMISSION_NOW);
    cr_expect_eq(cadre_admission_ask(self, &coordinator, 50 * (size_t)MIB, 1000),
                 CADRE_ADMISSION_NOW);
    cadre_admission_tidy(self, 1000);
    cr_expect_eq(ask(self, 1, 50, 1001), CADRE_ADMISSION_NOW, "it is remembered");
    cadre_admission_tidy(self, 1001 + CADRE_PEER_KEPT_MS);
    cr_expect_eq(ask(self, 1, 50, 1001 + CADRE_PEER_KEPT_MS), CADRE_ADMISSION_PEER, "not for ever");
    let_go(self, 2, 18);
    let_go(self, 3, 18);
    let_go(self, 4, 12);
    cadre_admission_destroy(&self);
}

Test(admission, keeps_what_waits_in_order_once_and_for_the_newest_connection)
{
    cadre_admission_t *self = cadre_admission_new((uint64_t)BUDGET_MIB * MIB);
    wait_for(self, 1, 7);
    wait_for(self, 2, 8);
    cadre_task_t again = {CADRE_ROLE_WORKER, 5, 1};
    cadre_message_t message = {.type = CADRE_MESSAGE_PULL, .request = 7};
    cadre_admission_wait(self, &again, &message);
    cadre_task_t from;
    const cadre_message_t *waiting = NULL;
    cr_expect(cadre_admission_is_waiting(self, 1, 7));
    cr_expect_not(cadre_admission_is_waiting(self, 1, 8));
    cr_assert(cadre_admission_at(self, 0, &from, &waiting));
    cr_expect_eq(from.index, 5);
    cr_expect_eq(waiting->request, 7);
    cadre_admission_take(self, 0, &message);
    cr_assert(cadre_admission_at(self, 0, &from, &waiting));
    cr_expect_eq(waiting->request, 8);
    cr_expect_not(cadre_admission_at(self, 1, &from, &waiting));
    cadre_admission_tidy(self, 0);
    cadre_admission_destroy(&self);
}
