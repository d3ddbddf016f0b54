/*
 * CLOSUREs of unknown origin, one after the other at one worker: what they take from each other is
 * refused, or their arguments are as many as their names.
 *
 * Input: messages, each its length as u16 little-endian and then as in codec_decode_fuzz.c.
 */
#include <stdint.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/wire/codec.h"
#include "worker/core/closure_run.h"

enum { CHUNKS_MAX = 3, KEPT_MAX = 20000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
run_one(cadre_kept_values_t *kept, cadre_message_t *message)
{
    cadre_run_t *run = cadre_run_new(message, 0);
    size_t names = run->call.message.closure.names.count;
    cadre_tensor_t *tensors = NULL;
    size_t count = 0;
    cadre_worker_counters_t counters = {.items = {0}};
    if (cadre_closure_call_take_values(&run->call, kept, &counters) &&
        cadre_closure_call_tensors(&run->call, &tensors, &count) == 0) {
        cadre_assert(count == names);
        cadre_tensors_fini(&tensors, count);
    }
    cadre_assert(kept->size_bytes <= KEPT_MAX);
    cadre_run_destroy(&run);
}

static void
take(cadre_kept_values_t *kept, const uint8_t *data, size_t size)
{
    size_t count = size > 0 ? data[0] & CHUNKS_MAX : 0;
    cadre_chunk_t *chunks[CHUNKS_MAX] = {NULL};
    cadre_message_t message = {0};
    if (size < 1 + 2 * count) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        size_t size_bytes = (size_t)data[1 + 2 * i] | (size_t)data[2 + 2 * i] << 8;
        chunks[i] = cadre_chunk_new(size_bytes);
        memset(cadre_chunk_data(chunks[i]), 1, size_bytes);
    }
    if (cadre_message_decode(data + 1 + 2 * count, size - 1 - 2 * count, chunks, count, &message) ==
        0) {
        if (message.type == CADRE_MESSAGE_CLOSURE && cadre_closure_call_accepts(&message.closure)) {
            run_one(kept, &message);
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            cadre_chunk_unref(&chunks[i]);
        }
    }
    cadre_message_fini(&message);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cadre_kept_values_t kept = {.size_max = KEPT_MAX};
    for (size_t at = 0; at + 2 <= size;) {
        size_t length = (size_t)data[at] | (size_t)data[at + 1] << 8;
        at += 2;
        length = length < size - at ? length : size - at;
        take(&kept, data + at, length);
        at += length;
    }
    cadre_kept_values_clear(&kept);
    return 0;
}
