#include "coordinator/send_queues.h"

#include <criterion/criterion.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(send_queues, .timeout = 240);

enum { PEERS = 200 };

/* Peers by the index of the task: what they were sent, and whether they are full. */
typedef struct {
    cadre_send_queues_t queues;
    cadre_outbox_t outbox;
    int answer[PEERS]; /* to a send: 0, CADRE_EAGAIN, CADRE_EUNAVAILABLE */
    uint32_t room;     /* after so many sends a peer is full; 0: never */
    uint32_t sent[PEERS];
    uint64_t last[PEERS]; /* the size of the header sent last: it tells the message */
    uint32_t tries;
    uint32_t lost;
    cadre_task_t lost_task;
    int lost_status;
} stage_t;

static int
send_entry(void *context, const cadre_outbox_entry_t *entry)
{
    stage_t *self = context;
    uint32_t peer = entry->destination.index;
    self->tries++;
    if (self->answer[peer] == 0) {
        cr_expect_gt(entry->chunk_count ? cadre_chunk_size_bytes(entry->chunks[0]) : 1,
                     self->last[peer], "messages to one peer keep their order");
        self->last[peer] = entry->chunk_count ? cadre_chunk_size_bytes(entry->chunks[0]) : 0;
        self->sent[peer]++;
        self->answer[peer] = self->room > 0 && --self->room == 0 ? CADRE_EAGAIN : 0;
        return 0;
    }
    return self->answer[peer];
}

static void
note_lost(void *context, const cadre_task_t *task, int status)
{
    stage_t *self = context;
    self->lost++;
    self->lost_task = *task;
    self->lost_status = status;
}

static cadre_task_t
task_of(uint32_t peer)
{
    return (cadre_task_t){CADRE_ROLE_WORKER, peer, 1000 + peer};
}

/* A message with `chunk` as its payload, of which it takes a reference. */
static void
add(stage_t *self, uint32_t peer, cadre_chunk_t *chunk)
{
    cadre_task_t to = task_of(peer);
    cadre_message_t message = {.type = CADRE_MESSAGE_DATASET, .dataset = {.name = "d"}};
    cadre_message_add_chunk(&message, cadre_chunk_ref(chunk));
    cadre_outbox_send(&self->outbox, &to, &message);
}

static void
add_number(stage_t *self, uint32_t peer, size_t number)
{
    cadre_chunk_t *chunk = cadre_chunk_new(number);
    add(self, peer, chunk);
    cadre_chunk_unref(&chunk);
}

static void
open_stage(stage_t *self)
{
    *self = (stage_t){.lost = 0};
    cadre_send_queues_init(&self->queues, send_entry, note_lost, self);
}

static void
close_stage(stage_t *self)
{
    cadre_send_queues_fini(&self->queues);
    cadre_outbox_fini(&self->outbox);
}

Test(send_queues, what_a_peer_gets_never_waits_for_others_that_are_full)
{
    stage_t self;
    open_stage(&self);
    for (uint32_t i = 1; i < PEERS; i++) {
        self.answer[i] = CADRE_EAGAIN;
        add_number(&self, i, 1);
    }
    cadre_send_queues_put(&self.queues, &self.outbox, 100);
    add_number(&self, 0, 1);
    cadre_send_queues_put(&self.queues, &self.outbox, 100);
    cr_expect_eq(self.sent[0], 1, "%d peers are full, this one is not", PEERS - 1);
    cr_expect_eq(self.lost, 0);
    cr_expect_eq(cadre_send_queues_due_ms(&self.queues), 100 + CADRE_SEND_RETRY_MS);
    close_stage(&self);
}

Test(send_queues, what_waits_goes_in_its_order_before_what_comes_later)
{
    stage_t self;
    open_stage(&self);
    self.answer[3] = CADRE_EAGAIN;
    for (size_t i = 1; i <= 5; i++) {
        add_number(&self, 3, i);
        cadre_send_queues_put(&self.queues, &self.outbox, 100);
    }
    cr_expect_eq(self.tries, 1, "who waits is not tried for each message");
    self.answer[3] = 0;
    add_number(&self, 3, 6);
    cadre_send_queues_put(&self.queues, &self.outbox, 101);
    cr_expect_eq(self.sent[3], 0, "behind those that wait");
    cadre_send_queues_flush(&self.queues, 102);
    cr_expect_eq(self.sent[3], 6);
    cr_expect_eq(self.last[3], 6);
    cr_expect_eq(cadre_send_queues_due_ms(&self.queues), UINT64_MAX);
    cadre_task_t task = task_of(3);
    cr_expect_eq(cadre_send_queues_size(&self.queues, &task, CADRE_PLANE_CONTROL), 0);
    close_stage(&self);
}

Test(send_queues, a_peer_that_stays_full_is_tried_less_often)
{
    stage_t self;
    open_stage(&self);
    self.answer[3] = CADRE_EAGAIN;
    add_number(&self, 3, 1);
    cadre_send_queues_put(&self.queues, &self.outbox, 0);
    for (uint64_t now_ms = 1; now_ms <= 1000; now_ms++) {
        cadre_send_queues_flush(&self.queues, now_ms);
    }
    cr_expect_lt(self.tries, 80, "%u times in a second", self.tries);
    cr_expect_gt(self.tries, 50);
    close_stage(&self);
}

Test(send_queues, a_peer_that_does_not_read_is_lost_beyond_its_bound)
{
    stage_t self;
    open_stage(&self);
    cadre_chunk_t *chunk = cadre_chunk_new(CADRE_CHUNK_SIZE_MAX);
    self.answer[7] = CADRE_EAGAIN;
    for (int i = 0; i < CADRE_SEND_QUEUE_SIZE_MAX / CADRE_CHUNK_SIZE_MAX; i++) {
        add(&self, 7, chunk);
    }
    cadre_send_queues_put(&self.queues, &self.outbox, 0);
    cr_expect_eq(self.lost, 0, "up to the bound it may wait");
    add(&self, 7, chunk);
    cadre_send_queues_put(&self.queues, &self.outbox, 1);
    cr_expect_eq(self.lost, 1);
    cr_expect_eq(self.lost_status, CADRE_EFULL);
    cr_expect_eq(self.lost_task.index, 7);
    cr_expect_eq(cadre_send_queues_due_ms(&self.queues), UINT64_MAX, "nothing waits any more");
    cr_expect(cadre_chunk_alone(chunk), "what waited is dropped");
    cadre_chunk_unref(&chunk);
    close_stage(&self);
}

Test(send_queues, a_peer_that_is_gone_is_told_of_once_and_its_queue_dropped)
{
    stage_t self;
    open_stage(&self);
    self.answer[2] = CADRE_EAGAIN;
    add_number(&self, 2, 1);
    add_number(&self, 2, 2);
    cadre_send_queues_put(&self.queues, &self.outbox, 0);
    self.answer[2] = CADRE_EUNAVAILABLE;
    cadre_send_queues_flush(&self.queues, 10);
    cr_expect_eq(self.lost, 1);
    cr_expect_eq(self.lost_status, CADRE_EUNAVAILABLE);
    cr_expect_eq(cadre_send_queues_due_ms(&self.queues), UINT64_MAX);
    close_stage(&self);
}

Test(send_queues, a_stranger_that_does_not_read_is_not_waited_for)
{
    stage_t self;
    open_stage(&self);
    self.answer[2] = CADRE_EAGAIN;
    cadre_task_t to = task_of(2);
    cadre_message_t message = {.type = CADRE_MESSAGE_UNKNOWN_PEER};
    cadre_outbox_send(&self.outbox, &to, &message);
    cadre_send_queues_put(&self.queues, &self.outbox, 0);
    cr_expect_eq(cadre_send_queues_due_ms(&self.queues), UINT64_MAX);
    close_stage(&self);
}

Test(send_queues, what_a_peer_has_taken_does_not_count_any_more)
{
    stage_t self;
    open_stage(&self);
    cadre_task_t task = task_of(3);
    self.answer[3] = CADRE_EAGAIN;
    for (size_t i = 1; i <= 4; i++) {
        add_number(&self, 3, i);
        cadre_send_queues_put(&self.queues, &self.outbox, 100);
    }
    uint64_t all = cadre_send_queues_size(&self.queues, &task, CADRE_PLANE_CONTROL);
    self.answer[3] = 0;
    self.room = 3;
    cadre_send_queues_flush(&self.queues, 200);
    cr_assert_eq(self.sent[3], 3);
    uint64_t left = cadre_send_queues_size(&self.queues, &task, CADRE_PLANE_CONTROL);
    cr_expect(left > 0 && left < all / 2, "%lu of %lu", (unsigned long)left, (unsigned long)all);
    close_stage(&self);
}
