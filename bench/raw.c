#include "bench/raw.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "bench/measure.h"
#include "bench/process.h"
#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"

enum { ADDRESS_SIZE = 256 };

struct cadre_bench_raw {
    void *context;
    void *socket;
    pid_t peer;
    char *bytes; /* CADRE_BENCH_RAW_CHUNK_MAX of them, which every frame is made of */
};

/* What the first bytes of a request ask for. */
typedef struct {
    uint64_t header_size; /* 0: no reply */
    uint64_t chunk_size;
    uint64_t chunk_count;
} order_t;

_Static_assert(sizeof(order_t) == CADRE_BENCH_RAW_HEADER_MIN, "an order fits the least header");

/* --- frames, both ends --- */

static void
keep(void *bytes, void *hint)
{
    (void)bytes, (void)hint; /* they stay where they are */
}

static int
broken(const char *what)
{
    return cadre_fail(CADRE_EIO, "raw ZeroMQ: %s: %s", what, zmq_strerror(errno));
}

static int
send_chunks(void *socket, char *bytes, size_t chunk_size, size_t chunk_count)
{
    for (size_t i = 0; i < chunk_count; i++) {
        zmq_msg_t frame;
        zmq_msg_init_data(&frame, bytes, chunk_size, keep, NULL);
        if (zmq_msg_send(&frame, socket, i + 1 < chunk_count ? ZMQ_SNDMORE : 0) < 0) {
            return broken("send");
        }
    }
    return 0;
}

static bool
set_options(void *socket)
{
    int none = 0;
    int wait_ms = CADRE_BENCH_WAIT_MS;
    return zmq_setsockopt(socket, ZMQ_SNDHWM, &none, sizeof(none)) == 0 &&
           zmq_setsockopt(socket, ZMQ_RCVHWM, &none, sizeof(none)) == 0 &&
           zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof(none)) == 0 &&
           zmq_setsockopt(socket, ZMQ_RCVTIMEO, &wait_ms, sizeof(wait_ms)) == 0;
}

/* Receives and drops the rest of a message. */
static int
drop_rest(void *socket, zmq_msg_t *frame)
{
    while (zmq_msg_more(frame)) {
        if (zmq_msg_recv(frame, socket, 0) < 0) {
            return broken("receive");
        }
    }
    return 0;
}

/* --- the peer --- */

/* One request: routing id, header, chunks; then its reply. */
static int
serve(void *socket, char *bytes)
{
    char id[256];
    order_t order = {0};
    zmq_msg_t frame;
    int id_size = zmq_recv(socket, id, sizeof(id), 0);
    if (id_size < 0) {
        return errno == EAGAIN ? 0 : broken("receive");
    }

    zmq_msg_init(&frame);
    int status = zmq_msg_recv(&frame, socket, 0) < 0 ? broken("receive") : 0;
    if (status == 0 && zmq_msg_size(&frame) >= sizeof(order)) {
        memcpy(&order, zmq_msg_data(&frame), sizeof(order));
    }

    status = status < 0 ? status : drop_rest(socket, &frame);
    zmq_msg_close(&frame);
    if (status < 0 || order.header_size == 0) {
        return status;
    }

    if (zmq_send(socket, id, (size_t)id_size, ZMQ_SNDMORE) < 0 ||
        zmq_send(socket, bytes, order.header_size, order.chunk_count ? ZMQ_SNDMORE : 0) < 0) {
        return broken("send");
    }

    return send_chunks(socket, bytes, order.chunk_size, order.chunk_count);
}

int
cadre_bench_raw_peer(const char *address)
{
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_ROUTER);
    char *bytes = cadre_calloc(CADRE_BENCH_RAW_CHUNK_MAX, 1);
    int status =
        !socket || !set_options(socket) || zmq_connect(socket, address) < 0 ? broken("connect") : 0;
    while (status == 0) {
        status = serve(socket, bytes);
    }

    zmq_close(socket);
    zmq_ctx_term(context);
    free(bytes);
    return status;
}

/* --- our end --- */

int
cadre_bench_raw_open(cadre_bench_t *bench, bool over_tcp, cadre_bench_raw_t **out)
{
    cadre_auto(cadre_free) char *address =
        over_tcp ? cadre_strdup(CADRE_BENCH_TCP) : cadre_bench_address(bench, "raw");
    char bound[ADDRESS_SIZE];
    size_t size = sizeof(bound);
    const char *const arguments[] = {"--peer", bound, NULL};
    cadre_auto(cadre_bench_raw_close) cadre_bench_raw_t *self = cadre_calloc(1, sizeof(*self));

    self->bytes = cadre_calloc(CADRE_BENCH_RAW_CHUNK_MAX, 1);
    self->context = zmq_ctx_new();
    self->socket = zmq_socket(self->context, ZMQ_DEALER);
    if (!set_options(self->socket) || zmq_bind(self->socket, address) < 0 ||
        zmq_getsockopt(self->socket, ZMQ_LAST_ENDPOINT, bound, &size) < 0) {
        return broken("bind");
    }
    int status = cadre_bench_process_start("cadre-bench", arguments, bench->verbose, &self->peer);
    if (status < 0) {
        return status;
    }

    *out = self;
    self = NULL;
    return 0;
}

void
cadre_bench_raw_close(cadre_bench_raw_t **self_p)
{
    cadre_bench_raw_t *self = *self_p;
    if (self) {
        cadre_bench_process_end(&self->peer, 0);
        zmq_close(self->socket);
        zmq_ctx_term(self->context);
        free(self->bytes);
        cadre_free(self_p);
    }
}

static int
ask(cadre_bench_raw_t *self, const cadre_bench_exchange_t *exchange, bool answered)
{
    char header[256] = {0};
    const order_t order = {answered && exchange->reply_header_size == 0
                               ? CADRE_BENCH_RAW_HEADER_MIN
                               : exchange->reply_header_size,
                           exchange->reply_chunk_size, exchange->reply_chunk_count};

    cadre_assert(exchange->header_size >= sizeof(order) && exchange->header_size <= sizeof(header));
    memcpy(header, &order, sizeof(order));
    int more = exchange->chunk_count > 0 ? ZMQ_SNDMORE : 0;
    if (zmq_send(self->socket, header, exchange->header_size, more) < 0) {
        return broken("send");
    }

    return send_chunks(self->socket, self->bytes, exchange->chunk_size, exchange->chunk_count);
}

static int
take_reply(cadre_bench_raw_t *self)
{
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    int status = zmq_msg_recv(&frame, self->socket, 0) < 0 ? broken("receive") : 0;
    status = status < 0 ? status : drop_rest(self->socket, &frame);
    zmq_msg_close(&frame);
    return status;
}

int
cadre_bench_raw_run(cadre_bench_raw_t *self, const cadre_bench_exchange_t *exchange, size_t count,
                    size_t window, double *seconds)
{
    bool one_way = exchange->reply_header_size == 0;
    size_t unanswered = 0;
    int status = 0;
    double begin = cadre_bench_now();

    for (size_t i = 0; i < count && status == 0; i++) {
        bool answered = !one_way || i + 1 == count;
        status = ask(self, exchange, answered);
        unanswered += answered;
        while (status == 0 && unanswered > 0 && (unanswered >= window || i + 1 == count)) {
            status = take_reply(self);
            unanswered--;
        }
    }

    *seconds = cadre_bench_now() - begin;
    return status;
}
