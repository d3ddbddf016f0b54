/*
 * message_sample - a message of each type with every field filled, made from the tables, for tests.
 *
 * Field i of a message gets a value that differs from its neighbours' in value and encoded length.
 */
#ifndef CADRE_TESTS_COMMON_MESSAGE_SAMPLE_H
#define CADRE_TESTS_COMMON_MESSAGE_SAMPLE_H

#include <string.h>

#include "common/wire/codec.h"
#include "common/wire/codec_table.h"

static const cadre_message_type_t sample_types[] = {
#define X(name, NAME, ...) CADRE_MESSAGE_##NAME,
    CADRE_MESSAGE_LIST(X)
#undef X
};

static inline uint64_t
sample_number(size_t i, uint64_t limit)
{
    static const uint64_t bases[] = {1, 200, 60000, UINT64_C(5000000000), UINT64_MAX - 32};
    uint64_t number = bases[i % 5] + i;
    return number <= limit ? number : limit;
}

static inline void
sample_field(void *value, const cadre_field_schema_t *field, size_t i)
{
    static const uint64_t numbers[] = {7, UINT64_C(1) << 40, UINT64_MAX};
    static const double doubles[] = {0.5, -0.0, 1e300};
    static const char *const strings[] = {"loss", "", "Größe"};
    size_t count = field->limit < 3 ? field->limit : 3;
    switch (field->kind) {
    case CADRE_KIND_U64:
        *(uint64_t *)value = sample_number(i, field->limit);
        break;
    case CADRE_KIND_STR:
    case CADRE_KIND_TEXT:
        *(const char **)value =
            i % 2 ? field->name : "a text of more than thirty-one bytes, ½ of it";
        break;
    case CADRE_KIND_U64S:
        *(cadre_u64s_t *)value = (cadre_u64s_t){.items = numbers, .count = count};
        break;
    case CADRE_KIND_F64S:
        *(cadre_f64s_t *)value = (cadre_f64s_t){.items = doubles, .count = count};
        break;
    case CADRE_KIND_STRS:
        *(cadre_strs_t *)value = (cadre_strs_t){.items = strings, .count = count};
        break;
    }
}

/* Chunks that a sample of `type` has: 0 to 2. */
static inline size_t
sample_chunk_count(cadre_message_type_t type)
{
    return (size_t)type % 3;
}

static inline cadre_chunk_t *
sample_chunk(size_t i)
{
    cadre_chunk_t *chunk = cadre_chunk_new(i == 0 ? 1 : 300);
    memset(cadre_chunk_data(chunk), (int)i, cadre_chunk_size_bytes(chunk));
    return chunk;
}

/* Ends with cadre_message_fini. */
static inline cadre_message_t
sample_message(cadre_message_type_t type)
{
    cadre_message_t message = {
        .type = type, .request = 1000, .incarnation = UINT64_C(0x0123456789abcdef), .epoch = 70000};
    const cadre_message_schema_t *schema = cadre_message_schema((uint64_t)type);
    for (size_t i = 0; i < schema->field_count; i++) {
        sample_field((char *)&message + schema->fields[i].offset, &schema->fields[i], i);
    }
    for (size_t i = 0; i < sample_chunk_count(type); i++) {
        cadre_message_add_chunk(&message, sample_chunk(i));
    }
    return message;
}

#endif
