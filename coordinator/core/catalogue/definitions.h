/*
 * definitions - the metadata of variables for workers: a log that only grows, which each worker is
 * sent from where it left off.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A record is the header of a VARIABLE message. The number of records is the version of the
 * catalogue: a worker says how many it has, and gets the rest, many in one message (DEFINITIONS).
 *
 * The log is cut into pages, and a page makes one such message. A full page never changes again, so
 * its message is encoded once and kept: all workers are sent the same chunk. A part of a page is
 * needed where the last page still grows, or where a worker has some records of a page already. Of
 * the messages of parts only the last few are kept, since workers that lack the same records ask
 * for them at about the same time.
 */
#ifndef CADRE_COORDINATOR_CORE_CATALOGUE_DEFINITIONS_H
#define CADRE_COORDINATOR_CORE_CATALOGUE_DEFINITIONS_H

#include <stdint.h>

#include "common/wire/outbox.h"

enum {
    CADRE_DEFINITIONS_PAGE_SIZE = 256 << 10, /* bytes of records from which on a page is full */
    /* How many messages with a part of a page are kept: one for workers that join, one for the
     * others. */
    CADRE_DEFINITIONS_RECENT = 2,
};

typedef struct {
    uint64_t first; /* how many records the log has before those of this page */
    uint64_t count;
    char *bytes; /* for each record its size (u32, little-endian) and its bytes */
    size_t size_bytes;
    size_t capacity;
    /* Cache: the encoded message with the whole page, once it was full and sent. */
    cadre_outbox_entry_t message;
} cadre_definitions_page_t;

/* The last records of a page, as a message. */
typedef struct {
    uint64_t first; /* how many records the log has before those of this message */
    uint64_t count;
    cadre_outbox_entry_t message;
} cadre_definitions_part_t;

/* Zeroed memory is an empty log. */
typedef struct {
    uint64_t count; /* how many records the log has: its version */
    cadre_definitions_page_t *pages;
    size_t page_count;
    cadre_definitions_part_t recent[CADRE_DEFINITIONS_RECENT]; /* cache: messages of parts */
    /* Index of the one that is replaced next. */
    size_t recent_next;
} cadre_definitions_t;

void cadre_definitions_fini(cadre_definitions_t *self);

/* Appends a record, the header of `variable`: a message VARIABLE, which stays the caller's. */
void cadre_definitions_add(cadre_definitions_t *self, const cadre_message_t *variable);

/* Sends all records but the first `known`, which the worker has already. `sender` is an empty
 * message with the sender's incarnation and epoch. Returns the number of messages. */
size_t cadre_definitions_send(cadre_definitions_t *self, const cadre_message_t *sender,
                              const cadre_task_t *to, uint64_t known, cadre_outbox_t *outbox);

#endif
