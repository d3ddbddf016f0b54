#include "common/net/authenticator.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/keys/peer_key.h"
#include "common/net/actor.h"
#include "common/net/connections.h"
#include "common/net/stranger.h"
#include "common/system/clock.h"
#include "common/system/poll.h"

static const char ZAP_ENDPOINT[] = "inproc://zeromq.zap.01";

enum {
    KEY_SIZE = 32,
    ADDRESS_SIZE = 64,
    FIELD_SIZE = 256, /* most bytes of a field of a ZAP request; libzmq's are shorter */
    PAIRS_SIZE = 640,
};

/* How many log lines of one event were written in the present window, and how many were left out.
 */
typedef struct {
    int count;
    uint64_t unsaid;
} lines_t;

struct cadre_authenticator {
    cadre_keyring_t *keyring;
    cadre_audit_t audit;
    void *audit_context;
    void *handler; /* a REP socket, over which libzmq asks about each connection (ZAP) */
    cadre_actor_t *actor;
    int64_t window_ms; /* when the next window of log lines begins */
    lines_t accepted;  /* lines of accepted connections in this window */
    /* Lines of refused connections: counted apart, so that refused strangers hide no accepted peer.
     */
    lines_t refused;
    bool must_end;           /* all connections must still be closed, as a key was withdrawn */
    int64_t must_end_log_ms; /* when the log may say again that closing the connections failed */
    /* Key with which cadre_authenticator_check connects; never changed while the actor runs. */
    cadre_certificate_t stranger;
};

const char *
cadre_zap_domain(cadre_plane_t plane)
{
    return plane == CADRE_PLANE_CONTROL ? "cadre.control" : "cadre.data";
}

/* --- logging --- */

static void CADRE_PRINTF(4, 5)
    tell(cadre_authenticator_t *self, char level, const char *event, const char *format, ...)
{
    char pairs[PAIRS_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(pairs, sizeof(pairs), format, arguments);
    va_end(arguments);
    self->audit(self->audit_context, level, event, pairs);
}

/* Returns whether another line about a connection may be logged in this window; counts those that
 * may not. Strangers must not fill the disk. */
static bool
may_tell(lines_t *lines)
{
    if (lines->count < CADRE_AUDIT_LINES_MAX) {
        lines->count++;
        return true;
    }
    lines->unsaid++;
    return false;
}

/* Begins a window for the log lines of one event; first logs how many lines of the last window were
 * left out. */
static void
begin_lines(cadre_authenticator_t *self, lines_t *lines, const char *event)
{
    if (lines->unsaid > 0) {
        tell(self, 'W', "audit_suppressed",
             "event=%s count=%" PRIu64 " why=\"over %d connections a second\"", event,
             lines->unsaid, CADRE_AUDIT_LINES_MAX);
    }
    *lines = (lines_t){0};
}

/* Begins the next window of log lines when its time has come. */
static void
open_window(cadre_authenticator_t *self, int64_t now_ms)
{
    if (now_ms < self->window_ms) {
        return;
    }
    begin_lines(self, &self->accepted, "key_accepted");
    begin_lines(self, &self->refused, "key_refused");
    self->window_ms = now_ms + CADRE_AUDIT_WINDOW_MS;
}

/* --- who may connect --- */

/* Returns whether a role may connect to a socket of this plane (`domain`) at all. Which messages it
 * may send there is decided by the table of rights. */
static bool
has_business(cadre_key_role_t role, const char *domain)
{
    bool control = strcmp(domain, cadre_zap_domain(CADRE_PLANE_CONTROL)) == 0;
    bool data = strcmp(domain, cadre_zap_domain(CADRE_PLANE_DATA)) == 0;
    switch (role) {
    case CADRE_KEY_COORDINATOR:
        return data;
    case CADRE_KEY_PS:
    case CADRE_KEY_CLIENT:
        return control;
    case CADRE_KEY_WORKER:
        return control || data;
    case CADRE_KEY_ROLES:
        break;
    }

    return false;
}

typedef struct {
    char version[FIELD_SIZE];
    char request[FIELD_SIZE];
    char domain[FIELD_SIZE];
    char address[FIELD_SIZE];
    char mechanism[FIELD_SIZE];
    char key[CADRE_KEY_TEXT_SIZE]; /* "": none */
} request_t;

/* Receives one frame as text, truncated to `size`; false when there is none. */
static bool
take_text(void *handler, char *text, size_t size)
{
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    bool ok = zmq_msg_recv(&frame, handler, ZMQ_DONTWAIT) >= 0;
    size_t length = ok ? cadre_min_u64(zmq_msg_size(&frame), size - 1) : 0;
    memcpy(text, zmq_msg_data(&frame), length);
    text[length] = '\0';
    zmq_msg_close(&frame);
    return ok;
}

static bool
has_more(void *handler)
{
    int more = 0;
    size_t size = sizeof(more);
    return zmq_getsockopt(handler, ZMQ_RCVMORE, &more, &size) == 0 && more;
}

/* Receives one whole ZAP request (ZeroMQ RFC 27): version, request id, domain, address, routing id,
 * mechanism, and the credentials, of CURVE the client's key. Returns false when there is none. */
static bool
take_request(void *handler, request_t *out)
{
    char routing_id[FIELD_SIZE];
    uint8_t key[FIELD_SIZE] = {0};
    char *const fields[] = {out->request, out->domain, out->address, routing_id, out->mechanism};
    *out = (request_t){.key = ""};
    if (!take_text(handler, out->version, FIELD_SIZE)) {
        return false;
    }

    for (size_t i = 0; i < CADRE_COUNT_OF(fields) && has_more(handler); i++) {
        take_text(handler, fields[i], FIELD_SIZE);
    }

    /* Whatever follows is received too, so that the next request begins with its first frame. */
    for (int i = 0; has_more(handler); i++) {
        int size = zmq_recv(handler, key, sizeof(key), ZMQ_DONTWAIT);
        if (i == 0 && size == KEY_SIZE && strcmp(out->mechanism, "CURVE") == 0) {
            zmq_z85_encode(out->key, key, KEY_SIZE);
        }
    }

    return true;
}

/* Answers a ZAP request: status code and text, and the user id that libzmq attaches to each message
 * of the connection. */
static void
answer(void *handler, const request_t *request, const char *code, const char *text,
       const char *user)
{
    const char *const frames[] = {"1.0", request->request, code, text, user, ""};
    for (size_t i = 0; i < CADRE_COUNT_OF(frames); i++) {
        bool last = i + 1 == CADRE_COUNT_OF(frames);
        zmq_send(handler, frames[i], strlen(frames[i]), last ? 0 : ZMQ_SNDMORE);
    }
}

/* Refuses a connection, and logs why; but not the stranger by which this process checks its own
 * sockets. */
static void
refuse(cadre_authenticator_t *self, const request_t *request, const char *why)
{
    answer(self->handler, request, "400", "refused", "");
    if (strcmp(request->key, self->stranger.public_key) != 0 && may_tell(&self->refused)) {
        tell(self, 'W', "key_refused", "address=\"%.64s\" domain=%.32s key=\"%s\" why=\"%s\"",
             request->address, request->domain, request->key, why);
    }
}

/* Answers a ZAP request: accepts a key that is allowed and whose role may connect to the socket
 * (`domain` says on which plane the socket is). */
static void
decide(cadre_authenticator_t *self, const request_t *request)
{
    cadre_certificate_t certificate;
    char user[CADRE_PEER_KEY_TEXT_SIZE];

    if (request->key[0] == '\0') {
        refuse(self, request, "it shows no key");
    } else if (!cadre_keyring_find(self->keyring, request->key, &certificate)) {
        refuse(self, request, "its key is not allowed");
    } else if (!has_business(certificate.role, request->domain)) {
        refuse(self, request, "its role has no business here");
    } else {
        cadre_peer_key_t key = cadre_peer_key_of(&certificate);
        answer(self->handler, request, "200", "OK", cadre_peer_key_text(&key, user));
        if (may_tell(&self->accepted)) {
            tell(self, 'I', "key_accepted",
                 "address=\"%.64s\" domain=%.32s role=%s name=\"%s\" key=\"%s\" key_id=%016" PRIx64,
                 request->address, request->domain, cadre_key_role_text(certificate.role),
                 certificate.name, certificate.public_key, key.id);
        }
    }
}

/* --- the actor --- */

/* Reads the files of keys again, and closes all connections if a key was withdrawn: which
 * connection has which key is not known. Tries again at the next look if closing fails. */
static void
look(cadre_authenticator_t *self, int64_t now_ms)
{
    uint16_t ports[CADRE_KEYRING_PORTS_MAX];
    size_t withdrawn = cadre_keyring_look(self->keyring, now_ms, self->audit, self->audit_context);

    self->must_end = self->must_end || withdrawn > 0;
    if (self->must_end) {
        size_t count = cadre_keyring_ports(self->keyring, ports);
        self->must_end = cadre_connections_end(ports, count) < 0;
        if (self->must_end && now_ms >= self->must_end_log_ms) {
            self->must_end_log_ms = now_ms + CADRE_KEYS_UNREADABLE_LOG_MS;
            tell(self, 'E', "disconnect_failed", "why=\"%.200s\" next=\"tried again\"",
                 cadre_error_text());
        }
    }
}

/* The authenticator's thread: answers ZAP requests, and looks at the keys every
 * CADRE_KEYS_LOOK_MS. */
static void
run(void *pipe, void *argument)
{
    cadre_authenticator_t *self = argument;
    int64_t look_ms = 0;
    bool stopped = false;
    while (!stopped) {
        int64_t now_ms = cadre_clock_now_ms();
        open_window(self, now_ms); /* the log has at most some lines per window */
        if (now_ms >= look_ms) {
            look(self, now_ms);
            look_ms = now_ms + CADRE_KEYS_LOOK_MS;
        }

        zmq_pollitem_t items[] = {{.socket = pipe, .events = ZMQ_POLLIN},
                                  {.socket = self->handler, .events = ZMQ_POLLIN}};
        int64_t left_ms = look_ms - cadre_clock_now_ms();
        cadre_poll(items, 2, left_ms > 0 ? (long)left_ms : 0);
        request_t request;
        if (take_request(self->handler, &request)) {
            decide(self, &request);
        }

        cadre_pipe_message_t message;
        /* Nothing comes over this pipe but CADRE_PIPE_STOP or its end, and both end the thread. */
        stopped = cadre_pipe_receive(pipe, &message) != CADRE_EAGAIN;
    }

    zmq_close(self->handler);
}

/* Frees an authenticator whose thread has not started; a running thread closes the handler. */
static void
discard(cadre_authenticator_t **self_p)
{
    cadre_authenticator_t *self = *self_p;
    if (!self) {
        return;
    }

    if (self->handler) {
        zmq_close(self->handler);
    }
    cadre_certificate_fini(&self->stranger);
    free(self);
}

/* Starts the ZAP handler of a context: the thread that decides which keys may connect to sockets
 * that are bound there. */
int
cadre_authenticator_open(cadre_context_t *context, cadre_audit_t audit, void *audit_context,
                         cadre_authenticator_t **out)
{
    cadre_auto(discard) cadre_authenticator_t *self = cadre_calloc(1, sizeof(*self));
    self->keyring = cadre_context_keyring(context);
    self->audit = audit;
    self->audit_context = audit_context;
    int status = cadre_certificate_make(CADRE_KEY_CLIENT, "self-check", &self->stranger);
    if (status < 0) {
        return status;
    }

    int linger = 0;
    self->handler = zmq_socket(cadre_context_handle(context), ZMQ_REP);
    if (!self->handler || zmq_setsockopt(self->handler, ZMQ_LINGER, &linger, sizeof(linger)) < 0 ||
        zmq_bind(self->handler, ZAP_ENDPOINT) < 0) {
        return cadre_fail(CADRE_EIO, "no ZAP handler: %s", zmq_strerror(errno));
    }

    status = cadre_actor_open(context, "cadre-zap", run, self, &self->actor);
    if (status < 0) {
        return status;
    }

    *out = self;
    self = NULL;
    return 0;
}

/* Ends the thread and frees the authenticator; CADRE_ETIMEOUT when the thread has not ended. */
int
cadre_authenticator_close(cadre_authenticator_t **self_p, int timeout_ms)
{
    cadre_authenticator_t *self = *self_p;
    int status = self ? cadre_actor_stop(&self->actor, timeout_ms) : 0;
    if (self && status == 0) {
        *self_p = NULL;
        cadre_certificate_fini(&self->stranger);
        free(self);
    }
    return status;
}

/* Checks that the bound socket refuses two strangers: one without keys, and one with a key that is
 * not allowed. */
int
cadre_authenticator_check(cadre_authenticator_t *self, const cadre_endpoint_t *bound)
{
    const char *server = cadre_keyring_own(self->keyring)->public_key;
    int status = cadre_stranger_check(bound, NULL, NULL, CADRE_SELF_CHECK_MS);
    if (status < 0) {
        return status;
    }
    return cadre_stranger_check(bound, server, &self->stranger, CADRE_SELF_CHECK_MS);
}
