#include "common/http/http_server.h"

#include <criterion/criterion.h>
#include <errno.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/http/http_address.h"
#include "common/system/clock.h"
#include "tests/common/http_client.h"

TestSuite(http_server, .timeout = 240);

static const char *const actors[] = {"first actor", "second actor"};

typedef struct {
    cadre_http_server_t *server;
    int port;
} fixture_t;

static fixture_t
open_server(void)
{
    fixture_t self = {.port = 0};
    cr_assert_eq(cadre_http_server_open("0", actors, 2, &self.server), 0, "%s", cadre_error_text());
    const char *address = cadre_http_server_address(self.server);
    cr_assert_eq(strncmp(address, "127.0.0.1:", 10), 0, "%s", address);
    self.port = (int)strtol(address + 10, NULL, 10);
    cr_assert_gt(self.port, 0);
    return self;
}

static void
publish(fixture_t *self, const char *unready, double figure)
{
    cadre_metrics_text_t text = {.bytes = NULL};
    cadre_metrics_text_gauge(&text, "cadre_figure", figure, "A figure.");
    cadre_http_server_publish(self->server, &text, unready, cadre_clock_now_ms());
}

static void
expect(const fixture_t *self, const char *method, const char *path, int code, const char *body)
{
    cadre_auto(http_answer_fini) http_answer_t answer = http_ask(self->port, method, path);
    cr_expect_eq(answer.code, code, "%s %s: %d", method, path, answer.code);
    cr_expect_str_eq(answer.body, body, "%s %s: %s", method, path, answer.body);
}

/* --- addresses --- */

typedef struct {
    char text[32];
    char host[32];
    int port; /* -1: refused */
} address_t;

Test(http_server, addresses_are_a_port_or_host_and_port)
{
    static const address_t cases[] = {
        {"9090", "127.0.0.1", 9090},
        {"0", "127.0.0.1", 0},
        {"65535", "127.0.0.1", 65535},
        {"*:9090", "*", 9090},
        {"localhost:80", "localhost", 80},
        {"10.1.2.3:80", "10.1.2.3", 80},
        {"[::1]:80", "::1", 80},
        {"[::]:0", "::", 0},
        {"", "", -1},
        {":", "", -1},
        {":80", "", -1},
        {"65536", "", -1},
        {"-1", "", -1},
        {"99999999999999999999", "", -1},
        {"localhost", "", -1},
        {"::1:80x", "", -1},
        {"[::1]", "", -1},
        {"[zz]:80", "", -1},
        {"tcp://127.0.0.1:80", "", -1},
        {"http://127.0.0.1:80", "", -1},
        {"ipc:///tmp/x", "", -1},
        {"a b:80", "", -1},
        {"80 ", "", -1},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_endpoint_t address = {.port = 0};
        int status = cadre_http_address_parse(cases[i].text, &address);
        if (cases[i].port < 0) {
            cr_expect_eq(status, CADRE_EINVALID, "'%s': %d", cases[i].text, status);
            cr_expect(strstr(cadre_error_text(), cases[i].text), "%s", cadre_error_text());
        } else {
            cr_expect_eq(status, 0, "'%s': %s", cases[i].text, cadre_error_text());
            cr_expect_str_eq(address.host, cases[i].host);
            cr_expect_eq(address.port, cases[i].port);
        }
    }
}

Test(http_server, an_address_that_is_too_long_is_refused)
{
    char text[1000];
    cadre_endpoint_t address;
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    cr_expect_eq(cadre_http_address_parse(text, &address), CADRE_EINVALID);
    memset(text, '9', sizeof(text) - 1);
    cr_expect_eq(cadre_http_address_parse(text, &address), CADRE_EINVALID);
}

Test(http_server, a_port_in_use_is_told_with_its_reason)
{
    fixture_t first = open_server();
    cadre_http_server_t *second = NULL;
    cadre_auto(cadre_free) char *port = cadre_asprintf("%d", first.port);
    cr_expect_eq(cadre_http_server_open(port, actors, 2, &second), CADRE_EUNAVAILABLE);
    cr_expect(strstr(cadre_error_text(), port), "%s", cadre_error_text());
    cr_expect(strstr(cadre_error_text(), "in use"), "%s", cadre_error_text());
    cr_expect_null(second);
    cr_expect_eq(cadre_http_server_open("no.such.host.invalid:0", actors, 2, &second),
                 CADRE_EUNAVAILABLE);
    cadre_http_server_close(&first.server);
    cr_expect_eq(cadre_http_server_open(port, actors, 2, &second), 0, "%s", cadre_error_text());
    cadre_http_server_close(&second);
}

Test(http_server, every_address_of_the_machine_is_taken_for_a_star)
{
    cadre_http_server_t *server = NULL;
    cr_assert_eq(cadre_http_server_open("*:0", actors, 1, &server), 0, "%s", cadre_error_text());
    const char *address = cadre_http_server_address(server);
    cr_expect(strncmp(address, "[::]:", 5) == 0 || strncmp(address, "0.0.0.0:", 8) == 0, "%s",
              address);
    cadre_auto(http_answer_fini) http_answer_t answer =
        http_ask((int)strtol(strrchr(address, ':') + 1, NULL, 10), "GET", "/livez");
    cr_expect_eq(answer.code, 200);
    cadre_http_server_close(&server);
}

/* --- answers --- */

Test(http_server, before_anything_is_published_it_is_alive_and_not_ready)
{
    fixture_t self = open_server();
    expect(&self, "GET", "/livez", 200, "alive\n");
    expect(&self, "GET", "/readyz", 503, "starting\n");
    expect(&self, "GET", "/metrics", 200, "");
    cadre_http_server_close(&self.server);
}

Test(http_server, what_was_published_last_is_answered)
{
    fixture_t self = open_server();
    publish(&self, "shard 1 is away", 1);
    expect(&self, "GET", "/readyz", 503, "shard 1 is away\n");
    publish(&self, "", 2);
    expect(&self, "GET", "/readyz", 200, "ready\n");
    expect(&self, "GET", "/metrics", 200,
           "# HELP cadre_figure A figure.\n# TYPE cadre_figure gauge\ncadre_figure 2\n");
    cadre_auto(http_answer_fini) http_answer_t answer = http_ask(self.port, "GET", "/metrics");
    cr_expect(strstr(answer.text, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    cadre_http_server_close(&self.server);
}

Test(http_server, head_gets_no_body_and_other_methods_and_paths_are_refused)
{
    fixture_t self = open_server();
    publish(&self, "", 1);
    expect(&self, "HEAD", "/metrics", 200, "");
    expect(&self, "HEAD", "/livez", 200, "");
    expect(&self, "GET", "/livez?verbose", 200, "alive\n");
    static const char *const methods[] = {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"};
    for (size_t i = 0; i < CADRE_COUNT_OF(methods); i++) {
        expect(&self, methods[i], "/metrics", 405, "GET and HEAD only\n");
    }
    static const char *const paths[] = {"/",       "/metrics/",   "/livez2",
                                        "//livez", "/../metrics", "/%2e%2e/metrics"};
    for (size_t i = 0; i < CADRE_COUNT_OF(paths); i++) {
        expect(&self, "GET", paths[i], 404, "there are /livez, /readyz and /metrics\n");
    }
    cadre_http_server_close(&self.server);
}

Test(http_server, it_is_alive_while_every_actor_takes_turns)
{
    fixture_t self = open_server();
    int64_t now_ms = cadre_clock_now_ms();
    cadre_http_server_turned(self.server, 0, now_ms);
    cadre_http_server_turned(self.server, 1, now_ms - CADRE_HTTP_ALIVE_MS / 2);
    expect(&self, "GET", "/livez", 200, "alive\n");
    cadre_http_server_turned(self.server, 1, now_ms - CADRE_HTTP_ALIVE_MS - 5000);
    cadre_auto(http_answer_fini) http_answer_t answer = http_ask(self.port, "GET", "/livez");
    cr_expect_eq(answer.code, 503);
    cr_expect_eq(strncmp(answer.body, "the second actor has taken no turn for 3", 40), 0, "%s",
                 answer.body);
    cadre_http_server_turned(self.server, 1, cadre_clock_now_ms());
    expect(&self, "GET", "/livez", 200, "alive\n");
    cadre_http_server_close(&self.server);
}

Test(http_server, it_is_time_to_publish_after_a_second_or_when_readiness_changes)
{
    fixture_t self = open_server();
    int64_t now_ms = cadre_clock_now_ms();
    cr_expect(cadre_http_server_is_due(self.server, "starting", now_ms));
    cadre_metrics_text_t text = {.bytes = NULL};
    cadre_http_server_publish(self.server, &text, "", now_ms);
    cr_expect_not(cadre_http_server_is_due(self.server, "", now_ms));
    cr_expect_not(cadre_http_server_is_due(self.server, "", now_ms + CADRE_HTTP_PUBLISH_MS - 1));
    cr_expect(cadre_http_server_is_due(self.server, "", now_ms + CADRE_HTTP_PUBLISH_MS));
    cr_expect(cadre_http_server_is_due(self.server, "draining", now_ms));
    cadre_http_server_close(&self.server);
}

/* --- what is no request --- */

static void
expect_refused(const fixture_t *self, const char *bytes, size_t size, const char *what)
{
    cadre_auto(http_answer_fini) http_answer_t answer = http_send(self->port, bytes, size);
    cr_expect(answer.code == 0 || (answer.code >= 400 && answer.code < 600), "%s: %d", what,
              answer.code);
    expect(self, "GET", "/livez", 200, "alive\n");
}

Test(http_server, bytes_that_are_no_request_are_refused_and_others_are_served)
{
    fixture_t self = open_server();
    static const char greeting[] = "\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL\r\n\r\n"; /* ZMTP's */
    expect_refused(&self, greeting, sizeof(greeting), "zmtp");
    expect_refused(&self, "\r\n\r\n\r\n\r\nx\r\n\r\n", 14, "empty lines");
    expect_refused(&self, "GET\r\n\r\n", 7, "no path");
    expect_refused(&self, "GET /livez HTTP/9.9\r\n\r\n", 23, "version");
    expect_refused(&self, "GET /livez HTTP/1.1\r\nHost\r\n\r\n", 29, "header");
    expect_refused(&self, "GET /livez HTTP/1.1\r\nContent-Length: -5\r\n\r\n", 43, "length");
    unsigned char garbage[4096];
    uint32_t state = 1;
    for (int round = 0; round < 64; round++) {
        for (size_t i = 0; i < sizeof(garbage); i++) {
            state = state * 1664525 + 1013904223;
            garbage[i] = (unsigned char)(state >> 24);
        }
        memcpy(garbage + sizeof(garbage) - 4, "\r\n\r\n", 4);
        expect_refused(&self, (const char *)garbage, sizeof(garbage), "garbage");
    }
    cadre_http_server_close(&self.server);
}

Test(http_server, a_header_or_a_path_of_a_megabyte_is_refused)
{
    fixture_t self = open_server();
    enum { SIZE = 1 << 20 };
    cadre_auto(cadre_free) char *bytes = cadre_calloc(SIZE + 64, 1);
    int head = snprintf(bytes, 64, "GET /livez HTTP/1.1\r\nHost: a\r\nX: ");
    memset(bytes + head, 'x', SIZE);
    memcpy(bytes + SIZE, "\r\n\r\n", 4);
    expect_refused(&self, bytes, SIZE + 4, "header");
    memcpy(bytes, "GET /", 5);
    memset(bytes + 5, 'x', (size_t)head);
    expect_refused(&self, bytes, SIZE + 4, "path");
    cadre_http_server_close(&self.server);
}

Test(http_server, requests_that_never_end_hold_a_bounded_number_of_connections)
{
    fixture_t self = open_server();
    enum { SLOW = 64 };
    int slow[SLOW];
    int held = SLOW;
    int64_t end_ms = cadre_clock_now_ms() + 60000;
    struct timeval moment = {.tv_usec = 20000};
    for (int i = 0; i < SLOW; i++) {
        slow[i] = http_connect(self.port);
        cr_assert_geq(slow[i], 0);
        setsockopt(slow[i], SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof(moment));
        (void)!send(slow[i], "GET /livez HT", 13, MSG_NOSIGNAL);
    }
    while (held > CADRE_HTTP_CONNECTIONS_PER_ADDRESS_MAX && cadre_clock_now_ms() < end_ms) {
        held = 0;
        for (int i = 0; i < SLOW; i++) {
            char byte = 0;
            held += recv(slow[i], &byte, 1, 0) < 0 && errno == EAGAIN;
        }
    }
    cr_expect_leq(held, CADRE_HTTP_CONNECTIONS_PER_ADDRESS_MAX, "%d are held", held);
    cr_expect_gt(held, 0);
    close(slow[0]);
    for (int i = 0; i < SLOW; i++) {
        shutdown(slow[i], SHUT_RDWR);
    }
    end_ms = cadre_clock_now_ms() + 60000;
    int code = 0;
    while (code != 200 && cadre_clock_now_ms() < end_ms) {
        cadre_auto(http_answer_fini) http_answer_t answer = http_ask(self.port, "GET", "/livez");
        code = answer.code;
    }
    cr_expect_eq(code, 200);
    for (int i = 1; i < SLOW; i++) {
        close(slow[i]);
    }
    cadre_http_server_close(&self.server);
}

/* The oldest of theirs end, not who asks. */
Test(http_server, a_few_addresses_do_not_keep_the_others_out)
{
    fixture_t self = open_server();
    enum { SLOW = 64, HOSTS = 4 };
    int slow[SLOW];
    for (uint32_t i = 0; i < SLOW; i++) {
        slow[i] = http_connect_from(INADDR_LOOPBACK + 1 + i % HOSTS, self.port);
        cr_assert_geq(slow[i], 0);
        (void)!send(slow[i], "GET /livez HT", 13, MSG_NOSIGNAL);
        int64_t begin_ms = cadre_clock_now_ms();
        expect(&self, "GET", "/livez", 200, "alive\n");
        cr_assert_lt(cadre_clock_now_ms() - begin_ms, CADRE_HTTP_IDLE_S * 1000 - 1000);
    }
    for (int i = 0; i < SLOW; i++) {
        close(slow[i]);
    }
    cadre_http_server_close(&self.server);
}

Test(http_server, a_request_that_comes_drop_by_drop_is_ended_after_its_time)
{
    fixture_t self = open_server();
    int client = http_connect(self.port);
    int64_t end_ms = cadre_clock_now_ms() + 60000;
    struct timeval moment = {.tv_usec = 20000};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof(moment));
    for (int i = 0; i < 10; i++) {
        char byte = 0;
        publish(&self, "", 1);
        cr_assert_eq(send(client, "GET /livez", 1, MSG_NOSIGNAL), 1);
        cr_assert(recv(client, &byte, 1, 0) < 0 && errno == EAGAIN, "it is served meanwhile");
    }
    ssize_t got = -1;
    while (got != 0 && cadre_clock_now_ms() < end_ms) {
        char byte = 0;
        cadre_metrics_text_t text = {.bytes = NULL};
        (void)!send(client, "x", 1, MSG_NOSIGNAL);
        cadre_http_server_publish(self.server, &text, "",
                                  cadre_clock_now_ms() + CADRE_HTTP_CONNECTION_MS + 1);
        got = recv(client, &byte, 1, 0);
    }
    cr_expect_eq(got, 0, "it is ended");
    close(client);
    expect(&self, "GET", "/livez", 200, "alive\n");
    cadre_http_server_close(&self.server);
}

Test(http_server, a_page_that_is_being_sent_stays_until_it_is_out)
{
    fixture_t self = open_server();
    cadre_metrics_text_t text = {.bytes = NULL};
    cadre_metrics_text_family(&text, "cadre_a", CADRE_METRIC_GAUGE, "a");
    for (uint64_t i = 0; i < 100000; i++) {
        cadre_metrics_text_label_number(&text, "number", i);
        cadre_metrics_text_count(&text, i);
    }
    cadre_http_server_publish(self.server, &text, "", cadre_clock_now_ms());
    int client = http_connect(self.port);
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n";
    cr_assert_eq(send(client, request, sizeof(request) - 1, 0), (ssize_t)sizeof(request) - 1);
    char byte = 0;
    cr_assert_eq(recv(client, &byte, 1, MSG_PEEK), 1); /* it has begun */
    publish(&self, "", 3);
    cadre_auto(http_answer_fini) http_answer_t answer = http_read(client);
    cr_expect_eq(answer.code, 200);
    cr_expect(strstr(answer.body, "\ncadre_a{number=\"99999\"} 99999\n"));
    close(client);
    cadre_http_server_close(&self.server);
}

Test(http_server, it_closes_while_clients_are_connected)
{
    fixture_t self = open_server();
    int client = http_connect(self.port);
    cr_assert_geq(client, 0);
    cadre_http_server_close(&self.server);
    cr_expect_null(self.server);
    close(client);
    cadre_http_server_close(&self.server);
}
