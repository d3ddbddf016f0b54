/*
 * definitions - the metadata of variables for workers: a log that only grows, sent from where each
 * left off.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A record is the header of a VARIABLE message. Their number is the version of the catalogue: a
 * worker says how many it has, and gets the rest, many in one message (DEFINITIONS).
 *
 * The log is cut into pages, and a page is one such message. A page that is full never changes
 * again, so its message is encoded once and kept: all workers are sent the same chunk. The last
 * page still grows, and a worker may have some records of any: of the messages that these cases
 * need, parts of a page, only the last few are kept, since those who lack the same ask for it at
 * about the same time.
 */
#ifndef CADRE_COORDINATOR_CORE_CATALOGUE_DEFINITIONS_H
#define CADRE_COORDINATOR_CORE_CATALOGUE_DEFINITIONS_H

#include <stdint.h>

#include "common/wire/outbox.h"

enum {
    CADRE_DEFINITIONS_PAGE_SIZE = 256 << 10, /* bytes of records from which on a page is full */
    CADRE_DEFINITIONS_RECENT = 2, /* parts of pages kept encoded: what newcomers lack, and others */
};

typedef struct {
    uint64_t first; /* records before it */
    uint64_t count;
    char *bytes; /* (u32 little-endian, header) each */
    size_t size_bytes;
    size_t capacity;
    cadre_outbox_entry_t message; /* all of it, once it was full and was sent; a cache */
} cadre_definitions_page_t;

/* The last records of a page, as a message. */
typedef struct {
    uint64_t first; /* records before it */
    uint64_t count;
    cadre_outbox_entry_t message;
} cadre_definitions_part_t;

/* Zeroed memory is an empty log. */
typedef struct {
    uint64_t count; /* records: the version */
    cadre_definitions_page_t *pages;
    size_t page_count;
    cadre_definitions_part_t recent[CADRE_DEFINITIONS_RECENT]; /* a cache of parts */
    size_t recent_next;                                        /* which of them goes next */
} cadre_definitions_t;

void cadre_definitions_fini(cadre_definitions_t *self);

/* Appends a record: `variable` is a VARIABLE, which stays the caller's. */
void cadre_definitions_add(cadre_definitions_t *self, const cadre_message_t *variable);

/* Sends a worker that has the first `known` records all others. `sender` is an empty message with
 * the fields that say who sends it. Returns the number of messages. */
size_t cadre_definitions_send(cadre_definitions_t *self, const cadre_message_t *sender,
                              const cadre_task_t *to, uint64_t known, cadre_outbox_t *outbox);

#endif
