/*
 * slow_readers - PEERS MIB LIMIT_MIB: what a ps holds for peers that pull and do not read
 *
 * Each peer pulls a variable of MIB, of which there is another version for each, and reads nothing.
 * The ps may use LIMIT_MIB (ulimit -v). Wanted of 200 x 16: its memory stays under that, in a job
 * whose coordinator goes on assigning and reading.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/memory.h"
#include "common/net/receiving.h"
#include "common/net/socket.h"
#include "common/wire/codec.h"
#include "common/wire/task.h"
#include "tests/scale/scale.h"
#include "tests/system/stranger.h"

enum { COLUMNS = 262144, ANSWER_MS = 30000, READER = 999999, MIB = 1 << 20 };

typedef struct {
    void *context; /* of the one who reads */
    uint64_t epoch;
    uint64_t generation;
    char address[CADRE_ENDPOINT_TEXT_SIZE]; /* of the ps */
} session_t;

static void
send_plain(void *socket, cadre_message_t *message)
{
    cadre_chunk_t *header = cadre_message_encode(message);
    int sent = zmq_send(socket, cadre_chunk_data(header), cadre_chunk_size_bytes(header), 0);
    require(sent > 0, "a message that is sent");
    cadre_chunk_unref(&header);
}

/* Joins as a worker, to learn of the session what a peer must know; then says nothing more. */
static void
join(session_t *self, const char *coordinator)
{
    cadre_task_t task = {CADRE_ROLE_WORKER, CADRE_INDEX_ANY, 4711};
    char id[CADRE_TASK_TEXT_SIZE];
    cadre_endpoint_t endpoint;
    cadre_socket_t *socket = NULL;
    cadre_context_t *context = NULL;
    scale_check(cadre_context_open(&context), "a context");
    scale_check(cadre_endpoint_parse(coordinator, &endpoint), coordinator);
    scale_check(
        cadre_socket_open_dealer(context, CADRE_PLANE_CONTROL, cadre_task_text(&task, id), &socket),
        "a socket");
    scale_check(cadre_socket_connect(socket, &endpoint), "a connection");
    cadre_message_t hello = {.type = CADRE_MESSAGE_HELLO, .request = 1};
    hello.incarnation = task.incarnation;
    hello.hello = (cadre_hello_message_t){.lowest = CADRE_PROTOCOL_LOWEST,
                                          .highest = CADRE_PROTOCOL_VERSION,
                                          .schema = cadre_message_schema_hash(),
                                          .role = CADRE_ROLE_WORKER,
                                          .index = CADRE_INDEX_ANY,
                                          .build = "scale",
                                          .host = "scale",
                                          .address = "",
                                          .devices = "",
                                          .slots = 1,
                                          .round = 1};
    send_plain(cadre_socket_handle(socket), &hello);
    cadre_frames_t frames = {.chunks = NULL};
    for (deadline_t deadline = deadline_in(SCALE_WAIT_MS); self->generation == 0;) {
        cadre_message_t message;
        if (cadre_socket_receive(socket, &frames) < 0) {
            require(again(deadline), "a shard that is told");
            continue;
        }
        scale_check(cadre_message_decode(cadre_chunk_data(frames.header),
                                         cadre_chunk_size_bytes(frames.header), frames.chunks,
                                         frames.count, &message),
                    "a message");
        if (message.type == CADRE_MESSAGE_SHARD && message.shard.incarnation) {
            self->epoch = message.epoch;
            self->generation = message.shard.generation;
            snprintf(self->address, sizeof(self->address), "%s", message.shard.address);
        }
        cadre_message_fini(&message);
    }
    cadre_frames_fini(&frames);
    cadre_socket_close(&socket, 0);
    cadre_context_close(&context);
}

static cadre_chunk_t *
encode_pull(const session_t *self, uint64_t incarnation, uint64_t variable)
{
    uint64_t triple[3] = {variable, 0, 0};
    cadre_message_t message = {
        .type = CADRE_MESSAGE_PULL, .request = 1, .incarnation = incarnation, .epoch = self->epoch};
    message.pull =
        (cadre_pull_message_t){.generation = self->generation, .partitions = {triple, 3}};
    return cadre_message_encode(&message);
}

/* Appends a frame of ZMTP 3 with a short body. */
static size_t
add_frame(uint8_t *bytes, size_t at, uint8_t flags, const void *body, size_t size)
{
    require(size < 256, "a short frame");
    bytes[at] = flags;
    bytes[at + 1] = (uint8_t)size;
    memcpy(bytes + at + 2, body, size);
    return at + 2 + size;
}

/* A connection that says who it is and pulls, in the bytes of ZMTP 3: libzmq would read ahead. Its
 * descriptor. */
static int
pull_unread(const session_t *self, uint64_t incarnation, uint64_t variable)
{
    uint8_t bytes[512] = STRANGER_GREETING;
    cadre_task_t task = {CADRE_ROLE_WORKER, 0, incarnation};
    char id[CADRE_TASK_TEXT_SIZE];
    size_t length = strlen(cadre_task_text(&task, id));
    uint8_t ready[128] = "\5READY\13Socket-Type\0\0\0\6DEALER\10Identity\0\0\0";
    size_t size = sizeof("\5READY\13Socket-Type\0\0\0\6DEALER\10Identity\0\0\0") - 1;
    ready[size++] = (uint8_t)length;
    memcpy(ready + size, id, length);
    size_t at = add_frame(bytes, CADRE_GREETING_SIZE, 4, ready, size + length);
    int fd = stranger_connect(self->address + strlen("ipc://"));
    require(fd >= 0, "a connection to the ps");
    require(stranger_send(fd, bytes, at), "room for some bytes");
    require(stranger_await_ready(fd), "a ps that says who it is");
    cadre_chunk_t *header = encode_pull(self, incarnation, variable);
    at = add_frame(bytes, 0, 0, cadre_chunk_data(header), cadre_chunk_size_bytes(header));
    require(stranger_send(fd, bytes, at), "room for some bytes");
    cadre_chunk_unref(&header);
    return fd;
}

/* A connection of a peer that reads. */
static void *
connect_reader(const session_t *self)
{
    cadre_task_t task = {CADRE_ROLE_WORKER, 0, READER};
    char id[CADRE_TASK_TEXT_SIZE];
    cadre_task_text(&task, id);
    int limit_ms = ANSWER_MS;
    int none = 0;
    void *socket = zmq_socket(self->context, ZMQ_DEALER);
    zmq_setsockopt(socket, ZMQ_ROUTING_ID, id, strlen(id));
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &limit_ms, sizeof(limit_ms));
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof(none));
    require(zmq_connect(socket, self->address) == 0, self->address);
    return socket;
}

/* How long it waits for `size_bytes` of values; -1 when they do not come. */
static double
read_values(const session_t *self, void *socket, uint64_t variable, size_t size_bytes)
{
    double from = scale_now();
    cadre_chunk_t *header = encode_pull(self, READER, variable);
    zmq_send(socket, cadre_chunk_data(header), cadre_chunk_size_bytes(header), 0);
    cadre_chunk_unref(&header);
    size_t got = 0;
    for (int more = 1; more;) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        bool came = zmq_msg_recv(&frame, socket, 0) >= 0;
        more = came && zmq_msg_more(&frame);
        got += zmq_msg_size(&frame);
        zmq_msg_close(&frame);
    }
    return got >= size_bytes ? scale_now() - from : -1;
}

int
main(int argc, char **argv)
{
    scale_arguments_t arguments = scale_arguments(argc, argv);
    int peers = (int)scale_number(&arguments, 0, 200, 60);
    long mib = scale_number(&arguments, 1, 16, 16);
    long limit_mib = scale_number(&arguments, 2, 3072, 1024);
    struct rlimit own;
    getrlimit(RLIMIT_AS, &own);
    const struct rlimit small = {(rlim_t)limit_mib * MIB, own.rlim_max};
    require(setrlimit(RLIMIT_AS, &small) == 0, "a limit");
    scale_cluster_t cluster;
    scale_cluster_open(&cluster, 1, NULL); /* the ps begins with that limit */
    setrlimit(RLIMIT_AS, &own);
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 1;
    cadre_variable_t *w = NULL;
    int64_t shape[CADRE_RANK_MAX] = {mib, COLUMNS};
    scale_check(cadre_variable_create(cluster.coordinator, "w", CADRE_F32, shape, 2, &options, &w),
                "w");
    session_t session = {.context = zmq_ctx_new()};
    join(&session, cluster.address);
    const uint64_t variable = 1;
    const size_t size_bytes = (size_t)mib * MIB;
    void *reader = connect_reader(&session);
    require(read_values(&session, reader, variable, size_bytes) >= 0, "values");

    cadre_auto(cadre_free) float *values = cadre_calloc((size_t)mib * COLUMNS, sizeof(float));
    cadre_tensor_t value = {.dtype = CADRE_F32, .rank = 2, .shape = {mib, COLUMNS}, .data = values};
    int *connections = cadre_calloc((size_t)peers, sizeof(*connections));
    for (int i = 0; i < peers; i++) {
        connections[i] = pull_unread(&session, 1000000 + (uint64_t)i, variable);
        scale_check(cadre_variable_assign(w, CADRE_VARIABLE_ADD, &value, SCALE_WAIT_MS),
                    "an assignment");
    }
    cadre_tensor_t read = {.data = NULL};
    scale_check(cadre_variable_read(w, &read, SCALE_WAIT_MS), "a read");
    cadre_tensor_fini(&read);
    double answered_s = read_values(&session, reader, variable, size_bytes);
    zmq_close(reader);
    uint64_t pulls = scale_await_count(&cluster, "pulls", 1);
    long peak = scale_memory_peak_mib(cluster.ps[0]);
    for (int i = 0; i < peers; i++) {
        close(connections[i]);
    }
    free(connections);
    scale_cluster_close(&cluster);
    zmq_ctx_term(session.context);
    return scale_verdict(
        peak > 0 && peak < limit_mib && answered_s >= 0,
        "%d peers that do not read, another %ld MiB for each: %llu answered, ps at "
        "most %ld MiB of %ld; one that reads has its values after %.2f s",
        peers, mib, (unsigned long long)pulls, peak, limit_mib, answered_s);
}
