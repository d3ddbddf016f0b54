/* Workers that do not reach a shard: what needs it goes to others, and every wait has a name. */
#include "coordinator/core/dispatch/reach.h"

#include "coordinator/core/dispatch/waiting.h"
#include "coordinator/status_json.h"
#include "tests/coordinator/core_fixture.h"

TestSuite(reach, .timeout = 240);

static void
beat(fixture_t *self, uint32_t index, uint64_t sequence, uint64_t unreachable, cadre_u64s_t waits)
{
    cadre_task_t worker = fixture_worker(index);
    cadre_message_t message = fixture_message(&worker, CADRE_MESSAGE_HEARTBEAT);
    message.heartbeat = (cadre_heartbeat_message_t){
        .sequence = sequence, .unreachable = {&unreachable, unreachable ? 1 : 0}, .waits = waits};
    fixture_say(self, &worker, &message);
    fixture_turn(self);
}

static void
give_back(fixture_t *self, uint32_t index, const cadre_closure_t *closure)
{
    cadre_task_t worker = fixture_worker(index);
    cadre_message_t message = fixture_message(&worker, CADRE_MESSAGE_CLOSURE_FAILED);
    message.closure_failed = (cadre_closure_failed_message_t){.id = closure->id,
                                                              .attempt = closure->attempt,
                                                              .reason = CADRE_FAILURE_SHARD,
                                                              .status = (uint64_t)-CADRE_ETIMEOUT,
                                                              .shard = 0,
                                                              .text = "it says nothing"};
    fixture_say(self, &worker, &message);
    fixture_turn(self);
}

static uint32_t
holder(const cadre_closure_t *closure)
{
    const cadre_member_t *member = closure->worker;
    return closure->state == CADRE_CLOSURE_IN_FLIGHT ? member->index : UINT32_MAX;
}

static size_t
held_by(const fixture_t *self, uint32_t index)
{
    return self->core.membership.workers[index]->in_flight.count;
}

static const cadre_u64s_t no_waits = {NULL, 0};

Test(reach, a_closure_that_is_given_back_goes_to_a_worker_that_reaches_its_shard)
{
    fixture_t *self = cluster(2);
    cadre_closure_t *closure = fixture_schedule(self, 1);
    fixture_turn(self);
    uint32_t first = holder(closure);
    beat(self, first, 1, 1, no_waits);
    cr_expect(fixture_logged(self, "shard_unreachable"));
    give_back(self, first, closure);
    cr_assert_eq(holder(closure), 1 - first);
    cr_expect(fixture_logged(self, "closure_returned"));
    cr_expect_eq(closure->suspicion.deaths, 0);
    cr_expect_eq(self->core.totals.failed, 0);
    for (uint32_t i = 0; i < 10; i++) {
        fixture_schedule(self, 2);
    }
    fixture_turn(self);
    cr_expect_eq(held_by(self, first), 0, "closures of that function need the shard");
    beat(self, first, 2, 0, no_waits);
    cr_expect(fixture_logged(self, "shard_reachable"));
    cr_expect_gt(held_by(self, first), 0);
    fixture_destroy(&self);
}

Test(reach, a_report_names_the_shard_when_the_heartbeat_was_lost)
{
    fixture_t *self = cluster(2);
    cadre_closure_t *closure = fixture_schedule(self, 1);
    fixture_turn(self);
    uint32_t first = holder(closure);
    give_back(self, first, closure);
    cr_assert_eq(holder(closure), 1 - first);
    fixture_destroy(&self);
}

Test(reach, a_function_that_does_not_need_the_shard_goes_on)
{
    fixture_t *self = cluster(1);
    cadre_closure_t *closure = fixture_schedule(self, 1);
    fixture_turn(self);
    beat(self, 0, 1, 1, no_waits);
    give_back(self, 0, closure);
    cr_assert_eq(holder(closure), UINT32_MAX);
    bool is_new = false;
    cadre_function_t like = {.kind = CADRE_FUNCTION_NATIVE, .name = (char *)(uintptr_t) "other"};
    cadre_function_t *other = NULL;
    cadre_catalogue_add_function(&self->core.catalogue, &like, &other, &is_new);
    cadre_closure_t *passes = cadre_closure_new(other->id);
    fixture_watch(self, passes);
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, passes), 0);
    fixture_turn(self);
    cr_expect_eq(holder(passes), 0);
    cr_expect_eq(holder(closure), UINT32_MAX);
    fixture_destroy(&self);
}

Test(reach, where_nobody_reaches_a_shard_its_ps_lives_and_what_waits_has_a_name)
{
    fixture_t *self = cluster(2);
    char text[CADRE_WAITING_TEXT_SIZE];
    cadre_closure_t *closure = fixture_schedule(self, 1);
    fixture_turn(self);
    beat(self, 0, 1, 1, no_waits);
    cr_expect_eq(cadre_reach_lost_shard(&self->core.reach), UINT32_MAX, "one of two does");
    beat(self, 1, 1, 1, no_waits);
    give_back(self, holder(closure), closure);
    cr_assert_eq(holder(closure), UINT32_MAX);
    cr_expect_eq(cadre_reach_lost_shard(&self->core.reach), 0);
    cr_expect(strstr(cadre_waiting_words(&self->core.waiting, "1 closure", text),
                     "no worker reaches ps 0"),
              "%s", text);
    cr_expect_eq(self->core.recovery.places[0].state, CADRE_PLACE_READY);
    beat(self, 1, 2, 0, no_waits);
    cr_expect_eq(holder(closure), 1);
    fixture_destroy(&self);
}

Test(reach, closures_of_other_functions_do_not_wait_behind_those_that_cannot_run)
{
    fixture_t *self = cluster(1);
    cadre_closure_t *closure = fixture_schedule(self, 1);
    fixture_turn(self);
    beat(self, 0, 1, 1, no_waits);
    give_back(self, 0, closure);
    for (int i = 0; i < 500; i++) {
        fixture_schedule(self, 1);
    }
    bool is_new = false;
    cadre_function_t like = {.kind = CADRE_FUNCTION_NATIVE, .name = (char *)(uintptr_t) "other"};
    cadre_function_t *other = NULL;
    cadre_catalogue_add_function(&self->core.catalogue, &like, &other, &is_new);
    cadre_closure_t *near = cadre_closure_new(other->id);
    fixture_watch(self, near);
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, near), 0);
    fixture_schedule(self, 1);
    cadre_closure_t *far = cadre_closure_new(other->id);
    fixture_watch(self, far);
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, far), 0);
    fixture_turn(self);
    cr_expect_eq(holder(near), 0);
    cr_expect_eq(holder(far), 0);
    cr_expect_eq(holder(closure), UINT32_MAX);
    fixture_destroy(&self);
}

Test(reach, status_names_closure_worker_and_shard)
{
    fixture_t *self = cluster(1);
    char text[CADRE_WAITING_TEXT_SIZE];
    fixture_schedule(self, 1);
    fixture_turn(self);
    const uint64_t waits[] = {1, 0, 7500, 12345, 0, 9000};
    beat(self, 0, 1, 1, (cadre_u64s_t){waits, 6});
    cadre_auto(cadre_free) char *status = cadre_core_status_json(&self->core, self->now_ms);
    cr_expect(strstr(status, "\"waits\":[{\"closure\":1,\"function\":\"work\",\"shard\":0,"
                             "\"ms\":7500}]"),
              "%s", status);
    cr_expect(strstr(status, "\"unreachable\":[0]"), "%s", status);
    beat(self, 0, 2, 0, (cadre_u64s_t){waits, 6});
    for (int i = 0; i < 10; i++) {
        self->now_ms += 1000;
        cadre_membership_heard(self->core.membership.ps[0], self->now_ms);
        beat(self, 0, 3 + (uint64_t)i, 0, (cadre_u64s_t){waits, 6});
    }
    cr_expect(strstr(cadre_waiting_words(&self->core.waiting, "1 closure", text),
                     "waits for ps 0 for 7 s"),
              "%s", text);
    fixture_destroy(&self);
}
