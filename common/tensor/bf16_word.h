/*
 * bf16_word - rounds one f32 to bf16, by its bits; used by all code that rounds to bf16.
 *
 * For C and for device compilers, which define CADRE_ELEMENT to mark functions as their own.
 */
#ifndef CADRE_COMMON_TENSOR_BF16_WORD_H
#define CADRE_COMMON_TENSOR_BF16_WORD_H

#include <stdint.h>

#ifndef CADRE_ELEMENT
#define CADRE_ELEMENT static inline
#endif

/* Returns the bf16 nearest to the f32 with bits `word`, ties to even; infinity for a number beyond
 * the largest bf16. NaN keeps its sign and becomes a quiet NaN, since rounding its bits could give
 * infinity. Written without a branch, so that the compiler vectorises loops around it. */
CADRE_ELEMENT uint16_t
cadre_bf16_word(uint32_t word)
{
    uint32_t rounded = (word + 0x7fff + (word >> 16 & 1)) >> 16;
    uint32_t quiet = word >> 16 | 0x40;
    return (uint16_t)((word & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
}

#endif
