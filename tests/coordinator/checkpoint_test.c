#include "coordinator/checkpoint.h"

#include "coordinator/checkpoint_manifest.h"
#include "tests/coordinator/core_fixture.h"

TestSuite(checkpoint, .timeout = 240);

enum { PS = 2, WORKERS = 2 };

/* A job with checkpoints on, two variables, and everyone joined. */
static fixture_t *
job(void)
{
    fixture_t *self = fixture_new(PS);
    fixture_join_ps(self);
    for (uint32_t i = 0; i < WORKERS; i++) {
        cadre_task_t worker = fixture_worker(i);
        fixture_hello(self, &worker);
    }
    fixture_add_variable(self, "w", 5, 2);
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
stored(fixture_t *self, cadre_store_order_kind_t kind, uint64_t id, int status, const char *text)
{
    cadre_store_answer_t answer = {.kind = kind, .checkpoint = id, .status = status, .text = text};
    cadre_core_stored(&self->core, &answer, self->now_ms);
    fixture_turn(self);
}

/* The last order to the store. */
static const cadre_store_order_t *
last_order(const fixture_t *self)
{
    const cadre_core_event_t *event = NULL;
    for (size_t i = 0; fixture_event(self, CADRE_CORE_STORE, i); i++) {
        event = fixture_event(self, CADRE_CORE_STORE, i);
    }
    return event ? &event->store : NULL;
}

static void
say_taken(fixture_t *self, uint32_t shard, int status)
{
    cadre_task_t ps = fixture_ps(shard);
    cadre_message_t message = fixture_message(&ps, CADRE_MESSAGE_SNAPSHOT_TAKEN);
    const cadre_message_t *question = fixture_sent(self, &ps, CADRE_MESSAGE_SNAPSHOT, 0);
    message.request = question->request;
    message.snapshot_taken =
        (cadre_snapshot_taken_message_t){.checkpoint = question->snapshot.checkpoint,
                                         .status = (uint64_t)-status,
                                         .text = "no room"};
    fixture_say(self, &ps, &message);
}

static void
say_written(fixture_t *self, uint32_t shard, uint64_t checkpoint, int status)
{
    cadre_task_t ps = fixture_ps(shard);
    uint64_t counters[CADRE_PS_COUNTER_COUNT] = {0};
    cadre_message_t message = fixture_message(&ps, CADRE_MESSAGE_SNAPSHOT_WRITTEN);
    counters[CADRE_PS_COUNTER_applied] = 100 + shard;
    counters[CADRE_PS_COUNTER_duplicate] = 7;
    counters[CADRE_PS_COUNTER_refused] = 3;
    message.snapshot_written =
        (cadre_snapshot_written_message_t){.checkpoint = checkpoint,
                                           .status = (uint64_t)-status,
                                           .text = "the disk is full",
                                           .file = shard == 0 ? "shard-0.mdb" : "shard-1.mdb",
                                           .size_bytes = 4096 * (shard + 1),
                                           .hash = 0xabc0 + shard,
                                           .counters = {counters, CADRE_PS_COUNTER_COUNT}};
    fixture_say(self, &ps, &message);
}

/* Brings a checkpoint with id 9 to `state`. */
static void
bring_to(fixture_t *self, cadre_checkpoint_state_t state)
{
    cr_assert_eq(cadre_checkpoint_begin(&self->core, "{\"epoch\": 3}"), 0);
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_OPENING);
    cr_assert_eq(last_order(self)->kind, CADRE_STORE_OPEN);
    if (state >= CADRE_CHECKPOINT_DRAINING) {
        if (state == CADRE_CHECKPOINT_DRAINING) {
            fixture_schedule(self, 1);
            fixture_turn(self);
        }
        stored(self, CADRE_STORE_OPEN, 9, 0, "/ckpt/.tmp-9");
    }
    if (state >= CADRE_CHECKPOINT_WRITING) {
        say_taken(self, 0, 0);
        fixture_turn(self);
        cr_assert_eq(state_of(self), CADRE_CHECKPOINT_SNAPSHOT, "one is missing");
        say_taken(self, 1, 0);
        fixture_turn(self);
    }
    if (state >= CADRE_CHECKPOINT_COMMITTING) {
        say_written(self, 1, 9, 0);
        fixture_turn(self);
        cr_assert_eq(state_of(self), CADRE_CHECKPOINT_WRITING, "one is missing");
        say_written(self, 0, 9, 0);
        fixture_turn(self);
    }
    cr_assert_eq(state_of(self), state, "%d instead of %d", (int)state_of(self), (int)state);
}

/* The checkpoint was given up with this status; everyone was told, and the next one can begin. */
static void
assert_given_up(fixture_t *self, int status, bool shards_know, bool store_knows)
{
    const cadre_checkpoint_t *checkpoint = &self->core.checkpoint;
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    cr_assert_eq(checkpoint->attempts, 1);
    cr_assert_eq(checkpoint->last_status, status, "%d", checkpoint->last_status);
    cr_assert_null(checkpoint->last_path);
    cr_assert_eq(self->core.totals.checkpoints_failed, 1);
    cr_assert_eq(self->core.totals.checkpoints, 0);
    cr_assert_eq(self->core.settled, 1);
    fixture_turn(self);
    cr_assert(fixture_logged(self, "checkpoint_failed"));
    size_t told = fixture_count(self, NULL, CADRE_MESSAGE_CHECKPOINT_END);
    cr_assert_eq(told, shards_know ? PS : 0, "%zu were told", told);
    for (size_t i = 0; i < told; i++) {
        const cadre_message_t *end = fixture_sent(self, NULL, CADRE_MESSAGE_CHECKPOINT_END, i);
        cr_assert_eq(end->checkpoint_end.checkpoint, 9);
        cr_assert_eq(end->checkpoint_end.committed, 0);
    }
    cr_assert_eq(last_order(self)->kind == CADRE_STORE_ABORT, store_knows);
    cr_assert_not(cadre_checkpoint_holds(&self->core));
    cr_assert_eq(self->core.requests.count, 0, "no question is left open");
    cr_assert_eq(cadre_checkpoint_begin(&self->core, NULL), 0);
}

Test(checkpoint, needs_a_directory)
{
    fixture_t *self = fixture_new(1);
    cr_assert_eq(cadre_checkpoint_begin(&self->core, NULL), CADRE_ESTATE);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    fixture_destroy(&self);
}

Test(checkpoint, goes_from_cut_to_commit)
{
    fixture_t *self = job();
    cadre_task_t ps[] = {fixture_ps(0), fixture_ps(1)};
    bring_to(self, CADRE_CHECKPOINT_COMMITTING);
    for (uint32_t i = 0; i < PS; i++) {
        const cadre_message_t *message = fixture_sent(self, &ps[i], CADRE_MESSAGE_SNAPSHOT, 0);
        cr_assert_eq(message->snapshot.checkpoint, 9);
        cr_assert_eq(message->snapshot.cut, 1);
        cr_assert_str_eq(message->snapshot.directory, "/ckpt/.tmp-9");
        cr_assert_eq(message->snapshot.generation, 1);
    }
    cr_assert_eq(last_order(self)->kind, CADRE_STORE_COMMIT);
    cr_assert_eq(last_order(self)->checkpoint, 9);
    cr_assert_null(self->core.checkpoint.last_path, "not before the rename");
    self->core.progress = false;
    stored(self, CADRE_STORE_COMMIT, 9, 0, "/ckpt/ckpt-9");
    cr_assert(self->core.progress, "whoever waits for it is told");
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    cr_assert_eq(self->core.checkpoint.last_status, 0);
    cr_assert_eq(self->core.checkpoint.last_id, 9);
    cr_assert_eq(self->core.checkpoint.attempts, 1);
    cr_assert_str_eq(self->core.checkpoint.last_path, "/ckpt/ckpt-9");
    cr_assert_eq(self->core.totals.checkpoints, 1);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CHECKPOINT_END), PS);
    cr_assert_eq(
        fixture_sent(self, &ps[1], CADRE_MESSAGE_CHECKPOINT_END, 0)->checkpoint_end.committed, 1);
    fixture_destroy(&self);
}

Test(checkpoint, holds_new_closures_from_the_cut_to_the_last_snapshot_and_runs_lost_ones_again)
{
    fixture_t *self = job();
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    fixture_schedule(self, 1);
    fixture_schedule(self, 2);
    fixture_turn(self);
    fixture_clear(self);
    cr_assert_eq(cadre_checkpoint_begin(&self->core, NULL), 0);
    fixture_turn(self);
    fixture_schedule(self, 3);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 1, "the cut is not yet");
    fixture_clear(self);
    stored(self, CADRE_STORE_OPEN, 9, 0, "/ckpt/.tmp-9");
    cr_assert_eq(self->core.checkpoint.cut, 4);
    fixture_schedule(self, 4);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 0);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_SNAPSHOT), 0);
    /* One of those below the cut is lost with its worker, and runs again. */
    fixture_done(self, &workers[0], 1, 1);
    fixture_done(self, &workers[0], 3, 1);
    cadre_core_gone(&self->core, &workers[1], self->now_ms);
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_DRAINING);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 1);
    cr_assert_eq(fixture_sent(self, &workers[0], CADRE_MESSAGE_CLOSURE, 0)->closure.id, 2);
    fixture_done(self, &workers[0], 2, 2);
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_SNAPSHOT);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_SNAPSHOT), PS);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 1);
    say_taken(self, 0, 0);
    say_taken(self, 1, 0);
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_WRITING);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 2, "dispatch goes on at once");
    fixture_destroy(&self);
}

Test(checkpoint, a_closure_cancelled_while_queued_again_does_not_hold_up_the_cut)
{
    fixture_t *self = job();
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    fixture_schedule(self, 1);
    fixture_turn(self);
    cadre_core_gone(&self->core, &workers[0], self->now_ms);
    cadre_core_gone(&self->core, &workers[1], self->now_ms);
    cr_assert_eq(cadre_checkpoint_begin(&self->core, NULL), 0);
    stored(self, CADRE_STORE_OPEN, 9, 0, "/ckpt/.tmp-9");
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_DRAINING);
    cadre_closure_queue_cancel(&self->core.queue);
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_SNAPSHOT);
    fixture_destroy(&self);
}

Test(checkpoint, counts_no_failure_of_a_closure_that_was_never_begun)
{
    fixture_t *self = job();
    cadre_closure_t *closure = cadre_closure_new(fixture_function(self)->id);
    char text[CADRE_CLOSURE_ERROR_SIZE];
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, closure), 0);
    cadre_dispatch_refuse(&self->core, closure, cadre_fail(CADRE_EPOISON, "its resource"));
    cr_assert_eq(cadre_closure_queue_raise(&self->core.queue, text), CADRE_EPOISON);
    bring_to(self, CADRE_CHECKPOINT_SNAPSHOT);
    cr_assert_eq(self->core.checkpoint.totals.failed, 0);
    fixture_destroy(&self);
}

/* --- failures --- */

Test(checkpoint, is_given_up_when_the_store_cannot_open_a_draft)
{
    fixture_t *self = job();
    bring_to(self, CADRE_CHECKPOINT_OPENING);
    stored(self, CADRE_STORE_OPEN, 9, CADRE_EIO, "the disk is bad");
    cr_assert_str_eq(self->core.checkpoint.last_text, "the disk is bad");
    assert_given_up(self, CADRE_EIO, false, true);
    fixture_destroy(&self);
}

Test(checkpoint, is_given_up_when_a_shard_cannot_take_its_snapshot)
{
    fixture_t *self = job();
    bring_to(self, CADRE_CHECKPOINT_SNAPSHOT);
    say_taken(self, 1, CADRE_EFULL);
    cr_assert_str_eq(self->core.checkpoint.last_text, "no room");
    assert_given_up(self, CADRE_EFULL, true, true);
    fixture_destroy(&self);
}

Test(checkpoint, is_given_up_when_a_shard_answers_something_else)
{
    fixture_t *self = job();
    cadre_task_t ps = fixture_ps(0);
    bring_to(self, CADRE_CHECKPOINT_SNAPSHOT);
    fixture_reply(self, &ps, fixture_sent(self, &ps, CADRE_MESSAGE_SNAPSHOT, 0));
    assert_given_up(self, CADRE_EMALFORMED, true, true);
    fixture_destroy(&self);
}

Test(checkpoint, is_given_up_when_a_shard_cannot_write)
{
    fixture_t *self = job();
    bring_to(self, CADRE_CHECKPOINT_WRITING);
    say_written(self, 1, 9, CADRE_EIO);
    cr_assert_str_eq(self->core.checkpoint.last_text, "ps 1: the disk is full");
    assert_given_up(self, CADRE_EIO, true, true);
    fixture_destroy(&self);
}

Test(checkpoint, is_given_up_when_the_store_cannot_commit)
{
    fixture_t *self = job();
    bring_to(self, CADRE_CHECKPOINT_COMMITTING);
    stored(self, CADRE_STORE_COMMIT, 9, CADRE_EIO, "fsync: bad");
    assert_given_up(self, CADRE_EIO, true, false);
    fixture_destroy(&self);
}

Test(checkpoint, is_given_up_when_its_progress_is_no_object)
{
    fixture_t *self = job();
    cr_assert_eq(cadre_checkpoint_begin(&self->core, "[1]"), 0);
    stored(self, CADRE_STORE_OPEN, 9, 0, "/ckpt/.tmp-9");
    for (uint32_t i = 0; i < PS; i++) {
        say_taken(self, i, 0);
        say_written(self, i, 9, 0);
    }
    fixture_turn(self);
    assert_given_up(self, CADRE_EINVALID, true, true);
    fixture_destroy(&self);
}

static const cadre_checkpoint_state_t stoppable[] = {
    CADRE_CHECKPOINT_OPENING, CADRE_CHECKPOINT_DRAINING, CADRE_CHECKPOINT_SNAPSHOT,
    CADRE_CHECKPOINT_WRITING};

Test(checkpoint, is_given_up_in_any_state_when_a_ps_is_lost)
{
    for (size_t i = 0; i < 4; i++) {
        fixture_t *self = job();
        cadre_task_t ps = fixture_ps(1);
        bring_to(self, stoppable[i]);
        cadre_core_gone(&self->core, &ps, self->now_ms);
        cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
        cr_assert_eq(self->core.checkpoint.last_status, CADRE_EUNAVAILABLE);
        cr_assert(self->core.checkpoint.ps_lost, "another one may do well");
        cr_assert_eq(self->core.fatal, 0, "its shard can be restored");
        fixture_turn(self);
        cr_assert_eq(last_order(self)->kind, CADRE_STORE_ABORT);
        fixture_destroy(&self);
    }
}

static void
keep_alive(fixture_t *self)
{
    self->core.options.lease_ms = UINT64_MAX / 2;
}

Test(checkpoint, is_given_up_at_its_deadline)
{
    for (size_t i = 0; i < 4; i++) {
        fixture_t *self = job();
        keep_alive(self);
        bring_to(self, stoppable[i]);
        bool writing = stoppable[i] == CADRE_CHECKPOINT_WRITING;
        uint64_t limit_ms = writing ? CADRE_CHECKPOINT_WRITE_MS : CADRE_CHECKPOINT_DRAIN_MS;
        self->now_ms += limit_ms - 1;
        fixture_turn(self);
        cr_assert_eq(state_of(self), stoppable[i]);
        cr_assert_leq(self->due_ms, self->now_ms + 1);
        self->now_ms += 1;
        fixture_turn(self);
        assert_given_up(self, CADRE_ETIMEOUT, stoppable[i] != CADRE_CHECKPOINT_OPENING, true);
        fixture_destroy(&self);
    }
}

Test(checkpoint, under_commit_is_the_stores_to_decide)
{
    fixture_t *self = job();
    cadre_task_t ps = fixture_ps(1);
    keep_alive(self);
    bring_to(self, CADRE_CHECKPOINT_COMMITTING);
    cadre_core_gone(&self->core, &ps, self->now_ms);
    self->now_ms += 2 * (uint64_t)CADRE_CHECKPOINT_WRITE_MS;
    fixture_turn(self);
    cadre_core_stop(&self->core, "the job is over");
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_COMMITTING);
    cr_assert_gt(self->due_ms, self->now_ms, "it does not spin");
    stored(self, CADRE_STORE_COMMIT, 9, 0, "/ckpt/ckpt-9");
    cr_assert_str_eq(self->core.checkpoint.last_path, "/ckpt/ckpt-9");
    cr_assert_eq(self->core.totals.checkpoints, 1);
    cr_assert_eq(self->core.totals.checkpoints_failed, 0);
    fixture_destroy(&self);
}

Test(checkpoint, keeps_the_one_before_when_it_fails)
{
    fixture_t *self = job();
    bring_to(self, CADRE_CHECKPOINT_COMMITTING);
    stored(self, CADRE_STORE_COMMIT, 9, 0, "/ckpt/ckpt-9");
    fixture_clear(self);
    cr_assert_eq(cadre_checkpoint_begin(&self->core, NULL), 0);
    stored(self, CADRE_STORE_OPEN, 10, 0, "/ckpt/.tmp-10");
    say_taken(self, 0, CADRE_EIO);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    cr_assert_eq(self->core.checkpoint.last_status, CADRE_EIO);
    cr_assert_str_eq(self->core.checkpoint.last_path, "/ckpt/ckpt-9");
    cr_assert_eq(self->core.checkpoint.last_id, 9);
    fixture_destroy(&self);
}

/* --- late and doubled --- */

Test(checkpoint, an_open_that_was_given_up_does_not_answer_the_next)
{
    fixture_t *self = job();
    bring_to(self, CADRE_CHECKPOINT_OPENING);
    cadre_checkpoint_abort(&self->core, CADRE_ECANCELLED, "given up");
    cr_assert_eq(cadre_checkpoint_begin(&self->core, NULL), 0);
    stored(self, CADRE_STORE_OPEN, 9, 0, "/ckpt/.tmp-9");
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_OPENING, "9 is being removed");
    stored(self, CADRE_STORE_OPEN, 10, 0, "/ckpt/.tmp-10");
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_SNAPSHOT);
    cr_assert_eq(self->core.checkpoint.id, 10);
    fixture_destroy(&self);
}

Test(checkpoint, answers_that_are_late_or_doubled_change_nothing)
{
    fixture_t *self = job();
    bring_to(self, CADRE_CHECKPOINT_WRITING);
    say_taken(self, 0, 0);
    say_written(self, 0, 8, CADRE_EIO);
    say_written(self, 0, 9, 0);
    say_written(self, 0, 9, 0);
    stored(self, CADRE_STORE_COMMIT, 9, 0, "/ckpt/ckpt-9");
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_WRITING);
    say_written(self, 1, 9, 0);
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_COMMITTING);
    stored(self, CADRE_STORE_COMMIT, 9, 0, "/ckpt/ckpt-9");
    stored(self, CADRE_STORE_COMMIT, 9, CADRE_EIO, "twice");
    cr_assert_eq(self->core.checkpoint.attempts, 1);
    cr_assert_eq(self->core.checkpoint.last_status, 0);
    fixture_destroy(&self);
}

Test(checkpoint, a_shard_may_have_written_before_another_has_taken)
{
    fixture_t *self = job();
    bring_to(self, CADRE_CHECKPOINT_SNAPSHOT);
    say_written(self, 0, 9, 0);
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_SNAPSHOT);
    say_taken(self, 1, 0);
    say_written(self, 1, 9, 0);
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_COMMITTING);
    stored(self, CADRE_STORE_COMMIT, 9, 0, "/ckpt/ckpt-9");
    cr_assert_eq(self->core.requests.count, 0, "shard 0 is not asked for its snapshot again");
    fixture_destroy(&self);
}

Test(checkpoint, a_shard_that_has_not_heard_the_end_is_told_again)
{
    fixture_t *self = job();
    cadre_task_t ps = fixture_ps(1);
    bring_to(self, CADRE_CHECKPOINT_COMMITTING);
    fixture_clear(self);
    say_written(self, 1, 9, 0);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &ps, CADRE_MESSAGE_CHECKPOINT_END), 0, "it has not ended");
    stored(self, CADRE_STORE_COMMIT, 9, 0, "/ckpt/ckpt-9");
    fixture_clear(self);
    say_written(self, 1, 9, 0);
    say_written(self, 1, 8, 0);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &ps, CADRE_MESSAGE_CHECKPOINT_END), 2);
    const cadre_message_t *end = fixture_sent(self, &ps, CADRE_MESSAGE_CHECKPOINT_END, 0);
    cr_assert_eq(end->checkpoint_end.committed, 1);
    end = fixture_sent(self, &ps, CADRE_MESSAGE_CHECKPOINT_END, 1);
    cr_assert_eq(end->checkpoint_end.checkpoint, 8);
    cr_assert_eq(end->checkpoint_end.committed, 0);
    fixture_destroy(&self);
}

Test(checkpoint, giving_up_leaves_other_questions_to_the_shards_alone)
{
    fixture_t *self = job();
    cadre_operation_t operation = {.pending = 0};
    cadre_shard_totals_t totals;
    operation.target = &totals;
    bring_to(self, CADRE_CHECKPOINT_SNAPSHOT);
    cadre_core_count_shard(&self->core, 0, &operation);
    cadre_checkpoint_abort(&self->core, CADRE_ECANCELLED, "given up");
    cr_assert_eq(self->core.requests.count, 1);
    cadre_core_forget(&self->core, &operation);
    fixture_destroy(&self);
}

Test(checkpoint, giving_up_leaves_a_restore_alone)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t ps = fixture_ps(0);
    fixture_hello(self, &ps);
    self->core.checkpoint.enabled = true;
    cr_assert_eq(cadre_checkpoint_begin(&self->core, NULL), 0);
    cadre_checkpoint_abort(&self->core, CADRE_ECANCELLED, "given up");
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &ps, CADRE_MESSAGE_RESTORE), 1);
    fixture_destroy(&self);
}

/* --- progress and automatic ones --- */

typedef struct {
    int calls;
    uint64_t cut;
} progress_calls_t;

static char *
say_progress(void *context, uint64_t cut)
{
    progress_calls_t *calls = context;
    calls->calls++;
    calls->cut = cut;
    return cadre_strdup("{\"position\": 12}");
}

Test(checkpoint, asks_for_progress_with_the_cut_unless_it_was_given)
{
    fixture_t *self = job();
    progress_calls_t calls = {0};
    self->core.checkpoint.on_progress = say_progress;
    self->core.checkpoint.progress_context = &calls;
    bring_to(self, CADRE_CHECKPOINT_SNAPSHOT);
    cr_assert_eq(calls.calls, 0, "save had its own");
    cadre_checkpoint_abort(&self->core, CADRE_ECANCELLED, "given up");
    fixture_turn(self);
    fixture_clear(self);
    self->core.next_id = 100;
    cr_assert_eq(cadre_checkpoint_begin(&self->core, NULL), 0);
    fixture_turn(self);
    cr_assert_eq(calls.calls, 0, "not before the cut");
    cadre_store_answer_t answer = {
        .kind = CADRE_STORE_OPEN, .checkpoint = 10, .text = "/ckpt/.tmp-10"};
    cadre_core_stored(&self->core, &answer, self->now_ms);
    cr_assert_eq(calls.calls, 0, "not on the store's thread");
    fixture_turn(self);
    cr_assert_eq(calls.calls, 1);
    cr_assert_eq(calls.cut, 100);
    cr_assert_eq(self->core.checkpoint.cut, 100);
    fixture_clear(self);
    for (uint32_t i = 0; i < PS; i++) {
        self->core.checkpoint.shards[i].taken = true;
        say_written(self, i, 10, 0);
    }
    fixture_turn(self);
    const cadre_manifest_t *manifest = last_order(self)->manifest;
    json_t *user = json_object_get(manifest->progress, "user");
    cr_assert_eq(json_integer_value(json_object_get(user, "position")), 12);
    fixture_destroy(&self);
}

Test(checkpoint, automatic_ones_come_at_their_interval_from_the_end_of_the_last)
{
    fixture_t *self = job();
    keep_alive(self);
    self->core.checkpoint.every_ms = 5000;
    fixture_turn(self);
    uint64_t begun_ms = self->now_ms;
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    cr_assert_leq(self->due_ms, begun_ms + 5000);
    self->now_ms = begun_ms + 4999;
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    self->now_ms = begun_ms + 5000;
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_OPENING);
    self->now_ms += 700;
    stored(self, CADRE_STORE_OPEN, 9, CADRE_EIO, "bad");
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    self->now_ms += 4999;
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    self->now_ms += 1;
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_OPENING);
    fixture_destroy(&self);
}

Test(checkpoint, automatic_ones_wait_for_variables_and_end_with_the_job)
{
    fixture_t *self = fixture_new(1);
    self->core.checkpoint.enabled = true;
    self->core.checkpoint.every_ms = 10;
    fixture_turn(self);
    self->now_ms += 1000;
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE, "there is nothing to keep");
    fixture_add_variable(self, "w", 5, 1);
    fixture_turn(self);
    self->now_ms += 10;
    self->core.fatal = CADRE_EUNAVAILABLE;
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    fixture_destroy(&self);
}

/* The program creates its variables again one by one; an automatic checkpoint in between would be
 * one without the rest. */
Test(checkpoint, automatic_ones_wait_until_a_resumed_job_runs_something)
{
    fixture_t *self = job();
    const cadre_totals_t totals = {.scheduled = 6};
    cadre_core_resume(&self->core, "/ckpt/ckpt-7", 7, &totals);
    self->core.checkpoint.every_ms = 10;
    for (int i = 0; i < 3; i++) {
        self->now_ms += 10;
        fixture_turn(self);
        cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    }
    fixture_schedule(self, 1);
    fixture_turn(self);
    fixture_turn(self);
    self->now_ms += 10;
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_OPENING);
    fixture_destroy(&self);
}

Test(checkpoint, automatic_ones_wait_for_every_variable_that_was_resumed)
{
    fixture_t *self = job();
    const cadre_totals_t totals = {.scheduled = 6};
    cadre_core_resume(&self->core, "/ckpt/ckpt-7", 7, &totals);
    cadre_checkpoint_await(&self->core.checkpoint, self->core.catalogue.variables[0]->name);
    cadre_checkpoint_await(&self->core.checkpoint, "later");
    self->core.checkpoint.every_ms = 10;
    fixture_schedule(self, 1);
    for (int i = 0; i < 3; i++) {
        self->now_ms += 10;
        fixture_turn(self);
        cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    }
    cr_assert(fixture_logged(self, "checkpoints_wait"));
    cadre_variable_t *later = fixture_add_variable(self, "later", 3, 1);
    later->created = false;
    fixture_turn(self);
    self->now_ms += 10;
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE, "it is being created");
    later->created = true;
    fixture_turn(self);
    self->now_ms += 10;
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_OPENING);
    fixture_destroy(&self);
}

Test(checkpoint, one_that_the_program_saves_does_without_what_was_not_created_again)
{
    fixture_t *self = job();
    cadre_checkpoint_await(&self->core.checkpoint, "later");
    bring_to(self, CADRE_CHECKPOINT_WRITING);
    cr_assert(fixture_logged(self, "variables_left_out"));
    cr_assert_eq(self->core.checkpoint.awaited_count, 1);
    self->core.checkpoint.state = CADRE_CHECKPOINT_COMMITTING;
    cadre_store_answer_t answer = {.kind = CADRE_STORE_COMMIT, .text = "/ckpt/ckpt-1"};
    cadre_core_stored(&self->core, &answer, self->now_ms);
    cr_assert_eq(self->core.checkpoint.awaited_count, 0);
    fixture_destroy(&self);
}

/* --- the manifest --- */

/* Its parts may be on some shards only when those take their snapshots. */
Test(checkpoint, its_manifest_is_silent_on_what_was_created_after_the_snapshots)
{
    fixture_t *self = job();
    cadre_variable_t *later = fixture_add_variable(self, "later", 3, 1);
    later->created = false;
    self->core.creating = true;
    bring_to(self, CADRE_CHECKPOINT_WRITING);
    later->created = true;
    self->core.creating = false;
    fixture_add_variable(self, "last", 3, 1);
    say_written(self, 0, 9, 0);
    say_written(self, 1, 9, 0);
    fixture_turn(self);
    const cadre_manifest_t *manifest = last_order(self)->manifest;
    cr_assert_eq(manifest->variable_count, 2);
    cr_assert_null(cadre_manifest_find(manifest, "later"));
    cr_assert_null(cadre_manifest_find(manifest, "last"));
    fixture_destroy(&self);
}

Test(checkpoint, its_manifest_says_what_the_cut_holds)
{
    fixture_t *self = job();
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    for (uint32_t i = 1; i <= 3; i++) {
        fixture_schedule(self, i);
    }
    fixture_turn(self);
    fixture_done(self, &workers[0], 1, 1);
    fixture_done(self, &workers[1], 2, 1);
    fixture_done(self, &workers[0], 3, 1);
    cadre_variable_t *unfinished = fixture_add_variable(self, "later", 3, 1);
    unfinished->created = false;
    bring_to(self, CADRE_CHECKPOINT_WRITING);
    /* What comes after the cut is not in it. */
    for (uint32_t i = 4; i <= 7; i++) {
        fixture_schedule(self, i);
    }
    fixture_turn(self);
    fixture_done(self, &workers[0], 4, 1);
    say_written(self, 0, 9, 0);
    say_written(self, 1, 9, 0);
    fixture_turn(self);
    cadre_manifest_t *manifest = last_order(self)->manifest;
    cr_assert_str_eq(manifest->job, "test");
    cr_assert_eq(manifest->id, 9);
    cr_assert_eq(manifest->cut, 4);
    cr_assert_eq(manifest->epoch, FIXTURE_EPOCH);
    cr_assert_eq(manifest->seed, 42);
    cr_assert_eq(manifest->variable_count, 2, "only what exists");
    const cadre_manifest_variable_t *w = cadre_manifest_find(manifest, "w");
    cr_assert_eq(w->partition_count, 2);
    cr_assert_eq(w->partitions[0].first_element, 0);
    cr_assert_eq(w->partitions[0].count, 3);
    cr_assert_eq(w->partitions[1].first_element, 3);
    cr_assert_eq(w->partitions[1].count, 2);
    cr_assert_eq(manifest->shard_count, PS);
    cr_assert_str_eq(manifest->shards[1].file, "shard-1.mdb");
    cr_assert_eq(manifest->shards[1].size_bytes, 8192);
    cr_assert_eq(manifest->shards[1].hash, 0xabc1);
    cr_assert_eq(manifest->shards[1].state.window_base, 4);
    cr_assert_eq(manifest->shards[1].state.generation, 1);
    cr_assert_eq(manifest->shards[1].state.applied, 101);
    cr_assert_eq(manifest->shards[1].state.duplicate, 7);
    cr_assert_eq(manifest->shards[1].state.refused, 3);
    cadre_totals_t totals = {0};
    char *progress = NULL;
    cr_assert_eq(cadre_checkpoint_totals(manifest, &totals, &progress), 0);
    cr_assert_eq(totals.scheduled, 3);
    cr_assert_eq(totals.finished, 3);
    cr_assert_eq(totals.attempts, 3);
    cr_assert_str_eq(progress, "{\"epoch\":3}");
    free(progress);
    fixture_destroy(&self);
}

Test(checkpoint, its_manifest_survives_the_file_and_resumes_the_totals)
{
    fixture_t *self = job();
    self->core.totals.workers_lost = 4;
    self->core.totals.failed = 2;
    self->core.totals.ps_restored = 5;
    self->core.totals.replayed = 3311;
    self->core.totals.closures_at_risk = 6;
    self->core.totals.checkpoints = 8;
    self->core.totals.checkpoints_failed = 1;
    self->core.totals.retentions_failed = 7;
    bring_to(self, CADRE_CHECKPOINT_COMMITTING);
    cadre_manifest_t *manifest = last_order(self)->manifest;
    manifest->created = cadre_strdup("2025-01-31T12:34:56.789Z");
    char *text = NULL;
    size_t size_bytes = 0;
    cr_assert_eq(cadre_manifest_encode(manifest, &text, &size_bytes), 0, "%s", cadre_error_text());
    cadre_manifest_t read = {0};
    cr_assert_eq(cadre_manifest_decode("manifest.json", text, size_bytes, &read), 0);
    cadre_totals_t totals = {0};
    char *progress = NULL;
    cr_assert_eq(cadre_checkpoint_totals(&read, &totals, &progress), 0);
    cr_assert_eq(totals.workers_lost, 4);
    cr_assert_eq(totals.failed, 2);
    cr_assert_eq(totals.ps_restored, 5);
    cr_assert_eq(totals.replayed, 3311);
    cr_assert_eq(totals.closures_at_risk, 6);
    cr_assert_eq(totals.checkpoints, 9, "the one that was read counts too");
    cr_assert_eq(totals.checkpoints_failed, 1);
    cr_assert_eq(totals.retentions_failed, 7);
    cr_assert_str_eq(progress, "{\"epoch\":3}");
    fixture_t *next = fixture_new(PS);
    cadre_task_t ps = fixture_ps(0);
    cadre_task_t worker = fixture_worker(0);
    totals.scheduled = 11;
    cadre_core_resume(&next->core, "/ckpt/ckpt-9", 12, &totals);
    fixture_hello(next, &ps);
    fixture_hello(next, &worker);
    fixture_schedule(next, 1);
    fixture_turn(next);
    const cadre_message_t *restore = fixture_sent(next, &ps, CADRE_MESSAGE_RESTORE, 0);
    cr_assert_str_eq(restore->restore.path, "/ckpt/ckpt-9");
    cr_assert_eq(restore->restore.cut, 12);
    cr_assert_eq(restore->restore.generation, 1);
    cr_assert_eq(fixture_sent(next, &worker, CADRE_MESSAGE_CLOSURE, 0)->closure.id, 12);
    cr_assert_eq(next->core.begun, 12);
    cr_assert_str_eq(next->core.checkpoint.last_path, "/ckpt/ckpt-9");
    free(progress);
    free(text);
    cadre_manifest_fini(&read);
    fixture_destroy(&next);
    fixture_destroy(&self);
}
