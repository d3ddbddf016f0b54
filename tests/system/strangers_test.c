/* Peers that speak something else, at the sockets of real processes: they cost nobody anything. */
#include <cadre/coordinator.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "tests/system/local_cluster.h"
#include "tests/system/stranger.h"

TestSuite(strangers, .timeout = 900);

enum { ROWS = 10, CLOSURES = 200, GARBAGE_SIZE = 64 << 10, EACH = 4 };

#define OK(call)                                                                                   \
    do {                                                                                           \
        int status_ = (call);                                                                      \
        cr_assert(status_ == 0, "%s: %s", #call, cadre_error_text());                              \
    } while (0)

/* A cluster of two ps and a worker that adds ones to "wide". */
typedef struct {
    local_cluster_t cluster;
    cadre_variable_t *wide;
    cadre_function_t *add_one;
} stage_t;

static void
open_stage(stage_t *self)
{
    local_cluster_options_t options = {.ps = 2, .workers = 1};
    cadre_variable_options_t variable = cadre_variable_options();
    variable.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    variable.partitioner = CADRE_PARTITION_FIXED;
    variable.count = 2;
    local_cluster_open(&self->cluster, &options);
    OK(cadre_variable_create(self->cluster.coordinator, "wide", CADRE_F32, (int64_t[]){ROWS}, 1,
                             &variable, &self->wide));
    OK(cadre_function_native(self->cluster.coordinator, "add_one", &self->add_one));
}

/* Runs closures, each of which counts once. */
static void
train(stage_t *self, double before)
{
    cadre_tensor_t value = {.data = NULL};
    for (int i = 0; i < CLOSURES; i++) {
        OK(cadre_coordinator_schedule(self->cluster.coordinator, self->add_one, NULL, LOCAL_WAIT_MS,
                                      NULL));
    }
    OK(cadre_coordinator_join(self->cluster.coordinator, LOCAL_WAIT_MS));
    OK(cadre_variable_read(self->wide, &value, LOCAL_WAIT_MS));
    for (int i = 0; i < ROWS; i++) {
        cr_assert_float_eq(((const float *)value.data)[i], before + CLOSURES, 1e-3);
    }
    cadre_tensor_fini(&value);
}

/* Nobody was lost, nothing is wrong; and the job ends as it should. */
static void
close_stage(stage_t *self)
{
    cadre_totals_t totals = cadre_coordinator_totals(self->cluster.coordinator);
    cr_expect_eq(totals.workers_lost, 0);
    cr_expect_eq(totals.ps_lost, 0);
    cr_expect_eq(totals.attempts, totals.finished);
    local_cluster_close(&self->cluster);
}

/* Connects to the socket NAME of the cluster. */
static int
connect_to(const stage_t *self, const char *name)
{
    cadre_auto(cadre_free) char *path = scratch_path(&self->cluster.scratch, name);
    int fd = stranger_connect(path);
    cr_assert_geq(fd, 0, "%s", path);
    return fd;
}

/* Waits until the other side has closed the connection. */
static void
expect_closed(int fd, const char *what)
{
    bool is_open = true;
    for (deadline_t deadline = deadline_in(LOCAL_WAIT_MS); is_open;) {
        char answer[4096];
        struct pollfd item = {.fd = fd, .events = POLLIN};
        if (poll(&item, 1, 100) == 1) {
            is_open = recv(fd, answer, sizeof(answer), MSG_DONTWAIT) > 0;
        }
        cr_assert(!is_open || again(deadline), "%s is not told to go", what);
    }
}

static const struct {
    const char *what;
    const char *bytes;
    size_t size_bytes;
} SAYINGS[] = {
#define SAYING(what, bytes)                                                                        \
    {                                                                                              \
        what, bytes, sizeof(bytes) - 1                                                             \
    }
    SAYING("silence", ""),
    SAYING("a browser", "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/8\r\n\r\n"),
    SAYING("a redis client", "*1\r\n$4\r\nPING\r\n"),
    SAYING("a TLS client", "\x16\3\1\2\0\1\0\1\xfc\3\3"),
    SAYING("half a greeting", STRANGER_SIGNATURE "\3"),
    SAYING("a subscriber of ZMTP 3.0", STRANGER_GREETING "\4\x19\5READY\x0bSocket-Type\0\0\0\3SUB"
                                                         "\0\1\1"),
    SAYING("a command that is none", STRANGER_GREETING "\4\6\5NOSUC"),
    SAYING("a frame of many gigabytes",
           STRANGER_GREETING "\4\x1c\5READY\x0bSocket-Type\0\0\0\6DEALER"
                             "\2\0\0\x10\0\0\0\0\0x"),
#undef SAYING
};

static const char *const SOCKETS[] = {"coordinator", "ps-0"};

Test(strangers, that_are_no_peers_are_closed_and_cost_nobody_anything)
{
    stage_t stage;
    int fds[CADRE_COUNT_OF(SOCKETS)][CADRE_COUNT_OF(SAYINGS)][EACH];
    open_stage(&stage);
    for (size_t i = 0; i < CADRE_COUNT_OF(SOCKETS) * CADRE_COUNT_OF(SAYINGS) * EACH; i++) {
        size_t saying = i / EACH % CADRE_COUNT_OF(SAYINGS);
        size_t socket = i / EACH / CADRE_COUNT_OF(SAYINGS);
        int fd = connect_to(&stage, SOCKETS[socket]);
        stranger_send(fd, SAYINGS[saying].bytes, SAYINGS[saying].size_bytes);
        fds[socket][saying][i % EACH] = fd;
    }
    train(&stage, 0);
    for (size_t i = 0; i < CADRE_COUNT_OF(SOCKETS) * CADRE_COUNT_OF(SAYINGS) * EACH; i++) {
        size_t saying = i / EACH % CADRE_COUNT_OF(SAYINGS);
        int fd = fds[i / EACH / CADRE_COUNT_OF(SAYINGS)][saying][i % EACH];
        expect_closed(fd, SAYINGS[saying].what);
        close(fd);
    }
    train(&stage, CLOSURES);
    close_stage(&stage);
}

Test(strangers, that_send_random_bytes_cost_nobody_anything)
{
    stage_t stage;
    cadre_random_t random;
    open_stage(&stage);
    cadre_random_init(&random, 1, 2);
    for (int round = 0; round < 16; round++) {
        char bytes[GARBAGE_SIZE];
        for (size_t i = 0; i < sizeof(bytes); i++) {
            bytes[i] = (char)cadre_random_next_u64(&random);
        }
        /* Every second one begins as a peer would. */
        memcpy(bytes, STRANGER_GREETING, round % 2 ? sizeof(STRANGER_GREETING) - 1 : 0);
        int fd = connect_to(&stage, SOCKETS[round / 2 % 2]);
        fcntl(fd, F_SETFL, O_NONBLOCK);
        stranger_send(fd, bytes, sizeof(bytes));
        close(fd);
    }
    train(&stage, 0);
    close_stage(&stage);
}

/* Whole messages of other programs that use ZeroMQ, of every kind of socket. */
Test(strangers, of_other_ZeroMQ_programs_cost_nobody_anything)
{
    static const int types[] = {ZMQ_SUB, ZMQ_PUB,    ZMQ_PULL, ZMQ_PUSH,
                                ZMQ_REQ, ZMQ_DEALER, ZMQ_PAIR};
    stage_t stage;
    void *sockets[CADRE_COUNT_OF(SOCKETS) * CADRE_COUNT_OF(types)];
    void *context = zmq_ctx_new();
    open_stage(&stage);
    for (size_t i = 0; i < CADRE_COUNT_OF(sockets); i++) {
        char address[128];
        int linger_ms = 0;
        snprintf(address, sizeof(address), "ipc://%s/%s", stage.cluster.scratch.path,
                 SOCKETS[i % CADRE_COUNT_OF(SOCKETS)]);
        sockets[i] = zmq_socket(context, types[i / CADRE_COUNT_OF(SOCKETS)]);
        zmq_setsockopt(sockets[i], ZMQ_LINGER, &linger_ms, sizeof(linger_ms));
        if (types[i / CADRE_COUNT_OF(SOCKETS)] == ZMQ_SUB) {
            zmq_setsockopt(sockets[i], ZMQ_SUBSCRIBE, "", 0);
        } else {
            zmq_setsockopt(sockets[i], ZMQ_ROUTING_ID, "worker/0/1", i % 3 ? 10 : 6);
        }
        cr_assert_eq(zmq_connect(sockets[i], address), 0);
        for (int k = 0; k < 20; k++) {
            zmq_send(sockets[i], "\x92\1\2", 3, ZMQ_DONTWAIT | ZMQ_SNDMORE);
            zmq_send(sockets[i], "hello", 5, ZMQ_DONTWAIT);
        }
    }
    train(&stage, 0);
    for (size_t i = 0; i < CADRE_COUNT_OF(sockets); i++) {
        zmq_close(sockets[i]);
    }
    train(&stage, CLOSURES);
    close_stage(&stage);
    zmq_ctx_term(context);
}

/* One that knows how tasks are called, and says nothing that could be read, as fast as it can: the
 * job goes on meanwhile, and the log says what is dropped. */
Test(strangers, that_flood_the_coordinator_are_counted_and_do_not_stop_the_job)
{
    enum { FLOOD = 20000 };
    stage_t stage;
    int linger_ms = 0;
    int limit = 0;
    void *context = zmq_ctx_new();
    open_stage(&stage);
    cadre_auto(cadre_free) char *address =
        cadre_asprintf("ipc://%s/coordinator", stage.cluster.scratch.path);
    void *socket = zmq_socket(context, ZMQ_DEALER);
    zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof(linger_ms));
    zmq_setsockopt(socket, ZMQ_SNDHWM, &limit, sizeof(limit));
    zmq_setsockopt(socket, ZMQ_ROUTING_ID, "worker/7/00000000000000aa", 25);
    cr_assert_eq(zmq_connect(socket, address), 0);
    for (int i = 0; i < FLOOD; i++) {
        zmq_send(socket, "\x92\1\2", 3, ZMQ_DONTWAIT | ZMQ_SNDMORE);
        zmq_send(socket, "no chunk of anything", 20, ZMQ_DONTWAIT);
    }
    train(&stage, 0);
    bool is_told = false;
    for (deadline_t deadline = deadline_in(LOCAL_WAIT_MS); !is_told;) {
        is_told = local_cluster_logged(&stage.cluster, "messages_dropped");
        cr_assert(is_told || again(deadline), "the log says nothing of what was dropped");
    }
    zmq_close(socket);
    zmq_ctx_term(context);
    close_stage(&stage);
}
