/*
 * definitions - what workers are told of variables: a log that only grows, sent from where each
 * left off.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A record is the header of a VARIABLE message. Their number is the version of the catalogue: a
 * worker says up to which it has them, and gets the rest, many in one message (DEFINITIONS). Each
 * page of the log is one such message, encoded once: all workers are sent the same chunk.
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
} cadre_definitions_page_t;

/* Some records of a page as a message. */
typedef struct {
    uint64_t first;
    uint64_t count;
    cadre_outbox_entry_t entry;
} cadre_definitions_part_t;

/* Zeroed memory is an empty log. */
typedef struct {
    uint64_t count; /* records: the version */
    cadre_definitions_page_t *pages;
    cadre_outbox_entry_t *entries; /* of each page that is full, once it was sent */
    size_t page_count;
    cadre_definitions_part_t recent[CADRE_DEFINITIONS_RECENT];
    size_t recent_next;
} cadre_definitions_t;

void cadre_definitions_fini(cadre_definitions_t *self);

/* Appends a record: `variable` is a VARIABLE, which stays the caller's. */
void cadre_definitions_add(cadre_definitions_t *self, const cadre_message_t *variable);

/* Sends `to` all records after the first `from`, and maybe some before, which the receiver passes
 * over. `envelope` has the fields of the sender. Returns the number of messages. */
size_t cadre_definitions_send(cadre_definitions_t *self, const cadre_message_t *envelope,
                              const cadre_task_t *to, uint64_t from, cadre_outbox_t *outbox);

#endif
