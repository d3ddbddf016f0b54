/*
 * http_client - fetching a page in a test, or sending what is no request.
 *
 * Owner:   a test.
 * Thread:  any.
 */
#ifndef CADRE_TESTS_COMMON_HTTP_CLIENT_H
#define CADRE_TESTS_COMMON_HTTP_CLIENT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { HTTP_WAIT_S = 60, HTTP_ANSWER_SIZE = 4 << 20 };

typedef struct {
    int code;   /* 0: there was no answer */
    char *text; /* of the answer with its headers; malloc */
    const char *body;
} http_answer_t;

static void
http_answer_fini(http_answer_t *self)
{
    free(self->text);
    *self = (http_answer_t){.code = 0};
}

/* A connection from `host`, an address of 127/8, to 127.0.0.1:port with a deadline for every read
 * and write; negative: refused. */
static inline int
http_connect_from(uint32_t host, int port)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct timeval limit = {.tv_sec = HTTP_WAIT_S};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (bind(client, (struct sockaddr *)&from, sizeof(from)) < 0 ||
        connect(client, (struct sockaddr *)&at, sizeof(at)) < 0) {
        close(client);
        return -1;
    }
    return client;
}

static inline int
http_connect(int port)
{
    return http_connect_from(INADDR_LOOPBACK, port);
}

/* Reads until the other side closes. */
static inline http_answer_t
http_read(int client)
{
    http_answer_t answer = {.text = malloc(HTTP_ANSWER_SIZE)};
    size_t size = 0;
    ssize_t got = 0;
    while (size + 1 < HTTP_ANSWER_SIZE &&
           (got = recv(client, answer.text + size, HTTP_ANSWER_SIZE - 1 - size, 0)) > 0) {
        size += (size_t)got;
    }
    answer.text[size] = '\0';
    if (strncmp(answer.text, "HTTP/1.", 7) == 0 && size > 12) {
        answer.code = (int)strtol(answer.text + 9, NULL, 10);
    }
    const char *end = strstr(answer.text, "\r\n\r\n");
    answer.body = end ? end + 4 : "";
    return answer;
}

/* Sends bytes and reads what comes of it; what the other side does not take is left out. */
static inline http_answer_t
http_send(int port, const char *bytes, size_t size)
{
    int client = http_connect(port);
    if (client < 0) {
        return (http_answer_t){.text = NULL, .body = ""};
    }
    for (size_t at = 0; at < size;) {
        ssize_t sent = send(client, bytes + at, size - at, MSG_NOSIGNAL);
        if (sent <= 0) {
            break;
        }
        at += (size_t)sent;
    }
    http_answer_t answer = http_read(client);
    close(client);
    return answer;
}

static inline http_answer_t
http_ask(int port, const char *method, const char *path)
{
    char request[512];
    int size =
        snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\nHost: test\r\n\r\n", method, path);
    return http_send(port, request, (size_t)size);
}

#endif
