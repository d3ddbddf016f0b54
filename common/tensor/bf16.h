/*
 * bf16 - f32 to bf16 and back: the upper half of an f32, so its range with 8 bits of precision.
 *
 * What rounds is in bf16_word.h, for devices as well. Compiled with -O3; on x86-64 built plain and
 * with AVX2, and the CPU chooses.
 *
 * Thread:  any.
 */
#ifndef CADRE_COMMON_TENSOR_BF16_H
#define CADRE_COMMON_TENSOR_BF16_H

#include <stdbool.h>
#include <stddef.h>

/* Rounds `count` numbers to the nearest bf16, ties to even; beyond the largest one stands infinity,
 * and NaN stays NaN. False when one of the results is infinite or NaN. `out` has room for 2 bytes
 * each, at any address, and overlaps nothing. */
bool cadre_bf16_from_f32(const float *in, void *out, size_t count);

/* The f32 of `count` bf16, which may begin at any address. Exact. */
void cadre_bf16_to_f32(const void *in, float *out, size_t count);

/* Whether none of `count` bf16, which may begin at any address, is infinite or NaN. */
bool cadre_bf16_finite(const void *words, size_t count);

#endif
