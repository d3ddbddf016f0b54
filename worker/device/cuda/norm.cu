/*
 * norm - row normalization (layer norm without scale and shift), forward and backward.
 *
 * Formulas and order of passes are cpu_norm.c's: the variance from the differences to the mean;
 * backward computes the statistics again. A warp or a block per row; a row is read from global
 * memory once and then found in the cache. The output may be the memory of an input: when a thread
 * writes an element, all threads have read the row, and only this thread reads that element again.
 */
#include <string.h>

#include "worker/device/cuda/group.cuh"
#include "worker/device/cuda/kernels.h"

struct norm_t {
    int64_t rows;
    int64_t size; /* of a row */
    float eps;
    const float *x;
    const float *gradient;
    float *out;
};

struct statistics_t {
    float mean;
    float scale; /* 1 / sqrt(variance + eps) */
};

/* Returns the mean of a row and the factor that gives it variance 1, computed by a group (a warp or
 * a block) of `threads`. */
template <int threads>
static __device__ __forceinline__ statistics_t
statistics_of(const float *x, int64_t size, float eps)
{
    CADRE_SHARED(float, shared_mean, WARPS);
    CADRE_SHARED(float, shared_variance, WARPS);
    float sum = 0;
    for (int64_t i = group_lane<threads>(); i < size; i += threads) {
        sum += x[i];
    }
    float mean = combine_group<group_sum_t, threads>(sum, shared_mean) / static_cast<float>(size);
    float squares = 0;
    for (int64_t i = group_lane<threads>(); i < size; i += threads) {
        squares += cadre_element_square(x[i] - mean);
    }
    squares = combine_group<group_sum_t, threads>(squares, shared_variance);
    return {mean, cadre_element_rsqrt(squares / static_cast<float>(size) + eps)};
}

/* Normalises a row per group of threads to mean 0 and variance 1. */
template <int threads>
static __global__ void
normalise_rows(const __grid_constant__ norm_t norm)
{
    int64_t row = group_row<threads>();
    if (row >= norm.rows) {
        return;
    }
    const float *x = norm.x + row * norm.size;
    float *out = norm.out + row * norm.size;
    statistics_t statistics = statistics_of<threads>(x, norm.size, norm.eps);
    for (int64_t i = group_lane<threads>(); i < norm.size; i += threads) {
        out[i] = (x[i] - statistics.mean) * statistics.scale;
    }
}

/* Computes dL/dx of the normalisation, a row per group of threads: scale (g - mean(g) - y mean(g
 * y)), with g = dL/dy and y the normalised x. */
template <int threads>
static __global__ void
normalise_rows_grad(const __grid_constant__ norm_t norm)
{
    CADRE_SHARED(float, shared_sum, WARPS);
    CADRE_SHARED(float, shared_along, WARPS);
    int64_t row = group_row<threads>();
    if (row >= norm.rows) {
        return;
    }
    const float *x = norm.x + row * norm.size;
    const float *g = norm.gradient + row * norm.size;
    float *out = norm.out + row * norm.size;
    statistics_t statistics = statistics_of<threads>(x, norm.size, norm.eps);
    float sum = 0;
    float along = 0;
    for (int64_t i = group_lane<threads>(); i < norm.size; i += threads) {
        sum += g[i];
        along += g[i] * ((x[i] - statistics.mean) * statistics.scale);
    }
    float size = static_cast<float>(norm.size);
    float mean = combine_group<group_sum_t, threads>(sum, shared_sum) / size;
    along = combine_group<group_sum_t, threads>(along, shared_along) / size;
    for (int64_t i = group_lane<threads>(); i < norm.size; i += threads) {
        float y = (x[i] - statistics.mean) * statistics.scale;
        out[i] = statistics.scale * (g[i] - mean - y * along);
    }
}

/* ---- the host ---- */

/* Returns the kernel's parameters; input number `x` is the one that is normalised. */
static norm_t
norm_of(const cadre_cuda_operands_t *operands, int x)
{
    const cadre_plan_value_t *value = operands->inputs[x];
    uint32_t bits = static_cast<uint32_t>(operands->step->attributes[CADRE_ROWNORM_EPS]);
    norm_t norm = {};
    norm.size = value->shape[value->rank - 1];
    norm.rows = value->count / norm.size;
    memcpy(&norm.eps, &bits, sizeof(bits));
    norm.x = static_cast<const float *>(operands->data[x]);
    norm.gradient = static_cast<const float *>(operands->data[0]);
    norm.out = static_cast<float *>(operands->out_data);
    return norm;
}

typedef void kernel_t(norm_t);

/* Launches a warp per row for short rows, else a block per row. */
static int
launch_norm(kernel_t *of_warps, kernel_t *of_blocks, const norm_t &norm, void *stream)
{
    bool short_rows = norm.size <= WARP_ROW_MAX;
    kernel_t *kernel = short_rows ? of_warps : of_blocks;
    uint64_t threads = static_cast<uint64_t>(norm.rows) * (short_rows ? WARP : BLOCK);
    return threads == 0 ? 0 : launch(kernel, block_count(threads), BLOCK, stream, norm);
}

int
cadre_cuda_rownorm(const cadre_cuda_operands_t *operands, void *stream)
{
    return launch_norm(normalise_rows<WARP>, normalise_rows<BLOCK>, norm_of(operands, 0), stream);
}

int
cadre_cuda_rownorm_grad(const cadre_cuda_operands_t *operands, void *stream)
{
    return launch_norm(normalise_rows_grad<WARP>, normalise_rows_grad<BLOCK>, norm_of(operands, 1),
                       stream);
}
