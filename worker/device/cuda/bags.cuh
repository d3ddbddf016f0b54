/*
 * bags - how bag and bag_grad see their index: entries that follow each other, cut into bags.
 *
 * Offsets come with the data. A kernel checks those of each bag, and never reads beyond the
 * entries.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_BAGS_CUH
#define CADRE_WORKER_DEVICE_CUDA_BAGS_CUH

#include "worker/device/cuda/kernels.h"
#include "worker/device/cuda/launch.cuh"

struct bags_t {
    int64_t count;
    int64_t entries; /* of the index, padding included */
    int64_t rows;    /* of the table */
    const int32_t *index;
    const int32_t *offsets;
    const float *weights; /* NULL: all 1 */
    int32_t *fault;
    bool mean;
};

struct range_t {
    int64_t begin;
    int64_t end;
};

static __device__ __forceinline__ int64_t
clamp_to(int64_t number, int64_t low, int64_t high)
{
    int64_t at_most = number > high ? high : number;
    return number < low ? low : at_most;
}

/* Returns the entries of a bag; sets the fault flag when the bag's offset is below the one before
 * or beyond the entries, or the first offset is not 0. */
static __device__ __forceinline__ range_t
bag_range(const bags_t &bags, int64_t bag)
{
    int64_t begin = bags.offsets[bag];
    int64_t low = bag == 0 ? 0 : bags.offsets[bag - 1];
    int64_t high = bag == 0 ? 0 : bags.entries;
    if (begin < low || begin > high) {
        *bags.fault = 1;
    }
    int64_t end = bag + 1 < bags.count ? bags.offsets[bag + 1] : bags.entries;
    begin = clamp_to(begin, 0, bags.entries);
    return {begin, clamp_to(end, begin, bags.entries)};
}

/* Notes a fault unless `row`, which names no row of the table, is the padding -1. */
static __device__ __forceinline__ void
check_padding(const bags_t &bags, int32_t row)
{
    if (row != -1) {
        *bags.fault = 1;
    }
}

/* Returns the bag of an entry: the last bag that begins at the entry or before it. Earlier bags
 * that begin there are empty. */
static __device__ __forceinline__ int64_t
find_bag(const bags_t &bags, int64_t entry)
{
    int64_t low = 0;
    int64_t high = bags.count;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (bags.offsets[middle] <= entry) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static __device__ __forceinline__ void
add_scaled(float *sum, float value, float scale)
{
    *sum += scale * value;
}

static __device__ __forceinline__ void
add_scaled(vector_t<float> *sum, const vector_t<float> &value, float scale)
{
    for (int k = 0; k < VECTOR; k++) {
        sum->words[k] += scale * value.words[k];
    }
}

static __device__ __forceinline__ void
divide_by(float *sum, float divisor)
{
    *sum /= divisor;
}

static __device__ __forceinline__ void
divide_by(vector_t<float> *sum, float divisor)
{
    for (int k = 0; k < VECTOR; k++) {
        sum->words[k] /= divisor;
    }
}

/* Returns the bags of a BAG or BAG_GRAD step: index, offsets, and weights if any, are inputs 1
 * to 3. */
static inline bags_t
bags_of(const cadre_cuda_operands_t *operands, const cadre_plan_value_t *table)
{
    const cadre_plan_step_t *step = operands->step;
    bool of_weights =
        step->op == CADRE_OP_BAG_GRAD && step->attributes[CADRE_BAG_GRAD_OF_WEIGHTS] != 0;
    bags_t bags = {};
    bags.count = operands->inputs[2]->count;
    bags.entries = operands->inputs[1]->count;
    bags.rows = table->shape[0];
    bags.index = static_cast<const int32_t *>(operands->data[1]);
    bags.offsets = static_cast<const int32_t *>(operands->data[2]);
    if (step->input_count == 4 && !of_weights) {
        bags.weights = static_cast<const float *>(operands->data[3]);
    }
    bags.fault = operands->fault;
    bags.mean = step->attributes[CADRE_BAG_MODE] == CADRE_BAG_MEAN;
    return bags;
}

#endif
