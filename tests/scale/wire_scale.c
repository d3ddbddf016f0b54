/*
 * wire - PEERS MESSAGES WINDOW: what libzmq alone costs per message and answer, beside 2 peers
 *
 * A ROUTER sends small messages to peers in another process, which send each back: WINDOW of them
 * are under way per peer, one after the other (1), or so many in a row (then each peer is sent the
 * next ones when all have come back). The CPU of the ROUTER's process is what no coordinator that
 * talks to as many peers can go under. Nothing is wanted of it.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/memory.h"
#include "tests/scale/scale.h"

enum { FEW = 2, BYTES = 100, ROUNDS = 3, LOOK_MS = 5 };

typedef struct {
    char name[16];
    int back; /* answers since the last messages to it */
} peer_t;

static void
check(bool good, const char *what)
{
    require(good, what);
}

static void
raise_limit(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void
answer_all(void *socket, bool there)
{
    char bytes[BYTES];
    int size = 0;
    while (there && (size = zmq_recv(socket, bytes, BYTES, ZMQ_DONTWAIT)) > 0) {
        check(zmq_send(socket, bytes, (size_t)size, 0) == size, "an answer");
    }
}

/* The process of the peers: sends back what comes, for ever. */
static _Noreturn void
echo(const char *address, int count)
{
    void *context = zmq_ctx_new();
    zmq_ctx_set(context, ZMQ_MAX_SOCKETS, count + 8);
    zmq_ctx_set(context, ZMQ_IO_THREADS, 2);
    void **sockets = cadre_calloc((size_t)count, sizeof(*sockets));
    struct pollfd *waits = cadre_calloc((size_t)count, sizeof(*waits));
    for (int i = 0; i < count; i++) {
        char name[16];
        size_t size = sizeof(waits[i].fd);
        sockets[i] = zmq_socket(context, ZMQ_DEALER);
        check(sockets[i] != NULL, "a peer");
        zmq_setsockopt(sockets[i], ZMQ_ROUTING_ID, name,
                       (size_t)snprintf(name, sizeof(name), "peer-%d", i));
        check(zmq_connect(sockets[i], address) == 0, address);
        check(zmq_send(sockets[i], "hello", 5, 0) == 5, "a greeting");
        zmq_getsockopt(sockets[i], ZMQ_FD, &waits[i].fd, &size);
        waits[i].events = POLLIN;
    }
    for (;;) {
        /* A descriptor tells by edges: what a send has swallowed is found by looking. */
        bool look = poll(waits, (nfds_t)count, LOOK_MS) == 0;
        for (int i = 0; i < count; i++) {
            answer_all(sockets[i], look || waits[i].revents);
        }
    }
}

static void
send_some(void *router, peer_t *peer, int count)
{
    static const char bytes[BYTES] = {0};
    peer->back = 0;
    for (int i = 0; i < count; i++) {
        check(zmq_send(router, peer->name, strlen(peer->name), ZMQ_SNDMORE) > 0 &&
                  zmq_send(router, bytes, BYTES, 0) == BYTES,
              "a message");
    }
}

/* Receives one answer; who sent it. */
static peer_t *
receive(void *router, peer_t *peers)
{
    char name[16] = {0};
    char bytes[BYTES];
    check(zmq_recv(router, name, sizeof(name) - 1, 0) > 0, "an answer");
    check(zmq_recv(router, bytes, BYTES, 0) > 0, "its bytes");
    return &peers[strtol(name + strlen("peer-"), NULL, 10)];
}

/* Microseconds of CPU for a message to a peer and its answer. */
static double
measure(const char *address, int count, long messages, int window)
{
    pid_t child = fork();
    if (child == 0) {
        echo(address, count);
    }
    void *context = zmq_ctx_new();
    zmq_ctx_set(context, ZMQ_IO_THREADS, 2);
    void *router = zmq_socket(context, ZMQ_ROUTER);
    check(router && zmq_bind(router, address) == 0, address);
    peer_t *peers = cadre_calloc((size_t)count, sizeof(*peers));
    for (int i = 0; i < count; i++) {
        receive(router, peers);
        snprintf(peers[i].name, sizeof(peers[i].name), "peer-%d", i);
    }
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double cpu = scale_cpu();
        long left = messages;
        for (int i = 0; i < count; i++) {
            send_some(router, &peers[i], window);
        }
        for (long under_way = (long)count * window; under_way > 0; under_way--) {
            peer_t *peer = receive(router, peers);
            if (++peer->back == window && left > 0) {
                send_some(router, peer, window);
                under_way += window;
                left -= window;
            }
        }
        double us = (scale_cpu() - cpu) * 1e6 / (double)(messages + (long)count * window);
        best = us < best ? us : best;
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    zmq_close(router);
    zmq_ctx_term(context);
    free(peers);
    return best;
}

int
main(int argc, char **argv)
{
    scale_arguments_t arguments = scale_arguments(argc, argv);
    int peers = (int)scale_number(&arguments, 0, 1000, 60);
    long messages = scale_number(&arguments, 1, 200000, 5000);
    scratch_t scratch;
    raise_limit();
    scratch_open(&scratch);
    cadre_auto(cadre_free) char *address = cadre_asprintf("ipc://%s/router", scratch.path);
    static const int windows[] = {1, 16, 32};
    for (size_t i = 0; i < CADRE_COUNT_OF(windows); i++) {
        double few = measure(address, FEW, messages, windows[i]);
        double many = measure(address, peers, messages, windows[i]);
        printf("%d in a row: %.1f us of CPU per message and answer, with %d peers %.1f us: %.2f "
               "times\n",
               windows[i], many, FEW, few, many / few);
    }
    scratch_close(&scratch);
    return scale_verdict(true, "wire %d", peers);
}
