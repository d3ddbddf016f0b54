/*
 * cpu_image - writes the windows of an image as rows (im2col), and sums such rows back into an
 * image (col2im).
 *
 * Images are [batch, height, width, channels]: what one row of a kernel covers lies together in the
 * image and in the window, so that both move whole spans. col2im adds in the order of the windows,
 * so that its sums are the same in every run.
 */
#include <string.h>

#include "worker/device/cpu.h"
#include "worker/device/element.h"

enum {
    SHORT = 16, /* rows of windows of so many elements are copied in a loop: a call of memcpy would
                   cost more */
    COST = 2    /* what an element of a window costs, in additions */
};

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
    int64_t image_size; /* elements */
    int64_t window_size;
    int64_t windows_size; /* elements of all windows of one image */
    const cadre_real_t *from;
    cadre_real_t *to;
} layout_t;

/* What one row of the kernel, at one position, covers of the image: `count` elements, at offset
 * `image` there and at offset `window` in the window's row. The rest of the row is padding. */
typedef struct {
    int64_t image;
    int64_t window;
    int64_t count;
} span_t;

/* Returns the sizes of an image batch and its windows, and what is read and written, of a step. */
static layout_t
layout_of(const cadre_plan_value_t *image, const cadre_plan_value_t *windows,
          const cadre_operands_t *operands)
{
    const int64_t *attributes = operands->step->attributes;
    layout_t layout = {.batch = image->shape[0],
                       .height = image->shape[1],
                       .width = image->shape[2],
                       .channels = image->shape[3],
                       .rows = windows->shape[1],
                       .columns = windows->shape[2],
                       .kernel_height = attributes[CADRE_IMAGE_HEIGHT],
                       .kernel_width = attributes[CADRE_IMAGE_WIDTH],
                       .stride = attributes[CADRE_IMAGE_STRIDE],
                       .padding = attributes[CADRE_IMAGE_PADDING],
                       .from = operands->data[0],
                       .to = operands->out_data};
    layout.image_size = layout.height * layout.width * layout.channels;
    layout.window_size = layout.kernel_height * layout.kernel_width * layout.channels;
    layout.windows_size = layout.rows * layout.columns * layout.window_size;
    return layout;
}

/* Returns the part of row `kernel_row` of the window at (row, column) that lies in the image.
 * Offsets count from the first element of the image, and of this row of the window. */
static span_t
span_at(const layout_t *layout, int64_t row, int64_t column, int64_t kernel_row)
{
    int64_t y = row * layout->stride + kernel_row - layout->padding;
    int64_t x = column * layout->stride - layout->padding;
    if (y < 0 || y >= layout->height) {
        return (span_t){0};
    }
    int64_t first = x < 0 ? -x : 0; /* so many columns of the kernel lie left of the image */
    int64_t room = layout->width - x;
    int64_t end = room < layout->kernel_width ? room : layout->kernel_width;
    if (first >= end) {
        return (span_t){0};
    }
    return (span_t){.image = (y * layout->width + x + first) * layout->channels,
                    .window = first * layout->channels,
                    .count = (end - first) * layout->channels};
}

/* Writes one row of a window: the span from the image, and 0 where it lies in the padding. */
static void
fill_row(cadre_real_t *restrict to, const cadre_real_t *restrict image, span_t span, int64_t size)
{
    if (size > SHORT) {
        int64_t after = size - span.window - span.count;
        memcpy(to + span.window, image + span.image, (size_t)span.count * sizeof(*to));
        if (span.count < size) {
            memset(to, 0, (size_t)span.window * sizeof(*to));
            memset(to + span.window + span.count, 0, (size_t)after * sizeof(*to));
        }
        return;
    }
    for (int64_t i = 0; i < size; i++) {
        bool inside = i >= span.window && i < span.window + span.count;
        to[i] = inside ? image[span.image + i - span.window] : 0;
    }
}

/* Writes the window at (row, column) of an image, one row of the kernel after the other. */
static void
fill_window(const layout_t *layout, const cadre_real_t *image, int64_t row, int64_t column,
            cadre_real_t *window)
{
    int64_t size = layout->kernel_width * layout->channels;
    for (int64_t k = 0; k < layout->kernel_height; k++) {
        fill_row(window + k * size, image, span_at(layout, row, column, k), size);
    }
}

/* Adds the window at (row, column) to the image, at the place from which im2col takes it; what lies
 * in the padding is dropped. */
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

/* Writes all windows of images begin..end, row by row. */
static void
im2col_part(const void *context, int64_t begin, int64_t end)
{
    const layout_t *layout = context;
    for (int64_t i = begin; i < end; i++) {
        cadre_real_t *window = layout->to + i * layout->windows_size;
        for (int64_t row = 0; row < layout->rows; row++) {
            for (int64_t column = 0; column < layout->columns; column++) {
                fill_window(layout, layout->from + i * layout->image_size, row, column, window);
                window += layout->window_size;
            }
        }
    }
}

/* Sums all windows of images begin..end back into the images. */
static void
col2im_part(const void *context, int64_t begin, int64_t end)
{
    const layout_t *layout = context;
    for (int64_t i = begin; i < end; i++) {
        const cadre_real_t *window = layout->from + i * layout->windows_size;
        cadre_real_t *image = layout->to + i * layout->image_size;
        memset(image, 0, (size_t)layout->image_size * sizeof(*image));
        for (int64_t row = 0; row < layout->rows; row++) {
            for (int64_t column = 0; column < layout->columns; column++) {
                add_window(layout, window, row, column, image);
                window += layout->window_size;
            }
        }
    }
}

/* Runs `part` over the images of the batch, which are independent of each other. */
static void
run_images(const cadre_operands_t *operands, const layout_t *layout, cadre_cpu_part_t *part)
{
    cadre_cpu_pool_run(operands->pool, layout->batch,
                       CADRE_CPU_PART_COST / COST / (layout->windows_size + 1), part, layout);
}

/* Writes each window of each image as a row: a convolution is then one matrix product. */
int
cadre_cpu_im2col(const cadre_operands_t *operands)
{
    layout_t layout = layout_of(operands->inputs[0], operands->out, operands);
    run_images(operands, &layout, im2col_part);
    return 0;
}

/* Sums windows back into images: the gradient of im2col. */
int
cadre_cpu_col2im(const cadre_operands_t *operands)
{
    layout_t layout = layout_of(operands->out, operands->inputs[0], operands);
    run_images(operands, &layout, col2im_part);
    return 0;
}
