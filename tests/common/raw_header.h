/*
 * raw_header - headers written straight with msgpack-c, right or wrong on purpose, for tests.
 */
#ifndef CADRE_TESTS_COMMON_RAW_HEADER_H
#define CADRE_TESTS_COMMON_RAW_HEADER_H

#include <msgpack.h>

#include "tests/common/message_sample.h"

/* How one field of a header is written; the others are as in the sample. */
typedef enum {
    RAW_SAMPLE,
    RAW_AT_LIMIT,
    RAW_ABOVE_LIMIT,
    RAW_AS_U64, /* wrong types, from here on; see raw_type_fits */
    RAW_AS_STR,
    RAW_AS_BIN,
    RAW_AS_ARRAY,
    RAW_AS_NIL,
    RAW_AS_NEGATIVE,
    RAW_AS_DOUBLE,
    RAW_AS_TRUE,
    RAW_AS_MAP,
    RAW_AS_EXT,
    RAW_END,
} raw_variant_t;

static inline void
raw_string(msgpack_packer *packer, size_t length)
{
    static const char letters[256 + 1] =
        "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl"
        "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl"
        "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl"
        "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl";
    msgpack_pack_str(packer, length);
    msgpack_pack_str_body(packer, letters, length);
}

static inline void
raw_zeros(msgpack_packer *packer, size_t size_bytes)
{
    static const char zeros[CADRE_LARGE_HEADER_SIZE_MAX] = {0};
    msgpack_pack_bin(packer, size_bytes);
    msgpack_pack_bin_body(packer, zeros, size_bytes);
}

static inline void
raw_strings(msgpack_packer *packer, size_t count, size_t length)
{
    msgpack_pack_array(packer, count);
    for (size_t i = 0; i < count; i++) {
        raw_string(packer, length);
    }
}

/* A field whose number, bytes or elements are `amount`. */
static inline void
raw_amount(msgpack_packer *packer, cadre_field_kind_t kind, uint64_t amount)
{
    switch (kind) {
    case CADRE_KIND_U64:
        msgpack_pack_uint64(packer, amount);
        break;
    case CADRE_KIND_STR:
    case CADRE_KIND_TEXT:
        raw_string(packer, amount);
        break;
    case CADRE_KIND_U64S:
    case CADRE_KIND_F64S:
        raw_zeros(packer, amount * 8);
        break;
    case CADRE_KIND_STRS:
        raw_strings(packer, amount, 1);
        break;
    }
}

static inline void
raw_typed(msgpack_packer *packer, raw_variant_t variant)
{
    switch (variant) {
    case RAW_AS_U64:
        msgpack_pack_uint64(packer, 1);
        break;
    case RAW_AS_STR:
        raw_string(packer, 1);
        break;
    case RAW_AS_BIN:
        raw_zeros(packer, 8);
        break;
    case RAW_AS_ARRAY:
        msgpack_pack_array(packer, 0);
        break;
    case RAW_AS_NIL:
        msgpack_pack_nil(packer);
        break;
    case RAW_AS_NEGATIVE:
        msgpack_pack_int64(packer, -1);
        break;
    case RAW_AS_DOUBLE:
        msgpack_pack_double(packer, 1);
        break;
    case RAW_AS_TRUE:
        msgpack_pack_true(packer);
        break;
    case RAW_AS_MAP:
        msgpack_pack_map(packer, 0);
        break;
    case RAW_AS_EXT:
        msgpack_pack_ext(packer, 1, 7);
        msgpack_pack_ext_body(packer, "x", 1);
        break;
    default:
        break;
    }
}

/* True when a field of `kind` is of the type that `variant` writes. */
static inline bool
raw_type_fits(raw_variant_t variant, cadre_field_kind_t kind)
{
    switch (kind) {
    case CADRE_KIND_U64:
        return variant == RAW_AS_U64;
    case CADRE_KIND_STR:
    case CADRE_KIND_TEXT:
        return variant == RAW_AS_STR;
    case CADRE_KIND_U64S:
    case CADRE_KIND_F64S:
        return variant == RAW_AS_BIN;
    case CADRE_KIND_STRS:
        return variant == RAW_AS_ARRAY;
    }
    return false;
}

static inline void
raw_sample(msgpack_packer *packer, const cadre_field_schema_t *field, const void *value)
{
    switch (field->kind) {
    case CADRE_KIND_U64:
        msgpack_pack_uint64(packer, *(const uint64_t *)value);
        break;
    case CADRE_KIND_STR:
    case CADRE_KIND_TEXT: {
        const char *text = *(const char *const *)value;
        msgpack_pack_str(packer, strlen(text));
        msgpack_pack_str_body(packer, text, strlen(text));
        break;
    }
    case CADRE_KIND_U64S:
    case CADRE_KIND_F64S: {
        const cadre_u64s_t *list = value;
        msgpack_pack_bin(packer, list->count * 8);
        msgpack_pack_bin_body(packer, list->items, list->count * 8);
        break;
    }
    case CADRE_KIND_STRS: {
        const cadre_strs_t *list = value;
        msgpack_pack_array(packer, list->count);
        for (size_t i = 0; i < list->count; i++) {
            msgpack_pack_str(packer, strlen(list->items[i]));
            msgpack_pack_str_body(packer, list->items[i], strlen(list->items[i]));
        }
        break;
    }
    }
}

/* [protocol, type, request, incarnation, epoch, sizes of no chunk, of `count` elements in all. */
static inline void
raw_envelope(msgpack_packer *packer, uint64_t protocol, uint64_t type, size_t count)
{
    msgpack_pack_array(packer, count);
    msgpack_pack_uint64(packer, protocol);
    msgpack_pack_uint64(packer, type);
    msgpack_pack_uint64(packer, 1);
    msgpack_pack_uint64(packer, 2);
    msgpack_pack_uint64(packer, 3);
    raw_zeros(packer, 0);
}

/* The sample of `type` without chunks, field number `at` written as `variant` says; the first
 * `count` fields of it. */
static inline void
raw_message(msgpack_sbuffer *out, cadre_message_type_t type, size_t count, size_t at,
            raw_variant_t variant)
{
    const cadre_message_schema_t *schema = cadre_message_schema((uint64_t)type);
    cadre_message_t message = sample_message(type);
    msgpack_packer packer;
    msgpack_packer_init(&packer, out, msgpack_sbuffer_write);
    raw_envelope(&packer, cadre_message_protocol((uint64_t)type), (uint64_t)type,
                 CADRE_ENVELOPE_COUNT + count);
    for (size_t i = 0; i < count; i++) {
        const cadre_field_schema_t *field = &schema->fields[i];
        if (i != at || variant == RAW_SAMPLE) {
            raw_sample(&packer, field, (const char *)&message + field->offset);
        } else if (variant == RAW_AT_LIMIT || variant == RAW_ABOVE_LIMIT) {
            raw_amount(&packer, field->kind, field->limit + (variant == RAW_ABOVE_LIMIT));
        } else {
            raw_typed(&packer, variant);
        }
    }
    cadre_message_fini(&message);
}

#endif
