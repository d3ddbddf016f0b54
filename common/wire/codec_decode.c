#include "common/wire/codec.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/uninitialized.h"
#include "common/base/utf8.h"
#include "common/wire/codec_scan.h"
#include "common/wire/codec_table.h"

_Static_assert(sizeof(char *) <= sizeof(uint64_t), "cadre_scan_all counts 8 bytes per string");

/* The storage of a message being decoded: copies of lists are put at its front, where they are
 * aligned, copies of strings at its end. It has the size that cadre_scan_all has summed up, so
 * they never meet. */
typedef struct {
    uint64_t *lists;
    char *strings;
} storage_t;

typedef struct {
    cadre_scan_t scan;
    storage_t storage;
    const cadre_message_schema_t *schema;
} decoder_t;

/* Returns the next value of a header; cannot fail, since cadre_scan_all has accepted the header. */
static inline cadre_token_t
next(cadre_scan_t *scan)
{
    cadre_token_t token = {.bytes = NULL};
    int status = cadre_scan_next(scan, &token);
    cadre_assert(status == 0);
    return token;
}

/* Returns what a kind of value is called in error texts. */
static const char *
token_kind_text(cadre_token_kind_t kind)
{
    switch (kind) {
    case CADRE_TOKEN_U64:
        return "an integer";
    case CADRE_TOKEN_STR:
        return "a string";
    case CADRE_TOKEN_BIN:
        return "a bin";
    case CADRE_TOKEN_ARRAY:
        return "an array";
    }

    return "?";
}

/* Fails unless a value of the header is of the kind that its field wants. */
static int
check_kind(const char *message, const char *field, const cadre_token_t *token,
           cadre_token_kind_t kind)
{
    if (token->kind != kind) {
        return cadre_fail(CADRE_EMALFORMED, "%s: field %s: is %s and should be %s", message, field,
                          token_kind_text(token->kind), token_kind_text(kind));
    }
    return 0;
}

/* Fails when a number, or the size of a list or string (`unit`), is over the limit of its field. */
static int
check_limit(const decoder_t *self, const cadre_field_schema_t *field, uint64_t value,
            const char *unit)
{
    if (value > field->limit) {
        return cadre_fail(CADRE_EMALFORMED,
                          "%s: field %s: %" PRIu64 "%s is over its limit %" PRIu64,
                          self->schema->text, field->name, value, unit, field->limit);
    }
    return 0;
}

/* Copies a string to the end of the storage, with a 0 behind it. */
static const char *
copy_string(storage_t *storage, const cadre_token_t *token)
{
    if (token->value == 0) {
        return "";
    }
    storage->strings -= token->value + 1;
    memcpy(storage->strings, token->bytes, token->value);
    storage->strings[token->value] = '\0';
    return storage->strings;
}

/* Reads a list of 8-byte numbers into the decoder's storage, and checks its length; out->items is
 * NULL for an empty one. */
static int
read_list(decoder_t *self, const cadre_field_schema_t *field, const cadre_token_t *token,
          cadre_u64s_t *out)
{
    const char *text = self->schema->text;
    int status = check_kind(text, field->name, token, CADRE_TOKEN_BIN);
    if (status < 0) {
        return status;
    }

    if (token->value % sizeof(uint64_t) != 0) {
        return cadre_fail(CADRE_EMALFORMED, "%s: field %s: %" PRIu64 " bytes are no whole elements",
                          text, field->name, token->value);
    }

    size_t count = token->value / sizeof(uint64_t);
    status = check_limit(self, field, count, " elements");
    if (status < 0 || count == 0) {
        *out = (cadre_u64s_t){.items = NULL};
        return status;
    }

    cadre_assert(token->bytes); /* as of each bin */
    *out = (cadre_u64s_t){.items = self->storage.lists, .count = count};
    memcpy(self->storage.lists, token->bytes, token->value);
    self->storage.lists += count;
    return 0;
}

/* Reads a list of doubles, which all must be finite. */
static int
read_doubles(decoder_t *self, const cadre_field_schema_t *field, const cadre_token_t *token,
             cadre_f64s_t *out)
{
    cadre_u64s_t list;
    int status = read_list(self, field, token, &list);
    if (status < 0) {
        return status;
    }

    *out = (cadre_f64s_t){.items = (const double *)list.items, .count = list.count};
    for (size_t i = 0; i < out->count; i++) {
        if (!isfinite(out->items[i])) {
            return cadre_fail(CADRE_EMALFORMED, "%s: field %s: element %zu is not finite",
                              self->schema->text, field->name, i);
        }
    }

    return 0;
}

/* Reads a list of strings into the decoder's storage, and checks it against the limits of its
 * field. */
static int
read_strings(decoder_t *self, const cadre_field_schema_t *field, const cadre_token_t *token,
             cadre_strs_t *out)
{
    int status = check_kind(self->schema->text, field->name, token, CADRE_TOKEN_ARRAY);
    if (status == 0) {
        status = check_limit(self, field, token->value, " strings");
    }

    if (status < 0 || token->value == 0) {
        *out = (cadre_strs_t){.items = NULL};
        return status;
    }

    const char **items = (const char **)self->storage.lists;
    self->storage.lists += token->value;
    for (size_t i = 0; i < token->value; i++) {
        cadre_token_t string = next(&self->scan);
        status = check_kind(self->schema->text, field->name, &string, CADRE_TOKEN_STR);
        if (status < 0) {
            return status;
        }

        if (string.value > CADRE_NAME_SIZE_MAX) {
            return cadre_fail(CADRE_EMALFORMED,
                              "%s: field %s: string %zu has %" PRIu64 " bytes, over its limit %d",
                              self->schema->text, field->name, i, string.value,
                              CADRE_NAME_SIZE_MAX);
        }

        items[i] = copy_string(&self->storage, &string);
    }

    *out = (cadre_strs_t){.items = items, .count = token->value};
    return 0;
}

/* Reads a string into the decoder's storage, and checks it against the limit of its field. */
static int
read_string(decoder_t *self, const cadre_field_schema_t *field, const cadre_token_t *token,
            const char **out)
{
    int status = check_kind(self->schema->text, field->name, token, CADRE_TOKEN_STR);
    if (status < 0) {
        return status;
    }

    status = check_limit(self, field, token->value, " bytes");
    if (status < 0) {
        return status;
    }

    *out = copy_string(&self->storage, token);
    return 0;
}

/* Reads the next value of the header into one field of the message, whose kind and limit the table
 * gives. */
static int
read_field(decoder_t *self, const cadre_field_schema_t *field, void *value)
{
    cadre_token_t token = next(&self->scan);
    int status = 0;
    switch (field->kind) {
    case CADRE_KIND_U64:
        status = check_kind(self->schema->text, field->name, &token, CADRE_TOKEN_U64);
        if (status == 0) {
            status = check_limit(self, field, token.value, "");
        }
        *(uint64_t *)value = token.value;
        return status;
    case CADRE_KIND_STR:
    case CADRE_KIND_TEXT:
        return read_string(self, field, &token, value);
    case CADRE_KIND_U64S:
        return read_list(self, field, &token, value);
    case CADRE_KIND_F64S:
        return read_doubles(self, field, &token, value);
    case CADRE_KIND_STRS:
        return read_strings(self, field, &token, value);
    }

    return 0;
}

/* Fails with CADRE_EPROTOCOL for a header of another protocol version. Runs before the scan, since
 * only the first two values of such a header are known; allocates nothing. */
static int
check_protocol(const void *header, size_t size_bytes)
{
    cadre_scan_t scan;
    cadre_token_t token = {.bytes = NULL};

    cadre_scan_init(&scan, header, size_bytes);
    int status = cadre_scan_next(&scan, &token);
    if (status < 0) {
        return status;
    }

    status = check_kind("header", "(all)", &token, CADRE_TOKEN_ARRAY);
    if (status < 0) {
        return status;
    }

    status = cadre_scan_next(&scan, &token);
    if (status < 0) {
        return status;
    }

    status = check_kind("header", "protocol", &token, CADRE_TOKEN_U64);
    if (status < 0) {
        return status;
    }

    /* The type is wanted, too: REFUSED has a version of its own. */
    uint64_t protocol = token.value;
    uint64_t type = 0;
    if (cadre_scan_next(&scan, &token) == 0 && token.kind == CADRE_TOKEN_U64) {
        type = token.value;
    }

    if (protocol != cadre_message_protocol(type)) {
        return cadre_fail(CADRE_EPROTOCOL,
                          "header: protocol %" PRIu64 ", and this is protocol %" PRIu64, protocol,
                          cadre_message_protocol(type));
    }

    return 0;
}

/* Reads `count` values; fails unless each is of the kind given. */
static int
read_kinds(cadre_scan_t *scan, const cadre_token_kind_t *kinds, size_t count, cadre_token_t *tokens)
{
    for (size_t i = 0; i < count; i++) {
        int status = cadre_scan_next(scan, &tokens[i]);
        if (status < 0) {
            return status;
        }

        status = check_kind("greeting", "(first ones)", &tokens[i], kinds[i]);
        if (status < 0) {
            return status;
        }
    }

    return 0;
}

/* Decodes the part of a HELLO that is the same in all protocol versions, so that a task of another
 * version can be told why it is refused. All other fields become 0 and "". */
int
cadre_message_decode_greeting(const void *header, size_t size_bytes, cadre_message_t *message)
{
    enum { TYPE = 2, REQUEST, INCARNATION, EPOCH, SIZES, LOWEST };
    static const cadre_token_kind_t kinds[] = {
        CADRE_TOKEN_ARRAY,                                   /* of all that follows */
        CADRE_TOKEN_U64,   CADRE_TOKEN_U64, CADRE_TOKEN_U64, /* protocol, type, request */
        CADRE_TOKEN_U64,   CADRE_TOKEN_U64, CADRE_TOKEN_BIN, /* incarnation, epoch, sizes */
        CADRE_TOKEN_U64,   CADRE_TOKEN_U64,                  /* lowest, highest */
        CADRE_TOKEN_U64,   CADRE_TOKEN_STR};                 /* schema, build */
    cadre_token_t tokens[CADRE_COUNT_OF(kinds)];
    cadre_scan_t scan;

    if (size_bytes > CADRE_LARGE_HEADER_SIZE_MAX) {
        return cadre_fail(CADRE_EMALFORMED, "greeting: %zu bytes", size_bytes);
    }

    cadre_scan_init(&scan, header, size_bytes);
    int status = read_kinds(&scan, kinds, CADRE_COUNT_OF(kinds), tokens);
    if (status < 0) {
        return status;
    }

    /* `schema` and `build` follow `lowest` and `highest`. The array must not end before them. */
    const cadre_token_t *build = &tokens[LOWEST + 3];
    if (tokens[TYPE].value != CADRE_MESSAGE_HELLO || build->value > CADRE_BUILD_SIZE_MAX ||
        tokens[0].value < CADRE_COUNT_OF(kinds) - 1 ||
        !cadre_utf8_valid((const char *)build->bytes, build->value)) {
        return cadre_fail(CADRE_EMALFORMED, "greeting: no HELLO, or a build that is no short text");
    }

    char *text = cadre_calloc(build->value + 1, 1);
    memcpy(text, build->bytes, build->value);
    *message = (cadre_message_t){.type = CADRE_MESSAGE_HELLO,
                                 .request = tokens[REQUEST].value,
                                 .incarnation = tokens[INCARNATION].value,
                                 .epoch = tokens[EPOCH].value,
                                 .storage = text};
    message->hello = (cadre_hello_message_t){.lowest = tokens[LOWEST].value,
                                             .highest = tokens[LOWEST + 1].value,
                                             .schema = tokens[LOWEST + 2].value,
                                             .build = text,
                                             .host = "",
                                             .address = "",
                                             .devices = ""};
    return 0;
}

/* Reads the beginning of a header: the array, then protocol, type, request, incarnation and epoch;
 * checks size and number of fields for the type. The next value is `sizes`. */
static int
read_envelope(decoder_t *self, size_t size_bytes, cadre_message_t *message)
{
    static const char *const names[] = {"protocol", "type", "request", "incarnation", "epoch"};
    uint64_t values[CADRE_COUNT_OF(names)];
    cadre_token_t array = next(&self->scan);
    if (array.value < CADRE_ENVELOPE_COUNT) {
        return cadre_fail(CADRE_EMALFORMED, "header: %" PRIu64 " elements, fewer than %d",
                          array.value, CADRE_ENVELOPE_COUNT);
    }

    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cadre_token_t token = next(&self->scan);
        int status = check_kind("header", names[i], &token, CADRE_TOKEN_U64);
        if (status < 0) {
            return status;
        }
        values[i] = token.value;
    }

    self->schema = cadre_message_schema(values[1]);
    if (!self->schema) {
        return cadre_fail(CADRE_EMALFORMED, "header: %" PRIu64 " is no message type", values[1]);
    }

    if (size_bytes > self->schema->header_size_max) {
        return cadre_fail(CADRE_EMALFORMED, "%s: header of %zu bytes is over its limit %zu",
                          self->schema->text, size_bytes, self->schema->header_size_max);
    }

    if (array.value != CADRE_ENVELOPE_COUNT + self->schema->field_count) {
        return cadre_fail(CADRE_EMALFORMED, "%s: %" PRIu64 " fields and should have %zu",
                          self->schema->text, array.value - CADRE_ENVELOPE_COUNT,
                          self->schema->field_count);
    }

    *message = (cadre_message_t){.type = (cadre_message_type_t)values[1],
                                 .request = values[2],
                                 .incarnation = values[3],
                                 .epoch = values[4]};
    return 0;
}

/* Checks that the chunks that came have the number and sizes that the header tells in `sizes`. */
static int
check_sizes(const char *text, const cadre_token_t *token, cadre_chunk_t *const *chunks,
            size_t count)
{
    int status = check_kind(text, "sizes", token, CADRE_TOKEN_BIN);
    if (status < 0) {
        return status;
    }

    if (token->value != count * sizeof(uint64_t)) {
        return cadre_fail(CADRE_EMALFORMED,
                          "%s: field sizes: %" PRIu64 " bytes do not describe %zu chunks", text,
                          token->value, count);
    }

    for (size_t i = 0; i < count; i++) {
        uint64_t told = 0;
        memcpy(&told, token->bytes + i * sizeof(told), sizeof(told));
        size_t came = cadre_chunk_size_bytes(chunks[i]);
        if (told != came || came > CADRE_CHUNK_SIZE_MAX) {
            return cadre_fail(CADRE_EMALFORMED,
                              "%s: field sizes: chunk %zu is told to have %" PRIu64
                              " bytes, came with %zu, and may have %d",
                              text, i, told, came, CADRE_CHUNK_SIZE_MAX);
        }
    }

    return 0;
}

/* Reads the fields of the message, in the order of its table. */
static int
read_fields(decoder_t *self, cadre_message_t *message)
{
    for (size_t i = 0; i < self->schema->field_count; i++) {
        const cadre_field_schema_t *field = &self->schema->fields[i];
        int status = read_field(self, field, (char *)message + field->offset);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Moves the payload chunks from the caller's array into the message. */
static void
take_chunks(cadre_message_t *message, cadre_chunk_t **chunks, size_t count)
{
    if (count == 0) {
        return;
    }
    message->chunks = cadre_calloc(count, sizeof(cadre_chunk_t *));
    message->chunk_count = count;
    memcpy(message->chunks, chunks, count * sizeof(cadre_chunk_t *));
    memset(chunks, 0, count * sizeof(cadre_chunk_t *));
}

/* Decodes a header of unknown origin, and pairs it with the chunks that came with it, which the
 * message then owns. On failure the caller keeps the chunks. */
int
cadre_message_decode(const void *header, size_t size_bytes, cadre_chunk_t **chunks, size_t count,
                     cadre_message_t *message)
{
    if (size_bytes > CADRE_LARGE_HEADER_SIZE_MAX || count > CADRE_MESSAGE_CHUNKS_MAX) {
        return cadre_fail(CADRE_EMALFORMED,
                          "header: %zu bytes and %zu chunks, where %d and %d are the limits",
                          size_bytes, count, CADRE_LARGE_HEADER_SIZE_MAX, CADRE_MESSAGE_CHUNKS_MAX);
    }

    decoder_t decoder = {.schema = NULL};
    CADRE_UNINITIALIZED cadre_message_t decoded;
    size_t storage_bytes = 0;
    int status = check_protocol(header, size_bytes);
    if (status < 0) {
        return status;
    }

    /* Once over the header for its form and the memory that it takes, then again for its values:
     * nothing is allocated by what a malformed one claims. */
    cadre_scan_init(&decoder.scan, header, size_bytes);
    status = cadre_scan_all(&decoder.scan, &storage_bytes);
    if (status < 0) {
        return status;
    }

    cadre_scan_init(&decoder.scan, header, size_bytes);
    status = read_envelope(&decoder, size_bytes, &decoded);
    if (status < 0) {
        return status;
    }

    cadre_token_t sizes = next(&decoder.scan);
    status = check_sizes(decoder.schema->text, &sizes, chunks, count);
    if (status < 0) {
        return status;
    }

    /* The list `sizes` is not copied. */
    storage_bytes -= sizes.value;
    if (storage_bytes > 0) {
        decoded.storage = cadre_realloc(NULL, storage_bytes, 1);
        decoder.storage.lists = decoded.storage;
        decoder.storage.strings = (char *)decoded.storage + storage_bytes;
    }

    status = read_fields(&decoder, &decoded);
    if (status < 0) {
        free(decoded.storage);
        return status;
    }

    take_chunks(&decoded, chunks, count);
    *message = decoded;
    return 0;
}
