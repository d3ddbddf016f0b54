#include "bench/shard_client.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "bench/measure.h"
#include "bench/process.h"
#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/socket.h"
#include "common/spec/initializer_spec.h"
#include "common/spec/optimizer_spec.h"
#include "common/spec/table_spec.h"
#include "common/system/poll.h"
#include "common/tensor/bf16.h"
#include "common/tensor/chunk_layout.h"
#include "common/wire/codec.h"
#include "common/wire/row_list.h"
#include "common/wire/task.h"
#include "worker/core/pull_cut.h"
#include "worker/core/pull_intake.h"

enum {
    EPOCH = 1,
    GENERATION = 1,
    COLUMNS = 1024, /* a row is 4 KiB */
    ROW_SIZE = COLUMNS * (int)sizeof(float),
    VARIABLES_MAX = 16,
    LEAVE_MS = 3000,
    LEASE_MS = 3600000, /* nobody says anything to the ps while values are measured */
};

typedef struct {
    cadre_chunk_t **gradient;
    size_t chunk_count;
} variable_t;

struct cadre_bench_shard_client {
    pid_t ps;
    cadre_context_t *context;
    cadre_socket_t *control;
    cadre_socket_t *data;
    cadre_frames_t frames;
    cadre_task_t coordinator;
    cadre_task_t worker;
    cadre_routing_id_t ps_id;
    uint64_t request_last;
    uint64_t update_last;
    variable_t variables[VARIABLES_MAX];
};

/* --- messages --- */

static cadre_message_t
new_message(cadre_bench_shard_client_t *self, cadre_message_type_t type, const cadre_task_t *as)
{
    return (cadre_message_t){.type = type,
                             .request = ++self->request_last,
                             .incarnation = as->incarnation,
                             .epoch = EPOCH};
}

static int
send_message(cadre_socket_t *socket, const cadre_routing_id_t *to, cadre_message_t *message)
{
    cadre_chunk_t *header = cadre_message_encode(message);
    int status = cadre_socket_send(socket, to, header, message->chunks, message->chunk_count);
    cadre_chunk_unref(&header);
    cadre_message_fini(message);
    return status == CADRE_EAGAIN ? cadre_fail(status, "the queue to the ps is full") : status;
}

/* Waits for the next message on `socket`; the caller ends it. */
static int
receive(cadre_bench_shard_client_t *self, cadre_socket_t *socket, cadre_message_t *message)
{
    int status = cadre_socket_receive(socket, &self->frames);
    while (status == CADRE_EAGAIN) {
        zmq_pollitem_t item = {.socket = cadre_socket_handle(socket), .events = ZMQ_POLLIN};
        if (cadre_poll(&item, 1, CADRE_BENCH_WAIT_MS) == 0) {
            return cadre_fail(CADRE_ETIMEOUT, "the ps does not answer");
        }
        status = cadre_socket_receive(socket, &self->frames);
    }

    if (status < 0) {
        return status;
    }

    return cadre_message_decode(cadre_chunk_data(self->frames.header),
                                cadre_chunk_size_bytes(self->frames.header), self->frames.chunks,
                                self->frames.count, message);
}

/* Waits for a control message of one type, dropping others; the caller ends it. */
static int
await_control(cadre_bench_shard_client_t *self, cadre_message_type_t type, cadre_message_t *message)
{
    int status = receive(self, self->control, message);
    if (status < 0) {
        return status;
    }

    while (message->type != type) {
        cadre_message_fini(message);
        status = receive(self, self->control, message);
        if (status < 0) {
            return status;
        }
    }

    return 0;
}

/* Sends a question on the control plane and waits for its REPLY. */
static int
ask_control(cadre_bench_shard_client_t *self, cadre_message_t *message)
{
    cadre_auto(cadre_message_fini) cadre_message_t reply = {.storage = NULL};
    int status = send_message(self->control, &self->ps_id, message);
    if (status < 0) {
        return status;
    }

    status = await_control(self, CADRE_MESSAGE_REPLY, &reply);
    if (status < 0) {
        return status;
    }
    if (reply.reply.status != 0) {
        return cadre_fail(-(int)reply.reply.status, "the ps: %s", reply.reply.text);
    }

    return 0;
}

/* --- the session --- */

static int
welcome(cadre_bench_shard_client_t *self)
{
    cadre_message_t hello = {.storage = NULL};
    int status = await_control(self, CADRE_MESSAGE_HELLO, &hello);
    if (status < 0) {
        return status;
    }

    self->ps_id = self->frames.from;
    cadre_endpoint_t endpoint;
    status = cadre_endpoint_parse(hello.hello.address, &endpoint);
    cadre_message_fini(&hello);
    if (status < 0) {
        return status;
    }

    status = cadre_socket_connect(self->data, &endpoint);
    if (status < 0) {
        return status;
    }

    cadre_message_t message = new_message(self, CADRE_MESSAGE_WELCOME, &self->coordinator);
    message.welcome = (cadre_welcome_message_t){.job = "bench",
                                                .heartbeat_ms = CADRE_HEARTBEAT_MS,
                                                .lease_ms = LEASE_MS,
                                                .resend_ms = CADRE_RESEND_MS,
                                                .shards = 1,
                                                .generation = GENERATION};

    status = send_message(self->control, &self->ps_id, &message);
    if (status < 0) {
        return status;
    }

    message = new_message(self, CADRE_MESSAGE_RESTORE, &self->coordinator);
    message.restore = (cadre_restore_message_t){.path = "", .cut = 1, .generation = GENERATION};
    return ask_control(self, &message);
}

static int
open_sockets(cadre_bench_shard_client_t *self, const char *address)
{
    char id[CADRE_TASK_TEXT_SIZE];
    cadre_endpoint_t endpoint;
    int status = cadre_context_open(&self->context);
    if (status < 0) {
        return status;
    }

    status = cadre_socket_open_router(self->context, CADRE_PLANE_CONTROL, &self->control);
    if (status < 0) {
        return status;
    }

    status = cadre_endpoint_parse(address, &endpoint);
    if (status < 0) {
        return status;
    }

    status = cadre_socket_bind(self->control, &endpoint);
    if (status < 0) {
        return status;
    }

    return cadre_socket_open_dealer(self->context, CADRE_PLANE_DATA,
                                    cadre_task_text(&self->worker, id), &self->data);
}

int
cadre_bench_shard_client_open(cadre_bench_t *bench, int lanes, bool over_tcp,
                              cadre_bench_shard_client_t **out)
{
    cadre_auto(cadre_bench_shard_client_close) cadre_bench_shard_client_t *self =
        cadre_calloc(1, sizeof(*self));
    uint64_t incarnation = (uint64_t)getpid() << 32 | ++bench->next_name;
    self->coordinator = (cadre_task_t){CADRE_ROLE_COORDINATOR, 0, incarnation};
    self->worker = (cadre_task_t){CADRE_ROLE_WORKER, 0, incarnation};
    cadre_auto(cadre_free) char *address = cadre_bench_address(bench, "coordinator");
    cadre_auto(cadre_free) char *own =
        over_tcp ? cadre_strdup(CADRE_BENCH_TCP) : cadre_bench_address(bench, "ps");
    cadre_auto(cadre_free) char *threads = cadre_asprintf("%d", lanes);
    const char *const arguments[] = {"--index", "0",       "--coordinator", address, "--address",
                                     own,       "--lanes", threads,         NULL};
    int status = open_sockets(self, address);
    if (status < 0) {
        return status;
    }

    status = cadre_bench_process_start("cadre-ps", arguments, bench->verbose, &self->ps);
    if (status < 0) {
        return status;
    }

    status = welcome(self);
    if (status < 0) {
        return status;
    }

    *out = self;
    self = NULL;
    return 0;
}

void
cadre_bench_shard_client_close(cadre_bench_shard_client_t **self_p)
{
    cadre_bench_shard_client_t *self = *self_p;
    if (!self) {
        return;
    }

    if (self->ps_id.size > 0) {
        cadre_message_t stop = new_message(self, CADRE_MESSAGE_STOP, &self->coordinator);
        stop.stop.reason = "the measurement is over";
        send_message(self->control, &self->ps_id, &stop);
    }

    cadre_bench_process_end(&self->ps, LEAVE_MS);
    for (int i = 0; i < VARIABLES_MAX; i++) {
        for (size_t k = 0; k < self->variables[i].chunk_count; k++) {
            cadre_chunk_unref(&self->variables[i].gradient[k]);
        }
        free(self->variables[i].gradient);
    }

    cadre_frames_fini(&self->frames);
    cadre_socket_close(&self->data, 0);
    cadre_socket_close(&self->control, 0);
    cadre_context_close(&self->context);
    cadre_free(self_p);
}

/* --- values --- */

static void
make_gradient(variable_t *variable, size_t size_bytes, bool bf16)
{
    cadre_chunk_layout_t layout;
    int status = cadre_chunk_layout_init(&layout, size_bytes / ROW_SIZE, ROW_SIZE);

    cadre_assert(status == 0);
    variable->chunk_count = layout.count;
    variable->gradient = cadre_calloc(layout.count, sizeof(cadre_chunk_t *));
    for (size_t k = 0; k < layout.count; k++) {
        variable->gradient[k] = cadre_chunk_new(cadre_chunk_layout_size(&layout, k));
        float *numbers = cadre_chunk_data(variable->gradient[k]);
        const size_t count = cadre_chunk_layout_size(&layout, k) / sizeof(float);
        for (size_t i = 0; i < count; i++) {
            numbers[i] = (float)(i % 1000) * 1e-6F;
        }

        if (bf16) {
            cadre_chunk_t *words = cadre_chunk_new(count * cadre_dtype_size(CADRE_BF16));
            cadre_bf16_from_f32(numbers, cadre_chunk_data(words), count);
            cadre_chunk_unref(&variable->gradient[k]);
            variable->gradient[k] = words;
        }
    }
}

int
cadre_bench_shard_client_create(cadre_bench_shard_client_t *self, uint64_t variable,
                                size_t size_bytes, cadre_optimizer_kind_t kind, bool bf16)
{
    cadre_assert(variable >= 1 && variable <= VARIABLES_MAX && size_bytes % ROW_SIZE == 0);
    make_gradient(&self->variables[variable - 1], size_bytes, bf16);
    const uint64_t rows = size_bytes / ROW_SIZE;
    static const double parameters[] = {0.01, 0.9, 0.999, 1e-7}; /* sgd has the first alone */
    const uint64_t shape[] = {rows, COLUMNS};
    const size_t count = kind == CADRE_OPTIMIZER_SGD ? 1 : CADRE_COUNT_OF(parameters);
    cadre_message_t message = new_message(self, CADRE_MESSAGE_CREATE, &self->coordinator);
    message.create = (cadre_create_message_t){.variable = variable,
                                              .name = "values",
                                              .partitions = 1,
                                              .dtype = CADRE_F32,
                                              .wire = bf16 ? CADRE_BF16 : 0,
                                              .shape = {shape, CADRE_COUNT_OF(shape)},
                                              .rows = rows,
                                              .initializer = CADRE_INITIALIZER_ZEROS,
                                              .optimizer = kind,
                                              .optimizer_parameters = {parameters, count},
                                              .generation = GENERATION};
    return ask_control(self, &message);
}

static int
ask_data(cadre_bench_shard_client_t *self, uint64_t variable, bool push)
{
    const uint64_t triple[] = {variable, 0, 0};
    const variable_t *about = &self->variables[variable - 1];
    cadre_message_t message =
        new_message(self, push ? CADRE_MESSAGE_PUSH : CADRE_MESSAGE_PULL, &self->worker);
    if (push) {
        message.push = (cadre_push_message_t){.update = ++self->update_last,
                                              .attempt = 1,
                                              .generation = GENERATION,
                                              .partitions = {triple, CADRE_COUNT_OF(triple)}};
    } else {
        message.pull = (cadre_pull_message_t){.generation = GENERATION,
                                              .partitions = {triple, CADRE_COUNT_OF(triple)}};
    }

    for (size_t k = 0; push && k < about->chunk_count; k++) {
        cadre_message_add_chunk(&message, cadre_chunk_ref(about->gradient[k]));
    }

    return send_message(self->data, NULL, &message);
}

static int
take_answer(cadre_bench_shard_client_t *self, uint64_t variable, bool push)
{
    cadre_message_t answer = {.storage = NULL};
    int status = receive(self, self->data, &answer);
    if (status < 0) {
        return status;
    }

    bool expected = answer.type == (push ? CADRE_MESSAGE_APPLIED : CADRE_MESSAGE_VALUES);
    uint64_t code = push ? answer.applied.status : answer.values.status;
    size_t chunks = push ? 0 : self->variables[variable - 1].chunk_count;
    if (!expected || code != 0 || answer.chunk_count != chunks) {
        char text[CADRE_TEXT_SIZE_MAX];
        status = cadre_fail(CADRE_EMALFORMED, "the ps answers %s",
                            cadre_message_text(&answer, text, sizeof(text)));
    }

    cadre_message_fini(&answer);
    return status;
}

static int
run(cadre_bench_shard_client_t *self, uint64_t variable, bool push, size_t count, size_t window)
{
    size_t unanswered = 0;
    int status = 0;
    for (size_t i = 0; i < count && status == 0; i++) {
        status = ask_data(self, variable, push);
        unanswered++;
        while (status == 0 && unanswered > 0 && (unanswered >= window || i + 1 == count)) {
            status = take_answer(self, variable, push);
            unanswered--;
        }
    }

    /* Heartbeats have piled up meanwhile. */
    while (status == 0 && cadre_socket_receive(self->control, &self->frames) == 0) {
    }

    return status;
}

int
cadre_bench_shard_client_pull(cadre_bench_shard_client_t *self, uint64_t variable, size_t count,
                              size_t window)
{
    return run(self, variable, false, count, window);
}

int
cadre_bench_shard_client_push(cadre_bench_shard_client_t *self, uint64_t variable, size_t count,
                              size_t window)
{
    return run(self, variable, true, count, window);
}

/* --- tables --- */

int
cadre_bench_shard_client_create_table(cadre_bench_shard_client_t *self, uint64_t variable,
                                      uint32_t dim)
{
    static const double rate[] = {0.01};
    static const uint64_t kept[] = {CADRE_F32, 0, 0, 0, CADRE_TABLE_REFUSE, 0};
    static const double numbers[] = {0, 0};
    const uint64_t shape[] = {dim};
    cadre_message_t message = new_message(self, CADRE_MESSAGE_CREATE, &self->coordinator);
    message.create = (cadre_create_message_t){.variable = variable,
                                              .name = "rows",
                                              .partitions = 1,
                                              .dtype = CADRE_F32,
                                              .shape = {shape, 1},
                                              .initializer = CADRE_INITIALIZER_ZEROS,
                                              .optimizer = CADRE_OPTIMIZER_SGD,
                                              .optimizer_parameters = {rate, 1},
                                              .generation = GENERATION,
                                              .table = {kept, CADRE_COUNT_OF(kept)},
                                              .table_numbers = {numbers, CADRE_COUNT_OF(numbers)}};
    return ask_control(self, &message);
}

/* Takes the answer to a request for rows. */
static int
take_rows(cadre_bench_shard_client_t *self, bool push)
{
    cadre_message_t answer = {.storage = NULL};
    int status = receive(self, self->data, &answer);
    if (status < 0) {
        return status;
    }

    const bool expected = answer.type == (push ? CADRE_MESSAGE_APPLIED : CADRE_MESSAGE_VALUES);
    if (!expected || (push ? answer.applied.status : answer.values.status) != 0) {
        char text[CADRE_TEXT_SIZE_MAX];
        status = cadre_fail(CADRE_EMALFORMED, "the ps answers %s",
                            cadre_message_text(&answer, text, sizeof(text)));
    }
    cadre_message_fini(&answer);
    return status;
}

/* Takes answers until fewer than `window` requests are unanswered. */
static int
take_until(cadre_bench_shard_client_t *self, bool push, size_t window, size_t *unanswered)
{
    int status = 0;
    while (status == 0 && *unanswered > 0 && *unanswered >= window) {
        status = take_rows(self, push);
        --*unanswered;
    }
    return status;
}

int
cadre_bench_shard_client_pull_rows(cadre_bench_shard_client_t *self, const cadre_bench_rows_t *rows,
                                   size_t times, size_t window)
{
    const size_t at_once = CADRE_ROWS_SIZE_MAX / (rows->dim * sizeof(float));
    const size_t requests = (rows->count + at_once - 1) / at_once;
    size_t unanswered = 0;
    int status = 0;
    for (size_t i = 0; i < times * requests && status == 0; i++) {
        const size_t first = i % requests * at_once;
        const size_t count = rows->count - first < at_once ? rows->count - first : at_once;
        const uint64_t record[] = {rows->variable, 0, CADRE_ROWS_LISTED, count};
        cadre_message_t message = new_message(self, CADRE_MESSAGE_PULL, &self->worker);
        message.pull = (cadre_pull_message_t){.generation = GENERATION,
                                              .rows = {record, CADRE_COUNT_OF(record)}};
        cadre_message_add_chunk(&message,
                                cadre_chunk_new_copy(rows->keys + first, count * sizeof(uint64_t)));
        status = send_message(self->data, NULL, &message);
        unanswered++;
        status = status < 0 ? status : take_until(self, false, window, &unanswered);
    }
    return status < 0 ? status : take_until(self, false, 1, &unanswered);
}

/* --- rows pulled by a worker that keeps some --- */

/* Pulls of some rows, one message for each part. */
typedef struct {
    cadre_variable_entry_t table;
    cadre_run_t run; /* only its parts are used */
    cadre_worker_counters_t counters;
    size_t asked; /* parts */
    size_t taken;
    size_t size_bytes;
} kept_pull_t;

static int
ask_part(cadre_bench_shard_client_t *self, kept_pull_t *pull, cadre_row_cache_t *kept)
{
    const size_t at = pull->asked++;
    cadre_message_t message = new_message(self, CADRE_MESSAGE_PULL, &self->worker);
    cadre_pull_intake_hold(kept, &pull->run.parts[at], GENERATION);
    cadre_auto(cadre_free) cadre_row_part_t *record =
        cadre_pull_cut_name_rows(pull->run.parts, &at, 1, &message);
    cadre_auto(cadre_free) uint64_t *held =
        cadre_pull_cut_name_held(pull->run.parts, &at, 1, &message);
    message.pull = (cadre_pull_message_t){.generation = GENERATION,
                                          .rows = cadre_row_part_list(record, 1),
                                          .held = {held, held ? 1 : 0}};
    pull->size_bytes += cadre_message_chunks_size_bytes(&message);
    return send_message(self->data, NULL, &message);
}

static int
take_part(cadre_bench_shard_client_t *self, kept_pull_t *pull, cadre_row_cache_t *kept)
{
    const size_t at = pull->taken++;
    const cadre_pull_intake_t intake = {.rows = kept, .counters = &pull->counters};
    cadre_message_t answer = {.storage = NULL};
    int status = receive(self, self->data, &answer);
    if (status < 0) {
        return status;
    }
    pull->size_bytes +=
        cadre_message_chunks_size_bytes(&answer) + answer.values.unchanged.count * sizeof(uint64_t);
    if (answer.type != CADRE_MESSAGE_VALUES || answer.values.status != 0 ||
        cadre_pull_intake_take(&intake, &pull->run, &at, 1, &answer) < 0) {
        char text[CADRE_TEXT_SIZE_MAX];
        status = cadre_fail(CADRE_EMALFORMED, "the ps answers %s",
                            cadre_message_text(&answer, text, sizeof(text)));
    }
    cadre_message_fini(&answer);
    return status;
}

/* Makes the parts of the run: as many rows as a message takes. */
static void
make_kept_parts(const cadre_bench_rows_t *rows, kept_pull_t *pull)
{
    const size_t at_once = CADRE_ROWS_SIZE_MAX / pull->table.row_size_bytes;
    pull->run.part_count = (rows->count - 1) / at_once + 1;
    pull->run.parts = cadre_calloc(pull->run.part_count, sizeof(*pull->run.parts));
    for (size_t i = 0; i < pull->run.part_count; i++) {
        const size_t left = rows->count - i * at_once;
        pull->run.parts[i] = (cadre_run_part_t){.variable = &pull->table,
                                                .ids = rows->keys + i * at_once,
                                                .id_count = left < at_once ? left : at_once};
    }
}

int
cadre_bench_shard_client_pull_kept(cadre_bench_shard_client_t *self, const cadre_bench_rows_t *rows,
                                   cadre_row_cache_t *kept, size_t window, size_t *size_bytes)
{
    const size_t row_size = rows->dim * sizeof(float);
    kept_pull_t pull = {.table = {.id = (uint32_t)rows->variable,
                                  .dtype = CADRE_F32,
                                  .wire = CADRE_F32,
                                  .row_size_bytes = row_size,
                                  .wire_row_size_bytes = row_size,
                                  .is_table = true}};
    int status = 0;
    make_kept_parts(rows, &pull);
    while (status == 0 && pull.taken < pull.run.part_count) {
        const bool is_full = pull.asked - pull.taken == window;
        status = is_full || pull.asked == pull.run.part_count ? take_part(self, &pull, kept)
                                                              : ask_part(self, &pull, kept);
    }
    cadre_run_end_parts(&pull.run);
    *size_bytes += pull.size_bytes;
    return status;
}

/* --- rows pushed --- */

/* Returns an update of the rows, whose request the caller fills in; the chunks stay the same for
 * all updates. */
static cadre_message_t
rows_update(const cadre_bench_rows_t *rows)
{
    const size_t ids_at_once = CADRE_CHUNK_SIZE_MAX / sizeof(uint64_t);
    cadre_message_t message = {.type = CADRE_MESSAGE_PUSH};
    cadre_chunk_layout_t layout;
    int status = cadre_chunk_layout_init(&layout, rows->count, rows->dim * sizeof(float));
    cadre_assert(status == 0);
    for (size_t first = 0; first < rows->count; first += ids_at_once) {
        const size_t count = rows->count - first < ids_at_once ? rows->count - first : ids_at_once;
        cadre_message_add_chunk(&message,
                                cadre_chunk_new_copy(rows->keys + first, count * sizeof(uint64_t)));
    }
    for (size_t k = 0; k < layout.count; k++) {
        cadre_chunk_t *chunk = cadre_chunk_new(cadre_chunk_layout_size(&layout, k));
        float *numbers = cadre_chunk_data(chunk);
        for (size_t i = 0; i < cadre_chunk_size_bytes(chunk) / sizeof(float); i++) {
            numbers[i] = (float)(i % 1000) * 1e-6F;
        }
        cadre_message_add_chunk(&message, chunk);
    }
    return message;
}

int
cadre_bench_shard_client_push_rows(cadre_bench_shard_client_t *self, const cadre_bench_rows_t *rows,
                                   size_t updates, size_t window, double *seconds)
{
    cadre_auto(cadre_message_fini) cadre_message_t update = rows_update(rows);
    const uint64_t record[] = {rows->variable, 0, 0, rows->count};
    const double begin = cadre_bench_now();
    size_t unanswered = 0;
    int status = 0;
    for (size_t i = 0; i < updates && status == 0; i++) {
        cadre_message_t message = new_message(self, CADRE_MESSAGE_PUSH, &self->worker);
        message.push = (cadre_push_message_t){.update = ++self->update_last,
                                              .attempt = 1,
                                              .generation = GENERATION,
                                              .rows = {record, CADRE_COUNT_OF(record)}};
        for (size_t k = 0; k < update.chunk_count; k++) {
            cadre_message_add_chunk(&message, cadre_chunk_ref(update.chunks[k]));
        }
        status = send_message(self->data, NULL, &message);
        unanswered++;
        status = status < 0 ? status : take_until(self, true, window, &unanswered);
    }
    status = status < 0 ? status : take_until(self, true, 1, &unanswered);
    *seconds = cadre_bench_now() - begin;
    return status;
}
