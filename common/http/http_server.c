#include "common/http/http_server.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/http/http_address.h"
#include "common/net/greetings.h"
#include "common/net/receiving.h"
#include "common/system/clock.h"

enum { LINE_SIZE = CADRE_HTTP_WORDS_SIZE + 64 };

/* The answers of /metrics and /readyz; never changed once published, freed by its last holder. */
typedef struct {
    atomic_uint holders;
    char *metrics;
    size_t size_bytes;
    char unready[CADRE_HTTP_WORDS_SIZE];
} page_t;

typedef struct {
    int descriptor; /* 0: none */
    int64_t since_ms;
    uint64_t address; /* hash of its address (cadre_greetings_hash) */
    bool is_ended;
} client_t;

struct cadre_http_server {
    struct MHD_Daemon *daemon;
    int listener;
    char address[CADRE_HTTP_ADDRESS_SIZE];
    const char *actors[CADRE_HTTP_ACTORS_MAX];
    size_t actor_count;
    atomic_int_fast64_t turned_ms[CADRE_HTTP_ACTORS_MAX];
    pthread_mutex_t lock; /* guards the next two fields */
    page_t *page;
    client_t clients[CADRE_HTTP_CONNECTIONS_MAX];
    int64_t published_ms; /* used, like the next field, by the publishing thread only */
    char unready[CADRE_HTTP_WORDS_SIZE];
};

/* --- pages --- */

/* Gives up one hold on a page, and frees it with the last. Also the callback of libmicrohttpd for a
 * response that has been sent. */
static void
unref(void *pointer)
{
    page_t *page = pointer;
    if (atomic_fetch_sub(&page->holders, 1) == 1) {
        free(page->metrics);
        free(page);
    }
}

/* Returns the published page, held for the caller until it calls unref. The lock keeps set_page
 * from freeing the page before it is held. */
static page_t *
ref_page(cadre_http_server_t *self)
{
    pthread_mutex_lock(&self->lock);
    page_t *page = self->page;
    atomic_fetch_add(&page->holders, 1);
    pthread_mutex_unlock(&self->lock);
    return page;
}

/* Publishes a page in place of the last one, which answers that are being sent may still hold. */
static void
set_page(cadre_http_server_t *self, page_t *page)
{
    pthread_mutex_lock(&self->lock);
    page_t *before = self->page;
    self->page = page;
    pthread_mutex_unlock(&self->lock);
    if (before) {
        unref(before);
    }
}

/* Makes a page, which its maker holds; takes the text of `metrics`. */
static page_t *
new_page(cadre_metrics_text_t *metrics, const char *unready)
{
    page_t *page = cadre_calloc(1, sizeof(*page));
    atomic_init(&page->holders, 1);
    page->metrics = cadre_metrics_text_take(metrics, &page->size_bytes);
    snprintf(page->unready, sizeof(page->unready), "%s", unready);
    return page;
}

/* --- connections --- */

/* Called under the lock. Shuts a client's connection down; libmicrohttpd then finds it closed, and
 * calls on_connection before it closes the descriptor. */
static void
end_client(client_t *client)
{
    client->is_ended = true;
    shutdown(client->descriptor, SHUT_RDWR);
}

/* Returns how many connections the address of the client `of` has, without those that were ended.
 */
static size_t
count_of(const cadre_http_server_t *self, const client_t *of)
{
    size_t count = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(self->clients); i++) {
        const client_t *client = &self->clients[i];
        count += client->descriptor > 0 && !client->is_ended && client->address == of->address;
    }
    return count;
}

/* Called under the lock. Where there are more connections than CADRE_HTTP_CROWD, ends the oldest
 * one of the address that has the most. */
static void
thin_out(cadre_http_server_t *self)
{
    client_t *chosen = NULL;
    size_t chosen_count = 0;
    size_t total = 0;

    for (size_t i = 0; i < CADRE_COUNT_OF(self->clients); i++) {
        client_t *client = &self->clients[i];
        if (client->descriptor == 0 || client->is_ended) {
            continue;
        }
        size_t count = count_of(self, client);
        total++;
        if (!chosen || count > chosen_count ||
            (count == chosen_count && client->since_ms < chosen->since_ms)) {
            chosen = client;
            chosen_count = count;
        }
    }

    if (total > CADRE_HTTP_CROWD) {
        end_client(chosen);
    }
}

/* Called by libmicrohttpd when a connection begins or ends: keeps `clients`, the list of
 * connections, up to date. */
static void
on_connection(void *context, struct MHD_Connection *connection, void **kept,
              enum MHD_ConnectionNotificationCode code)
{
    cadre_http_server_t *self = context;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *from =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    (void)kept;
    if (!info) {
        return;
    }

    bool begins = code == MHD_CONNECTION_NOTIFY_STARTED;
    /* A connection that begins takes a free place; one that ends frees its own. */
    int wanted = begins ? 0 : info->connect_fd;

    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < CADRE_COUNT_OF(self->clients); i++) {
        if (self->clients[i].descriptor == wanted) {
            self->clients[i] =
                (client_t){.descriptor = begins ? info->connect_fd : 0,
                           .since_ms = cadre_clock_now_ms(),
                           .address = from ? cadre_greetings_hash(from->client_addr) : 0};
            break;
        }
    }

    if (begins) {
        thin_out(self);
    }

    pthread_mutex_unlock(&self->lock);
}

/* Ends connections that take too long: libmicrohttpd's timeout ends only those that bring no bytes
 * at all. */
static void
end_long_ones(cadre_http_server_t *self, int64_t now_ms)
{
    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < CADRE_COUNT_OF(self->clients); i++) {
        client_t *client = &self->clients[i];
        if (client->descriptor > 0 && now_ms - client->since_ms > CADRE_HTTP_CONNECTION_MS) {
            end_client(client);
        }
    }
    pthread_mutex_unlock(&self->lock);
}

/* --- publishing --- */

/* Returns whether it is time to publish a page: an interval after the last one, or at once when the
 * reason for not being ready has changed. */
bool
cadre_http_server_is_due(const cadre_http_server_t *self, const char *unready, int64_t now_ms)
{
    /* The kept text is cut to its size: only as much is compared. */
    return now_ms >= self->published_ms + CADRE_HTTP_PUBLISH_MS ||
           strncmp(unready, self->unready, sizeof(self->unready) - 1) != 0;
}

/* Publishes what /metrics and /readyz answer from now on, and ends connections that have lasted too
 * long. */
void
cadre_http_server_publish(cadre_http_server_t *self, cadre_metrics_text_t *metrics,
                          const char *unready, int64_t now_ms)
{
    page_t *page = new_page(metrics, unready);
    memcpy(self->unready, page->unready, sizeof(self->unready));
    self->published_ms = now_ms;
    set_page(self, page);
    end_long_ones(self, now_ms);
}

void
cadre_http_server_turned(cadre_http_server_t *self, size_t actor, int64_t now_ms)
{
    cadre_assert(actor < self->actor_count);
    atomic_store_explicit(&self->turned_ms[actor], now_ms, memory_order_relaxed);
}

/* --- answers --- */

/* Queues a response (NULL: it could not be made) and gives up the caller's hold on it. MHD_NO has
 * libmicrohttpd close the connection. */
static enum MHD_Result
answer_with(struct MHD_Connection *connection, unsigned code, struct MHD_Response *response)
{
    if (!response) {
        return MHD_NO;
    }

    MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }

    enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

/* Answers with one line of text. */
static enum MHD_Result
answer(struct MHD_Connection *connection, unsigned code, const char *words)
{
    char line[LINE_SIZE];
    /* Room for the newline and the 0. */
    int size = snprintf(line, sizeof(line), "%.*s\n", LINE_SIZE - 2, words);
    struct MHD_Response *response =
        MHD_create_response_from_buffer((size_t)size, line, MHD_RESPMEM_MUST_COPY);
    if (response) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                "text/plain; charset=utf-8");
    }
    return answer_with(connection, code, response);
}

/* Answers /livez: whether each actor has taken a turn lately. */
static enum MHD_Result
answer_live(cadre_http_server_t *self, struct MHD_Connection *connection)
{
    int64_t now_ms = cadre_clock_now_ms();
    for (size_t i = 0; i < self->actor_count; i++) {
        int64_t age_ms = now_ms - atomic_load_explicit(&self->turned_ms[i], memory_order_relaxed);
        if (age_ms > CADRE_HTTP_ALIVE_MS) {
            char words[CADRE_HTTP_WORDS_SIZE];
            snprintf(words, sizeof(words), "the %s has taken no turn for %lld s", self->actors[i],
                     (long long)age_ms / 1000);
            return answer(connection, MHD_HTTP_SERVICE_UNAVAILABLE, words);
        }
    }

    return answer(connection, MHD_HTTP_OK, "alive");
}

/* Answers /readyz: "ready", or 503 and the published reason why the process cannot do its work. */
static enum MHD_Result
answer_ready(cadre_http_server_t *self, struct MHD_Connection *connection)
{
    page_t *page = ref_page(self);
    enum MHD_Result result = page->unready[0]
                                 ? answer(connection, MHD_HTTP_SERVICE_UNAVAILABLE, page->unready)
                                 : answer(connection, MHD_HTTP_OK, "ready");
    unref(page);
    return result;
}

/* Answers /metrics with the published text. The response holds the page, and unref is called when
 * it has been sent. */
static enum MHD_Result
answer_metrics(cadre_http_server_t *self, struct MHD_Connection *connection)
{
    page_t *page = ref_page(self);
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
        page->size_bytes, page->metrics, unref, page);
    if (!response) {
        unref(page);
        return MHD_NO;
    }

    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                            "text/plain; version=0.0.4; charset=utf-8");
    return answer_with(connection, MHD_HTTP_OK, response);
}

/* Answers a request. Its body is not read: the answer is queued before it comes, and the connection
 * ends. */
static enum MHD_Result
handle(void *context, struct MHD_Connection *connection, const char *path, const char *method,
       const char *version, const char *body, size_t *body_size, void **request)
{
    cadre_http_server_t *self = context;
    (void)version;
    (void)body;
    (void)body_size;
    (void)request;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only");
    }
    if (strcmp(path, "/livez") == 0) {
        return answer_live(self, connection);
    }
    if (strcmp(path, "/readyz") == 0) {
        return answer_ready(self, connection);
    }
    if (strcmp(path, "/metrics") == 0) {
        return answer_metrics(self, connection);
    }

    return answer(connection, MHD_HTTP_NOT_FOUND, "there are /livez, /readyz and /metrics");
}

/* --- opening --- */

/* Resolves host and port to addresses of this machine; freed with freeaddrinfo. */
static int
resolve(const cadre_endpoint_t *endpoint, struct addrinfo **out)
{
    bool any = strcmp(endpoint->host, "*") == 0;
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    char port[8];
    snprintf(port, sizeof(port), "%u", endpoint->port);
    int error = getaddrinfo(any ? NULL : endpoint->host, port, &hints, out);
    return error ? cadre_fail(CADRE_EUNAVAILABLE, "%s: %s", endpoint->host, gai_strerror(error))
                 : 0;
}

/* Returns a socket that listens on the address `at`; -1, with errno, on failure. */
static int
listen_on(const struct addrinfo *at)
{
    const int on = 1;
    const int off = 0;
    int listener = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0) {
        return -1;
    }

    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (at->ai_family == AF_INET6) {
        /* Host "*": one socket for IPv6 and IPv4. */
        setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }

    if (bind(listener, at->ai_addr, at->ai_addrlen) < 0 ||
        listen(listener, CADRE_HTTP_CONNECTIONS_MAX) < 0) {
        int error = errno;
        close(listener);
        errno = error;
        return -1;
    }

    return listener;
}

/* Returns the first address of a family in a list of addresses, or NULL. */
static const struct addrinfo *
next_of(const struct addrinfo *list, int family)
{
    while (list && list->ai_family != family) {
        list = list->ai_next;
    }
    return list;
}

/* Writes the address that the listener has into `address`, with the port that the system chose
 * where 0 was asked for. */
static void
name_address(cadre_http_server_t *self)
{
    struct sockaddr_storage bound = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof(bound);
    char host[CADRE_HOST_SIZE_MAX + 1] = "?";
    char port[8] = "?";
    getsockname(self->listener, (struct sockaddr *)&bound, &size);
    getnameinfo((struct sockaddr *)&bound, size, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(self->address, sizeof(self->address), strchr(host, ':') ? "[%s]:%s" : "%s:%s", host,
             port);
}

/* Binds the listener. "*" means IPv6 and IPv4 together if the machine has both, else the one that
 * it has. */
static int
bind_address(cadre_http_server_t *self, const char *text)
{
    cadre_endpoint_t endpoint;
    struct addrinfo *list = NULL;
    int status = cadre_http_address_parse(text, &endpoint);
    if (status < 0) {
        return status;
    }

    status = resolve(&endpoint, &list);
    if (status < 0) {
        return status;
    }

    /* "*" is one IPv6 socket for both families, or IPv4 alone where the kernel has no IPv6. */
    const struct addrinfo *six = next_of(list, AF_INET6);
    const struct addrinfo *four = next_of(list, AF_INET);
    bool any = strcmp(endpoint.host, "*") == 0;
    const struct addrinfo *first = any && six ? six : list;
    self->listener = first ? listen_on(first) : -1;
    if (self->listener < 0 && any && four && errno == EAFNOSUPPORT) {
        self->listener = listen_on(four);
    }

    int error = errno;
    freeaddrinfo(list);
    if (self->listener < 0) {
        return cadre_fail(error == EMFILE ? CADRE_EIO : CADRE_EUNAVAILABLE,
                          "%s cannot be listened on: %s", text, strerror(error));
    }

    name_address(self);
    return 0;
}

/* Starts libmicrohttpd's thread with all signals blocked: signals are for the main thread. */
static int
start(cadre_http_server_t *self)
{
    sigset_t all;
    sigset_t before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    /* 0: the listener has its port already. NULL, NULL: no function decides whom to accept. */
    self->daemon = MHD_start_daemon(
        MHD_USE_AUTO_INTERNAL_THREAD, 0, NULL, NULL, handle, self, MHD_OPTION_LISTEN_SOCKET,
        self->listener, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CADRE_HTTP_CONNECTIONS_MAX,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)CADRE_HTTP_CONNECTIONS_PER_ADDRESS_MAX,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, self, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)CADRE_HTTP_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CADRE_HTTP_REQUEST_SIZE_MAX, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return self->daemon ? 0 : cadre_fail(CADRE_EIO, "no HTTP server can be started");
}

/* Opens an HTTP server for the status of this process; it answers at once, as not ready
 * ("starting"). */
int
cadre_http_server_open(const char *address, const char *const *actors, size_t actor_count,
                       cadre_http_server_t **out)
{
    cadre_auto(cadre_http_server_close) cadre_http_server_t *self = cadre_calloc(1, sizeof(*self));
    cadre_metrics_text_t nothing = {.bytes = NULL};

    cadre_assert(actor_count <= CADRE_HTTP_ACTORS_MAX);
    pthread_mutex_init(&self->lock, NULL);
    self->listener = -1;
    self->actor_count = actor_count;
    for (size_t i = 0; i < actor_count; i++) {
        self->actors[i] = actors[i];
        atomic_init(&self->turned_ms[i], cadre_clock_now_ms());
    }

    cadre_http_server_publish(self, &nothing, "starting", 0);
    int status = bind_address(self, address);
    if (status < 0) {
        return status;
    }

    /* Exempts this listener from the checks on ZeroMQ connections: it speaks HTTP. */
    cadre_receiving_pass(self->listener);
    status = start(self);
    if (status < 0) {
        return status;
    }

    *out = self;
    self = NULL;
    return 0;
}

/* Ends the server's thread and closes all connections; *self_p may be NULL. */
void
cadre_http_server_close(cadre_http_server_t **self_p)
{
    cadre_http_server_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    if (self->listener >= 0) {
        /* Ends the exemption from the checks on ZeroMQ connections: the descriptor's number may be
         * another listener's from now on. */
        cadre_receiving_pass(-1);
    }

    if (self->daemon) {
        MHD_stop_daemon(self->daemon); /* closes the listener, too */
    } else if (self->listener >= 0) {
        close(self->listener);
    }

    unref(self->page);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

const char *
cadre_http_server_address(const cadre_http_server_t *self)
{
    return self->address;
}
