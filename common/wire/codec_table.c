#include "common/wire/codec_table.h"

#include <string.h>

#include "common/base/memory.h"
#include "common/spec/data_spec.h"
#include "common/wire/codec.h"
#include "common/wire/message.h"

/* The words that rows of CADRE_MESSAGE_LIST use. */
enum {
    SMALL = CADRE_HEADER_SIZE_MAX,
    LARGE = CADRE_LARGE_HEADER_SIZE_MAX,
    COORDINATOR = 1 << CADRE_ROLE_COORDINATOR,
    PS = 1 << CADRE_ROLE_PS,
    WORKER = 1 << CADRE_ROLE_WORKER,
    CLIENT = 1 << CADRE_ROLE_CLIENT,
    ASKERS = COORDINATOR | WORKER,
    LEAVERS = PS | WORKER | CLIENT,
};

/* All message structs are in one union, so their fields count from the same offset. */
#define FIELDS_OFFSET offsetof(cadre_message_t, hello)

#define FIELD(field_kind, field_name, field_limit)                                                 \
    {.kind = CADRE_KIND_##field_kind,                                                              \
     .name = #field_name,                                                                          \
     .offset = FIELDS_OFFSET + offsetof(row_t, field_name),                                        \
     .limit = (field_limit)},

/* Returns the schema of a message type, made from the table of all messages; NULL for a number that
 * is no type. */
const cadre_message_schema_t *
cadre_message_schema(uint64_t type)
{
    /* The row without a name at the end of `fields` is there because a message may have no field.
     */
    switch (type) {
#define X(name, NAME, number, limit, from, to_plane, to)                                           \
    case number: {                                                                                 \
        typedef cadre_##name##_message_t row_t;                                                    \
        static const cadre_field_schema_t fields[] = {                                             \
            CADRE_##NAME##_FIELDS(FIELD){.offset = sizeof(row_t)}};                                \
        static const cadre_message_schema_t schema = {.text = #NAME,                               \
                                                      .header_size_max = (limit),                  \
                                                      .senders = (from),                           \
                                                      .receivers = (to),                           \
                                                      .plane = CADRE_PLANE_##to_plane,             \
                                                      .field_count = CADRE_COUNT_OF(fields) - 1,   \
                                                      .fields = fields};                           \
        return &schema;                                                                            \
    }
        CADRE_MESSAGE_LIST(X)
#undef X
    }
    return NULL;
}

uint64_t
cadre_message_protocol(uint64_t type)
{
    return type == CADRE_MESSAGE_REFUSED ? CADRE_PROTOCOL_GREETING : CADRE_PROTOCOL_VERSION;
}

/* Continues a 64-bit FNV-1a hash (Fowler, Noll, Vo) with more bytes. */
static uint64_t
hash_bytes(uint64_t hash, const void *bytes, size_t size_bytes)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size_bytes; i++) {
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Continues a hash with a message's number and name, and each field's name, kind and limit. */
static uint64_t
hash_schema(uint64_t hash, uint64_t number, const cadre_message_schema_t *schema)
{
    hash = hash_bytes(hash, &number, sizeof(number));
    hash = hash_bytes(hash, schema->text, strlen(schema->text) + 1);
    for (size_t i = 0; i < schema->field_count; i++) {
        const cadre_field_schema_t *field = &schema->fields[i];
        uint64_t numbers[] = {(uint64_t)field->kind, field->limit};
        hash = hash_bytes(hash, field->name, strlen(field->name) + 1);
        hash = hash_bytes(hash, numbers, sizeof(numbers));
    }
    return hash;
}

/* Returns a hash of all message tables of this build: a build with another hash would misread its
 * messages. */
uint64_t
cadre_message_schema_hash(void)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
#define X(name, NAME, number, ...) hash = hash_schema(hash, number, cadre_message_schema(number));
    CADRE_MESSAGE_LIST(X)
#undef X
    /* Counters are sent as lists of numbers: which counter stands where belongs to the layout, too.
     */
    static const char counters[] =
#define C(name) #name " "
        CADRE_PS_COUNTERS(C) "/ " CADRE_WORKER_COUNTERS(C) "/ " CADRE_TABLE_COUNTERS(C);
#undef C
    return hash_bytes(hash, counters, sizeof(counters));
}
