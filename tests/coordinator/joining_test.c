/* Through the core: which place a task gets, where it and the coordinator disagree */
#include "tests/coordinator/core_fixture.h"

TestSuite(joining, .timeout = 240);

/* One whose WELCOME was said twice, by this coordinator and an earlier one, may believe either. */
Test(joining, a_ps_that_believes_it_serves_another_shard_is_taken_at_its_word)
{
    fixture_t *self = fixture_new(2);
    cadre_task_t ps = {CADRE_ROLE_PS, CADRE_INDEX_ANY, 2000};
    fixture_hello(self, &ps);
    fixture_turn(self);
    cr_assert_eq(fixture_sent(self, NULL, CADRE_MESSAGE_WELCOME, 0)->welcome.index, 0);
    fixture_clear(self);
    fixture_hello_as(self, &ps, 1, (cadre_u64s_t){NULL, 0});
    fixture_turn(self);
    cr_assert_eq(fixture_sent(self, NULL, CADRE_MESSAGE_WELCOME, 0)->welcome.index, 1);
    cr_assert_null(self->core.membership.ps[0]);
    cr_assert_not_null(self->core.membership.ps[1]);
    cr_assert(fixture_logged(self, "ps_lost"));
    cr_assert_eq(self->core.shards[0].state, CADRE_PLACE_AWAY);
    cr_assert_eq(self->core.shards[1].state, CADRE_PLACE_RESTORING);
    fixture_destroy(&self);
}

/* It held shard 1, was taken for shard 0 by a HELLO that came late, and a RESTORE of that one may
 * have reached it before it was taken for shard 1 again. */
Test(joining, a_ps_that_was_taken_for_another_is_intact_nowhere)
{
    fixture_t *self = fixture_new(2);
    cadre_task_t first = fixture_ps(0);
    cadre_task_t ps = {CADRE_ROLE_PS, CADRE_INDEX_ANY, 2000 + 7};
    fixture_hello(self, &first);
    fixture_hello(self, &ps);
    fixture_turn(self);
    fixture_reply(self, &ps, fixture_sent(self, &ps, CADRE_MESSAGE_RESTORE, 0));
    fixture_turn(self);
    cr_assert_eq(self->core.shards[1].state, CADRE_PLACE_READY);
    cadre_core_gone(&self->core, &first, self->now_ms);
    fixture_hello_as(self, &ps, 0, (cadre_u64s_t){NULL, 0});
    fixture_turn(self);
    cr_assert_eq(self->core.shards[0].state, CADRE_PLACE_RESTORING);
    cadre_message_t message = fixture_message(&ps, CADRE_MESSAGE_HELLO);
    message.hello = (cadre_hello_message_t){.role = CADRE_ROLE_PS,
                                            .index = 1,
                                            .address = "tcp://127.0.0.1:5555",
                                            .session = 77,
                                            .generation = self->core.shards[1].generation};
    fixture_clear(self);
    fixture_say(self, &ps, &message);
    fixture_turn(self);
    cr_assert_eq(self->core.shards[1].state, CADRE_PLACE_RESTORING);
    const cadre_message_t *restore = fixture_sent(self, &ps, CADRE_MESSAGE_RESTORE, 0);
    cr_assert_eq(restore->restore.shard, 1);
    fixture_destroy(&self);
}

Test(joining, a_ps_that_says_hello_again_with_the_index_it_was_told_stays)
{
    fixture_t *self = fixture_new(2);
    cadre_task_t ps = {CADRE_ROLE_PS, CADRE_INDEX_ANY, 2000};
    fixture_hello(self, &ps);
    fixture_turn(self);
    fixture_clear(self);
    fixture_hello_as(self, &ps, 0, (cadre_u64s_t){NULL, 0});
    fixture_hello_as(self, &ps, CADRE_INDEX_ANY, (cadre_u64s_t){NULL, 0});
    fixture_turn(self);
    cr_assert_eq(fixture_sent(self, NULL, CADRE_MESSAGE_WELCOME, 1)->welcome.index, 0);
    cr_assert_not(fixture_logged(self, "ps_lost"));
    fixture_destroy(&self);
}

/* A HELLO that says what the worker has of this session. */
static void
say_hello(fixture_t *self, const cadre_task_t *worker, uint64_t round, uint64_t definitions,
          uint64_t functions)
{
    cadre_message_t message = fixture_message(worker, CADRE_MESSAGE_HELLO);
    message.hello = (cadre_hello_message_t){.role = CADRE_ROLE_WORKER,
                                            .index = worker->index,
                                            .slots = 1,
                                            .session = self->core.options.incarnation,
                                            .round = round,
                                            .definitions = definitions,
                                            .functions = functions};
    fixture_say(self, worker, &message);
    fixture_turn(self);
}

Test(joining, a_worker_that_only_repeats_its_hello_is_told_nothing_twice)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_add_variable(self, "a", 3, 1);
    fixture_add_variable(self, "b", 3, 1);
    fixture_function(self);
    say_hello(self, &worker, 1, 0, 0);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_DEFINITIONS), 1);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_VARIABLE), 2);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_FUNCTION), 1);
    fixture_clear(self);
    self->now_ms += CADRE_HELLO_ANSWER_MS - 1;
    say_hello(self, &worker, 1, 0, 0);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_WELCOME), 0, "not so soon");
    self->now_ms += 1;
    say_hello(self, &worker, 1, 0, 0);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_WELCOME), 1);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_DEFINITIONS), 0);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_FUNCTION), 0);
    self->now_ms += 1000;
    say_hello(self, &worker, 0, 0, 0);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_WELCOME), 1, "an old one, late");
    fixture_destroy(&self);
}

Test(joining, a_worker_on_another_connection_is_told_what_it_lacks)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_add_variable(self, "a", 3, 1);
    fixture_add_variable(self, "b", 3, 1);
    fixture_function(self);
    say_hello(self, &worker, 1, 0, 0);
    fixture_clear(self);
    say_hello(self, &worker, 2, 1, 0);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_WELCOME), 1, "at once");
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_VARIABLE), 1);
    cr_assert_eq(fixture_sent(self, &worker, CADRE_MESSAGE_VARIABLE, 0)->variable.id, 2);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_FUNCTION), 1);
    fixture_clear(self);
    cadre_core_gone(&self->core, &worker, self->now_ms);
    say_hello(self, &worker, 3, 2, 1);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_DEFINITIONS), 0, "it has all");
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_FUNCTION), 0);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_SHARD), 0, "none was there");
    fixture_destroy(&self);
}

Test(joining, what_is_announced_between_two_turns_goes_in_one_message)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    say_hello(self, &worker, 1, 0, 0);
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof(name), "v%d", i);
        fixture_add_variable(self, name, 3, 1);
    }
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_DEFINITIONS), 1);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_VARIABLE), 100);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_DEFINITIONS), 1);
    fixture_destroy(&self);
}

Test(joining, what_a_worker_wants_again_is_told_later_each_time)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_add_variable(self, "a", 3, 1);
    say_hello(self, &worker, 1, 0, 0);
    fixture_clear(self);
    size_t told = 0;
    for (int i = 0; i < 60; i++) {
        cadre_message_t message = fixture_message(&worker, CADRE_MESSAGE_WANT);
        message.want = (cadre_want_message_t){.kind = CADRE_WANT_DEFINITIONS};
        fixture_say(self, &worker, &message);
        self->now_ms += 1000;
        fixture_heartbeat(self, &worker, (uint64_t)i + 1, (cadre_u64s_t){NULL, 0});
        fixture_turn(self);
        told += fixture_count(self, &worker, CADRE_MESSAGE_DEFINITIONS);
        fixture_clear(self);
    }
    cr_expect_geq(told, 8, "it may have been lost");
    cr_expect_leq(told, 12, "%zu times in a minute", told);
    fixture_destroy(&self);
}
