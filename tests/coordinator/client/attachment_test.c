/* Both halves of a client's dealings, its attachment and the coordinator's core, over a link that
 * loses messages and breaks: every closure is scheduled once, and every request ends. */
#include "coordinator/client/attachment.h"

#include "tests/coordinator/core_fixture.h"

TestSuite(attachment, .timeout = 240);

enum { REQUESTS = 40, FAULTY_STEPS = 300, STEPS_MAX = 3000, SEEDS = 200, WORK_MAX = 256 };

typedef struct {
    uint64_t id;
    uint64_t attempt;
} work_t;

typedef struct {
    fixture_t *job;
    cadre_attachment_t client;
    cadre_outbox_t to_job; /* in order */
    uint64_t random;
    unsigned loss; /* percent of messages that are lost, each way; also how often the link breaks */
    work_t work[WORK_MAX];
    size_t work_count;
    uint64_t heartbeats;
    cadre_client_request_t requests[REQUESTS];
    size_t asked;
} link_t;

static unsigned
draw(link_t *self, unsigned below)
{
    self->random = self->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(self->random >> 33) % below;
}

static bool
is_lost(link_t *self)
{
    return draw(self, 100) < self->loss;
}

static void
link_open(link_t *self, uint64_t seed, unsigned loss, uint64_t lease_ms)
{
    cadre_task_t task = {CADRE_ROLE_CLIENT, CADRE_INDEX_ANY, 5000};
    *self = (link_t){.random = seed, .loss = loss};
    self->job = fixture_new_cluster(1, 1);
    self->job->core.options.client_closures = true;
    self->job->core.options.lease_ms = lease_ms;
    fixture_function(self->job);
    cadre_attachment_init(&self->client, &task, self->job->now_ms);
}

static void
link_close(link_t *self)
{
    for (size_t i = 0; i < self->asked; i++) {
        cadre_attachment_forget(&self->client, &self->requests[i]);
    }
    cadre_outbox_fini(&self->to_job);
    fixture_destroy(&self->job);
}

/* What the client said arrives, in order, or is lost. */
static void
carry_to_job(link_t *self)
{
    cadre_outbox_entry_t entry;
    while (cadre_outbox_pop(&self->to_job, &entry)) {
        cadre_message_t message;
        if (!is_lost(self)) {
            cr_assert_eq(cadre_message_decode(cadre_chunk_data(entry.header),
                                              cadre_chunk_size_bytes(entry.header), entry.chunks,
                                              entry.chunk_count, &message),
                         0, "%s", cadre_error_text());
            cadre_core_receive(&self->job->core, &self->client.task, &message, self->job->now_ms);
        }
        cadre_outbox_entry_fini(&entry);
    }
}

/* What the coordinator says reaches the client, or is lost; what it says to the worker is noted. */
static void
carry_from_job(link_t *self)
{
    fixture_turn(self->job);
    for (size_t i = 0; i < self->job->sent_count; i++) {
        fixture_sent_t *sent = &self->job->sent[i];
        if (sent->to.role == CADRE_ROLE_CLIENT && !is_lost(self)) {
            cadre_attachment_receive(&self->client, &sent->message, self->job->now_ms);
        }
        if (sent->message.type == CADRE_MESSAGE_CLOSURE) {
            cr_assert_lt(self->work_count, WORK_MAX);
            self->work[self->work_count++] =
                (work_t){sent->message.closure.id, sent->message.closure.attempt};
        }
    }
    fixture_clear(self->job);
}

/* The worker ends one of its closures, well or badly. */
static void
work(link_t *self)
{
    cadre_task_t worker = fixture_worker(0);
    if (self->work_count == 0) {
        return;
    }
    work_t *item = &self->work[draw(self, (unsigned)self->work_count)];
    if (draw(self, 4) == 0) {
        fixture_failed(self->job, &worker, item->id, item->attempt, CADRE_FAILURE_USER, "no");
    } else {
        fixture_done(self->job, &worker, item->id, item->attempt);
    }
    *item = self->work[--self->work_count];
}

/* The worker says that it is there, and what it holds. */
static void
heartbeat(link_t *self)
{
    cadre_task_t worker = fixture_worker(0);
    uint64_t held[WORK_MAX];
    for (size_t i = 0; i < self->work_count; i++) {
        held[i] = self->work[i].id;
    }
    fixture_heartbeat(self->job, &worker, ++self->heartbeats,
                      (cadre_u64s_t){held, self->work_count});
}

static void
step(link_t *self)
{
    heartbeat(self);
    cadre_message_t schedule = {.type = CADRE_MESSAGE_SCHEDULE, .schedule = {.function = "work"}};
    bool may_ask = self->client.state == CADRE_ATTACHMENT_STANDS && self->asked < REQUESTS;
    if (may_ask && draw(self, 2) == 0) {
        cr_assert_eq(cadre_attachment_ask(&self->client, &schedule, &self->requests[self->asked++]),
                     0);
    }
    cadre_attachment_tick(&self->client, self->job->now_ms, &self->to_job);
    carry_to_job(self);
    if (draw(self, 3) == 0) {
        work(self);
    }
    carry_from_job(self);
    self->job->now_ms += 50 + draw(self, 400);
}

static size_t
count_ended(const link_t *self)
{
    size_t count = 0;
    for (size_t i = 0; i < self->asked; i++) {
        count += self->requests[i].ended;
    }
    return count;
}

/* Nothing is scheduled twice and nothing is forgotten, whatever is lost. */
Test(attachment, schedules_each_closure_once_over_a_link_that_loses_messages)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        link_t link;
        link_open(&link, seed, (unsigned)(seed % 60), 3600000);
        for (int i = 0; i < STEPS_MAX && count_ended(&link) < REQUESTS; i++) {
            link.loss = i < FAULTY_STEPS ? link.loss : 0;
            step(&link);
        }
        cr_assert_eq(count_ended(&link), REQUESTS, "seed %zu", (size_t)seed);
        cr_assert_eq(link.job->core.totals.scheduled, REQUESTS, "seed %zu", (size_t)seed);
        for (size_t i = 0; i < REQUESTS; i++) {
            const cadre_message_t *answer = &link.requests[i].answer;
            int status = -(int)answer->result.status;
            cr_assert_eq(answer->type, CADRE_MESSAGE_RESULT);
            cr_assert(status == 0 || status == CADRE_EFUNCTION, "seed %zu: %d", (size_t)seed,
                      status);
        }
        /* the client settles them with its next heartbeats, and nothing is kept */
        for (int i = 0; i < 100; i++) {
            step(&link);
        }
        const cadre_attached_t *attached =
            cadre_u64_map_get(&link.job->core.clients.attached, link.client.task.incarnation);
        cr_assert_eq(attached->closures.count, 0, "seed %zu", (size_t)seed);
        link_close(&link);
    }
}

/* With a lease as short as a few losses in a row the client may be given up: then all of its
 * requests end, and nothing of it is left in the job. */
Test(attachment, ends_as_a_whole_when_the_coordinator_gives_the_client_up)
{
    size_t given_up = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        link_t link;
        link_open(&link, seed, 70, 2000);
        for (int i = 0; i < FAULTY_STEPS; i++) {
            step(&link);
        }
        link.loss = 0;
        for (int i = 0; i < 20; i++) {
            step(&link);
        }
        if (link.client.state == CADRE_ATTACHMENT_ENDED) {
            given_up++;
            cr_assert_eq(link.client.status, CADRE_ECLOSED);
            cr_assert_eq(count_ended(&link), link.asked);
            cr_assert_eq(link.job->core.clients.attached.count, 0);
            cr_assert_eq(cadre_closure_queue_waiting(&link.job->core.queue), 0);
        }
        link_close(&link);
    }
    cr_expect_gt(given_up, SEEDS / 4, "only %zu were given up", given_up);
}

Test(attachment, takes_as_many_requests_as_the_limit)
{
    link_t link;
    cadre_client_request_t requests[CADRE_CLIENT_REQUESTS_MAX + 1] = {{.number = 0}};
    link_open(&link, 1, 0, 3600000);
    for (size_t i = 0; i <= CADRE_CLIENT_REQUESTS_MAX; i++) {
        cadre_message_t list = {.type = CADRE_MESSAGE_LIST};
        cr_assert_eq(cadre_attachment_ask(&link.client, &list, &requests[i]),
                     i < CADRE_CLIENT_REQUESTS_MAX ? 0 : CADRE_EFULL);
    }
    for (size_t i = 0; i <= CADRE_CLIENT_REQUESTS_MAX; i++) {
        cadre_attachment_forget(&link.client, &requests[i]);
    }
    cr_expect_eq(link.client.count, 0);
    link_close(&link);
}

Test(attachment, ends_with_what_the_coordinator_says)
{
    link_t link;
    cadre_client_request_t request = {.number = 0};
    cadre_message_t list = {.type = CADRE_MESSAGE_LIST};
    link_open(&link, 1, 0, 3600000);
    step(&link);
    cr_assert_eq(link.client.state, CADRE_ATTACHMENT_STANDS);
    cr_assert_eq(cadre_attachment_ask(&link.client, &list, &request), 0);
    cadre_core_stop(&link.job->core, "the job is over");
    carry_from_job(&link);
    cr_expect(request.ended);
    cr_expect_eq(request.status, CADRE_ECLOSED);
    cr_expect_str_eq(request.text, "the job is over");
    cadre_attachment_forget(&link.client, &request);
    link_close(&link);
}
