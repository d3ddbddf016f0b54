/*
 * fuzz_message - messages drawn from the bytes of a fuzzer, by the tables of the wire.
 *
 * A core gets only what has passed the decoder, so bytes that choose among valid messages reach it
 * where bytes of a header hardly would. Every field is drawn: small numbers, numbers around limits,
 * names that a test uses and names that it does not.
 */
#ifndef CADRE_TESTS_FUZZ_FUZZ_MESSAGE_H
#define CADRE_TESTS_FUZZ_FUZZ_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/wire/codec.h"
#include "common/wire/codec_table.h"
#include "common/wire/outbox.h"

enum { FUZZ_POOL_MAX = 1 << 14, FUZZ_LIST_SIZE_MAX = 1500, FUZZ_TYPES = 80, FUZZ_CHUNKS_MAX = 3 };

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
    uint64_t numbers[FUZZ_POOL_MAX]; /* lists of the message at hand */
    size_t number_count;
    const char *strings[64];
    size_t string_count;
} fuzz_t;

static const char *const FUZZ_WORDS[] = {
    "", "a", "w", "v", "work", "total", "shard-0.mdb", "../../x", "tcp://127.0.0.1:5", "%s%n"};

static inline unsigned
fuzz_byte(fuzz_t *self)
{
    return self->at < self->end ? *self->at++ : 0;
}

static inline bool
fuzz_more(const fuzz_t *self)
{
    return self->at < self->end;
}

static inline uint64_t
fuzz_number(fuzz_t *self, uint64_t limit)
{
    static const uint64_t telling[] = {15,
                                       16,
                                       63,
                                       64,
                                       100,
                                       255,
                                       1000,
                                       1001,
                                       1023,
                                       1024,
                                       4095,
                                       4096,
                                       65535,
                                       65536,
                                       INT32_MAX,
                                       UINT32_MAX,
                                       UINT64_C(1) << 32,
                                       UINT64_C(1) << 62,
                                       INT64_MAX,
                                       UINT64_MAX - 1,
                                       UINT64_MAX};
    unsigned byte = fuzz_byte(self);
    uint64_t value = byte < 160 ? byte % 16 : telling[byte % CADRE_COUNT_OF(telling)];
    return value > limit ? limit : value;
}

static inline const char *
fuzz_word(fuzz_t *self)
{
    return FUZZ_WORDS[fuzz_byte(self) % CADRE_COUNT_OF(FUZZ_WORDS)];
}

static inline cadre_u64s_t
fuzz_list(fuzz_t *self, const cadre_field_schema_t *field)
{
    unsigned byte = fuzz_byte(self);
    size_t count = byte < 240 ? byte % 9 : FUZZ_LIST_SIZE_MAX / 8;
    count = count > field->limit ? field->limit : count;
    if (self->number_count + count > FUZZ_POOL_MAX) {
        count = 0;
    }
    cadre_u64s_t list = {self->numbers + self->number_count, count};
    for (size_t i = 0; i < count; i++) {
        double value = (double)(int8_t)fuzz_byte(self) / 8;
        uint64_t *to = &self->numbers[self->number_count++];
        if (field->kind == CADRE_KIND_F64S) {
            memcpy(to, &value, sizeof(value));
        } else {
            self->at -= self->at < self->end; /* the same byte, as a number */
            *to = fuzz_number(self, UINT64_MAX);
        }
    }
    return list;
}

static inline void
fuzz_field(fuzz_t *self, const cadre_field_schema_t *field, void *to)
{
    cadre_strs_t strings = {self->strings + self->string_count, fuzz_byte(self) % 4};
    cadre_u64s_t list = {.items = NULL};
    switch (field->kind) {
    case CADRE_KIND_U64:
        *(uint64_t *)to = fuzz_number(self, field->limit);
        break;
    case CADRE_KIND_STR:
    case CADRE_KIND_TEXT:
        *(const char **)to = fuzz_word(self);
        break;
    case CADRE_KIND_U64S:
    case CADRE_KIND_F64S:
        list = fuzz_list(self, field);
        memcpy(to, &list, sizeof(list));
        break;
    case CADRE_KIND_STRS:
        strings.count = strings.count > field->limit ? field->limit : strings.count;
        for (size_t i = 0; i < strings.count; i++) {
            self->strings[self->string_count++] = fuzz_word(self);
        }
        memcpy(to, &strings, sizeof(strings));
        break;
    }
}

/* Draws a message that `sender` may send; false when the byte names none. */
static inline bool
fuzz_message(fuzz_t *self, cadre_role_t sender, cadre_message_t *message)
{
    uint64_t type = fuzz_byte(self) % FUZZ_TYPES;
    const cadre_message_schema_t *schema = cadre_message_schema(type);
    if (!schema || cadre_message_authorize((cadre_message_type_t)type, sender) < 0) {
        return false;
    }
    *message = (cadre_message_t){.type = (cadre_message_type_t)type};
    self->number_count = 0;
    self->string_count = 0;
    for (size_t i = 0; i < schema->field_count; i++) {
        const cadre_field_schema_t *field = &schema->fields[i];
        fuzz_field(self, field, (char *)message + field->offset);
    }
    return true;
}

static inline void
fuzz_chunks(fuzz_t *self, cadre_message_t *message)
{
    static const size_t sizes[] = {0, 4, 8, 12, 16, 64};
    unsigned count = fuzz_byte(self) % (2 * FUZZ_CHUNKS_MAX);
    for (unsigned i = 0; i < count && i < FUZZ_CHUNKS_MAX; i++) {
        size_t size_bytes = sizes[fuzz_byte(self) % CADRE_COUNT_OF(sizes)];
        cadre_chunk_t *chunk = cadre_chunk_new(size_bytes);
        memset(cadre_chunk_data(chunk), (int)fuzz_byte(self), size_bytes);
        cadre_message_add_chunk(message, chunk);
    }
}

/* Through the wire, as a receiver gets it. A drawn list of strings may be larger than its header.
 */
static inline bool
fuzz_wire(cadre_message_t *message, cadre_message_t *received)
{
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = cadre_message_encode(message);
    int status = cadre_message_decode(cadre_chunk_data(header), cadre_chunk_size_bytes(header),
                                      message->chunks, message->chunk_count, received);
    for (size_t i = 0; i < message->chunk_count; i++) {
        cadre_chunk_unref(&message->chunks[i]);
    }
    free(message->chunks);
    return status == 0;
}

/* What a core sends can be read. */
static inline void
fuzz_drain(cadre_outbox_t *outbox)
{
    cadre_outbox_entry_t entry;
    while (cadre_outbox_pop(outbox, &entry)) {
        cadre_message_t message;
        int status = cadre_message_decode(cadre_chunk_data(entry.header),
                                          cadre_chunk_size_bytes(entry.header), entry.chunks,
                                          entry.chunk_count, &message);
        cadre_assert(status == 0);
        entry.chunk_count = 0;
        cadre_message_fini(&message);
        cadre_outbox_entry_fini(&entry);
    }
}

#endif
