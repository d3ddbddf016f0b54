/*
 * What a client sends to --http, as bytes of a connection: there is one answer or none, it is one
 * of ours, and the server answers the next client.
 */
#include "common/http/http_server.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/system/clock.h"

enum { ANSWER_SIZE = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

static cadre_http_server_t *server;

static void
close_server(void)
{
    cadre_http_server_close(&server);
}

static void
open_server(void)
{
    static const char *const actors[] = {"fuzzer"};
    cadre_metrics_text_t metrics = {.bytes = NULL};
    cadre_assert(cadre_http_server_open("127.0.0.1:0", actors, 1, &server) == 0);
    cadre_metrics_text_family(&metrics, "cadre_fuzzed", CADRE_METRIC_GAUGE, "One.");
    cadre_metrics_text_count(&metrics, 1);
    cadre_http_server_publish(server, &metrics, "", cadre_clock_now_ms());
    atexit(close_server);
}

/* A connection from an address of 127/8 that was not used for a while, negative when there is none:
 * a pair of ports that was used is kept by the kernel for a minute. */
static int
connect_from_elsewhere(void)
{
    static uint32_t count;
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(0x7f010001 + count++ % 0xffff)};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *port = strrchr(cadre_http_server_address(server), ':') + 1;
    to.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cadre_assert(client >= 0);
    if (bind(client, (struct sockaddr *)&from, sizeof(from)) < 0 ||
        connect(client, (struct sockaddr *)&to, sizeof(to)) < 0) {
        close(client);
        return -1;
    }
    return client;
}

static int
connect_to_server(void)
{
    enum { TRIES_MAX = 100 };
    int client = -1;
    for (int i = 0; client < 0 && i < TRIES_MAX; i++) {
        client = connect_from_elsewhere();
    }
    cadre_assert(client >= 0);
    return client;
}

/* Sends all of it, the end of a header and a header, because the server waits CADRE_HTTP_IDLE_S for
 * one that is cut off, and returns the beginning of what comes back, a text. The server may end
 * the connection before it has read all. */
static size_t
exchange(const uint8_t *bytes, size_t size_bytes, char answer[ANSWER_SIZE])
{
    static const char rest[] = "\r\n\r\nX\r\n\r\n";
    int client = connect_to_server();
    size_t size = 0;
    ssize_t moved = 1;
    for (size_t sent = 0; sent < size_bytes && moved > 0; sent += moved > 0 ? (size_t)moved : 0) {
        moved = send(client, bytes + sent, size_bytes - sent, MSG_NOSIGNAL);
    }
    (void)!send(client, rest, sizeof(rest) - 1, MSG_NOSIGNAL);
    shutdown(client, SHUT_WR);
    do {
        moved = recv(client, answer + size, ANSWER_SIZE - 1 - size, 0);
        size += moved > 0 ? (size_t)moved : 0;
    } while (moved > 0 && size < ANSWER_SIZE - 1);
    close(client);
    answer[size] = '\0';
    return size;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    static const char livez[] = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";
    static uint64_t runs;
    char answer[ANSWER_SIZE];
    if (!server) {
        open_server();
    }
    cadre_http_server_turned(server, 0, cadre_clock_now_ms());
    if (exchange(bytes, size_bytes, answer) > 0) {
        cadre_assert(strncmp(answer, "HTTP/1.", 7) == 0);
    }
    if (runs++ % 64 == 0) {
        cadre_assert(exchange((const uint8_t *)livez, sizeof(livez) - 1, answer) > 0);
        cadre_assert(strncmp(answer, "HTTP/1.1 200 ", 13) == 0);
    }
    return 0;
}
