/* Through the core: when a checkpoint begins and cuts, and when it is left out. */
#include "coordinator/core/checkpoint/checkpoint.h"

#include "tests/coordinator/core_fixture.h"

TestSuite(checkpoint_when, .timeout = 240);

/* A job with checkpoints on, two variables on one ps, and a worker. */
static fixture_t *
job(void)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_join_ps(self);
    fixture_hello(self, &worker);
    fixture_add_variable(self, "w", 5, 1);
    fixture_add_variable(self, "b", 1, 1);
    self->core.checkpoint.enabled = true;
    fixture_turn(self);
    fixture_clear(self);
    return self;
}

static cadre_checkpoint_state_t
state_of(const fixture_t *self)
{
    return self->core.checkpoint.state;
}

static void
stored(fixture_t *self, cadre_store_order_kind_t kind, int status, const char *text)
{
    cadre_store_answer_t answer = {.kind = kind, .checkpoint = 9, .status = status, .text = text};
    cadre_core_stored(&self->core, &answer, self->now_ms);
    fixture_turn(self);
}

/* --- variables of the checkpoint that was resumed --- */

Test(checkpoint_when, a_resumed_variable_is_whole_before_the_cut)
{
    fixture_t *self = job();
    cadre_checkpoint_await(&self->core.checkpoint, "later");
    cadre_checkpoint_await(&self->core.checkpoint, "w");
    cadre_variable_t *later = fixture_add_variable(self, "later", 3, 1);
    later->created = false;
    self->core.catalogue.creating = 1;
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
    fixture_turn(self);
    stored(self, CADRE_STORE_OPEN, 0, "/ckpt/.tmp-9");
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_OPENING, "it may be on some shards only");
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_SNAPSHOT), 0);
    later->created = true;
    self->core.catalogue.creating = 0;
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_CUT);
    cr_assert_eq(self->core.checkpoint.variable_count, 3);
    cr_assert_not(fixture_logged(self, "variables_omitted"));
    fixture_destroy(&self);
}

Test(checkpoint_when, a_resumed_variable_that_cannot_be_created_holds_up_no_cut)
{
    fixture_t *self = job();
    cadre_checkpoint_await(&self->core.checkpoint, "later");
    cadre_variable_t *later = fixture_add_variable(self, "later", 3, 1);
    later->created = false;
    self->core.catalogue.creating = 1;
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
    fixture_turn(self);
    stored(self, CADRE_STORE_OPEN, 0, "/ckpt/.tmp-9");
    cadre_catalogue_drop_variable(&self->core.catalogue, later);
    self->core.catalogue.creating = 0;
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_CUT);
    cr_assert_eq(self->core.checkpoint.variable_count, 3);
    cr_assert_not(self->core.catalogue.variables[2]->created, "its place is vacant");
    fixture_destroy(&self);
}

/* --- what has been saved already --- */

enum { EVERY_MS = 5000 };

static void
keep_alive(fixture_t *self)
{
    self->core.options.lease_ms = UINT64_MAX / 2;
}

/* The checkpoint under way asks for its snapshots. */
static void
ask_snapshots(fixture_t *self)
{
    stored(self, CADRE_STORE_OPEN, 0, "/ckpt/.tmp-9");
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_CUT);
}

/* It has them, and is committed. */
static void
end_well(fixture_t *self)
{
    cadre_task_t ps = fixture_ps(0);
    uint64_t counters[CADRE_PS_COUNTER_COUNT] = {0};
    cadre_message_t taken = fixture_message(&ps, CADRE_MESSAGE_SNAPSHOT_TAKEN);
    taken.request = fixture_sent(self, &ps, CADRE_MESSAGE_SNAPSHOT, 0)->request;
    taken.snapshot_taken = (cadre_snapshot_taken_message_t){.checkpoint = 9, .text = ""};
    fixture_say(self, &ps, &taken);
    fixture_turn(self);
    cadre_message_t written = fixture_message(&ps, CADRE_MESSAGE_SNAPSHOT_WRITTEN);
    written.snapshot_written =
        (cadre_snapshot_written_message_t){.checkpoint = 9,
                                           .text = "",
                                           .file = "shard-0.mdb",
                                           .size_bytes = 4096,
                                           .hash = 7,
                                           .counters = {counters, CADRE_PS_COUNTER_COUNT}};
    fixture_say(self, &ps, &written);
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_COMMITTING);
    stored(self, CADRE_STORE_COMMIT, 0, "/ckpt/ckpt-9");
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    fixture_clear(self);
}

static void
commit(fixture_t *self)
{
    ask_snapshots(self);
    end_well(self);
}

/* What is done between the snapshots and the commit is none of it. */
Test(checkpoint_when, a_restore_point_counts_what_the_snapshots_hold)
{
    fixture_t *self = job();
    keep_alive(self);
    const float value[5] = {1, 2, 3, 4, 5};
    cadre_operation_t operation;
    const cadre_variable_t *variable = self->core.catalogue.variables[0];
    self->core.replay.unsaved = 3;
    cadre_operations_assign(&self->core.operations, variable, CADRE_ASSIGN_SET, value, &operation);
    fixture_turn(self);
    cadre_task_t ps = fixture_ps(0);
    fixture_reply(self, &ps, fixture_sent(self, &ps, CADRE_MESSAGE_ASSIGN, 0));
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
    fixture_turn(self);
    ask_snapshots(self);
    cadre_operations_assign(&self->core.operations, variable, CADRE_ASSIGN_SET, value, &operation);
    self->core.replay.unsaved = 5;
    end_well(self);
    cr_assert_str_eq(self->core.recovery.points.at[0].path, "/ckpt/ckpt-9");
    cr_assert_eq(self->core.recovery.points.at[0].unsaved, 3);
    cr_assert_eq(self->core.recovery.points.at[0].assigned[0], 1);
    cr_assert_eq(self->core.replay.unsaved, 5);
    cadre_operations_give_up(&self->core.operations, &operation);
    fixture_destroy(&self);
}

/* Whether an automatic one begins when its time has come. */
static bool
begins(fixture_t *self)
{
    self->now_ms += EVERY_MS;
    fixture_turn(self);
    return state_of(self) == CADRE_CHECKPOINT_OPENING;
}

static void
run_closure(fixture_t *self, uint32_t number)
{
    cadre_task_t worker = fixture_worker(0);
    uint64_t id = self->core.begun.next_id;
    fixture_heartbeat(self, &worker, self->now_ms, (cadre_u64s_t){NULL, 0});
    fixture_schedule(self, number);
    fixture_turn(self);
    fixture_done(self, &worker, id, 1);
    fixture_turn(self);
}

/* A job of which an automatic checkpoint holds everything. */
static fixture_t *
saved_job(void)
{
    fixture_t *self = job();
    keep_alive(self);
    self->core.checkpoint.every_ms = EVERY_MS;
    fixture_turn(self);
    run_closure(self, 1);
    cr_assert(begins(self));
    commit(self);
    return self;
}

Test(checkpoint_when, an_automatic_one_is_left_out_where_nothing_was_done_since_the_last)
{
    fixture_t *self = saved_job();
    for (int i = 0; i < 5; i++) {
        cr_assert_not(begins(self), "%d", i);
        cr_assert_leq(self->due_ms, self->now_ms + EVERY_MS);
    }
    cr_assert_eq(self->core.totals.checkpoints, 1);
    fixture_destroy(&self);
}

Test(checkpoint_when, an_automatic_one_comes_an_interval_after_the_rest_at_most)
{
    fixture_t *self = saved_job();
    cr_assert_not(begins(self));
    run_closure(self, 2);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE, "not with the first closure at once");
    cr_assert(begins(self));
    commit(self);
    cr_assert_not(begins(self));
    fixture_destroy(&self);
}

static void
assign(fixture_t *self)
{
    static const float value = 3;
    cadre_task_t ps = fixture_ps(0);
    cadre_operation_t operation;
    cadre_operations_assign(&self->core.operations, self->core.catalogue.variables[1],
                            CADRE_ASSIGN_SET, &value, &operation);
    fixture_turn(self);
    fixture_reply(self, &ps, fixture_sent(self, &ps, CADRE_MESSAGE_ASSIGN, 0));
    cr_assert_eq(operation.pending, 0);
}

Test(checkpoint_when, an_assignment_and_a_new_variable_are_something_to_save)
{
    fixture_t *self = saved_job();
    assign(self);
    cr_assert(begins(self));
    commit(self);
    cr_assert_not(begins(self));
    cadre_variable_t *later = fixture_add_variable(self, "later", 3, 1);
    later->created = false;
    self->core.catalogue.creating = 1;
    cr_assert_not(begins(self), "it is not there yet");
    later->created = true;
    self->core.catalogue.creating = 0;
    cr_assert(begins(self));
    fixture_destroy(&self);
}

Test(checkpoint_when, what_comes_after_the_snapshots_is_not_saved_with_them)
{
    fixture_t *self = saved_job();
    run_closure(self, 2);
    cr_assert(begins(self));
    ask_snapshots(self);
    fixture_add_variable(self, "later", 3, 1);
    end_well(self);
    cr_assert(begins(self));
    commit(self);
    cr_assert_not(begins(self));
    fixture_destroy(&self);
}

Test(checkpoint_when, one_that_fails_has_saved_nothing)
{
    fixture_t *self = saved_job();
    run_closure(self, 2);
    cr_assert(begins(self));
    ask_snapshots(self);
    cadre_checkpoint_abort(&self->core.checkpoint, CADRE_EIO, "the disk is full");
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    fixture_clear(self);
    cr_assert(begins(self));
    commit(self);
    cr_assert_not(begins(self));
    fixture_destroy(&self);
}

Test(checkpoint_when, one_that_is_asked_for_comes_whether_anything_was_done_or_not)
{
    fixture_t *self = saved_job();
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
    fixture_turn(self);
    commit(self);
    cr_assert_eq(self->core.totals.checkpoints, 2);
    fixture_destroy(&self);
}

/* The ps is replaced by a process that answers every RESTORE and CREATE since the last clear; its
 * first RESTORE fails. */
static void
pass_over(fixture_t *self)
{
    cadre_task_t ps = fixture_ps(0);
    cadre_task_t next = {CADRE_ROLE_PS, 0, 3000};
    fixture_gone(self, &ps);
    fixture_turn(self);
    fixture_hello(self, &next);
    fixture_turn(self);
    cadre_message_t refusal = fixture_message(&next, CADRE_MESSAGE_REPLY);
    refusal.request = fixture_sent(self, &next, CADRE_MESSAGE_RESTORE, 0)->request;
    refusal.reply =
        (cadre_reply_message_t){.status = (uint64_t)-CADRE_ECORRUPT, .text = "a flipped bit"};
    fixture_say(self, &next, &refusal);
    fixture_turn(self);
    cr_assert(fixture_logged(self, "checkpoint_fallback"));
    fixture_reply(self, &next, fixture_sent(self, &next, CADRE_MESSAGE_RESTORE, 1));
    fixture_turn(self);
    for (size_t i = 0; i < fixture_count(self, &next, CADRE_MESSAGE_CREATE); i++) {
        fixture_reply(self, &next, fixture_sent(self, &next, CADRE_MESSAGE_CREATE, i));
    }
    fixture_turn(self);
    cr_assert(cadre_recovery_is_calm(&self->core.recovery));
}

Test(checkpoint_when, one_that_could_not_be_read_is_followed_by_another_though_nothing_was_done)
{
    fixture_t *self = job();
    self->core.options.lease_ms = 1000000;
    self->core.checkpoint.every_ms = EVERY_MS;
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
    fixture_turn(self);
    commit(self);
    cr_assert_not(begins(self));
    pass_over(self);
    cr_assert(begins(self));
    fixture_destroy(&self);
}

/* --- synchronous steps --- */

enum { STEP = 2 };

/* The job's only worker has pushed the update of this closure. */
static void
push_update(fixture_t *self, uint64_t id)
{
    cadre_task_t worker = fixture_worker(0);
    cadre_message_t message = fixture_message(&worker, CADRE_MESSAGE_CLOSURE_DONE);
    message.closure_done =
        (cadre_closure_done_message_t){.id = id, .attempt = 1, .updates = 1, .total_us = 1000};
    fixture_say(self, &worker, &message);
    fixture_turn(self);
}

/* A job with closures for three steps, of which the first is under way. */
static fixture_t *
job_of_steps(void)
{
    fixture_t *self = job();
    keep_alive(self);
    self->core.options.consistency = CADRE_SYNC;
    cadre_pace_fini(&self->core.queue.pace);
    cadre_pace_init(&self->core.queue.pace, CADRE_SYNC, STEP, 0);
    cadre_placement_add(&self->core.catalogue.placement, 0, 0);
    for (uint32_t i = 0; i < 3 * STEP; i++) {
        cadre_closure_t *closure = cadre_closure_new(fixture_function(self)->id);
        closure->may_push = true;
        cr_assert_eq(cadre_closure_queue_put(&self->core.queue, closure), 0);
    }
    fixture_turn(self);
    return self;
}

/* The next step began in the turn in which this one ended, before the checkpoint looked: a long
 * epoch had no checkpoint. */
Test(checkpoint_when, a_cut_comes_between_two_steps_though_closures_are_queued)
{
    fixture_t *self = job_of_steps();
    cadre_task_t ps = fixture_ps(0);
    cadre_task_t worker = fixture_worker(0);
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
    fixture_turn(self);
    stored(self, CADRE_STORE_OPEN, 0, "/ckpt/.tmp-9");
    for (uint64_t id = 1; id <= STEP; id++) {
        cr_assert_eq(state_of(self), CADRE_CHECKPOINT_OPENING, "a step is under way");
        push_update(self, id);
    }
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_OPENING, "it is not applied");
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_CLOSURE), STEP);

    fixture_reply(self, &ps, fixture_sent(self, &ps, CADRE_MESSAGE_END_STEP, 0));
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_CUT);
    cr_assert_eq(self->core.checkpoint.cut, STEP + 1);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_CLOSURE), 2 * STEP,
                 "the next step begins in this turn");
    cr_assert_eq(fixture_sent(self, &worker, CADRE_MESSAGE_CLOSURE, STEP)->closure.checkpoint, 9);
    fixture_destroy(&self);
}

/* --- records that follow from ids --- */

/* Notes the cut that a record was asked for. */
static char *
note_cut(void *context, uint64_t cut, uint64_t of_clients)
{
    (void)of_clients;
    *(uint64_t *)context = cut;
    return NULL;
}

/* A job with an automatic checkpoint, whose records follow from ids and are asked for in `cut`. */
static fixture_t *
counted_job(uint64_t *cut)
{
    fixture_t *self = saved_job();
    cadre_checkpoint_ask_place(&self->core.checkpoint, note_cut, cut);
    return self;
}

/* The worker is given closures 2 and 3, and 2 fails: 3 is cancelled. */
static void
fail_closures(fixture_t *self)
{
    cadre_task_t worker = fixture_worker(0);
    fixture_heartbeat(self, &worker, self->now_ms, (cadre_u64s_t){NULL, 0});
    fixture_schedule(self, 2);
    fixture_schedule(self, 3);
    fixture_turn(self);
    fixture_failed(self, &worker, 2, 1, CADRE_FAILURE_USER, "line 3");
    fixture_failed(self, &worker, 3, 1, CADRE_FAILURE_RETURNED, "");
    fixture_turn(self);
    cr_assert(cadre_closure_queue_is_empty(&self->core.queue));
}

Test(checkpoint_when, no_automatic_one_counts_closures_that_failed_as_done)
{
    uint64_t cut = 0;
    fixture_t *self = counted_job(&cut);
    fail_closures(self);
    cr_assert_eq(self->core.begun.next_id, 4);
    cr_expect(fixture_logged(self, "checkpoints_stopped"));
    fixture_clear(self);
    for (int i = 0; i < 3; i++) {
        cr_assert_not(begins(self), "%d", i);
    }
    cr_expect_not(fixture_logged(self, "checkpoints_stopped"), "it is said once");
    cr_expect_eq(cut, 0);
    cadre_checkpoint_ask_place(&self->core.checkpoint, note_cut, &cut);
    cr_assert(begins(self), "the program knows of the failure");
    ask_snapshots(self);
    cr_expect_eq(cut, 4);
    fixture_destroy(&self);
}

/* Without such a record a checkpoint says what it has by sequence numbers, or not at all. */
Test(checkpoint_when, an_automatic_one_whose_record_counts_nothing_follows_a_failure)
{
    uint64_t cut = 0;
    fixture_t *self = saved_job();
    cadre_checkpoint_ask_progress(&self->core.checkpoint, note_cut, &cut);
    fail_closures(self);
    cr_assert(begins(self));
    fixture_destroy(&self);
}

Test(checkpoint_when, one_is_given_up_whose_record_counts_closures_that_fail_later)
{
    uint64_t cut = 0;
    fixture_t *self = counted_job(&cut);
    cadre_task_t worker = fixture_worker(0);
    fixture_heartbeat(self, &worker, self->now_ms, (cadre_u64s_t){NULL, 0});
    fixture_schedule(self, 2);
    fixture_turn(self);
    cr_assert(begins(self));
    ask_snapshots(self);
    cr_assert_eq(cut, 3);
    fixture_failed(self, &worker, 2, 1, CADRE_FAILURE_USER, "line 3");
    fixture_turn(self);
    cr_expect_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    cr_expect_eq(self->core.checkpoint.last_status, CADRE_ESTATE);
    fixture_destroy(&self);
}

/* What fails is above its cut: it says what it said. */
Test(checkpoint_when, one_stays_whose_record_does_not_count_what_fails)
{
    uint64_t cut = 0;
    fixture_t *self = counted_job(&cut);
    run_closure(self, 1);
    cr_assert(begins(self));
    ask_snapshots(self);
    cr_assert_eq(cut, 3);
    cadre_task_t worker = fixture_worker(0);
    fixture_schedule(self, 2);
    fixture_turn(self);
    fixture_failed(self, &worker, 3, 1, CADRE_FAILURE_USER, "line 3");
    end_well(self);
    fixture_destroy(&self);
}

/* What is kept for a replay would grow for ever, and in the end nothing new would begin. */
Test(checkpoint_when, one_that_makes_room_for_a_replay_follows_a_failure_without_a_record)
{
    uint64_t cut = 0;
    fixture_t *self = counted_job(&cut);
    fail_closures(self);
    cr_assert_eq(cadre_checkpoint_begin_for_room(&self->core.checkpoint), 0);
    fixture_turn(self);
    ask_snapshots(self);
    cr_expect_eq(cut, 0, "nobody is asked for a record");
    end_well(self);
    cr_assert_not(begins(self), "and no other follows by itself");
    fixture_destroy(&self);
}

Test(checkpoint_when, one_that_makes_room_for_a_replay_has_its_record_if_nothing_failed)
{
    uint64_t cut = 0;
    fixture_t *self = counted_job(&cut);
    cr_assert_eq(cadre_checkpoint_begin_for_room(&self->core.checkpoint), 0);
    fixture_turn(self);
    ask_snapshots(self);
    cr_expect_eq(cut, self->core.begun.next_id);
    fixture_destroy(&self);
}

Test(checkpoint_when, one_that_is_asked_for_after_a_failure_says_why_it_cannot_be)
{
    uint64_t cut = 0;
    fixture_t *self = counted_job(&cut);
    fail_closures(self);
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
    fixture_turn(self);
    stored(self, CADRE_STORE_OPEN, 0, "/ckpt/.tmp-9");
    cr_expect_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    cr_expect_eq(self->core.checkpoint.last_status, CADRE_ESTATE);
    fixture_clear(self);
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, "{\"epoch\": 3}"), 0);
    fixture_turn(self);
    ask_snapshots(self); /* this one has a record of its own */
    fixture_destroy(&self);
}
