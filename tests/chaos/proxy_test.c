#include "tests/chaos/proxy.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/system/clock.h"
#include "tests/system/scratch.h"

TestSuite(proxy, .timeout = 900);

enum { SOON_MS = 120000, NEVER_MS = 150 };

/* A proxy with one link to a Unix socket that the test itself listens on. */
typedef struct {
    scratch_t scratch;
    proxy_t *proxy;
    int link;
    int target;
    char *place;
} bench_t;

static int
unix_socket(const char *path, bool listening)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr *any = (const struct sockaddr *)&address;
    if (listening) {
        cr_assert(bind(fd, any, sizeof(address)) == 0 && listen(fd, 8) == 0, "%s", path);
    } else {
        cr_assert(connect(fd, any, sizeof(address)) == 0, "%s", path);
    }
    return fd;
}

static void
bench_open(bench_t *self)
{
    char bound[CADRE_ENDPOINT_TEXT_SIZE];
    scratch_open(&self->scratch);
    cadre_auto(cadre_free) char *behind = scratch_path(&self->scratch, "behind");
    cadre_auto(cadre_free) char *from = cadre_asprintf("ipc://%s/front", self->scratch.path);
    cadre_auto(cadre_free) char *to = cadre_asprintf("ipc://%s", behind);
    self->place = scratch_path(&self->scratch, "front");
    self->target = unix_socket(behind, true);
    self->proxy = proxy_open();
    self->link = proxy_link(self->proxy, from, to, bound);
    cr_assert_str_eq(bound, from);
}

static void
bench_close(bench_t *self)
{
    proxy_close(&self->proxy);
    close(self->target);
    free(self->place);
    scratch_close(&self->scratch);
}

static bool
readable(int fd, int timeout_ms)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, timeout_ms) == 1;
}

/* The other end of a connection that was just made. */
static int
accept_soon(const bench_t *self)
{
    cr_assert(readable(self->target, SOON_MS), "a connection arrives");
    return accept(self->target, NULL, NULL);
}

static void
connect_through(const bench_t *self, int *client, int *server)
{
    *client = unix_socket(self->place, false);
    *server = accept_soon(self);
}

static void
say(int fd, const char *text)
{
    cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void
hear(int fd, const char *text)
{
    char got[64] = "";
    size_t size = 0;
    while (size < strlen(text)) {
        cr_assert(readable(fd, SOON_MS), "\"%s\" arrives", text);
        ssize_t more = read(fd, got + size, strlen(text) - size);
        cr_assert_gt(more, 0);
        size += (size_t)more;
    }
    cr_expect_str_eq(got, text);
}

/* What read says once there is an end to be read: 0, or minus errno. */
static int
hear_end(int fd)
{
    char byte;
    cr_assert(readable(fd, SOON_MS), "the end arrives");
    ssize_t got = read(fd, &byte, 1);
    cr_expect_leq(got, 0);
    return got < 0 ? -errno : 0;
}

static void
close_both(int client, int server)
{
    close(client);
    close(server);
}

Test(proxy, passes_what_is_sent_both_ways_in_order)
{
    enum { SIZE = 1 << 20, PIECE = 60000 };
    bench_t bench;
    int ends[2];
    bench_open(&bench);
    connect_through(&bench, &ends[0], &ends[1]);
    unsigned char *sent = cadre_calloc(1, SIZE);
    unsigned char *got = cadre_calloc(1, SIZE);
    for (int i = 0; i < SIZE; i++) {
        sent[i] = (unsigned char)(i * 7 + i / 251);
    }
    for (int way = 0; way < 2; way++) {
        size_t out = 0;
        size_t in = 0;
        while (in < SIZE) {
            size_t piece = SIZE - out < PIECE ? SIZE - out : PIECE;
            ssize_t more = send(ends[way], sent + out, piece, MSG_DONTWAIT | MSG_NOSIGNAL);
            out += more > 0 ? (size_t)more : 0;
            cr_assert(readable(ends[1 - way], SOON_MS));
            more = read(ends[1 - way], got + in, SIZE - in);
            cr_assert_gt(more, 0);
            in += (size_t)more;
        }
        cr_expect_arr_eq(got, sent, SIZE);
    }
    cr_expect_eq(proxy_bytes(bench.proxy, bench.link), 2 * SIZE);
    free(sent);
    free(got);
    close_both(ends[0], ends[1]);
    bench_close(&bench);
}

Test(proxy, forwards_tcp_from_a_free_port)
{
    char bound[CADRE_ENDPOINT_TEXT_SIZE];
    bench_t bench;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    bench_open(&bench);
    cadre_auto(cadre_free) char *to = cadre_asprintf("ipc://%s/behind", bench.scratch.path);
    int link = proxy_link(bench.proxy, "tcp://127.0.0.1:*", to, bound);
    cr_expect_neq(link, bench.link);
    address.sin_port = htons((uint16_t)strtol(strrchr(bound, ':') + 1, NULL, 10));
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(client, (const struct sockaddr *)&address, sizeof(address)), 0, "%s",
                 bound);
    int server = accept_soon(&bench);
    say(client, "up");
    hear(server, "up");
    say(server, "down");
    hear(client, "down");
    close_both(client, server);
    bench_close(&bench);
}

Test(proxy, a_stalled_direction_holds_back_and_passes_everything_when_healed)
{
    bench_t bench;
    int client;
    int server;
    bench_open(&bench);
    connect_through(&bench, &client, &server);
    proxy_rule(bench.proxy, bench.link, 0, PROXY_UP, (stream_rule_t){.stalled = true});
    say(client, "late");
    say(server, "one way");
    hear(client, "one way");
    cr_expect_not(readable(server, NEVER_MS), "the other way is cut");
    close(client); /* not even that is told */
    cr_expect_not(readable(server, NEVER_MS));
    proxy_heal(bench.proxy);
    hear(server, "late");
    cr_expect_eq(hear_end(server), 0);
    close(server);
    bench_close(&bench);
}

Test(proxy, a_connection_made_during_a_stall_leads_on_after_it)
{
    bench_t bench;
    bench_open(&bench);
    proxy_rule(bench.proxy, bench.link, 0, PROXY_DOWN, (stream_rule_t){.stalled = true});
    int client = unix_socket(bench.place, false);
    say(client, "hello");
    cr_expect_not(readable(bench.target, NEVER_MS));
    proxy_heal(bench.proxy);
    int server = accept_soon(&bench);
    hear(server, "hello");
    close_both(client, server);
    bench_close(&bench);
}

Test(proxy, a_delay_is_kept)
{
    enum { DELAY_MS = 1000 };
    bench_t bench;
    int client;
    int server;
    bench_open(&bench);
    connect_through(&bench, &client, &server);
    proxy_rule(bench.proxy, bench.link, 0, PROXY_UP, (stream_rule_t){.delay_ms = DELAY_MS});
    int64_t began_ms = cadre_clock_now_ms();
    say(client, "slow");
    hear(server, "slow");
    cr_expect_geq(cadre_clock_now_ms() - began_ms, DELAY_MS);
    int64_t took_ms = DELAY_MS;
    for (int64_t end_ms = began_ms + SOON_MS;
         took_ms >= DELAY_MS;) { /* soon, but for a busy machine */
        began_ms = cadre_clock_now_ms();
        cr_assert_lt(began_ms, end_ms, "the other way is as fast as ever");
        say(server, "fast");
        hear(client, "fast");
        took_ms = cadre_clock_now_ms() - began_ms;
    }
    close_both(client, server);
    bench_close(&bench);
}

Test(proxy, a_throttle_lets_so_many_bytes_through_in_a_second)
{
    enum { RATE = 200000, SIZE = 60000 };
    bench_t bench;
    int client;
    int server;
    static char bytes[SIZE];
    bench_open(&bench);
    connect_through(&bench, &client, &server);
    proxy_rule(bench.proxy, bench.link, 0, PROXY_BOTH, (stream_rule_t){.bytes_per_second = RATE});
    int64_t began_ms = cadre_clock_now_ms();
    cr_assert_eq(send(client, bytes, SIZE, 0), SIZE);
    for (int in = 0; in < SIZE;) {
        cr_assert(readable(server, SOON_MS));
        in += (int)read(server, bytes, SIZE);
    }
    int64_t took_ms = cadre_clock_now_ms() - began_ms;
    cr_expect_geq(took_ms, 1000 * (SIZE - RATE / 10) / RATE, "it took %d ms", (int)took_ms);
    close_both(client, server);
    bench_close(&bench);
}

Test(proxy, a_reset_is_felt_on_both_sides)
{
    bench_t bench;
    int client;
    int server;
    bench_open(&bench);
    connect_through(&bench, &client, &server);
    say(client, "there");
    hear(server, "there");
    cr_expect_eq(proxy_connections(bench.proxy, bench.link), 1);
    cr_expect_eq(proxy_reset(bench.proxy, bench.link, 0), 1);
    cr_expect_eq(proxy_connections(bench.proxy, bench.link), 0);
    hear_end(client);
    hear_end(server);
    close_both(client, server);
    connect_through(&bench, &client, &server); /* the next one works */
    say(client, "again");
    hear(server, "again");
    close_both(client, server);
    bench_close(&bench);
}

Test(proxy, of_a_half_open_connection_one_side_is_not_told)
{
    for (int way = 0; way < 2; way++) {
        bench_t bench;
        int ends[2];
        bench_open(&bench);
        connect_through(&bench, &ends[0], &ends[1]);
        say(ends[0], "there");
        hear(ends[1], "there");
        proxy_direction_t closed = way == 0 ? PROXY_UP : PROXY_DOWN;
        cr_expect_eq(proxy_half_open(bench.proxy, bench.link, 0, closed), 1);
        hear_end(ends[way]);
        say(ends[1 - way], "anybody?");
        cr_expect_not(readable(ends[1 - way], NEVER_MS));
        proxy_heal(bench.proxy);
        hear_end(ends[1 - way]);
        close_both(ends[0], ends[1]);
        bench_close(&bench);
    }
}

Test(proxy, the_end_of_one_direction_leaves_the_other)
{
    bench_t bench;
    int client;
    int server;
    bench_open(&bench);
    connect_through(&bench, &client, &server);
    shutdown(client, SHUT_WR);
    cr_expect_eq(hear_end(server), 0);
    say(server, "still");
    hear(client, "still");
    close(server);
    cr_expect_eq(hear_end(client), 0);
    close(client);
    bench_close(&bench);
}

Test(proxy, who_connects_where_nobody_listens_is_turned_away)
{
    char bound[CADRE_ENDPOINT_TEXT_SIZE];
    bench_t bench;
    bench_open(&bench);
    cadre_auto(cadre_free) char *from = cadre_asprintf("ipc://%s/other", bench.scratch.path);
    cadre_auto(cadre_free) char *to = cadre_asprintf("ipc://%s/nobody", bench.scratch.path);
    proxy_link(bench.proxy, from, to, bound);
    int client = unix_socket(from + strlen("ipc://"), false);
    hear_end(client);
    close(client);
    bench_close(&bench);
}

/* A rule for one process: it is stalled while another one, this, is served. */
Test(proxy, a_rule_for_one_peer_spares_the_others)
{
    bench_t bench;
    bench_open(&bench);
    int said[2];
    cr_assert_eq(pipe(said), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = unix_socket(bench.place, false);
        char byte;
        ssize_t got = write(said[1], "c", 1);
        got = read(fd, &byte, 1);
        _exit(got == 1 && byte == '!' ? 0 : 1);
    }
    hear(said[0], "c");
    int theirs = accept_soon(&bench);
    int client;
    int server;
    connect_through(&bench, &client, &server);
    proxy_rule(bench.proxy, bench.link, pid, PROXY_DOWN, (stream_rule_t){.stalled = true});
    say(theirs, "!");
    say(server, "ours");
    hear(client, "ours");
    int end = 0;
    cr_expect_eq(waitpid(pid, &end, WNOHANG), 0, "it still waits");
    proxy_heal(bench.proxy);
    cr_assert_eq(waitpid(pid, &end, 0), pid);
    cr_expect(WIFEXITED(end) && WEXITSTATUS(end) == 0);
    close_both(client, server);
    close(theirs);
    close_both(said[0], said[1]);
    bench_close(&bench);
}
