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
#include "common/tensor/row_chunks.h"
#include "common/wire/message.h"
#include "worker/core/holding.h"
#include "worker/data/source.h"
#include "worker/slot/load.h"

typedef struct cadre_reader_actor cadre_reader_actor_t;

/* A dataset to open, and the answer. Owner: the actor that has it at the time. */
typedef struct {
    uint32_t dataset;
    uint64_t session;        /* a number of the asker's that the reader leaves as it is */
    char *description;       /* NULL: the rows are those of `rows` */
    cadre_row_chunks_t rows; /* dropped by the reader once the dataset is open */
    cadre_dataset_ready_message_t ready; /* the answer; its text is `text` */
    /* Of the answer: the dataset where its rows are in memory, which the asker may read as well,
     * until it sends RESET or another OPEN of the dataset; else NULL. */
    cadre_source_t *resident;
    uint64_t number; /* another number that the reader leaves as it is */
    char text[CADRE_TEXT_SIZE_MAX + 1];
} cadre_open_request_t;

void cadre_open_request_destroy(cadre_open_request_t **self_p);

/* Kinds of messages on the reader's pipe, and what they carry to the reader and from it. */
enum {
    CADRE_READER_OPEN = 1, /* to and from: cadre_open_request_t */
    CADRE_READER_LOAD,     /* to and from: cadre_load_t */
    CADRE_READER_RESET,    /* to: close all datasets */
    CADRE_READER_RELEASE,  /* to: a cadre_holding_t to destroy */
};

/* Starts the thread. Relative paths of datasets are below `folder` (copied; NULL: the current one);
 * with `confined` no file outside the folder is opened. Fails with CADRE_EIO when the system has no
 * thread or socket left. */
int cadre_reader_actor_open(cadre_context_t *context, const char *folder, bool confined,
                            cadre_reader_actor_t **out);

/* Returns the network actor's end of the pipe. */
void *cadre_reader_actor_socket(cadre_reader_actor_t *self);

/* Stops the thread and frees it. Fails with CADRE_ETIMEOUT, and frees nothing, when reading a file
 * does not end in `timeout_ms`. */
int cadre_reader_actor_close(cadre_reader_actor_t **self_p, int timeout_ms);

#endif
