/*
 * control_loop - one ps from its first HELLO to its last GOODBYE: the control socket, and the shard
 * and store actors behind it.
 *
 * Owner:   main, or who hosts a ps in its own process.
 * Thread:  its owner's; its actors have their own. It does nothing that takes long, so heartbeats
 *          go out whatever the shard is doing.
 */
#ifndef CADRE_PS_CONTROL_LOOP_H
#define CADRE_PS_CONTROL_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/http/http_server.h"
#include "common/net/endpoint.h"
#include "common/net/security.h"
#include "common/net/shortcut.h"
#include "ps/folders.h"

typedef struct {
    cadre_endpoint_t coordinator;
    cadre_endpoint_t address; /* where the data socket is bound; port 0: any free one */
    uint32_t index;           /* index of this ps; CADRE_INDEX_ANY: the coordinator chooses */
    uint64_t incarnation;
    uint64_t size_bytes_max;   /* most bytes of the shard's values and slots */
    unsigned lanes;            /* threads that apply updates, the shard's own among them, */
    unsigned table_lanes;      /* and for rows of tables; not more than `lanes`: as many as these */
    cadre_security_t security; /* how connections beyond this machine are protected */
    bool wait;                 /* whether to wait for another session when one has ended */
    uint64_t away_ms; /* leave when a coordinator that was there is away for so long; 0: never */
    const cadre_folders_t *folders; /* folders that checkpoints may be in; borrowed */
    int signals;                    /* a signalfd, any signal of which means to leave; borrowed;
                                       -1: no signals are read */
    /* A server that was opened for the threads CADRE_CONTROL_ACTORS, and shows whether each of them
     * makes progress; borrowed. NULL: no HTTP. */
    cadre_http_server_t *http;
    /* The ZeroMQ context of a coordinator in this process, whose security this ps then shares, as
     * it shares the process's log; borrowed. NULL: this ps makes a context of its own, and names
     * the log after itself. */
    cadre_context_t *context;
    cadre_shortcut_t *shortcut; /* from a worker in this process, borrowed; NULL: there is none */
} cadre_control_options_t;

/* The threads of a ps whose progress options.http shows. */
enum { CADRE_CONTROL_TURN, CADRE_CONTROL_SHARD_TURN, CADRE_CONTROL_ACTOR_COUNT };
extern const char *const CADRE_CONTROL_ACTORS[CADRE_CONTROL_ACTOR_COUNT];

typedef struct cadre_control_loop cadre_control_loop_t;

/* Binds, connects and starts the actors. Fails with CADRE_EREFUSED, CADRE_EIO or CADRE_EINVALID as
 * cadre_socket_bind and cadre_socket_connect, with CADRE_ECONFIG and others as
 * cadre_security_apply. */
int cadre_control_loop_open(const cadre_control_options_t *options, cadre_control_loop_t **out);

/* Returns the data address that peers connect to. */
const char *cadre_control_loop_address(const cadre_control_loop_t *self);

/* Serves until the session has ended (and options.wait is false), a signal has come, or a message
 * has come on `owner`, the pipe of who hosts this ps (NULL: nobody). Returns the number of that
 * signal, or 0. */
int cadre_control_loop_run(cadre_control_loop_t *self, void *owner);

/* Returns why the coordinator has refused this ps (CADRE_EPROTOCOL, CADRE_EREFUSED, ...); 0 when it
 * has not. */
int cadre_control_loop_refused(const cadre_control_loop_t *self);

/* Lets queued messages leave, ends the actors, and frees the loop. Fails with CADRE_ETIMEOUT, and
 * frees nothing, when an actor does not end: the process has to end with _exit then. */
int cadre_control_loop_close(cadre_control_loop_t **self_p);

#endif
