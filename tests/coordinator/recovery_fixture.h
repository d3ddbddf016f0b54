/*
 * recovery_fixture - jobs of two ps whose ps are lost and replaced.
 */
#ifndef CADRE_TESTS_COORDINATOR_RECOVERY_FIXTURE_H
#define CADRE_TESTS_COORDINATOR_RECOVERY_FIXTURE_H

#include "tests/coordinator/core_fixture.h"

/* Two ps with a part of "w" each, and `workers` workers. */
static inline fixture_t *
job(uint32_t workers)
{
    fixture_t *self = fixture_new_cluster(2, workers);
    fixture_add_variable(self, "w", 4, 2);
    fixture_turn(self);
    fixture_clear(self);
    return self;
}

static inline void
done(fixture_t *self, const cadre_task_t *from, uint64_t id, uint64_t attempt, uint64_t updates)
{
    cadre_message_t message = fixture_message(from, CADRE_MESSAGE_CLOSURE_DONE);
    message.closure_done = (cadre_closure_done_message_t){
        .id = id, .attempt = attempt, .updates = updates, .total_us = 1000000};
    fixture_say(self, from, &message);
    fixture_turn(self);
}

/* Schedules `count` closures, which a worker runs and reports; each pushed `updates`. */
static inline void
run(fixture_t *self, const cadre_task_t *worker, uint32_t count, uint64_t updates)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t id = self->core.begun.next_id;
        fixture_schedule(self, i);
        fixture_turn(self);
        done(self, worker, id, 1, updates);
    }
    cr_assert(cadre_closure_queue_done(&self->core.queue));
    fixture_clear(self);
}

static inline void
lose(fixture_t *self, uint32_t shard)
{
    cadre_task_t ps = fixture_ps(shard);
    cadre_core_gone(&self->core, &ps, self->now_ms);
    fixture_turn(self);
}

static inline cadre_task_t
next_ps(uint32_t shard)
{
    return (cadre_task_t){CADRE_ROLE_PS, shard, 3000 + shard};
}

/* Another process takes the place of a lost ps. */
static inline cadre_task_t
replace(fixture_t *self, uint32_t shard)
{
    cadre_task_t ps = next_ps(shard);
    fixture_hello(self, &ps);
    fixture_turn(self);
    return ps;
}

/* It answers everything that it is asked to begin, too. */
static inline void
restore(fixture_t *self, uint32_t shard)
{
    cadre_task_t ps = replace(self, shard);
    fixture_reply(self, &ps, fixture_sent(self, &ps, CADRE_MESSAGE_RESTORE, 0));
    fixture_turn(self);
    for (size_t i = 0; i < fixture_count(self, &ps, CADRE_MESSAGE_CREATE); i++) {
        fixture_reply(self, &ps, fixture_sent(self, &ps, CADRE_MESSAGE_CREATE, i));
    }
    fixture_turn(self);
}

/* A job whose worker, worker 0, has run `count` closures before ps 1 was lost and restored; only
 * what came out since the loss is recorded. */
static inline fixture_t *
job_with_restored_ps(uint32_t count)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    run(self, &worker, count, 2);
    lose(self, 1);
    fixture_clear(self);
    restore(self, 1);
    return self;
}

/* Assigns four values to "w"; both ps, as they were at first, make it. */
static inline void
assign(fixture_t *self, cadre_assign_mode_t mode, const float value[4])
{
    cadre_operation_t operation;
    cadre_operations_assign(&self->core.operations, self->core.catalogue.variables[0], mode, value,
                            &operation);
    fixture_turn(self);
    for (uint32_t i = 0; i < 2; i++) {
        cadre_task_t ps = fixture_ps(i);
        fixture_reply(self, &ps, fixture_sent(self, &ps, CADRE_MESSAGE_ASSIGN, 0));
    }
    cr_assert_eq(operation.pending, 0);
}

/* What the last event of this name says; "" when there is none since the last clear. */
static inline const char *
said(const fixture_t *self, const char *name)
{
    const char *text = "";
    const cadre_effect_t *event = NULL;
    for (size_t i = 0; (event = fixture_event(self, CADRE_EFFECT_LOG, i)); i++) {
        text = strcmp(event->name, name) == 0 ? event->text : text;
    }
    return text;
}

/* Whether the last event of this name says `words`. */
static inline bool
says(const fixture_t *self, const char *name, const char *words)
{
    return strstr(said(self, name), words) != NULL;
}

/* "3:2 4:2": ids and attempts of the closures sent since the last clear. */
static inline const char *
sent(const fixture_t *self)
{
    static char text[1024];
    size_t length = 0;
    const cadre_message_t *message = NULL;
    text[0] = '\0';
    for (size_t i = 0; (message = fixture_sent(self, NULL, CADRE_MESSAGE_CLOSURE, i)); i++) {
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%lu:%lu", i ? " " : "",
                                   (unsigned long)message->closure.id,
                                   (unsigned long)message->closure.attempt);
    }
    return text;
}

/* A ps that knows this session says HELLO. */
static inline void
hello_again(fixture_t *self, const cadre_task_t *ps, uint64_t generation)
{
    cadre_message_t hello = fixture_message(ps, CADRE_MESSAGE_HELLO);
    hello.hello = (cadre_hello_message_t){.role = CADRE_ROLE_PS,
                                          .index = ps->index,
                                          .build = "test",
                                          .host = "here",
                                          .address = "tcp://127.0.0.1:5555",
                                          .session = 77,
                                          .generation = generation};
    fixture_say(self, ps, &hello);
}

/* The ps that took the place of a lost one answers the last message of `type`. */
static inline void
answer_last(fixture_t *self, const cadre_task_t *ps, cadre_message_type_t type, int status)
{
    size_t last = fixture_count(self, ps, type) - 1;
    cadre_message_t reply = fixture_message(ps, CADRE_MESSAGE_REPLY);
    reply.request = fixture_sent(self, ps, type, last)->request;
    reply.reply = (cadre_reply_message_t){.status = (uint64_t)-status, .text = "a flipped bit"};
    fixture_say(self, ps, &reply);
    fixture_turn(self);
}

static inline void
answer_restore(fixture_t *self, const cadre_task_t *ps, int status)
{
    answer_last(self, ps, CADRE_MESSAGE_RESTORE, status);
}

#endif
