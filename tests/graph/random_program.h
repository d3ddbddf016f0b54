/*
 * random_program - programs drawn from a seed, of every operation, for tests of what must hold of
 * any program: plans, encoding, devices.
 *
 * One argument x [B,6], B at least 2, and two variables v and w [6,6], all f32; RANDOM_RESULTS
 * results; gradients of both variables. Whatever is in x, no position is out of range.
 */
#ifndef CADRE_TESTS_GRAPH_RANDOM_PROGRAM_H
#define CADRE_TESTS_GRAPH_RANDOM_PROGRAM_H

#include <stdio.h>

#include "common/base/random.h"
#include "common/graph/program_data.h"

enum { RANDOM_POOL_MAX = 48, RANDOM_SIDE = 6, RANDOM_RESULTS = 5 };

/* What a drawn operation is made of: nodes [B,6] or [6,6]. */
typedef struct {
    cadre_node_t x;
    cadre_node_t other;  /* of the shape of x */
    cadre_node_t square; /* [6,6] */
    cadre_extents_t shape;
    uint64_t choice; /* below 6 */
} random_draw_t;

/* One number for each row as [rows,1], so that it broadcasts against the rows. */
static inline cadre_node_t
random_column(cadre_program_t *p, cadre_node_t numbers, const cadre_extents_t *rows)
{
    cadre_extents_t column = {.rank = 2, .extents = {rows->extents[0], cadre_extent_number(1)}};
    return cadre_program_emit_reshape(p, numbers, &column);
}

/* The rows as images of 2 x 3, of each window its mean. */
static inline cadre_node_t
random_smoothed(cadre_program_t *p, const random_draw_t *draw)
{
    cadre_extents_t image = {.rank = 4,
                             .extents = {draw->shape.extents[0], cadre_extent_number(2),
                                         cadre_extent_number(3), cadre_extent_number(1)}};
    cadre_node_t rows = cadre_program_emit_reshape(p, draw->x, &image);
    cadre_node_t columns = cadre_op_im2col(p, rows, (int[]){3, 3}, 1, 1);
    return cadre_program_emit_reshape(p, cadre_op_mean(p, columns, -1), &draw->shape);
}

/* Bags of rows of the square, some of them empty, at the places of the largest element of each row
 * of x less one: -1, which is padding, to 4. */
static inline cadre_node_t
random_bags(cadre_program_t *p, const random_draw_t *draw)
{
    int32_t starts[RANDOM_SIDE] = {0, 0, 1, 1, 1, 2};
    cadre_tensor_t tensor = {.dtype = CADRE_I32, .rank = 1, .shape = {RANDOM_SIDE}, .data = starts};
    cadre_node_t largest = cadre_op_cast(p, cadre_op_argmax(p, draw->x, 1), CADRE_F32);
    cadre_node_t index =
        cadre_op_cast(p, cadre_op_sub(p, largest, cadre_op_const_f32(p, 1)), CADRE_I32);
    cadre_node_t weights = {0};
    if (draw->choice < 3) {
        weights = cadre_op_mean(p, draw->other, 1);
    }
    return cadre_op_bag(p, draw->square, index, cadre_op_const(p, &tensor), weights,
                        draw->choice == 3 ? CADRE_BAG_MEAN : CADRE_BAG_SUM);
}

static inline cadre_node_t
random_map1(cadre_program_t *p, const random_draw_t *draw)
{
    cadre_node_t x = draw->x;
    switch (draw->choice) {
    case 0:
        return cadre_op_tanh(p, x);
    case 1:
        return cadre_op_relu(p, x);
    case 2:
        return cadre_op_gelu(p, x);
    case 3:
        return cadre_op_softplus(p, x);
    case 4:
        return cadre_op_exp(p, cadre_op_neg(p, cadre_op_square(p, x)));
    default:
        return cadre_op_mul(p, x, cadre_op_step(p, cadre_op_abs(p, x)));
    }
}

static inline cadre_node_t
random_movement(cadre_program_t *p, const random_draw_t *draw)
{
    cadre_node_t x = draw->x;
    cadre_node_t halves[2] = {cadre_op_slice(p, x, 1, 3, 3),
                              cadre_op_slice(p, draw->other, 1, 0, 3)};
    switch (draw->choice) {
    case 0: /* the same memory, broadcast against itself */
        return cadre_op_sub(p, x, cadre_op_slice(p, x, 1, 1, 1));
    case 1:
        return cadre_program_emit_reshape(p, cadre_op_square(p, x), &draw->shape);
    case 2:
        return cadre_op_pad(p, cadre_op_slice(p, x, 1, 2, 3), 1, 2, 1);
    case 3:
        return cadre_op_transpose(p, draw->square, (int[]){1, 0});
    case 4:
        return cadre_program_emit_broadcast(p, cadre_op_mean(p, x, 0), &draw->shape, true);
    default:
        return cadre_op_concat(p, halves, 2, 1);
    }
}

static inline cadre_node_t
random_rows(cadre_program_t *p, const random_draw_t *draw)
{
    cadre_node_t x = draw->x;
    switch (draw->choice) {
    case 0:
        return cadre_op_softmax(p, x);
    case 1:
        return cadre_op_log_softmax(p, cadre_op_detach(p, x));
    case 2:
        return cadre_op_rownorm(p, cadre_op_add(p, x, draw->other), 1e-3F);
    case 3:
        return cadre_op_mul(p, x, random_column(p, cadre_op_mean(p, draw->other, 1), &draw->shape));
    case 4:
        return cadre_op_max(p, x, cadre_op_reduce_max(p, draw->other, 0));
    default: {
        cadre_node_t loss = cadre_op_xent(p, x, cadre_op_argmax(p, draw->other, 1));
        return cadre_op_sub(p, x, random_column(p, loss, &draw->shape));
    }
    }
}

/* Products and movement of bf16. */
static inline cadre_node_t
random_half(cadre_program_t *p, const random_draw_t *draw)
{
    cadre_node_t x = cadre_op_cast(p, draw->x, CADRE_BF16);
    cadre_node_t square = cadre_op_cast(p, draw->square, CADRE_BF16);
    cadre_node_t halves[2] = {cadre_op_slice(p, x, 1, 2, 4), cadre_op_slice(p, x, 1, 0, 2)};
    switch (draw->choice) {
    case 0:
        return cadre_op_matmul(p, x, square);
    case 1:
        return cadre_op_matmul(p, cadre_op_concat(p, halves, 2, 1),
                               cadre_op_transpose(p, square, (int[]){1, 0}));
    default:
        return cadre_op_cast(p, cadre_op_take(p, square, cadre_op_argmax(p, draw->x, 1)),
                             CADRE_F32);
    }
}

/* Sums and differences of f64, or counts of i64, of what is in the rows; neither has gradients. */
static inline cadre_node_t
random_wide(cadre_program_t *p, const random_draw_t *draw)
{
    cadre_node_t x = cadre_op_detach(p, draw->x);
    if (draw->choice < 3) {
        cadre_node_t wide = cadre_op_cast(p, x, CADRE_F64);
        cadre_node_t mean = cadre_op_mean(p, wide, 0);
        cadre_node_t apart = cadre_op_sub(p, wide, mean);
        cadre_node_t least = cadre_op_where(p, draw->other, apart, cadre_op_min(p, wide, mean));
        return cadre_op_cast(p, draw->choice == 0 ? least : apart, CADRE_F32);
    }
    cadre_node_t place = cadre_op_cast(p, cadre_op_argmax(p, x, 1), CADRE_I64);
    cadre_node_t many = cadre_op_mul(p, place, cadre_op_const_i64(p, INT64_C(1) << 33));
    cadre_node_t most = cadre_op_max(p, many, cadre_op_reduce_max(p, many, 0));
    cadre_node_t share = cadre_op_div(p, cadre_op_add(p, most, place), most);
    cadre_node_t column = random_column(p, cadre_op_cast(p, share, CADRE_F32), &draw->shape);
    return cadre_op_add(p, draw->x, column);
}

static inline cadre_node_t
random_sparse(cadre_program_t *p, const random_draw_t *draw)
{
    if (draw->choice == 4) {
        return cadre_op_take(p, draw->square, cadre_op_argmax(p, draw->x, 1));
    }
    if (draw->choice == 5) {
        cadre_node_t index = cadre_op_argmax(p, draw->other, 1);
        return cadre_op_scatter(p, draw->x, index, cadre_dim(RANDOM_SIDE));
    }
    return random_bags(p, draw);
}

/* Every operation gives a [B,6] or a [6,6] again. */
static inline cadre_node_t
random_node(cadre_program_t *p, cadre_random_t *random, const cadre_node_t *pool, int count)
{
    random_draw_t draw = {.x = pool[cadre_random_below(random, (uint64_t)count)],
                          .other = pool[cadre_random_below(random, (uint64_t)count)],
                          .square = pool[cadre_random_below(random, (uint64_t)count)]};
    draw.choice = cadre_random_below(random, 6);
    draw.shape = cadre_program_at(p, draw.x)->shape;
    if (!cadre_extents_equal(&draw.shape, &cadre_program_at(p, draw.other)->shape)) {
        draw.other = draw.x;
    }
    if (cadre_program_at(p, draw.square)->shape.extents[0].symbol >= 0) {
        draw.square = pool[1];
    }
    switch (cadre_random_below(random, 14)) {
    case 0:
        return cadre_op_add(p, draw.x, draw.other);
    case 1:
        return cadre_op_mul(p, draw.other, draw.x);
    case 2:
        return random_smoothed(p, &draw);
    case 3:
        return cadre_op_where(p, cadre_op_gt(p, draw.x, draw.other), draw.other,
                              cadre_op_neg(p, draw.x));
    case 4:
        return cadre_op_add(p, draw.x, cadre_op_sum(p, draw.other, 0));
    case 5:
        return cadre_op_dropout(p, draw.x, 0.3F, 1);
    case 6:
        return random_map1(p, &draw);
    case 7:
        return random_movement(p, &draw);
    case 8:
        return random_rows(p, &draw);
    case 9:
    case 10:
        return random_sparse(p, &draw);
    case 12:
        return random_wide(p, &draw);
    case 11:
        return draw.choice < 3 ? random_half(p, &draw) : cadre_op_matmul(p, draw.x, draw.square);
    default:
        return cadre_op_matmul(p, draw.x, draw.square);
    }
}

/* A program of `size` (7 to RANDOM_POOL_MAX) such nodes, not finished. */
static inline cadre_program_t *
random_program(uint64_t seed, int size)
{
    cadre_random_t random;
    cadre_random_init(&random, seed, 1);
    cadre_program_t *p = cadre_program_new("random");
    cadre_dim_t dims[2] = {cadre_dim_symbol("B"), cadre_dim(RANDOM_SIDE)};
    cadre_node_t pool[RANDOM_POOL_MAX];
    int count = 0;
    pool[count++] = cadre_op_arg(p, "x", CADRE_F32, dims, 2);
    pool[count++] = cadre_op_var(p, "v", (int64_t[]){RANDOM_SIDE, RANDOM_SIDE}, 2);
    pool[count++] = cadre_op_var(p, "w", (int64_t[]){RANDOM_SIDE, RANDOM_SIDE}, 2);
    while (count < size) {
        pool[count] = random_node(p, &random, pool, count);
        count++;
    }
    cadre_node_t loss = {0};
    for (int i = 1; i < RANDOM_RESULTS; i++) {
        cadre_node_t y = pool[count - i];
        char name[16];
        snprintf(name, sizeof(name), "y%d", i);
        cadre_op_result(p, name, y);
        cadre_node_t mean = cadre_op_mean_all(p, y);
        loss = loss.id ? cadre_op_add(p, loss, mean) : mean;
    }
    /* Depends on both variables, whatever was drawn. */
    loss = cadre_op_add(p, loss, cadre_op_mean_all(p, cadre_op_mul(p, pool[1], pool[2])));
    cadre_op_result(p, "loss", loss);
    cadre_op_minimize(p, loss);
    return p;
}

#endif
