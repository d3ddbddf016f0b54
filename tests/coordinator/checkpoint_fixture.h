/*
 * checkpoint_fixture - a core with checkpoints on, and what store and shards say of one.
 */
#ifndef CADRE_TESTS_COORDINATOR_CHECKPOINT_FIXTURE_H
#define CADRE_TESTS_COORDINATOR_CHECKPOINT_FIXTURE_H

#include "coordinator/core/checkpoint/checkpoint.h"
#include "coordinator/core/checkpoint/checkpoint_manifest.h"
#include "tests/coordinator/core_fixture.h"

enum { PS = 2, WORKERS = 2 };

/* A job with checkpoints on, two variables, and everyone joined. */
static inline fixture_t *
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

static inline cadre_checkpoint_state_t
state_of(const fixture_t *self)
{
    return self->core.checkpoint.state;
}

static inline void
stored(fixture_t *self, cadre_store_order_kind_t kind, uint64_t id, int status, const char *text)
{
    cadre_store_answer_t answer = {.kind = kind, .checkpoint = id, .status = status, .text = text};
    cadre_core_stored(&self->core, &answer, self->now_ms);
    fixture_turn(self);
}

/* The last order to the store. */
static inline const cadre_store_order_t *
last_order(const fixture_t *self)
{
    const cadre_effect_t *event = NULL;
    for (size_t i = 0; fixture_event(self, CADRE_EFFECT_STORE, i); i++) {
        event = fixture_event(self, CADRE_EFFECT_STORE, i);
    }
    return event ? &event->store : NULL;
}

static inline void
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

static inline void
say_written_size(fixture_t *self, uint32_t shard, uint64_t checkpoint, int status,
                 uint64_t size_bytes)
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
                                           .size_bytes = size_bytes,
                                           .hash = 0xabc0 + shard,
                                           .counters = {counters, CADRE_PS_COUNTER_COUNT}};
    fixture_say(self, &ps, &message);
}

static inline void
say_written(fixture_t *self, uint32_t shard, uint64_t checkpoint, int status)
{
    say_written_size(self, shard, checkpoint, status, 4096 * (shard + 1));
}

/* Brings a checkpoint with id 9 to `state`. */
static inline void
bring_to(fixture_t *self, cadre_checkpoint_state_t state)
{
    cr_assert_eq(cadre_checkpoint_begin(&self->core.checkpoint, "{\"epoch\": 3}"), 0);
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_OPENING);
    cr_assert_eq(last_order(self)->kind, CADRE_STORE_OPEN);
    if (state >= CADRE_CHECKPOINT_CUT) {
        stored(self, CADRE_STORE_OPEN, 9, 0, "/ckpt/.tmp-9");
    }
    if (state >= CADRE_CHECKPOINT_WRITING) {
        say_taken(self, 0, 0);
        fixture_turn(self);
        cr_assert_eq(state_of(self), CADRE_CHECKPOINT_CUT, "one is missing");
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

#endif
