#include "worker/core/worker_metrics.h"

#include "tests/worker/recovery_fixture.h"

TestSuite(worker_metrics, .timeout = 240);

/* The identity that holds at any moment. */
static void
expect_pushes(const fixture_t *self, uint64_t sent, uint64_t abandoned, uint64_t pending)
{
    const cadre_worker_core_figures_t figures = cadre_worker_core_figures(self->core);
    const uint64_t *counters = figures.counters;
    const cadre_push_totals_t pushes = figures.pushes;
    uint64_t answered = counters[CADRE_WORKER_COUNTER_applied] +
                        counters[CADRE_WORKER_COUNTER_duplicate] +
                        counters[CADRE_WORKER_COUNTER_refused];
    cr_expect_eq(pushes.sent, sent, "%d are sent", (int)pushes.sent);
    cr_expect_eq(pushes.abandoned, abandoned, "%d are abandoned", (int)pushes.abandoned);
    cr_expect_eq(pushes.pending, pending, "%d are pending", (int)pushes.pending);
    cr_expect_eq(pushes.sent, answered + pushes.abandoned + pushes.pending);
}

/* --- what becomes of updates --- */

Test(worker_metrics, every_answer_ends_an_update)
{
    fixture_t self;
    uint64_t ids[2];
    begin_push(&self, ids);
    expect_pushes(&self, 2, 0, 2);
    answer_push(&self, 0, ids[0], 0);
    expect_pushes(&self, 2, 0, 1);
    answer_push(&self, 0, ids[0], 0); /* another one */
    expect_pushes(&self, 2, 0, 1);
    answer_push(&self, 1, ids[1], CADRE_EDUPLICATE);
    expect_pushes(&self, 2, 0, 0);
    fixture_fini(&self);
}

Test(worker_metrics, blocks_that_were_read_add_up)
{
    fixture_t self;
    uint64_t ids[2];
    begin_push(&self, ids);
    cadre_worker_core_note_blocks_read(self.core, 3);
    cadre_worker_core_note_blocks_read(self.core, 4);
    cr_expect_eq(cadre_worker_core_figures(self.core).counters[CADRE_WORKER_COUNTER_blocks_read],
                 7);
    fixture_fini(&self);
}

Test(worker_metrics, a_refused_update_is_answered)
{
    fixture_t self;
    uint64_t ids[2];
    begin_push(&self, ids);
    answer_push(&self, 0, ids[0], CADRE_ESHAPE);
    answer_push(&self, 1, ids[1], 0);
    expect_pushes(&self, 2, 0, 0);
    cr_expect_eq(cadre_worker_core_figures(self.core).counters[CADRE_WORKER_COUNTER_refused], 1);
    fixture_fini(&self);
}

Test(worker_metrics, what_a_lost_shard_has_not_answered_is_abandoned)
{
    fixture_t self;
    uint64_t ids[2];
    begin_push(&self, ids);
    fixture_shard(&self, 1, NEW_PS, 2);
    expect_pushes(&self, 2, 1, 1);
    answer_push(&self, 1, ids[1], 0); /* late */
    expect_pushes(&self, 2, 1, 1);
    answer_push(&self, 0, ids[0], 0);
    expect_pushes(&self, 2, 1, 0);
    fixture_fini(&self);
}

Test(worker_metrics, pulls_are_no_updates)
{
    fixture_t self;
    uint64_t ids[2];
    begin_pull(&self, ids);
    expect_pushes(&self, 0, 0, 0);
    fixture_shard(&self, 1, NEW_PS, 2);
    expect_pushes(&self, 0, 0, 0);
    fixture_fini(&self);
}

Test(worker_metrics, values_in_answer_to_a_push_abandon_it)
{
    fixture_t self;
    uint64_t ids[2];
    begin_push(&self, ids);
    const float values[] = {1, 2};
    answer_pull(&self, 0, ids[0], 1, values);
    expect_pushes(&self, 2, 1, 1);
    fixture_fini(&self);
}

Test(worker_metrics, a_cancelled_closure_waits_for_what_it_has_pushed)
{
    fixture_t self;
    uint64_t ids[2];
    begin_push(&self, ids);
    answer_push(&self, 1, ids[1], 0);
    fixture_cancel(&self, 1);
    expect_pushes(&self, 2, 0, 1);
    answer_push(&self, 0, ids[0], 0);
    expect_pushes(&self, 2, 0, 0);
    fixture_fini(&self);
}

Test(worker_metrics, what_a_session_leaves_behind_is_abandoned)
{
    fixture_t self;
    uint64_t ids[2];
    begin_push(&self, ids);
    cadre_worker_core_abandon(self.core, "for a test", self.now_ms);
    expect_pushes(&self, 2, 2, 0);
    fixture_fini(&self);
}

Test(worker_metrics, an_update_that_is_sent_again_is_one_update)
{
    fixture_t self;
    uint64_t ids[2];
    begin_push(&self, ids);
    fixture_pass(&self, 2 * CADRE_MUTE_MS); /* over another connection */
    expect_pushes(&self, 2, 0, 2);
    cr_expect_eq(cadre_worker_core_figures(self.core).pushes.repeated, 2);
    answer_push(&self, 0, ids[0], CADRE_EDUPLICATE);
    answer_push(&self, 1, ids[1], 0);
    expect_pushes(&self, 2, 0, 0);
    cr_expect_eq(cadre_worker_core_figures(self.core).pushes.repeated, 2);
    fixture_fini(&self);
}

/* --- staleness --- */

/* Shard `shard` has applied the update, as this version of its part of "w". */
static void
answer_applied(fixture_t *self, uint32_t shard, uint64_t request, uint64_t version)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_APPLIED, .request = request};
    message.applied = (cadre_applied_message_t){
        .generation = 1, .text = "", .staleness = 50, .versions = {&version, version > 0}};
    fixture_deliver(self, CADRE_ROLE_PS, shard, &message);
}

static char *
told(const fixture_t *self)
{
    cadre_metrics_text_t text = {.bytes = NULL};
    size_t size_bytes = 0;
    const cadre_worker_figures_t figures = {.drains = false};
    cadre_worker_metrics(self->core, &figures, self->now_ms, &text);
    return cadre_metrics_text_take(&text, &size_bytes);
}

static void
expect_told(const fixture_t *self, const char *line)
{
    cadre_auto(cadre_free) char *text = told(self);
    cr_expect(strstr(text, line), "%s is not in %s", line, text);
}

Test(worker_metrics, staleness_is_what_came_between_pull_and_apply)
{
    fixture_t self;
    uint64_t ids[2];
    cadre_run_t *run = begin(&self);
    pull_versions(&self, run, 8, 11);
    ask_push(&self, run, ids);
    answer_applied(&self, 0, ids[0], 9);  /* the next version */
    answer_applied(&self, 1, ids[1], 17); /* five others came before */
    expect_told(&self, "_count{worker=\"3\",variable=\"w\"} 2\n");
    expect_told(&self, "_sum{worker=\"3\",variable=\"w\"} 5\n");
    expect_told(&self, "_bucket{worker=\"3\",variable=\"w\",le=\"0\"} 1\n");
    expect_told(&self, "_bucket{worker=\"3\",variable=\"w\",le=\"4\"} 1\n");
    expect_told(&self, "_bucket{worker=\"3\",variable=\"w\",le=\"8\"} 2\n");
    fixture_fini(&self);
}

Test(worker_metrics, an_answer_without_versions_counts_for_no_variable)
{
    fixture_t self;
    uint64_t ids[2];
    cadre_run_t *run = begin(&self);
    pull_versions(&self, run, 8, 11);
    ask_push(&self, run, ids);
    answer_applied(&self, 0, ids[0], 0);
    expect_told(&self, "_sum{worker=\"3\",variable=\"(other)\"} 50\n");
    fixture_fini(&self);
}

Test(worker_metrics, a_version_that_cannot_be_is_no_staleness)
{
    fixture_t self;
    uint64_t ids[2];
    cadre_run_t *run = begin(&self);
    pull_versions(&self, run, 8, 11);
    ask_push(&self, run, ids);
    answer_applied(&self, 0, ids[0], 3);
    expect_told(&self, "_sum{worker=\"3\",variable=\"w\"} 0\n");
    fixture_fini(&self);
}

/* --- readiness --- */

static void
expect_unready(const fixture_t *self, const char *why)
{
    cr_expect_str_eq(cadre_worker_unready(self->core, self->now_ms), why);
}

Test(worker_metrics, a_worker_is_ready_while_it_is_a_member_that_is_heard)
{
    fixture_t self;
    fixture_init(&self, 1, 0);
    expect_unready(&self, "it has no connection to the coordinator");
    cadre_worker_core_connected(self.core, self.now_ms);
    expect_unready(&self, "it has not joined: the coordinator has not welcomed it");
    fixture_welcome(&self);
    expect_unready(&self, "");
    cadre_message_t heartbeat;
    cr_assert(take_message(&self, CADRE_MESSAGE_HEARTBEAT, -1, &heartbeat));
    fixture_tell(&self, (cadre_message_t){.type = CADRE_MESSAGE_ACK, .request = heartbeat.request});
    cadre_message_fini(&heartbeat);
    expect_unready(&self, "");
    self.now_ms += FIXTURE_LEASE_MS;
    expect_unready(&self, "the coordinator has not answered for long");
    cadre_worker_core_disconnected(self.core, self.now_ms);
    expect_unready(&self, "it has no connection to the coordinator");
    fixture_fini(&self);
}

Test(worker_metrics, one_that_drains_or_has_left_is_not_ready)
{
    fixture_t self;
    begin(&self);
    cadre_worker_core_drain(self.core, "for a test", self.now_ms);
    expect_unready(&self, "it is draining");
    cadre_worker_core_abandon(self.core, "for a test", self.now_ms);
    expect_unready(&self, "it has left the job");
    fixture_fini(&self);
}
