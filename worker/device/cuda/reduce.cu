/*
 * reduce - sum, mean, max and argmax over neighbouring axes, seen as [outer, size, inner].
 *
 * With inner = 1 a warp or a block folds each contiguous row; else a block folds 32 columns side by
 * side, so that it reads whole cache lines. Where that gives too few blocks to fill a GPU, `size`
 * is cut into pieces of fixed length; the results of pieces (parts) go to scratch memory, and a
 * second launch folds them. The cut depends on the shape alone, and there are no atomics: the same
 * sum on every GPU. Bound by memory: each element is read once.
 */
#include "worker/device/cuda/group.cuh"
#include "worker/device/cuda/scratch.cuh"

enum {
    BLOCKS_ENOUGH = 512,    /* blocks that keep a GPU busy: with as many nothing is cut */
    ROW_PIECE = 16 * 1024,  /* elements of a piece of a row; 64 per thread */
    COLUMN_PIECE = 256,     /* elements of a piece of a column; 32 per thread */
    COLUMNS = WARP,         /* columns that a block folds */
    LANES = BLOCK / COLUMNS /* threads that share a column */
};

struct layout_t {
    int64_t outer;
    int64_t size;
    int64_t inner;
    int64_t piece;  /* elements folded by one group */
    int64_t pieces; /* of one row or column */
};

/* ---- operations: what is kept of some elements (part_t), of one (begin), of none (none), and
 * the result that a part gives (finish) ---- */

/* Of f32, f64, or i64 as unsigned numbers, so that it wraps around. */
template <typename number_t> struct sum_t {
    typedef number_t x_t;
    typedef number_t part_t;
    typedef number_t out_t;
    static __device__ __forceinline__ number_t none()
    {
        return 0;
    }
    static __device__ __forceinline__ number_t begin(number_t x, int64_t)
    {
        return x;
    }
    static __device__ __forceinline__ number_t combine(number_t left, number_t right)
    {
        return left + right;
    }
    static __device__ __forceinline__ number_t swap(number_t part, int lanes)
    {
        return __shfl_xor_sync(ALL_LANES, part, lanes);
    }
    static __device__ __forceinline__ number_t finish(number_t part, int64_t)
    {
        return part;
    }
};

template <typename number_t> struct mean_t : sum_t<number_t> {
    static __device__ __forceinline__ number_t finish(number_t part, int64_t size)
    {
        return part / static_cast<number_t>(size);
    }
};

static __device__ __forceinline__ float
larger(float left, float right)
{
    return cadre_element_max(left, right);
}

static __device__ __forceinline__ double
larger(double left, double right)
{
    return cadre_f64_max(left, right);
}

static __device__ __forceinline__ int64_t
larger(int64_t left, int64_t right)
{
    return cadre_i64_max(left, right);
}

/* What no number is below. */
template <typename number_t>
static __device__ __forceinline__ number_t
least()
{
    return -INFINITY;
}

template <>
__device__ __forceinline__ int64_t
least<int64_t>()
{
    return INT64_MIN;
}

/* NaN wins. */
template <typename number_t> struct max_t {
    typedef number_t x_t;
    typedef number_t part_t;
    typedef number_t out_t;
    static __device__ __forceinline__ number_t none()
    {
        return least<number_t>();
    }
    static __device__ __forceinline__ number_t begin(number_t x, int64_t)
    {
        return x;
    }
    static __device__ __forceinline__ number_t combine(number_t left, number_t right)
    {
        return larger(left, right);
    }
    static __device__ __forceinline__ number_t swap(number_t part, int lanes)
    {
        return __shfl_xor_sync(ALL_LANES, part, lanes);
    }
    static __device__ __forceinline__ number_t finish(number_t part, int64_t)
    {
        return part;
    }
};

struct place_t {
    float value;
    int32_t index;
};

/* argmax: the position of the first of the largest elements. No number is larger than NaN, and NaN
 * is larger than none, so a leading NaN wins and others are skipped, as in a scan from the
 * first element on. */
struct argmax_t {
    typedef float x_t;
    typedef place_t part_t;
    typedef int32_t out_t;
    static __device__ __forceinline__ place_t none()
    {
        return {-INFINITY, INT32_MAX};
    }
    static __device__ __forceinline__ place_t begin(float x, int64_t index)
    {
        if (x != x) {
            return index == 0 ? place_t{INFINITY, 0} : none();
        }
        return {x, static_cast<int32_t>(index)};
    }
    static __device__ __forceinline__ place_t combine(place_t left, place_t right)
    {
        bool first =
            left.value > right.value || (left.value == right.value && left.index < right.index);
        return first ? left : right;
    }
    static __device__ __forceinline__ place_t swap(place_t part, int lanes)
    {
        place_t other = {__shfl_xor_sync(ALL_LANES, part.value, lanes),
                         __shfl_xor_sync(ALL_LANES, part.index, lanes)};
        return other;
    }
    static __device__ __forceinline__ int32_t finish(place_t part, int64_t)
    {
        return part.index;
    }
};

/* ---- reading: numbers, or the parts of an earlier launch ---- */

struct input_t {
    const void *data;
    bool parts;
};

/* Returns one element to fold: a number of the input, or a part that an earlier launch has left. */
template <typename operation_t>
static __device__ __forceinline__ typename operation_t::part_t
read(input_t from, int64_t at, int64_t index)
{
    if (from.parts) {
        return static_cast<const typename operation_t::part_t *>(from.data)[at];
    }
    return operation_t::begin(static_cast<const typename operation_t::x_t *>(from.data)[at], index);
}

/* Writes a folded result: as a part for a second launch, else finished (a mean is divided by
 * `size`). */
template <typename operation_t>
static __device__ __forceinline__ void
write(void *out, bool parts, int64_t at, typename operation_t::part_t part, int64_t size)
{
    if (parts) {
        static_cast<typename operation_t::part_t *>(out)[at] = part;
    } else {
        static_cast<typename operation_t::out_t *>(out)[at] = operation_t::finish(part, size);
    }
}

struct reduce_t {
    layout_t layout;
    int64_t total; /* elements that each result is computed from: what a mean divides by */
    input_t from;
    void *out;
    bool to_parts;
};

/* Folds a piece of a row per group (a warp or a block). Each thread keeps four parts, so that loads
 * do not wait for sums. */
template <typename operation_t, int threads>
static __global__ void
reduce_rows(const __grid_constant__ reduce_t reduce)
{
    typedef typename operation_t::part_t part_t;
    const layout_t &layout = reduce.layout;
    CADRE_SHARED(part_t, shared, WARPS);
    int64_t group = group_row<threads>();
    if (group >= layout.outer * layout.pieces) {
        return; /* only a whole warp leaves here, and no other waits for it; groups that are
                   blocks are never too many */
    }
    int64_t row = group / layout.pieces;
    int64_t begin = group % layout.pieces * layout.piece;
    int64_t end = begin + layout.piece < layout.size ? begin + layout.piece : layout.size;
    part_t parts[VECTOR] = {operation_t::none(), operation_t::none(), operation_t::none(),
                            operation_t::none()};
    for (int64_t at = begin; at < end; at += VECTOR * threads) {
        for (int k = 0; k < VECTOR; k++) {
            int64_t index = at + k * threads + group_lane<threads>();
            if (index < end) {
                part_t part = read<operation_t>(reduce.from, row * layout.size + index, index);
                parts[k] = operation_t::combine(parts[k], part);
            }
        }
    }
    part_t part = operation_t::combine(operation_t::combine(parts[0], parts[1]),
                                       operation_t::combine(parts[2], parts[3]));
    part = combine_group<operation_t, threads>(part, shared);
    if (group_lane<threads>() == 0) {
        write<operation_t>(reduce.out, reduce.to_parts, group, part, reduce.total);
    }
}

/* Folds 32 columns of a piece per block; blocks are in the order [outer, pieces, columns]. */
template <typename operation_t>
static __global__ void
reduce_columns(const __grid_constant__ reduce_t reduce)
{
    typedef typename operation_t::part_t part_t;
    const layout_t &layout = reduce.layout;
    CADRE_SHARED(part_t, shared, BLOCK);
    int64_t tiles = (layout.inner + COLUMNS - 1) / COLUMNS;
    int64_t group = blockIdx.x / tiles; /* [outer, pieces] */
    int64_t column = blockIdx.x % tiles * COLUMNS + threadIdx.x % COLUMNS;
    int lane = static_cast<int>(threadIdx.x) / COLUMNS;
    int64_t row = group / layout.pieces * layout.size;
    int64_t begin = group % layout.pieces * layout.piece;
    int64_t end = begin + layout.piece < layout.size ? begin + layout.piece : layout.size;
    part_t part = operation_t::none();
    if (column < layout.inner) {
#pragma unroll 4
        for (int64_t index = begin + lane; index < end; index += LANES) {
            int64_t at = (row + index) * layout.inner + column;
            part = operation_t::combine(part, read<operation_t>(reduce.from, at, index));
        }
    }
    shared[threadIdx.x] = part;
    __syncthreads();
    if (lane > 0 || column >= layout.inner) {
        return;
    }
    for (int k = 1; k < LANES; k++) {
        part = operation_t::combine(part, shared[k * COLUMNS + threadIdx.x]);
    }
    write<operation_t>(reduce.out, reduce.to_parts, group * layout.inner + column, part,
                       reduce.total);
}

/* ---- the host ---- */

/* Returns how many pieces of length `piece` a length of `size` makes. */
static int64_t
pieces_of(int64_t size, int64_t piece)
{
    return (size + piece - 1) / piece;
}

/* Decides how the pass over `size` elements is cut into pieces; `whole`: into one. */
static void
cut(layout_t *layout, bool whole)
{
    bool rows = layout->inner == 1;
    int64_t blocks = rows ? layout->outer : layout->outer * pieces_of(layout->inner, COLUMNS);
    layout->piece = rows ? ROW_PIECE : COLUMN_PIECE;
    if (whole || blocks >= BLOCKS_ENOUGH || layout->size <= layout->piece) {
        layout->piece = layout->size;
    }
    layout->pieces = pieces_of(layout->size, layout->piece);
}

/* Returns the input as [outer, size, inner], of which `size` is reduced, and how that is cut. */
static layout_t
layout_of(const cadre_cuda_operands_t *operands)
{
    const cadre_plan_value_t *x = operands->inputs[0];
    const int64_t *attributes = operands->step->attributes;
    layout_t layout = {1, 1, 1, 1, 1};
    for (int i = 0; i < x->rank; i++) {
        if (i < attributes[CADRE_REDUCE_BEGIN]) {
            layout.outer *= x->shape[i];
        } else if (i < attributes[CADRE_REDUCE_END]) {
            layout.size *= x->shape[i];
        } else {
            layout.inner *= x->shape[i];
        }
    }
    cut(&layout, false);
    return layout;
}

/* Launches one pass: over columns; over rows by a warp each when they are short, else by a block
 * each. */
template <typename operation_t>
static int
launch_reduce(const reduce_t &reduce, void *stream)
{
    const layout_t &layout = reduce.layout;
    int64_t groups = layout.outer * layout.pieces;
    if (layout.inner > 1) {
        int64_t blocks = groups * pieces_of(layout.inner, COLUMNS);
        return launch(reduce_columns<operation_t>,
                      block_count(static_cast<uint64_t>(blocks) * BLOCK), BLOCK, stream, reduce);
    }
    if (layout.piece <= WARP_ROW_MAX) {
        auto kernel = reduce_rows<operation_t, WARP>;
        return launch(kernel, block_count(static_cast<uint64_t>(groups) * WARP), BLOCK, stream,
                      reduce);
    }
    auto kernel = reduce_rows<operation_t, BLOCK>;
    return launch(kernel, block_count(static_cast<uint64_t>(groups) * BLOCK), BLOCK, stream,
                  reduce);
}

/* Enqueues a reduction: in one pass, or where a few long rows or columns are cut into pieces, in
 * two, of which the second folds the parts that the first leaves in scratch memory. */
template <typename operation_t>
static int
reduce_with(const cadre_cuda_operands_t *operands, void *stream)
{
    reduce_t reduce = {};
    reduce.layout = layout_of(operands);
    reduce.total = reduce.layout.size;
    reduce.from = {operands->data[0], false};
    reduce.out = operands->out_data;
    if (operands->out->count == 0) {
        return 0;
    }
    if (reduce.layout.pieces == 1) {
        return launch_reduce<operation_t>(reduce, stream);
    }
    reduce.out = operands->scratch;
    reduce.to_parts = true;
    int status = launch_reduce<operation_t>(reduce, stream);
    if (status < 0) {
        return status;
    }
    reduce.from = {operands->scratch, true};
    reduce.out = operands->out_data;
    reduce.to_parts = false;
    reduce.layout.size = reduce.layout.pieces;
    cut(&reduce.layout, true);
    return launch_reduce<operation_t>(reduce, stream);
}

/* Returns the scratch bytes of a reduction: a part for each piece, at the size of the largest
 * kind. */
size_t
cadre_cuda_reduce_scratch(const cadre_cuda_operands_t *operands)
{
    layout_t layout = layout_of(operands);
    return layout.pieces == 1
               ? 0
               : static_cast<size_t>(layout.outer * layout.pieces * layout.inner) * sizeof(place_t);
}

/* Enqueues a sum, mean or max of numbers of this type. */
template <typename number_t>
static int
reduce_numbers(const cadre_cuda_operands_t *operands, void *stream)
{
    switch (static_cast<cadre_reduce_t>(operands->step->attributes[CADRE_FUNCTION])) {
    case CADRE_REDUCE_SUM:
        return reduce_with<sum_t<number_t>>(operands, stream);
    case CADRE_REDUCE_MEAN:
        return reduce_with<mean_t<number_t>>(operands, stream);
    case CADRE_REDUCE_MAX:
        return reduce_with<max_t<number_t>>(operands, stream);
    case CADRE_REDUCE_ARGMAX:
        break;
    }
    return CADRE_EINVALID;
}

/* Enqueues a reduction over neighbouring axes: sum, mean, max, or the position of the largest. i64
 * has sum and max only. */
int
cadre_cuda_reduce(const cadre_cuda_operands_t *operands, void *stream)
{
    const int64_t function = operands->step->attributes[CADRE_FUNCTION];
    if (function == CADRE_REDUCE_ARGMAX) {
        return reduce_with<argmax_t>(operands, stream);
    }
    switch (operands->inputs[0]->dtype) {
    case CADRE_F64:
        return reduce_numbers<double>(operands, stream);
    case CADRE_I64:
        return function == CADRE_REDUCE_SUM ? reduce_with<sum_t<uint64_t>>(operands, stream)
                                            : reduce_with<max_t<int64_t>>(operands, stream);
    default:
        return reduce_numbers<float>(operands, stream);
    }
}
