#include "tests/chaos/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/system/clock.h"
#include "tests/system/scratch.h"

enum {
    RULES_MAX = 128,
    BACKLOG = 64,
    TURN_MS = 1000,
};

typedef enum {
    ORDER_LINK,
    ORDER_RULE,
    ORDER_HEAL,
    ORDER_RESET,
    ORDER_HALF_OPEN,
    ORDER_CONNECTIONS,
    ORDER_BYTES,
    ORDER_STOP,
} order_kind_t;

typedef struct {
    order_kind_t kind;
    int link;
    int fd; /* ORDER_LINK: it listens */
    pid_t peer;
    proxy_direction_t direction;
    stream_rule_t rule;
    cadre_endpoint_t target;
} order_t;

typedef struct {
    int fd;
    cadre_endpoint_t target;
    uint64_t bytes;
} link_t;

typedef struct {
    int link;
    pid_t peer;
    stream_rule_t rules[2]; /* up, down */
} rule_t;

typedef struct {
    int link;
    pid_t peer;
    int client;    /* -1 once that side was closed */
    int server;    /* -1 until there is a connection to the target */
    bool dead_end; /* half open: nothing passes any more */
    stream_t up;
    stream_t down;
} connection_t;

struct proxy {
    pthread_t thread;
    int orders[2]; /* the caller's end, the thread's */
    /* The thread's. */
    link_t links[PROXY_LINKS_MAX];
    int link_count;
    rule_t rules[RULES_MAX];
    int rule_count;
    connection_t *connections[PROXY_CONNECTIONS_MAX];
    int connection_count;
};

static const stream_rule_t free_pass = {.stalled = false};
static const stream_rule_t closed_off = {.stalled = true};

/* --- addresses --- */

typedef union {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_un un;
} address_t;

static socklen_t
make_address(const cadre_endpoint_t *endpoint, address_t *address)
{
    memset(address, 0, sizeof(*address));
    if (endpoint->kind == CADRE_ENDPOINT_IPC) {
        address->un.sun_family = AF_UNIX;
        snprintf(address->un.sun_path, sizeof(address->un.sun_path), "%s", endpoint->path);
        return sizeof(address->un);
    }
    address->in.sin_family = AF_INET;
    address->in.sin_port = htons(endpoint->port);
    require(inet_pton(AF_INET, endpoint->host, &address->in.sin_addr) == 1, "a numeric host");
    return sizeof(address->in);
}

static int
open_socket(const cadre_endpoint_t *endpoint)
{
    int one = 1;
    int family = endpoint->kind == CADRE_ENDPOINT_IPC ? AF_UNIX : AF_INET;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    require(fd >= 0, "a socket");
    if (family == AF_INET) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    return fd;
}

static void
parse(const char *text, cadre_endpoint_t *endpoint)
{
    require(cadre_endpoint_parse(text, endpoint) == 0, text);
}

/* --- connections --- */

static const stream_rule_t *
rule_of(const proxy_t *self, const connection_t *connection, int direction)
{
    const stream_rule_t *found = &free_pass;
    for (int i = 0; i < self->rule_count; i++) {
        const rule_t *rule = &self->rules[i];
        if (rule->link == connection->link && rule->peer == connection->peer) {
            return &rule->rules[direction];
        }
        if (rule->link == connection->link && rule->peer == 0) {
            found = &rule->rules[direction];
        }
    }
    return found;
}

/* A socket that is closed with a reset, where there is such a thing. */
static void
reset_fd(int *fd)
{
    struct linger none = {.l_onoff = 1};
    if (*fd >= 0) {
        setsockopt(*fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
        close(*fd);
        *fd = -1;
    }
}

static void
end_connection(proxy_t *self, int index)
{
    connection_t *connection = self->connections[index];
    reset_fd(&connection->client);
    reset_fd(&connection->server);
    stream_fini(&connection->up);
    stream_fini(&connection->down);
    free(connection);
    self->connections[index] = self->connections[--self->connection_count];
}

/* Who connects, on a Unix socket; 0 on TCP. */
static pid_t
peer_of(int fd)
{
    struct ucred credentials = {.pid = 0};
    socklen_t size = sizeof(credentials);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 ? credentials.pid : 0;
}

static void
take_connection(proxy_t *self, int number)
{
    int fd = accept4(self->links[number].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        return;
    }
    require(self->connection_count < PROXY_CONNECTIONS_MAX, "room for a connection");
    connection_t *connection = cadre_calloc(1, sizeof(*connection));
    connection->link = number;
    connection->peer = peer_of(fd);
    connection->client = fd;
    connection->server = -1;
    stream_init(&connection->up);
    stream_init(&connection->down);
    self->connections[self->connection_count++] = connection;
}

/* Goes on to the target once the way there and back is open. False when nobody is there. */
static bool
reach_target(const proxy_t *self, connection_t *connection)
{
    if (connection->server >= 0 || connection->dead_end || rule_of(self, connection, 0)->stalled ||
        rule_of(self, connection, 1)->stalled) {
        return true;
    }
    address_t address;
    const cadre_endpoint_t *target = &self->links[connection->link].target;
    socklen_t size = make_address(target, &address);
    connection->server = open_socket(target);
    return connect(connection->server, &address.any, size) == 0 || errno == EINPROGRESS;
}

/* Moves what can be moved one way. False when the connection is broken. */
static bool
move(proxy_t *self, connection_t *connection, int direction, const struct pollfd polled[2])
{
    stream_t *stream = direction == 0 ? &connection->up : &connection->down;
    const stream_rule_t *rule = rule_of(self, connection, direction);
    const struct pollfd *from = &polled[direction];
    const struct pollfd *to = &polled[1 - direction];
    int64_t now_ms = cadre_clock_now_ms();
    if (from->fd >= 0 && (from->revents & (POLLIN | POLLHUP | POLLERR)) &&
        stream_wants_input(stream, rule)) {
        int before = stream->count;
        if (!stream_read(stream, from->fd, rule, now_ms)) {
            return false;
        }
        if (stream->count > before) {
            self->links[connection->link].bytes +=
                stream->blocks[(stream->first + before) % STREAM_BLOCKS].size;
        }
    }
    if (to->fd >= 0 && (to->revents & (POLLOUT | POLLHUP | POLLERR)) &&
        stream_wants_output(stream, rule, now_ms)) {
        return stream_write(stream, to->fd, rule, now_ms);
    }
    return true;
}

/* --- orders --- */

static bool
is_meant(const connection_t *connection, const order_t *order)
{
    return connection->link == order->link && (order->peer == 0 || connection->peer == order->peer);
}

static void
set_rule(proxy_t *self, const order_t *order)
{
    rule_t *rule = NULL;
    for (int i = 0; i < self->rule_count; i++) {
        if (self->rules[i].link == order->link && self->rules[i].peer == order->peer) {
            rule = &self->rules[i];
        }
    }
    if (!rule) {
        require(self->rule_count < RULES_MAX, "room for a rule");
        rule = &self->rules[self->rule_count++];
        *rule = (rule_t){.link = order->link, .peer = order->peer};
    }
    for (int i = 0; i < 2; i++) {
        if (order->direction & (1 << i)) {
            rule->rules[i] = order->rule;
        }
    }
}

static uint64_t
cut(proxy_t *self, const order_t *order)
{
    uint64_t count = 0;
    for (int i = self->connection_count - 1; i >= 0; i--) {
        connection_t *connection = self->connections[i];
        if (is_meant(connection, order) && !connection->dead_end) {
            count++;
            if (order->kind == ORDER_RESET) {
                end_connection(self, i);
            } else {
                connection->dead_end = true;
                reset_fd(order->direction == PROXY_UP ? &connection->client : &connection->server);
            }
        }
    }
    return count;
}

/* The side of a half open connection that knows nothing learns it with the first packet that
 * passes. */
static void
heal(proxy_t *self)
{
    self->rule_count = 0;
    for (int i = self->connection_count - 1; i >= 0; i--) {
        if (self->connections[i]->dead_end) {
            end_connection(self, i);
        }
    }
}

static uint64_t
carry_out(proxy_t *self, const order_t *order)
{
    uint64_t count = 0;
    switch (order->kind) {
    case ORDER_LINK:
        require(self->link_count < PROXY_LINKS_MAX, "room for a link");
        self->links[self->link_count] = (link_t){.fd = order->fd, .target = order->target};
        return (uint64_t)self->link_count++;
    case ORDER_RULE:
        set_rule(self, order);
        return 0;
    case ORDER_HEAL:
        heal(self);
        return 0;
    case ORDER_RESET:
    case ORDER_HALF_OPEN:
        return cut(self, order);
    case ORDER_CONNECTIONS:
        for (int i = 0; i < self->connection_count; i++) {
            count += is_meant(self->connections[i], order) && !self->connections[i]->dead_end;
        }
        return count;
    case ORDER_BYTES:
        return self->links[order->link].bytes;
    case ORDER_STOP:
        while (self->connection_count > 0) {
            end_connection(self, 0);
        }
        for (int i = 0; i < self->link_count; i++) {
            close(self->links[i].fd);
        }
        return 0;
    }
    return 0;
}

/* --- the thread --- */

/* What is waited for on the two sockets of a connection; a socket that nothing is wanted of is left
 * out, because poll would report its end again and again. */
static void
fill_polled(const proxy_t *self, const connection_t *connection, struct pollfd polled[2])
{
    const stream_rule_t *up = connection->dead_end ? &closed_off : rule_of(self, connection, 0);
    const stream_rule_t *down = connection->dead_end ? &closed_off : rule_of(self, connection, 1);
    int64_t now_ms = cadre_clock_now_ms();
    polled[0].events =
        (short)((stream_wants_input(&connection->up, up) ? POLLIN : 0) |
                (stream_wants_output(&connection->down, down, now_ms) ? POLLOUT : 0));
    polled[1].events = (short)((stream_wants_input(&connection->down, down) ? POLLIN : 0) |
                               (stream_wants_output(&connection->up, up, now_ms) ? POLLOUT : 0));
    polled[0].fd = polled[0].events ? connection->client : -1;
    polled[1].fd = polled[1].events ? connection->server : -1;
}

static int
wait_ms(const proxy_t *self)
{
    int64_t now_ms = cadre_clock_now_ms();
    int64_t due_ms = now_ms + TURN_MS;
    for (int i = 0; i < self->connection_count; i++) {
        const connection_t *connection = self->connections[i];
        int64_t up = stream_due_ms(&connection->up, rule_of(self, connection, 0), now_ms);
        int64_t down = stream_due_ms(&connection->down, rule_of(self, connection, 1), now_ms);
        due_ms = up < due_ms ? up : due_ms;
        due_ms = down < due_ms ? down : due_ms;
    }
    return (int)(due_ms - now_ms);
}

static bool
has_ended(const connection_t *connection)
{
    return !connection->dead_end && connection->up.passed_on && connection->down.passed_on;
}

/* One turn: waits, then serves what is ready. False after ORDER_STOP. */
static bool
turn(proxy_t *self)
{
    struct pollfd polled[1 + PROXY_LINKS_MAX + 2 * PROXY_CONNECTIONS_MAX] = {{.fd = -1}};
    for (int i = self->connection_count - 1; i >= 0; i--) {
        if (!reach_target(self, self->connections[i])) {
            end_connection(self, i);
        }
    }
    int links = self->link_count;
    int connections = self->connection_count;
    struct pollfd *pairs = polled + 1 + links;
    polled[0] = (struct pollfd){.fd = self->orders[1], .events = POLLIN};
    for (int i = 0; i < links; i++) {
        polled[1 + i] = (struct pollfd){.fd = self->links[i].fd, .events = POLLIN};
    }
    for (int i = 0; i < connections; i++) {
        fill_polled(self, self->connections[i], &pairs[2 * i]);
    }
    poll(polled, (nfds_t)(1 + links + 2 * connections), wait_ms(self));
    for (int i = connections - 1; i >= 0; i--) { /* the last takes the place of one that ends */
        connection_t *connection = self->connections[i];
        if (!move(self, connection, 0, &pairs[2 * i]) ||
            !move(self, connection, 1, &pairs[2 * i]) || has_ended(connection)) {
            end_connection(self, i);
        }
    }
    for (int i = 0; i < links; i++) {
        if (polled[1 + i].revents) {
            take_connection(self, i);
        }
    }
    order_t order = {.kind = ORDER_HEAL};
    if (polled[0].revents && recv(self->orders[1], &order, sizeof(order), 0) == sizeof(order)) {
        uint64_t count = carry_out(self, &order);
        require(send(self->orders[1], &count, sizeof(count), MSG_NOSIGNAL) == sizeof(count),
                "an answer of the proxy");
        return order.kind != ORDER_STOP;
    }
    return true;
}

static void *
serve(void *argument)
{
    while (turn(argument)) {
    }
    return NULL;
}

/* --- what tests call --- */

static uint64_t
ask(proxy_t *self, const order_t *order)
{
    uint64_t answer = 0;
    require(send(self->orders[0], order, sizeof(*order), MSG_NOSIGNAL) == sizeof(*order),
            "an order to the proxy");
    require(recv(self->orders[0], &answer, sizeof(answer), 0) == sizeof(answer),
            "the proxy's answer");
    return answer;
}

proxy_t *
proxy_open(void)
{
    proxy_t *self = cadre_calloc(1, sizeof(*self));
    require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, self->orders) == 0, "a pipe");
    require(pthread_create(&self->thread, NULL, serve, self) == 0, "a thread");
    return self;
}

void
proxy_close(proxy_t **self_p)
{
    proxy_t *self = *self_p;
    *self_p = NULL;
    ask(self, &(order_t){.kind = ORDER_STOP});
    pthread_join(self->thread, NULL);
    close(self->orders[0]);
    close(self->orders[1]);
    free(self);
}

int
proxy_link(proxy_t *self, const char *from, const char *to, char *bound)
{
    cadre_endpoint_t endpoint;
    order_t order = {.kind = ORDER_LINK};
    address_t address;
    parse(from, &endpoint);
    parse(to, &order.target);
    socklen_t size = make_address(&endpoint, &address);
    order.fd = open_socket(&endpoint);
    require(bind(order.fd, &address.any, size) == 0 && listen(order.fd, BACKLOG) == 0, from);
    if (endpoint.kind == CADRE_ENDPOINT_TCP) {
        require(getsockname(order.fd, &address.any, &size) == 0, from);
        endpoint.port = ntohs(address.in.sin_port);
    }
    cadre_endpoint_text(&endpoint, bound);
    return (int)ask(self, &order);
}

void
proxy_rule(proxy_t *self, int link, pid_t peer, proxy_direction_t direction, stream_rule_t rule)
{
    ask(self,
        &(order_t){
            .kind = ORDER_RULE, .link = link, .peer = peer, .direction = direction, .rule = rule});
}

void
proxy_heal(proxy_t *self)
{
    ask(self, &(order_t){.kind = ORDER_HEAL});
}

int
proxy_reset(proxy_t *self, int link, pid_t peer)
{
    return (int)ask(self, &(order_t){.kind = ORDER_RESET, .link = link, .peer = peer});
}

int
proxy_half_open(proxy_t *self, int link, pid_t peer, proxy_direction_t closed)
{
    return (int)ask(
        self, &(order_t){.kind = ORDER_HALF_OPEN, .link = link, .peer = peer, .direction = closed});
}

int
proxy_connections(proxy_t *self, int link)
{
    return (int)ask(self, &(order_t){.kind = ORDER_CONNECTIONS, .link = link});
}

uint64_t
proxy_bytes(proxy_t *self, int link)
{
    return ask(self, &(order_t){.kind = ORDER_BYTES, .link = link});
}
