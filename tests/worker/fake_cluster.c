#include "tests/worker/fake_cluster.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <zmq.h>

#include "common/wire/outbox.h"
#include "common/wire/tensor_list.h"
#include "tests/system/process.h"

void
fake_open(fake_cluster_t *self)
{
    *self = (fake_cluster_t){0};
    cr_assert_eq(cadre_context_open(&self->context), 0);
    cadre_endpoint_t any = {.kind = CADRE_ENDPOINT_TCP, .host = "127.0.0.1"};
    cr_assert_eq(cadre_socket_open_router(self->context, CADRE_PLANE_CONTROL, &self->control), 0);
    cr_assert_eq(cadre_socket_bind(self->control, &any), 0);
    for (int i = 0; i < FAKE_SHARDS; i++) {
        cr_assert_eq(cadre_socket_open_router(self->context, CADRE_PLANE_DATA, &self->data[i]), 0);
        cr_assert_eq(cadre_socket_bind(self->data[i], &any), 0);
        self->incarnations[i] = FAKE_PS + (uint64_t)i;
        self->generations[i] = 1;
    }
}

void
fake_start(fake_cluster_t *self, const char *const *arguments)
{
    char address[CADRE_ENDPOINT_TEXT_SIZE];
    cadre_endpoint_text(cadre_socket_endpoint(self->control), address);
    cadre_auto(cadre_free) char *path = program_path("cadre-worker");
    const char *words[32] = {path, "--coordinator", address, "--log-level",
                             getenv("CADRE_TEST_LOG") ? getenv("CADRE_TEST_LOG") : "error"};
    size_t count = 5;
    for (; *arguments; arguments++) {
        words[count++] = *arguments;
    }
    self->process = process_start(&(process_t){.arguments = words});
}

static void
fake_send(fake_cluster_t *self, cadre_socket_t *socket, const cadre_routing_id_t *to,
          cadre_message_t *message)
{
    message->epoch = 1;
    if (message->incarnation == 0) {
        message->incarnation = FAKE_SESSION;
    }
    cadre_chunk_t *header = cadre_message_encode(message);
    int status = 0;
    do {
        status = cadre_socket_send(socket, to, header, message->chunks, message->chunk_count);
    } while (status == CADRE_EAGAIN);
    cadre_chunk_unref(&header);
    cadre_message_fini(message);
    (void)self;
}

/* --- the coordinator's part --- */

void
fake_tell(fake_cluster_t *self, cadre_message_t message)
{
    for (size_t i = 0; message.type == CADRE_MESSAGE_CLOSURE && i < FAKE_SHARDS; i++) {
        message.closure.generations += self->generations[i];
    }
    fake_send(self, self->control, &self->worker, &message);
}

void
fake_tell_shard(fake_cluster_t *self, uint32_t index)
{
    char address[CADRE_ENDPOINT_TEXT_SIZE];
    cadre_endpoint_text(cadre_socket_endpoint(self->data[index]), address);
    cadre_message_t message = {.type = CADRE_MESSAGE_SHARD};
    message.shard =
        (cadre_shard_message_t){.index = index,
                                .address = self->away[index] ? "" : address,
                                .incarnation = self->away[index] ? 0 : self->incarnations[index],
                                .generation = self->generations[index]};
    fake_tell(self, message);
}

static void
fake_tell_function(fake_cluster_t *self, uint64_t id)
{
    const fake_function_t *function = &self->functions[id - 1];
    cadre_message_t message = {.type = CADRE_MESSAGE_FUNCTION};
    message.function = (cadre_function_message_t){
        .id = id, .kind = function->kind, .name = function->name, .hash = id};
    if (function->program) {
        cadre_message_add_chunk(&message, cadre_chunk_ref(function->program));
    }
    fake_tell(self, message);
}

static void
fake_tell_variable(fake_cluster_t *self)
{
    static const uint64_t shape[] = {2 * FAKE_SHARDS};
    static const uint64_t shards[] = {0, 1};
    cadre_message_t message = {.type = CADRE_MESSAGE_VARIABLE};
    message.variable = (cadre_variable_message_t){.id = 1,
                                                  .name = "w",
                                                  .dtype = CADRE_F32,
                                                  .shape = {shape, 1},
                                                  .partitions = FAKE_SHARDS,
                                                  .shards = {shards, FAKE_SHARDS}};
    fake_tell(self, message);
}

static void
fake_answer_want(fake_cluster_t *self, const cadre_want_message_t *want)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_DATASET};
    switch ((cadre_want_t)want->kind) {
    case CADRE_WANT_SHARD:
        fake_tell_shard(self, (uint32_t)want->id);
        break;
    case CADRE_WANT_DEFINITIONS:
        fake_tell_variable(self);
        break;
    case CADRE_WANT_FUNCTION:
        fake_tell_function(self, want->id);
        break;
    case CADRE_WANT_DATASET:
        message.dataset = (cadre_dataset_message_t){.id = want->id, .name = "data"};
        cadre_message_add_chunk(&message,
                                cadre_chunk_new_copy(self->dataset, strlen(self->dataset)));
        fake_tell(self, message);
        break;
    case CADRE_WANT_ROWS: /* its dataset has a file */
        break;
    }
}

static void
fake_acknowledge(fake_cluster_t *self, uint64_t id, uint64_t attempt)
{
    uint64_t reports[] = {id, attempt};
    cadre_message_t message = {.type = CADRE_MESSAGE_ACK};
    message.ack.reports = (cadre_u64s_t){reports, 2};
    fake_tell(self, message);
}

/* WELCOME and everything there is to know, as a coordinator sends it; WANT asks for the rest. */
static void
fake_welcome(fake_cluster_t *self, const cadre_routing_id_t *from, uint64_t request)
{
    self->worker = *from;
    self->joined = true;
    cadre_message_t message = {.type = CADRE_MESSAGE_WELCOME};
    message.request = request;
    message.welcome = (cadre_welcome_message_t){.index = 3,
                                                .job = "test",
                                                .heartbeat_ms = self->lease_ms ? 100 : 1000,
                                                .lease_ms = self->lease_ms ? self->lease_ms : 10000,
                                                .resend_ms = 200,
                                                .shards = FAKE_SHARDS};
    fake_tell(self, message);
    for (uint32_t i = 0; i < FAKE_SHARDS; i++) {
        fake_tell_shard(self, i);
    }
    for (uint64_t id = 1; id <= FAKE_FUNCTIONS_MAX && !self->keep_secrets; id++) {
        if (self->functions[id - 1].name) {
            fake_tell_function(self, id);
        }
    }
    if (!self->keep_secrets) {
        fake_tell_variable(self);
    }
}

/* Acknowledges a report; whether it is news. */
static bool
fake_take_report(fake_cluster_t *self, uint64_t id, uint64_t attempt)
{
    uint8_t *reported = &self->reported[id % FAKE_UPDATES_MAX];
    bool is_new = attempt > *reported;
    *reported = is_new ? (uint8_t)attempt : *reported;
    fake_acknowledge(self, id, attempt);
    return is_new;
}

static void
fake_take_control(fake_cluster_t *self, cadre_message_t *message)
{
    switch (message->type) {
    case CADRE_MESSAGE_HELLO:
        self->hellos++;
        if (!self->silent) {
            fake_welcome(self, &self->frames.from, message->request);
        }
        break;
    case CADRE_MESSAGE_HEARTBEAT:
        if (!self->silent) {
            fake_tell(self,
                      (cadre_message_t){.type = CADRE_MESSAGE_ACK, .request = message->request});
        }
        break;
    case CADRE_MESSAGE_WANT:
        fake_answer_want(self, &message->want);
        break;
    case CADRE_MESSAGE_DATASET_READY:
        snprintf(self->dataset_text, sizeof(self->dataset_text), "%s", message->dataset_ready.text);
        self->dataset_ready = message->dataset_ready;
        break;
    case CADRE_MESSAGE_CLOSURE_DONE:
        self->done +=
            fake_take_report(self, message->closure_done.id, message->closure_done.attempt);
        cadre_message_fini(&self->last_done);
        self->last_done = *message;
        *message = (cadre_message_t){0};
        break;
    case CADRE_MESSAGE_CLOSURE_FAILED:
        self->failed +=
            fake_take_report(self, message->closure_failed.id, message->closure_failed.attempt);
        self->last_reason = message->closure_failed.reason;
        self->last_status = message->closure_failed.status;
        snprintf(self->last_text, sizeof(self->last_text), "%s", message->closure_failed.text);
        break;
    case CADRE_MESSAGE_GOODBYE:
        self->left = true;
        break;
    default:
        break;
    }
}

/* --- the shards' part --- */

static void
fake_answer_pull(fake_cluster_t *self, int shard, const cadre_message_t *question)
{
    uint64_t held = question->pull.partitions.items[2];
    uint64_t items[] = {self->versions[shard], held == self->versions[shard] + 1 ? 0 : 1};
    cadre_message_t message = {.type = CADRE_MESSAGE_VALUES,
                               .request = question->request,
                               .incarnation = self->incarnations[shard]};
    bool fenced = question->pull.generation != self->generations[shard];
    message.values = (cadre_values_message_t){.generation = self->generations[shard],
                                              .status = fenced ? (uint64_t)-CADRE_EFENCED : 0,
                                              .text = "another generation",
                                              .partitions = {items, fenced ? 0 : 2}};
    if (items[1] && !fenced) {
        cadre_message_add_chunk(
            &message, cadre_chunk_new_copy(self->values[shard], sizeof(self->values[shard])));
    }
    fake_send(self, self->data[shard], &self->frames.from, &message);
}

static void
fake_answer_push(fake_cluster_t *self, int shard, const cadre_message_t *question)
{
    bool *seen = &self->applied[shard][question->push.update % FAKE_UPDATES_MAX];
    bool fenced = question->push.generation != self->generations[shard];
    bool duplicate = *seen;
    *seen = *seen || !fenced;
    self->pushes++;
    if (duplicate && !fenced) {
        self->duplicates++;
    } else if (!fenced) {
        const float *gradient = cadre_chunk_data(question->chunks[0]);
        self->values[shard][0] += gradient[0];
        self->values[shard][1] += gradient[1];
        self->versions[shard]++;
    }
    if (self->lose_answers > 0) {
        self->lose_answers--;
        return;
    }
    cadre_message_t message = {.type = CADRE_MESSAGE_APPLIED,
                               .request = question->request,
                               .incarnation = self->incarnations[shard]};
    int status = duplicate ? CADRE_EDUPLICATE : 0;
    message.applied =
        (cadre_applied_message_t){.update = question->push.update,
                                  .generation = self->generations[shard],
                                  .status = (uint64_t) - (fenced ? CADRE_EFENCED : status),
                                  .text = "",
                                  .versions = {&self->versions[shard], 1}};
    fake_send(self, self->data[shard], &self->frames.from, &message);
}

/* Every request has been answered when it came: whatever is asked after was lost. */
static void
fake_answer_probe(fake_cluster_t *self, int shard, const cadre_message_t *question)
{
    uint64_t states[2 * CADRE_PROBE_REQUESTS_MAX];
    size_t count = question->probe.requests.count / 3;
    for (size_t i = 0; i < count; i++) {
        states[2 * i] = question->probe.requests.items[3 * i];
        states[2 * i + 1] = CADRE_PROBED_UNKNOWN;
    }
    cadre_message_t message = {.type = CADRE_MESSAGE_PROBED,
                               .request = question->request,
                               .incarnation = self->incarnations[shard]};
    message.probed.states = (cadre_u64s_t){states, 2 * count};
    fake_send(self, self->data[shard], &self->frames.from, &message);
}

static void
fake_receive(fake_cluster_t *self, cadre_socket_t *socket, int shard)
{
    for (int i = 0; i < 256 && cadre_socket_receive(socket, &self->frames) == 0; i++) {
        cadre_message_t message;
        cr_assert_eq(cadre_message_decode(cadre_chunk_data(self->frames.header),
                                          cadre_chunk_size_bytes(self->frames.header),
                                          self->frames.chunks, self->frames.count, &message),
                     0, "%s", cadre_error_text());
        if (shard < 0) {
            fake_take_control(self, &message);
        } else if (message.type == CADRE_MESSAGE_PULL) {
            fake_answer_pull(self, shard, &message);
        } else if (message.type == CADRE_MESSAGE_PROBE) {
            fake_answer_probe(self, shard, &message);
        } else if (message.type == CADRE_MESSAGE_RESERVE) {
            cadre_message_t grant = {.type = CADRE_MESSAGE_GRANT,
                                     .request = message.request,
                                     .incarnation = self->incarnations[shard]};
            fake_send(self, self->data[shard], &self->frames.from, &grant);
        } else {
            cr_assert_eq(message.type, CADRE_MESSAGE_PUSH);
            fake_answer_push(self, shard, &message);
        }
        cadre_message_fini(&message);
    }
}

/* --- the loop --- */

void
fake_step(fake_cluster_t *self, int timeout_ms)
{
    zmq_pollitem_t items[1 + FAKE_SHARDS] = {
        {.socket = cadre_socket_handle(self->control), .events = ZMQ_POLLIN}};
    for (int i = 0; i < FAKE_SHARDS; i++) {
        items[1 + i].socket = cadre_socket_handle(self->data[i]);
        items[1 + i].events = ZMQ_POLLIN;
    }
    zmq_poll(items, 1 + FAKE_SHARDS, timeout_ms);
    fake_receive(self, self->control, -1);
    for (int i = 0; i < FAKE_SHARDS; i++) {
        fake_receive(self, self->data[i], i);
    }
}

cadre_message_t
fake_closure(uint64_t id, uint64_t function)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE};
    message.closure = (cadre_closure_message_t){
        .id = id, .attempt = 1, .function = function, .steps = 1, .seed = id, .variables = 1};
    return message;
}

int
fake_wait_exit(fake_cluster_t *self)
{
    int state = 0;
    int64_t end_ms = cadre_clock_now_ms() + FAKE_WAIT_MS;
    while (waitpid(self->process, &state, WNOHANG) == 0) {
        fake_step(self, 10);
        cr_assert_lt(cadre_clock_now_ms(), end_ms, "the worker does not exit");
    }
    fake_step(self, 0); /* its last words */
    self->process = 0;
    return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
}

int
fake_stop(fake_cluster_t *self)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_STOP};
    message.stop.reason = "the test is over";
    fake_tell(self, message);
    return fake_wait_exit(self);
}

void
fake_close(fake_cluster_t *self)
{
    if (self->process > 0) {
        kill(self->process, SIGKILL);
        waitpid(self->process, NULL, 0);
    }
    cadre_message_fini(&self->last_done);
    for (int i = 0; i < FAKE_FUNCTIONS_MAX; i++) {
        cadre_chunk_unref(&self->functions[i].program);
    }
    cadre_frames_fini(&self->frames);
    for (int i = 0; i < FAKE_SHARDS; i++) {
        cadre_socket_close(&self->data[i], 0);
    }
    cadre_socket_close(&self->control, 0);
    cadre_context_close(&self->context);
}
