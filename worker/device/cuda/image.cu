/*
 * image - writes the windows of an image as rows (im2col), and sums such rows back into an image
 * (col2im).
 *
 * A thread writes four channels of the output where four divide their number, else one element. In
 * col2im a thread looks for the windows that hold its pixel, instead of adding windows to pixels:
 * so it needs no atomics and adds in the order of the windows, as the CPU device. Bound by memory:
 * im2col reads a pixel up to kernel size times, all but once from the cache.
 */
#include "worker/device/cuda/divider.cuh"
#include "worker/device/cuda/kernels.h"

template <typename divider_t> struct image_t {
    int64_t units; /* of the output */
    /* Sizes of the output's axes, innermost first; the quotient after all of them is the image. */
    divider_t channels; /* in units of one or four channels */
    divider_t kernel_width;
    divider_t kernel_height;
    divider_t columns; /* of windows for im2col, of the image for col2im */
    divider_t rows;
    int64_t height; /* of the image */
    int64_t width;
    int64_t window_rows;
    int64_t window_columns;
    int64_t kernel[2];     /* height, width */
    int64_t channel_count; /* in units */
    int64_t stride;
    int64_t padding;
    const void *from;
    void *out;
};

static __device__ __forceinline__ void
add_to(float *sum, float value)
{
    *sum += value;
}

static __device__ __forceinline__ void
add_to(vector_t<float> *sum, const vector_t<float> &value)
{
    for (int k = 0; k < VECTOR; k++) {
        sum->words[k] += value.words[k];
    }
}

/* Writes one unit (one or four channels) of a window per thread: the pixel under it, or 0 in the
 * padding. The unit's number is taken apart from the innermost axis on; divide returns the quotient
 * and leaves the remainder. */
template <typename unit_t, typename divider_t>
static __global__ void
image_to_windows(const __grid_constant__ image_t<divider_t> image)
{
    typedef typename divider_t::index_t index_t;
    uint64_t unit = unit_index();
    if (unit >= static_cast<uint64_t>(image.units)) {
        return;
    }
    index_t channel = static_cast<index_t>(unit);
    index_t kernel_column = divide(image.channels, &channel);
    index_t kernel_row = divide(image.kernel_width, &kernel_column);
    index_t column = divide(image.kernel_height, &kernel_row);
    index_t row = divide(image.columns, &column);
    index_t sample = divide(image.rows, &row);
    int64_t y = static_cast<int64_t>(row) * image.stride + kernel_row - image.padding;
    int64_t x = static_cast<int64_t>(column) * image.stride + kernel_column - image.padding;
    unit_t value = {};
    if (y >= 0 && y < image.height && x >= 0 && x < image.width) {
        int64_t pixel = (static_cast<int64_t>(sample) * image.height + y) * image.width + x;
        value = static_cast<const unit_t *>(image.from)[pixel * image.channel_count + channel];
    }
    static_cast<unit_t *>(image.out)[unit] = value;
}

/* The windows first..end-1 along one axis. */
struct span_t {
    int64_t first;
    int64_t end;
};

/* Returns which windows cover position `at` along one axis. */
static __device__ __forceinline__ span_t
windows_at(int64_t at, int64_t kernel, int64_t stride, int64_t windows)
{
    int64_t before = at - kernel + 1; /* where the first window over `at` could begin */
    int64_t first = before <= 0 ? 0 : (before + stride - 1) / stride;
    int64_t end = at / stride + 1;
    return {first, end < windows ? end : windows};
}

/* Sums, per thread, one unit (one or four channels) of a pixel over all windows that hold it, in
 * the order of the windows. */
template <typename unit_t, typename divider_t>
static __global__ void
windows_to_image(const __grid_constant__ image_t<divider_t> image)
{
    typedef typename divider_t::index_t index_t;
    uint64_t unit = unit_index();
    if (unit >= static_cast<uint64_t>(image.units)) {
        return;
    }
    index_t channel = static_cast<index_t>(unit);
    index_t column = divide(image.channels, &channel);
    index_t row = divide(image.columns, &column);
    index_t sample = divide(image.rows, &row);
    int64_t y = static_cast<int64_t>(row) + image.padding;
    int64_t x = static_cast<int64_t>(column) + image.padding;
    span_t rows = windows_at(y, image.kernel[0], image.stride, image.window_rows);
    span_t columns = windows_at(x, image.kernel[1], image.stride, image.window_columns);
    const unit_t *from = static_cast<const unit_t *>(image.from);
    unit_t sum = {};
    for (int64_t i = rows.first; i < rows.end; i++) {
        for (int64_t k = columns.first; k < columns.end; k++) {
            int64_t window =
                (static_cast<int64_t>(sample) * image.window_rows + i) * image.window_columns + k;
            int64_t place = (y - i * image.stride) * image.kernel[1] + x - k * image.stride;
            int64_t at = window * image.kernel[0] * image.kernel[1] + place;
            add_to(&sum, from[at * image.channel_count + channel]);
        }
    }
    static_cast<unit_t *>(image.out)[unit] = sum;
}

/* ---- the host ---- */

struct operands_t {
    const cadre_plan_value_t *image;
    const cadre_plan_value_t *windows;
    const cadre_plan_value_t *out;
    const int64_t *attributes;
    const void *from;
    void *to;
};

/* Returns the kernel's parameters; `width`: channels of a unit. */
template <typename divider_t>
static image_t<divider_t>
image_of(const operands_t &operands, int width)
{
    const int64_t *shape = operands.image->shape;
    const int64_t *attributes = operands.attributes;
    image_t<divider_t> image = {};
    image.units = operands.out->count / width;
    image.height = shape[1];
    image.width = shape[2];
    image.channel_count = shape[3] / width;
    image.window_rows = operands.windows->shape[1];
    image.window_columns = operands.windows->shape[2];
    image.kernel[0] = attributes[CADRE_IMAGE_HEIGHT];
    image.kernel[1] = attributes[CADRE_IMAGE_WIDTH];
    image.stride = attributes[CADRE_IMAGE_STRIDE];
    image.padding = attributes[CADRE_IMAGE_PADDING];
    divider_init(&image.channels, image.channel_count);
    divider_init(&image.kernel_height, image.kernel[0]);
    divider_init(&image.kernel_width, image.kernel[1]);
    divider_init(&image.columns, operands.out->shape[2]);
    divider_init(&image.rows, operands.out->shape[1]);
    image.from = operands.from;
    image.out = operands.to;
    return image;
}

/* Launches the kernel for this unit (a channel or a vector of four), to windows or back. */
template <typename unit_t, typename divider_t>
static int
launch_image(const operands_t &operands, void *stream)
{
    bool to_windows = operands.out == operands.windows;
    auto kernel =
        to_windows ? image_to_windows<unit_t, divider_t> : windows_to_image<unit_t, divider_t>;
    int width = static_cast<int>(sizeof(unit_t) / sizeof(float));
    image_t<divider_t> image = image_of<divider_t>(operands, width);
    return launch(kernel, block_count(static_cast<uint64_t>(image.units)), BLOCK, stream, image);
}

/* Enqueues im2col or col2im: in vectors where channels and alignment allow it, with 32-bit index
 * arithmetic where the output is small enough. */
static int
run_image(const operands_t &operands, void *stream)
{
    if (operands.out->count == 0) {
        return 0;
    }
    bool small = operands.out->count <= INT32_MAX;
    bool vectors = operands.image->shape[3] % VECTOR == 0 && is_vector_aligned(operands.from) &&
                   is_vector_aligned(operands.to);
    if (vectors) {
        return small ? launch_image<vector_t<float>, divider32_t>(operands, stream)
                     : launch_image<vector_t<float>, divider64_t>(operands, stream);
    }
    return small ? launch_image<float, divider32_t>(operands, stream)
                 : launch_image<float, divider64_t>(operands, stream);
}

int
cadre_cuda_im2col(const cadre_cuda_operands_t *operands, void *stream)
{
    operands_t image = {operands->inputs[0],        operands->out,     operands->out,
                        operands->step->attributes, operands->data[0], operands->out_data};
    return run_image(image, stream);
}

int
cadre_cuda_col2im(const cadre_cuda_operands_t *operands, void *stream)
{
    operands_t image = {operands->out,     operands->inputs[0],
                        operands->out,     operands->step->attributes,
                        operands->data[0], operands->out_data};
    return run_image(image, stream);
}
