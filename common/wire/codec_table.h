/*
 * codec_table - the tables of proto-schemas/messages.h as data, for encoder, decoder and printer.
 *
 * Thread:  any; the tables are constant.
 */
#ifndef CADRE_COMMON_WIRE_CODEC_TABLE_H
#define CADRE_COMMON_WIRE_CODEC_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "common/wire/plane.h"

enum { CADRE_ENVELOPE_COUNT = 6 }; /* elements of a header before its fields */

typedef enum {
    CADRE_KIND_U64,
    CADRE_KIND_STR,
    CADRE_KIND_TEXT,
    CADRE_KIND_U64S,
    CADRE_KIND_F64S,
    CADRE_KIND_STRS,
} cadre_field_kind_t;

typedef struct {
    cadre_field_kind_t kind;
    const char *name;
    size_t offset; /* in cadre_message_t */
    uint64_t limit;
} cadre_field_schema_t;

typedef struct {
    const char *text; /* "CLOSURE" */
    size_t header_size_max;
    uint32_t senders;   /* bit 1 << role for each role that may send the message */
    uint32_t receivers; /* bit 1 << role for each role that the message is for */
    cadre_plane_t plane;
    size_t field_count;
    const cadre_field_schema_t *fields;
} cadre_message_schema_t;

/* Returns the schema of message number `type`; NULL for a number that is no message. */
const cadre_message_schema_t *cadre_message_schema(uint64_t type);

/* Returns the protocol version that the header of a message of `type` has. */
uint64_t cadre_message_protocol(uint64_t type);

#endif
