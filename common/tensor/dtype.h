/*
 * dtype - a row for each type of elements: where it may be used, and the functions that know its
 * bits.
 *
 * Code that needs to know whether a type may be a variable's, or how to convert it to f32, asks the
 * row. A new type is a row here and in <cadre/tensor.h>, which has its number, size and text. The
 * types in which values may travel are in common/spec/wire_dtype.h.
 *
 * Thread:  any; the rows never change.
 */
#ifndef CADRE_COMMON_TENSOR_DTYPE_H
#define CADRE_COMMON_TENSOR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cadre/tensor.h>

/* The row of a dtype. Elements given to its functions may begin at any address, except for
 * `number`. */
typedef struct {
    /* Variables may have this dtype. If it is not f32 their initial value must be a constant and
     * their optimizer `add`. */
    bool is_of_variables;

    /* Arguments of programs may have this dtype, and casts may convert to it. */
    bool is_of_programs;

    /* Returns the first element as a double, rounded if a double has fewer digits. */
    double (*number)(const void *elements);

    /* Returns whether no element is infinite or NaN; NULL for integers, which never are. */
    bool (*is_finite)(const void *elements, size_t count);

    /* from_f32 rounds f32 to this dtype, and returns false when a result is infinite or NaN; to_f32
     * converts back. Input and output do not overlap. Both functions are NULL for a dtype in which
     * f32 values may not travel. */
    bool (*from_f32)(const float *in, void *out, size_t count);
    void (*to_f32)(const void *in, float *out, size_t count);
} cadre_dtype_traits_t;

/* Returns the row of a dtype; for a number that is no dtype, a row in which everything is false or
 * NULL. */
const cadre_dtype_traits_t *cadre_dtype_traits(cadre_dtype_t dtype);

/* Returns whether the number is that of a dtype. */
bool cadre_dtype_valid(uint64_t number);

/* Returns the dtype of this text ("f32"); 0 when there is none. */
cadre_dtype_t cadre_dtype_of_text(const char *text);

/* Returns whether none of `count` elements, at any address, is infinite or NaN. */
bool cadre_dtype_is_finite(cadre_dtype_t dtype, const void *elements, size_t count);

/* Returns whether one of `count` elements of a variable, at any address, is 0. */
bool cadre_dtype_has_zero(cadre_dtype_t dtype, const void *elements, size_t count);

/* Returns the position of the first of `count` numbers that is finite and becomes infinite by
 * from_f32; `count` when there is none. Slow: used only to explain why from_f32 returned false. */
size_t cadre_dtype_find_beyond(cadre_dtype_t dtype, const float *numbers, size_t count);

#endif
