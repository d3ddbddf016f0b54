#include "common/wire/codec.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "tests/common/golden_headers.h"
#include "tests/common/message_sample.h"

TestSuite(codec, .timeout = 240);

typedef struct {
    uint8_t bytes[1024];
    size_t size_bytes;
} header_t;

static header_t
from_hex(const char *text)
{
    header_t header = {.size_bytes = strlen(text) / 2};
    cr_assert_leq(header.size_bytes, sizeof(header.bytes));
    for (size_t i = 0; i < header.size_bytes; i++) {
        unsigned byte = 0;
        sscanf(text + 2 * i, "%2x", &byte);
        header.bytes[i] = (uint8_t)byte;
    }
    return header;
}

static const char *
golden(cadre_message_type_t type)
{
    switch (type) {
#define CASE(NAME, text)                                                                           \
    case CADRE_MESSAGE_##NAME:                                                                     \
        return text;
        GOLDEN_HEADERS(CASE)
#undef CASE
    }
    return "";
}

/* Decodes from an exact allocation, so that a sanitizer sees a read beyond the end, with the chunks
 * that a sample of `type` has. */
static int
decode(const header_t *header, cadre_message_type_t type, cadre_message_t *out)
{
    cadre_chunk_t *chunks[2] = {NULL, NULL};
    size_t count = sample_chunk_count(type);
    for (size_t i = 0; i < count; i++) {
        chunks[i] = sample_chunk(i);
    }
    uint8_t *bytes = cadre_calloc(header->size_bytes, 1);
    memcpy(bytes, header->bytes, header->size_bytes);
    int status = cadre_message_decode(bytes, header->size_bytes, chunks, count, out);
    free(bytes);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(chunks[i] == NULL, status == 0, "chunks are taken on success only");
        cadre_chunk_unref(&chunks[i]);
    }
    return status;
}

static void
check_bytes(const cadre_message_t *message, const uint8_t *bytes, size_t size_bytes)
{
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = cadre_message_encode(message);
    cr_assert_eq(cadre_chunk_size_bytes(header), size_bytes);
    cr_assert_arr_eq(cadre_chunk_data(header), bytes, size_bytes);
}

/* --- bytes --- */

Test(codec, writes_the_documented_layout)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_SETTLE,
                               .request = 5,
                               .incarnation = UINT64_C(0x0102030405060708),
                               .epoch = 200,
                               .settle = {.base = 300, .generation = 7, .shard = 3}};
    cadre_message_add_chunk(&message, cadre_chunk_new(258));
    static const uint8_t bytes[] = {
        0x99,                                  /* array of 9 */
        1,                                     /* protocol */
        49,                                    /* SETTLE */
        5,                                     /* request */
        0xcf, 1,    2,    3, 4, 5, 6, 7, 8,    /* incarnation */
        0xcc, 200,                             /* epoch */
        0xc4, 8,    2,    1, 0, 0, 0, 0, 0, 0, /* sizes: 258 */
        0xcd, 0x01, 0x2c,                      /* base */
        7,                                     /* generation */
        3,                                     /* shard */
    };
    check_bytes(&message, bytes, sizeof(bytes));
    cadre_message_fini(&message);
}

Test(codec, writes_the_golden_bytes_of_every_message)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(sample_types); i++) {
        cadre_message_t message = sample_message(sample_types[i]);
        cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = cadre_message_encode(&message);
        const uint8_t *bytes = cadre_chunk_data(header);
        char text[2048] = "";
        for (size_t k = 0; k < cadre_chunk_size_bytes(header); k++) {
            snprintf(text + 2 * k, sizeof(text) - 2 * k, "%02x", bytes[k]);
        }
        cr_assert_str_eq(text, golden(sample_types[i]), "%s is now %s",
                         cadre_message_type_text(sample_types[i]), text);
        cadre_message_fini(&message);
    }
}

static void
check_same_field(const cadre_field_schema_t *field, const void *left, const void *right)
{
    switch (field->kind) {
    case CADRE_KIND_U64:
        cr_assert_eq(*(const uint64_t *)left, *(const uint64_t *)right, "%s", field->name);
        break;
    case CADRE_KIND_STR:
    case CADRE_KIND_TEXT:
        cr_assert_str_eq(*(const char *const *)left, *(const char *const *)right, "%s",
                         field->name);
        break;
    case CADRE_KIND_U64S:
    case CADRE_KIND_F64S: {
        const cadre_u64s_t *list = left;
        const cadre_u64s_t *other = right;
        cr_assert_eq(list->count, other->count, "%s", field->name);
        cr_assert_arr_eq(list->items, other->items, list->count * 8, "%s", field->name);
        cr_assert_eq((uintptr_t)list->items % 8, 0, "%s is aligned", field->name);
        break;
    }
    case CADRE_KIND_STRS: {
        const cadre_strs_t *list = left;
        const cadre_strs_t *other = right;
        cr_assert_eq(list->count, other->count, "%s", field->name);
        for (size_t i = 0; i < list->count; i++) {
            cr_assert_str_eq(list->items[i], other->items[i], "%s", field->name);
        }
        break;
    }
    }
}

Test(codec, reads_the_golden_bytes_of_every_message)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(sample_types); i++) {
        cadre_message_t expected = sample_message(sample_types[i]);
        header_t header = from_hex(golden(sample_types[i]));
        cadre_message_t message;
        cr_assert_eq(decode(&header, sample_types[i], &message), 0, "%s", cadre_error_text());
        memset(header.bytes, 0xee, sizeof(header.bytes)); /* nothing is borrowed from them */
        cr_assert_eq(message.type, expected.type);
        cr_assert_eq(message.request, expected.request);
        cr_assert_eq(message.incarnation, expected.incarnation);
        cr_assert_eq(message.epoch, expected.epoch);
        cr_assert_eq(message.chunk_count, expected.chunk_count);
        const cadre_message_schema_t *schema = cadre_message_schema((uint64_t)sample_types[i]);
        for (size_t k = 0; k < schema->field_count; k++) {
            size_t offset = schema->fields[k].offset;
            check_same_field(&schema->fields[k], (const char *)&message + offset,
                             (const char *)&expected + offset);
        }
        cadre_message_fini(&message);
        cadre_message_fini(&expected);
    }
}

/* --- damage --- */

Test(codec, refuses_every_golden_header_cut_short_or_longer)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(sample_types); i++) {
        header_t header = from_hex(golden(sample_types[i]));
        size_t size_bytes = header.size_bytes;
        cadre_message_t message = {.request = 77};
        for (header.size_bytes = 0; header.size_bytes < size_bytes; header.size_bytes++) {
            cr_assert_eq(decode(&header, sample_types[i], &message), CADRE_EMALFORMED);
        }
        for (unsigned byte = 0; byte < 256; byte++) {
            header.bytes[size_bytes] = (uint8_t)byte;
            header.size_bytes = size_bytes + 1;
            cr_assert_eq(decode(&header, sample_types[i], &message), CADRE_EMALFORMED);
        }
        cr_assert_eq(message.request, 77, "untouched");
    }
}

/* Decoding and encoding are inverse: what is taken at all has no second spelling. */
Test(codec, refuses_or_understands_every_change_of_a_byte)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(sample_types); i++) {
        header_t header = from_hex(golden(sample_types[i]));
        for (size_t at = 0; at < header.size_bytes; at++) {
            uint8_t original = header.bytes[at];
            for (unsigned change = 1; change < 256; change++) {
                header.bytes[at] = original ^ (uint8_t)change;
                cadre_message_t message;
                int status = decode(&header, sample_types[i], &message);
                if (status == 0) {
                    check_bytes(&message, header.bytes, header.size_bytes);
                    cadre_message_fini(&message);
                } else {
                    cr_assert(status == CADRE_EMALFORMED || status == CADRE_EPROTOCOL);
                }
            }
            header.bytes[at] = original;
        }
    }
}

/* --- memory --- */

Test(codec, needs_no_storage_for_a_closure_without_data)
{
    for (size_t chunks = 0; chunks < 2; chunks++) {
        cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE, .closure = {.id = 7}};
        for (size_t i = 0; i < chunks; i++) {
            cadre_message_add_chunk(&message, cadre_chunk_new(8));
        }
        cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = cadre_message_encode(&message);
        cadre_message_t back;
        int status = cadre_message_decode(cadre_chunk_data(header), cadre_chunk_size_bytes(header),
                                          message.chunks, chunks, &back);
        cr_assert_eq(status, 0);
        cr_assert_null(back.storage);
        cr_assert_eq(back.chunk_count, chunks);
        cr_assert_eq(back.closure.id, 7);
        cr_assert_eq(back.closure.names.count, 0);
        cadre_message_fini(&back);
        cadre_message_fini(&message);
    }
}

Test(codec, encodes_a_missing_string_as_an_empty_one)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_SHARD};
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = cadre_message_encode(&message);
    cadre_message_t back;
    int status = cadre_message_decode(cadre_chunk_data(header), cadre_chunk_size_bytes(header),
                                      NULL, 0, &back);
    cr_assert_eq(status, 0);
    cr_assert_str_eq(back.shard.address, "");
    cadre_message_fini(&back);
}

Test(codec, cuts_and_cleans_text_for_people)
{
    char text[400];
    memset(text, 'x', sizeof(text));
    memcpy(text, "line\nbad \xff", 10);
    memcpy(text + 254, "ö", 2);
    text[399] = '\0';
    cadre_message_t message = {.type = CADRE_MESSAGE_STOP, .stop = {.reason = text}};
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = cadre_message_encode(&message);
    cadre_message_t back;
    int status = cadre_message_decode(cadre_chunk_data(header), cadre_chunk_size_bytes(header),
                                      NULL, 0, &back);
    cr_assert_eq(status, 0);
    cr_assert_eq(strlen(back.stop.reason), 254);
    cr_assert(strncmp(back.stop.reason, "line bad ?xxx", 13) == 0);
    cadre_message_fini(&back);
}

/* --- our own bugs --- */

Test(codec, asserts_a_number_within_its_limit, .signal = SIGABRT)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_WANT, .want = {.kind = 5}};
    cadre_message_encode(&message);
}

Test(codec, asserts_a_clean_string, .signal = SIGABRT)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_SHARD, .shard = {.address = "a\nb"}};
    cadre_message_encode(&message);
}

Test(codec, asserts_finite_doubles, .signal = SIGABRT)
{
    const double infinite[] = {1.0, 1e308 * 10};
    cadre_message_t message = {.type = CADRE_MESSAGE_CREATE,
                               .create = {.optimizer_parameters = {infinite, 2}}};
    cadre_message_encode(&message);
}

Test(codec, asserts_a_header_within_its_limit, .signal = SIGABRT)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_DATASET};
    for (size_t i = 0; i < 600; i++) {
        cadre_message_add_chunk(&message, cadre_chunk_new(1));
    }
    cadre_message_encode(&message);
}

/* --- rights --- */

static const struct {
    cadre_message_type_t type;
    const char *senders; /* c, p, w; s of a client, who also asks for the status */
} rights[] = {
    {CADRE_MESSAGE_HELLO, "pw"},
    {CADRE_MESSAGE_WELCOME, "c"},
    {CADRE_MESSAGE_UNKNOWN_PEER, "c"},
    {CADRE_MESSAGE_HEARTBEAT, "pw"},
    {CADRE_MESSAGE_DRAIN, "c"},
    {CADRE_MESSAGE_STOP, "c"},
    {CADRE_MESSAGE_GOODBYE, "pws"},
    {CADRE_MESSAGE_REPLY, "p"},
    {CADRE_MESSAGE_REFUSED, "c"},
    {CADRE_MESSAGE_STATUS, "s"},
    {CADRE_MESSAGE_STATUS_TEXT, "c"},
    {CADRE_MESSAGE_SHARD, "c"},
    {CADRE_MESSAGE_VARIABLE, "c"},
    {CADRE_MESSAGE_DEFINITIONS, "c"},
    {CADRE_MESSAGE_FUNCTION, "c"},
    {CADRE_MESSAGE_DATASET, "c"},
    {CADRE_MESSAGE_RESOURCE, "c"},
    {CADRE_MESSAGE_DATASET_READY, "w"},
    {CADRE_MESSAGE_WANT, "w"},
    {CADRE_MESSAGE_CLOSURE, "c"},
    {CADRE_MESSAGE_CANCEL, "c"},
    {CADRE_MESSAGE_CLOSURE_DONE, "w"},
    {CADRE_MESSAGE_CLOSURE_FAILED, "w"},
    {CADRE_MESSAGE_ACK, "c"},
    {CADRE_MESSAGE_CREATE, "c"},
    {CADRE_MESSAGE_SETTLE, "c"},
    {CADRE_MESSAGE_SNAPSHOT, "c"},
    {CADRE_MESSAGE_SNAPSHOT_TAKEN, "p"},
    {CADRE_MESSAGE_SNAPSHOT_WRITTEN, "p"},
    {CADRE_MESSAGE_CHECKPOINT_END, "c"},
    {CADRE_MESSAGE_RESTORE, "c"},
    {CADRE_MESSAGE_COUNT, "c"},
    {CADRE_MESSAGE_CLOSE_CUT, "c"},
    {CADRE_MESSAGE_DROP, "c"},
    {CADRE_MESSAGE_RETIRE, "c"},
    {CADRE_MESSAGE_END_STEP, "c"},
    {CADRE_MESSAGE_PULL, "cw"},
    {CADRE_MESSAGE_VALUES, "p"},
    {CADRE_MESSAGE_PUSH, "w"},
    {CADRE_MESSAGE_APPLIED, "p"},
    {CADRE_MESSAGE_ASSIGN, "c"},
    {CADRE_MESSAGE_PROBE, "cw"},
    {CADRE_MESSAGE_PROBED, "p"},
    {CADRE_MESSAGE_RESERVE, "w"},
    {CADRE_MESSAGE_GRANT, "p"},
    {CADRE_MESSAGE_ATTACH, "s"},
    {CADRE_MESSAGE_ATTACHED, "c"},
    {CADRE_MESSAGE_LIST, "s"},
    {CADRE_MESSAGE_LISTED, "c"},
    {CADRE_MESSAGE_READ, "s"},
    {CADRE_MESSAGE_PART, "c"},
    {CADRE_MESSAGE_SCHEDULE, "s"},
    {CADRE_MESSAGE_RESULT, "c"},
};

static const char *
senders_of(uint64_t type)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(rights); i++) {
        if ((uint64_t)rights[i].type == type) {
            return rights[i].senders;
        }
    }
    return "";
}

Test(codec, lets_each_role_send_its_messages_and_no_other)
{
    cr_assert_eq(CADRE_COUNT_OF(rights), CADRE_COUNT_OF(sample_types));
    for (uint64_t type = 0; type < 300; type++) {
        const char *senders = senders_of(type);
        for (unsigned role = 0; role < 70; role++) {
            bool allowed = role < 5 && strchr(senders, "cpwes"[role]);
            cr_assert_eq(cadre_message_authorize((cadre_message_type_t)type, (cadre_role_t)role),
                         allowed ? 0 : CADRE_EREFUSED, "type %zu, role %u", (size_t)type, role);
        }
    }
    cadre_message_authorize(CADRE_MESSAGE_CREATE, CADRE_ROLE_WORKER);
    cr_assert_str_eq(cadre_error_text(), "CREATE: not allowed from a worker");
}

/* --- the shard that a message is for --- */

Test(codec, says_of_what_changes_one_shard_which_it_is)
{
    static const cadre_message_type_t named[] = {CADRE_MESSAGE_CREATE,   CADRE_MESSAGE_SETTLE,
                                                 CADRE_MESSAGE_SNAPSHOT, CADRE_MESSAGE_CLOSE_CUT,
                                                 CADRE_MESSAGE_RESTORE,  CADRE_MESSAGE_DROP,
                                                 CADRE_MESSAGE_RETIRE,   CADRE_MESSAGE_END_STEP};
    size_t found = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(sample_types); i++) {
        cadre_message_t message = sample_message(sample_types[i]);
        found += cadre_message_shard(&message) != NULL;
        cadre_message_fini(&message);
    }
    cr_expect_eq(found, CADRE_COUNT_OF(named), "%zu messages name a shard", found);

    for (size_t i = 0; i < CADRE_COUNT_OF(named); i++) {
        cadre_message_t message = {.type = named[i]};
        cr_assert_not_null(cadre_message_shard(&message), "%s", cadre_message_type_text(named[i]));
    }
    const cadre_message_t drop = {.type = CADRE_MESSAGE_DROP, .drop = {.shard = 3}};
    cr_expect_eq(*cadre_message_shard(&drop), 3);
}

/* --- text --- */

Test(codec, prints_a_message_on_one_line)
{
    const uint64_t partitions[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    cadre_message_t push = {
        .type = CADRE_MESSAGE_PUSH,
        .request = 3,
        .push = {.update = 17, .attempt = 1, .generation = 4, .partitions = {partitions, 9}}};
    cadre_message_add_chunk(&push, cadre_chunk_new(100));
    cadre_message_add_chunk(&push, cadre_chunk_new(20));
    char text[256];
    cr_assert_str_eq(cadre_message_text(&push, text, sizeof(text)),
                     "PUSH request=3 update=17 attempt=1 generation=4 "
                     "partitions=[1,2,3,4,5,6,7,8,... 9 in all] checkpoint=0 cut=0 part=0 parts=0 "
                     "step=0 rows=[] chunks=2 "
                     "payload_bytes=120");
    cadre_message_fini(&push);
    cadre_message_t reply = {.type = CADRE_MESSAGE_REPLY,
                             .reply = {.status = 2014, .text = "late"}};
    cr_assert_str_eq(cadre_message_text(&reply, text, sizeof(text)),
                     "REPLY request=0 status=CADRE_EFENCED text=\"late\" counters=[]");
    for (size_t size = 1; size < 30; size++) {
        cr_assert_eq(strlen(cadre_message_text(&reply, text, size)), size - 1);
    }
    cadre_message_t unknown = {.request = 1};
    cr_assert_str_eq(cadre_message_text(&unknown, text, sizeof(text)), "? request=1");
}
