/*
 * movement - broadcast, transpose, slice, concat, pad, and random numbers.
 *
 * Bound by memory. Words are moved as bits, whatever their type. What a transposition reads with
 * large strides goes through a tile in shared memory, so that reads and writes are both whole
 * lines.
 */
#include "worker/device/cuda/functions.cuh"
#include "worker/device/cuda/kernels.h"
#include "worker/device/cuda/philox.cuh"
#include "worker/device/cuda/walk.cuh"

/* ---- gather ---- */

enum {
    TILE = 32,
    TILE_ROWS = BLOCK / TILE, /* rows of a tile that a block of threads moves at a time */
    TILE_SIDE_MIN = 8         /* smaller sides leave most of a tile empty */
};

/* The output's last axis ("inner") and the axis along which the input's elements lie together
 * ("near"); up to two further axes. */
struct transpose_t {
    int64_t near_size;
    int64_t inner_size;
    int64_t near_out; /* the output's step along the near axis; along inner it is 1 */
    int64_t inner_in; /* the input's step along the inner axis; along near it is 1 */
    int64_t size[2];  /* sizes of the other axes, outer first; 1 where there is none */
    int64_t in[2];    /* the input's steps along the other axes */
    int64_t out_of[2];
    const void *x; /* the input's first element */
    void *out;
};

/* Transposes one tile per block, through shared memory. A row of the tile there has 33 words, so
 * that the words of a column are in different banks. */
template <typename word_t>
static __global__ void
transpose_tiles(const __grid_constant__ transpose_t transpose)
{
    CADRE_SHARED(word_t, tile, TILE * (TILE + 1));
    int64_t near_tiles = (transpose.near_size + TILE - 1) / TILE;
    int64_t inner_tiles = (transpose.inner_size + TILE - 1) / TILE;
    int64_t block = blockIdx.x;
    int64_t near = block % near_tiles * TILE;
    block /= near_tiles;
    int64_t inner = block % inner_tiles * TILE;
    block /= inner_tiles;
    int64_t second = block % transpose.size[1];
    int64_t first = block / transpose.size[1];
    const word_t *x = static_cast<const word_t *>(transpose.x) + first * transpose.in[0] +
                      second * transpose.in[1];
    word_t *out = static_cast<word_t *>(transpose.out) + first * transpose.out_of[0] +
                  second * transpose.out_of[1];
    int across = static_cast<int>(threadIdx.x) % TILE;
    int down = static_cast<int>(threadIdx.x) / TILE;
    for (int row = down; row < TILE; row += TILE_ROWS) {
        if (near + across < transpose.near_size && inner + row < transpose.inner_size) {
            tile[row * (TILE + 1) + across] = x[near + across + (inner + row) * transpose.inner_in];
        }
    }
    __syncthreads();
    for (int row = down; row < TILE; row += TILE_ROWS) {
        if (near + row < transpose.near_size && inner + across < transpose.inner_size) {
            out[(near + row) * transpose.near_out + inner + across] =
                tile[across * (TILE + 1) + row];
        }
    }
}

/* Bytes of an element. */
static int64_t
word_size(const cadre_cuda_operands_t *operands)
{
    return static_cast<int64_t>(cadre_dtype_size(operands->out->dtype));
}

/* Returns whether the walk is a transposition with sides long enough for tiles; fills in *out. */
static bool
find_transpose(const cadre_cuda_operands_t *operands, transpose_t *out)
{
    const cadre_strided_t *walk = &operands->step->walk;
    const int64_t *stride = walk->stride[0];
    int inner = walk->rank - 1;
    int near = -1;
    for (int axis = 0; axis < inner; axis++) {
        near = stride[axis] == 1 ? axis : near;
    }
    if (near < 0 || stride[inner] <= 1 || walk->size[inner] < TILE_SIDE_MIN ||
        walk->size[near] < TILE_SIDE_MIN) {
        return false;
    }
    transpose_t transpose = {};
    transpose.near_size = walk->size[near];
    transpose.inner_size = walk->size[inner];
    transpose.inner_in = stride[inner];
    transpose.size[0] = 1;
    transpose.size[1] = 1;
    int64_t step = walk->size[inner];
    for (int axis = inner - 1, other = 1; axis >= 0; axis--) {
        if (axis == near) {
            transpose.near_out = step;
        } else {
            transpose.size[other] = walk->size[axis];
            transpose.in[other] = stride[axis];
            transpose.out_of[other] = step;
            other--;
        }
        step *= walk->size[axis];
    }
    transpose.x =
        static_cast<const char *>(operands->data[0]) + walk->offset[0] * word_size(operands);
    transpose.out = operands->out_data;
    *out = transpose;
    return true;
}

/* Enqueues BROADCAST, TRANSPOSE or SLICE: copies one input in the order that the step's walk gives;
 * a transposition with long sides goes tile by tile. */
static int
gather(const cadre_cuda_operands_t *operands, void *stream)
{
    walk_memory_t memory = walk_memory(operands, stream);
    int64_t size = word_size(operands);
    transpose_t transpose;
    if (operands->out->count == 0 || !find_transpose(operands, &transpose)) {
        switch (size) {
        case sizeof(uint16_t):
            return launch_walk(copy_half_t(), memory);
        case sizeof(uint32_t):
            return launch_walk(copy_word_t(), memory);
        default:
            return launch_walk(copy_wide_t(), memory);
        }
    }
    uint64_t near_tiles = static_cast<uint64_t>((transpose.near_size + TILE - 1) / TILE);
    uint64_t inner_tiles = static_cast<uint64_t>((transpose.inner_size + TILE - 1) / TILE);
    uint64_t others = static_cast<uint64_t>(transpose.size[0] * transpose.size[1]);
    unsigned blocks = block_count(near_tiles * inner_tiles * others * BLOCK);
    switch (size) {
    case sizeof(uint16_t):
        return launch(transpose_tiles<uint16_t>, blocks, BLOCK, stream, transpose);
    case sizeof(uint32_t):
        return launch(transpose_tiles<uint32_t>, blocks, BLOCK, stream, transpose);
    default:
        return launch(transpose_tiles<uint64_t>, blocks, BLOCK, stream, transpose);
    }
}

/* Enqueues a broadcast. With CADRE_BROADCAST_SHARE (the gradient of a mean) each copy is divided by
 * the number of copies. */
int
cadre_cuda_broadcast(const cadre_cuda_operands_t *operands, void *stream)
{
    if (operands->out->count == 0 || !operands->step->attributes[CADRE_BROADCAST_SHARE]) {
        return gather(operands, stream);
    }
    share_t share = {static_cast<float>(operands->out->count / operands->inputs[0]->count)};
    return launch_walk(share, walk_memory(operands, stream));
}

int
cadre_cuda_transpose(const cadre_cuda_operands_t *operands, void *stream)
{
    return gather(operands, stream);
}

int
cadre_cuda_slice(const cadre_cuda_operands_t *operands, void *stream)
{
    return gather(operands, stream);
}

/* ---- concat and pad ---- */

/* A row of the output is one part of each source, side by side; a source without data gives
 * zeros. */
struct join_t {
    int64_t count;    /* vectors of the output */
    int64_t row_size; /* of the output, in vectors */
    int source_count;
    int64_t begin[CADRE_OP_INPUTS_MAX + 1]; /* of each source's part in a row, and the row's end */
    const void *data[CADRE_OP_INPUTS_MAX];
    void *out;
};

/* Writes one unit of the output per thread: from the source whose part of the row it is in, found
 * by bisection; zeros where that source has no data (padding). */
template <typename moved_t>
static __global__ void
join_rows(const __grid_constant__ join_t join)
{
    int64_t unit = static_cast<int64_t>(unit_index());
    if (unit >= join.count) {
        return;
    }
    int64_t row = unit / join.row_size;
    int64_t column = unit % join.row_size;
    int source = 0;
    for (int width = CADRE_OP_INPUTS_MAX / 2; width > 0; width /= 2) {
        if (source + width < join.source_count && join.begin[source + width] <= column) {
            source += width;
        }
    }
    int64_t begin = join.begin[source];
    const moved_t *from = static_cast<const moved_t *>(join.data[source]);
    moved_t value = {};
    if (from) {
        value = from[row * (join.begin[source + 1] - begin) + column - begin];
    }
    static_cast<moved_t *>(join.out)[unit] = value;
}

/* Launches `join`, whose sizes are in words; in vectors where sizes and alignment allow it. */
template <typename word_t>
static int
launch_join(join_t *join, void *stream)
{
    if (join->count == 0) {
        return 0;
    }
    const size_t width = sizeof(word_t) > sizeof(float) ? sizeof(word_t) : sizeof(float);
    bool vectors = is_vector_aligned(join->out, width);
    for (int i = 0; i < join->source_count; i++) {
        vectors =
            vectors && is_vector_aligned(join->data[i], width) && join->begin[i + 1] % VECTOR == 0;
    }
    if (!vectors) {
        return launch(join_rows<word_t>, block_count(static_cast<uint64_t>(join->count)), BLOCK,
                      stream, *join);
    }
    join->count /= VECTOR;
    join->row_size /= VECTOR;
    for (int i = 0; i <= join->source_count; i++) {
        join->begin[i] /= VECTOR;
    }
    return launch(join_rows<vector_t<word_t>>, block_count(static_cast<uint64_t>(join->count)),
                  BLOCK, stream, *join);
}

/* Launches `join` for words of this dtype's size. */
static int
launch_join_of(cadre_dtype_t dtype, join_t *join, void *stream)
{
    switch (cadre_dtype_size(dtype)) {
    case sizeof(uint16_t):
        return launch_join<uint16_t>(join, stream);
    case sizeof(uint32_t):
        return launch_join<uint32_t>(join, stream);
    default:
        return launch_join<uint64_t>(join, stream);
    }
}

/* Returns the size of a row: the elements of `axis` and the axes behind it. */
static int64_t
row_size(const cadre_plan_value_t *value, int64_t axis)
{
    int64_t size = 1;
    for (int64_t i = axis; i < value->rank; i++) {
        size *= value->shape[i];
    }
    return size;
}

/* Enqueues the joining of the inputs along an axis. */
int
cadre_cuda_concat(const cadre_cuda_operands_t *operands, void *stream)
{
    int64_t axis = operands->step->attributes[CADRE_AXIS];
    join_t join = {};
    join.count = operands->out->count;
    join.row_size = row_size(operands->out, axis);
    join.source_count = operands->step->input_count;
    join.out = operands->out_data;
    for (int i = 0; i < join.source_count; i++) {
        join.begin[i + 1] = join.begin[i] + row_size(operands->inputs[i], axis);
        join.data[i] = operands->data[i];
    }
    return launch_join_of(operands->out->dtype, &join, stream);
}

/* Enqueues the padding of the input along an axis: as a join of zeros, the input, and zeros. */
int
cadre_cuda_pad(const cadre_cuda_operands_t *operands, void *stream)
{
    const int64_t *attributes = operands->step->attributes;
    int64_t size = row_size(operands->inputs[0], attributes[CADRE_AXIS]);
    join_t join = {};
    join.count = operands->out->count;
    join.row_size = row_size(operands->out, attributes[CADRE_AXIS]);
    join.source_count = 3;
    join.out = operands->out_data;
    join.data[1] = operands->data[0];
    /* An axis may be a multiple of a symbol, a size that the program leaves open, as the
     * batch's. `before` and `after` count the symbol's value, so the front gets its share of all
     * the padding. */
    int64_t before = attributes[CADRE_PAD_BEFORE];
    int64_t units = before + attributes[CADRE_PAD_AFTER];
    join.begin[1] = before == 0 ? 0 : (join.row_size - size) / units * before;
    join.begin[2] = join.begin[1] + size;
    join.begin[3] = join.row_size;
    return launch_join_of(operands->out->dtype, &join, stream);
}

/* ---- random numbers ---- */

struct numbers_t {
    int64_t count;
    uint64_t stream;
    const uint64_t *seed;
    float *out;
};

/* Fills in uniform numbers: each thread computes one Philox block of four. */
static __global__ void
fill_uniform(const __grid_constant__ numbers_t numbers)
{
    uint64_t unit = unit_index();
    int64_t first = static_cast<int64_t>(unit) * PHILOX_WORDS;
    if (first >= numbers.count) {
        return;
    }
    philox_block_t block = philox_block(*numbers.seed, numbers.stream, unit);
    vector_t<float> values;
    for (int k = 0; k < PHILOX_WORDS; k++) {
        values.words[k] = philox_uniform(block.words[k]);
    }
    float *out = numbers.out + first;
    if (first + PHILOX_WORDS <= numbers.count && reinterpret_cast<uintptr_t>(out) % 16 == 0) {
        *reinterpret_cast<vector_t<float> *>(out) = values;
        return;
    }
    for (int k = 0; k < PHILOX_WORDS && first + k < numbers.count; k++) {
        out[k] = values.words[k];
    }
}

/* Enqueues uniform random numbers in [0, 1), the same as the CPU's; the closure's seed is read on
 * the device, since it changes from run to run. */
int
cadre_cuda_rand(const cadre_cuda_operands_t *operands, void *stream)
{
    numbers_t numbers = {};
    numbers.count = operands->out->count;
    /* "rand" in the upper half, as on the CPU: other users of the same seed have other streams. */
    numbers.stream = UINT64_C(0x72616e64) << 32 |
                     static_cast<uint64_t>(operands->step->attributes[CADRE_RAND_STREAM]);
    numbers.seed = operands->seed;
    numbers.out = static_cast<float *>(operands->out_data);
    if (numbers.count == 0) {
        return 0;
    }
    uint64_t units = (static_cast<uint64_t>(numbers.count) + PHILOX_WORDS - 1) / PHILOX_WORDS;
    return launch(fill_uniform, block_count(units), BLOCK, stream, numbers);
}
