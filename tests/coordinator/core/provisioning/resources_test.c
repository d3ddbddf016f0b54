/* Resources in the coordinator's core: who is told to build which, which closures go where, and
 * resources whose workers die. */
#include "coordinator/core/provisioning/resources.h"

#include "tests/coordinator/core_fixture.h"

TestSuite(resources, .timeout = 240);

enum { FIRST = 1, SECOND = 2, BOTH = 3 }; /* bit id - 1 of the ids 1 and 2 */

static void
add_resource(fixture_t *self, const char *name)
{
    cadre_resource_t *resource = NULL;
    cadre_closure_t *call = cadre_closure_new(fixture_function(self)->id);
    cr_assert_eq(cadre_catalogue_add_resource(&self->core.catalogue, name, &call, &resource), 0);
}

/* One ps and `workers` workers that have joined; resources "a" and "b" up to `resources`. */
static fixture_t *
cluster_with(uint32_t workers, uint32_t resources)
{
    fixture_t *self = fixture_new(1);
    fixture_join_ps(self);
    for (uint32_t i = 0; i < resources; i++) {
        add_resource(self, i ? "b" : "a");
    }
    for (uint32_t i = 0; i < workers; i++) {
        cadre_task_t worker = fixture_worker(i);
        fixture_hello(self, &worker);
    }
    fixture_turn(self);
    return self;
}

/* A closure that names these resources, in the queue. */
static cadre_closure_t *
schedule(fixture_t *self, uint32_t number, uint64_t resources)
{
    cadre_closure_t *closure = cadre_closure_new(fixture_function(self)->id);
    closure->variables = number;
    closure->resources = cadre_calloc(2, sizeof(uint64_t));
    for (uint64_t id = 1; id <= 2; id++) {
        if (resources >> (id - 1) & 1) {
            closure->resources[closure->resource_count++] = id;
        }
    }
    fixture_watch(self, closure);
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, closure), 0);
    return closure;
}

/* A heartbeat of a worker. */
static void
say_built(fixture_t *self, const cadre_task_t *worker, uint64_t known, uint64_t built)
{
    const cadre_member_t *member =
        cadre_membership_find(&self->core.membership, worker->incarnation);
    cadre_message_t message = fixture_message(worker, CADRE_MESSAGE_HEARTBEAT);
    message.heartbeat = (cadre_heartbeat_message_t){
        .sequence = member->heartbeat + 1, .known = {&known, 1}, .built = {&built, 1}};
    fixture_say(self, worker, &message);
    fixture_turn(self);
}

/* The numbers of the closures that a worker was sent, in order: the message's `variables`. */
static void
expect_closures(const fixture_t *self, const cadre_task_t *worker, const char *numbers)
{
    char text[64] = "";
    const cadre_message_t *sent = NULL;
    for (size_t i = 0; (sent = fixture_sent(self, worker, CADRE_MESSAGE_CLOSURE, i)); i++) {
        size_t length = strlen(text);
        snprintf(text + length, sizeof(text) - length, "%d", (int)sent->closure.variables);
    }
    cr_expect_str_eq(text, numbers);
}

static size_t
told(const fixture_t *self, const cadre_task_t *worker)
{
    return fixture_count(self, worker, CADRE_MESSAGE_RESOURCE);
}

/* Worker `index` joins as process number `life`, is told something or nothing, and dies. */
static size_t
join_and_die(fixture_t *self, uint32_t index, uint64_t life)
{
    cadre_task_t worker = {CADRE_ROLE_WORKER, index, 10000 + life};
    fixture_clear(self);
    fixture_hello(self, &worker);
    fixture_turn(self);
    size_t count = told(self, &worker);
    fixture_gone(self, &worker);
    fixture_turn(self);
    return count;
}

Test(resources, a_closure_waits_for_a_worker_that_has_its_resources)
{
    fixture_t *self = cluster_with(2, 1);
    cadre_task_t first = fixture_worker(0);
    cadre_task_t second = fixture_worker(1);
    cr_expect_eq(told(self, &first), 1);
    cr_expect_eq(fixture_sent(self, &second, CADRE_MESSAGE_RESOURCE, 0)->resource.workers, 2);
    schedule(self, 1, 0);
    schedule(self, 2, FIRST);
    fixture_turn(self);
    expect_closures(self, NULL, "1"); /* it needs none */
    say_built(self, &first, FIRST, 0);
    expect_closures(self, NULL, "1");
    say_built(self, &second, FIRST, FIRST);
    expect_closures(self, NULL, "12");
    cr_expect_eq(fixture_sent(self, &second, CADRE_MESSAGE_CLOSURE, 0)->closure.resources.items[0],
                 1);
    fixture_destroy(&self);
}

Test(resources, what_a_worker_does_not_know_is_told_again)
{
    fixture_t *self = cluster_with(1, 2);
    cadre_task_t worker = fixture_worker(0);
    cr_expect_eq(told(self, &worker), 2);
    fixture_clear(self);
    say_built(self, &worker, FIRST, 0);
    cr_expect_eq(told(self, &worker), 0, "it is on its way");
    self->now_ms += self->core.options.resend_ms;
    say_built(self, &worker, FIRST, 0);
    cr_expect_eq(told(self, &worker), 1);
    cr_expect_str_eq(fixture_sent(self, &worker, CADRE_MESSAGE_RESOURCE, 0)->resource.name, "b");
    fixture_clear(self);
    fixture_hello(self, &worker);
    cr_expect_eq((fixture_turn(self), told(self, &worker)), 2, "its connection was new");
    cadre_task_t other = fixture_worker(1);
    fixture_hello(self, &other);
    cr_expect_eq((fixture_turn(self), told(self, &other)), 2, "who joins is told all");
    fixture_destroy(&self);
}

/* Resource 1 hangs; what needs only 2, or nothing, is not behind it. */
Test(resources, those_that_wait_for_a_build_hold_up_nobody_behind_them)
{
    fixture_t *self = cluster_with(1, 2);
    cadre_task_t worker = fixture_worker(0);
    schedule(self, 1, FIRST);
    schedule(self, 2, BOTH);
    schedule(self, 3, SECOND);
    schedule(self, 4, 0);
    fixture_turn(self);
    expect_closures(self, &worker, "4");
    say_built(self, &worker, BOTH, SECOND);
    expect_closures(self, &worker, "43");
    fixture_done(self, &worker, 1, 1);
    fixture_done(self, &worker, 2, 1);
    schedule(self, 5, SECOND);
    schedule(self, 6, 0);
    say_built(self, &worker, BOTH, BOTH);
    expect_closures(self, &worker, "4312"); /* in the order of the queue */
    fixture_done(self, &worker, 3, 1);
    fixture_done(self, &worker, 4, 1);
    fixture_turn(self);
    expect_closures(self, &worker, "431256");
    fixture_destroy(&self);
}

Test(resources, after_three_losses_one_worker_alone_builds_and_does_nothing_else)
{
    fixture_t *self = cluster_with(0, 2);
    for (uint32_t i = 0; i < CADRE_SUSPECT_DEATHS; i++) {
        cr_assert_eq(join_and_die(self, 0, i), 2);
    }
    fixture_clear(self);
    cadre_task_t first = fixture_worker(0);
    cadre_task_t second = fixture_worker(1);
    fixture_hello(self, &first);
    fixture_hello(self, &second);
    fixture_turn(self);
    cr_expect_eq(told(self, &first) + told(self, &second), 0, "nobody needs them");
    schedule(self, 2, BOTH);
    fixture_turn(self);
    cr_expect_eq(told(self, &first), 1);
    cr_expect_eq(told(self, &second), 1, "both are suspect, each goes to another worker");
    schedule(self, 1, 0);
    fixture_turn(self);
    expect_closures(self, NULL, "");
    uint64_t id = fixture_sent(self, &first, CADRE_MESSAGE_RESOURCE, 0)->resource.id;
    say_built(self, &first, id, id);
    expect_closures(self, &first, "1");
    cr_expect_eq(told(self, &second), 1, "it is on trial still");
    say_built(self, &second, BOTH ^ id, BOTH ^ id);
    cr_expect_eq(told(self, &first), 2, "everybody builds what was built");
    cr_expect_eq(told(self, &second), 2);
    fixture_destroy(&self);
}

Test(resources, a_trial_waits_until_its_worker_runs_nothing)
{
    fixture_t *self = cluster_with(0, 1);
    cadre_task_t worker = fixture_worker(1);
    for (uint32_t i = 0; i < CADRE_SUSPECT_DEATHS - 1; i++) {
        join_and_die(self, 0, i);
    }
    fixture_hello(self, &worker);
    fixture_turn(self);
    say_built(self, &worker, FIRST, 0); /* it was told before, and goes on */
    join_and_die(self, 0, 9);
    schedule(self, 1, 0);
    schedule(self, 3, FIRST);
    fixture_turn(self);
    expect_closures(self, &worker, "1");
    cadre_task_t other = fixture_worker(2);
    fixture_hello(self, &other);
    cadre_membership_find(&self->core.membership, other.incarnation)->draining = true;
    fixture_turn(self);
    cr_expect_eq(told(self, &other), 0, "it is about to leave");
    cadre_membership_find(&self->core.membership, other.incarnation)->draining = false;
    cadre_closure_t *closure = schedule(self, 2, 0);
    closure->tag = CADRE_TAG_NONE;
    fixture_turn(self);
    cr_expect_eq(told(self, &other), 1);
    expect_closures(self, &other, "");
    fixture_destroy(&self);
}

Test(resources, a_trial_that_does_not_end_does_not_keep_its_worker_from_everything_else)
{
    fixture_t *self = cluster_with(0, 1);
    for (uint32_t i = 0; i < CADRE_SUSPECT_DEATHS; i++) {
        join_and_die(self, 0, i);
    }
    cadre_task_t worker = fixture_worker(0);
    fixture_clear(self);
    fixture_hello(self, &worker);
    schedule(self, 1, FIRST);
    schedule(self, 2, SECOND);
    schedule(self, 3, 0);
    fixture_turn(self);
    cr_assert_eq(told(self, &worker), 1);
    add_resource(self, "b");
    cadre_resources_announce(&self->core.resources);
    self->now_ms += CADRE_ALONE_MS - 1;
    say_built(self, &worker, FIRST, 0);
    cr_expect_eq(told(self, &worker), 1);
    expect_closures(self, &worker, "");
    self->now_ms++;
    say_built(self, &worker, FIRST, 0);
    cr_expect_eq(told(self, &worker), 2, "what came meanwhile");
    expect_closures(self, &worker, "3");
    say_built(self, &worker, BOTH, SECOND);
    expect_closures(self, &worker, "32");
    fixture_gone(self, &worker);
    cr_expect_eq(self->core.catalogue.resources[0]->suspicion.deaths, CADRE_SUSPECT_DEATHS + 1,
                 "it may still kill");
    cr_expect_eq(self->core.catalogue.resources[1]->suspicion.deaths, 0);
    fixture_destroy(&self);
}

Test(resources, what_came_during_the_trial_of_a_closure_is_told_after_it)
{
    fixture_t *self = cluster_with(1, 0);
    cadre_task_t worker = fixture_worker(0);
    cadre_member_t *member = self->core.membership.workers[0];
    member->trial_closure = 1; /* a suspect has it for itself */
    member->alone_until_ms = UINT64_MAX;
    add_resource(self, "a");
    cadre_resources_announce(&self->core.resources);
    say_built(self, &worker, 0, 0);
    cr_expect_eq(told(self, &worker), 0);
    member->trial_closure = 0;
    say_built(self, &worker, 0, 0);
    cr_expect_eq(told(self, &worker), 1);
    say_built(self, &worker, FIRST, FIRST);
    cr_expect_eq(told(self, &worker), 1);
    fixture_destroy(&self);
}

Test(resources, a_trial_goes_on_elsewhere_when_its_worker_does_not_reach_a_shard)
{
    fixture_t *self = cluster_with(0, 1);
    for (uint32_t i = 0; i < CADRE_SUSPECT_DEATHS; i++) {
        join_and_die(self, 0, i);
    }
    fixture_clear(self);
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    schedule(self, 1, FIRST);
    fixture_hello(self, &workers[0]);
    fixture_hello(self, &workers[1]);
    fixture_turn(self);
    cr_assert_eq(told(self, &workers[0]) + told(self, &workers[1]), 1);
    size_t first = told(self, &workers[1]);
    const uint64_t shard = 1;
    cadre_message_t message = fixture_message(&workers[first], CADRE_MESSAGE_HEARTBEAT);
    message.heartbeat = (cadre_heartbeat_message_t){.sequence = 1, .unreachable = {&shard, 1}};
    fixture_say(self, &workers[first], &message);
    fixture_turn(self);
    cr_expect_eq(told(self, &workers[1 - first]), 1);
    say_built(self, &workers[1 - first], FIRST, FIRST);
    expect_closures(self, &workers[1 - first], "1");
    fixture_destroy(&self);
}

Test(resources, at_the_limit_a_resource_has_failed_and_fails_its_closures)
{
    fixture_t *self = cluster_with(0, 1);
    schedule(self, 1, FIRST);
    for (uint64_t life = 0; life < CADRE_POISON_DEATHS; life++) {
        cr_expect_eq(self->ended_count, 0);
        cr_assert_eq(join_and_die(self, 0, life), 1);
    }
    cr_assert_eq(self->ended_count, 1);
    cr_expect_eq(self->ended[0].status, CADRE_EPOISON);
    cr_expect_eq(self->core.begun.refused, 1, "it was never begun: no checkpoint counts it");
    cr_expect_str_eq(self->ended[0].text,
                     "function work: resource a: 10 workers died while they built it by function "
                     "work: worker 0 (process 4711, the last of 10)");
    cr_expect(fixture_logged(self, "resource_failed"));
    fixture_destroy(&self);
}

/* "a" kills at once, "b" is only slow: it is tried alone, and is out of the way. */
Test(resources, one_that_is_innocent_is_built_while_the_other_one_goes_on_to_fail)
{
    fixture_t *self = cluster_with(0, 2);
    schedule(self, 1, BOTH);
    uint64_t life = 0;
    for (; life < CADRE_SUSPECT_DEATHS; life++) {
        cr_assert_eq(join_and_die(self, 0, life), 2);
    }
    cr_assert_eq(join_and_die(self, 0, life++), 1);
    cr_assert_eq(self->core.catalogue.resources[0]->suspicion.deaths, CADRE_SUSPECT_DEATHS + 1);
    cadre_task_t worker = {CADRE_ROLE_WORKER, 0, 10000 + life++};
    fixture_clear(self);
    fixture_hello(self, &worker);
    fixture_turn(self);
    cr_assert_eq(told(self, &worker), 1);
    cr_expect_str_eq(fixture_sent(self, &worker, CADRE_MESSAGE_RESOURCE, 0)->resource.name, "b");
    say_built(self, &worker, SECOND, SECOND);
    cr_expect_eq(self->core.catalogue.resources[1]->suspicion.deaths, 0);
    cr_expect_eq(told(self, &worker), 2, "then the other one");
    expect_closures(self, &worker, "");
    fixture_destroy(&self);
}

Test(resources, one_that_is_built_at_its_last_try_is_for_all_and_the_row_is_over)
{
    fixture_t *self = cluster_with(0, 1);
    schedule(self, 1, FIRST);
    uint64_t life = 0;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < CADRE_POISON_DEATHS - 1; i++) {
            cr_assert_eq(join_and_die(self, 0, life++), 1);
        }
        cadre_task_t worker = {CADRE_ROLE_WORKER, 0, 10000 + life++};
        fixture_clear(self);
        fixture_hello(self, &worker);
        fixture_turn(self);
        say_built(self, &worker, FIRST, FIRST);
        expect_closures(self, &worker, "1");
        fixture_gone(self, &worker);
        fixture_turn(self);
    }
    cr_expect_eq(self->ended_count, 0);
    fixture_destroy(&self);
}

Test(resources, many_that_go_at_once_are_not_taken_for_a_row)
{
    enum { MANY = 2 * CADRE_POISON_DEATHS };
    fixture_t *self = cluster_with(MANY, 1);
    schedule(self, 1, FIRST);
    for (uint32_t i = 0; i < MANY; i++) {
        cadre_task_t worker = fixture_worker(i);
        fixture_gone(self, &worker);
    }
    fixture_turn(self);
    cr_expect_eq(self->ended_count, 0);
    cr_expect_eq(self->core.catalogue.resources[0]->suspicion.deaths, CADRE_SUSPECT_DEATHS);
    fixture_destroy(&self);
}

Test(resources, who_leaves_or_was_only_cut_off_is_not_counted)
{
    fixture_t *self = cluster_with(2, 1);
    const cadre_resource_t *resource = self->core.catalogue.resources[0];
    cadre_task_t first = fixture_worker(0);
    cadre_message_t goodbye = fixture_message(&first, CADRE_MESSAGE_GOODBYE);
    goodbye.goodbye.reason = "drained";
    fixture_say(self, &first, &goodbye);
    cr_expect_eq(resource->suspicion.deaths, 0);
    for (int i = 0; i < CADRE_SUSPECT_DEATHS + 1; i++) {
        cadre_task_t second = fixture_worker(1);
        fixture_gone(self, &second);
        cr_expect_eq(resource->suspicion.deaths, 1);
        fixture_hello(self, &second);
        fixture_turn(self);
        cr_expect_eq(resource->suspicion.deaths, 0);
    }
    fixture_destroy(&self);
}

Test(resources, closures_of_a_failed_one_fail_whenever_they_come_and_others_go_on)
{
    fixture_t *self = cluster_with(0, 1);
    char text[CADRE_CLOSURE_ERROR_SIZE];
    schedule(self, 9, FIRST);
    for (uint64_t life = 0; life < CADRE_POISON_DEATHS; life++) {
        join_and_die(self, 0, life);
    }
    cr_expect_eq(cadre_closure_queue_raise(&self->core.queue, text), CADRE_EPOISON);
    cadre_task_t worker = fixture_worker(0);
    fixture_clear(self);
    fixture_hello(self, &worker);
    schedule(self, 1, 0);
    fixture_turn(self);
    cr_expect_eq(told(self, &worker), 0, "nobody builds it any more");
    expect_closures(self, &worker, "1");
    fixture_done(self, &worker, 1, 1);
    for (uint32_t number = 2; number < 4; number++) {
        schedule(self, number, FIRST);
        fixture_turn(self);
        cr_expect_eq(self->ended[number].status, CADRE_EPOISON);
        cr_expect_eq(cadre_closure_queue_raise(&self->core.queue, text), CADRE_EPOISON);
    }
    fixture_destroy(&self);
}
