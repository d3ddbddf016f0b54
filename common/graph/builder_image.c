/*
 * builder_image - layers over images [batch, height, width, channels]: convolution and pooling; and
 * over sequences [batch, positions, channels], which are images of height 1.
 */
#include <string.h>

#include "common/base/status.h"
#include "common/graph/infer_rules.h"
#include "common/graph/program_data.h"

static const cadre_node_t none = {0};

/* Returns whether windows fit over the image x; else notes the mistake, under the name `what`. The
 * attributes are those of im2col: height and width of a window, stride, padding. */
static bool
has_windows(cadre_program_t *self, const char *what, cadre_node_t x,
            const int64_t attributes[CADRE_OP_ATTRIBUTES_MAX])
{
    cadre_program_node_t node = {.op = CADRE_OP_IM2COL, .input_count = 1, .inputs = {x.id - 1}};
    memcpy(node.attributes, attributes, sizeof(node.attributes));
    cadre_infer_t before = cadre_program_before(self);
    int status = cadre_infer_im2col(&before, &node);
    if (status < 0) {
        cadre_program_mistake(self, cadre_fail_within(status, "%s", what));
    }
    return status == 0;
}

/* Returns whether weight [KH, KW, CIN, COUT] and bias [COUT] (or the empty node) fit the image x;
 * else notes the mistake. */
static bool
can_convolve(cadre_program_t *self, cadre_node_t x, cadre_node_t weight, cadre_node_t bias)
{
    if (!cadre_program_has(self, x, "conv2d") || !cadre_program_has(self, weight, "conv2d") ||
        (bias.id != 0 && !cadre_program_has(self, bias, "conv2d"))) {
        return false;
    }
    const cadre_extents_t *image = &cadre_program_at(self, x)->shape;
    const cadre_extents_t *kernel = &cadre_program_at(self, weight)->shape;
    bool fits = image->rank == 4 && kernel->rank == 4 && kernel->extents[0].symbol < 0 &&
                kernel->extents[1].symbol < 0 &&
                cadre_extent_equal(image->extents[3], kernel->extents[2]);
    if (!fits) {
        cadre_program_misfit(self, "conv2d", (cadre_named_node_t){"image", x},
                             (cadre_named_node_t){"weight", weight});
        return false;
    }
    const cadre_extents_t *row = bias.id == 0 ? NULL : &cadre_program_at(self, bias)->shape;
    if (row && (row->rank != 1 || !cadre_extent_equal(row->extents[0], kernel->extents[3]))) {
        cadre_program_misfit(self, "conv2d", (cadre_named_node_t){"bias", bias},
                             (cadre_named_node_t){"weight", weight});
        return false;
    }
    return true;
}

/* Convolves images by one matrix product: the windows of the image as rows (im2col), times the
 * kernel as a matrix [KH * KW * CIN, COUT]. */
cadre_node_t
cadre_op_conv2d(cadre_program_t *self, cadre_node_t x, cadre_node_t weight, cadre_node_t bias,
                int stride, int padding)
{
    if (!can_convolve(self, x, weight, bias)) {
        return none;
    }
    cadre_extents_t kernel = cadre_program_at(self, weight)->shape;
    int64_t height = kernel.extents[0].factor;
    int64_t width = kernel.extents[1].factor;
    const int64_t attributes[CADRE_OP_ATTRIBUTES_MAX] = {height, width, stride, padding};
    if (!has_windows(self, "conv2d", x, attributes)) {
        return none;
    }
    cadre_extents_t flat = {0};
    cadre_extents_collapse(&kernel, 1, &flat); /* succeeds: no symbols, within the limit */
    /* Windows of one element, one apart, are the image itself. */
    bool pointwise = height == 1 && width == 1 && stride == 1 && padding == 0;
    cadre_node_t columns = pointwise ? x : cadre_program_emit_im2col(self, x, attributes);
    cadre_node_t y =
        cadre_op_matmul(self, columns, cadre_program_emit_reshape(self, weight, &flat));
    return bias.id == 0 ? y : cadre_op_add(self, y, bias);
}

/* Reduces x, seen as [rows, size, kept], over its middle axis: the result is [rows, kept]. Only the
 * first axis of x may have a symbol. */
static cadre_node_t
reduce_inner(cadre_program_t *self, cadre_reduce_t function, cadre_node_t x, int64_t size,
             int64_t kept)
{
    if (!cadre_program_has(self, x, "pool2d")) {
        return none;
    }
    cadre_extents_t all = {0};
    /* Cannot fail, since x has one symbol at most. */
    cadre_extents_collapse(&cadre_program_at(self, x)->shape, 0, &all);
    cadre_extents_t seen = {
        .rank = 3,
        .extents = {all.extents[0], cadre_extent_number(size), cadre_extent_number(kept)}};
    seen.extents[0].factor /= size * kept;
    return cadre_program_emit_reduce(self, function, cadre_program_emit_reshape(self, x, &seen), 1,
                                     2);
}

/* Pools by windows that do not overlap and fill the image: one reduction over the rows and one over
 * the columns of each window, without a copy of the image. */
static cadre_node_t
pool_tiles(cadre_program_t *self, cadre_reduce_t function, cadre_node_t x, const int window[2])
{
    cadre_extents_t image = cadre_program_at(self, x)->shape;
    int64_t channels = image.extents[3].factor;
    cadre_node_t y = reduce_inner(self, function, x, window[0], image.extents[2].factor * channels);
    y = reduce_inner(self, function, y, window[1], channels);
    image.extents[1].factor /= window[0];
    image.extents[2].factor /= window[1];
    return cadre_program_emit_reshape(self, y, &image);
}

/* Returns whether windows do not overlap and fill the image, whose sizes must be numbers. */
static bool
tiles(const cadre_extents_t *image, const int window[2], int stride)
{
    return image->rank == 4 && stride > 0 && window[0] == stride && window[1] == stride &&
           image->extents[1].symbol < 0 && image->extents[2].symbol < 0 &&
           image->extents[3].symbol < 0 && image->extents[1].factor % stride == 0 &&
           image->extents[2].factor % stride == 0;
}

/* Pools images [B, H, W, C] by windows, `stride` apart. Windows that overlap or leave a rest are
 * copied out (im2col) and reduced. */
static cadre_node_t
pool(cadre_program_t *self, cadre_reduce_t function, cadre_node_t x, const int window[2],
     int stride)
{
    const char *what = function == CADRE_REDUCE_MAX ? "max_pool2d" : "mean_pool2d";
    const int64_t attributes[CADRE_OP_ATTRIBUTES_MAX] = {window[0], window[1], stride, 0};
    if (!cadre_program_has(self, x, what) || !has_windows(self, what, x, attributes)) {
        return none;
    }
    cadre_extents_t image = cadre_program_at(self, x)->shape;
    if (tiles(&image, window, stride)) {
        return pool_tiles(self, function, x, window);
    }
    cadre_node_t columns = cadre_op_im2col(self, x, window, stride, 0);
    if (columns.id == 0) {
        return none;
    }
    cadre_extents_t shape = cadre_program_at(self, columns)->shape;
    shape.extents[3] = image.extents[3];
    cadre_node_t y = reduce_inner(self, function, columns, (int64_t)window[0] * window[1],
                                  image.extents[3].factor);
    return cadre_program_emit_reshape(self, y, &shape);
}

cadre_node_t
cadre_op_max_pool2d(cadre_program_t *self, cadre_node_t x, const int window[2], int stride)
{
    return pool(self, CADRE_REDUCE_MAX, x, window, stride);
}

cadre_node_t
cadre_op_mean_pool2d(cadre_program_t *self, cadre_node_t x, const int window[2], int stride)
{
    return pool(self, CADRE_REDUCE_MEAN, x, window, stride);
}

/* ---- sequences ---- */

/* Returns whether windows fit over x [B, T, C]; if not, notes the mistake. `window` is size,
 * stride, and the padding with zeros on both ends. */
static bool
has_windows_along(cadre_program_t *self, const char *what, cadre_node_t x, const int64_t window[3])
{
    int64_t size = window[0];
    int64_t stride = window[1];
    int64_t padding = window[2];
    const cadre_extents_t *shape = &cadre_program_at(self, x)->shape;
    char text[CADRE_EXTENTS_TEXT_SIZE];
    cadre_extents_text(shape, cadre_program_symbols(self), text);

    int status = 0;
    if (shape->rank != 3 || shape->extents[1].symbol >= 0 || shape->extents[2].symbol >= 0) {
        status = cadre_fail(CADRE_ESHAPE,
                            "%s: needs sequences [batch,positions,channels], of which the last two "
                            "are numbers, not %s",
                            what, text);
    } else if (size < 1 || stride < 1 || padding < 0 || size > CADRE_IMAGE_ATTRIBUTE_MAX ||
               stride > CADRE_IMAGE_ATTRIBUTE_MAX || padding > CADRE_IMAGE_ATTRIBUTE_MAX) {
        status = cadre_fail(CADRE_EINVALID,
                            "%s: window and stride are 1 to %d, a padding 0 to %d, not %lld, %lld "
                            "and %lld",
                            what, CADRE_IMAGE_ATTRIBUTE_MAX, CADRE_IMAGE_ATTRIBUTE_MAX,
                            (long long)size, (long long)stride, (long long)padding);
    } else if (size > shape->extents[1].factor + 2 * padding) {
        status = cadre_fail(CADRE_ESHAPE, "%s: a window of %lld does not fit %s with padding %lld",
                            what, (long long)size, text, (long long)padding);
    }
    if (status < 0) {
        cadre_program_mistake(self, status);
    }
    return status == 0;
}

/* Returns x [B, T, C] as an image of one row, [B, 1, T, C]. */
static cadre_node_t
as_image(cadre_program_t *self, cadre_node_t x)
{
    if (x.id == 0) {
        return none;
    }
    cadre_extents_t shape = cadre_program_at(self, x)->shape;
    shape.rank = 4;
    shape.extents[3] = shape.extents[2];
    shape.extents[2] = shape.extents[1];
    shape.extents[1] = cadre_extent_number(1);
    return cadre_program_emit_reshape(self, x, &shape);
}

/* Returns an image of one row, [B, 1, T, C], as a sequence [B, T, C]. */
static cadre_node_t
as_sequence(cadre_program_t *self, cadre_node_t x)
{
    if (x.id == 0) {
        return none;
    }
    cadre_extents_t shape = cadre_program_at(self, x)->shape;
    shape.rank = 3;
    shape.extents[1] = shape.extents[2];
    shape.extents[2] = shape.extents[3];
    return cadre_program_emit_reshape(self, x, &shape);
}

/* Convolves sequences x [B, T, CIN] with weight [K, CIN, COUT], as images of one row. */
cadre_node_t
cadre_op_conv1d(cadre_program_t *self, cadre_node_t x, cadre_node_t weight, cadre_node_t bias,
                int stride, int padding)
{
    if (!cadre_program_has(self, x, "conv1d") || !cadre_program_has(self, weight, "conv1d") ||
        (bias.id != 0 && !cadre_program_has(self, bias, "conv1d"))) {
        return none;
    }
    cadre_extents_t kernel = cadre_program_at(self, weight)->shape;
    const cadre_extents_t *shape = &cadre_program_at(self, x)->shape;
    if (kernel.rank != 3 || shape->rank != 3 || kernel.extents[0].symbol >= 0 ||
        !cadre_extent_equal(shape->extents[2], kernel.extents[1])) {
        cadre_program_misfit(self, "conv1d", (cadre_named_node_t){"sequence", x},
                             (cadre_named_node_t){"weight", weight});
        return none;
    }
    const int64_t window[] = {kernel.extents[0].factor, stride, padding};
    if (!has_windows_along(self, "conv1d", x, window)) {
        return none;
    }

    /* Padded here: conv2d would pad the one row above and below, too. */
    x = padding > 0 ? cadre_op_pad(self, x, 1, padding, padding) : x;
    cadre_extents_t flat = {.rank = 4,
                            .extents = {cadre_extent_number(1), kernel.extents[0],
                                        kernel.extents[1], kernel.extents[2]}};
    weight = cadre_program_emit_reshape(self, weight, &flat);
    return as_sequence(self, cadre_op_conv2d(self, as_image(self, x), weight, bias, stride, 0));
}

/* Pools sequences [B, T, C] by windows of `window` positions, `stride` apart; in general as images
 * of one row. */
static cadre_node_t
pool_along(cadre_program_t *self, cadre_reduce_t function, cadre_node_t x, int window, int stride)
{
    const char *what = function == CADRE_REDUCE_MAX ? "max_pool1d" : "mean_pool1d";
    const int64_t along[] = {window, stride, 0};
    if (!cadre_program_has(self, x, what) || !has_windows_along(self, what, x, along)) {
        return none;
    }
    cadre_extents_t shape = cadre_program_at(self, x)->shape;
    if (window != stride || shape.extents[1].factor % stride != 0) {
        return as_sequence(
            self, pool(self, function, as_image(self, x), (const int[]){1, window}, stride));
    }

    /* Windows that do not overlap and fill the sequence: pooled without a copy of it. */
    cadre_node_t y = reduce_inner(self, function, x, window, shape.extents[2].factor);
    shape.extents[1].factor /= window;
    return cadre_program_emit_reshape(self, y, &shape);
}

cadre_node_t
cadre_op_max_pool1d(cadre_program_t *self, cadre_node_t x, int window, int stride)
{
    return pool_along(self, CADRE_REDUCE_MAX, x, window, stride);
}

cadre_node_t
cadre_op_mean_pool1d(cadre_program_t *self, cadre_node_t x, int window, int stride)
{
    return pool_along(self, CADRE_REDUCE_MEAN, x, window, stride);
}
