/* A worker whose shards go away, come back, and begin anew. */
#include "tests/worker/recovery_fixture.h"

TestSuite(worker_recovery, .timeout = 240);

/* The run's operation has failed because of shard 1, and nothing was asked of either. */
static void
expect_refusal(fixture_t *self, cadre_worker_event_kind_t kind, const cadre_run_t *run,
               const char *text)
{
    cadre_worker_event_t event = expect_ended(self, kind, CADRE_EUNAVAILABLE);
    cr_expect_str_eq(event.text, text);
    cr_expect_eq(run->failure, CADRE_FAILURE_SHARD);
    cr_expect_eq(run->failed_shard, 1);
    cadre_outbox_entry_t entry;
    while (cadre_outbox_pop(cadre_worker_core_outbox(self->core), &entry)) {
        cr_expect_neq(entry.destination.role, CADRE_ROLE_PS, "a shard was asked");
        cadre_outbox_entry_fini(&entry);
    }
}

/* --- away --- */

Test(worker_recovery, fails_what_a_shard_that_goes_away_has_not_answered)
{
    fixture_t self;
    uint64_t ids[2];
    cadre_run_t *run = begin_push(&self, ids);
    answer_push(&self, 0, ids[0], 0);
    fixture_shard_away(&self, 1, 1);
    expect_refusal(&self, CADRE_WORKER_PUSHED, run, "ps 1 is away");
    finish_failed(&self, run);
    expect_failed(&self, 1, 1, CADRE_FAILURE_SHARD);
    answer_push(&self, 1, ids[1], 0); /* its last words */
    fixture_pass(&self, 5 * CADRE_PROBE_MS);
    cadre_message_t message;
    cr_expect_not(take_message(&self, CADRE_MESSAGE_PUSH, 1, &message));
    fixture_fini(&self);
}

Test(worker_recovery, asks_no_shard_when_one_of_them_is_away)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    fixture_shard_away(&self, 1, 1);
    drop_everything(&self);
    pull(&self, run);
    expect_refusal(&self, CADRE_WORKER_VALUES, run, "ps 1 is away");
    push(&self, run);
    expect_refusal(&self, CADRE_WORKER_PUSHED, run, "ps 1 is away");
    fixture_fini(&self);
}

Test(worker_recovery, gives_the_connection_up_and_makes_another)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    cadre_worker_event_t event;
    fixture_shard_away(&self, 1, 1);
    cr_assert(take_event(&self, CADRE_WORKER_SHARD_MOVED, &event));
    cr_expect_eq(event.index, 1);
    cr_expect(cadre_worker_core_directory(self.core)->shards[1].away);
    fixture_shard_away(&self, 1, 1);
    cr_expect_not(happened(&self, CADRE_WORKER_SHARD_MOVED), "no news");
    fixture_shard(&self, 1, FIXTURE_PS + 1, 1);
    cr_expect(happened(&self, CADRE_WORKER_SHARD_MOVED));
    cr_expect_not(cadre_worker_core_directory(self.core)->shards[1].away);
    fixture_fini(&self);
}

Test(worker_recovery, starts_closures_though_a_shard_is_away)
{
    fixture_t self;
    fixture_init(&self, 1, 0);
    cadre_worker_core_connected(self.core, self.now_ms);
    fixture_welcome(&self);
    fixture_shard(&self, 0, FIXTURE_PS, 1);
    fixture_shard_away(&self, 1, 1); /* as a worker that joins now is briefed */
    fixture_variable(&self, 4);
    fixture_function(&self);
    fixture_closure(&self, 1, 1);
    cadre_run_t *run = started(&self);
    cr_assert_not_null(run);
    drop_everything(&self);
    pull(&self, run);
    expect_refusal(&self, CADRE_WORKER_VALUES, run, "ps 1 is away");
    fixture_fini(&self);
}

Test(worker_recovery, goes_on_with_a_shard_that_comes_back_as_it_was)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    pull_well(&self, run);
    fixture_shard_away(&self, 1, 1);
    fixture_shard(&self, 1, FIXTURE_PS + 1, 1);
    push_well(&self, run);
    finish(&self, run, 0);
    expect_done(&self, 1, 1);
    fixture_fini(&self);
}

Test(worker_recovery, asks_for_news_of_a_shard_that_is_away)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_shard_away(&self, 1, 1);
    for (int i = 0; i < 3; i++) {
        drop_everything(&self);
        fixture_pass(&self, 1000);
        expect_want(&self, "the answer may be lost");
        cr_expect_not(sent(&self, CADRE_MESSAGE_WANT), "shard 0 is there");
    }
    fixture_shard(&self, 1, FIXTURE_PS + 1, 1);
    fixture_pass(&self, 1000);
    cr_expect_not(sent(&self, CADRE_MESSAGE_WANT));
    fixture_fini(&self);
}

Test(worker_recovery, asks_for_news_of_a_shard_that_does_not_answer)
{
    fixture_t self;
    uint64_t ids[2];
    begin_pull(&self, ids);
    const float values[] = {5, 6};
    answer_pull(&self, 0, ids[0], 8, values);
    fixture_pass(&self, 999);
    cr_expect_not(sent(&self, CADRE_MESSAGE_WANT));
    fixture_pass(&self, 1);
    expect_want(&self, "it has not answered for a second");
    fixture_fini(&self);
}

Test(worker_recovery, asks_for_news_of_a_shard_that_fences_it)
{
    fixture_t self;
    uint64_t ids[2];
    begin_push(&self, ids);
    answer_push(&self, 0, ids[0], 0);
    answer_push(&self, 1, ids[1], CADRE_EFENCED);
    fixture_pass(&self, 1);
    expect_want(&self, "it knows another generation");
    fixture_shard(&self, 1, FIXTURE_PS + 1, 1); /* whatever the answer */
    fixture_pass(&self, 1000);
    cr_expect_not(sent(&self, CADRE_MESSAGE_WANT));
    fixture_fini(&self);
}

Test(worker_recovery, wants_another_connection_to_a_shard_that_says_nothing)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    fixture_pass(&self, 2 * CADRE_MUTE_MS); /* nothing was asked */
    cr_expect_not(happened(&self, CADRE_WORKER_SHARD_MOVED));
    uint64_t ids[2];
    ask_pull(&self, run, ids);
    fixture_pass(&self, CADRE_MUTE_MS - 1);
    const float values[] = {5, 6};
    answer_pull(&self, 0, ids[0], 8, values);
    cr_expect_not(happened(&self, CADRE_WORKER_SHARD_MOVED));
    for (uint64_t limit_ms = CADRE_MUTE_MS; limit_ms <= 2 * CADRE_MUTE_MS; limit_ms *= 2) {
        fixture_pass(&self, 1);
        cadre_worker_event_t event;
        cr_assert(take_event(&self, CADRE_WORKER_SHARD_MOVED, &event));
        cr_expect_eq(event.index, 1);
        cr_expect_eq(event.status, CADRE_ETIMEOUT);
        cadre_message_t again;
        cr_assert(take_message(&self, CADRE_MESSAGE_PULL, 1, &again), "over the new one");
        cr_expect_eq(again.request, ids[1]);
        cadre_message_fini(&again);
        fixture_pass(&self, 2 * limit_ms - 1);
        cr_expect_not(happened(&self, CADRE_WORKER_SHARD_MOVED), "give it time");
    }
    answer_pull(&self, 1, ids[1], 8, values);
    cadre_worker_event_t event = expect_ended(&self, CADRE_WORKER_VALUES, 0);
    cadre_values_fini(&event.values, event.value_count);
    fixture_fini(&self);
}

Test(worker_recovery, a_busy_shard_is_not_mute)
{
    fixture_t self;
    uint64_t ids[2];
    begin_pull(&self, ids);
    for (int i = 0; i < 5; i++) {
        fixture_pass(&self, CADRE_MUTE_MS - 1);
        answer_pull(&self, 0, 12345, 8, NULL); /* something it owed somebody */
        answer_pull(&self, 1, 12345, 8, NULL);
    }
    cr_expect_not(happened(&self, CADRE_WORKER_SHARD_MOVED));
    fixture_fini(&self);
}

/* --- a shard that cannot be reached --- */

/* What the next HEARTBEAT says; the caller ends it. */
static cadre_message_t
heartbeat(fixture_t *self)
{
    cadre_message_t message;
    cr_assert(take_message(self, CADRE_MESSAGE_HEARTBEAT, -1, &message));
    return message;
}

static void
expect_unreachable(fixture_t *self, uint64_t word)
{
    cadre_message_t message = heartbeat(self);
    const cadre_u64s_t *list = &message.heartbeat.unreachable;
    cr_expect_eq(list->count, word ? 1 : 0);
    cr_expect(!word || list->items[0] == word);
    cadre_message_fini(&message);
}

/* Shard 0 has answered, shard 1 says nothing for the timeout. */
static cadre_run_t *
lose_shard(fixture_t *self)
{
    uint64_t ids[2];
    cadre_run_t *run = begin_push(self, ids);
    answer_push(self, 0, ids[0], 0);
    fixture_pass(self, FIXTURE_SHARD_TIMEOUT_MS - 1);
    drop_everything(self);
    fixture_pass(self, 1);
    fixture_pass(self, 1); /* the HEARTBEAT */
    return run;
}

Test(worker_recovery, gives_a_closure_back_whose_shard_says_nothing_for_the_timeout)
{
    fixture_t self;
    cadre_run_t *run = lose_shard(&self);
    expect_unreachable(&self, 1 << 1);
    cadre_worker_event_t event;
    cr_assert(take_event(&self, CADRE_WORKER_REACHABILITY, &event));
    cr_expect_eq(event.index, 1);
    cr_expect_eq(event.status, CADRE_ETIMEOUT);
    expect_ended(&self, CADRE_WORKER_PUSHED, CADRE_ETIMEOUT);
    finish_failed(&self, run);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_CLOSURE_FAILED, -1, &message));
    cr_expect_eq(message.closure_failed.reason, CADRE_FAILURE_SHARD);
    cr_expect_eq(message.closure_failed.status, (uint64_t)-CADRE_ETIMEOUT);
    cr_expect_eq(message.closure_failed.shard, 1);
    cadre_message_fini(&message);
    fixture_fini(&self);
}

Test(worker_recovery, gives_back_at_once_what_needs_an_unreachable_shard_until_that_is_heard)
{
    fixture_t self;
    cadre_run_t *run = lose_shard(&self);
    expect_ended(&self, CADRE_WORKER_PUSHED, CADRE_ETIMEOUT);
    finish_failed(&self, run);
    fixture_closure(&self, 2, 1);
    run = started(&self);
    pull(&self, run);
    expect_ended(&self, CADRE_WORKER_VALUES, CADRE_ETIMEOUT);
    finish_failed(&self, run);
    drop_everything(&self);
    fixture_pass(&self, CADRE_PROBE_MS);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_PROBE, 1, &message));
    cr_expect_eq(message.probe.requests.count, 0, "nothing is asked for");
    cadre_message_t probed = {.type = CADRE_MESSAGE_PROBED, .request = message.request};
    cadre_message_fini(&message);
    fixture_deliver(&self, CADRE_ROLE_PS, 1, &probed);
    drop_everything(&self);
    fixture_pass(&self, 1);
    expect_unreachable(&self, 0);
    fixture_closure(&self, 3, 1);
    pull_well(&self, started(&self));
    fixture_fini(&self);
}

Test(worker_recovery, knows_nothing_of_a_shard_that_another_process_serves)
{
    fixture_t self;
    lose_shard(&self);
    drop_everything(&self);
    fixture_shard(&self, 1, NEW_PS, 2);
    fixture_pass(&self, 1);
    expect_unreachable(&self, 0);
    fixture_fini(&self);
}

Test(worker_recovery, hears_nothing_of_a_shard_from_the_process_that_served_it_before)
{
    fixture_t self;
    uint64_t ids[2];
    fixture_join(&self, 1, 0);
    fixture_shard(&self, 1, NEW_PS, 2);
    fixture_closure(&self, 1, 1);
    cadre_run_t *run = started(&self);
    drop_everything(&self);
    ask_pull(&self, run, ids);
    fixture_pass(&self, CADRE_MUTE_MS - 1);
    const float values[] = {5, 6};
    answer_pull(&self, 0, ids[0], 8, values);
    drop_everything(&self);
    cadre_message_t message = {.type = CADRE_MESSAGE_GRANT, .incarnation = FIXTURE_PS + 1};
    message.request = 12345; /* of an update that it waits for */
    fixture_deliver(&self, CADRE_ROLE_PS, 1, &message);
    cr_expect_not(take_message(&self, CADRE_MESSAGE_RESERVE, 1, &message));
    while (happened(&self, CADRE_WORKER_SHARD_MOVED)) {
    }
    fixture_pass(&self, 1);
    cadre_worker_event_t event;
    cr_assert(take_event(&self, CADRE_WORKER_SHARD_MOVED, &event));
    cr_expect_eq(event.status, CADRE_ETIMEOUT);
    fixture_fini(&self);
}

Test(worker_recovery, tells_what_waits_for_which_shard_and_for_how_long)
{
    fixture_t self;
    uint64_t ids[2];
    begin_push(&self, ids);
    answer_push(&self, 0, ids[0], 0);
    fixture_pass(&self, FIXTURE_HEARTBEAT_MS);
    drop_everything(&self);
    fixture_pass(&self, FIXTURE_HEARTBEAT_MS);
    cadre_message_t message = heartbeat(&self);
    const cadre_u64s_t *waits = &message.heartbeat.waits;
    cr_assert_eq(waits->count, 3);
    cr_expect_eq(waits->items[0], 1);
    cr_expect_eq(waits->items[1], 1);
    cr_expect_eq(waits->items[2], 2 * FIXTURE_HEARTBEAT_MS);
    cadre_message_fini(&message);
    fixture_fini(&self);
}

Test(worker_recovery, counts_its_own_stall_against_no_shard)
{
    fixture_t self;
    uint64_t ids[2];
    begin_push(&self, ids);
    fixture_pass(&self, 1);
    for (int i = 0; i < 3; i++) {
        fixture_stall(&self, FIXTURE_SHARD_TIMEOUT_MS);
    }
    cr_expect_not(happened(&self, CADRE_WORKER_REACHABILITY));
    fixture_fini(&self);
}

/* --- begun anew --- */

Test(worker_recovery, never_touches_a_shard_that_was_restored_after_the_closure_came)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    pull_well(&self, run);
    fixture_shard_away(&self, 1, 1);
    fixture_shard(&self, 1, NEW_PS, 2);
    drop_everything(&self);
    push(&self, run);
    expect_refusal(&self, CADRE_WORKER_PUSHED, run, "ps 1 was restored while the closure ran");
    pull(&self, run);
    expect_refusal(&self, CADRE_WORKER_VALUES, run, "ps 1 was restored while the closure ran");
    finish_failed(&self, run);
    expect_failed(&self, 1, 1, CADRE_FAILURE_SHARD);
    fixture_closure(&self, 1, 2);
    run = started(&self);
    drop_everything(&self);
    push(&self, run);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_PUSH, 1, &message));
    cr_expect_eq(message.push.generation, 2);
    cr_expect_eq(message.push.attempt, 2);
    cadre_message_fini(&message);
    fixture_fini(&self);
}

Test(worker_recovery, knows_a_restored_shard_though_it_was_not_told_of_each_step)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    fixture_shard(&self, 1, NEW_PS, 2); /* "away" was lost */
    drop_everything(&self);
    push(&self, run);
    expect_refusal(&self, CADRE_WORKER_PUSHED, run, "ps 1 was restored while the closure ran");
    finish_failed(&self, run);
    fixture_closure(&self, 2, 1);
    run = started(&self);
    fixture_shard_away(&self, 1, 3); /* "back, as generation 3" was lost */
    fixture_shard(&self, 1, NEW_PS + 1, 3);
    drop_everything(&self);
    push(&self, run);
    expect_refusal(&self, CADRE_WORKER_PUSHED, run, "ps 1 was restored while the closure ran");
    fixture_fini(&self);
}

Test(worker_recovery, takes_no_notice_of_late_news)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_shard(&self, 1, NEW_PS, 2);
    fixture_closure(&self, 1, 1);
    cadre_run_t *run = started(&self);
    drop_everything(&self);
    fixture_shard_away(&self, 1, 1);
    fixture_shard(&self, 1, FIXTURE_PS + 1, 1);
    cr_expect_not(happened(&self, CADRE_WORKER_SHARD_MOVED));
    push(&self, run);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_PUSH, 1, &message));
    cadre_message_fini(&message);
    fixture_fini(&self);
}

Test(worker_recovery, a_closure_that_waited_through_a_restore_is_of_before_it)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_closure(&self, 1, 1);
    fixture_closure(&self, 2, 1); /* QUEUED */
    fixture_closure(&self, 3, 1);
    cadre_run_t *run = started(&self);
    fixture_shard(&self, 1, NEW_PS, 2);
    fixture_closure(&self, 3, 2); /* but this one has come again */
    finish(&self, run, 0);
    run = started(&self);
    cr_expect_eq(cadre_run_id(run), 2);
    drop_everything(&self);
    pull(&self, run);
    expect_refusal(&self, CADRE_WORKER_VALUES, run, "ps 1 was restored while the closure ran");
    finish_failed(&self, run);
    run = started(&self);
    cr_expect_eq(cadre_run_id(run), 3);
    push_well(&self, run);
    finish(&self, run, 0);
    expect_done(&self, 3, 2);
    fixture_fini(&self);
}

Test(worker_recovery, reports_a_stale_closure_that_ended_well_under_its_old_number)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    push_well(&self, run);
    fixture_shard(&self, 1, NEW_PS, 2);
    finish(&self, run, 0);
    expect_done(&self, 1, 1);
    fixture_fini(&self);
}
