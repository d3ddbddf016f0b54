#include "common/tensor/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"

/* Checks a dtype and a shape, and computes the number of elements and of bytes; outputs may be
 * NULL. */
int
cadre_shape_size(cadre_dtype_t dtype, const int64_t *shape, int rank, int64_t *count,
                 size_t *size_bytes)
{
    if (cadre_dtype_size(dtype) == 0) {
        return cadre_fail(CADRE_EINVALID, "%d is no data type", (int)dtype);
    }
    if (rank < 0 || rank > CADRE_RANK_MAX) {
        return cadre_fail(CADRE_EINVALID, "rank %d is not in 0..%d", rank, CADRE_RANK_MAX);
    }
    if (rank > 0 && !shape) {
        return cadre_fail(CADRE_EINVALID, "rank %d, but no dimensions", rank);
    }
    /* The product over the dimensions other than 0 must fit too, so that an empty tensor stays
     * cheap to check. */
    int64_t product = 1;
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0) {
            return cadre_fail(CADRE_EINVALID, "dimension %d is %" PRId64, i, shape[i]);
        }
        if (shape[i] == 0) {
            empty = true;
        } else if (__builtin_mul_overflow(product, shape[i], &product)) {
            return cadre_fail(CADRE_ETOOLARGE, "the shape has more than 2^63 elements");
        }
    }
    size_t bytes = 0;
    if (__builtin_mul_overflow(product, cadre_dtype_size(dtype), &bytes) || bytes > INT64_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "the shape has more than 2^63 bytes");
    }
    if (count) {
        *count = empty ? 0 : product;
    }
    if (size_bytes) {
        *size_bytes = empty ? 0 : bytes;
    }
    return 0;
}

/* Returns the number of elements; 1 for rank 0. The shape has been checked for overflow. */
int64_t
cadre_tensor_count(const cadre_tensor_t *tensor)
{
    int64_t count = 1;
    for (int i = 0; i < tensor->rank; i++) {
        count *= tensor->shape[i];
    }
    return count;
}

size_t
cadre_tensor_size_bytes(const cadre_tensor_t *tensor)
{
    return (size_t)cadre_tensor_count(tensor) * cadre_dtype_size(tensor->dtype);
}

/* Makes a tensor of zeros, which owns its memory. */
int
cadre_tensor_init(cadre_tensor_t *tensor, cadre_dtype_t dtype, const int64_t *shape, int rank)
{
    size_t size_bytes = 0;
    int status = cadre_shape_size(dtype, shape, rank, NULL, &size_bytes);
    if (status < 0) {
        return status;
    }
    *tensor = (cadre_tensor_t){.dtype = dtype, .rank = rank};
    for (int i = 0; i < rank; i++) {
        tensor->shape[i] = shape[i];
    }
    tensor->data = cadre_aligned_alloc(size_bytes);
    tensor->owned = tensor->data;
    memset(tensor->data, 0, size_bytes);
    return 0;
}

/* Returns a tensor that refers to `data` and owns nothing; the empty tensor for a bad rank. */
cadre_tensor_t
cadre_tensor_view(cadre_dtype_t dtype, const void *data, const int64_t *shape, int rank)
{
    cadre_tensor_t view = {.dtype = dtype, .rank = rank, .data = (void *)(uintptr_t)data};
    if (rank < 0 || rank > CADRE_RANK_MAX || (rank > 0 && !shape)) {
        return (cadre_tensor_t){0};
    }
    for (int i = 0; i < rank; i++) {
        view.shape[i] = shape[i];
    }
    return view;
}

/* Gives the one element of a tensor as a double; `number` may be NULL. */
int
cadre_tensor_number(const cadre_tensor_t *tensor, double *number)
{
    char text[CADRE_SHAPE_TEXT_SIZE];
    if (!tensor || !tensor->data || cadre_dtype_size(tensor->dtype) == 0) {
        return cadre_fail(CADRE_EINVALID, "there is no tensor to have a number");
    }
    if (cadre_tensor_count(tensor) != 1) {
        return cadre_fail(CADRE_ESHAPE, "one number is in no tensor of shape %s",
                          cadre_shape_text(tensor->shape, tensor->rank, text));
    }
    if (number) {
        *number = cadre_dtype_traits(tensor->dtype)->number(tensor->data);
    }
    return 0;
}

/* Frees what the tensor owns, which is nothing for a view, and clears the struct. */
void
cadre_tensor_fini(cadre_tensor_t *tensor)
{
    if (!tensor) {
        return;
    }
    free(tensor->owned);
    *tensor = (cadre_tensor_t){0};
}

/* Returns whether two shapes have the same rank and the same dimensions. */
bool
cadre_shape_equal(const int64_t *left, int left_rank, const int64_t *right, int right_rank)
{
    if (left_rank != right_rank) {
        return false;
    }
    for (int i = 0; i < left_rank; i++) {
        if (left[i] != right[i]) {
            return false;
        }
    }
    return true;
}

/* Writes a shape as "[3,4]" into `text` of CADRE_SHAPE_TEXT_SIZE bytes, and returns `text`. */
const char *
cadre_shape_text(const int64_t *shape, int rank, char *text)
{
    size_t at = 0;
    text[at++] = '[';
    /* 24 bytes are enough for one dimension, its comma and the closing bracket. */
    for (int i = 0; i < rank && at + 24 < CADRE_SHAPE_TEXT_SIZE; i++) {
        int length =
            snprintf(text + at, CADRE_SHAPE_TEXT_SIZE - at, "%s%" PRId64, i ? "," : "", shape[i]);
        at += (size_t)length;
    }
    text[at++] = ']';
    text[at] = '\0';
    return text;
}
