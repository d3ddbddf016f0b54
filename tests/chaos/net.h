/*
 * net - a field whose tasks reach each other through the proxy.
 *
 * Tasks dial the coordinator through a TCP link of their own. A ps binds a Unix socket, which is
 * moved aside once it is there; the proxy listens in its place, and tells by their process who
 * comes. So one worker can be cut off from one ps.
 *
 * Owner:   a test. Thread: the main one.
 */
#ifndef CADRE_TESTS_CHAOS_NET_H
#define CADRE_TESTS_CHAOS_NET_H

#include "tests/chaos/field.h"
#include "tests/chaos/proxy.h"

typedef struct {
    field_t field;
    proxy_t *proxy;
    field_prepare_t prepare;                               /* the test's own, or NULL */
    int to_coordinator[FIELD_ROLE_COUNT][FIELD_TASKS_MAX]; /* links */
    char dialled[FIELD_ROLE_COUNT][FIELD_TASKS_MAX][CADRE_ENDPOINT_TEXT_SIZE];
    int to_ps[FIELD_TASKS_MAX];
} net_t;

/* Starts everything and waits until closures end. `options->prepare` is called after the net has
 * set what a task dials. */
void net_open(net_t *self, const field_options_t *options);

/* Lets the job finish, as field_close does. */
void net_close(net_t *self, board_t *last);

#endif
