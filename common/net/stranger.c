#include "common/net/stranger.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "common/base/status.h"
#include "common/system/clock.h"

static const char MONITOR[] = "inproc://stranger";

enum {
    WATCHED = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
              ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL,
    ZAP_REFUSED = 400,
    PAUSE_MS = 20, /* pause before the next try */
};

typedef struct {
    int kind;
    uint32_t value;
} event_t;

/* Writes the address at which a process reaches its own bound socket: the loopback address if the
 * socket is bound to all interfaces, as it is for a host name too (cadre_socket_bind). */
static void
address_text(const cadre_endpoint_t *bound, char *text)
{
    cadre_endpoint_t at = *bound;
    if (!cadre_endpoint_is_concrete(&at) || cadre_endpoint_is_name(&at)) {
        snprintf(at.host, sizeof(at.host), "%s", strchr(at.host, ':') ? "::1" : "127.0.0.1");
    }
    cadre_endpoint_text(&at, text);
}

/* Returns the next event of a monitor within `left_ms`; of kind 0 when none comes. */
static event_t
next_event(void *monitor, long left_ms)
{
    event_t result = {0};
    zmq_pollitem_t item = {.socket = monitor, .events = ZMQ_POLLIN};
    uint8_t bytes[6] = {0};
    uint16_t event = 0;
    char address[CADRE_ENDPOINT_TEXT_SIZE];

    if (zmq_poll(&item, 1, left_ms) <= 0 || zmq_recv(monitor, bytes, sizeof(bytes), 0) < 0) {
        return result;
    }

    zmq_recv(monitor, address, sizeof(address), 0);
    memcpy(&event, bytes, sizeof(event));
    memcpy(&result.value, bytes + sizeof(event), sizeof(result.value));
    result.kind = event;
    return result;
}

/* Returns whether the event is the answer of a socket with keys to a stranger: a stranger without
 * keys learns that the socket speaks CURVE, one with a key pair that the ZAP handler refuses it. A
 * connection that just closes proves nothing: both ends see a mismatch, and the first to see it
 * closes. */
static bool
is_refusal(const event_t *event, bool has_pair)
{
    return has_pair ? event->kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH && event->value == ZAP_REFUSED
                    : event->kind == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL &&
                          event->value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH;
}

/* Watches a stranger's connection. Returns 0 when it is refused, CADRE_EAGAIN when it ended without
 * a reason, CADRE_EREFUSED when it is let in. */
static int
watch(void *monitor, const char *address, bool has_pair, int64_t deadline_ms)
{
    for (int64_t now_ms = cadre_clock_now_ms(); now_ms < deadline_ms;
         now_ms = cadre_clock_now_ms()) {
        event_t event = next_event(monitor, (long)(deadline_ms - now_ms));
        if (event.kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
            return cadre_fail(CADRE_EREFUSED, "%s lets strangers in", address);
        }
        if (is_refusal(&event, has_pair)) {
            return 0;
        }
        if (event.kind != 0) {
            return CADRE_EAGAIN;
        }
    }

    return CADRE_EAGAIN;
}

/* Prepares the stranger's socket: its keys, if it has any, and a monitor of its handshakes. False
 * on failure, with errno. */
static bool
set_up(void *socket, const char *server_key, const cadre_certificate_t *pair)
{
    int linger = 0;
    bool ok = zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger)) == 0;
    if (ok && server_key) {
        ok =
            zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server_key, CADRE_KEY_TEXT_SIZE) == 0 &&
            zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, pair->public_key, CADRE_KEY_TEXT_SIZE) ==
                0 &&
            zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, pair->secret_key, CADRE_KEY_TEXT_SIZE) == 0;
    }

    return ok && zmq_socket_monitor(socket, MONITOR, WATCHED) == 0;
}

/* Connects as a stranger, with `pair` or without keys, over a ZeroMQ context of its own, and
 * watches what becomes of the connection. */
static int
try_once(const char *address, const char *server_key, const cadre_certificate_t *pair,
         int64_t deadline_ms)
{
    void *context = zmq_ctx_new();
    void *socket = context ? zmq_socket(context, ZMQ_DEALER) : NULL;
    void *monitor = socket ? zmq_socket(context, ZMQ_PAIR) : NULL;
    int v6 = strchr(address, '[') != NULL;
    int status = 0;
    if (!monitor || !set_up(socket, server_key, pair) || zmq_connect(monitor, MONITOR) < 0 ||
        zmq_setsockopt(socket, ZMQ_IPV6, &v6, sizeof(v6)) < 0 || zmq_connect(socket, address) < 0) {
        status = cadre_fail(CADRE_EIO, "%s cannot be tried: %s", address, zmq_strerror(errno));
    } else {
        status = watch(monitor, address, server_key != NULL, deadline_ms);
    }

    if (monitor) {
        zmq_close(monitor);
    }
    if (socket) {
        zmq_close(socket);
    }
    if (context) {
        zmq_ctx_term(context);
    }

    return status;
}

/* Tests that the bound address refuses a stranger: without keys (`server_key` NULL), or with the
 * keys `pair`, which are not allowed. Tries again until a connection is refused with a reason or
 * let in. */
int
cadre_stranger_check(const cadre_endpoint_t *bound, const char *server_key,
                     const cadre_certificate_t *pair, int timeout_ms)
{
    char address[CADRE_ENDPOINT_TEXT_SIZE];
    int64_t deadline_ms = cadre_clock_now_ms() + timeout_ms;
    int status = CADRE_EAGAIN;

    address_text(bound, address);
    while (status == CADRE_EAGAIN && cadre_clock_now_ms() < deadline_ms) {
        status = try_once(address, server_key, pair, deadline_ms);
        if (status == CADRE_EAGAIN) {
            zmq_poll(NULL, 0, PAUSE_MS);
        }
    }

    if (status == CADRE_EAGAIN) {
        return cadre_fail(CADRE_ETIMEOUT,
                          "%s has neither refused a stranger nor let one in within %d s", address,
                          timeout_ms / 1000);
    }

    return status;
}
