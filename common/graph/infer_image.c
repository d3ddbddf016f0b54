/*
 * infer_image - shapes of im2col and its adjoint, over images [batch, height, width, channels].
 */
#include "common/graph/infer_rules.h"

#include <inttypes.h>

#include "common/base/status.h"

/* Checks the attributes of im2col and col2im: height and width of a window, stride and padding. */
static int
check_window(const int64_t *attributes)
{
    static const struct {
        const char *text;
        int index;
        int64_t low;
    } rules[] = {
        {"a window's height", CADRE_IMAGE_HEIGHT, 1},
        {"a window's width", CADRE_IMAGE_WIDTH, 1},
        {"stride", CADRE_IMAGE_STRIDE, 1},
        {"padding", CADRE_IMAGE_PADDING, 0},
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        int64_t value = attributes[rules[i].index];
        if (value < rules[i].low || value > CADRE_IMAGE_ATTRIBUTE_MAX) {
            return cadre_fail(CADRE_EINVALID, "%s of %" PRId64 " is not in %" PRId64 "..%d",
                              rules[i].text, value, rules[i].low, CADRE_IMAGE_ATTRIBUTE_MAX);
        }
    }
    return 0;
}

/* Returns whether a shape is an image's: rank 4, with height, width and channels that are no
 * symbols, since windows are counted here. */
static bool
is_image(const cadre_extents_t *shape)
{
    return shape->rank == 4 && shape->extents[1].symbol < 0 && shape->extents[2].symbol < 0 &&
           shape->extents[3].symbol < 0;
}

/* Computes the shape of im2col's result for an image of shape `image`: [batch, rows of windows,
 * windows in a row, elements of a window]. */
static int
columns_of(const cadre_infer_t *self, const int64_t *attributes, const cadre_extents_t *image,
           cadre_extents_t *out)
{
    cadre_infer_text_t text;
    int status = check_window(attributes);
    if (status < 0) {
        return status;
    }
    if (!is_image(image)) {
        return cadre_fail(CADRE_ESHAPE,
                          "needs [batch,height,width,channels], the last three numbers, not %s",
                          cadre_infer_shown(self, image, &text));
    }
    const int64_t window[2] = {attributes[CADRE_IMAGE_HEIGHT], attributes[CADRE_IMAGE_WIDTH]};
    int64_t padding = attributes[CADRE_IMAGE_PADDING];
    *out = *image;
    for (int i = 0; i < 2; i++) {
        /* Cannot overflow: a dimension is at most 2^44 (extent.h). */
        int64_t room = image->extents[1 + i].factor + 2 * padding - window[i];
        if (room < 0) {
            return cadre_fail(CADRE_ESHAPE,
                              "a window of %" PRId64 "x%" PRId64
                              " does not fit %s with padding %" PRId64,
                              window[0], window[1], cadre_infer_shown(self, image, &text), padding);
        }
        out->extents[1 + i].factor = room / attributes[CADRE_IMAGE_STRIDE] + 1;
    }
    int64_t channels = image->extents[3].factor;
    if (channels > CADRE_EXTENTS_FACTOR_MAX / (window[0] * window[1])) {
        return cadre_fail(CADRE_ETOOLARGE, "a window has more than 2^44 elements");
    }
    out->extents[3].factor = window[0] * window[1] * channels;
    return 0;
}

/* Infers im2col: the elements of each window of an image, as the last axis. */
int
cadre_infer_im2col(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = cadre_infer_input(self, node, 0);
    if (cadre_infer_need_dtype(x, CADRE_F32) < 0) {
        return CADRE_EDTYPE;
    }
    node->dtype = CADRE_F32;
    return columns_of(self, node->attributes, &x->shape, &node->shape);
}

/* Infers col2im, the adjoint of im2col. The node carries the shape of the image that it makes; its
 * input must have the shape that im2col would give for that image. */
int
cadre_infer_col2im(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = cadre_infer_input(self, node, 0);
    cadre_extents_t wanted = {0};
    if (cadre_infer_need_dtype(x, CADRE_F32) < 0) {
        return CADRE_EDTYPE;
    }
    int status = columns_of(self, node->attributes, &node->shape, &wanted);
    if (status < 0) {
        return status;
    }
    if (!cadre_extents_equal(&x->shape, &wanted)) {
        cadre_infer_text_t left;
        cadre_infer_text_t right;
        cadre_infer_text_t image;
        return cadre_fail(CADRE_ESHAPE, "%s are not the columns of %s, which are %s",
                          cadre_infer_shown(self, &x->shape, &left),
                          cadre_infer_shown(self, &node->shape, &image),
                          cadre_infer_shown(self, &wanted, &right));
    }
    node->dtype = CADRE_F32;
    return 0;
}
