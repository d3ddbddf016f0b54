/*
 * cpu_movement - broadcast, transpose, slice, concat and pad.
 */
#include <string.h>

#include "worker/device/cpu.h"
#include "worker/device/element.h"

enum {
    TILE = 32,    /* rows and columns of a tile: it and its transposition fit into the L1 cache */
    TURN_COST = 9 /* what transposing an element costs, in additions */
};

typedef struct {
    const cadre_operands_t *operands;
    int64_t inner;
    int across; /* the axis of the output along which the input is contiguous in memory, if that is
                   not the last axis; else -1 */
    int64_t out_strides[CADRE_PROGRAM_RANK_MAX];
    int64_t tiles; /* how many stretches of TILE the axis `across` has */
} gather_t;

/* ---- row by row ---- */

typedef void gather_rows_t(void *restrict to, const void *restrict from, int64_t step,
                           int64_t count);

#define KERNEL(name, type)                                                                         \
    static void name(void *restrict to, const void *restrict from, int64_t step, int64_t count)    \
    {                                                                                              \
        type *out = to;                                                                            \
        const type *x = from;                                                                      \
        if (step == 1) {                                                                           \
            memcpy(out, x, (size_t)count * sizeof(*out));                                          \
        } else if (step == 0) {                                                                    \
            const type value = *x;                                                                 \
            for (int64_t i = 0; i < count; i++) {                                                  \
                out[i] = value;                                                                    \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < count; i++) {                                                  \
                out[i] = x[i * step];                                                              \
            }                                                                                      \
        }                                                                                          \
    }
KERNEL(gather_real, cadre_real_t)
KERNEL(gather_i32, int32_t)
KERNEL(gather_bf16, uint16_t)
KERNEL(gather_f64, double)
KERNEL(gather_i64, int64_t)
#undef KERNEL

/* Returns the loop that copies a row of elements of this dtype, which lie `step` elements apart. */
static gather_rows_t *
gather_rows_of(cadre_dtype_t dtype)
{
    switch (dtype) {
    case CADRE_I32:
        return gather_i32;
    case CADRE_BF16:
        return gather_bf16;
    case CADRE_F64:
        return gather_f64;
    case CADRE_I64:
        return gather_i64;
    default: /* f32: other dtypes are in no program */
        return gather_real;
    }
}

/* Copies rows begin..end of the output, each from where the walk has it in the input. */
static void
gather_rows(const void *context, int64_t begin, int64_t end)
{
    const gather_t *self = context;
    const cadre_operands_t *operands = self->operands;
    const cadre_strided_t *walk = &operands->step->walk;
    int64_t step = walk->stride[0][walk->rank - 1];
    int64_t size = (int64_t)operands->out->size_bytes / operands->out->count;
    gather_rows_t *gather = gather_rows_of(operands->out->dtype);
    cadre_strided_place_t place;
    cadre_strided_seek(walk, begin, &place);
    for (int64_t row = begin; row < end; row++) {
        gather((char *)operands->out_data + place.out * size,
               (const char *)operands->data[0] + place.at[0] * size, step, self->inner);
        cadre_strided_next(walk, &place);
    }
}

/* ---- tile by tile: rows of the input become columns ---- */

typedef void turn_t(void *restrict to, int64_t out_stride, const void *restrict from,
                    int64_t stride, int64_t rows, int64_t columns);

#define KERNEL(name, type)                                                                         \
    static void name(void *restrict to, int64_t out_stride, const void *restrict from,             \
                     int64_t stride, int64_t rows, int64_t columns)                                \
    {                                                                                              \
        type *out = to;                                                                            \
        const type *x = from;                                                                      \
        for (int64_t first = 0; first < columns; first += TILE) {                                  \
            int64_t end = columns - first < TILE ? columns : first + TILE;                         \
            for (int64_t row = 0; row < rows; row++) {                                             \
                for (int64_t i = first; i < end; i++) {                                            \
                    out[row * out_stride + i] = x[i * stride + row];                               \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
KERNEL(turn_real, cadre_real_t)
KERNEL(turn_i32, int32_t)
KERNEL(turn_bf16, uint16_t)
KERNEL(turn_f64, double)
KERNEL(turn_i64, int64_t)
#undef KERNEL

/* Returns the loop that transposes a tile of elements of this dtype. */
static turn_t *
turn_rows_of(cadre_dtype_t dtype)
{
    switch (dtype) {
    case CADRE_I32:
        return turn_i32;
    case CADRE_BF16:
        return turn_bf16;
    case CADRE_F64:
        return turn_f64;
    case CADRE_I64:
        return turn_i64;
    default: /* f32: other dtypes are in no program */
        return turn_real;
    }
}

/* Transposes units begin..end. A unit is a stretch of TILE along the axis `across`, with all of the
 * last axis, at one position on the other axes. */
static void
turn_tiles(const void *context, int64_t begin, int64_t end)
{
    const gather_t *self = context;
    const cadre_operands_t *operands = self->operands;
    const cadre_strided_t *walk = &operands->step->walk;
    int64_t size = (int64_t)operands->out->size_bytes / operands->out->count;
    turn_t *turn = turn_rows_of(operands->out->dtype);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t first = unit % self->tiles * TILE;
        int64_t left = walk->size[self->across] - first;
        int64_t from = walk->offset[0] + first;
        int64_t to = first * self->out_strides[self->across];
        int64_t place = unit / self->tiles;
        for (int axis = walk->rank - 2; axis >= 0; axis--) {
            if (axis != self->across) {
                from += place % walk->size[axis] * walk->stride[0][axis];
                to += place % walk->size[axis] * self->out_strides[axis];
                place /= walk->size[axis];
            }
        }
        int64_t rows = left < TILE ? left : TILE;
        int64_t stride = walk->stride[0][walk->rank - 1];
        int64_t out_stride = self->out_strides[self->across];
        turn((char *)operands->out_data + to * size, out_stride,
             (const char *)operands->data[0] + from * size, stride, rows, self->inner);
    }
}

/* ---- the step ---- */

/* Returns how the input is gathered: by tiles when it is contiguous along an axis that is not the
 * output's last, since reading it in the output's order would miss the cache each time. */
static gather_t
gather_of(const cadre_operands_t *operands)
{
    const cadre_strided_t *walk = &operands->step->walk;
    gather_t self = {.operands = operands, .inner = walk->size[walk->rank - 1], .across = -1};
    int64_t stride = 1;
    for (int axis = walk->rank - 1; axis >= 0; axis--) {
        self.out_strides[axis] = stride;
        stride *= walk->size[axis];
        if (axis < walk->rank - 1 && walk->stride[0][axis] == 1 &&
            walk->stride[0][walk->rank - 1] > 1) {
            self.across = axis;
            self.tiles = (walk->size[axis] + TILE - 1) / TILE;
        }
    }
    return self;
}

/* Writes the output of BROADCAST, TRANSPOSE or SLICE: copies one input in the order that the step's
 * walk gives, row by row or, for a transposition, tile by tile. */
static void
gather(const cadre_operands_t *operands)
{
    const cadre_strided_t *walk = &operands->step->walk;
    int64_t count = operands->out->count;
    if (count == 0) {
        return;
    }
    gather_t self = gather_of(operands);
    if (self.across < 0) {
        cadre_cpu_pool_run(operands->pool, count / self.inner, CADRE_CPU_PART_COST / self.inner,
                           gather_rows, &self);
    } else {
        int64_t units = count / self.inner / walk->size[self.across] * self.tiles;
        cadre_cpu_pool_run(operands->pool, units,
                           CADRE_CPU_PART_COST / TURN_COST / self.inner / TILE, turn_tiles, &self);
    }
}

/* Broadcasts the input to the output's shape. With CADRE_BROADCAST_SHARE (the gradient of a mean)
 * each copy is divided by the number of copies. */
int
cadre_cpu_broadcast(const cadre_operands_t *operands)
{
    int64_t count = operands->out->count;
    gather(operands);
    if (count > 0 && operands->step->attributes[CADRE_BROADCAST_SHARE]) {
        cadre_real_t *out = operands->out_data;
        cadre_real_t copies = (cadre_real_t)(count / operands->inputs[0]->count);
        for (int64_t i = 0; i < count; i++) {
            out[i] /= copies;
        }
    }
    return 0;
}

int
cadre_cpu_transpose(const cadre_operands_t *operands)
{
    gather(operands);
    return 0;
}

int
cadre_cpu_slice(const cadre_operands_t *operands)
{
    gather(operands);
    return 0;
}

/* Sees a value as `blocks` blocks of `block_bytes`: the axes before `axis` count the blocks, a
 * block holds `axis` and the axes behind it. */
static void
block_layout(const cadre_plan_value_t *value, int64_t axis, int64_t *blocks, size_t *block_bytes)
{
    *blocks = 1;
    for (int64_t i = 0; i < axis; i++) {
        *blocks *= value->shape[i];
    }
    *block_bytes = value->size_bytes / (size_t)*blocks;
}

/* Joins the inputs along an axis: of each input a block in turn, which holds that axis and all
 * behind it. */
int
cadre_cpu_concat(const cadre_operands_t *operands)
{
    int64_t axis = operands->step->attributes[CADRE_AXIS];
    int64_t blocks = 0;
    size_t out_bytes = 0;
    size_t block_bytes[CADRE_OP_INPUTS_MAX];
    block_layout(operands->out, axis, &blocks, &out_bytes);
    for (int i = 0; i < operands->step->input_count; i++) {
        block_layout(operands->inputs[i], axis, &blocks, &block_bytes[i]);
    }
    char *out = operands->out_data;
    for (int64_t block = 0; block < blocks; block++) {
        for (int i = 0; i < operands->step->input_count; i++) {
            const char *x = operands->data[i];
            memcpy(out, x + (size_t)block * block_bytes[i], block_bytes[i]);
            out += block_bytes[i];
        }
    }
    return 0;
}

/* Writes the input with zeros before and behind it along an axis. */
int
cadre_cpu_pad(const cadre_operands_t *operands)
{
    int64_t axis = operands->step->attributes[CADRE_AXIS];
    int64_t blocks = 0;
    size_t out_bytes = 0;
    size_t block_bytes = 0;
    block_layout(operands->out, axis, &blocks, &out_bytes);
    block_layout(operands->inputs[0], axis, &blocks, &block_bytes);
    /* An axis may be a multiple of a symbol, a size that the program leaves open, as the
     * batch's. `before` and `after` count the symbol's value, so the front gets its share of all
     * the padding. */
    int64_t before = operands->step->attributes[CADRE_PAD_BEFORE];
    int64_t after = operands->step->attributes[CADRE_PAD_AFTER];
    size_t padding = out_bytes - block_bytes;
    size_t front = before == 0 ? 0 : padding / (size_t)(before + after) * (size_t)before;
    char *out = operands->out_data;
    const char *x = operands->data[0];
    for (int64_t block = 0; block < blocks; block++) {
        memset(out, 0, front);
        memcpy(out + front, x, block_bytes);
        memset(out + front + block_bytes, 0, padding - front);
        out += out_bytes;
        x += block_bytes;
    }
    return 0;
}
