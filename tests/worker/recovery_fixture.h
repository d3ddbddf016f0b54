/*
 * recovery_fixture - core_fixture with runs that pull and push, and what is reported of them.
 */
#ifndef CADRE_TESTS_WORKER_RECOVERY_FIXTURE_H
#define CADRE_TESTS_WORKER_RECOVERY_FIXTURE_H

#include "tests/worker/core_fixture.h"

enum { NEW_PS = 555 }; /* incarnation of the process that takes a lost one's place */

/* --- what is asked --- */

/* Pulls, or pushes, w; the request ids of both shards. */
static inline void
ask_pull(fixture_t *self, cadre_run_t *run, uint64_t ids[2])
{
    pull(self, run);
    requests(self, CADRE_MESSAGE_PULL, ids);
}

static inline void
ask_push(fixture_t *self, cadre_run_t *run, uint64_t ids[2])
{
    push(self, run);
    requests(self, CADRE_MESSAGE_PUSH, ids);
}

/* Runs closure 1 to its first pull, or push. */
static inline cadre_run_t *
begin_pull(fixture_t *self, uint64_t ids[2])
{
    cadre_run_t *run = begin(self);
    ask_pull(self, run, ids);
    return run;
}

static inline cadre_run_t *
begin_push(fixture_t *self, uint64_t ids[2])
{
    cadre_run_t *run = begin(self);
    ask_push(self, run, ids);
    return run;
}

/* The coordinator is asked for news of shard 1, before anything else. */
static inline void
expect_want(fixture_t *self, const char *why)
{
    cadre_message_t message;
    cr_assert(take_message(self, CADRE_MESSAGE_WANT, -1, &message), "%s", why);
    cr_expect(message.want.kind == CADRE_WANT_SHARD && message.want.id == 1);
    cadre_message_fini(&message);
}

/* --- how it ends --- */

/* The operation of the run has ended with `status`; the caller ends the event's values. */
static inline cadre_worker_event_t
expect_ended(fixture_t *self, cadre_worker_event_kind_t kind, int status)
{
    cadre_worker_event_t event;
    cr_assert(take_event(self, kind, &event), "the slot waits for ever");
    cr_assert_eq(event.status, status, "%s", event.text);
    return event;
}

/* Ends the run as a slot does whose operation has failed. */
static inline void
finish_failed(fixture_t *self, cadre_run_t *run)
{
    cadre_run_outcome_t outcome = {
        .status = run->status, .text = run->text, .failure = run->failure};
    cadre_worker_core_finish(self->core, run, &outcome, self->now_ms);
}

static inline void
expect_failed(fixture_t *self, uint64_t id, uint64_t attempt, cadre_failure_t reason)
{
    cadre_message_t message;
    cr_assert(take_message(self, CADRE_MESSAGE_CLOSURE_FAILED, -1, &message));
    cr_expect_eq(message.closure_failed.id, id);
    cr_expect_eq(message.closure_failed.attempt, attempt);
    cr_expect_eq(message.closure_failed.reason, reason);
    if (reason == CADRE_FAILURE_SHARD) {
        cr_expect_eq(message.closure_failed.shard, 1);
        cr_expect_eq(message.closure_failed.status, (uint64_t)-CADRE_EUNAVAILABLE);
    }
    cadre_message_fini(&message);
}

static inline void
expect_done(fixture_t *self, uint64_t id, uint64_t attempt)
{
    cadre_message_t message;
    cr_assert(take_message(self, CADRE_MESSAGE_CLOSURE_DONE, -1, &message));
    cr_expect_eq(message.closure_done.id, id);
    cr_expect_eq(message.closure_done.attempt, attempt);
    cadre_message_fini(&message);
}

/* Pulls w, has both shards answer with their versions, and takes the values. */
static inline void
pull_versions(fixture_t *self, cadre_run_t *run, uint64_t first, uint64_t second)
{
    const float values[] = {5, 6};
    uint64_t ids[2];
    ask_pull(self, run, ids);
    answer_pull(self, 0, ids[0], first, values);
    answer_pull(self, 1, ids[1], second, values);
    cadre_worker_event_t event = expect_ended(self, CADRE_WORKER_VALUES, 0);
    cadre_values_fini(&event.values, event.value_count);
}

static inline void
pull_well(fixture_t *self, cadre_run_t *run)
{
    pull_versions(self, run, 8, 8);
}

static inline void
push_well(fixture_t *self, cadre_run_t *run)
{
    uint64_t ids[2];
    ask_push(self, run, ids);
    answer_push(self, 0, ids[0], 0);
    answer_push(self, 1, ids[1], 0);
    expect_ended(self, CADRE_WORKER_PUSHED, 0);
}

#endif
