/* Synchronous steps as the coordinator ends them. */
#include "coordinator/core/dispatch/steps.h"

#include "tests/coordinator/core_fixture.h"

TestSuite(steps, .timeout = 240);

enum { PS = 2, STEP = 2 };

/* A closure that pushed one update has ended. */
static void
report(fixture_t *self, const cadre_task_t *worker, uint64_t id)
{
    cadre_message_t message = fixture_message(worker, CADRE_MESSAGE_CLOSURE_DONE);
    message.closure_done =
        (cadre_closure_done_message_t){.id = id, .attempt = 1, .updates = 1, .total_us = 1000000};
    fixture_say(self, worker, &message);
    fixture_turn(self);
}

/* Puts the closures of a step, the first of which gets the id `first`, and reports them. */
static void
report_step(fixture_t *self, const cadre_task_t *worker, uint64_t first)
{
    for (uint32_t i = 0; i < STEP; i++) {
        cadre_closure_t *closure = cadre_closure_new(fixture_function(self)->id);
        closure->may_push = true;
        fixture_watch(self, closure);
        cr_assert_eq(cadre_closure_queue_put(&self->core.queue, closure), 0);
    }
    fixture_turn(self);
    for (uint64_t id = first; id < first + STEP; id++) {
        report(self, worker, id);
    }
}

/* A job whose steps have two closures, of which both were reported: END_STEP is asked. */
static fixture_t *
job_that_ends_a_step(void)
{
    fixture_t *self = fixture_new_cluster(PS, 1);
    self->core.options.consistency = CADRE_SYNC;
    cadre_pace_fini(&self->core.queue.pace);
    cadre_pace_init(&self->core.queue.pace, CADRE_SYNC, STEP, 0);
    cadre_task_t worker = fixture_worker(0);
    for (uint32_t i = 0; i < PS; i++) {
        cadre_placement_add(&self->core.catalogue.placement, i, 0);
    }
    report_step(self, &worker, 1);
    return self;
}

static const cadre_message_t *
asked(const fixture_t *self, uint32_t shard)
{
    cadre_task_t ps = fixture_ps(shard);
    const cadre_message_t *message = fixture_sent(self, &ps, CADRE_MESSAGE_END_STEP, 0);
    cr_assert(message, "END_STEP was sent to ps %u", shard);
    return message;
}

static void
refuse(fixture_t *self, uint32_t shard, uint64_t status, const char *text)
{
    cadre_task_t ps = fixture_ps(shard);
    cadre_message_t message = fixture_message(&ps, CADRE_MESSAGE_REPLY);
    message.request = asked(self, shard)->request;
    message.reply = (cadre_reply_message_t){.status = status, .text = text};
    fixture_say(self, &ps, &message);
    fixture_turn(self);
}

Test(steps, closures_end_when_every_shard_has_ended_their_step)
{
    fixture_t *self = job_that_ends_a_step();
    cadre_task_t first = fixture_ps(0);
    cadre_task_t second = fixture_ps(1);
    fixture_reply(self, &first, asked(self, 0));
    fixture_turn(self);
    cr_assert_eq(self->ended_count, 0);
    fixture_reply(self, &second, asked(self, 1));
    fixture_turn(self);
    cr_assert_eq(self->ended_count, STEP);
    cr_assert_eq(self->core.fatal, 0);
    fixture_destroy(&self);
}

Test(steps, each_names_the_one_before_it)
{
    fixture_t *self = job_that_ends_a_step();
    const cadre_task_t worker = fixture_worker(0);
    for (uint32_t shard = 0; shard < PS; shard++) {
        cadre_task_t ps = fixture_ps(shard);
        cr_expect_eq(asked(self, shard)->end_step.after, 0);
        fixture_reply(self, &ps, asked(self, shard));
    }
    fixture_turn(self);
    fixture_clear(self);
    report_step(self, &worker, 1 + STEP);
    for (uint32_t shard = 0; shard < PS; shard++) {
        cr_expect_eq(asked(self, shard)->end_step.step, 2);
        cr_expect_eq(asked(self, shard)->end_step.after, 1);
    }
    fixture_destroy(&self);
}

/* It was only logged once, and the step never ended. */
Test(steps, a_refused_end_ends_the_job_with_the_error)
{
    fixture_t *self = job_that_ends_a_step();
    refuse(self, 1, (uint64_t)-CADRE_EINVALID, "update 2 is named twice");
    cr_assert_eq(self->core.fatal, CADRE_EINVALID);
    cr_assert_str_eq(self->core.fatal_text,
                     "ps 1 did not end a synchronous step: update 2 is named twice");
    cr_assert(fixture_logged(self, "step_refused"));
    cadre_task_t first = fixture_ps(0);
    fixture_reply(self, &first, asked(self, 0));
    fixture_turn(self);
    cr_assert_eq(self->ended_count, 0, "no closure of the step has ended well");
    fixture_destroy(&self);
}

Test(steps, an_answer_of_another_type_ends_the_job)
{
    fixture_t *self = job_that_ends_a_step();
    cadre_task_t ps = fixture_ps(0);
    cadre_message_t message = fixture_message(&ps, CADRE_MESSAGE_SNAPSHOT_TAKEN);
    message.request = asked(self, 0)->request;
    message.snapshot_taken.text = "";
    fixture_say(self, &ps, &message);
    fixture_turn(self);
    cr_assert_eq(self->core.fatal, CADRE_EMALFORMED);
    fixture_destroy(&self);
}

/* The shard was restored meanwhile, or is being: no disagreement. */
Test(steps, a_fenced_end_is_asked_again)
{
    fixture_t *self = job_that_ends_a_step();
    refuse(self, 1, (uint64_t)-CADRE_EFENCED, "another generation");
    cr_assert_eq(self->core.fatal, 0);
    fixture_clear(self);
    self->now_ms += self->core.options.resend_ms;
    fixture_turn(self);
    cr_assert_eq(asked(self, 1)->end_step.step, 1);
    fixture_destroy(&self);
}
