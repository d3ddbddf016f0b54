/* Acknowledging reports, without a coordinator: what waits, what goes at once, what answers. */
#include "coordinator/core/dispatch/acks.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "common/base/limits.h"
#include "common/wire/codec.h"

TestSuite(acks, .timeout = 240);

/* One worker that runs a closure, so that nothing but its reports makes an ACK due. */
typedef struct {
    cadre_member_t worker;
    cadre_member_t *workers[1];
    cadre_membership_t members;
    cadre_effects_t effects;
    cadre_acks_t acks;
    cadre_closure_t *closure;
} stage_t;

static void
stage_open(stage_t *self)
{
    *self = (stage_t){.worker = {.task = {CADRE_ROLE_WORKER, 0, 7}}};
    self->closure = cadre_closure_new(1);
    cadre_closure_list_push(&self->worker.in_flight, self->closure);
    self->workers[0] = &self->worker;
    self->members = (cadre_membership_t){.workers = self->workers, .worker_capacity = 1};
    cadre_effects_init(&self->effects, 1, 1, 0);
    cadre_acks_init(&self->acks, &self->members, &self->effects);
}

static void
stage_close(stage_t *self)
{
    cadre_closure_list_remove(&self->worker.in_flight, self->closure);
    cadre_closure_destroy(&self->closure);
    cadre_effects_fini(&self->effects);
    free(self->worker.acks);
}

/* Takes the next ACK: gives how many reports it acknowledges, and whose HEARTBEAT it answers;
 * SIZE_MAX when there is none. */
static size_t
take(stage_t *self, uint64_t *request)
{
    cadre_outbox_entry_t entry;
    cadre_message_t message;
    if (!cadre_outbox_pop(&self->effects.outbox, &entry)) {
        return SIZE_MAX;
    }
    cr_assert_eq(cadre_message_decode(cadre_chunk_data(entry.header),
                                      cadre_chunk_size_bytes(entry.header), NULL, 0, &message),
                 0);
    cr_assert_eq(message.type, CADRE_MESSAGE_ACK);
    *request = message.request;
    size_t count = message.ack.reports.count / 2;
    cadre_message_fini(&message);
    cadre_outbox_entry_fini(&entry);
    return count;
}

Test(acks, wait_while_the_worker_runs_more)
{
    stage_t self;
    uint64_t request = 0;
    stage_open(&self);
    for (uint64_t id = 1; id <= 255; id++) {
        cadre_acks_add(&self.worker, id, 1);
    }
    cadre_acks_tick(&self.acks, CADRE_ACKS_DUE);
    cr_assert_eq(take(&self, &request), SIZE_MAX);

    cadre_acks_add(&self.worker, 256, 1);
    cadre_acks_tick(&self.acks, CADRE_ACKS_DUE);
    cr_assert_eq(take(&self, &request), 256, "so many wait no longer");
    cadre_acks_tick(&self.acks, CADRE_ACKS_DUE);
    cr_assert_eq(take(&self, &request), SIZE_MAX, "once");
    stage_close(&self);
}

Test(acks, wait_for_the_next_closures_in_the_middle_of_a_step)
{
    stage_t self;
    uint64_t request = 0;
    stage_open(&self);
    cadre_closure_list_remove(&self.worker.in_flight, self.closure);
    cadre_acks_add(&self.worker, 1, 1);
    cadre_acks_tick(&self.acks, CADRE_ACKS_IN_STEP);
    cr_assert_eq(take(&self, &request), SIZE_MAX);
    cadre_acks_tick(&self.acks, CADRE_ACKS_DUE);
    cr_assert_eq(take(&self, &request), 1, "there is nothing left to run");

    cadre_acks_add(&self.worker, 2, 1);
    cadre_acks_hurry(&self.worker);
    cadre_acks_tick(&self.acks, CADRE_ACKS_IN_STEP);
    cr_assert_eq(take(&self, &request), 1);
    cadre_closure_list_push(&self.worker.in_flight, self.closure);
    stage_close(&self);
}

Test(acks, do_not_wait_for_a_worker_in_a_hurry_or_at_the_end_of_the_job)
{
    stage_t self;
    uint64_t request = 0;
    stage_open(&self);
    cadre_acks_add(&self.worker, 1, 1);
    cadre_acks_hurry(&self.worker);
    cadre_acks_tick(&self.acks, CADRE_ACKS_DUE);
    cr_assert_eq(take(&self, &request), 1);

    cadre_acks_add(&self.worker, 2, 1);
    cadre_acks_tick(&self.acks, CADRE_ACKS_ALL);
    cr_assert_eq(take(&self, &request), 1);
    stage_close(&self);
}

Test(acks, answer_a_heartbeat_with_the_last_of_several)
{
    stage_t self;
    uint64_t request = 0;
    stage_open(&self);
    cadre_acks_note_heartbeat(&self.worker, 41);
    cadre_acks_tick(&self.acks, CADRE_ACKS_DUE);
    cr_assert_eq(take(&self, &request), 0, "an empty one, so that it knows that it is heard");
    cr_assert_eq(request, 41);

    for (uint64_t id = 1; id <= CADRE_HELD_MAX / 2 + 1; id++) {
        cadre_acks_add(&self.worker, id, 1);
    }
    cadre_acks_note_heartbeat(&self.worker, 42);
    cadre_acks_send(&self.acks, &self.worker);
    cr_assert_eq(take(&self, &request), CADRE_HELD_MAX / 2);
    cr_assert_eq(request, 0);
    cr_assert_eq(take(&self, &request), 1);
    cr_assert_eq(request, 42, "what was reported before it is acknowledged by then");
    cr_assert_eq(take(&self, &request), SIZE_MAX);
    stage_close(&self);
}
