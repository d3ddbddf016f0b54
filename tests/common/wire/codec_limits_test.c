#include "common/wire/codec.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "tests/common/raw_header.h"

TestSuite(codec_limits, .timeout = 240);

/* Decodes from an exact allocation and drops what comes out. */
static int
decode_with(const msgpack_sbuffer *header, cadre_chunk_t **chunks, size_t count)
{
    cadre_message_t message;
    uint8_t *bytes = cadre_calloc(header->size, 1);
    memcpy(bytes, header->data, header->size);
    int status = cadre_message_decode(bytes, header->size, chunks, count, &message);
    free(bytes);
    if (status == 0) {
        cadre_message_fini(&message);
    }
    return status;
}

static int
decode(const msgpack_sbuffer *header)
{
    return decode_with(header, NULL, 0);
}

static int
decode_variant(cadre_message_type_t type, size_t at, raw_variant_t variant)
{
    cadre_auto(msgpack_sbuffer_destroy) msgpack_sbuffer header;
    msgpack_sbuffer_init(&header);
    raw_message(&header, type, cadre_message_schema((uint64_t)type)->field_count, at, variant);
    return decode(&header);
}

/* --- fields --- */

Test(codec_limits, takes_every_field_at_its_limit_and_not_above)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(sample_types); i++) {
        const cadre_message_schema_t *schema = cadre_message_schema((uint64_t)sample_types[i]);
        for (size_t at = 0; at < schema->field_count; at++) {
            const cadre_field_schema_t *field = &schema->fields[at];
            cr_assert_eq(decode_variant(sample_types[i], at, RAW_AT_LIMIT), 0, "%s",
                         cadre_error_text());
            if (field->kind == CADRE_KIND_U64 && field->limit == UINT64_MAX) {
                continue;
            }
            cr_assert_eq(decode_variant(sample_types[i], at, RAW_ABOVE_LIMIT), CADRE_EMALFORMED,
                         "%s %s", schema->text, field->name);
            char expected[128];
            snprintf(expected, sizeof(expected), "%s: field %s: ", schema->text, field->name);
            bool scanned = field->limit == CADRE_HEADER_STRING_MAX &&
                           (field->kind == CADRE_KIND_STR || field->kind == CADRE_KIND_TEXT);
            cr_assert(scanned || strncmp(cadre_error_text(), expected, strlen(expected)) == 0, "%s",
                      cadre_error_text());
        }
    }
}

Test(codec_limits, names_message_and_field)
{
    decode_variant(CADRE_MESSAGE_CLOSURE, 1, RAW_ABOVE_LIMIT);
    cr_assert_str_eq(cadre_error_text(),
                     "CLOSURE: field attempt: 4294967296 is over its limit 4294967295");
    decode_variant(CADRE_MESSAGE_CLOSURE, 1, RAW_AS_STR);
    cr_assert_str_eq(cadre_error_text(),
                     "CLOSURE: field attempt: is a string and should be an integer");
}

Test(codec_limits, refuses_every_other_type_in_a_field)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(sample_types); i++) {
        const cadre_message_schema_t *schema = cadre_message_schema((uint64_t)sample_types[i]);
        for (size_t at = 0; at < schema->field_count; at++) {
            for (raw_variant_t variant = RAW_AS_U64; variant < RAW_END; variant++) {
                if (raw_type_fits(variant, schema->fields[at].kind)) {
                    continue;
                }
                cr_assert_eq(decode_variant(sample_types[i], at, variant), CADRE_EMALFORMED,
                             "%s %s as %d", schema->text, schema->fields[at].name, (int)variant);
            }
        }
    }
}

Test(codec_limits, refuses_too_few_and_too_many_fields)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(sample_types); i++) {
        size_t count = cadre_message_schema((uint64_t)sample_types[i])->field_count;
        cadre_auto(msgpack_sbuffer_destroy) msgpack_sbuffer few;
        msgpack_sbuffer_init(&few);
        if (count > 0) {
            raw_message(&few, sample_types[i], count - 1, 0, RAW_SAMPLE);
            cr_assert_eq(decode(&few), CADRE_EMALFORMED);
        }
        cadre_auto(msgpack_sbuffer_destroy) msgpack_sbuffer many;
        msgpack_sbuffer_init(&many);
        raw_message(&many, sample_types[i], count, 0, RAW_SAMPLE);
        msgpack_packer packer;
        msgpack_packer_init(&packer, &many, msgpack_sbuffer_write);
        msgpack_pack_uint64(&packer, 1);
        cr_assert_eq(decode(&many), CADRE_EMALFORMED, "after the end");
        if (CADRE_ENVELOPE_COUNT + count == 15) {
            continue; /* the array's head would grow */
        }
        many.data[many.data[0] == (char)0xdc ? 2 : 0]++;
        cr_assert_eq(decode(&many), CADRE_EMALFORMED, "in the array");
    }
}

/* A CREATE with a list of one double. */
static int
decode_double(double number)
{
    const cadre_message_schema_t *schema = cadre_message_schema(CADRE_MESSAGE_CREATE);
    cadre_message_t message = sample_message(CADRE_MESSAGE_CREATE);
    message.create.initializer_parameters = (cadre_f64s_t){.items = &number, .count = 1};
    cadre_auto(msgpack_sbuffer_destroy) msgpack_sbuffer header;
    msgpack_sbuffer_init(&header);
    msgpack_packer packer;
    msgpack_packer_init(&packer, &header, msgpack_sbuffer_write);
    raw_envelope(&packer, CADRE_PROTOCOL_VERSION, CADRE_MESSAGE_CREATE,
                 CADRE_ENVELOPE_COUNT + schema->field_count);
    for (size_t i = 0; i < schema->field_count; i++) {
        raw_sample(&packer, &schema->fields[i], (const char *)&message + schema->fields[i].offset);
    }
    cadre_message_fini(&message);
    return decode(&header);
}

Test(codec_limits, takes_finite_doubles_only)
{
    cr_assert_eq(decode_double(-1.7976931348623157e308), 0);
    cr_assert_eq(decode_double(5e-324), 0);
    cr_assert_eq(decode_double(INFINITY), CADRE_EMALFORMED);
    cr_assert_eq(decode_double(-INFINITY), CADRE_EMALFORMED);
    cr_assert_eq(decode_double(NAN), CADRE_EMALFORMED);
    cr_assert_str_eq(cadre_error_text(),
                     "CREATE: field initializer_parameters: element 0 is not finite");
}

/* A CLOSURE_DONE with `count` names, the first written by `raw`. */
static int
decode_names(size_t count, size_t length, raw_variant_t variant)
{
    const cadre_message_schema_t *schema = cadre_message_schema(CADRE_MESSAGE_CLOSURE_DONE);
    cadre_auto(msgpack_sbuffer_destroy) msgpack_sbuffer header;
    msgpack_sbuffer_init(&header);
    msgpack_packer packer;
    msgpack_packer_init(&packer, &header, msgpack_sbuffer_write);
    raw_envelope(&packer, CADRE_PROTOCOL_VERSION, CADRE_MESSAGE_CLOSURE_DONE,
                 CADRE_ENVELOPE_COUNT + schema->field_count);
    for (size_t i = 0; i < schema->field_count; i++) {
        if (schema->fields[i].kind != CADRE_KIND_STRS) {
            raw_amount(&packer, schema->fields[i].kind, 0);
        } else if (variant == RAW_SAMPLE) {
            raw_strings(&packer, count, length);
        } else {
            msgpack_pack_array(&packer, 1);
            raw_typed(&packer, variant);
        }
    }
    return decode(&header);
}

Test(codec_limits, holds_for_each_string_of_a_list)
{
    cr_assert_eq(decode_names(CADRE_RESULTS_MAX, CADRE_NAME_SIZE_MAX, RAW_SAMPLE), 0);
    cr_assert_eq(decode_names(3, CADRE_NAME_SIZE_MAX + 1, RAW_SAMPLE), CADRE_EMALFORMED);
    cr_assert_str_eq(cadre_error_text(),
                     "CLOSURE_DONE: field names: string 0 has 129 bytes, over its limit 128");
    cr_assert_eq(decode_names(CADRE_RESULTS_MAX + 1, 1, RAW_SAMPLE), CADRE_EMALFORMED);
    cr_assert_eq(decode_names(1000, 1, RAW_SAMPLE), CADRE_EMALFORMED);
    cr_assert_eq(decode_names(1, 0, RAW_AS_STR), 0);
    for (raw_variant_t variant = RAW_AS_BIN; variant < RAW_END; variant++) {
        cr_assert_eq(decode_names(1, 0, variant), CADRE_EMALFORMED, "%d", (int)variant);
    }
    cr_assert_eq(decode_names(1, 0, RAW_AS_U64), CADRE_EMALFORMED);
}

/* --- envelope --- */

static int
decode_envelope(uint64_t protocol, uint64_t type, size_t count)
{
    cadre_auto(msgpack_sbuffer_destroy) msgpack_sbuffer header;
    msgpack_sbuffer_init(&header);
    msgpack_packer packer;
    msgpack_packer_init(&packer, &header, msgpack_sbuffer_write);
    raw_envelope(&packer, protocol, type, count);
    return decode(&header);
}

Test(codec_limits, speaks_one_protocol)
{
    cr_assert_eq(decode_envelope(CADRE_PROTOCOL_VERSION, CADRE_MESSAGE_DRAIN, 6), 0);
    cr_assert_eq(decode_envelope(CADRE_PROTOCOL_VERSION + 1, CADRE_MESSAGE_DRAIN, 6),
                 CADRE_EPROTOCOL);
    cr_assert_str_eq(cadre_error_text(), "header: protocol 2, and this is protocol 1");
    cr_assert_eq(decode_envelope(0, CADRE_MESSAGE_DRAIN, 6), CADRE_EPROTOCOL);
    cr_assert_eq(decode_envelope(UINT64_MAX, 9999, 6), CADRE_EPROTOCOL);
    /* Whatever another protocol does beyond its number, the number is what is told. */
    static const uint8_t future[] = {0x92, 99, 0xc0};
    cr_assert_eq(cadre_message_decode(future, sizeof(future), NULL, 0, NULL), CADRE_EPROTOCOL);
}

/* A HELLO that a later release may send: `protocol`, more fields, of kinds that we do not know. */
static int
decode_greeting(uint64_t protocol, uint64_t type, const char *build, cadre_message_t *message)
{
    cadre_auto(msgpack_sbuffer_destroy) msgpack_sbuffer header;
    msgpack_sbuffer_init(&header);
    msgpack_packer packer;
    msgpack_packer_init(&packer, &header, msgpack_sbuffer_write);
    raw_envelope(&packer, protocol, type, 12);
    msgpack_pack_uint64(&packer, 2);
    msgpack_pack_uint64(&packer, 5);
    msgpack_pack_uint64(&packer, 77);
    msgpack_pack_str(&packer, strlen(build));
    msgpack_pack_str_body(&packer, build, strlen(build));
    msgpack_pack_nil(&packer);
    msgpack_pack_double(&packer, 0.5);
    return cadre_message_decode_greeting(header.data, header.size, message);
}

Test(codec_limits, reads_the_beginning_of_a_hello_of_any_protocol)
{
    cadre_message_t message;
    char build[CADRE_BUILD_SIZE_MAX + 2];
    memset(build, 'b', sizeof(build) - 1);
    build[sizeof(build) - 1] = '\0';
    cr_assert_eq(decode_greeting(2, CADRE_MESSAGE_HELLO, "9.9", &message), 0, "%s",
                 cadre_error_text());
    cr_assert_eq(message.type, CADRE_MESSAGE_HELLO);
    cr_assert_eq(message.hello.lowest, 2);
    cr_assert_eq(message.hello.highest, 5);
    cr_assert_eq(message.hello.schema, 77);
    cr_assert_str_eq(message.hello.build, "9.9");
    cr_assert_str_eq(message.hello.host, "");
    cadre_message_fini(&message);
    cr_assert_eq(decode_greeting(2, CADRE_MESSAGE_DRAIN, "9.9", &message), CADRE_EMALFORMED);
    cr_assert_eq(decode_greeting(2, CADRE_MESSAGE_HELLO, build, &message), CADRE_EMALFORMED);
    cr_assert_eq(decode_greeting(2, CADRE_MESSAGE_HELLO, build + 1, &message), 0);
    cadre_message_fini(&message);
    cr_assert_eq(decode_greeting(2, CADRE_MESSAGE_HELLO, "\x1b[31m", &message), CADRE_EMALFORMED);
    static const uint8_t cut[] = {0x9c, 2, 1, 0};
    cr_assert_eq(cadre_message_decode_greeting(cut, sizeof(cut), &message), CADRE_EMALFORMED);
}

Test(codec_limits, reads_refused_in_the_protocol_of_greetings_only)
{
    cadre_message_t sample = {.type = CADRE_MESSAGE_REFUSED, .refused = {.text = "no"}};
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = cadre_message_encode(&sample);
    uint8_t *bytes = cadre_chunk_data(header);
    cadre_message_t message;
    cr_assert_eq(bytes[1], CADRE_PROTOCOL_GREETING);
    cr_assert_eq(cadre_message_decode(bytes, cadre_chunk_size_bytes(header), NULL, 0, &message), 0);
    cr_assert_str_eq(message.refused.text, "no");
    cadre_message_fini(&message);
    bytes[1] = CADRE_PROTOCOL_VERSION;
    cr_assert_eq(cadre_message_decode(bytes, cadre_chunk_size_bytes(header), NULL, 0, &message),
                 CADRE_EPROTOCOL);
}

Test(codec_limits, knows_its_types)
{
    for (uint64_t type = 0; type < 300; type++) {
        int status = decode_envelope(cadre_message_protocol(type), type, 6);
        const cadre_message_schema_t *schema = cadre_message_schema(type);
        cr_assert_eq(status, schema && schema->field_count == 0 ? 0 : CADRE_EMALFORMED);
    }
    decode_envelope(CADRE_PROTOCOL_VERSION, 77, 6);
    cr_assert_str_eq(cadre_error_text(), "header: 77 is no message type");
    cr_assert_eq(decode_envelope(CADRE_PROTOCOL_VERSION, (UINT64_C(1) << 32) + 5, 6),
                 CADRE_EMALFORMED);
}

Test(codec_limits, checks_the_types_of_the_envelope)
{
    for (size_t at = 0; at < CADRE_ENVELOPE_COUNT; at++) {
        for (raw_variant_t variant = RAW_AS_U64; variant < RAW_END; variant++) {
            if (variant == (at < 5 ? RAW_AS_U64 : RAW_AS_BIN)) {
                continue;
            }
            cadre_auto(msgpack_sbuffer_destroy) msgpack_sbuffer header;
            msgpack_sbuffer_init(&header);
            msgpack_packer packer;
            msgpack_packer_init(&packer, &header, msgpack_sbuffer_write);
            static const uint64_t envelope[] = {1, CADRE_MESSAGE_DRAIN, 1, 1, 1};
            msgpack_pack_array(&packer, CADRE_ENVELOPE_COUNT);
            for (size_t i = 0; i < CADRE_ENVELOPE_COUNT; i++) {
                if (i == at) {
                    raw_typed(&packer, variant);
                } else if (i < 5) {
                    msgpack_pack_uint64(&packer, envelope[i]);
                } else {
                    raw_zeros(&packer, 0);
                }
            }
            cr_assert_eq(decode(&header), CADRE_EMALFORMED, "element %zu as %d", at, (int)variant);
        }
    }
}

Test(codec_limits, needs_a_whole_envelope)
{
    for (size_t count = 0; count < CADRE_ENVELOPE_COUNT; count++) {
        static const uint8_t values[] = {1, CADRE_MESSAGE_DRAIN, 1, 1, 1};
        uint8_t bytes[1 + sizeof(values)] = {(uint8_t)(0x90 + count)};
        memcpy(bytes + 1, values, count);
        cr_assert_eq(cadre_message_decode(bytes, 1 + count, NULL, 0, NULL), CADRE_EMALFORMED);
    }
    cr_assert_eq(cadre_message_decode("", 0, NULL, 0, NULL), CADRE_EMALFORMED);
    cr_assert_eq(cadre_message_decode("\x01", 1, NULL, 0, NULL), CADRE_EMALFORMED);
}

/* --- header size --- */

/* A STOP whose header has `size_bytes` bytes: chunk sizes and a reason fill it. */
static int
decode_stop_of(size_t size_bytes)
{
    enum { CHUNKS = 480 };
    cadre_chunk_t *chunks[CHUNKS];
    cadre_auto(msgpack_sbuffer_destroy) msgpack_sbuffer header;
    msgpack_sbuffer_init(&header);
    msgpack_packer packer;
    msgpack_packer_init(&packer, &header, msgpack_sbuffer_write);
    msgpack_pack_array(&packer, CADRE_ENVELOPE_COUNT + 1);
    static const uint64_t envelope[] = {1, CADRE_MESSAGE_STOP, 1, 1, 1};
    for (size_t i = 0; i < CADRE_COUNT_OF(envelope); i++) {
        msgpack_pack_uint64(&packer, envelope[i]);
    }
    raw_zeros(&packer, CHUNKS * 8);
    raw_string(&packer, size_bytes - header.size - 2);
    cr_assert_eq(header.size, size_bytes);
    for (size_t i = 0; i < CHUNKS; i++) {
        chunks[i] = cadre_chunk_new(0);
    }
    int status = decode_with(&header, chunks, CHUNKS);
    for (size_t i = 0; i < CHUNKS; i++) {
        cadre_chunk_unref(&chunks[i]);
    }
    return status;
}

Test(codec_limits, holds_small_messages_to_a_small_header)
{
    cr_assert_eq(decode_stop_of(CADRE_HEADER_SIZE_MAX - 1), 0);
    cr_assert_eq(decode_stop_of(CADRE_HEADER_SIZE_MAX), 0);
    cr_assert_eq(decode_stop_of(CADRE_HEADER_SIZE_MAX + 1), CADRE_EMALFORMED);
    cr_assert_str_eq(cadre_error_text(), "STOP: header of 4097 bytes is over its limit 4096");
}

Test(codec_limits, reads_no_header_over_the_large_limit)
{
    static uint8_t bytes[CADRE_LARGE_HEADER_SIZE_MAX + 1];
    cr_assert_eq(cadre_message_decode(bytes, sizeof(bytes), NULL, 0, NULL), CADRE_EMALFORMED);
    cr_assert_str_eq(cadre_error_text(),
                     "header: 65537 bytes and 0 chunks, where 65536 and 4096 are the limits");
}

Test(codec_limits, fit_into_the_header_all_at_once)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(sample_types); i++) {
        const cadre_message_schema_t *schema = cadre_message_schema((uint64_t)sample_types[i]);
        cadre_auto(msgpack_sbuffer_destroy) msgpack_sbuffer fields;
        msgpack_sbuffer_init(&fields);
        msgpack_packer packer;
        msgpack_packer_init(&packer, &fields, msgpack_sbuffer_write);
        for (size_t k = 0; k < schema->field_count; k++) {
            const cadre_field_schema_t *field = &schema->fields[k];
            if (strcmp(schema->text, "VALUES") == 0 && strcmp(field->name, "steps") == 0) {
                raw_zeros(&packer, 0); /* of a slot: never beside "unchanged", of rows */
            } else if (field->kind == CADRE_KIND_STRS) {
                raw_strings(&packer, field->limit, CADRE_NAME_SIZE_MAX);
            } else {
                raw_amount(&packer, field->kind, field->limit);
            }
        }
        size_t envelope_bytes = 3 + 1 + 1 + 3 * 9;
        size_t chunks = schema->header_size_max == CADRE_HEADER_SIZE_MAX
                            ? CADRE_SMALL_MESSAGE_CHUNKS_MAX
                            : CADRE_MESSAGE_CHUNKS_MAX;
        bool payload =
            strcmp(schema->text, "ACK") != 0 && strcmp(schema->text, "HELLO") != 0 &&
            strcmp(schema->text, "HEARTBEAT") != 0 && strcmp(schema->text, "CANCEL") != 0 &&
            strcmp(schema->text, "VARIABLE") != 0 && strcmp(schema->text, "END_STEP") != 0;
        size_t sizes_bytes = payload ? 5 + 8 * chunks : 2;
        cr_assert_leq(envelope_bytes + sizes_bytes + fields.size, schema->header_size_max, "%s",
                      schema->text);
    }
}

/* --- chunks --- */

/* A DRAIN whose sizes are told as `told`, and whose chunks have the sizes `came`. */
static int
decode_sizes(const uint64_t *told, size_t told_bytes, const size_t *came, size_t count)
{
    cadre_auto(msgpack_sbuffer_destroy) msgpack_sbuffer header;
    msgpack_sbuffer_init(&header);
    msgpack_packer packer;
    msgpack_packer_init(&packer, &header, msgpack_sbuffer_write);
    msgpack_pack_array(&packer, CADRE_ENVELOPE_COUNT);
    static const uint64_t envelope[] = {1, CADRE_MESSAGE_DRAIN, 1, 1, 1};
    for (size_t i = 0; i < CADRE_COUNT_OF(envelope); i++) {
        msgpack_pack_uint64(&packer, envelope[i]);
    }
    msgpack_pack_bin(&packer, told_bytes);
    msgpack_pack_bin_body(&packer, told, told_bytes);
    cadre_chunk_t *chunks[4] = {NULL};
    for (size_t i = 0; i < count; i++) {
        chunks[i] = cadre_chunk_new(came[i]);
    }
    int status = decode_with(&header, chunks, count);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(chunks[i] == NULL, status == 0);
        cadre_chunk_unref(&chunks[i]);
    }
    return status;
}

Test(codec_limits, pairs_each_chunk_with_the_size_it_was_sent_with)
{
    static const uint64_t told[] = {8, 0, CADRE_CHUNK_SIZE_MAX};
    static const size_t came[] = {8, 0, CADRE_CHUNK_SIZE_MAX};
    cr_assert_eq(decode_sizes(told, 24, came, 3), 0);
    cr_assert_eq(decode_sizes(told, 24, came, 2), CADRE_EMALFORMED, "one lost");
    cr_assert_eq(decode_sizes(told, 16, came, 3), CADRE_EMALFORMED, "one too many");
    cr_assert_eq(decode_sizes(told, 0, came, 1), CADRE_EMALFORMED, "one from nowhere");
    cr_assert_eq(decode_sizes(told, 8, came, 0), CADRE_EMALFORMED, "all lost");
    cr_assert_eq(decode_sizes(told, 23, came, 3), CADRE_EMALFORMED, "no whole number");
    cr_assert_eq(decode_sizes(told, 24, (size_t[]){8, 1, CADRE_CHUNK_SIZE_MAX}, 3),
                 CADRE_EMALFORMED);
    cr_assert_str_eq(cadre_error_text(), "DRAIN: field sizes: chunk 1 is told to have 0 bytes, "
                                         "came with 1, and may have 1048576");
    cr_assert_eq(decode_sizes((uint64_t[]){CADRE_CHUNK_SIZE_MAX + 1}, 8,
                              (size_t[]){CADRE_CHUNK_SIZE_MAX + 1}, 1),
                 CADRE_EMALFORMED);
    cr_assert_eq(decode_sizes((uint64_t[]){(UINT64_C(1) << 32) + 8}, 8, (size_t[]){8}, 1),
                 CADRE_EMALFORMED);
}

Test(codec_limits, takes_as_many_chunks_as_a_message_may_have)
{
    cadre_message_t push = {.type = CADRE_MESSAGE_PUSH};
    for (size_t i = 0; i < CADRE_MESSAGE_CHUNKS_MAX; i++) {
        cadre_message_add_chunk(&push, cadre_chunk_new(1));
    }
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = cadre_message_encode(&push);
    cadre_message_t back;
    int status = cadre_message_decode(cadre_chunk_data(header), cadre_chunk_size_bytes(header),
                                      push.chunks, push.chunk_count, &back);
    cr_assert_eq(status, 0);
    status = cadre_message_decode(cadre_chunk_data(header), cadre_chunk_size_bytes(header),
                                  back.chunks, CADRE_MESSAGE_CHUNKS_MAX + 1, NULL);
    cr_assert_eq(status, CADRE_EMALFORMED);
    cadre_message_fini(&back);
    cadre_message_fini(&push);
}
