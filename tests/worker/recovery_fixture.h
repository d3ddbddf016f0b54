/*
 * recovery_fixture - core_fixture with runs that pull and push, and what is reported of them.
 */
#ifndef CADRE_TESTS_WORKER_RECOVERY_FIXTURE_H
#define CADRE_TESTS_WORKER_RECOVERY_FIXTURE_H

#include "tests/worker/core_fixture.h"

enum { NEW_PS = 555 }; /* incarnation of the process that takes a lost one's place */

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

/* Pulls w and has both shards answer. */
static inline void
pull_well(fixture_t *self, cadre_run_t *run)
{
    const float values[] = {5, 6};
    uint64_t ids[2];
    pull(self, run);
    requests(self, CADRE_MESSAGE_PULL, ids);
    answer_pull(self, 0, ids[0], 8, values);
    answer_pull(self, 1, ids[1], 8, values);
    cadre_worker_event_t event;
    cr_assert(take_event(self, CADRE_WORKER_VALUES, &event));
    cr_assert_eq(event.status, 0, "%s", event.text);
    cadre_values_fini(&event.values, event.value_count);
}

static inline void
push_well(fixture_t *self, cadre_run_t *run)
{
    uint64_t ids[2];
    push(self, run);
    requests(self, CADRE_MESSAGE_PUSH, ids);
    answer_push(self, 0, ids[0], 0);
    answer_push(self, 1, ids[1], 0);
    cadre_worker_event_t event;
    cr_assert(take_event(self, CADRE_WORKER_PUSHED, &event));
    cr_assert_eq(event.status, 0, "%s", event.text);
}

#endif
