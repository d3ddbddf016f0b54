/*
 * tensor - a dense, contiguous, row-major array with a data type and a shape.
 */
#ifndef CADRE_TENSOR_H
#define CADRE_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include <cadre/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The data types. Columns: name, number on the wire and on disk, bytes per element, text. */
#define CADRE_DTYPE_LIST(X)                                                                        \
    X(CADRE_F32, 1, 4, "f32")                                                                      \
    X(CADRE_F64, 2, 8, "f64")                                                                      \
    X(CADRE_I32, 3, 4, "i32")                                                                      \
    X(CADRE_I64, 4, 8, "i64")                                                                      \
    X(CADRE_U64, 5, 8, "u64")                                                                      \
    X(CADRE_U8, 6, 1, "u8")                                                                        \
    X(CADRE_BF16, 7, 2, "bf16")

typedef enum {
#define CADRE_DTYPE_ENUM(name, number, size_bytes, text) name = number,
    CADRE_DTYPE_LIST(CADRE_DTYPE_ENUM)
#undef CADRE_DTYPE_ENUM
} cadre_dtype_t;

enum { CADRE_RANK_MAX = 8 };

/* A tensor with memory of its own, or a view of memory that somebody else owns; the field `owned`
 * tells which. A struct that a program fills in itself is a view, {.dtype = CADRE_F32, .data =
 * &number}; one that is all zero is empty. A copy of the struct shares its memory, so only one of
 * the two is ended. The struct will get no further fields. */
typedef struct {
    cadre_dtype_t dtype;
    /* 0 (one element) to CADRE_RANK_MAX. */
    int rank;
    /* Elements per axis, outermost first; 0 is allowed. */
    int64_t shape[CADRE_RANK_MAX];
    /* cadre_tensor_size_bytes bytes, row-major; 64-byte aligned when Cadre allocated them. */
    void *data;
    /* What cadre_tensor_fini frees; NULL for a view. Set by Cadre alone. */
    void *owned;
} cadre_tensor_t;

/* Returns the bytes per element; 0 for a number that is no dtype. */
CADRE_API size_t cadre_dtype_size(cadre_dtype_t dtype);

/* Returns "f32" and so on; "?" for a number that is no dtype. */
CADRE_API const char *cadre_dtype_text(cadre_dtype_t dtype);

/* Returns the elements in `tensor`, 1 for rank 0. */
CADRE_API int64_t cadre_tensor_count(const cadre_tensor_t *tensor);

/* Returns the bytes that `data` has. */
CADRE_API size_t cadre_tensor_size_bytes(const cadre_tensor_t *tensor);

/* Allocates zeroed memory for the shape; the caller ends the tensor with cadre_tensor_fini. What
 * the struct held before is overwritten, not freed.
 *
 * CADRE_EINVALID: a bad dtype, rank or dimension.
 * CADRE_ETOOLARGE: the size overflows. */
CADRE_API int cadre_tensor_init(cadre_tensor_t *tensor, cadre_dtype_t dtype, const int64_t *shape,
                                int rank);

/* Returns a view of `data`, which stays the caller's: rank 0 and shape NULL for one number,
 *
 *     float rate = 0.1f;
 *     cadre_tensor_t value = cadre_tensor_view(CADRE_F32, &rate, NULL, 0);
 *
 * A bad rank gives the empty tensor. If `data` is const, give the view only to calls that take a
 * const tensor: these do not write to it. */
CADRE_API cadre_tensor_t cadre_tensor_view(cadre_dtype_t dtype, const void *data,
                                           const int64_t *shape, int rank);

/* Gives the one element of a tensor as a number, whatever its type.
 *
 * CADRE_EINVALID: there is no tensor, or it is empty.
 * CADRE_ESHAPE: it has no element, or several. */
CADRE_API int cadre_tensor_number(const cadre_tensor_t *tensor, double *number);

/* Frees the memory of a tensor that owns it, and clears the struct; of a view it only clears the
 * struct. `tensor` may be NULL or empty. */
CADRE_API void cadre_tensor_fini(cadre_tensor_t *tensor);

#ifdef __cplusplus
}
#endif
#endif
