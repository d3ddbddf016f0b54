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
