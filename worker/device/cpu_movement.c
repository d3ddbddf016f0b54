/*
 * cpu_movement - broadcast, transpose, slice, concat, pad, and random numbers.
 */
#include <string.h>

#include "common/random.h"
#include "worker/device/cpu.h"
#include "worker/device/element.h"

#define KERNEL(name, type)                                                                         \
    static void name(void *restrict to, const void *restrict from, int64_t step, int64_t count)    \
    {                                                                                              \
        type *out = to;                                                                            \
        const type *x = from;                                                                      \
        if (step == 1) {                                                                           \
            memcpy(out, x, (size_t)count * sizeof(*out));                                          \
        } else if (step == 0) {                                                                    \
            const type value = *x;                                                                 \
            for (int64_t i = 0; i < count; i++) {                                                  \
                out[i] = value;                                                                    \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < count; i++) {                                                  \
                out[i] = x[i * step];                                                              \
            }                                                                                      \
        }                                                                                          \
    }
KERNEL(gather_real, cadre_real_t)
KERNEL(gather_i32, int32_t)
KERNEL(gather_bf16, uint16_t)
#undef KERNEL

void
cadre_cpu_gather(const cadre_operands_t *operands)
{
    const cadre_strided_t *walk = &operands->step->walk;
    int inner = walk->rank - 1;
    int64_t step = walk->stride[0][inner];
    int64_t count = walk->size[inner];
    cadre_dtype_t dtype = operands->out->dtype;
    int64_t size = (int64_t)operands->out->size_bytes / operands->out->count;
    cadre_strided_place_t place;
    cadre_strided_start(walk, &place);
    do {
        char *out = (char *)operands->out_data + place.out * size;
        const char *x = (const char *)operands->data[0] + place.at[0] * size;
        if (dtype == CADRE_I32) {
            gather_i32(out, x, step, count);
        } else if (dtype == CADRE_BF16) {
            gather_bf16(out, x, step, count);
        } else {
            gather_real(out, x, step, count);
        }
    } while (cadre_strided_next(walk, &place));
    if (operands->step->op == CADRE_OP_BROADCAST &&
        operands->step->attributes[CADRE_BROADCAST_SHARE]) {
        cadre_real_t *out = operands->out_data;
        cadre_real_t copies = (cadre_real_t)(operands->out->count / operands->inputs[0]->count);
        for (int64_t i = 0; i < operands->out->count; i++) {
            out[i] /= copies;
        }
    }
}

/* Bytes of one step along `axis` times all axes before it, and how many there are. */
static void
block_layout(const cadre_plan_value_t *value, int64_t axis, int64_t *blocks, size_t *block_bytes)
{
    *blocks = 1;
    for (int64_t i = 0; i < axis; i++) {
        *blocks *= value->shape[i];
    }
    *block_bytes = value->size_bytes / (size_t)*blocks;
}

void
cadre_cpu_concat(const cadre_operands_t *operands)
{
    int64_t axis = operands->step->attributes[CADRE_AXIS];
    int64_t blocks = 0;
    size_t out_bytes = 0;
    block_layout(operands->out, axis, &blocks, &out_bytes);
    char *out = operands->out_data;
    for (int i = 0; i < operands->step->input_count; i++) {
        size_t block_bytes = 0;
        block_layout(operands->inputs[i], axis, &blocks, &block_bytes);
        const char *x = operands->data[i];
        for (int64_t block = 0; block < blocks; block++) {
            memcpy(out + (size_t)block * out_bytes, x + (size_t)block * block_bytes, block_bytes);
        }
        out += block_bytes;
    }
}

void
cadre_cpu_pad(const cadre_operands_t *operands)
{
    int64_t axis = operands->step->attributes[CADRE_AXIS];
    int64_t blocks = 0;
    size_t out_bytes = 0;
    size_t block_bytes = 0;
    block_layout(operands->out, axis, &blocks, &out_bytes);
    block_layout(operands->inputs[0], axis, &blocks, &block_bytes);
    /* The padding counts in units of the axis' symbol: in shares of all that is padded. */
    int64_t before = operands->step->attributes[CADRE_PAD_BEFORE];
    int64_t after = operands->step->attributes[CADRE_PAD_AFTER];
    size_t padding = out_bytes - block_bytes;
    size_t front = before == 0 ? 0 : padding / (size_t)(before + after) * (size_t)before;
    char *out = operands->out_data;
    const char *x = operands->data[0];
    for (int64_t block = 0; block < blocks; block++) {
        memset(out, 0, front);
        memcpy(out + front, x, block_bytes);
        memset(out + front + block_bytes, 0, padding - front);
        out += out_bytes;
        x += block_bytes;
    }
}

void
cadre_cpu_rand(const cadre_operands_t *operands)
{
    enum { BATCH = 256 };
    /* Apart from the streams that others make of the same seed. */
    uint64_t stream =
        (UINT64_C(0x72616e64) << 32) | (uint64_t)operands->step->attributes[CADRE_RAND_STREAM];
    cadre_real_t *out = operands->out_data;
    float numbers[BATCH];
    for (int64_t first = 0; first < operands->out->count; first += BATCH) {
        int64_t left = operands->out->count - first;
        int64_t count = left < BATCH ? left : BATCH;
        cadre_random_fill_uniform(operands->seed, stream, (uint64_t)first, (size_t)count, numbers);
        for (int64_t i = 0; i < count; i++) {
            out[first + i] = numbers[i];
        }
    }
}
