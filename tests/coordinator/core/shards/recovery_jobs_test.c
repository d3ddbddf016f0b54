/* Through the core: what becomes of a job whose ps is lost, and of what was done since the cut */
#include "tests/coordinator/recovery_fixture.h"

TestSuite(recovery_jobs, .timeout = 240);

/* --- away --- */

Test(recovery_jobs, a_ps_that_is_lost_whenever_it_restores_ends_the_job_at_the_limit_of_the_first)
{
    fixture_t *self = job(1);
    self->core.options.lease_ms = 1000000;
    lose(self, 1);
    self->now_ms += self->core.options.ps_timeout_ms / 2;
    cadre_task_t next = replace(self, 1);
    self->now_ms += self->core.options.ps_timeout_ms / 2;
    fixture_turn(self);
    cr_assert_eq(self->core.fatal, 0, "it is there");
    fixture_gone(self, &next);
    fixture_turn(self);
    cr_assert_eq(self->core.fatal, CADRE_EUNAVAILABLE);
    fixture_destroy(&self);
}

/* A due time that has passed would keep the coordinator's thread busy all the while. */
Test(recovery_jobs, a_ps_that_restores_past_its_deadline_is_waited_for_quietly)
{
    fixture_t *self = job(1);
    self->core.options.lease_ms = 1000000;
    lose(self, 1);
    self->now_ms += self->core.options.ps_timeout_ms - 1;
    replace(self, 1);
    self->now_ms += 2;
    fixture_turn(self);
    cr_assert_eq(self->core.fatal, 0);
    cr_assert_gt(self->due_ms, self->now_ms);
    fixture_destroy(&self);
}

Test(recovery_jobs, workers_are_told_that_a_shard_is_away_and_where_it_is_again)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    lose(self, 1);
    const cadre_message_t *away = fixture_sent(self, &worker, CADRE_MESSAGE_SHARD, 0);
    cr_assert_eq(away->shard.index, 1);
    cr_assert_str_eq(away->shard.address, "");
    cr_assert_eq(away->shard.incarnation, 0);
    cr_assert_eq(away->shard.generation, 1);
    cadre_task_t late = fixture_worker(7);
    fixture_hello(self, &late);
    cr_assert_eq(self->core.membership.worker_count, 2);
    fixture_turn(self);
    cr_assert_str_eq(fixture_sent(self, &late, CADRE_MESSAGE_SHARD, 1)->shard.address, "");
    fixture_clear(self);
    restore(self, 1);
    const cadre_message_t *ready = fixture_sent(self, &worker, CADRE_MESSAGE_SHARD, 0);
    cr_assert_eq(ready->shard.incarnation, 3001);
    cr_assert_eq(ready->shard.generation, 2);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_SHARD), 1, "and not before it is");
    fixture_destroy(&self);
}

Test(recovery_jobs, a_closure_that_needs_a_shard_that_is_away_waits_for_it_and_others_go_on)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_schedule(self, 1);
    fixture_schedule(self, 2);
    fixture_turn(self);
    lose(self, 1);
    fixture_clear(self);
    cadre_message_t failed = fixture_message(&worker, CADRE_MESSAGE_CLOSURE_FAILED);
    failed.closure_failed = (cadre_closure_failed_message_t){
        .id = 1, .attempt = 1, .reason = CADRE_FAILURE_SHARD, .status = 2000, .shard = 1};
    fixture_say(self, &worker, &failed);
    fixture_schedule(self, 3);
    fixture_turn(self);
    cr_assert_str_eq(sent(self), "3:1", "1 waits, new work goes on");
    cr_assert_not(cadre_closure_queue_done(&self->core.queue));
    done(self, &worker, 2, 1, 0);
    done(self, &worker, 3, 1, 0);
    cr_assert_not(cadre_closure_queue_done(&self->core.queue));
    fixture_clear(self);
    restore(self, 1);
    cr_assert_str_eq(sent(self), "1:2");
    fixture_destroy(&self);
}

Test(recovery_jobs, no_more_is_begun_than_may_wait_for_a_shard)
{
    fixture_t *self = job(1);
    lose(self, 1);
    for (uint64_t id = 1; id <= CADRE_ASIDE_MAX; id++) {
        cadre_closure_t *closure = fixture_schedule(self, 1);
        closure = cadre_closure_queue_take(&self->core.queue, 0, CADRE_QUEUE_NEW_TOO);
        closure->id = id;
        cadre_u64_map_put(&self->core.begun.closures, id, closure);
        cadre_closure_queue_put_aside(&self->core.queue, closure);
        if (id == CADRE_ASIDE_MAX - 1) {
            fixture_schedule(self, 2);
            fixture_turn(self);
            cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 1);
        }
    }
    fixture_schedule(self, 3);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 1);
    fixture_destroy(&self);
}

Test(recovery_jobs, the_same_process_that_comes_back_with_its_state_goes_on_with_it)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_task_t ps = fixture_ps(1);
    run(self, &worker, 3, 2);
    lose(self, 1);
    fixture_clear(self);
    hello_again(self, &ps, 1);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &ps, CADRE_MESSAGE_RESTORE), 0);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_CLOSURE), 0, "nothing was lost");
    cr_assert_eq(fixture_sent(self, &worker, CADRE_MESSAGE_SHARD, 0)->shard.generation, 1);
    cr_assert(fixture_logged(self, "ps_reconnected"));
    fixture_destroy(&self);
}

Test(recovery_jobs, a_process_that_comes_back_without_its_state_is_restored)
{
    fixture_t *self = job(1);
    cadre_task_t ps = fixture_ps(1);
    lose(self, 1);
    fixture_clear(self);
    hello_again(self, &ps, 0);
    fixture_turn(self);
    cr_assert_eq(fixture_sent(self, &ps, CADRE_MESSAGE_RESTORE, 0)->restore.generation, 2);
    fixture_destroy(&self);
}

/* --- replay --- */

Test(recovery_jobs, what_pushed_since_the_cut_runs_again_in_order_before_new_work)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    run(self, &worker, 2, 2);
    run(self, &worker, 1, 0); /* id 3 touched no shard */
    run(self, &worker, 1, 2);
    size_t ended = self->ended_count;
    lose(self, 1);
    fixture_schedule(self, 9);
    self->core.options.lease_ms = 1000000;
    fixture_clear(self);
    cadre_membership_find(&self->core.membership, worker.incarnation)->draining = true;
    restore(self, 1);
    cadre_membership_find(&self->core.membership, worker.incarnation)->draining = false;
    cr_assert_not(cadre_recovery_is_settled(&self->core.recovery));
    fixture_turn(self);
    cr_assert_str_eq(sent(self), "1:2 2:2", "as many as the worker takes, and no new one");
    done(self, &worker, 1, 2, 1);
    cr_assert_str_eq(sent(self), "1:2 2:2 4:2");
    done(self, &worker, 2, 2, 1);
    cr_assert_str_eq(sent(self), "1:2 2:2 4:2", "new work waits for the end of the replay");
    cr_assert_not(cadre_recovery_is_settled(&self->core.recovery), "so join does");
    cr_assert_eq(self->ended_count, ended, "nobody is told again");
    done(self, &worker, 4, 2, 1);
    fixture_turn(self);
    cr_assert(cadre_recovery_is_settled(&self->core.recovery));
    cr_assert_str_eq(sent(self), "1:2 2:2 4:2 5:1");
    cr_assert_eq(self->core.totals.replayed, 3);
    cr_assert_eq(self->core.totals.finished, 4);
    cr_assert(fixture_logged(self, "replay_done"));
    fixture_destroy(&self);
}

Test(recovery_jobs, an_attempt_begun_before_the_restore_does_not_count)
{
    fixture_t *self = job(2);
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    fixture_schedule(self, 1);
    fixture_schedule(self, 2);
    self->core.dispatcher.turn = 0;
    fixture_turn(self);
    lose(self, 1);
    restore(self, 1);
    fixture_clear(self);
    done(self, &workers[0], 1, 1, 2);
    cr_assert_eq(self->ended_count, 0, "its update may have gone with the ps");
    cr_assert_str_eq(sent(self), "1:2");
    done(self, &workers[1], 2, 1, 0);
    cr_assert_eq(self->ended_count, 1, "one that pushed nothing lost nothing");
    const cadre_task_t *second =
        fixture_count(self, &workers[0], CADRE_MESSAGE_CLOSURE) ? &workers[0] : &workers[1];
    done(self, second, 1, 2, 2);
    cr_assert_eq(self->ended_count, 2);
    fixture_destroy(&self);
}

Test(recovery_jobs, a_second_loss_begins_the_replay_anew)
{
    fixture_t *self = job_with_restored_ps(3);
    cadre_task_t worker = fixture_worker(0);
    done(self, &worker, 1, 2, 1);
    lose(self, 0);
    restore(self, 0);
    fixture_clear(self);
    done(self, &worker, 2, 2, 1); /* both are of before the second restore */
    done(self, &worker, 3, 2, 1);
    cr_assert_str_eq(sent(self), "1:3 2:3");
    done(self, &worker, 1, 3, 1);
    done(self, &worker, 2, 3, 1);
    cr_assert_not(cadre_recovery_is_settled(&self->core.recovery));
    done(self, &worker, 3, 3, 1);
    cr_assert(cadre_recovery_is_settled(&self->core.recovery));
    fixture_destroy(&self);
}

Test(recovery_jobs, an_assignment_is_repeated_between_what_was_before_it_and_after_it)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_task_t other = fixture_ps(0);
    cadre_task_t next = next_ps(1);
    const float value[4] = {1, 2, 3, 4};
    run(self, &worker, 1, 2);
    assign(self, CADRE_ASSIGN_SET, value);
    run(self, &worker, 1, 2);
    lose(self, 1);
    fixture_clear(self);
    restore(self, 1);
    fixture_turn(self);
    cr_assert_str_eq(sent(self), "1:2", "2 comes after the assignment");
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_ASSIGN), 0);
    done(self, &worker, 1, 2, 1);
    const cadre_message_t *assign = fixture_sent(self, &next, CADRE_MESSAGE_ASSIGN, 0);
    cr_assert_eq(assign->assign.generation, 2);
    cr_assert_eq(assign->assign.sequence, 1, "the one it had: a shard that has it ignores it");
    cr_assert_eq(memcmp(cadre_chunk_data(assign->chunks[0]), value + 2, 8), 0);
    cr_assert_str_eq(sent(self), "1:2");
    fixture_reply(self, &other, fixture_sent(self, &other, CADRE_MESSAGE_ASSIGN, 0));
    fixture_turn(self);
    cr_assert_str_eq(sent(self), "1:2", "one has answered");
    fixture_reply(self, &next, assign);
    fixture_turn(self);
    cr_assert_str_eq(sent(self), "1:2 2:2");
    done(self, &worker, 2, 2, 1);
    cr_assert(cadre_recovery_is_settled(&self->core.recovery));
    fixture_destroy(&self);
}

/* Schedules a closure that comes before those that have an id already. */
static void
schedule_first(fixture_t *self)
{
    cadre_closure_t *closure = cadre_closure_new(fixture_function(self)->id);
    closure->priority = CADRE_PRIORITY_HIGH;
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, closure), 0);
}

/* The worker has 1 and 2; 3 has its id, as batches of ranges have; 4 is preferred to it. */
Test(recovery_jobs, an_assignment_is_repeated_before_what_had_its_id_and_was_handed_out_later)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_task_t next = next_ps(1);
    const float value[4] = {1, 2, 3, 4};
    fixture_schedule(self, 1);
    fixture_schedule(self, 2);
    fixture_turn(self);
    cr_assert_str_eq(sent(self), "1:1 2:1");
    cadre_attempts_number(&self->core.attempts, fixture_schedule(self, 3));
    schedule_first(self);
    done(self, &worker, 1, 1, 2);
    cr_assert_str_eq(sent(self), "1:1 2:1 4:1");
    assign(self, CADRE_ASSIGN_SET, value);
    done(self, &worker, 4, 1, 2);
    cr_assert_str_eq(sent(self), "1:1 2:1 4:1 3:1");
    done(self, &worker, 2, 1, 2);
    done(self, &worker, 3, 1, 2);
    lose(self, 1);
    fixture_clear(self);
    restore(self, 1);
    fixture_turn(self);
    cr_assert_str_eq(sent(self), "1:2 2:2");
    done(self, &worker, 1, 2, 1);
    done(self, &worker, 2, 2, 1);
    cr_assert_str_eq(sent(self), "1:2 2:2 4:2", "3 comes after the assignment");
    done(self, &worker, 4, 2, 1);
    cr_assert_str_eq(sent(self), "1:2 2:2 4:2");
    for (uint32_t shard = 0; shard < 2; shard++) {
        cadre_task_t ps = shard == 0 ? fixture_ps(0) : next;
        fixture_reply(self, &ps, fixture_sent(self, &ps, CADRE_MESSAGE_ASSIGN, 0));
    }
    fixture_turn(self);
    cr_assert_str_eq(sent(self), "1:2 2:2 4:2 3:2");
    done(self, &worker, 3, 2, 1);
    cr_assert(cadre_recovery_is_settled(&self->core.recovery));
    fixture_destroy(&self);
}

/* A suspect closure is tried on its own, and not in the order of the others. */
Test(recovery_jobs, what_comes_after_an_assignment_may_not_go_before_it_is_repeated)
{
    fixture_t *self = job(1);
    const cadre_core_t *core = &self->core;
    cadre_task_t worker = fixture_worker(0);
    const float value[4] = {1, 2, 3, 4};
    run(self, &worker, 1, 2);
    assign(self, CADRE_ASSIGN_SET, value);
    run(self, &worker, 1, 2);
    lose(self, 1);
    fixture_clear(self);
    restore(self, 1);
    fixture_turn(self);
    cr_assert_str_eq(sent(self), "1:2");
    const cadre_closure_t *after = cadre_closure_log_first(&core->replay.redo);
    cr_assert(after && after->id == 2);
    cr_expect_not(cadre_dispatcher_may_go(&core->dispatcher, after));
    done(self, &worker, 1, 2, 1);
    cr_expect_not(cadre_dispatcher_may_go(&core->dispatcher, after), "no shard has answered");
    for (uint32_t shard = 0; shard < 2; shard++) {
        cadre_task_t ps = shard == 0 ? fixture_ps(0) : next_ps(1);
        fixture_reply(self, &ps, fixture_sent(self, &ps, CADRE_MESSAGE_ASSIGN, 0));
    }
    cr_expect(cadre_dispatcher_may_go(&core->dispatcher, after));
    fixture_destroy(&self);
}

Test(recovery_jobs, an_assignment_that_is_refused_again_is_no_news)
{
    static const struct {
        int status;
        bool is_told;
    } cases[] = {{CADRE_ENOTFINITE, false}, {CADRE_ENOTFOUND, true}};
    const float value[4] = {1, 2, 3, 4};
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        fixture_t *self = job(1);
        cadre_task_t other = fixture_ps(0);
        cadre_task_t next = next_ps(1);
        assign(self, CADRE_ASSIGN_SET, value);
        lose(self, 1);
        fixture_clear(self);
        restore(self, 1);
        fixture_turn(self);
        answer_last(self, &other, CADRE_MESSAGE_ASSIGN, 0);
        answer_last(self, &next, CADRE_MESSAGE_ASSIGN, cases[i].status);
        cr_expect_eq(fixture_logged(self, "assignment_replay_failed"), cases[i].is_told);
        cr_expect(cadre_recovery_is_settled(&self->core.recovery));
        fixture_destroy(&self);
    }
}

Test(recovery_jobs, the_apis_requests_wait_for_the_end_of_the_replay_and_carry_the_new_generation)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_task_t next = next_ps(1);
    float bytes[4];
    run(self, &worker, 1, 2);
    lose(self, 1);
    cadre_operation_t operation = {.target = bytes};
    cadre_operations_read(&self->core.operations, self->core.catalogue.variables[0], &operation);
    fixture_turn(self);
    restore(self, 1);
    cr_assert_eq(fixture_count(self, &next, CADRE_MESSAGE_PULL), 0);
    done(self, &worker, 1, 2, 1);
    fixture_turn(self);
    cr_assert_eq(fixture_sent(self, &next, CADRE_MESSAGE_PULL, 0)->pull.generation, 2);
    cadre_operations_give_up(&self->core.operations, &operation);
    fixture_destroy(&self);
}

Test(recovery_jobs, a_closure_that_fails_when_it_runs_again_is_an_error_of_the_job)
{
    fixture_t *self = job_with_restored_ps(1);
    cadre_task_t worker = fixture_worker(0);
    char text[CADRE_CLOSURE_ERROR_SIZE];
    fixture_failed(self, &worker, 1, 2, CADRE_FAILURE_USER, "not a number");
    fixture_turn(self);
    cr_assert(cadre_recovery_is_settled(&self->core.recovery), "it is not tried for ever");
    cr_assert_eq(cadre_closure_queue_raise(&self->core.queue, text), CADRE_EFUNCTION);
    cr_assert(strstr(text, "restored") && strstr(text, "closure 1") && strstr(text, "not a number"),
              "%s", text);
    fixture_destroy(&self);
}

Test(recovery_jobs, cancelling_leaves_what_has_ended_to_run_again)
{
    fixture_t *self = job_with_restored_ps(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_cancel(self);
    self->core.queue.cancelling = true;
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_CANCEL), 0);
    cr_assert_str_eq(sent(self), "1:2");
    fixture_destroy(&self);
}

Test(recovery_jobs, a_closure_says_which_generations_its_worker_must_know)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_schedule(self, 1);
    fixture_turn(self);
    cr_assert_eq(fixture_sent(self, &worker, CADRE_MESSAGE_CLOSURE, 0)->closure.generations, 2);
    done(self, &worker, 1, 1, 2);
    lose(self, 1);
    fixture_schedule(self, 2);
    fixture_turn(self);
    cr_assert_eq(fixture_sent(self, &worker, CADRE_MESSAGE_CLOSURE, 1)->closure.generations, 2,
                 "what is being restored is nobody's to know");
    restore(self, 1);
    cr_assert_eq(fixture_sent(self, &worker, CADRE_MESSAGE_CLOSURE, 2)->closure.id, 1);
    cr_assert_eq(fixture_sent(self, &worker, CADRE_MESSAGE_CLOSURE, 2)->closure.generations, 3);
    fixture_destroy(&self);
}

/* --- bounds --- */

Test(recovery_jobs, with_checkpoints_its_bound_begins_one_and_twice_the_bound_holds_new_work)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    self->core.checkpoint.enabled = true;
    run(self, &worker, 2, 2);
    self->core.replay.size_bytes += CADRE_REPLAY_SIZE_MAX;
    fixture_turn(self);
    cr_assert_eq(self->core.checkpoint.state, CADRE_CHECKPOINT_OPENING);
    fixture_schedule(self, 1);
    fixture_turn(self);
    cr_assert_str_eq(sent(self), "3:1");
    self->core.replay.size_bytes += CADRE_REPLAY_SIZE_MAX;
    fixture_turn(self);
    fixture_schedule(self, 2);
    fixture_turn(self);
    cr_assert_str_eq(sent(self), "3:1");
    self->core.replay.size_bytes -= 2 * (size_t)CADRE_REPLAY_SIZE_MAX;
    fixture_turn(self);
    fixture_turn(self);
    cr_assert_str_eq(sent(self), "3:1 4:1");
    fixture_destroy(&self);
}

Test(recovery_jobs, a_restore_waits_for_a_commit_that_is_under_way)
{
    fixture_t *self = job(1);
    self->core.checkpoint.enabled = true;
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
    self->core.checkpoint.state = CADRE_CHECKPOINT_COMMITTING;
    lose(self, 1);
    cadre_task_t next = replace(self, 1);
    cr_assert_eq(fixture_count(self, &next, CADRE_MESSAGE_RESTORE), 0);
    cadre_store_answer_t answer = {.kind = CADRE_STORE_COMMIT, .text = "/ckpt/ckpt-1"};
    cadre_core_stored(&self->core, &answer, self->now_ms);
    fixture_turn(self);
    cr_assert_str_eq(fixture_sent(self, &next, CADRE_MESSAGE_RESTORE, 0)->restore.path,
                     "/ckpt/ckpt-1");
    fixture_destroy(&self);
}

Test(recovery_jobs, a_ps_that_leaves_requests_unanswered_gets_another_connection)
{
    fixture_t *self = job(1);
    cadre_task_t ps = fixture_ps(1);
    float bytes[4];
    cadre_operation_t operation = {.target = bytes};
    self->core.options.lease_ms = 1000000;
    cadre_operations_read(&self->core.operations, self->core.catalogue.variables[0], &operation);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &ps, CADRE_MESSAGE_PULL), 1);
    self->now_ms += CADRE_MUTE_MS - 1;
    fixture_turn(self);
    cr_assert_null(fixture_event(self, CADRE_EFFECT_SHARD_MOVED, 0));
    self->now_ms++;
    fixture_turn(self);
    const cadre_effect_t *moved = fixture_event(self, CADRE_EFFECT_SHARD_MOVED, 1);
    cr_assert_eq(moved->shard, 1);
    cr_assert_eq(moved->incarnation, ps.incarnation);
    self->now_ms += CADRE_MUTE_MS - 1;
    fixture_turn(self);
    cr_assert_null(fixture_event(self, CADRE_EFFECT_SHARD_MOVED, 2));
    cadre_operations_give_up(&self->core.operations, &operation);
    fixture_destroy(&self);
}

/* --- a ps that lives, and its shard does not --- */

/* Heartbeats of ps 0 for so long, whose shard is `generation` of `shard`; `moves`: it makes
 * progress. */
static void
beat(fixture_t *self, uint64_t ms, uint64_t shard, uint64_t generation, bool moves)
{
    cadre_task_t ps = fixture_ps(0);
    for (uint64_t i = 0; i < ms / 1000; i++) {
        const cadre_member_t *member = self->core.membership.ps[0];
        if (!member) {
            return;
        }
        self->now_ms += 1000;
        cadre_message_t message = fixture_message(&ps, CADRE_MESSAGE_HEARTBEAT);
        message.heartbeat =
            (cadre_heartbeat_message_t){.sequence = member->heartbeat + 1,
                                        .shard = shard,
                                        .generation = generation,
                                        .progress = 100 + (moves ? member->heartbeat : 0)};
        fixture_say(self, &ps, &message);
        fixture_turn(self);
    }
}

Test(recovery_jobs, a_shard_that_makes_no_progress_for_a_lease_is_lost_and_its_ps_told_to_stop)
{
    fixture_t *self = cluster(0);
    cadre_task_t ps = fixture_ps(0);
    uint64_t generation = self->core.recovery.places[0].generation;
    beat(self, 60000, 0, generation, true);
    cr_assert_eq(self->core.totals.ps_lost, 0);
    cr_assert(fixture_sent(self, &ps, CADRE_MESSAGE_ACK, 59), "each is answered");
    fixture_clear(self);
    beat(self, 10000, 0, generation, false);
    cr_assert_eq(self->core.totals.ps_lost, 0);
    beat(self, 2000, 0, generation, false);
    cr_assert_eq(self->core.totals.ps_lost, 1);
    const cadre_message_t *stop = fixture_sent(self, &ps, CADRE_MESSAGE_STOP, 0);
    cr_assert(stop && strstr(stop->stop.reason, "no progress"));
    cr_assert_eq(self->core.recovery.places[0].state, CADRE_PLACE_AWAY);
    fixture_destroy(&self);
}

Test(recovery_jobs, a_shard_that_stands_still_while_something_is_created_has_no_longer)
{
    fixture_t *self = cluster(0);
    self->core.catalogue.creating = 1;
    beat(self, 100000, 0, self->core.recovery.places[0].generation, true);
    cr_assert_eq(self->core.totals.ps_lost, 0);
    beat(self, 12000, 0, self->core.recovery.places[0].generation, false);
    cr_assert_eq(self->core.totals.ps_lost, 1);
    fixture_destroy(&self);
}

Test(recovery_jobs, a_ps_that_serves_something_else_than_is_believed_is_lost_and_says_hello)
{
    for (int wrong_shard = 0; wrong_shard < 2; wrong_shard++) {
        fixture_t *self = cluster(0);
        cadre_task_t ps = fixture_ps(0);
        uint64_t generation = self->core.recovery.places[0].generation;
        beat(self, 3000, 0, generation + 1, true);
        beat(self, 3000, 0, generation, true); /* it was only early */
        beat(self, 9000, wrong_shard ? 1 : 0, wrong_shard ? generation : generation + 1, true);
        cr_assert_eq(self->core.totals.ps_lost, 0);
        beat(self, 3000, wrong_shard ? 1 : 0, wrong_shard ? generation : generation + 1, true);
        cr_assert_eq(self->core.totals.ps_lost, 1);
        cr_assert(fixture_sent(self, &ps, CADRE_MESSAGE_UNKNOWN_PEER, 0));
        cr_assert_null(fixture_sent(self, &ps, CADRE_MESSAGE_STOP, 0));
        fixture_destroy(&self);
    }
}

/* --- what is being created --- */

/* A ps dies after it has taken its part of a variable that is being created, and the one in its
 * place refuses it. */
static fixture_t *
refuse_repair(bool is_created, int status)
{
    fixture_t *self = cluster(0);
    cadre_task_t lost = fixture_ps(0);
    cadre_task_t next = {CADRE_ROLE_PS, 0, lost.incarnation + 1000};
    cadre_variable_t *variable = fixture_add_variable(self, "v", 4, 1);
    variable->created = is_created;
    self->core.catalogue.creating = is_created ? 0 : 1;
    fixture_gone(self, &lost);
    fixture_hello(self, &next);
    fixture_turn(self);
    fixture_reply(self, &next, fixture_sent(self, &next, CADRE_MESSAGE_RESTORE, 0));
    fixture_turn(self);
    const cadre_message_t *create = fixture_sent(self, &next, CADRE_MESSAGE_CREATE, 0);
    cr_assert_not_null(create);
    cadre_message_t reply = fixture_message(&next, CADRE_MESSAGE_REPLY);
    reply.request = create->request;
    reply.reply = (cadre_reply_message_t){.status = (uint64_t)-status, .text = "no room"};
    fixture_say(self, &next, &reply);
    fixture_turn(self);
    return self;
}

Test(recovery_jobs, a_restored_shard_that_refuses_what_is_being_created_fails_the_creation_only)
{
    fixture_t *self = refuse_repair(false, CADRE_EFULL);
    cr_expect_eq(self->core.fatal, 0);
    cr_expect_eq(self->core.recovery.repairs.creation_status, CADRE_EFULL);
    cr_expect_str_eq(self->core.recovery.repairs.creation_text, "no room");
    cr_expect_eq(self->core.recovery.places[0].state, CADRE_PLACE_READY);
    fixture_destroy(&self);
    self = refuse_repair(true, CADRE_EFULL);
    cr_expect_eq(self->core.fatal, CADRE_EFULL, "what is there cannot be left out");
    fixture_destroy(&self);
    self = refuse_repair(false, CADRE_EIO);
    cr_expect_eq(self->core.fatal, CADRE_EIO, "its disk cannot be read, whatever is created");
    fixture_destroy(&self);
}
