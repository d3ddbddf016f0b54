/*
 * program - a graph of tensor operations that any worker can run on any device.
 *
 * A program is built once by the coordinator program and shipped to workers. What adds to it begins
 * with cadre_op_, takes nodes and returns a node; shapes are checked at the call. The first mistake
 * sticks: from then on every call returns the empty node and changes nothing, and
 * cadre_program_finish gives the message of that first mistake, so a model is written without a
 * check per line:
 *
 *     cadre_program_t *p = cadre_program_new("train_step");
 *     cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, (cadre_dim_t[]){cadre_dim_symbol("B"),
 *                                                                   cadre_dim(64)}, 2);
 *     cadre_node_t y = cadre_op_arg(p, "y", CADRE_I32, (cadre_dim_t[]){cadre_dim_symbol("B")}, 1);
 *     cadre_node_t w = cadre_op_var(p, "w", (int64_t[]){64, 10}, 2);
 *     cadre_node_t b = cadre_op_var(p, "b", (int64_t[]){10}, 1);
 *     cadre_node_t loss = cadre_op_softmax_cross_entropy(p, cadre_op_dense(p, x, w, b), y);
 *     cadre_op_minimize(p, loss);
 *     cadre_op_result(p, "loss", loss);
 *     int status = cadre_program_finish(p);
 *
 * The columns of a batch are arguments by these names: rows "x" and labels "y" (coordinator.h).
 *
 * Tensors are contiguous, row-major, of rank 0 to 4. Models are computed in f32; the other types
 * are for what it cannot hold:
 *
 *     bf16  what is large: arguments, and operands of matmul
 *     i32   labels and positions: arguments and constants, argmax, comparisons
 *     i64   counts beyond 2^24, ids: add, sub, mul, div, max, min, gt, eq, where, sum, reduce_max
 *     f64   sums and statistics: the ops of i64, and mean
 *
 * take, cast, detach, broadcast and the ops that only move data (reshape, transpose, concat, slice,
 * pad) take each of them (take no table of i32); all other ops refuse what does not stand here.
 * Both sides of an op have one type: nothing is converted but by cadre_op_cast. i64 wraps around
 * where it overflows; div rounds toward zero, and is 0 where the divisor is 0, as in NumPy.
 *
 * Gradients are nodes like any others: they are added here and a worker knows nothing of
 * differentiation. They are f32, those of bf16 nodes too. None flows through integers, and one that
 * would have to go through f64 is a mistake: cadre_op_detach first.
 *
 * Limits, beyond which the program has failed with CADRE_ETOOLARGE and a text that names the limit:
 * 65,536 nodes, those of gradients included, 4,096 variables, 4,096 constants of 1 MiB together, 64
 * arguments, 64 results, 8 symbols of 31 characters, 16 scopes deep, 8 MiB encoded; 32 inputs of
 * one operation; a dimension's factor of 2^44.
 *
 * Owner:   whoever called cadre_program_new, until it hands the program over.
 * Thread:  one thread at a time while building; a finished program never changes and may be read by
 *          any number of threads.
 */
#ifndef CADRE_PROGRAM_H
#define CADRE_PROGRAM_H

#include <stdint.h>

#include <cadre/optimizer.h>
#include <cadre/status.h>
#include <cadre/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cadre_program cadre_program_t;

/* A value inside one program; a zeroed struct is the empty node. */
typedef struct {
    int32_t id;
} cadre_node_t;

/* A dimension: `factor`, or `factor` times the number that `symbol` stands for once the arguments
 * arrive on a worker. The symbol's text is copied by the call that takes the dimension. The struct
 * will get no further fields. */
typedef struct {
    int64_t factor;
    const char *symbol; /* NULL: a plain number */
} cadre_dim_t;

enum { CADRE_PROGRAM_RANK_MAX = 4 };

/* Returns a number, a symbol, or a multiple of a symbol, as a dimension. */
CADRE_API cadre_dim_t cadre_dim(int64_t size);
CADRE_API cadre_dim_t cadre_dim_symbol(const char *symbol);
CADRE_API cadre_dim_t cadre_dim_symbol_times(const char *symbol, int64_t factor);

/* --- Life --- */

/* Makes an empty program. A bad name is a mistake that cadre_program_finish reports. */
CADRE_API cadre_program_t *cadre_program_new(const char *name);

/* Destroys the program and nulls the pointer. */
CADRE_API void cadre_program_destroy(cadre_program_t **self_p);

/* Ends building, and answers 0, or the status of the first mistake, whose text is then
 * cadre_error_text(): "top/fc1: matmul: inner dimensions differ: [B,512] times [256,10]". A program
 * needs at least one push or result, and each symbol must be in the shape of some argument, alone
 * or with a factor. May be called again; the answer stays the same. cadre_function_register calls
 * it.
 *
 * CADRE_EINVALID: a bad name or number, a name given twice, nothing is given back, or a symbol that
 *   no argument has.
 * CADRE_ESHAPE: shapes do not agree.
 * CADRE_EDTYPE: data types do not agree.
 * CADRE_ETOOLARGE: a limit above. */
CADRE_API int cadre_program_finish(cadre_program_t *self);

/* Names what is built until the matching end; scopes nest and show in messages as "outer/inner". */
CADRE_API void cadre_program_scope_begin(cadre_program_t *self, const char *name);
CADRE_API void cadre_program_scope_end(cadre_program_t *self);

/* --- Leaves --- */

/* Adds an argument, which each closure brings under this name. Arguments of a closure with other
 * names are ignored. */
CADRE_API cadre_node_t cadre_op_arg(cadre_program_t *self, const char *name, cadre_dtype_t dtype,
                                    const cadre_dim_t *dims, int rank);

/* Adds the current value of the variable `name` (f32), which the worker pulls before it runs the
 * program. A second call with the same name gives the same node; the shape must be the same too. */
CADRE_API cadre_node_t cadre_op_var(cadre_program_t *self, const char *name, const int64_t *shape,
                                    int rank);

/* Adds a table, a sparse variable of rows of `dim` f32 numbers, from 1 to 8,192, by key. Ids that
 * a program looks up in it are i32 or f32 from 0 on, or i64, of which all 64 bits are the key: a
 * negative one is the key 2^64 above it. A key without a row has the first values that its table
 * gives it. It can only be looked up, as docs/programs.md says, and pushed
 * to; a closure of a program that does anything else with it fails with CADRE_EINVALID. */
CADRE_API cadre_node_t cadre_op_table(cadre_program_t *self, const char *name, int64_t dim);

/* Adds a variable as cadre_op_var does, but one of f64, i32 or i64 (or f32). Its optimizer is
 * `add`, so that what is pushed to it is added, exactly: a counter, or a sum,
 *
 *     cadre_node_t seen = cadre_op_var_of(p, "examples", CADRE_I64, NULL, 0);
 *     cadre_op_push(p, seen, cadre_op_const_i64(p, 256));
 */
CADRE_API cadre_node_t cadre_op_var_of(cadre_program_t *self, const char *name, cadre_dtype_t dtype,
                                       const int64_t *shape, int rank);

/* Add a copy of `tensor` (any type but bf16), or a number, which is sent to workers with the
 * program. */
CADRE_API cadre_node_t cadre_op_const(cadre_program_t *self, const cadre_tensor_t *tensor);
CADRE_API cadre_node_t cadre_op_const_f32(cadre_program_t *self, float value);
CADRE_API cadre_node_t cadre_op_const_f64(cadre_program_t *self, double value);
CADRE_API cadre_node_t cadre_op_const_i64(cadre_program_t *self, int64_t value);

/* --- Arithmetic: `left` and `right` are broadcast as in NumPy (aligned at the last axis) --- */

/* For example:
 *
 *     cadre_node_t leaky = cadre_op_max(p, x, cadre_op_mul(p, cadre_op_const_f32(p, 0.1f), x));
 */

CADRE_API cadre_node_t cadre_op_add(cadre_program_t *self, cadre_node_t left, cadre_node_t right);
CADRE_API cadre_node_t cadre_op_sub(cadre_program_t *self, cadre_node_t left, cadre_node_t right);
CADRE_API cadre_node_t cadre_op_mul(cadre_program_t *self, cadre_node_t left, cadre_node_t right);
CADRE_API cadre_node_t cadre_op_div(cadre_program_t *self, cadre_node_t left, cadre_node_t right);
CADRE_API cadre_node_t cadre_op_max(cadre_program_t *self, cadre_node_t left, cadre_node_t right);
CADRE_API cadre_node_t cadre_op_min(cadre_program_t *self, cadre_node_t left, cadre_node_t right);

/* Compare: 1 where left > right (gt) or left = right (eq), else 0, as f32; both sides are of one
 * type, also i32. */
CADRE_API cadre_node_t cadre_op_gt(cadre_program_t *self, cadre_node_t left, cadre_node_t right);
CADRE_API cadre_node_t cadre_op_eq(cadre_program_t *self, cadre_node_t left, cadre_node_t right);

/* Returns `yes` where `condition` (f32) is not 0, else `no`; all three are broadcast. */
CADRE_API cadre_node_t cadre_op_where(cadre_program_t *self, cadre_node_t condition,
                                      cadre_node_t yes, cadre_node_t no);

/* Element by element, f32. sign is -1, 0 or 1; step is 1 above 0, else 0; gelu is the exact form
 * x * Phi(x) and dgelu its derivative. NaN stays NaN in each. */
CADRE_API cadre_node_t cadre_op_neg(cadre_program_t *self, cadre_node_t x);
CADRE_API cadre_node_t cadre_op_exp(cadre_program_t *self, cadre_node_t x);
CADRE_API cadre_node_t cadre_op_log(cadre_program_t *self, cadre_node_t x);
CADRE_API cadre_node_t cadre_op_sqrt(cadre_program_t *self, cadre_node_t x);
CADRE_API cadre_node_t cadre_op_rsqrt(cadre_program_t *self, cadre_node_t x);
CADRE_API cadre_node_t cadre_op_recip(cadre_program_t *self, cadre_node_t x);
CADRE_API cadre_node_t cadre_op_square(cadre_program_t *self, cadre_node_t x);
CADRE_API cadre_node_t cadre_op_abs(cadre_program_t *self, cadre_node_t x);
CADRE_API cadre_node_t cadre_op_sign(cadre_program_t *self, cadre_node_t x);
CADRE_API cadre_node_t cadre_op_step(cadre_program_t *self, cadre_node_t x);
CADRE_API cadre_node_t cadre_op_relu(cadre_program_t *self, cadre_node_t x);
CADRE_API cadre_node_t cadre_op_sigmoid(cadre_program_t *self, cadre_node_t x);
CADRE_API cadre_node_t cadre_op_tanh(cadre_program_t *self, cadre_node_t x);
CADRE_API cadre_node_t cadre_op_gelu(cadre_program_t *self, cadre_node_t x);
CADRE_API cadre_node_t cadre_op_dgelu(cadre_program_t *self, cadre_node_t x);
CADRE_API cadre_node_t cadre_op_softplus(cadre_program_t *self, cadre_node_t x);

/* Multiplies [.., m, k] by [.., k, n] to [.., m, n], f32. Both sides are f32 or both bf16, whose
 * products are added in f32. The leading axes of both are the same, or `right` has rank 2 and is
 * used for all of them. */
CADRE_API cadre_node_t cadre_op_matmul(cadre_program_t *self, cadre_node_t left,
                                       cadre_node_t right);

/* Multiplies with either matrix transposed first (a flag that is not 0); both of one rank. */
CADRE_API cadre_node_t cadre_op_matmul_transposed(cadre_program_t *self, cadre_node_t left,
                                                  int transpose_left, cadre_node_t right,
                                                  int transpose_right);

/* Reduce over one axis, which disappears; a negative axis counts from the end. argmax gives the
 * position of the largest element as i32, of equal ones the first. */
CADRE_API cadre_node_t cadre_op_sum(cadre_program_t *self, cadre_node_t x, int axis);
CADRE_API cadre_node_t cadre_op_mean(cadre_program_t *self, cadre_node_t x, int axis);
CADRE_API cadre_node_t cadre_op_reduce_max(cadre_program_t *self, cadre_node_t x, int axis);
CADRE_API cadre_node_t cadre_op_argmax(cadre_program_t *self, cadre_node_t x, int axis);

/* Reduce over all elements to a scalar. */
CADRE_API cadre_node_t cadre_op_sum_all(cadre_program_t *self, cadre_node_t x);
CADRE_API cadre_node_t cadre_op_mean_all(cadre_program_t *self, cadre_node_t x);

/* --- Movement --- */

/* For example:
 *
 *     cadre_node_t flat = cadre_op_reshape(p, x, (cadre_dim_t[]){cadre_dim_symbol("B"),
 *                                                                 cadre_dim(64)}, 2);
 */

CADRE_API cadre_node_t cadre_op_broadcast(cadre_program_t *self, cadre_node_t x,
                                          const cadre_dim_t *dims, int rank);
CADRE_API cadre_node_t cadre_op_reshape(cadre_program_t *self, cadre_node_t x,
                                        const cadre_dim_t *dims, int rank);

/* Axis i of the result is axis `order[i]` of `x`; `order` has as many entries as `x` has axes. */
CADRE_API cadre_node_t cadre_op_transpose(cadre_program_t *self, cadre_node_t x, const int *order);

/* Joins 1 to 32 nodes along `axis`, where all sizes are numbers, or all multiples of one symbol. */
CADRE_API cadre_node_t cadre_op_concat(cadre_program_t *self, const cadre_node_t *nodes, int count,
                                       int axis);

/* Returns `length` entries from `begin` on along `axis`. If the size of the axis is `c * symbol`,
 * both count in units of the symbol: begin 1 and length 1 of [2*B] is the second half. */
CADRE_API cadre_node_t cadre_op_slice(cadre_program_t *self, cadre_node_t x, int axis,
                                      int64_t begin, int64_t length);

/* Adds `before` entries of zeros before `x` and `after` behind it, along `axis`; a negative axis
 * counts from the end. If the size of the axis is `c * symbol`, both count in units of the symbol,
 * as in cadre_op_slice. */
CADRE_API cadre_node_t cadre_op_pad(cadre_program_t *self, cadre_node_t x, int axis, int64_t before,
                                    int64_t after);

/* --- Rows of a table, found by their positions: i32, or i64, of which one beyond i32 is no row of
 * any variable, and error texts call it -2147483648; what is said below of positions outside of the
 * rows does not hold for keys of i64 (cadre_op_table) --- */

/* For example:
 *
 *     cadre_node_t vectors = cadre_op_take(p, cadre_op_var(p, "table", shape, 2), index);
 */

/* Returns the rows of table [N, D..] at index [I..] as [I.., D..], of rank 4 at most. A position
 * outside 0..N-1 fails the closure with CADRE_EDATA. */
CADRE_API cadre_node_t cadre_op_take(cadre_program_t *self, cadre_node_t table, cadre_node_t index);

/* Adds values [I.., D..] to the rows of a table [rows, D..] of zeros, at the positions in index
 * [I..] (the inverse of cadre_op_take), in the order of the index. A position outside 0..rows-1
 * fails the closure with CADRE_EDATA. */
CADRE_API cadre_node_t cadre_op_scatter(cadre_program_t *self, cadre_node_t values,
                                        cadre_node_t index, cadre_dim_t rows);

typedef enum {
    CADRE_BAG_SUM = 0,
    CADRE_BAG_MEAN = 1,
} cadre_bag_mode_t;

/* Sums, or means, of bags of rows, as PyTorch's EmbeddingBag: table [N, D], index [nnz] and offsets
 * [B], where bag i begins at offsets[i] and ends where the next one begins, the last at nnz; so the
 * first offset is 0 and none is less than the one before. The result is [B, D]. `weights` [nnz]
 * scales each row; the empty node means 1, and a mean takes none. Position -1 is padding and counts
 * for nothing, also not in a mean (and so is i64 -1 in a table, whose key 2^64 - 1 no bag finds);
 * an empty bag gives zeros. Other positions outside 0..N-1, and
 * offsets that break their rule, fail the closure with CADRE_EDATA. */
CADRE_API cadre_node_t cadre_op_bag(cadre_program_t *self, cadre_node_t table, cadre_node_t index,
                                    cadre_node_t offsets, cadre_node_t weights,
                                    cadre_bag_mode_t mode);

/* --- Rows: over the last axis --- */

CADRE_API cadre_node_t cadre_op_softmax(cadre_program_t *self, cadre_node_t x);
CADRE_API cadre_node_t cadre_op_log_softmax(cadre_program_t *self, cadre_node_t x);

/* Returns the cross entropy of each row of logits [.., C] against labels [..] (i32 or i64), as
 * [..]. A label outside 0..C-1 fails the closure with CADRE_EDATA. */
CADRE_API cadre_node_t cadre_op_xent(cadre_program_t *self, cadre_node_t logits,
                                     cadre_node_t labels);

/* Normalises each row to mean 0 and variance near 1: (x - mean) / sqrt(variance + eps), `eps` at
 * least 0. The variance is the biased one, divided by the number of elements. Layer normalization
 * without scale and shift (Ba, Kiros, Hinton 2016). */
CADRE_API cadre_node_t cadre_op_rownorm(cadre_program_t *self, cadre_node_t x, float eps);

/* --- Images: [batch, height, width, channels], of which the last three are numbers --- */

/* Returns the content of a window of `kernel` (height, width) at all positions, `stride` apart,
 * over x [B, H, W, C] with `padding` zeros on each side: [B, OH, OW, KH * KW * C], the last axis in
 * the order (row in the kernel, column, channel), with OH = (H + 2 padding - KH) / stride + 1,
 * rounded down, and OW alike. */
CADRE_API cadre_node_t cadre_op_im2col(cadre_program_t *self, cadre_node_t x, const int kernel[2],
                                       int stride, int padding);

/* --- Other --- */

/* Converts to `dtype`. To i32 and i64 rounds toward zero; beyond their range is their end, NaN is
 * 0. To f32 and f64 rounds to the nearest, ties to even; so to bf16, others than f32 by way of it.
 * A gradient flows between f32 and bf16 as if nothing was rounded. */
CADRE_API cadre_node_t cadre_op_cast(cadre_program_t *self, cadre_node_t x, cadre_dtype_t dtype);

/* Returns numbers uniform in [0, 1), made of the closure's seed, this node and the element's index
 * (Philox), so that a closure which is run again gets the same numbers. */
CADRE_API cadre_node_t cadre_op_rand_uniform(cadre_program_t *self, const cadre_dim_t *dims,
                                             int rank);

/* Returns the value of `x`, through which no gradient flows. */
CADRE_API cadre_node_t cadre_op_detach(cadre_program_t *self, cadre_node_t x);

/* --- Layers, built of the above --- */

/* For example:
 *
 *     cadre_node_t hidden = cadre_op_relu(p, cadre_op_dense(p, x, w1, b1));
 */

/* Returns x [.., in] times weight [in, out] plus bias [out]; an empty bias node means none. */
CADRE_API cadre_node_t cadre_op_dense(cadre_program_t *self, cadre_node_t x, cadre_node_t weight,
                                      cadre_node_t bias);

/* Zeroes each element with probability `rate` (0 to below 1) and scales the others by
 * 1 / (1 - rate). With `training` 0 returns `x` itself. */
CADRE_API cadre_node_t cadre_op_dropout(cadre_program_t *self, cadre_node_t x, float rate,
                                        int training);

/* Cross-correlation, as convolution is called in the field: x [B, H, W, CIN] with weight
 * [KH, KW, CIN, COUT] plus bias [COUT] (empty: none) is [B, OH, OW, COUT], stride and padding as
 * for cadre_op_im2col. */
CADRE_API cadre_node_t cadre_op_conv2d(cadre_program_t *self, cadre_node_t x, cadre_node_t weight,
                                       cadre_node_t bias, int stride, int padding);

/* Return the largest element, or the mean, of each channel in windows of `window` (height, width),
 * `stride` apart: x [B, H, W, C] gives [B, OH, OW, C]. There is no padding: a rest of the image
 * that fills no window is left out. If several elements are the largest they share the gradient. */
CADRE_API cadre_node_t cadre_op_max_pool2d(cadre_program_t *self, cadre_node_t x,
                                           const int window[2], int stride);
CADRE_API cadre_node_t cadre_op_mean_pool2d(cadre_program_t *self, cadre_node_t x,
                                            const int window[2], int stride);

/* Convolves along sequences: x [B, T, CIN] with weight [K, CIN, COUT] plus bias [COUT] (empty:
 * none) is [B, OT, COUT], with `padding` zeros on both ends and OT = (T + 2 padding - K) / stride +
 * 1, rounded down. For a causal convolution, in which no position depends on a later one, pad x
 * before, by cadre_op_pad(p, x, 1, K - 1, 0), and give 0 as `padding`. */
CADRE_API cadre_node_t cadre_op_conv1d(cadre_program_t *self, cadre_node_t x, cadre_node_t weight,
                                       cadre_node_t bias, int stride, int padding);

/* Return the largest element, or the mean, of each channel in windows of `window` positions,
 * `stride` apart: x [B, T, C] gives [B, OT, C]. There is no padding, as in cadre_op_max_pool2d. */
CADRE_API cadre_node_t cadre_op_max_pool1d(cadre_program_t *self, cadre_node_t x, int window,
                                           int stride);
CADRE_API cadre_node_t cadre_op_mean_pool1d(cadre_program_t *self, cadre_node_t x, int window,
                                            int stride);

/* Returns cadre_op_rownorm of x [.., C], times scale [C] plus shift [C], either of which may be
 * empty. Ba, Kiros, Hinton 2016, "Layer normalization". */
CADRE_API cadre_node_t cadre_op_layer_norm(cadre_program_t *self, cadre_node_t x,
                                           cadre_node_t scale, cadre_node_t shift, float eps);

/* Mean and variance of each channel, both [C]. The struct will get no further fields. */
typedef struct {
    cadre_node_t mean;
    cadre_node_t variance;
} cadre_moments_t;

/* Returns (x - mean) / sqrt(variance + eps) times scale [C] plus shift [C] (either may be empty),
 * with the mean and biased variance of each channel of x [.., C] over all other axes, of this
 * closure's batch. Ioffe, Szegedy 2015, "Batch normalization". Writes mean and variance to
 * `moments` unless NULL. A program can keep running averages of mean and variance in variables with
 * the optimizer sgd, whose learning rate is then the rate of the average, by pushing the
 * difference:
 *
 *     cadre_op_push(p, running_mean, cadre_op_sub(p, running_mean, moments.mean));
 */
CADRE_API cadre_node_t cadre_op_batch_norm(cadre_program_t *self, cadre_node_t x,
                                           cadre_node_t scale, cadre_node_t shift, float eps,
                                           cadre_moments_t *moments);

/* Normalises as cadre_op_batch_norm does, with given moments, for evaluation. */
CADRE_API cadre_node_t cadre_op_batch_norm_fixed(cadre_program_t *self, cadre_node_t x,
                                                 cadre_moments_t moments, cadre_node_t scale,
                                                 cadre_node_t shift, float eps);

/* Returns softmax(Q K' / sqrt(D / heads)) V for each head: queries [B, T, D], keys [B, S, D] and
 * values [B, S, E] give [B, T, E]; head i uses the i-th part of each last axis. With `causal` not 0
 * a query does not see later keys; then T and S are the same number. Vaswani and others 2017,
 * "Attention is all you need", without its projections. */
CADRE_API cadre_node_t cadre_op_attention(cadre_program_t *self, cadre_node_t queries,
                                          cadre_node_t keys, cadre_node_t values, int heads,
                                          int causal);

/* Add a recurrent layer with U units over sequences x [B, T, D] of at most 256 positions. The layer
 * is unrolled: each position adds some sixty nodes to the program, its gradient included. The
 * result is the last output, [B, U], or with `return_sequences` not 0 all of them, [B, T, U].
 * Formulas, order of the gates and shapes are those of Keras 3 (keras/src/layers/rnn), h being the
 * output before, which begins as zeros, and s the sigmoid:
 *
 * gru (gru.py, with its default reset_after), of kernel [D, 3 * U], recurrent [U, 3 * U] and bias
 * [2, 3 * U], whose columns are those of z, r and n, and whose second bias is the recurrent one:
 *
 *     z = s(x Wz + bz + h Rz + cz)    r = s(x Wr + br + h Rr + cr)
 *     n = tanh(x Wn + bn + r (h Rn + cn))    output z h + (1 - z) n
 *
 * lstm (lstm.py), of kernel [D, 4 * U], recurrent [U, 4 * U] and bias [4 * U], in the order i, f,
 * g, o, with a state c that begins as zeros:
 *
 *     i, f, o = s(x W + h R + b)    g = tanh(x Wg + h Rg + bg)
 *     c = f c + i g    output o tanh(c)
 *
 * Keras begins training with ones as the bias of f. More positions are a mistake, which
 * cadre_program_finish reports as CADRE_ETOOLARGE. */
CADRE_API cadre_node_t cadre_op_gru(cadre_program_t *self, cadre_node_t x, cadre_node_t kernel,
                                    cadre_node_t recurrent, cadre_node_t bias,
                                    int return_sequences);
CADRE_API cadre_node_t cadre_op_lstm(cadre_program_t *self, cadre_node_t x, cadre_node_t kernel,
                                     cadre_node_t recurrent, cadre_node_t bias,
                                     int return_sequences);

/* --- Losses: means over all rows or elements, as scalars --- */

/* For example:
 *
 *     cadre_node_t loss = cadre_op_softmax_cross_entropy(p, logits, y);
 *     cadre_node_t right = cadre_op_sum_all(p, cadre_op_correct(p, logits, y));
 */

/* Returns the cross entropy of labels [..] (i32) against softmax(logits), logits being [.., C].
 * `smoothed` takes 1 - smoothing of the label and spreads `smoothing` (0 to below 1) evenly over
 * all classes (Szegedy and others 2016). */
CADRE_API cadre_node_t cadre_op_softmax_cross_entropy(cadre_program_t *self, cadre_node_t logits,
                                                      cadre_node_t labels);
CADRE_API cadre_node_t cadre_op_softmax_cross_entropy_smoothed(cadre_program_t *self,
                                                               cadre_node_t logits,
                                                               cadre_node_t labels,
                                                               float smoothing);

/* Returns -log p[label], given log probabilities [.., C], each row as cadre_op_log_softmax gives
 * it, and labels [..] (i32). */
CADRE_API cadre_node_t cadre_op_nll(cadre_program_t *self, cadre_node_t log_probabilities,
                                    cadre_node_t labels);

/* Returns the Kullback-Leibler divergence of each row, sum(t (log t - log softmax(logits))), for
 * targets t, probabilities [.., C] of the shape of the logits; 0 log 0 is 0. */
CADRE_API cadre_node_t cadre_op_kl_divergence(cadre_program_t *self, cadre_node_t logits,
                                              cadre_node_t targets);

/* For all losses below, predictions and targets have the same shape, except that one of them may
 * have a last axis of size 1 more; targets may be i32 or i64. */

/* Returns the cross entropy of targets from 0 to 1 against sigmoid(logits), computed without
 * overflow. `smoothed` moves the targets by `smoothing` (0 to below 1) toward one half: t (1 -
 * smoothing) + smoothing / 2. */
CADRE_API cadre_node_t cadre_op_sigmoid_cross_entropy(cadre_program_t *self, cadre_node_t logits,
                                                      cadre_node_t targets);
CADRE_API cadre_node_t cadre_op_sigmoid_cross_entropy_smoothed(cadre_program_t *self,
                                                               cadre_node_t logits,
                                                               cadre_node_t targets,
                                                               float smoothing);

/* Returns max(0, 1 - y score) with y = 1 for a target above one half, else -1 (Cortes, Vapnik
 * 1995). */
CADRE_API cadre_node_t cadre_op_hinge(cadre_program_t *self, cadre_node_t scores,
                                      cadre_node_t targets);

CADRE_API cadre_node_t cadre_op_mse(cadre_program_t *self, cadre_node_t predictions,
                                    cadre_node_t targets);
CADRE_API cadre_node_t cadre_op_mae(cadre_program_t *self, cadre_node_t predictions,
                                    cadre_node_t targets);

/* Returns d^2 / 2 for a difference |d| up to `delta` (above 0), beyond it delta (|d| - delta / 2)
 * (Huber 1964). */
CADRE_API cadre_node_t cadre_op_huber(cadre_program_t *self, cadre_node_t predictions,
                                      cadre_node_t targets, float delta);

/* Returns 1 for each row whose largest logit is at its label, else 0, as f32. The mean of these is
 * the accuracy; their sum can be added up over batches of different sizes. */
CADRE_API cadre_node_t cadre_op_correct(cadre_program_t *self, cadre_node_t logits,
                                        cadre_node_t labels);

/* Returns 1 for each row whose logit predicts its target, else 0, as f32. A logit above 0 (a
 * probability above one half) predicts a target above one half, another logit another target. */
CADRE_API cadre_node_t cadre_op_binary_correct(cadre_program_t *self, cadre_node_t logits,
                                               cadre_node_t targets);

/* --- Counts that metrics are made of: they add up over closures (cadre_dataset_reduce), and
 * <cadre/metrics.h> makes the metrics of their sums --- */

/* For example:
 *
 *     cadre_op_result(p, "confusion", cadre_op_confusion(p, logits, y));
 */

enum { CADRE_ROC_THRESHOLDS_MAX = 10000 };

/* Returns the confusion matrix of the batch, f32 [C, C]: how many examples have the label (i32 [B])
 * of the matrix row and the prediction of the column, the largest of logits [B, C]. An example
 * whose label is outside 0..C-1 is not counted. */
CADRE_API cadre_node_t cadre_op_confusion(cadre_program_t *self, cadre_node_t logits,
                                          cadre_node_t labels);

/* Returns the confusion matrix [2, 2] of one logit per example, which predicts true above 0, and
 * targets, which are true above one half: [[true negatives, false positives], [false negatives,
 * true positives]]. */
CADRE_API cadre_node_t cadre_op_binary_confusion(cadre_program_t *self, cadre_node_t logits,
                                                 cadre_node_t targets);

/* Returns how many examples have a probability above each of `thresholds` (2 to 10,000) numbers,
 * f32 [2, thresholds]: of examples whose target is false in the first row, of the others in the
 * second. The probability is the sigmoid of the logit. Thresholds are i / (thresholds - 1), but for
 * the first and the last, which are 1e-7 outside of 0 and 1, as those of keras.metrics.AUC, where
 * there are 200. */
CADRE_API cadre_node_t cadre_op_roc_counts(cadre_program_t *self, cadre_node_t logits,
                                           cadre_node_t targets, int thresholds);

/* Returns 1 for each row of logits [.., C] in which fewer than `k` (at least 1) logits are above
 * the logit of the label [..] (i32), else 0, as f32 [..]; equal logits are not above it. A label
 * outside 0..C-1 is compared as if its logit were 0. */
CADRE_API cadre_node_t cadre_op_top_k_correct(cadre_program_t *self, cadre_node_t logits,
                                              cadre_node_t labels, int k);

/* --- Layers and losses over tables --- */

/* An id of 64 bits in rows of f32, which hold 24: so many numbers, the id's lowest CADRE_KEY_BITS
 * first, as the columns of a dataset with "key" have it (docs/data.md). */
enum { CADRE_KEY_PARTS = 3, CADRE_KEY_BITS = 24 };

/* Returns the ids that x, f32 [.., CADRE_KEY_PARTS], has in such numbers, as i64 [..]: keys of a
 * table. Whatever they are makes a key; a part beyond its bits is added to the next ones. */
CADRE_API cadre_node_t cadre_op_key(cadre_program_t *self, cadre_node_t x);

/* Returns the row of table [N, D] for each of the ids [I..], as [I.., D], of rank 4 at most. Ids
 * are i32, i64, or f32 as the columns of a dataset are; an f32 that is not whole counts as -1. An
 * id outside 0..N-1 fails the closure with CADRE_EDATA. The text names the id and, for ids [B, ..],
 * its row in the batch; on CUDA it names the row alone, unless the ids are an i32 argument. */
CADRE_API cadre_node_t cadre_op_embedding(cadre_program_t *self, cadre_node_t table,
                                          cadre_node_t ids);

/* Returns cadre_op_bag. If every bag has L entries, index and weights may be [B, L] and `offsets`
 * the empty node; such an index has no padding, and may be f32 as in cadre_op_embedding. */
CADRE_API cadre_node_t cadre_op_embedding_bag(cadre_program_t *self, cadre_node_t table,
                                              cadre_node_t index, cadre_node_t offsets,
                                              cadre_node_t weights, cadre_bag_mode_t mode);

/* Returns the sum over all pairs i < j of an example's features of <v_i, v_j> x_i x_j, as [B], in
 * time linear in the features (Rendle 2010, "Factorization machines", equation 4): `table` [N, K]
 * holds the v, `index` and `offsets` say which features an example has, as in cadre_op_bag, and
 * `values` is the x; the empty node means that all x are 1. The linear term of the model is
 * cadre_op_embedding_bag of a table [N, 1], with `values` as the weights. */
CADRE_API cadre_node_t cadre_op_factorization_machine(cadre_program_t *self, cadre_node_t table,
                                                      cadre_node_t index, cadre_node_t offsets,
                                                      cadre_node_t values);

/* Returns `dense`, followed by the dot products of all pairs of an example's F vectors. `dense` [B,
 * D] is vector 0; `count` (1 to 31) nodes [B, D] or [B, K, D] have the other F - 1 vectors. The
 * result is [B, D + F (F - 1) / 2], pairs in the order (1,0) (2,0) (2,1) (3,0) and so on. Naumov
 * and others 2019, "Deep learning recommendation model", without a vector's product with itself. */
CADRE_API cadre_node_t cadre_op_dlrm_interaction(cadre_program_t *self, cadre_node_t dense,
                                                 const cadre_node_t *embeddings, int count);

/* Returns the loss of skip-gram with negative sampling (Mikolov and others 2013, "Distributed
 * representations of words and phrases", equation 4): the mean over the batch of -log s(u_o v_c) -
 * sum_k log s(-u_k v_c), s the sigmoid, with v rows of `input` [N, D] at `center` [B], and u rows
 * of `output` [M, D] at `context` [B] and, for the k, at `negatives` [B, K]. The caller samples the
 * negatives. */
CADRE_API cadre_node_t cadre_op_sgns(cadre_program_t *self, cadre_node_t input, cadre_node_t output,
                                     cadre_node_t center, cadre_node_t context,
                                     cadre_node_t negatives);

/* Returns the loss of retrieval with negatives from the batch: the mean over queries [B, D] of the
 * softmax cross entropy of the product with the candidate of the same row of `candidates` [B, D],
 * among the products with all candidates of the batch. Other rows with the same of `ids` [B] (i32,
 * i64 or f32) have the query's own candidate, and count for nothing. `log_q` [B] is subtracted from
 * the products: with the logarithm of the probability with which a candidate is in the batch, up to
 * a constant, the loss estimates that among all candidates (Yi and others 2019,
 * "Sampling-bias-corrected neural modeling for large corpus item recommendations"); the empty node:
 * no correction. Takes memory for B products for each of B queries. */
CADRE_API cadre_node_t cadre_op_in_batch_softmax(cadre_program_t *self, cadre_node_t queries,
                                                 cadre_node_t candidates, cadre_node_t ids,
                                                 cadre_node_t log_q);

/* --- Gradients --- */

/* For example:
 *
 *     cadre_op_minimize(p, loss);
 *     cadre_op_result(p, "loss", loss);
 */

/* Gives the gradient of the scalar `loss` with respect to each of `count` nodes, in `gradients`. A
 * node on which the loss does not depend is a mistake. */
CADRE_API void cadre_op_gradient(cadre_program_t *self, cadre_node_t loss,
                                 const cadre_node_t *nodes, int count, cadre_node_t *gradients);

/* Returns `x` with each element moved into [low, high], as tf.clip_by_value. */
CADRE_API cadre_node_t cadre_op_clip_by_value(cadre_program_t *self, cadre_node_t x, float low,
                                              float high);

/* Returns `x` scaled down to `norm` (above 0) when its norm |x|, the root of the sum of squares, is
 * larger: x norm / max(|x|, norm), as tf.clip_by_norm. When |x| is infinite in f32, finite elements
 * become 0. */
CADRE_API cadre_node_t cadre_op_clip_by_norm(cadre_program_t *self, cadre_node_t x, float norm);

/* Replaces `count` nodes by the same nodes scaled down together, so that the norm of all their
 * elements is at most `norm`, and returns that norm before clipping (tf.clip_by_global_norm;
 * Pascanu, Mikolov, Bengio 2013, "On the difficulty of training recurrent neural networks"):
 *
 *     cadre_op_gradient(p, loss, variables, 2, gradients);
 *     cadre_op_clip_by_global_norm(p, gradients, 2, 1);
 *     cadre_op_push(p, variables[0], gradients[0]);
 *     cadre_op_push(p, variables[1], gradients[1]);
 */
CADRE_API cadre_node_t cadre_op_clip_by_global_norm(cadre_program_t *self, cadre_node_t *nodes,
                                                    int count, float norm);

/* --- Local steps: an optimizer that a closure runs itself, before it pushes how far it came --- */

/* An optimizer as part of one program. Zeroed but for `optimizer` before the first step; afterwards
 * only cadre_op_inner_step changes it, and another program has one of its own: nodes of one mean
 * nothing in another. The struct will get no further fields. */
typedef struct {
    cadre_optimizer_t optimizer; /* sgd, momentum, nesterov, adam or adamw */
    int step;                    /* steps that were added */
    cadre_node_t shared[4];      /* numbers that all steps share, once there is a first */
} cadre_inner_optimizer_t;

/* What it keeps of one value between steps, of the value's shape. Zeroed before the first step:
 * moments begin at 0 with each closure. The struct will get no further fields. */
typedef struct {
    cadre_node_t moments[2];
} cadre_inner_slots_t;

/* Adds the optimizer's next step: replaces each of `count` values (f32) by what it is after a step
 * along its gradient, a node of the same shape. slots[i] is what is kept of values[i]. So a closure
 * trains for eight steps, each on 32 of its rows, and is one push:
 *
 *     cadre_inner_optimizer_t inner = {.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADAM)};
 *     cadre_inner_slots_t slots[2] = {0};
 *     cadre_node_t now[2] = {w, b}, gradients[2];
 *     for (int i = 0; i < 8; i++) {
 *         cadre_node_t logits = cadre_op_dense(p, cadre_op_slice(p, x, 0, 32 * i, 32), now[0],
 *                                              now[1]);
 *         cadre_node_t labels = cadre_op_slice(p, y, 0, 32 * i, 32);
 *         cadre_op_gradient(p, cadre_op_softmax_cross_entropy(p, logits, labels), now, 2,
 *                           gradients);
 *         cadre_op_inner_step(p, &inner, now, gradients, slots, 2);
 *     }
 *     cadre_op_push(p, w, cadre_op_sub(p, w, now[0]));
 *     cadre_op_push(p, b, cadre_op_sub(p, b, now[1]));
 *
 * What is pushed is pulled - now, a gradient for the variable's optimizer: with sgd and a learning
 * rate of 1 the variable becomes what the closure came to (docs/strategies.md, "Local steps").
 *
 * Formulas are those by which a ps updates (Keras 3, keras/src/optimizers/<name>.py), with w the
 * value, g its gradient, lr the learning rate and t the number of the step, from 1:
 *
 *     sgd       w -= lr g
 *     momentum  m = momentum m - lr g;  w += m
 *     nesterov  m = momentum m - lr g;  w += momentum m - lr g
 *     adam      m += (g - m) (1 - beta_1);  v += (g^2 - v) (1 - beta_2)
 *               w -= m alpha / (sqrt(v) + epsilon),  alpha = lr sqrt(1 - beta_2^t) / (1 - beta_1^t)
 *     adamw     w -= w weight_decay lr, then adam
 *
 * alpha is computed in double, all else in f32. Mistakes that cadre_program_finish reports:
 *
 * CADRE_EINVALID: another kind, or a parameter out of its range.
 * CADRE_ESHAPE: a value and its gradient have different shapes. */
CADRE_API void cadre_op_inner_step(cadre_program_t *self, cadre_inner_optimizer_t *inner,
                                   cadre_node_t *values, const cadre_node_t *gradients,
                                   cadre_inner_slots_t *slots, int count);

/* --- Outputs --- */

/* Sends `gradient` to the variable `variable` (a node from cadre_op_var or cadre_op_var_of, of the
 * same type and shape) when the closure ends; once per variable. */
CADRE_API void cadre_op_push(cadre_program_t *self, cadre_node_t variable, cadre_node_t gradient);

/* Pushes the gradient of `loss` for every variable that it depends on. */
CADRE_API void cadre_op_minimize(cadre_program_t *self, cadre_node_t loss);

/* Returns the value of `node` to the coordinator under `name`, once per name. */
CADRE_API void cadre_op_result(cadre_program_t *self, const char *name, cadre_node_t node);

#ifdef __cplusplus
}
#endif
#endif
