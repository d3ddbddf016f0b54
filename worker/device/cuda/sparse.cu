/*
 * sparse - rows of a table at positions: take and bag; and the gradient of a bag's weights.
 *
 * One thread per four columns of a row where four divide their number, else per column. Positions
 * come with the data: each is checked before it is used; one that names no row sets the fault flag
 * and adds nothing. Bound by memory.
 */
#include "worker/device/cuda/bags.cuh"
#include "worker/device/cuda/group.cuh"
#include "worker/device/cuda/scratch.cuh"

/* ---- take ---- */

struct take_t {
    int64_t units;    /* of the output */
    int64_t row_size; /* in units */
    int64_t rows;     /* of the table */
    int64_t width;    /* positions that each row of the batch has; 0: a fault does not name the
                         row */
    const void *table;
    const int32_t *index;
    void *out;
    int32_t *fault;
};

/* Copies one unit (an element or four) of the output per thread from the table's row; an index that
 * names no row gives zeros and sets the fault flag. */
template <typename unit_t>
static __global__ void
take_rows(const __grid_constant__ take_t take)
{
    int64_t unit = static_cast<int64_t>(unit_index());
    if (unit >= take.units) {
        return;
    }
    int64_t entry = unit / take.row_size;
    int64_t column = unit % take.row_size;
    int32_t row = take.index[entry];
    unit_t value = {};
    if (row >= 0 && row < take.rows) {
        value = static_cast<const unit_t *>(take.table)[row * take.row_size + column];
    } else {
        *take.fault =
            take.width > 0 ? static_cast<int32_t>(CADRE_CUDA_FAULT_ROW + entry / take.width) : 1;
    }
    static_cast<unit_t *>(take.out)[unit] = value;
}

/* Launches `take`, whose sizes are in words; in vectors where row size and alignment allow it. */
template <typename word_t>
static int
launch_take(take_t *take, void *stream)
{
    if (take->units == 0) {
        return 0;
    }
    const size_t width = sizeof(word_t) > sizeof(float) ? sizeof(word_t) : sizeof(float);
    bool vectors = take->row_size % VECTOR == 0 && is_vector_aligned(take->table, width) &&
                   is_vector_aligned(take->out, width);
    if (!vectors) {
        return launch(take_rows<word_t>, block_count(static_cast<uint64_t>(take->units)), BLOCK,
                      stream, *take);
    }
    take->units /= VECTOR;
    take->row_size /= VECTOR;
    return launch(take_rows<vector_t<word_t>>, block_count(static_cast<uint64_t>(take->units)),
                  BLOCK, stream, *take);
}

/* Enqueues the copying of table rows, each chosen by its index. */
int
cadre_cuda_take(const cadre_cuda_operands_t *operands, void *stream)
{
    const cadre_plan_value_t *table = operands->inputs[0];
    take_t take = {};
    take.rows = table->shape[0];
    take.row_size = table->count / take.rows;
    take.units = operands->out->count;
    const cadre_plan_value_t *positions = operands->inputs[1];
    if (positions->rank > 1 && positions->shape[0] < INT32_MAX / 2) {
        take.width = positions->count / positions->shape[0];
    }
    take.table = operands->data[0];
    take.index = static_cast<const int32_t *>(operands->data[1]);
    take.out = operands->out_data;
    take.fault = operands->fault;
    switch (cadre_dtype_size(table->dtype)) {
    case sizeof(uint16_t):
        return launch_take<uint16_t>(&take, stream);
    case sizeof(uint32_t):
        return launch_take<uint32_t>(&take, stream);
    default:
        return launch_take<uint64_t>(&take, stream);
    }
}

/* ---- bag ---- */

struct bag_t {
    bags_t bags;
    int64_t row_size; /* in units */
    const void *table;
    void *out;
};

/* Sums the rows of each bag in the order of the index, as the CPU device does. */
template <typename unit_t>
static __global__ void
sum_bags(const __grid_constant__ bag_t bag)
{
    int64_t unit = static_cast<int64_t>(unit_index());
    if (unit >= bag.bags.count * bag.row_size) {
        return;
    }
    int64_t number = unit / bag.row_size;
    int64_t column = unit % bag.row_size;
    range_t range = bag_range(bag.bags, number);
    unit_t sum = {};
    int64_t present = 0;
    for (int64_t entry = range.begin; entry < range.end; entry++) {
        int32_t row = bag.bags.index[entry];
        if (row < 0 || row >= bag.bags.rows) {
            check_padding(bag.bags, row);
            continue;
        }
        present++;
        unit_t value = static_cast<const unit_t *>(bag.table)[row * bag.row_size + column];
        add_scaled(&sum, value, bag.bags.weights ? bag.bags.weights[entry] : 1);
    }
    if (bag.bags.mean && present > 1) {
        divide_by(&sum, static_cast<float>(present));
    }
    static_cast<unit_t *>(bag.out)[unit] = sum;
}

/* Enqueues the sum or mean of table rows for each bag (a list of row numbers). */
int
cadre_cuda_bag(const cadre_cuda_operands_t *operands, void *stream)
{
    bag_t bag = {};
    bag.bags = bags_of(operands, operands->inputs[0]);
    bag.row_size = operands->inputs[0]->shape[1];
    bag.table = operands->data[0];
    bag.out = operands->out_data;
    int64_t units = operands->out->count;
    if (units == 0) {
        return 0;
    }
    bool vectors =
        bag.row_size % VECTOR == 0 && is_vector_aligned(bag.table) && is_vector_aligned(bag.out);
    if (!vectors) {
        return launch(sum_bags<float>, block_count(static_cast<uint64_t>(units)), BLOCK, stream,
                      bag);
    }
    bag.row_size /= VECTOR;
    return launch(sum_bags<vector_t<float>>, block_count(static_cast<uint64_t>(units / VECTOR)),
                  BLOCK, stream, bag);
}

/* ---- the gradient of weights ---- */

struct products_t {
    bags_t bags;
    int64_t row_size;
    const float *table;
    const float *gradient; /* of the bags */
    float *out;
};

/* Checks the offset of one bag per thread: bag_range sets the fault flag for a bad one. */
static __global__ void
check_offsets(const __grid_constant__ bags_t bags)
{
    int64_t bag = static_cast<int64_t>(unit_index());
    if (bag < bags.count) {
        bag_range(bags, bag);
    }
}

/* Computes, a warp per entry, the product of the entry's row with the gradient of its bag; 0 for an
 * entry that is padding (-1). */
static __global__ void
multiply_rows(const __grid_constant__ products_t products)
{
    int64_t entry = group_row<WARP>();
    if (entry >= products.bags.entries) {
        return;
    }
    int32_t row = products.bags.index[entry];
    bool present = row >= 0 && row < products.bags.rows;
    float sum = 0;
    if (present) {
        const float *left = products.table + row * products.row_size;
        const float *right = products.gradient + find_bag(products.bags, entry) * products.row_size;
        for (int64_t i = group_lane<WARP>(); i < products.row_size; i += WARP) {
            sum += left[i] * right[i];
        }
    }
    sum = combine_warp<group_sum_t>(sum);
    if (group_lane<WARP>() == 0) {
        products.out[entry] = sum;
        if (!present) {
            check_padding(products.bags, row);
        }
    }
}

/* Enqueues the gradient of each entry's weight: the dot product of its row and its bag's
 * gradient. */
int
cadre_cuda_bag_weights_grad(const cadre_cuda_operands_t *operands, void *stream)
{
    products_t products = {};
    products.bags = bags_of(operands, operands->inputs[3]);
    products.row_size = operands->inputs[3]->shape[1];
    products.table = static_cast<const float *>(operands->data[3]);
    products.gradient = static_cast<const float *>(operands->data[0]);
    products.out = static_cast<float *>(operands->out_data);
    if (products.bags.entries == 0) {
        return 0;
    }
    int status = launch(check_offsets, block_count(static_cast<uint64_t>(products.bags.count)),
                        BLOCK, stream, products.bags);
    uint64_t threads = static_cast<uint64_t>(products.bags.entries) * WARP;
    return status < 0 ? status
                      : launch(multiply_rows, block_count(threads), BLOCK, stream, products);
}
