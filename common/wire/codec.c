#include "common/wire/codec.h"

#include <math.h>
#include <msgpack.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/status.h"
#include "common/base/uninitialized.h"
#include "common/base/utf8.h"
#include "common/wire/codec_table.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "lists travel as they lie in memory");
_Static_assert(sizeof(double) == sizeof(uint64_t), "both lists have elements of 8 bytes");

enum {
    TEXT_BUFFER_SIZE = CADRE_TEXT_SIZE_MAX + 1,
    SMALL_HEADER_SIZE = 512, /* most headers are smaller */
};

/* Where a message is written. What does not fit is only counted. */
typedef struct {
    uint8_t *at;
    size_t capacity;
    size_t size_bytes; /* of all pieces, also those that did not fit */
} writer_t;

/* Called by msgpack-c with each piece of output: appends it, or only counts its size. */
static int
write_bytes(void *data, const char *bytes, size_t size_bytes)
{
    writer_t *self = data;
    if (size_bytes > 0 && self->size_bytes + size_bytes <= self->capacity) {
        memcpy(self->at + self->size_bytes, bytes, size_bytes);
    }
    self->size_bytes += size_bytes;
    return 0;
}

/* Packs a string of ours, which must be clean UTF-8 within its limit; NULL is "". */
static void
pack_string(msgpack_packer *packer, const char *text, uint64_t limit)
{
    size_t length = text ? strlen(text) : 0;
    cadre_assert(length <= limit);
    cadre_assert(cadre_utf8_valid(text, length));
    msgpack_pack_str(packer, length);
    msgpack_pack_str_body(packer, text, length);
}

/* Packs a text for people, such as an error: cut to the limit, and bytes that are not allowed
 * replaced. */
static void
pack_text(msgpack_packer *packer, const char *text, uint64_t limit)
{
    CADRE_UNINITIALIZED char clean[TEXT_BUFFER_SIZE];
    cadre_assert(limit < sizeof(clean));
    size_t length = cadre_utf8_clean(text, limit, clean);
    msgpack_pack_str(packer, length);
    msgpack_pack_str_body(packer, clean, length);
}

/* Packs a list of 8-byte numbers as they lie in memory. */
static void
pack_list(msgpack_packer *packer, const void *items, size_t count, uint64_t limit)
{
    cadre_assert(count <= limit);
    msgpack_pack_bin(packer, count * sizeof(uint64_t));
    msgpack_pack_bin_body(packer, items, count * sizeof(uint64_t));
}

static void
pack_strings(msgpack_packer *packer, const cadre_strs_t *strings, uint64_t limit)
{
    cadre_assert(strings->count <= limit);
    msgpack_pack_array(packer, strings->count);
    for (size_t i = 0; i < strings->count; i++) {
        pack_string(packer, strings->items[i], CADRE_NAME_SIZE_MAX);
    }
}

/* Packs one field of a message, whose place and limit the table of messages gives. */
static void
pack_field(msgpack_packer *packer, const cadre_field_schema_t *field, const void *value)
{
    switch (field->kind) {
    case CADRE_KIND_U64:
        cadre_assert(*(const uint64_t *)value <= field->limit);
        msgpack_pack_uint64(packer, *(const uint64_t *)value);
        break;
    case CADRE_KIND_STR:
        pack_string(packer, *(const char *const *)value, field->limit);
        break;
    case CADRE_KIND_TEXT:
        pack_text(packer, *(const char *const *)value, field->limit);
        break;
    case CADRE_KIND_U64S: {
        const cadre_u64s_t *list = value;
        pack_list(packer, list->items, list->count, field->limit);
        break;
    }
    case CADRE_KIND_F64S: {
        const cadre_f64s_t *list = value;
        for (size_t i = 0; i < list->count; i++) {
            cadre_assert(isfinite(list->items[i]));
        }
        pack_list(packer, list->items, list->count, field->limit);
        break;
    }
    case CADRE_KIND_STRS:
        pack_strings(packer, value, field->limit);
        break;
    }
}

/* Packs the sizes of the payload chunks, which follow the header as frames of their own. */
static void
pack_sizes(msgpack_packer *packer, const cadre_message_t *message)
{
    msgpack_pack_bin(packer, message->chunk_count * sizeof(uint64_t));
    for (size_t i = 0; i < message->chunk_count; i++) {
        uint64_t size_bytes = cadre_chunk_size_bytes(message->chunks[i]);
        cadre_assert(size_bytes <= CADRE_CHUNK_SIZE_MAX);
        msgpack_pack_bin_body(packer, &size_bytes, sizeof(size_bytes));
    }
}

/* Writes a header: the envelope, which all messages have, then the fields of this type. */
static void
write_message(writer_t *writer, const cadre_message_schema_t *schema,
              const cadre_message_t *message)
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, writer, write_bytes);
    msgpack_pack_array(&packer, CADRE_ENVELOPE_COUNT + schema->field_count);
    msgpack_pack_uint64(&packer, cadre_message_protocol((uint64_t)message->type));
    msgpack_pack_uint64(&packer, (uint64_t)message->type);
    msgpack_pack_uint64(&packer, message->request);
    msgpack_pack_uint64(&packer, message->incarnation);
    msgpack_pack_uint64(&packer, message->epoch);
    pack_sizes(&packer, message);
    for (size_t i = 0; i < schema->field_count; i++) {
        pack_field(&packer, &schema->fields[i], (const char *)message + schema->fields[i].offset);
    }
}

/* Returns the header frame of a message, in a chunk of exactly its size: packs it into a buffer,
 * from which a small one is copied; a large one, whose size is known then, is packed again. */
cadre_chunk_t *
cadre_message_encode(const cadre_message_t *message)
{
    const cadre_message_schema_t *schema = cadre_message_schema((uint64_t)message->type);
    cadre_assert(schema);
    CADRE_UNINITIALIZED uint8_t buffer[SMALL_HEADER_SIZE];
    writer_t first = {.at = buffer, .capacity = sizeof(buffer)};
    write_message(&first, schema, message);
    cadre_assert(first.size_bytes <= schema->header_size_max);
    cadre_chunk_t *header = cadre_chunk_new(first.size_bytes);
    if (first.size_bytes <= sizeof(buffer)) {
        memcpy(cadre_chunk_data(header), buffer, first.size_bytes);
        return header;
    }

    writer_t again = {.at = cadre_chunk_data(header), .capacity = first.size_bytes};
    write_message(&again, schema, message);
    cadre_assert(again.size_bytes == first.size_bytes);
    return header;
}

/* Returns 0 when a role may send messages of this type, else CADRE_EREFUSED, by the table of
 * messages. */
int
cadre_message_authorize(cadre_message_type_t type, cadre_role_t sender)
{
    const cadre_message_schema_t *schema = cadre_message_schema((uint64_t)type);
    bool known = (unsigned)sender <= CADRE_ROLE_CLIENT;
    if (schema && known && schema->senders & UINT32_C(1) << sender) {
        return 0;
    }
    return cadre_fail(CADRE_EREFUSED, "%s: not allowed from a %s", cadre_message_type_text(type),
                      cadre_role_text(sender));
}
