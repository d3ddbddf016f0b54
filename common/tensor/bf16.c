#include "common/tensor/bf16.h"

#include <stdint.h>

#include "common/tensor/bf16_word.h"

/* As in ps/core/optimizer_kernel.c: the choice at load time is an indirect function, whose resolver
 * runs before a sanitizer is ready; clang has another notion of it. Static, because a function with
 * a choice would be exported by a library that exports nothing else of this file. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) &&                            \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define KERNEL __attribute__((target_clones("avx2", "default")))
#else
#define KERNEL
#endif

/* Numbers at any address. */
typedef uint16_t unaligned_u16_t __attribute__((aligned(1), may_alias));
typedef uint32_t aliasing_u32_t __attribute__((may_alias));

static const uint16_t exponent = UINT16_C(0x7f80);

KERNEL static bool
from_f32(const float *in, void *out, size_t count)
{
    const aliasing_u32_t *words = (const aliasing_u32_t *)in;
    unaligned_u16_t *restrict to = out;
    uint16_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        uint16_t result = cadre_bf16_word(words[i]);
        to[i] = result;
        bad = (uint16_t)(bad | ((result & exponent) == exponent));
    }
    return bad == 0;
}

KERNEL static void
to_f32(const void *in, float *out, size_t count)
{
    const unaligned_u16_t *words = in;
    aliasing_u32_t *restrict to = (aliasing_u32_t *)out;
    for (size_t i = 0; i < count; i++) {
        to[i] = (uint32_t)words[i] << 16;
    }
}

KERNEL static bool
finite(const void *words, size_t count)
{
    const unaligned_u16_t *numbers = words;
    uint16_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        bad = (uint16_t)(bad | ((numbers[i] & exponent) == exponent));
    }
    return bad == 0;
}

bool
cadre_bf16_from_f32(const float *in, void *out, size_t count)
{
    return from_f32(in, out, count);
}

void
cadre_bf16_to_f32(const void *in, float *out, size_t count)
{
    to_f32(in, out, count);
}

bool
cadre_bf16_finite(const void *words, size_t count)
{
    return finite(words, count);
}

static bool
is_infinite_or_nan(uint32_t bf16)
{
    return (bf16 & exponent) == exponent;
}

size_t
cadre_bf16_beyond(const float *in, size_t count)
{
    const aliasing_u32_t *words = (const aliasing_u32_t *)in;
    size_t i = 0;
    while (i < count &&
           (is_infinite_or_nan(words[i] >> 16) || !is_infinite_or_nan(cadre_bf16_word(words[i])))) {
        i++;
    }
    return i;
}
