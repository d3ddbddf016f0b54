/*
 * reader_actor - the thread that opens datasets and reads batches, so that neither computing nor
 * the network waits for a file.
 *
 * Owner:   main. Thread: opened and stopped on main's; its pipe belongs to the network actor in
 *          between.
 *
 * It handles messages in order: a batch is requested only after its dataset was opened.
 */
#ifndef CADRE_WORKER_SLOT_READER_ACTOR_H
#define CADRE_WORKER_SLOT_READER_ACTOR_H

#include "common/net/context.h"
#include "common/wire/message.h"
#include "worker/core/holding.h"
#include "worker/slot/load.h"

typedef struct cadre_reader_actor cadre_reader_actor_t;

/* A dataset to open, and the answer. Owner: who holds it. */
typedef struct {
    uint32_t dataset;
    uint64_t session; /* the asker's, given back untouched */
    char *description;
    cadre_dataset_ready_message_t ready; /* the answer; its text is `text` */
    char text[CADRE_TEXT_SIZE_MAX + 1];
} cadre_open_request_t;

void cadre_open_request_destroy(cadre_open_request_t **self_p);

/* Kinds on its pipe. */
enum {
    CADRE_READER_OPEN = 1, /* to and from: cadre_open_request_t */
    CADRE_READER_LOAD,     /* to and from: cadre_load_t */
    CADRE_READER_RESET,    /* to: close all datasets */
    CADRE_READER_RELEASE,  /* to: a cadre_holding_t to destroy */
};

/* Relative paths belong to `folder` (copied; NULL: the current one), and with `confined` so must
 * all others. CADRE_EIO. */
int cadre_reader_actor_open(cadre_context_t *context, const char *folder, bool confined,
                            cadre_reader_actor_t **out);

/* The network actor's end of the pipe. */
void *cadre_reader_actor_socket(cadre_reader_actor_t *self);

/* CADRE_ETIMEOUT when a file does not come to an end: nothing is freed then. */
int cadre_reader_actor_close(cadre_reader_actor_t **self_p, int timeout_ms);

#endif
