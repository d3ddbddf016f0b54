/* Completion queues: the ids of docs/conformance.md from C14 on. */
#include <cadre/completion.h>
#include <poll.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_completion, .timeout = 900);

static cadre_completion_t *
make_completion(stage_t *stage)
{
    cadre_completion_t *completion = NULL;
    OK(cadre_completion_create(stage->coordinator, &completion));
    return completion;
}

static bool
is_readable(cadre_completion_t *completion, int timeout_ms)
{
    struct pollfd item = {.events = POLLIN};
    OK(cadre_completion_fd(completion, &item.fd));
    return poll(&item, 1, timeout_ms) == 1;
}

Test(conformance_completion, C14_futures_come_in_the_order_in_which_their_closures_end)
{
    stage_t stage;
    stage_open(&stage, 1, 3);
    cadre_completion_t *completion = make_completion(&stage);
    hold_t holds[] = {stage_hold(&stage, "a"), stage_hold(&stage, "b"), stage_hold(&stage, "c")};
    for (int i = 0; i < 3; i++) {
        OK(cadre_completion_add(completion, holds[i].future));
        hold_wait(&holds[i], 1);
    }
    cadre_future_t *future = NULL;
    FAILS(cadre_completion_next(completion, &future, 0), CADRE_ETIMEOUT, "");
    cr_expect_not(is_readable(completion, 0));

    const int order[] = {2, 0, 1};
    for (int i = 0; i < 3; i++) {
        hold_release(&holds[order[i]]);
        OK(cadre_future_wait(holds[order[i]].future, LOCAL_WAIT_MS));
    }
    cr_expect(is_readable(completion, LOCAL_WAIT_MS));
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(cadre_completion_count(completion), (size_t)(3 - i));
        OK(cadre_completion_next(completion, &future, LOCAL_WAIT_MS));
        cr_expect_eq(future, holds[order[i]].future, "number %d", i);
    }
    cr_expect_not(is_readable(completion, 0));
    FAILS(cadre_completion_next(completion, &future, LOCAL_WAIT_MS), CADRE_ENOTFOUND, "no future");
    for (int i = 0; i < 3; i++) {
        hold_fini(&holds[i]);
    }
    cadre_completion_destroy(&completion);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_completion, C15_many_closures_come_once_each_by_poll)
{
    enum { CLOSURES = 300 };
    stage_t stage;
    stage_open_capacity(&stage, 1, 2, capacity);
    cadre_completion_t *completion = make_completion(&stage);
    const cadre_function_t *function = stage_function(&stage, "add_one");
    for (int i = 0; i < CLOSURES; i++) {
        cadre_future_t *future = NULL;
        OK(cadre_coordinator_schedule(stage.coordinator, function, NULL, LOCAL_WAIT_MS, &future));
        OK(cadre_completion_add(completion, future));
    }
    uint64_t ids = 0;
    int count = 0;
    while (cadre_completion_count(completion) > 0) {
        cadre_future_t *future = NULL;
        cr_assert(is_readable(completion, LOCAL_WAIT_MS));
        OK(cadre_completion_next(completion, &future, 0));
        OK(cadre_future_wait(future, 0));
        ids += cadre_future_closure_id(future);
        cadre_future_destroy(&future);
        count++;
    }
    cr_expect_eq(count, CLOSURES);
    cr_expect_eq(ids, (uint64_t)CLOSURES * (CLOSURES + 1) / 2);
    stage_join(&stage);
    stage_expect(&stage, CLOSURES);
    cadre_completion_destroy(&completion);
    stage_close(&stage);
}

Test(conformance_completion, C16_a_future_is_in_one_queue_and_tells_failures)
{
    stage_t stage;
    stage_open(&stage, 1, 1);
    cadre_completion_t *completion = make_completion(&stage);
    cadre_completion_t *another = make_completion(&stage);
    cadre_tensor_t text = stage_text("the soup is cold");
    cadre_future_t *failing = stage_call(&stage, "fail", "text", &text);
    cadre_future_t *given = NULL;
    FAILS(cadre_future_wait(failing, LOCAL_WAIT_MS), CADRE_EFUNCTION, "");
    OK(cadre_completion_add(completion, failing)); /* it has ended */
    FAILS(cadre_completion_add(another, failing), CADRE_EEXISTS, "completion queue already");
    FAILS(cadre_completion_add(completion, failing), CADRE_EEXISTS, "completion queue already");
    FAILS(cadre_completion_add(completion, NULL), CADRE_EINVALID, "no future");
    FAILS(cadre_completion_next(NULL, &given, 0), CADRE_EINVALID, "no completion queue");
    OK(cadre_completion_next(completion, &given, 0));
    cr_expect_eq(given, failing);
    FAILS(cadre_future_wait(given, 0), CADRE_EFUNCTION, "the soup is cold");
    OK(cadre_completion_add(another, given)); /* it is in none again */
    cadre_future_destroy(&failing);
    cr_expect_eq(cadre_completion_count(another), 0);
    cr_expect_not(is_readable(another, 0));
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EFUNCTION, "");

    hold_t hold = stage_hold(&stage, "held");
    OK(cadre_completion_add(completion, hold.future));
    hold_wait(&hold, 1);
    hold_release(&hold);
    stage_join(&stage);
    stage_close(&stage);
    OK(cadre_completion_next(completion, &given, LOCAL_WAIT_MS)); /* also when that is closed */
    cadre_completion_destroy(&completion);
    cadre_completion_destroy(&another);
    hold_fini(&hold);
}
