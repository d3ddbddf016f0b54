/*
 * convert - converts f32 to bf16 and back, and finds numbers beyond a limit.
 *
 * A thread converts eight numbers, so that it reads and writes 16 bytes at a time where the memory
 * is aligned to 16. Bound by memory.
 */
#include "worker/device/cuda/kernels.h"
#include "worker/device/cuda/walk.cuh"

enum { EIGHT = 8 };

struct alignas(16) eight_bf16_t {
    uint16_t words[EIGHT];
};

/* Returns whether a bf16 number is neither infinite nor NaN: its exponent is not all ones. */
static __device__ __forceinline__ bool
is_bf16_finite(uint16_t word)
{
    return (word & 0x7f80) != 0x7f80;
}

struct convert_t {
    int64_t count;
    const float *f32;
    const uint16_t *bf16;
    float *out_f32;
    uint16_t *out_bf16;
    int32_t *flag; /* set to 1; no atomics needed, since every thread that stores stores 1 */
    float limit;
    bool vectors;
};

/* Sets the flag when a number is NaN or its absolute value exceeds the limit; eight numbers per
 * thread. */
static __global__ void
check_limit(const __grid_constant__ convert_t convert)
{
    int64_t first = static_cast<int64_t>(unit_index()) * EIGHT;
    bool within = true;
    if (convert.vectors && first + EIGHT <= convert.count) {
        for (int k = 0; k < EIGHT; k += VECTOR) {
            vector_t<float> x = *reinterpret_cast<const vector_t<float> *>(convert.f32 + first + k);
            for (int i = 0; i < VECTOR; i++) {
                within = within && fabsf(x.words[i]) <= convert.limit;
            }
        }
    } else {
        for (int64_t i = first; i < first + EIGHT && i < convert.count; i++) {
            within = within && fabsf(convert.f32[i]) <= convert.limit;
        }
    }
    if (!within) {
        *convert.flag = 1;
    }
}

/* Converts f32 to bf16, eight numbers per thread, in wide accesses where memory is aligned
 * (`vectors`); sets the flag when a result is not finite. */
static __global__ void
to_bf16(const __grid_constant__ convert_t convert)
{
    int64_t first = static_cast<int64_t>(unit_index()) * EIGHT;
    bool finite = true;
    if (convert.vectors && first + EIGHT <= convert.count) {
        eight_bf16_t results;
        for (int k = 0; k < EIGHT; k += VECTOR) {
            vector_t<float> x = *reinterpret_cast<const vector_t<float> *>(convert.f32 + first + k);
            for (int i = 0; i < VECTOR; i++) {
                results.words[k + i] = cadre_element_to_bf16(x.words[i]);
                finite = finite && is_bf16_finite(results.words[k + i]);
            }
        }
        *reinterpret_cast<eight_bf16_t *>(convert.out_bf16 + first) = results;
    } else {
        for (int64_t i = first; i < first + EIGHT && i < convert.count; i++) {
            convert.out_bf16[i] = cadre_element_to_bf16(convert.f32[i]);
            finite = finite && is_bf16_finite(convert.out_bf16[i]);
        }
    }
    if (!finite) {
        *convert.flag = 1;
    }
}

/* Converts bf16 to f32, eight numbers per thread, in wide accesses where memory is aligned
 * (`vectors`). */
static __global__ void
from_bf16(const __grid_constant__ convert_t convert)
{
    int64_t first = static_cast<int64_t>(unit_index()) * EIGHT;
    if (convert.vectors && first + EIGHT <= convert.count) {
        eight_bf16_t x = *reinterpret_cast<const eight_bf16_t *>(convert.bf16 + first);
        for (int k = 0; k < EIGHT; k += VECTOR) {
            vector_t<float> results;
            for (int i = 0; i < VECTOR; i++) {
                results.words[i] = cadre_element_from_bf16(x.words[k + i]);
            }
            *reinterpret_cast<vector_t<float> *>(convert.out_f32 + first + k) = results;
        }
        return;
    }
    for (int64_t i = first; i < first + EIGHT && i < convert.count; i++) {
        convert.out_f32[i] = cadre_element_from_bf16(convert.bf16[i]);
    }
}

/* Returns how many blocks of threads it takes at eight numbers per thread. */
static unsigned
blocks_of_eight(int64_t count)
{
    return block_count((static_cast<uint64_t>(count) + EIGHT - 1) / EIGHT);
}

/* Enqueues the check of `count` numbers against a limit, which sets *flag (on the device). */
int
cadre_cuda_check_limit(const float *x, int64_t count, float limit, int32_t *flag, void *stream)
{
    if (count == 0) {
        return 0;
    }
    convert_t convert = {};
    convert.count = count;
    convert.f32 = x;
    convert.flag = flag;
    convert.limit = limit;
    convert.vectors = is_vector_aligned(x);
    return launch(check_limit, blocks_of_eight(count), BLOCK, stream, convert);
}

/* Enqueues the conversion of f32 to bf16; sets *not_finite (on the device) for an infinite result
 * or NaN. */
int
cadre_cuda_to_bf16(const float *x, uint16_t *out, int64_t count, int32_t *not_finite, void *stream)
{
    if (count == 0) {
        return 0;
    }
    convert_t convert = {};
    convert.count = count;
    convert.f32 = x;
    convert.out_bf16 = out;
    convert.flag = not_finite;
    convert.vectors = is_vector_aligned(x) && is_vector_aligned(out);
    return launch(to_bf16, blocks_of_eight(count), BLOCK, stream, convert);
}

/* Enqueues the conversion of bf16 to f32. */
int
cadre_cuda_from_bf16(const uint16_t *x, float *out, int64_t count, void *stream)
{
    if (count == 0) {
        return 0;
    }
    convert_t convert = {};
    convert.count = count;
    convert.bf16 = x;
    convert.out_f32 = out;
    convert.vectors = is_vector_aligned(x) && is_vector_aligned(out);
    return launch(from_bf16, blocks_of_eight(count), BLOCK, stream, convert);
}
