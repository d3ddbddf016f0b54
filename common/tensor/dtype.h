/*
 * dtype - what the types of elements have: where each may stand, and the functions that know its
 * bits. A row for each.
 *
 * Who wants to know whether a type is one of variables, or how it becomes f32, asks the row; a type
 * that is added is a row here and in <cadre/tensor.h>, which has its number, size and text. The
 * types in which values may travel are those of common/spec/wire_dtype.h.
 *
 * Thread:  any; the rows never change.
 */
#ifndef CADRE_COMMON_TENSOR_DTYPE_H
#define CADRE_COMMON_TENSOR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cadre/tensor.h>

/* Elements may begin at any address, but for that of `number`. */
typedef struct {
    /* Variables may have it. Of those that are not f32 the initial value is a constant, and the
     * optimizer add. */
    bool is_of_variables;

    /* Arguments of programs may have it, and casts may make it. */
    bool is_of_programs;

    /* The first element as a number, rounded where a double has fewer digits. */
    double (*number)(const void *elements);

    /* Whether no element is infinite or NaN; NULL for integers, which never are. */
    bool (*is_finite)(const void *elements, size_t count);

    /* Rounds numbers to it; false when one of the results is infinite or NaN. Input and output do
     * not overlap. NULL, like the next one, where f32 does not travel in it. */
    bool (*from_f32)(const float *in, void *out, size_t count);
    void (*to_f32)(const void *in, float *out, size_t count);
} cadre_dtype_traits_t;

/* Returns the row of a dtype; of a number that is none, a row of nothing. */
const cadre_dtype_traits_t *cadre_dtype_traits(cadre_dtype_t dtype);

/* Whether the number is that of a dtype. */
bool cadre_dtype_valid(uint64_t number);

/* Returns the dtype of this text ("f32"); 0 when there is none. */
cadre_dtype_t cadre_dtype_of_text(const char *text);

/* Whether none of `count` elements, at any address, is infinite or NaN. */
bool cadre_dtype_is_finite(cadre_dtype_t dtype, const void *elements, size_t count);

/* Returns the place of the first of `count` numbers that is finite and has become infinite by
 * from_f32; `count` when there is none. Slow: it says why from_f32 was false. */
size_t cadre_dtype_find_beyond(cadre_dtype_t dtype, const float *numbers, size_t count);

#endif
