/*
 * wire_dtype - the type in which a variable's values and gradients travel between ps and workers.
 *
 * The wire dtype is the variable's own, or bf16 for an f32 variable: half the bytes. A ps keeps,
 * updates and saves values in the variable's own dtype in any case. In messages and manifests 0
 * stands for the variable's own dtype; structs hold the wire dtype itself.
 */
#ifndef CADRE_COMMON_SPEC_WIRE_DTYPE_H
#define CADRE_COMMON_SPEC_WIRE_DTYPE_H

#include <stdint.h>

#include <cadre/tensor.h>

/* The dtypes in which f32 values may travel. Columns: name, word in job files. */
#define CADRE_WIRE_DTYPE_LIST(X)                                                                   \
    X(F32, f32)                                                                                    \
    X(BF16, bf16)

#define CADRE_WIRE_DTYPE_WORD(NAME, word) "|" #word

/* The words in the list's order: "f32|bf16". */
#define CADRE_WIRE_DTYPE_WORDS (&CADRE_WIRE_DTYPE_LIST(CADRE_WIRE_DTYPE_WORD)[1])

/* Returns the dtype at a position of the list. */
cadre_dtype_t cadre_wire_dtype_at(int64_t place);

/* Gives the wire dtype that `number` means for a variable of `dtype`; 0 means `dtype` itself. Fails
 * with CADRE_EDTYPE when values of `dtype` may not travel in the dtype with this number. */
int cadre_wire_dtype_decode(uint64_t number, cadre_dtype_t dtype, cadre_dtype_t *wire);

/* Returns the number for `wire` in messages and manifests: 0 when it is the variable's own
 * dtype. */
uint64_t cadre_wire_dtype_encode(cadre_dtype_t dtype, cadre_dtype_t wire);

#endif
