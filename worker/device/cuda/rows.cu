/*
 * rows - softmax and cross entropy over the last axis.
 *
 * A warp or a block per row. Each row is shifted by its largest element, so that no exponential
 * overflows. A row is read three times, but only the first time from global memory: it stays in the
 * cache. The output may be the memory of the input: when a thread writes an element, all threads
 * have read the row, and only this thread reads that element again.
 */
#include "worker/device/cuda/group.cuh"
#include "worker/device/cuda/kernels.h"

struct rows_t {
    int64_t rows;
    int64_t size; /* of a row */
    const float *x;
    const int32_t *labels;
    const float *gradient; /* of each row's loss */
    float *out;
    int32_t *fault;
};

struct shift_t {
    float max;
    float sum; /* of exp(x - max) */
};

/* Returns the largest element of a row and the sum of exp(x - max), computed by a group (a warp or
 * a block) of `threads`. */
template <int threads>
static __device__ __forceinline__ shift_t
shift_of(const float *x, int64_t size)
{
    CADRE_SHARED(float, shared_max, WARPS);
    CADRE_SHARED(float, shared_sum, WARPS);
    float max = -INFINITY;
    for (int64_t i = group_lane<threads>(); i < size; i += threads) {
        max = cadre_element_max(max, x[i]);
    }
    max = combine_group<group_max_t, threads>(max, shared_max);
    float sum = 0;
    for (int64_t i = group_lane<threads>(); i < size; i += threads) {
        sum += cadre_element_exp(x[i] - max);
    }
    sum = combine_group<group_sum_t, threads>(sum, shared_sum);
    return {max, sum};
}

/* Computes softmax, a row per group of threads. */
template <int threads>
static __global__ void
softmax_rows(const __grid_constant__ rows_t rows)
{
    int64_t row = group_row<threads>();
    if (row >= rows.rows) {
        return;
    }
    const float *x = rows.x + row * rows.size;
    float *out = rows.out + row * rows.size;
    shift_t shift = shift_of<threads>(x, rows.size);
    float scale = 1 / shift.sum;
    for (int64_t i = group_lane<threads>(); i < rows.size; i += threads) {
        out[i] = cadre_element_exp(x[i] - shift.max) * scale;
    }
}

/* Computes log(softmax(x)) = x - max - log(sum). The two are subtracted one after the other: max +
 * log(sum) would lose the digits of a small loss under a large logit. */
template <int threads>
static __global__ void
log_softmax_rows(const __grid_constant__ rows_t rows)
{
    int64_t row = group_row<threads>();
    if (row >= rows.rows) {
        return;
    }
    const float *x = rows.x + row * rows.size;
    float *out = rows.out + row * rows.size;
    shift_t shift = shift_of<threads>(x, rows.size);
    float log_sum = cadre_element_log(shift.sum);
    for (int64_t i = group_lane<threads>(); i < rows.size; i += threads) {
        out[i] = x[i] - shift.max - log_sum;
    }
}

/* Returns the label of a row; -1, and sets the fault flag, when it is out of range. */
template <int threads>
static __device__ __forceinline__ int32_t
label_of(const rows_t &rows, int64_t row)
{
    int32_t label = rows.labels[row];
    if (label >= 0 && label < rows.size) {
        return label;
    }
    if (group_lane<threads>() == 0) {
        *rows.fault = 1;
    }
    return -1;
}

/* Computes the cross entropy of a row and its label, a row per group of threads. */
template <int threads>
static __global__ void
xent_rows(const __grid_constant__ rows_t rows)
{
    int64_t row = group_row<threads>();
    if (row >= rows.rows) {
        return;
    }
    const float *x = rows.x + row * rows.size;
    int32_t label = label_of<threads>(rows, row);
    shift_t shift = shift_of<threads>(x, rows.size);
    if (group_lane<threads>() == 0) {
        float chosen = label < 0 ? 0 : x[label] - shift.max;
        rows.out[row] = cadre_element_log(shift.sum) - chosen;
    }
}

/* Computes dL/dx of cross entropy: (softmax(x) - [i is the label]) times the gradient of the row's
 * loss. */
template <int threads>
static __global__ void
xent_grad_rows(const __grid_constant__ rows_t rows)
{
    int64_t row = group_row<threads>();
    if (row >= rows.rows) {
        return;
    }
    const float *x = rows.x + row * rows.size;
    float *out = rows.out + row * rows.size;
    int32_t label = label_of<threads>(rows, row);
    float scale = rows.gradient[row];
    shift_t shift = shift_of<threads>(x, rows.size);
    float share = scale / shift.sum;
    for (int64_t i = group_lane<threads>(); i < rows.size; i += threads) {
        float y = cadre_element_exp(x[i] - shift.max) * share;
        out[i] = i == label ? y - scale : y;
    }
}

/* ---- the host ---- */

/* Returns the kernels' parameters that all ops over rows share. */
static rows_t
rows_of(const cadre_cuda_operands_t *operands)
{
    const cadre_plan_value_t *x = operands->inputs[0];
    rows_t rows = {};
    rows.size = x->shape[x->rank - 1];
    rows.rows = x->count / rows.size;
    rows.x = static_cast<const float *>(operands->data[0]);
    rows.out = static_cast<float *>(operands->out_data);
    rows.fault = operands->fault;
    return rows;
}

typedef void kernel_t(rows_t);

/* Launches a warp per row for short rows, else a block per row. */
static int
launch_rows(kernel_t *of_warps, kernel_t *of_blocks, const rows_t &rows, void *stream)
{
    bool short_rows = rows.size <= WARP_ROW_MAX;
    kernel_t *kernel = short_rows ? of_warps : of_blocks;
    uint64_t threads = static_cast<uint64_t>(rows.rows) * (short_rows ? WARP : BLOCK);
    return threads == 0 ? 0 : launch(kernel, block_count(threads), BLOCK, stream, rows);
}

int
cadre_cuda_softmax(const cadre_cuda_operands_t *operands, void *stream)
{
    rows_t rows = rows_of(operands);
    if (operands->step->attributes[CADRE_SOFTMAX_LOG]) {
        return launch_rows(log_softmax_rows<WARP>, log_softmax_rows<BLOCK>, rows, stream);
    }
    return launch_rows(softmax_rows<WARP>, softmax_rows<BLOCK>, rows, stream);
}

int
cadre_cuda_xent(const cadre_cuda_operands_t *operands, void *stream)
{
    rows_t rows = rows_of(operands);
    rows.labels = static_cast<const int32_t *>(operands->data[1]);
    return launch_rows(xent_rows<WARP>, xent_rows<BLOCK>, rows, stream);
}

int
cadre_cuda_xent_grad(const cadre_cuda_operands_t *operands, void *stream)
{
    rows_t rows = rows_of(operands);
    rows.labels = static_cast<const int32_t *>(operands->data[1]);
    rows.gradient = static_cast<const float *>(operands->data[2]);
    return launch_rows(xent_grad_rows<WARP>, xent_grad_rows<BLOCK>, rows, stream);
}
