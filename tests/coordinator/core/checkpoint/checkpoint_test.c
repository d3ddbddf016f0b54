#include "coordinator/core/checkpoint/checkpoint.h"

#include "tests/coordinator/checkpoint_fixture.h"

TestSuite(checkpoint, .timeout = 240);

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
    cr_assert_eq(self->core.windows.settled, 1);
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
    cr_assert_eq(self->core.requests.count, told, "they are told until they answer");
    for (uint32_t i = 0; i < told; i++) {
        cadre_task_t ps = fixture_ps(i);
        const cadre_message_t *end = fixture_sent(self, &ps, CADRE_MESSAGE_CHECKPOINT_END, 0);
        fixture_reply(self, &ps, end);
    }
    cr_assert_eq(self->core.requests.count, 0, "no question is left open");
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
}

Test(checkpoint, needs_a_directory)
{
    fixture_t *self = fixture_new(1);
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), CADRE_ESTATE);
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
        cr_assert_eq(message->snapshot.generation, 1);
        message = fixture_sent(self, &ps[i], CADRE_MESSAGE_CLOSE_CUT, 0);
        cr_assert_eq(message->close_cut.checkpoint, 9);
        cr_assert_eq(message->close_cut.cut, 1);
        cr_assert_str_eq(message->close_cut.directory, "/ckpt/.tmp-9");
        cr_assert_eq(message->close_cut.generation, 1);
    }
    cr_assert_eq(last_order(self)->kind, CADRE_STORE_COMMIT);
    cr_assert_eq(last_order(self)->checkpoint, 9);
    cr_assert_null(self->core.checkpoint.last_path, "not before the rename");
    cadre_effects_take_progress(&self->core.effects);
    stored(self, CADRE_STORE_COMMIT, 9, 0, "/ckpt/ckpt-9");
    cr_assert(cadre_effects_take_progress(&self->core.effects), "whoever waits for it is told");
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

Test(checkpoint, dispatch_goes_on_while_the_cut_waits_for_what_is_below_it)
{
    fixture_t *self = job();
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    fixture_schedule(self, 1);
    fixture_schedule(self, 2);
    fixture_turn(self);
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
    fixture_turn(self);
    fixture_schedule(self, 3);
    fixture_turn(self);
    const cadre_message_t *sent = fixture_sent(self, NULL, CADRE_MESSAGE_CLOSURE, 2);
    cr_assert_not_null(sent);
    cr_assert_eq(sent->closure.checkpoint, 0, "the cut is not yet");
    fixture_clear(self);
    stored(self, CADRE_STORE_OPEN, 9, 0, "/ckpt/.tmp-9");
    cr_assert_eq(self->core.checkpoint.cut, 4);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_SNAPSHOT), PS);
    fixture_schedule(self, 4);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 1);
    sent = fixture_sent(self, NULL, CADRE_MESSAGE_CLOSURE, 0);
    cr_assert_eq(sent->closure.id, 4);
    cr_assert_eq(sent->closure.checkpoint, 9);
    cr_assert_eq(sent->closure.cut, 4);
    say_taken(self, 0, 0);
    say_taken(self, 1, 0);
    fixture_clear(self);
    /* One of those below the cut is lost with its worker, and runs again. */
    fixture_done(self, &workers[0], 1, 1);
    fixture_done(self, &workers[0], 3, 1);
    fixture_gone(self, &workers[1]);
    fixture_turn(self);
    for (size_t i = 0; i < 2; i++) {
        sent = fixture_sent(self, &workers[0], CADRE_MESSAGE_CLOSURE, i);
        cr_assert_not_null(sent, "%zu", i);
        bool is_below = sent->closure.id == 2;
        cr_assert_eq(sent->closure.checkpoint, is_below ? 0 : 9);
    }
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_CUT, "closure 2 has not ended");
    fixture_done(self, &workers[0], 4, 2); /* above the cut */
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_CUT);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSE_CUT), 0);
    fixture_done(self, &workers[0], 2, 2);
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_WRITING);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSE_CUT), PS);
    const cadre_totals_t *totals = &self->core.checkpoint.totals;
    cr_assert_eq(totals->scheduled, 3);
    cr_assert_eq(totals->finished, 3, "closure 4 is not below it");
    cr_assert_eq(totals->attempts, 4, "closure 2 had two");
    fixture_destroy(&self);
}

/* Notes the cut as a program counts that leaves out closures of clients. */
static char *
note_own_cut(void *context, uint64_t cut, uint64_t of_clients)
{
    *(uint64_t *)context = cut - of_clients;
    return NULL;
}

/* A record that counted closures of clients would tell a place in the data that is too far. */
Test(checkpoint, tells_how_many_ids_below_its_cut_are_of_clients)
{
    fixture_t *self = job();
    uint64_t own_cut = 0;
    cadre_checkpoint_ask_progress(&self->core.checkpoint, note_own_cut, &own_cut);
    fixture_schedule(self, 1);
    cadre_closure_t *of_client = cadre_closure_new(1);
    of_client->steps = 5;
    of_client->group = cadre_closure_group_new_unpaced();
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, of_client), 0);
    fixture_schedule(self, 2);
    fixture_turn(self);
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
    fixture_turn(self);
    stored(self, CADRE_STORE_OPEN, 9, 0, "/ckpt/.tmp-9");
    cr_assert_eq(self->core.checkpoint.cut, 8);
    cr_expect_eq(own_cut, 3, "%zu", (size_t)own_cut);
    fixture_destroy(&self);
}

Test(checkpoint, an_assignment_says_of_which_cut_it_comes_after)
{
    fixture_t *self = job();
    cadre_operation_t operation = {.pending = 0};
    float bytes[5] = {0};
    const cadre_variable_t *b = self->core.catalogue.variables[1];
    cadre_task_t ps = fixture_ps(b->shards[0]);
    bring_to(self, CADRE_CHECKPOINT_CUT);
    say_taken(self, b->shards[0], 0);
    cadre_operations_assign(&self->core.operations, b, CADRE_ASSIGN_SET, bytes, &operation);
    fixture_turn(self);
    const cadre_message_t *sent = fixture_sent(self, &ps, CADRE_MESSAGE_ASSIGN, 0);
    cr_assert_eq(sent->assign.checkpoint, 9);
    cr_assert_eq(sent->assign.cut, 1);
    cadre_operations_give_up(&self->core.operations, &operation);
    fixture_destroy(&self);
}

/* A closure that has its id, as batches of ranges have, is below the cut before it is handed
 * out. */
Test(checkpoint, an_assignment_waits_for_what_is_below_an_open_cut_to_be_handed_out)
{
    fixture_t *self = job();
    const cadre_checkpoint_t *checkpoint = &self->core.checkpoint;
    cadre_pause_begin(&self->core.pause);
    cadre_attempts_number(&self->core.attempts, fixture_schedule(self, 1));
    cr_expect(cadre_checkpoint_may_assign(checkpoint), "no cut is open");
    bring_to(self, CADRE_CHECKPOINT_CUT);
    cr_expect_not(cadre_checkpoint_may_assign(checkpoint));
    cadre_pause_end(&self->core.pause);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 1);
    cadre_pause_begin(&self->core.pause);
    cadre_attempts_number(&self->core.attempts, fixture_schedule(self, 2)); /* after the cut */
    cr_expect(cadre_checkpoint_may_assign(checkpoint), "what runs comes before it or after it");
    fixture_destroy(&self);
}

Test(checkpoint, a_closure_cancelled_while_queued_again_does_not_hold_up_the_cut)
{
    fixture_t *self = job();
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    fixture_schedule(self, 1);
    fixture_turn(self);
    fixture_gone(self, &workers[0]);
    fixture_gone(self, &workers[1]);
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
    stored(self, CADRE_STORE_OPEN, 9, 0, "/ckpt/.tmp-9");
    say_taken(self, 0, 0);
    say_taken(self, 1, 0);
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_CUT);
    fixture_cancel(self);
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_WRITING);
    fixture_destroy(&self);
}

Test(checkpoint, counts_no_failure_of_a_closure_that_was_never_begun)
{
    fixture_t *self = job();
    cadre_closure_t *closure = cadre_closure_new(fixture_function(self)->id);
    char text[CADRE_CLOSURE_ERROR_SIZE];
    fixture_watch(self, closure);
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, closure), 0);
    cadre_attempts_refuse(&self->core.attempts, closure, cadre_fail(CADRE_EPOISON, "its resource"));
    cr_assert_eq(cadre_closure_queue_raise(&self->core.queue, text), CADRE_EPOISON);
    bring_to(self, CADRE_CHECKPOINT_CUT);
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
    bring_to(self, CADRE_CHECKPOINT_CUT);
    say_taken(self, 1, CADRE_EFULL);
    cr_assert_str_eq(self->core.checkpoint.last_text, "no room");
    assert_given_up(self, CADRE_EFULL, true, true);
    fixture_destroy(&self);
}

Test(checkpoint, is_given_up_when_a_shard_answers_something_else)
{
    fixture_t *self = job();
    cadre_task_t ps = fixture_ps(0);
    bring_to(self, CADRE_CHECKPOINT_CUT);
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

/* One shard's values after another synchronous step than those of the others. */
Test(checkpoint, is_given_up_when_a_shard_writes_the_values_of_another_step)
{
    fixture_t *self = job();
    cadre_recovery_note_step(&self->core.recovery, 1, 8);
    bring_to(self, CADRE_CHECKPOINT_WRITING);
    say_written(self, 0, 9, 0);
    say_written(self, 1, 9, 0);
    fixture_turn(self);
    cr_assert_str_eq(self->core.checkpoint.last_text,
                     "ps 1 wrote the values after step 0, and the cut lies after step 8");
    assert_given_up(self, CADRE_ESTATE, true, true);
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
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, "[1]"), 0);
    stored(self, CADRE_STORE_OPEN, 9, 0, "/ckpt/.tmp-9");
    for (uint32_t i = 0; i < PS; i++) {
        say_taken(self, i, 0);
    }
    fixture_turn(self);
    for (uint32_t i = 0; i < PS; i++) {
        say_written(self, i, 9, 0);
    }
    fixture_turn(self);
    assert_given_up(self, CADRE_EINVALID, true, true);
    fixture_destroy(&self);
}

Test(checkpoint, is_given_up_when_a_shard_has_no_such_cut_to_close)
{
    fixture_t *self = job();
    cadre_task_t ps = fixture_ps(1);
    bring_to(self, CADRE_CHECKPOINT_WRITING);
    const cadre_message_t *asked = fixture_sent(self, &ps, CADRE_MESSAGE_CLOSE_CUT, 0);
    cadre_message_t message = fixture_message(&ps, CADRE_MESSAGE_REPLY);
    message.request = asked->request;
    message.reply = (cadre_reply_message_t){.status = (uint64_t)-CADRE_ESTATE, .text = "not open"};
    fixture_say(self, &ps, &message);
    cr_assert_str_eq(self->core.checkpoint.last_text, "ps 1: not open");
    assert_given_up(self, CADRE_ESTATE, true, true);
    fixture_destroy(&self);
}

Test(checkpoint, is_given_up_when_a_ps_is_lost_that_has_the_cut)
{
    static const cadre_checkpoint_state_t states[] = {CADRE_CHECKPOINT_CUT,
                                                      CADRE_CHECKPOINT_WRITING};
    for (size_t i = 0; i < 2; i++) {
        fixture_t *self = job();
        cadre_task_t ps = fixture_ps(1);
        bring_to(self, states[i]);
        self->core.checkpoint.every_ms = 100 * CADRE_CHECKPOINT_RETRY_MS;
        fixture_gone(self, &ps);
        cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
        cr_assert_eq(self->core.checkpoint.last_status, CADRE_EUNAVAILABLE);
        cr_assert(self->core.checkpoint.ps_lost, "another one may do well");
        cr_assert_leq(self->core.checkpoint.due_ms, self->now_ms + CADRE_CHECKPOINT_RETRY_MS,
                      "and comes soon");
        cr_assert_eq(self->core.fatal, 0, "its shard can be restored");
        fixture_turn(self);
        cr_assert_eq(last_order(self)->kind, CADRE_STORE_ABORT);
        cadre_task_t next = {CADRE_ROLE_PS, 1, ps.incarnation + 1000};
        fixture_hello(self, &next);
        fixture_turn(self);
        cr_assert_eq(fixture_sent(self, &next, CADRE_MESSAGE_RESTORE, 0)->restore.ended,
                     self->core.checkpoint.id, "closures that ran before name it still");
        fixture_destroy(&self);
    }
}

Test(checkpoint, that_has_not_cut_waits_for_a_ps_that_is_lost)
{
    fixture_t *self = job();
    cadre_task_t ps = fixture_ps(1);
    bring_to(self, CADRE_CHECKPOINT_OPENING);
    fixture_gone(self, &ps);
    stored(self, CADRE_STORE_OPEN, 9, 0, "/ckpt/.tmp-9");
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_OPENING);
    fixture_destroy(&self);
}

static void
keep_alive(fixture_t *self)
{
    self->core.options.lease_ms = UINT64_MAX / 2;
}

/* What the log said it waits for last. */
static const char *
waits_for(const fixture_t *self)
{
    const char *text = "";
    const cadre_effect_t *event = NULL;
    for (size_t i = 0; (event = fixture_event(self, CADRE_EFFECT_LOG, i)); i++) {
        text = strcmp(event->name, "checkpoint_delayed") == 0 ? event->text : text;
    }
    return text;
}

Test(checkpoint, that_lasts_is_reported_by_what_it_waits_for_and_goes_on)
{
    static const struct {
        cadre_checkpoint_state_t state;
        const char *words;
    } expected[] = {
        {CADRE_CHECKPOINT_OPENING, "the store to make a directory"},
        {CADRE_CHECKPOINT_CUT, "ps 0 to open the cut"},
        {CADRE_CHECKPOINT_WRITING, "ps 0 to write its file"},
        {CADRE_CHECKPOINT_COMMITTING, "the store to commit it"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(expected); i++) {
        fixture_t *self = job();
        keep_alive(self);
        bring_to(self, expected[i].state);
        self->now_ms += CADRE_CHECKPOINT_REPORT_MS - 1;
        fixture_turn(self);
        cr_assert_str_eq(waits_for(self), "");
        cr_assert_leq(self->due_ms, self->now_ms + 1);
        for (int k = 0; k < 3; k++) {
            fixture_clear(self);
            self->now_ms += k == 0 ? 1 : CADRE_CHECKPOINT_REPORT_MS;
            fixture_turn(self);
            cr_assert(strstr(waits_for(self), expected[i].words), "%s", waits_for(self));
        }
        cr_assert_eq(state_of(self), expected[i].state, "however long it takes");
        fixture_destroy(&self);
    }
}

Test(checkpoint, names_the_oldest_closure_that_an_open_cut_waits_for)
{
    fixture_t *self = job();
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    keep_alive(self);
    fixture_schedule(self, 1);
    fixture_schedule(self, 2);
    fixture_turn(self);
    bring_to(self, CADRE_CHECKPOINT_CUT);
    self->now_ms += CADRE_CHECKPOINT_REPORT_MS;
    fixture_turn(self);
    cr_assert(strstr(waits_for(self), "closure 1 (function "), "%s", waits_for(self));
    cr_assert(strstr(waits_for(self), "on worker 0 for 30 s, attempt 1, the oldest of 2"), "%s",
              waits_for(self));
    fixture_done(self, &workers[0], 1, 1);
    fixture_gone(self, &workers[1]);
    fixture_gone(self, &workers[0]);
    self->now_ms += CADRE_CHECKPOINT_REPORT_MS;
    fixture_turn(self);
    cr_assert(strstr(waits_for(self), "closure 2"), "%s", waits_for(self));
    cr_assert(strstr(waits_for(self), "waits for a worker"), "%s", waits_for(self));
    cr_assert_not(strstr(waits_for(self), "training goes on"), "%s", waits_for(self));
    cr_assert(strstr(waits_for(self), "no worker is heard"), "%s", waits_for(self));
    fixture_destroy(&self);
}

/* --- a store that does not answer --- */

/* The next turns until shard 1 has been asked to restore, or have passed. */
static const cadre_message_t *
restore_of(fixture_t *self, const cadre_task_t *ps)
{
    fixture_turn(self);
    return fixture_count(self, ps, CADRE_MESSAGE_RESTORE) > 0
               ? fixture_sent(self, ps, CADRE_MESSAGE_RESTORE, 0)
               : NULL;
}

Test(checkpoint, a_commit_without_an_end_holds_up_no_restore)
{
    fixture_t *self = job();
    cadre_task_t lost = fixture_ps(1);
    cadre_task_t next = {CADRE_ROLE_PS, 1, lost.incarnation + 1000};
    self->core.options.lease_ms = 3600000;
    bring_to(self, CADRE_CHECKPOINT_COMMITTING);
    fixture_clear(self);
    fixture_gone(self, &lost);
    fixture_hello(self, &next);
    cr_assert_null(restore_of(self, &next), "it will soon be known to which cut");
    self->now_ms += CADRE_CHECKPOINT_COMMIT_MS;
    fixture_turn(self);
    cr_assert(fixture_logged(self, "commit_overdue"));
    const cadre_message_t *restore = restore_of(self, &next);
    cr_assert_not_null(restore);
    cr_assert_str_eq(restore->restore.path, "", "the one before: initial values");
    /* The commit did end well: it counts when the shard is restored, not before. */
    stored(self, CADRE_STORE_COMMIT, 9, 0, "/ckpt/ckpt-9");
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_COMMITTING);
    cr_assert_str_eq(self->core.recovery.points.at[0].path, "");
    cr_assert_null(last_order(self), "none goes while it is not taken");
    fixture_reply(self, &next, fixture_sent(self, &next, CADRE_MESSAGE_RESTORE, 0));
    fixture_turn(self);
    for (size_t i = 0; i < fixture_count(self, &next, CADRE_MESSAGE_CREATE); i++) {
        fixture_reply(self, &next, fixture_sent(self, &next, CADRE_MESSAGE_CREATE, i));
    }
    fixture_turn(self);
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    cr_assert_str_eq(self->core.recovery.points.at[0].path, "/ckpt/ckpt-9");
    cr_assert_str_eq(self->core.recovery.points.at[1].path, "");
    cr_assert_eq(last_order(self)->kind, CADRE_STORE_RETAIN);
    cr_assert_eq(last_order(self)->checkpoint, 9);
    fixture_destroy(&self);
}

/* Brings one that is opening to its commit, which ends with `status`; each of its two files has
 * `size_bytes`. */
static void
commit_opening_size(fixture_t *self, uint64_t id, int status, uint64_t size_bytes)
{
    char path[32];
    snprintf(path, sizeof(path), "/ckpt/ckpt-%u", (unsigned)id);
    stored(self, CADRE_STORE_OPEN, id, 0, "/ckpt/.tmp");
    say_taken(self, 0, 0);
    say_taken(self, 1, 0);
    fixture_turn(self);
    say_written_size(self, 0, id, 0, size_bytes);
    say_written_size(self, 1, id, 0, size_bytes);
    fixture_turn(self);
    stored(self, CADRE_STORE_COMMIT, id, status, status < 0 ? "the last sync failed" : path);
}

static void
commit_opening(fixture_t *self, uint64_t id, int status)
{
    commit_opening_size(self, id, status, 4096);
}

/* Brings the next one to its commit, which ends with `status`. */
static void
commit_next(fixture_t *self, uint64_t id, int status)
{
    fixture_clear(self);
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
    fixture_turn(self);
    commit_opening(self, id, status);
}

/* One whose last sync failed is in the directory and counts for nothing: neither may it push out
 * one that a shard can be told to begin with. */
Test(checkpoint, lets_go_of_no_checkpoint_that_a_shard_may_begin_with)
{
    fixture_t *self = job();
    keep_alive(self);
    commit_next(self, 9, 0);
    cr_assert_eq(last_order(self)->kind, CADRE_STORE_RETAIN);
    cr_assert_eq(last_order(self)->checkpoint, 9, "before it are initial values");
    commit_next(self, 10, 0);
    cr_assert_eq(last_order(self)->kind, CADRE_STORE_RETAIN);
    cr_assert_eq(last_order(self)->checkpoint, 9);
    commit_next(self, 11, CADRE_EIO);
    cr_assert_eq(last_order(self)->kind, CADRE_STORE_COMMIT);
    commit_next(self, 12, 0);
    cr_assert_eq(last_order(self)->kind, CADRE_STORE_RETAIN);
    cr_assert_eq(last_order(self)->checkpoint, 10);
    cr_assert_str_eq(self->core.recovery.points.at[1].path, "/ckpt/ckpt-10");
    fixture_destroy(&self);
}

/* Takes checkpoint `id`, which is committed or not, and expects to which it leaves pages. */
static void
expect_since(fixture_t *self, uint64_t id, int status, uint64_t since)
{
    commit_next(self, id, status);
    cr_assert_eq(self->core.checkpoint.since, since, "checkpoint %d: %d", (int)id,
                 (int)self->core.checkpoint.since);
    const cadre_task_t ps = fixture_ps(1);
    const cadre_message_t *asked = NULL;
    for (size_t i = 0; fixture_sent(self, &ps, CADRE_MESSAGE_CLOSE_CUT, i); i++) {
        asked = fixture_sent(self, &ps, CADRE_MESSAGE_CLOSE_CUT, i);
    }
    cr_assert(asked && asked->close_cut.checkpoint == id);
    cr_assert_eq(asked->close_cut.since, since);
}

Test(checkpoint, leaves_pages_of_tables_to_the_one_before_until_the_chain_is_long)
{
    fixture_t *self = job();
    keep_alive(self);
    cadre_checkpoint_chain(&self->core.checkpoint, 3);
    expect_since(self, 9, 0, 0); /* without tables all are full */
    expect_since(self, 10, 0, 0);
    fixture_add_table(self, "users", 16);
    fixture_turn(self);
    expect_since(self, 11, 0, 10); /* of which shards know that it lacks the table */
    expect_since(self, 12, 0, 11);
    expect_since(self, 13, 0, 0);
    expect_since(self, 14, CADRE_EIO, 13);
    expect_since(self, 15, 0, 13); /* 14 is not there */
    cadre_checkpoint_on_unreadable(&self->core.checkpoint);
    expect_since(self, 16, 0, 0);
    expect_since(self, 17, 0, 16);
    const cadre_sequences_t none = {.count = 0};
    cadre_checkpoint_on_gone_back(&self->core.checkpoint, &none);
    expect_since(self, 18, 0, 0);
    cadre_checkpoint_chain(&self->core.checkpoint, 1);
    expect_since(self, 19, 0, 0);
    fixture_destroy(&self);
}

/* Takes checkpoint `id` of two files of `mib` MiB, and expects to which it leaves pages. */
static void
expect_since_size(fixture_t *self, uint64_t id, uint64_t mib, uint64_t since)
{
    fixture_clear(self);
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
    fixture_turn(self);
    commit_opening_size(self, id, 0, mib << 20);
    cr_assert_eq(self->core.checkpoint.since, since, "checkpoint %d: %d", (int)id,
                 (int)self->core.checkpoint.since);
}

/* A chain ends when it has more than half the bytes of its full checkpoint, but for a few. */
Test(checkpoint, leaves_pages_to_the_one_before_until_the_chain_is_heavy)
{
    fixture_t *self = job();
    keep_alive(self);
    cadre_checkpoint_chain(&self->core.checkpoint, CADRE_CHECKPOINT_FULL_EVERY_MAX);
    fixture_add_table(self, "users", 16);
    fixture_turn(self);
    expect_since_size(self, 9, 100, 0);
    expect_since_size(self, 10, 20, 9);
    expect_since_size(self, 11, 30, 10);
    expect_since_size(self, 12, 1, 11); /* half, and no more */
    expect_since_size(self, 13, 100, 0);
    expect_since_size(self, 14, 100, 13); /* of all rows */
    expect_since_size(self, 15, 4, 0);
    expect_since_size(self, 16, 4, 15);
    expect_since_size(self, 17, 4, 16); /* as large as the full one, but small */
    expect_since_size(self, 18, 1, 17);
    expect_since_size(self, 19, 4, 0);
    fixture_destroy(&self);
}

Test(checkpoint, under_commit_is_the_stores_to_decide)
{
    fixture_t *self = job();
    cadre_task_t ps = fixture_ps(1);
    keep_alive(self);
    bring_to(self, CADRE_CHECKPOINT_COMMITTING);
    fixture_gone(self, &ps);
    self->now_ms += 100 * (uint64_t)CADRE_CHECKPOINT_COMMIT_MS;
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
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
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
    cadre_checkpoint_abort(&self->core.checkpoint, CADRE_ECANCELLED, "given up");
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
    stored(self, CADRE_STORE_OPEN, 9, 0, "/ckpt/.tmp-9");
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_OPENING, "9 is being removed");
    stored(self, CADRE_STORE_OPEN, 10, 0, "/ckpt/.tmp-10");
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_CUT);
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

Test(checkpoint, what_a_shard_says_to_have_written_of_a_cut_that_is_open_counts_for_nothing)
{
    fixture_t *self = job();
    bring_to(self, CADRE_CHECKPOINT_CUT);
    say_taken(self, 0, 0);
    say_written(self, 0, 9, 0);
    say_written(self, 1, 9, 0);
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_CUT);
    say_taken(self, 1, 0);
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_WRITING);
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
    bring_to(self, CADRE_CHECKPOINT_CUT);
    cadre_operations_count(&self->core.operations, 0, &operation);
    cadre_checkpoint_abort(&self->core.checkpoint, CADRE_ECANCELLED, "given up");
    cr_assert_eq(self->core.requests.count, 1 + PS, "and each shard is told the end");
    cadre_operations_give_up(&self->core.operations, &operation);
    fixture_destroy(&self);
}

Test(checkpoint, giving_up_leaves_a_restore_alone)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t ps = fixture_ps(0);
    fixture_hello(self, &ps);
    self->core.checkpoint.enabled = true;
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
    cadre_checkpoint_abort(&self->core.checkpoint, CADRE_ECANCELLED, "given up");
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
say_progress(void *context, uint64_t cut, uint64_t of_clients)
{
    progress_calls_t *calls = context;
    cr_expect_eq(of_clients, 0);
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
    bring_to(self, CADRE_CHECKPOINT_CUT);
    cr_assert_eq(calls.calls, 0, "save had its own");
    cadre_checkpoint_abort(&self->core.checkpoint, CADRE_ECANCELLED, "given up");
    fixture_turn(self);
    fixture_clear(self);
    self->core.begun.next_id = 100;
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, NULL), 0);
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
    }
    fixture_turn(self);
    for (uint32_t i = 0; i < PS; i++) {
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

/* Begins closures as if they had ended since. */
static void
begin_steps(fixture_t *self, uint64_t steps)
{
    self->core.begun.steps += steps;
    self->core.begun.next_id += steps;
    fixture_turn(self);
}

Test(checkpoint, automatic_ones_come_after_as_many_steps)
{
    fixture_t *self = job();
    keep_alive(self);
    self->core.checkpoint.every_steps = 100;
    self->now_ms += 100000; /* time is nothing to it */
    begin_steps(self, 99);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    begin_steps(self, 1);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_OPENING);
    stored(self, CADRE_STORE_OPEN, 9, CADRE_EIO, "bad");
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE, "not at once again");
    self->now_ms += CADRE_CHECKPOINT_RETRY_MS;
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_OPENING);

    begin_steps(self, 30); /* before the cut, so it holds them */
    fixture_clear(self);
    commit_opening(self, 10, 0);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    begin_steps(self, 99);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    begin_steps(self, 1);
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
    cadre_core_resume(&self->core, "/ckpt/ckpt-7", 7, 7, &totals);
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
    cadre_core_resume(&self->core, "/ckpt/ckpt-7", 7, 7, &totals);
    cadre_checkpoint_await(&self->core.checkpoint, self->core.catalogue.variables[0]->name);
    cadre_checkpoint_await(&self->core.checkpoint, "later");
    self->core.checkpoint.every_ms = 10;
    fixture_schedule(self, 1);
    for (int i = 0; i < 3; i++) {
        self->now_ms += 10;
        fixture_turn(self);
        cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    }
    cr_assert(fixture_logged(self, "checkpoints_deferred"));
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
    cr_assert(fixture_logged(self, "variables_omitted"));
    cr_assert_eq(self->core.checkpoint.awaited_count, 1);
    self->core.checkpoint.state = CADRE_CHECKPOINT_COMMITTING;
    cadre_store_answer_t answer = {.kind = CADRE_STORE_COMMIT, .text = "/ckpt/ckpt-1"};
    cadre_core_stored(&self->core, &answer, self->now_ms);
    cr_assert_eq(self->core.checkpoint.awaited_count, 0);
    fixture_destroy(&self);
}
