#include "coordinator/core/coordinator_core.h"

#include "tests/coordinator/core_fixture.h"

TestSuite(coordinator_core, .timeout = 240);

static const cadre_u64s_t nothing = {NULL, 0};

static void
say_goodbye(fixture_t *self, const cadre_task_t *from, const char *reason)
{
    cadre_message_t message = fixture_message(from, CADRE_MESSAGE_GOODBYE);
    message.goodbye.reason = reason;
    fixture_say(self, from, &message);
}

/* --- joining --- */

Test(coordinator_core, a_ps_that_joins_is_welcomed_restored_and_made_known_to_workers)
{
    fixture_t *self = fixture_new(2);
    cadre_task_t ps = fixture_ps(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_hello(self, &worker);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_SHARD), 0, "none is there yet");
    const cadre_message_t *welcome = fixture_sent(self, &worker, CADRE_MESSAGE_WELCOME, 0);
    cr_assert_eq(welcome->welcome.index, 0);
    cr_assert_str_eq(welcome->welcome.job, "test");
    cr_assert_eq(welcome->welcome.shards, 2);
    cr_assert_eq(welcome->welcome.generation, 0);
    cr_assert_eq(welcome->epoch, FIXTURE_EPOCH);
    fixture_clear(self);
    fixture_hello(self, &ps);
    fixture_turn(self);
    cr_assert_eq(fixture_sent(self, &ps, CADRE_MESSAGE_WELCOME, 0)->welcome.generation, 1);
    const cadre_message_t *restore = fixture_sent(self, &ps, CADRE_MESSAGE_RESTORE, 0);
    cr_assert_str_eq(restore->restore.path, "");
    cr_assert_eq(restore->restore.cut, 1);
    cr_assert_eq(restore->restore.generation, 1);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_SHARD), 0, "it has not begun yet");
    fixture_reply(self, &ps, restore);
    fixture_turn(self);
    const cadre_message_t *shard = fixture_sent(self, &worker, CADRE_MESSAGE_SHARD, 0);
    cr_assert_eq(shard->shard.index, 1);
    cr_assert_eq(shard->shard.incarnation, ps.incarnation);
    cr_assert_str_eq(shard->shard.address, "tcp://127.0.0.1:5555");
    const cadre_effect_t *moved = fixture_event(self, CADRE_EFFECT_SHARD_MOVED, 0);
    cr_assert_eq(moved->shard, 1);
    cr_assert_eq(moved->incarnation, ps.incarnation);
    cr_assert_str_eq(moved->text, "tcp://127.0.0.1:5555");
    fixture_destroy(&self);
}

Test(coordinator_core, answers_repeat_the_number_of_what_they_answer)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_message_t message = fixture_message(&worker, CADRE_MESSAGE_HELLO);
    message.request = 17;
    message.hello = (cadre_hello_message_t){.role = CADRE_ROLE_WORKER,
                                            .index = 0,
                                            .build = "test",
                                            .host = "here",
                                            .address = "",
                                            .devices = "",
                                            .slots = 1};
    fixture_say(self, &worker, &message);
    fixture_turn(self);
    cr_assert_eq(fixture_sent(self, &worker, CADRE_MESSAGE_WELCOME, 0)->request, 17);
    cadre_core_probe(&self->core);
    fixture_turn(self);
    cr_assert_eq(fixture_sent(self, &worker, CADRE_MESSAGE_WELCOME, 1)->request, 0,
                 "nobody asked for that one");
    message = fixture_message(&worker, CADRE_MESSAGE_HEARTBEAT);
    message.request = 18;
    message.heartbeat.sequence = 1;
    fixture_say(self, &worker, &message);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_ACK), 1);
    cr_assert_eq(fixture_sent(self, &worker, CADRE_MESSAGE_ACK, 0)->request, 18);
    cr_assert_eq(fixture_sent(self, &worker, CADRE_MESSAGE_ACK, 0)->ack.reports.count, 0);
    fixture_done(self, &worker, 1, 1);
    fixture_turn(self);
    cr_assert_eq(fixture_sent(self, &worker, CADRE_MESSAGE_ACK, 1)->request, 0);
    fixture_destroy(&self);
}

Test(coordinator_core, a_ps_that_reconnects_keeps_its_shard)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t ps = fixture_ps(0);
    fixture_join_ps(self);
    fixture_add_variable(self, "w", 3, 1);
    fixture_hello(self, &ps);
    fixture_turn(self);
    cr_assert_eq(fixture_sent(self, &ps, CADRE_MESSAGE_WELCOME, 0)->welcome.generation, 1);
    cr_assert_eq(fixture_count(self, &ps, CADRE_MESSAGE_RESTORE), 0);
    cr_assert_null(fixture_event(self, CADRE_EFFECT_SHARD_MOVED, 0));
    cr_assert_eq(self->core.fatal, 0);
    fixture_destroy(&self);
}

Test(coordinator_core, a_ps_replaced_before_there_is_a_variable_is_no_loss)
{
    fixture_t *self = fixture_new(1);
    fixture_join_ps(self);
    cadre_task_t next = {CADRE_ROLE_PS, 0, 2999};
    self->now_ms += CADRE_SUSPECT_MS;
    fixture_hello(self, &next);
    fixture_turn(self);
    cr_assert_eq(self->core.fatal, 0);
    cr_assert_eq(self->core.membership.ps_joined, 1);
    cr_assert_eq(fixture_sent(self, &next, CADRE_MESSAGE_RESTORE, 0)->restore.generation, 2);
    cr_assert_eq(fixture_event(self, CADRE_EFFECT_SHARD_MOVED, 0)->incarnation, 2999);
    /* The old one, should it still be there, is told to leave. */
    cadre_task_t old = fixture_ps(0);
    fixture_heartbeat(self, &old, 1, nothing);
    fixture_hello(self, &old);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &old, CADRE_MESSAGE_UNKNOWN_PEER), 1);
    cr_assert_eq(fixture_count(self, &old, CADRE_MESSAGE_REFUSED), 1);
    cr_assert_eq(self->core.membership.ps[0]->task.incarnation, 2999);
    fixture_destroy(&self);
}

Test(coordinator_core, a_ps_that_stays_away_past_the_limit_ends_the_job_and_is_named)
{
    fixture_t *self = fixture_new(2);
    cadre_task_t ps = fixture_ps(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_join_ps(self);
    fixture_hello(self, &worker);
    fixture_add_variable(self, "w", 3, 1);
    fixture_gone(self, &ps);
    cr_assert_eq(self->core.fatal, 0);
    cr_assert_eq(self->core.totals.ps_lost, 1);
    self->now_ms += self->core.options.ps_timeout_ms - 1;
    cadre_task_t others[] = {fixture_ps(0), worker};
    for (int i = 0; i < 2; i++) {
        fixture_heartbeat(self, &others[i], 1, nothing);
    }
    fixture_turn(self);
    cr_assert_eq(self->core.fatal, 0);
    cr_assert_eq(self->due_ms, self->now_ms + 1);
    self->now_ms++;
    fixture_turn(self);
    cr_assert_eq(self->core.fatal, CADRE_EUNAVAILABLE);
    cr_assert(strstr(self->core.fatal_text, "ps 1 (process 4711 on here) is lost"));
    cr_assert(strstr(self->core.fatal_text, "60 s"));
    fixture_schedule(self, 1);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_CLOSURE), 0);
    fixture_destroy(&self);
}

Test(coordinator_core, a_ps_that_cannot_restore_ends_the_job)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t ps = fixture_ps(0);
    fixture_hello(self, &ps);
    fixture_turn(self);
    cadre_message_t reply = fixture_message(&ps, CADRE_MESSAGE_REPLY);
    reply.request = fixture_sent(self, &ps, CADRE_MESSAGE_RESTORE, 0)->request;
    reply.reply =
        (cadre_reply_message_t){.status = (uint64_t)-CADRE_ECORRUPT, .text = "shard-0.mdb: hash"};
    fixture_say(self, &ps, &reply);
    fixture_turn(self);
    cr_assert_eq(self->core.fatal, CADRE_ECORRUPT);
    cr_assert(strstr(self->core.fatal_text, "ps 0 cannot begin"));
    cr_assert(strstr(self->core.fatal_text, "shard-0.mdb: hash"));
    cr_assert(cadre_effects_take_progress(&self->core.effects));
    cr_assert(fixture_logged(self, "restore_failed"));
    fixture_destroy(&self);
}

Test(coordinator_core, a_hello_that_has_no_place_is_refused_with_a_reason)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t ps = {CADRE_ROLE_PS, 3, 9};
    fixture_hello(self, &ps);
    fixture_turn(self);
    const cadre_message_t *refused = fixture_sent(self, &ps, CADRE_MESSAGE_REFUSED, 0);
    cr_assert(strstr(refused->refused.text, "ps index 3 in a job of 1 ps"));
    cr_assert(fixture_logged(self, "hello_refused"));
    cr_assert_eq(self->core.membership.members.count, 0);
    fixture_destroy(&self);
}

Test(coordinator_core, two_workers_that_were_given_one_index_do_not_drive_each_other_out)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t first = {CADRE_ROLE_WORKER, CADRE_INDEX_ANY, 11};
    cadre_task_t second = {CADRE_ROLE_WORKER, CADRE_INDEX_ANY, 12};
    fixture_hello(self, &first);
    fixture_gone(self, &first);
    fixture_hello(self, &second);
    fixture_hello_as(self, &first, 0, nothing);
    fixture_turn(self);
    cr_assert_eq(self->core.membership.worker_count, 2);
    cr_assert_eq(self->core.membership.workers[0]->task.incarnation, 12);
    cr_assert_eq(self->core.membership.workers[1]->task.incarnation, 11);
    fixture_destroy(&self);
}

/* --- what strangers and latecomers say --- */

Test(coordinator_core, a_stranger_is_asked_to_say_hello)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_heartbeat(self, &worker, 1, nothing);
    fixture_done(self, &worker, 1, 1);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_UNKNOWN_PEER), 2);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_ACK), 0);
    fixture_destroy(&self);
}

Test(coordinator_core, a_report_of_another_session_ends_no_closure_of_this_one)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_hello(self, &worker);
    fixture_schedule(self, 1);
    fixture_turn(self);
    fixture_clear(self);
    cadre_message_t report = fixture_message(&worker, CADRE_MESSAGE_CLOSURE_DONE);
    report.epoch = FIXTURE_EPOCH - 1;
    report.closure_done = (cadre_closure_done_message_t){.id = 1, .attempt = 1};
    fixture_say(self, &worker, &report);
    fixture_turn(self);
    cr_assert_eq(self->ended_count, 0);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_UNKNOWN_PEER), 1);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_ACK), 0);
    fixture_done(self, &worker, 1, 1);
    cr_assert_eq(self->ended_count, 1);
    fixture_destroy(&self);
}

Test(coordinator_core, goodbye_is_heard_before_welcome_too)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_hello(self, &worker);
    cadre_message_t message = fixture_message(&worker, CADRE_MESSAGE_GOODBYE);
    message.epoch = 0;
    message.goodbye.reason = "SIGTERM";
    fixture_say(self, &worker, &message);
    cr_assert_eq(self->core.membership.worker_count, 0);
    cr_assert_eq(self->core.totals.workers_lost, 0);
    fixture_destroy(&self);
}

Test(coordinator_core, a_connection_that_closed_is_looked_for_by_something_harmless)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t ps = fixture_ps(0);
    cadre_task_t worker = fixture_worker(0);
    fixture_join_ps(self);
    fixture_hello(self, &worker);
    fixture_turn(self);
    fixture_clear(self);
    cadre_core_probe(&self->core);
    fixture_turn(self);
    cr_assert_eq(self->sent_count, 2);
    cr_assert_eq(fixture_count(self, &ps, CADRE_MESSAGE_WELCOME), 1);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_WELCOME), 1);
    cadre_task_t stranger = fixture_worker(7);
    fixture_gone(self, &stranger);
    cr_assert_eq(self->core.totals.workers_lost, 0);
    fixture_destroy(&self);
}

/* --- definitions on demand --- */

/* --- the end --- */

Test(coordinator_core, stopping_tells_everyone_and_waits_for_their_goodbyes)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t ps = fixture_ps(0);
    cadre_task_t worker = fixture_worker(0);
    cadre_task_t late = fixture_worker(1);
    fixture_join_ps(self);
    fixture_hello(self, &worker);
    fixture_add_variable(self, "w", 3, 1);
    fixture_schedule(self, 1);
    fixture_schedule(self, 2);
    fixture_turn(self);
    fixture_clear(self);
    cadre_core_stop(&self->core, "the job is over");
    fixture_schedule(self, 3);
    fixture_turn(self);
    cr_assert_str_eq(fixture_sent(self, &ps, CADRE_MESSAGE_STOP, 0)->stop.reason,
                     "the job is over");
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_STOP), 1);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_CLOSURE), 0);
    fixture_clear(self);
    fixture_hello(self, &late);
    fixture_turn(self);
    cr_assert_eq(self->sent_count, 1);
    cr_assert_eq(fixture_count(self, &late, CADRE_MESSAGE_STOP), 1, "nobody joins it now");
    say_goodbye(self, &worker, "stopped");
    say_goodbye(self, &ps, "stopped");
    fixture_turn(self);
    cr_assert_eq(self->core.membership.members.count, 0);
    cr_assert_eq(self->core.fatal, 0);
    cr_assert_eq(self->core.totals.workers_lost, 0);
    cr_assert_eq(self->core.totals.ps_lost, 0);
    fixture_destroy(&self);
}

Test(coordinator_core, what_has_not_ended_ends_closed_with_the_core)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_hello(self, &worker);
    for (uint32_t i = 1; i <= 3; i++) {
        fixture_schedule(self, i);
    }
    fixture_turn(self);
    fixture_clear(self);
    cadre_core_close(&self->core);
    fixture_collect_ended(self);
    cadre_core_fini(&self->core);
    cr_assert_eq(self->ended_count, 3);
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(self->ended[i].status, CADRE_ECLOSED);
    }
    cadre_core_init(&self->core, &(cadre_core_options_t){.ps_count = 1, .job = ""}, 0);
    fixture_destroy(&self);
}

/* --- operations on shards --- */

static void
expect_unready(const fixture_t *self, const char *why)
{
    char text[CADRE_CORE_UNREADY_SIZE];
    cadre_core_unready(&self->core, text);
    cr_expect_str_eq(text, why);
}

Test(coordinator_core, a_job_is_ready_while_all_its_shards_are)
{
    fixture_t *self = fixture_new(2);
    self->core.recovery.places[0].state = CADRE_PLACE_READY;
    self->core.recovery.places[1].state = CADRE_PLACE_READY;
    expect_unready(self, "");
    self->core.recovery.places[1].state = CADRE_PLACE_AWAY;
    expect_unready(self, "shard 1 of 2 is away");
    self->core.recovery.places[0].state = CADRE_PLACE_RESTORING;
    expect_unready(self, "shard 0 of 2 is restoring");
    self->core.fatal = CADRE_EUNAVAILABLE;
    snprintf(self->core.fatal_text, sizeof(self->core.fatal_text), "no ps");
    expect_unready(self, "the job cannot go on: no ps");
    self->core.stopping = true;
    expect_unready(self, "the job is over");
    fixture_destroy(&self);
}
