/*
 * bf16_word - one f32 as bf16, bit by bit: the one place that rounds.
 *
 * For C and for device compilers, which define CADRE_ELEMENT to mark functions as their own.
 */
#ifndef CADRE_COMMON_TENSOR_BF16_WORD_H
#define CADRE_COMMON_TENSOR_BF16_WORD_H

#include <stdint.h>

#ifndef CADRE_ELEMENT
#define CADRE_ELEMENT static inline
#endif

/* The bf16 nearest to the f32 of bits `word`, ties to even; beyond the largest one stands infinity.
 * NaN keeps its sign and becomes quiet: rounding could turn it into infinity. Written as a choice
 * between two numbers, so that loops around it become vectors. */
CADRE_ELEMENT uint16_t
cadre_bf16_word(uint32_t word)
{
    uint32_t rounded = (word + 0x7fff + (word >> 16 & 1)) >> 16;
    uint32_t quiet = word >> 16 | 0x40;
    return (uint16_t)((word & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
}

#endif
