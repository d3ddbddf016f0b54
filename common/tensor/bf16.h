/*
 * bf16 - f32 to bf16 and back: the upper half of an f32, so its range with 8 bits of precision.
 *
 * The rounding is in bf16_word.h, which devices use as well. Compiled with -O3; on x86-64 each loop
 * is compiled plain and with AVX2, and the CPU decides at run time.
 *
 * Thread:  any.
 */
#ifndef CADRE_COMMON_TENSOR_BF16_H
#define CADRE_COMMON_TENSOR_BF16_H

#include <stdbool.h>
#include <stddef.h>

/* Rounds `count` numbers to the nearest bf16, ties to even; a number beyond the largest bf16
 * becomes infinity, and NaN stays NaN. Returns false when a result is infinite or NaN. `out` has
 * room for 2 bytes each, at any address, and does not overlap `in`. */
bool cadre_bf16_from_f32(const float *in, void *out, size_t count);

/* Converts `count` bf16, which may begin at any address, to f32; exact. */
void cadre_bf16_to_f32(const void *in, float *out, size_t count);

/* Returns whether none of `count` bf16, which may begin at any address, is infinite or NaN. */
bool cadre_bf16_finite(const void *words, size_t count);

#endif
