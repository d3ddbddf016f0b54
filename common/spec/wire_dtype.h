/*
 * wire_dtype - the type in which a variable's values and gradients travel between ps and workers.
 *
 * It is the variable's own, or bf16 for f32: half the bytes. A ps keeps, updates and saves what the
 * variable's dtype says in any case. Messages and manifests name the type only where it is another
 * one; everything else holds the type itself.
 */
#ifndef CADRE_COMMON_SPEC_WIRE_DTYPE_H
#define CADRE_COMMON_SPEC_WIRE_DTYPE_H

#include <stdint.h>

#include <cadre/tensor.h>

/* The types in which values of f32 may travel: name, word in job files. */
#define CADRE_WIRE_DTYPE_LIST(X)                                                                   \
    X(F32, f32)                                                                                    \
    X(BF16, bf16)

#define CADRE_WIRE_DTYPE_WORD(NAME, word) "|" #word

/* The words in the list's order: "f32|bf16". */
#define CADRE_WIRE_DTYPE_WORDS (&CADRE_WIRE_DTYPE_LIST(CADRE_WIRE_DTYPE_WORD)[1])

/* Returns the type at a place of the list. */
cadre_dtype_t cadre_wire_dtype_at(int64_t place);

/* The type that `number` means for a variable of `dtype`: 0 is its own. CADRE_EDTYPE. */
int cadre_wire_dtype_decode(uint64_t number, cadre_dtype_t dtype, cadre_dtype_t *wire);

/* The number of it: 0 where it is the variable's own. */
uint64_t cadre_wire_dtype_encode(cadre_dtype_t dtype, cadre_dtype_t wire);

#endif
