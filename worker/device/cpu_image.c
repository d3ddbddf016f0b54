/*
 * cpu_image - the windows of an image as rows (im2col), and rows summed back into it (col2im).
 *
 * Images are [batch, height, width, channels]: what one row of a kernel covers lies together in the
 * image and in the window, so that both move whole spans. col2im adds in the order of the windows,
 * so that its sums are the same in every run.
 */
#include <string.h>

#include "worker/device/cpu.h"
#include "worker/device/element.h"

/* Rows of windows up to this long are copied element by element: calls would cost more. */
enum { SHORT = 16 };

typedef struct {
    int64_t height; /* of the image */
    int64_t width;
    int64_t channels;
    int64_t rows; /* of windows */
    int64_t columns;
    int64_t kernel_height;
    int64_t kernel_width;
    int64_t stride;
    int64_t padding;
    int64_t batch;
} layout_t;

/* One row of the kernel at one place: `count` elements from `image` on go to `window` on; the
 * others lie in the padding. */
typedef struct {
    int64_t image;
    int64_t window;
    int64_t count;
} span_t;

static layout_t
layout_of(const cadre_plan_value_t *image, const cadre_plan_value_t *windows,
          const int64_t *attributes)
{
    return (layout_t){.batch = image->shape[0],
                      .height = image->shape[1],
                      .width = image->shape[2],
                      .channels = image->shape[3],
                      .rows = windows->shape[1],
                      .columns = windows->shape[2],
                      .kernel_height = attributes[CADRE_IMAGE_HEIGHT],
                      .kernel_width = attributes[CADRE_IMAGE_WIDTH],
                      .stride = attributes[CADRE_IMAGE_STRIDE],
                      .padding = attributes[CADRE_IMAGE_PADDING]};
}

/* The part of row `kernel_row` of the window at (row, column) that lies in the image; both offsets
 * count from the beginning of the image and of the kernel's row. */
static span_t
span_at(const layout_t *layout, int64_t row, int64_t column, int64_t kernel_row)
{
    int64_t y = row * layout->stride + kernel_row - layout->padding;
    int64_t x = column * layout->stride - layout->padding;
    if (y < 0 || y >= layout->height) {
        return (span_t){0};
    }
    int64_t first = x < 0 ? -x : 0; /* columns of the kernel left of the image */
    int64_t room = layout->width - x;
    int64_t end = room < layout->kernel_width ? room : layout->kernel_width;
    if (first >= end) {
        return (span_t){0};
    }
    return (span_t){.image = (y * layout->width + x + first) * layout->channels,
                    .window = first * layout->channels,
                    .count = (end - first) * layout->channels};
}

/* One row of a window: what lies in the padding is 0. */
static void
fill_row(cadre_real_t *restrict to, const cadre_real_t *restrict image, span_t span, int64_t size)
{
    if (size > SHORT) {
        int64_t after = size - span.window - span.count;
        memset(to, 0, (size_t)span.window * sizeof(*to));
        memcpy(to + span.window, image + span.image, (size_t)span.count * sizeof(*to));
        memset(to + span.window + span.count, 0, (size_t)after * sizeof(*to));
        return;
    }
    for (int64_t i = 0; i < size; i++) {
        bool inside = i >= span.window && i < span.window + span.count;
        to[i] = inside ? image[span.image + i - span.window] : 0;
    }
}

static void
fill_window(const layout_t *layout, const cadre_real_t *image, int64_t row, int64_t column,
            cadre_real_t *window)
{
    int64_t size = layout->kernel_width * layout->channels;
    for (int64_t k = 0; k < layout->kernel_height; k++) {
        fill_row(window + k * size, image, span_at(layout, row, column, k), size);
    }
}

static void
add_window(const layout_t *layout, const cadre_real_t *window, int64_t row, int64_t column,
           cadre_real_t *image)
{
    int64_t size = layout->kernel_width * layout->channels;
    for (int64_t k = 0; k < layout->kernel_height; k++) {
        span_t span = span_at(layout, row, column, k);
        const cadre_real_t *restrict from = window + k * size + span.window;
        cadre_real_t *restrict to = image + span.image;
        for (int64_t i = 0; i < span.count; i++) {
            to[i] += from[i];
        }
    }
}

void
cadre_cpu_im2col(const cadre_operands_t *operands)
{
    layout_t layout = layout_of(operands->inputs[0], operands->out, operands->step->attributes);
    int64_t image_size = layout.height * layout.width * layout.channels;
    int64_t window_size = layout.kernel_height * layout.kernel_width * layout.channels;
    const cadre_real_t *image = operands->data[0];
    cadre_real_t *window = operands->out_data;
    for (int64_t i = 0; i < layout.batch; i++, image += image_size) {
        for (int64_t row = 0; row < layout.rows; row++) {
            for (int64_t column = 0; column < layout.columns; column++) {
                fill_window(&layout, image, row, column, window);
                window += window_size;
            }
        }
    }
}

void
cadre_cpu_col2im(const cadre_operands_t *operands)
{
    layout_t layout = layout_of(operands->out, operands->inputs[0], operands->step->attributes);
    int64_t image_size = layout.height * layout.width * layout.channels;
    int64_t window_size = layout.kernel_height * layout.kernel_width * layout.channels;
    const cadre_real_t *window = operands->data[0];
    cadre_real_t *image = operands->out_data;
    memset(image, 0, operands->out->size_bytes);
    for (int64_t i = 0; i < layout.batch; i++, image += image_size) {
        for (int64_t row = 0; row < layout.rows; row++) {
            for (int64_t column = 0; column < layout.columns; column++) {
                add_window(&layout, window, row, column, image);
                window += window_size;
            }
        }
    }
}
