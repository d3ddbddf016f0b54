#include "common/wire/tensor_list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"

static size_t
chunks_of(size_t size_bytes)
{
    return size_bytes / CADRE_CHUNK_SIZE_MAX + (size_bytes % CADRE_CHUNK_SIZE_MAX != 0);
}

static size_t
smaller(size_t left, size_t right)
{
    return left < right ? left : right;
}

/* --- encoding --- */

/* Sums up items, chunks and bytes of all tensors into `out`, whose arrays are still missing. */
static int
measure(const cadre_tensor_t *tensors, size_t count, size_t size_bytes_max,
        cadre_tensor_list_t *out)
{
    for (size_t i = 0; i < count; i++) {
        const cadre_tensor_t *tensor = &tensors[i];
        size_t size_bytes = 0;
        int status =
            cadre_shape_size(tensor->dtype, tensor->shape, tensor->rank, NULL, &size_bytes);
        if (status < 0) {
            return cadre_fail_within(status, "tensor %zu", i);
        }
        if (size_bytes > size_bytes_max - out->size_bytes) {
            return cadre_fail(CADRE_ETOOLARGE, "tensor %zu: %zu bytes more than the limit %zu", i,
                              size_bytes - (size_bytes_max - out->size_bytes), size_bytes_max);
        }
        out->size_bytes += size_bytes;
        out->count += 2 + (size_t)tensor->rank;
        out->chunk_count += chunks_of(size_bytes);
        if (out->chunk_count > CADRE_MESSAGE_CHUNKS_MAX) {
            return cadre_fail(CADRE_ETOOLARGE, "tensor %zu: the tensors take more than %d chunks",
                              i, CADRE_MESSAGE_CHUNKS_MAX);
        }
        if (size_bytes > 0 && !tensor->data) {
            return cadre_fail(CADRE_EINVALID, "tensor %zu has no data", i);
        }
    }
    return 0;
}

/* Appends a tensor to a list whose arrays are large enough: dtype, rank and shape as numbers, its
 * bytes as chunks, each of the full size but the last. */
static void
append_tensor(cadre_tensor_list_t *self, const cadre_tensor_t *tensor)
{
    self->items[self->count++] = (uint64_t)tensor->dtype;
    self->items[self->count++] = (uint64_t)tensor->rank;
    for (int i = 0; i < tensor->rank; i++) {
        self->items[self->count++] = (uint64_t)tensor->shape[i];
    }
    size_t size_bytes = cadre_tensor_size_bytes(tensor);
    for (size_t at = 0; at < size_bytes; at += CADRE_CHUNK_SIZE_MAX) {
        size_t part = smaller(size_bytes - at, CADRE_CHUNK_SIZE_MAX);
        self->chunks[self->chunk_count++] =
            cadre_chunk_new_copy((const char *)tensor->data + at, part);
    }
}

/* Copies tensors, which may come from a user, into a list for a message; fails when they are
 * invalid or too large. */
int
cadre_tensor_list_encode(const cadre_tensor_t *tensors, size_t count, size_t size_bytes_max,
                         cadre_tensor_list_t *out)
{
    cadre_tensor_list_t sizes = {.count = 0};
    int status = measure(tensors, count, size_bytes_max, &sizes);
    if (status < 0) {
        return status;
    }
    *out = (cadre_tensor_list_t){.size_bytes = sizes.size_bytes};
    if (sizes.count > 0) {
        out->items = cadre_calloc(sizes.count, sizeof(*out->items));
    }
    if (sizes.chunk_count > 0) {
        out->chunks = cadre_calloc(sizes.chunk_count, sizeof(cadre_chunk_t *));
    }
    for (size_t i = 0; i < count; i++) {
        append_tensor(out, &tensors[i]);
    }
    return 0;
}

void
cadre_tensor_list_fini(cadre_tensor_list_t *self)
{
    for (size_t i = 0; i < self->chunk_count; i++) {
        cadre_chunk_unref(&self->chunks[i]);
    }
    free(self->chunks);
    free(self->items);
    *self = (cadre_tensor_list_t){.items = NULL};
}

/* Makes a list of the tensors that `items` describes, with references to the chunks given; checks
 * neither. */
void
cadre_tensor_list_share(cadre_tensor_list_t *self, cadre_u64s_t items, cadre_chunk_t *const *chunks,
                        size_t chunk_count)
{
    *self = (cadre_tensor_list_t){.count = items.count, .chunk_count = chunk_count};
    self->items = cadre_calloc(items.count, sizeof(*self->items));
    for (size_t i = 0; i < items.count; i++) {
        self->items[i] = items.items[i];
    }
    self->chunks = cadre_calloc(chunk_count, sizeof(cadre_chunk_t *));
    for (size_t i = 0; i < chunk_count; i++) {
        self->chunks[i] = cadre_chunk_ref(chunks[i]);
        self->size_bytes += cadre_chunk_size_bytes(chunks[i]);
    }
}

cadre_u64s_t
cadre_tensor_list_items(const cadre_tensor_list_t *self)
{
    return (cadre_u64s_t){.items = self->items, .count = self->count};
}

void
cadre_tensor_list_add_chunks(const cadre_tensor_list_t *self, cadre_message_t *message)
{
    for (size_t i = 0; i < self->chunk_count; i++) {
        cadre_message_add_chunk(message, cadre_chunk_ref(self->chunks[i]));
    }
}

/* --- decoding --- */

/* A position in the list of items and in the payload of a message being decoded. */
typedef struct {
    cadre_u64s_t items;
    const cadre_message_t *message;
    size_t item;
    size_t chunk;
    size_t bytes_left; /* how many more bytes of tensors the caller permits */
    size_t tensor;     /* position of the present tensor, for error texts */
} cursor_t;

/* Reads the next tensor's description, (dtype, rank, dims...), into `out`, which gets no data yet;
 * gives the size of its data. */
static int
read_shape(cursor_t *self, cadre_tensor_t *out, size_t *size_bytes)
{
    size_t left = self->items.count - self->item;
    const uint64_t *items = left > 0 ? self->items.items + self->item : NULL;
    if (left < 2 || items[1] > CADRE_RANK_MAX || items[1] > left - 2) {
        return cadre_fail(CADRE_EMALFORMED, "tensor %zu: %zu items hold no dtype, rank and shape",
                          self->tensor, left);
    }
    if (!cadre_dtype_valid(items[0])) {
        return cadre_fail(CADRE_EMALFORMED, "tensor %zu: %" PRIu64 " is no data type", self->tensor,
                          items[0]);
    }
    *out = (cadre_tensor_t){.dtype = (cadre_dtype_t)items[0], .rank = (int)items[1]};
    for (int i = 0; i < out->rank; i++) {
        if (items[2 + i] > INT64_MAX) {
            return cadre_fail(CADRE_EMALFORMED, "tensor %zu: dimension %d is %" PRIu64,
                              self->tensor, i, items[2 + i]);
        }
        out->shape[i] = (int64_t)items[2 + i];
    }
    self->item += 2 + (size_t)out->rank;
    if (cadre_shape_size(out->dtype, out->shape, out->rank, NULL, size_bytes) < 0) {
        return cadre_fail_within(CADRE_EMALFORMED, "tensor %zu", self->tensor);
    }
    return 0;
}

/* Skips the chunks of one tensor, and checks that they have the sizes that cadre_tensor_list_encode
 * would give them. */
static int
check_chunks(cursor_t *self, size_t size_bytes)
{
    if (size_bytes > self->bytes_left) {
        return cadre_fail(CADRE_ETOOLARGE, "tensor %zu: %zu bytes, and %zu are left of the limit",
                          self->tensor, size_bytes, self->bytes_left);
    }
    self->bytes_left -= size_bytes;
    for (size_t at = 0; at < size_bytes; at += CADRE_CHUNK_SIZE_MAX) {
        size_t part = smaller(size_bytes - at, CADRE_CHUNK_SIZE_MAX);
        if (self->chunk == self->message->chunk_count) {
            return cadre_fail(CADRE_EMALFORMED, "tensor %zu: the payload ends %zu bytes early",
                              self->tensor, size_bytes - at);
        }
        size_t came = cadre_chunk_size_bytes(self->message->chunks[self->chunk]);
        if (came != part) {
            return cadre_fail(CADRE_EMALFORMED,
                              "tensor %zu: chunk %zu has %zu bytes and should have %zu",
                              self->tensor, self->chunk, came, part);
        }
        self->chunk++;
    }
    return 0;
}

/* Copies the chunks from `first` on into new memory for one tensor; returns the first chunk behind
 * them. */
static size_t
copy_chunks(const cadre_message_t *message, size_t first, cadre_tensor_t *tensor, size_t size_bytes)
{
    tensor->data = cadre_aligned_alloc(size_bytes);
    tensor->owned = tensor->data;
    for (size_t at = 0; at < size_bytes; first++) {
        const cadre_chunk_t *chunk = message->chunks[first];
        memcpy((char *)tensor->data + at, cadre_chunk_data(chunk), cadre_chunk_size_bytes(chunk));
        at += cadre_chunk_size_bytes(chunk);
    }
    return first;
}

/* Checks that descriptions and chunks agree to the last byte, without allocating anything; gives
 * the number of tensors. */
static int
check_list(cadre_u64s_t items, const cadre_message_t *message, size_t size_bytes_max, size_t *count)
{
    cursor_t cursor = {.items = items, .message = message, .bytes_left = size_bytes_max};
    while (cursor.item < items.count) {
        cadre_tensor_t tensor;
        size_t size_bytes = 0;
        int status = read_shape(&cursor, &tensor, &size_bytes);
        if (status == 0) {
            status = check_chunks(&cursor, size_bytes);
        }
        if (status < 0) {
            return status;
        }
        cursor.tensor++;
    }
    if (cursor.chunk < message->chunk_count) {
        return cadre_fail(CADRE_EMALFORMED, "tensors: %zu chunks of the payload belong to none",
                          message->chunk_count - cursor.chunk);
    }
    *count = cursor.tensor;
    return 0;
}

/* Builds the tensors that a message describes in `items`, from its whole payload; trusts neither.
 */
int
cadre_tensor_list_decode(cadre_u64s_t items, const cadre_message_t *message, size_t size_bytes_max,
                         cadre_tensor_t **tensors, size_t *count)
{
    size_t found = 0;
    int status = check_list(items, message, size_bytes_max, &found);
    if (status < 0) {
        return status;
    }
    *tensors = found > 0 ? cadre_calloc(found, sizeof(cadre_tensor_t)) : NULL;
    *count = found;
    cursor_t cursor = {.items = items, .message = message};
    for (size_t i = 0; i < found; i++) {
        size_t size_bytes = 0;
        status = read_shape(&cursor, &(*tensors)[i], &size_bytes);
        cadre_assert(status == 0);
        cursor.chunk = copy_chunks(message, cursor.chunk, &(*tensors)[i], size_bytes);
    }
    return 0;
}

/* Makes a list of the tensor at `position` alone, with references to its chunks. Descriptions and
 * chunks are checked up to there, as the list may come from a message. */
int
cadre_tensor_list_part(const cadre_tensor_list_t *self, size_t position, cadre_tensor_list_t *out)
{
    const cadre_message_t message = {.chunks = self->chunks, .chunk_count = self->chunk_count};
    cursor_t cursor = {.items = cadre_tensor_list_items(self), .message = &message};
    for (;; cursor.tensor++) {
        cadre_tensor_t tensor;
        size_t size_bytes = 0;
        cursor_t begin = cursor;
        int status = read_shape(&cursor, &tensor, &size_bytes);
        if (status == 0) {
            cursor.bytes_left = size_bytes; /* no limit of the bytes */
            status = check_chunks(&cursor, size_bytes);
        }
        if (status < 0) {
            return status;
        }
        if (cursor.tensor == position) {
            size_t chunk_count = cursor.chunk - begin.chunk;
            cadre_tensor_list_share(out,
                                    (cadre_u64s_t){.items = self->items + begin.item,
                                                   .count = cursor.item - begin.item},
                                    chunk_count > 0 ? self->chunks + begin.chunk : NULL,
                                    chunk_count);
            return 0;
        }
    }
}

void
cadre_tensors_fini(cadre_tensor_t **tensors_p, size_t count)
{
    for (size_t i = 0; *tensors_p && i < count; i++) {
        cadre_tensor_fini(&(*tensors_p)[i]);
    }
    cadre_free(tensors_p);
}
