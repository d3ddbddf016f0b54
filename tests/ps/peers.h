/*
 * peers - plays the coordinator and a worker of one cadre-ps, over real sockets.
 */
#ifndef CADRE_TESTS_PS_PEERS_H
#define CADRE_TESTS_PS_PEERS_H

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/socket.h"
#include "common/system/clock.h"
#include "common/wire/codec.h"
#include "common/wire/task.h"

enum { PEERS_WAIT_MS = 120000 };

typedef struct {
    cadre_context_t *context;
    cadre_socket_t *control; /* the coordinator's ROUTER */
    cadre_socket_t *data;    /* the worker's DEALER */
    cadre_task_t me;         /* the coordinator */
    cadre_task_t worker;
    cadre_routing_id_t ps; /* as the control ROUTER knows it */
    uint64_t epoch;
    uint64_t request;
    pid_t process;
    cadre_frames_t frames;
    char endpoint[CADRE_ENDPOINT_TEXT_SIZE]; /* of the coordinator */
} peers_t;

/* Starts $CADRE_BIN_DIR/cadre-ps with this coordinator and up to two more words. */
void peers_start(peers_t *self, const char *first, const char *second);

/* Binds the coordinator to `address`, which another socket may have closed just now. */
void peers_bind(peers_t *self, const char *address);

/* Binds the coordinator and starts the ps. */
peers_t peers_open(const char *first, const char *second);

/* The next message on `socket`; CADRE_ETIMEOUT when none comes. */
int peers_receive(peers_t *self, cadre_socket_t *socket, int timeout_ms, cadre_message_t *message);

/* Sends on `socket`, to the peer `to` of a ROUTER. */
void peers_send(peers_t *self, cadre_socket_t *socket, const cadre_routing_id_t *to,
                cadre_message_t *message);

/* Waits for a control message of `type`, skipping others. */
void peers_await_control(peers_t *self, cadre_message_type_t type, cadre_message_t *message);

/* Sends WELCOME to the ps. */
void peers_welcome(peers_t *self);

/* HELLO, WELCOME, and the worker's connection to the address announced. */
void peers_join(peers_t *self);

/* Asks on the control plane; the status in REPLY. */
int peers_ask_control(peers_t *self, cadre_message_t *message);

/* Asks on the data plane; the caller ends `answer`. */
void peers_ask_data(peers_t *self, cadre_message_t *message, cadre_message_t *answer);

/* Waits for the process; its exit status, or -1 - signal. */
int peers_await_exit(peers_t *self);

/* Kills the ps if it still runs, and closes everything. */
void peers_close(peers_t *self);

#endif
