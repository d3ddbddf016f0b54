/*
 * A header of unknown origin: it is refused, or it is the one encoding of a message that can be
 * printed.
 *
 * Input: number of chunks (0 to 3), the size of each as u16 little-endian, then the header.
 */
#include <stdint.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/wire/codec.h"
#include "common/wire/tensor_list.h"

enum { CHUNKS_MAX = 3, TENSORS_SIZE_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
decode_tensors(cadre_u64s_t items, const cadre_message_t *message)
{
    cadre_tensor_t *tensors = NULL;
    size_t count = 0;
    if (cadre_tensor_list_decode(items, message, TENSORS_SIZE_MAX, &tensors, &count) == 0) {
        cadre_tensors_fini(&tensors, count);
    }
}

static void
use(const cadre_message_t *message, const uint8_t *header, size_t size)
{
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *again = cadre_message_encode(message);
    cadre_assert(cadre_chunk_size_bytes(again) == size);
    cadre_assert(memcmp(cadre_chunk_data(again), header, size) == 0);
    char text[300];
    cadre_assert(strlen(cadre_message_text(message, text, sizeof(text))) < sizeof(text));
    if (message->type == CADRE_MESSAGE_CLOSURE) {
        decode_tensors(message->closure.tensors, message);
    } else if (message->type == CADRE_MESSAGE_RESOURCE) {
        decode_tensors(message->resource.tensors, message);
    } else if (message->type == CADRE_MESSAGE_CLOSURE_DONE) {
        decode_tensors(message->closure_done.tensors, message);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t count = size > 0 ? data[0] & CHUNKS_MAX : 0;
    if (size < 1 + 2 * count) {
        return 0;
    }
    cadre_chunk_t *chunks[CHUNKS_MAX] = {NULL};
    for (size_t i = 0; i < count; i++) {
        size_t size_bytes = data[1 + 2 * i] | (size_t)data[2 + 2 * i] << 8;
        chunks[i] = cadre_chunk_new(size_bytes);
        memset(cadre_chunk_data(chunks[i]), 0, size_bytes);
    }
    const uint8_t *header = data + 1 + 2 * count;
    size_t header_bytes = size - 1 - 2 * count;
    cadre_message_t message;
    if (cadre_message_decode(header, header_bytes, chunks, count, &message) == 0) {
        use(&message, header, header_bytes);
        cadre_message_fini(&message);
    }
    for (size_t i = 0; i < count; i++) {
        cadre_chunk_unref(&chunks[i]);
    }
    return 0;
}
