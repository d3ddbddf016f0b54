#include "common/wire/tensor_list.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(tensor_list, .timeout = 240);

enum { LARGE_COUNT = CADRE_CHUNK_SIZE_MAX / 4 + 1 };

/* A tensor of bytes 1, 2, 3... */
static cadre_tensor_t
make(cadre_dtype_t dtype, int rank, const int64_t *shape)
{
    cadre_tensor_t tensor;
    cr_assert_eq(cadre_tensor_init(&tensor, dtype, shape, rank), 0);
    uint8_t *bytes = tensor.data;
    for (size_t i = 0; i < cadre_tensor_size_bytes(&tensor); i++) {
        bytes[i] = (uint8_t)(i * 7 + 1);
    }
    return tensor;
}

/* A scalar, one that fills a chunk and 4 bytes, one without elements, one of rank 8. */
static void
make_tensors(cadre_tensor_t tensors[4])
{
    tensors[0] = make(CADRE_F64, 0, NULL);
    tensors[1] = make(CADRE_F32, 1, (int64_t[]){LARGE_COUNT});
    tensors[2] = make(CADRE_I64, 2, (int64_t[]){3, 0});
    tensors[3] = make(CADRE_U8, 8, (int64_t[]){1, 2, 1, 2, 1, 2, 1, 2});
}

static void
fini_tensors(cadre_tensor_t tensors[4])
{
    for (size_t i = 0; i < 4; i++) {
        cadre_tensor_fini(&tensors[i]);
    }
}

Test(tensor_list, carries_tensors_there_and_back)
{
    cadre_tensor_t tensors[4];
    make_tensors(tensors);
    cadre_auto(cadre_tensor_list_fini) cadre_tensor_list_t list = {.count = 0};
    cr_assert_eq(cadre_tensor_list_encode(tensors, 4, SIZE_MAX, &list), 0);
    static const uint64_t items[] = {2, 0, 1, 1, LARGE_COUNT, 4, 2, 3, 0, 6,
                                     8, 1, 2, 1, 2,           1, 2, 1, 2};
    cr_assert_eq(list.count, CADRE_COUNT_OF(items));
    cr_assert_arr_eq(list.items, items, sizeof(items));
    static const size_t sizes[] = {8, CADRE_CHUNK_SIZE_MAX, 4, 16};
    cr_assert_eq(list.chunk_count, CADRE_COUNT_OF(sizes));
    for (size_t i = 0; i < list.chunk_count; i++) {
        cr_assert_eq(cadre_chunk_size_bytes(list.chunks[i]), sizes[i]);
    }
    cr_assert_eq(list.size_bytes, 8 + CADRE_CHUNK_SIZE_MAX + 4 + 16);

    cadre_auto(cadre_message_fini) cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE};
    cadre_tensor_list_add_chunks(&list, &message);
    cadre_tensor_t *back = NULL;
    size_t count = 0;
    cr_assert_eq(cadre_tensor_list_decode(cadre_tensor_list_items(&list), &message, list.size_bytes,
                                          &back, &count),
                 0);
    cr_assert_eq(count, 4);
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(back[i].dtype, tensors[i].dtype);
        cr_assert(
            cadre_shape_equal(back[i].shape, back[i].rank, tensors[i].shape, tensors[i].rank));
        cr_assert_arr_eq(back[i].data, tensors[i].data, cadre_tensor_size_bytes(&tensors[i]));
    }
    cadre_tensors_fini(&back, count);
    cr_assert_null(back);
    fini_tensors(tensors);
}

Test(tensor_list, may_be_empty)
{
    cadre_tensor_list_t list = {.count = 9};
    cr_assert_eq(cadre_tensor_list_encode(NULL, 0, 0, &list), 0);
    cr_assert_eq(list.count, 0);
    cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE};
    cadre_tensor_list_add_chunks(&list, &message);
    cr_assert_eq(message.chunk_count, 0);
    cadre_tensor_t *back = (cadre_tensor_t *)&message;
    size_t count = 9;
    cr_assert_eq(
        cadre_tensor_list_decode(cadre_tensor_list_items(&list), &message, 0, &back, &count), 0);
    cr_assert_eq(count, 0);
    cr_assert_null(back);
    cadre_tensors_fini(&back, count);
    cadre_tensor_list_fini(&list);
}

Test(tensor_list, cuts_at_the_size_of_a_chunk)
{
    for (int64_t more = -1; more <= 1; more++) {
        cadre_tensor_t tensor = make(CADRE_U8, 1, (int64_t[]){CADRE_CHUNK_SIZE_MAX + more});
        cadre_tensor_list_t list;
        cr_assert_eq(cadre_tensor_list_encode(&tensor, 1, SIZE_MAX, &list), 0);
        cr_assert_eq(list.chunk_count, more <= 0 ? 1 : 2);
        cadre_tensor_list_fini(&list);
        cadre_tensor_fini(&tensor);
    }
}

Test(tensor_list, refuses_what_a_user_got_wrong)
{
    cadre_tensor_list_t list = {.count = 77};
    float number = 1;
    cadre_tensor_t tensors[] = {
        {.dtype = CADRE_F32, .rank = 0, .data = &number},
        {.dtype = (cadre_dtype_t)99, .rank = 0},
    };
    cr_assert_eq(cadre_tensor_list_encode(tensors, 2, SIZE_MAX, &list), CADRE_EINVALID);
    cr_assert(strncmp(cadre_error_text(), "tensor 1: ", 10) == 0, "%s", cadre_error_text());
    tensors[1] = (cadre_tensor_t){.dtype = CADRE_F32, .rank = 1, .shape = {1}};
    cr_assert_eq(cadre_tensor_list_encode(tensors, 2, SIZE_MAX, &list), CADRE_EINVALID, "no data");
    tensors[1] = (cadre_tensor_t){.dtype = CADRE_F32, .rank = 9};
    cr_assert_eq(cadre_tensor_list_encode(tensors, 2, SIZE_MAX, &list), CADRE_EINVALID);
    tensors[1] = (cadre_tensor_t){.dtype = CADRE_F32, .rank = 1, .shape = {-1}};
    cr_assert_eq(cadre_tensor_list_encode(tensors, 2, SIZE_MAX, &list), CADRE_EINVALID);
    tensors[1] = (cadre_tensor_t){.dtype = CADRE_F32, .rank = 1, .shape = {INT64_MAX}};
    cr_assert_eq(cadre_tensor_list_encode(tensors, 2, SIZE_MAX, &list), CADRE_ETOOLARGE);
    tensors[1] = (cadre_tensor_t){
        .dtype = CADRE_U8,
        .rank = 2,
        .shape = {CADRE_CHUNK_SIZE_MAX, CADRE_MESSAGE_CHUNKS_MAX}}; /* one more with tensor 0 */
    cr_assert_eq(cadre_tensor_list_encode(tensors, 2, SIZE_MAX, &list), CADRE_ETOOLARGE);
    cr_assert_eq(list.count, 77, "untouched");
}

Test(tensor_list, knows_its_limit_in_bytes)
{
    cadre_tensor_t tensors[4];
    make_tensors(tensors);
    cadre_tensor_list_t list;
    size_t size_bytes = 8 + CADRE_CHUNK_SIZE_MAX + 4 + 16;
    cr_assert_eq(cadre_tensor_list_encode(tensors, 4, size_bytes - 1, &list), CADRE_ETOOLARGE);
    cr_assert_str_eq(cadre_error_text(), "tensor 3: 1 bytes more than the limit 1048603");
    cr_assert_eq(cadre_tensor_list_encode(tensors, 4, size_bytes, &list), 0);
    cadre_auto(cadre_message_fini) cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE};
    cadre_tensor_list_add_chunks(&list, &message);
    cadre_tensor_t *back = NULL;
    size_t count = 0;
    cr_assert_eq(cadre_tensor_list_decode(cadre_tensor_list_items(&list), &message, size_bytes - 1,
                                          &back, &count),
                 CADRE_ETOOLARGE);
    cr_assert_null(back);
    cadre_tensor_list_fini(&list);
    fini_tensors(tensors);
}

typedef struct {
    uint64_t items[16];
    size_t count;
    size_t sizes[4]; /* of chunks, up to a 0 */
} payload_t;

static int
decode(const payload_t *payload)
{
    cadre_auto(cadre_message_fini) cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE};
    for (size_t i = 0; i < 4 && payload->sizes[i] > 0; i++) {
        cadre_message_add_chunk(&message, cadre_chunk_new(payload->sizes[i]));
    }
    cadre_tensor_t *tensors = NULL;
    size_t count = 0;
    int status =
        cadre_tensor_list_decode((cadre_u64s_t){.items = payload->items, .count = payload->count},
                                 &message, UINT64_C(1) << 40, &tensors, &count);
    cadre_tensors_fini(&tensors, count);
    return status;
}

Test(tensor_list, believes_neither_items_nor_chunks)
{
    static const payload_t good = {{1, 1, 2}, 3, {8}};
    cr_assert_eq(decode(&good), 0);
    static const payload_t bad[] = {
        {{1}, 1, {0}},                                          /* no rank */
        {{1, 1}, 2, {0}},                                       /* no dimension */
        {{1, 1, 2}, 3, {0}},                                    /* no chunk */
        {{1, 1, 2}, 3, {7}},                                    /* chunk too small */
        {{1, 1, 2}, 3, {9}},                                    /* too large */
        {{1, 1, 2}, 3, {8, 1}},                                 /* one too many */
        {{1, 1, 2}, 3, {4, 4}},                                 /* cut elsewhere */
        {{1, 1, 2, 1}, 4, {8}},                                 /* half a tensor after it */
        {{0, 1, 2}, 3, {8}},                                    /* dtypes */
        {{8, 1, 2}, 3, {8}},                                    /* */
        {{UINT64_C(0x100000001), 1, 2}, 3, {8}},                /* */
        {{1, UINT64_C(0x100000001), 2}, 3, {8}},                /* ranks */
        {{1, 9, 1, 1, 1, 1, 1, 1, 1, 1, 2}, 11, {8}},           /* */
        {{1, UINT64_MAX, 2}, 3, {8}},                           /* */
        {{1, 1, UINT64_MAX}, 3, {8}},                           /* dimensions */
        {{1, 1, UINT64_C(0x8000000000000002)}, 3, {8}},         /* */
        {{1, 2, UINT64_C(1) << 62, 4}, 4, {0}},                 /* elements overflow */
        {{1, 1, UINT64_C(1) << 62}, 3, {0}},                    /* bytes overflow */
        {{6, 1, UINT64_C(1) << 39}, 3, {CADRE_CHUNK_SIZE_MAX}}, /* bytes that are not there */
        {{6, 1, CADRE_CHUNK_SIZE_MAX + 2}, 3, {1, CADRE_CHUNK_SIZE_MAX + 1}},
        {{0}, 0, {1}}, /* chunks of nobody */
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cr_assert_eq(decode(&bad[i]), CADRE_EMALFORMED, "case %zu", i);
    }
    static const payload_t huge = {{6, 1, UINT64_C(1) << 41}, 3, {1}};
    cr_assert_eq(decode(&huge), CADRE_ETOOLARGE);
}

Test(tensor_list, gives_one_of_its_tensors)
{
    cadre_tensor_t tensors[4];
    make_tensors(tensors);
    cadre_auto(cadre_tensor_list_fini) cadre_tensor_list_t list = {.count = 0};
    cr_assert_eq(cadre_tensor_list_encode(tensors, 4, SIZE_MAX, &list), 0);
    for (size_t i = 0; i < 4; i++) {
        cadre_auto(cadre_tensor_list_fini) cadre_tensor_list_t part = {.count = 0};
        cr_assert_eq(cadre_tensor_list_part(&list, i, &part), 0, "%s", cadre_error_text());
        cr_assert_eq(part.size_bytes, cadre_tensor_size_bytes(&tensors[i]));
        const cadre_message_t message = {.chunks = part.chunks, .chunk_count = part.chunk_count};
        cadre_tensor_t *copies = NULL;
        size_t count = 0;
        cr_assert_eq(cadre_tensor_list_decode(cadre_tensor_list_items(&part), &message, SIZE_MAX,
                                              &copies, &count),
                     0, "%s", cadre_error_text());
        cr_assert_eq(count, 1);
        cr_assert_eq(copies[0].dtype, tensors[i].dtype);
        cr_assert_eq(copies[0].rank, tensors[i].rank);
        cr_assert(part.size_bytes == 0 ||
                  memcmp(copies[0].data, tensors[i].data, part.size_bytes) == 0);
        cadre_tensors_fini(&copies, count);
    }
    cadre_tensor_list_t none = {.count = 0};
    cr_assert_eq(cadre_tensor_list_part(&list, 4, &none), CADRE_EMALFORMED, "beyond the last");
    uint64_t dtype = list.items[0];
    list.items[0] = 77;
    cr_assert_eq(cadre_tensor_list_part(&list, 1, &none), CADRE_EMALFORMED, "after a bad one");
    list.items[0] = dtype;
    list.chunk_count--;
    cr_assert_eq(cadre_tensor_list_part(&list, 3, &none), CADRE_EMALFORMED, "its chunk is missing");
    list.chunk_count++;
    fini_tensors(tensors);
}
