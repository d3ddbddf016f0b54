#include "worker/data/batch.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/permutation.h"
#include "common/base/status.h"
#include "common/tensor/tensor.h"

enum { ROWS_AT_ONCE = 256 };

/* Gives `tensor` this dtype and shape; keeps its memory if it has them already. */
static int
ensure(cadre_tensor_t *tensor, cadre_dtype_t dtype, const int64_t *shape, int rank)
{
    if (tensor->data && tensor->dtype == dtype &&
        cadre_shape_equal(tensor->shape, tensor->rank, shape, rank)) {
        return 0;
    }

    cadre_tensor_t fresh = {0};
    int status = cadre_tensor_init(&fresh, dtype, shape, rank);
    if (status < 0) {
        return status;
    }

    cadre_tensor_fini(tensor);
    *tensor = fresh;
    return 0;
}

/* Fails when the rows are not all in the dataset, or are too large for one batch. */
static int
check_range(const cadre_source_info_t *info, int64_t first, int64_t count)
{
    if (first < 0 || count < 1 || first >= info->rows || count > info->rows - first) {
        return cadre_fail(CADRE_EINVALID,
                          "%" PRId64 " rows from position %" PRId64
                          " on do not lie in a dataset of %" PRId64,
                          count, first, info->rows);
    }

    uint64_t row_size = (uint64_t)info->features * sizeof(float);
    if ((uint64_t)count > CADRE_BATCH_SIZE_MAX / row_size) {
        return cadre_fail(CADRE_ETOOLARGE,
                          "a batch of %" PRId64 " rows of %" PRIu64 " bytes is more than %" PRIu64
                          " bytes",
                          count, row_size, CADRE_BATCH_SIZE_MAX);
    }

    return 0;
}

/* Copies `count` rows of an epoch, from position `first` of its order on, into `x` and `y`. */
static int
copy_rows(cadre_source_t *source, const cadre_batch_order_t *order, int64_t first, int64_t count,
          cadre_tensor_t *x, cadre_tensor_t *y)
{
    const cadre_source_info_t *info = cadre_source_info(source);
    size_t y_size = cadre_dtype_size(info->y_dtype);
    cadre_permutation_t permutation;

    if (order->shuffle && info->is_streamed) {
        cadre_source_choose(source, order->seed, order->epoch);
        return cadre_source_read_shuffled(source, first, count, x->data, y->data);
    }

    cadre_permutation_init(&permutation, (uint64_t)info->rows, order->seed, order->epoch);
    int64_t rows[ROWS_AT_ONCE];
    int64_t part = 0;
    for (int64_t done = 0; done < count; done += part) {
        part = count - done < ROWS_AT_ONCE ? count - done : ROWS_AT_ONCE;
        for (int64_t i = 0; i < part; i++) {
            const int64_t position = first + done + i;
            rows[i] = order->shuffle
                          ? (int64_t)cadre_permutation_at(&permutation, (uint64_t)position)
                          : position;
        }

        int status = cadre_source_read(source, rows, part, (float *)x->data + done * info->features,
                                       (char *)y->data + (size_t)done * y_size);
        if (status < 0) {
            return status;
        }
    }

    return 0;
}

/* Reads the rows at positions [first, first + count) of an epoch's order into x [count, features]
 * and y [count], whose memory is used again if it fits. */
int
cadre_batch_read(cadre_source_t *source, const cadre_batch_order_t *order, int64_t first,
                 int64_t count, cadre_tensor_t *x, cadre_tensor_t *y)
{
    const cadre_source_info_t *info = cadre_source_info(source);
    int status = check_range(info, first, count);
    if (status < 0) {
        return status;
    }

    status = ensure(x, CADRE_F32, (int64_t[]){count, info->features}, 2);
    if (status < 0) {
        return status;
    }

    status = ensure(y, info->y_dtype, (int64_t[]){count}, 1);
    if (status < 0) {
        return status;
    }

    return copy_rows(source, order, first, count, x, y);
}

int
cadre_batch_read_ahead(cadre_source_t *source, const cadre_batch_order_t *order, int64_t first,
                       int64_t count)
{
    if (order->shuffle && cadre_source_info(source)->is_streamed) {
        cadre_source_choose(source, order->seed, order->epoch);
    }
    return cadre_source_read_ahead(source, order->shuffle, first, count);
}
