/*
 * tensor - shapes as text and overflow-safe sizes, for use inside Cadre. The public part is
 * <cadre/tensor.h>.
 */
#ifndef CADRE_COMMON_TENSOR_TENSOR_H
#define CADRE_COMMON_TENSOR_TENSOR_H

#include <stdbool.h>

#include <cadre/tensor.h>

enum { CADRE_SHAPE_TEXT_SIZE = 192 };

/* Computes the elements and bytes of a shape; outputs may be NULL. Fails with CADRE_EINVALID for a
 * bad dtype, rank or a negative dimension, CADRE_ETOOLARGE when elements overflow int64_t or
 * bytes size_t. */
int cadre_shape_size(cadre_dtype_t dtype, const int64_t *shape, int rank, int64_t *count,
                     size_t *size_bytes);

bool cadre_shape_equal(const int64_t *left, int left_rank, const int64_t *right, int right_rank);

/* Writes a shape, such as "[3,4]" or "[]" for a scalar, into `text` of CADRE_SHAPE_TEXT_SIZE bytes;
 * returns `text`. */
const char *cadre_shape_text(const int64_t *shape, int rank, char *text);

#endif
