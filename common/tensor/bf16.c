#include "common/tensor/bf16.h"

#include <stdint.h>

#include "common/tensor/bf16_word.h"
#include "common/tensor/clones.h"

/* Types of words that may stand at any address, or be read as another type. */
typedef uint16_t unaligned_u16_t __attribute__((aligned(1), may_alias));
typedef uint32_t aliasing_u32_t __attribute__((may_alias));

static const uint16_t exponent = UINT16_C(0x7f80);

/* Rounds f32 to bf16; returns false when a result is infinite or NaN, that is, has all bits of the
 * exponent set. The loop runs to the end in any case, so that it can be vectorised. */
CADRE_CLONES static bool
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

/* Converts bf16 to f32, whose upper half it is. */
CADRE_CLONES static void
to_f32(const void *in, float *out, size_t count)
{
    const unaligned_u16_t *words = in;
    aliasing_u32_t *restrict to = (aliasing_u32_t *)out;
    for (size_t i = 0; i < count; i++) {
        to[i] = (uint32_t)words[i] << 16;
    }
}

/* Returns whether no bf16 is infinite or NaN, that is, has all bits of the exponent set. */
CADRE_CLONES static bool
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
