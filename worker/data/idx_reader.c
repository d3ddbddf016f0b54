/*
 * IDX (LeCun, the MNIST page): bytes 0 0 type rank, `rank` big-endian u32 dimensions, big-endian
 * elements. Axis 0 counts the rows; the labels are a file of rank 1. Sizes must agree to the byte.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "worker/data/reader.h"

typedef struct {
    cadre_data_file_t *file;
    uint8_t type;
    size_t element_size;
    int rank;
    int64_t shape[CADRE_RANK_MAX];
    int64_t row_elements;
    uint64_t offset; /* offset in the file of the row being read */
    uint8_t *row;    /* [row_elements]: the row being read */
} idx_t;

enum { U8 = 8, I8 = 9, I16 = 11, I32 = 12, F32 = 13, F64 = 14 };

/* Returns the bytes of an element of a type of the IDX format; 0 for an unknown type. */
static size_t
element_size(uint8_t type)
{
    static const size_t sizes[] = {[U8] = 1, [I8] = 1, [I16] = 2, [I32] = 4, [F32] = 4, [F64] = 8};
    return type < CADRE_COUNT_OF(sizes) ? sizes[type] : 0;
}

static uint64_t
big_endian(const uint8_t *bytes, size_t count)
{
    uint64_t value = 0;
    for (size_t i = 0; i < count; i++) {
        value = value << 8 | bytes[i];
    }
    return value;
}

/* Returns element `index` of the current row as a number. */
static double
element(const idx_t *self, int64_t index)
{
    uint64_t bits = big_endian(self->row + (size_t)index * self->element_size, self->element_size);
    uint32_t low = (uint32_t)bits;
    float single = 0;
    double number = 0;

    switch (self->type) {
    case I8:
        return (int8_t)bits;
    case I16:
        return (int16_t)bits;
    case I32:
        return (int32_t)low;
    case F32:
        memcpy(&single, &low, sizeof(single));
        return (double)single;
    case F64:
        memcpy(&number, &bits, sizeof(number));
        return number;
    default:
        return (double)bits;
    }
}

/* Fails with a text that names the byte: `file:offset: reason`. */
#define refuse_at(self, offset, ...)                                                               \
    (cadre_fail(CADRE_EDATA, __VA_ARGS__),                                                         \
     cadre_fail_within(CADRE_EDATA, "%s:%" PRIu64, cadre_data_file_path((self)->file),             \
                       (uint64_t)(offset)))

/* Reads exactly `size_bytes` bytes; fails when the file ends before. */
static int
read_exactly(idx_t *self, void *bytes, size_t size_bytes)
{
    size_t got = 0;
    int status = cadre_data_file_read(self->file, bytes, size_bytes, &got);
    if (status < 0) {
        return status;
    }
    if (got < size_bytes) {
        return refuse_at(self, cadre_data_file_offset(self->file), "the file ends too early");
    }
    return 0;
}

/* Reads the dimensions, of which the first counts the rows, and works out how many elements a row
 * has. */
static int
read_shape(idx_t *self)
{
    uint8_t bytes[4 * CADRE_RANK_MAX];
    int status = read_exactly(self, bytes, (size_t)self->rank * 4);
    if (status < 0) {
        return status;
    }

    self->row_elements = 1;
    for (int i = 0; i < self->rank; i++) {
        self->shape[i] = (int64_t)big_endian(bytes + (size_t)i * 4, 4);
        if (self->shape[i] == 0) {
            return refuse_at(self, 4 + 4 * i, "dimension %d is 0", i);
        }
        if (i > 0) {
            self->row_elements *= self->shape[i];
        }
        if (self->row_elements > CADRE_DATA_FEATURES_MAX) {
            return refuse_at(self, 4 + 4 * i, "more than %d elements in a row",
                             CADRE_DATA_FEATURES_MAX);
        }
    }

    return 0;
}

/* Reads the header of an IDX file: two zeros, type of the elements, number of dimensions,
 * dimensions. */
static int
read_header(idx_t *self)
{
    uint8_t magic[4];
    int status = read_exactly(self, magic, sizeof(magic));
    if (status < 0) {
        return status;
    }

    if (magic[0] != 0 || magic[1] != 0) {
        return refuse_at(self, 0, "not an IDX file: it begins with %02x %02x, not with 00 00",
                         magic[0], magic[1]);
    }

    self->type = magic[2];
    self->element_size = element_size(self->type);
    if (self->element_size == 0) {
        return refuse_at(self, 2, "unknown element type 0x%02x", self->type);
    }

    self->rank = magic[3];
    if (self->rank < 1 || self->rank > CADRE_RANK_MAX) {
        return refuse_at(self, 3, "%d dimensions, allowed are 1 to %d", self->rank, CADRE_RANK_MAX);
    }

    return read_shape(self);
}

/* Fails when the header promises more content than a file of this size can hold: before memory is
 * allocated for it. */
static int
check_promise(idx_t *self)
{
    uint64_t promised = cadre_data_file_offset(self->file) + (uint64_t)self->shape[0] *
                                                                 (uint64_t)self->row_elements *
                                                                 self->element_size;
    uint64_t content_max = cadre_data_file_content_max(self->file);
    if (promised > content_max) {
        return refuse_at(self, content_max,
                         "the file ends too early: the header promises %" PRIu64 " bytes",
                         promised);
    }

    return 0;
}

/* Opens an IDX file and reads its header; on failure the caller still calls idx_close. */
static int
idx_open(idx_t *self, const cadre_reader_t *reader, const char *path)
{
    int status = cadre_data_file_open(path, reader->root, reader->content_bytes_max, &self->file);
    if (status < 0) {
        return status;
    }
    status = read_header(self);
    if (status < 0) {
        return status;
    }
    return check_promise(self);
}

static void
idx_close(idx_t *self)
{
    free(self->row);
    cadre_data_file_close(&self->file);
}

/* Reads the next row of the file into self->row. */
static int
next_row(idx_t *self)
{
    size_t size_bytes = (size_t)self->row_elements * self->element_size;
    if (!self->row) {
        self->row = cadre_calloc(size_bytes, 1);
    }
    self->offset = cadre_data_file_offset(self->file);
    return read_exactly(self, self->row, size_bytes);
}

/* Fails when bytes follow the last row. */
static int
check_ended(idx_t *self)
{
    char byte = 0;
    size_t got = 0;
    uint64_t offset = cadre_data_file_offset(self->file);
    int status = cadre_data_file_read(self->file, &byte, 1, &got);
    if (status < 0) {
        return status;
    }
    if (got > 0) {
        return refuse_at(self, offset, "more bytes than the header promises");
    }

    return 0;
}

/* Adds the current row of `images` with the current label to the store: converted into `x`, or as
 * the bytes that it is if `x` is NULL. */
static int
add_row(cadre_reader_t *self, idx_t *images, idx_t *labels, float *x)
{
    cadre_label_t label;
    int status = cadre_label_rule_read(&self->label, element(labels, 0), &label);
    if (status < 0) {
        return cadre_fail_within(status, "%s:%" PRIu64, self->labels_path, labels->offset);
    }

    for (int64_t i = 0; x && i < images->row_elements; i++) {
        double number = element(images, i);
        if (!cadre_reader_scale(self, number, x + i)) {
            return refuse_at(images, images->offset + (uint64_t)i * images->element_size,
                             "%g is not a finite f32", number);
        }
    }

    return cadre_row_store_add(self->store, x ? (const void *)x : images->row, label);
}

/* Reads the next image and its label. */
static int
read_row(cadre_reader_t *self, idx_t *images, idx_t *labels, float *x)
{
    int status = next_row(images);
    if (status < 0) {
        return status;
    }
    status = next_row(labels);
    if (status < 0) {
        return status;
    }
    return add_row(self, images, labels, x);
}

/* Reads all rows into a new store: bytes are kept as bytes, to take less memory; any other type
 * becomes f32. */
static int
read_rows(cadre_reader_t *self, idx_t *images, idx_t *labels)
{
    bool bytes = images->type == U8;
    self->store = cadre_row_store_new(bytes ? CADRE_ROWS_U8 : CADRE_ROWS_F32, self->spec,
                                      self->features, self->size_bytes_max);
    int status = cadre_row_store_check_size(self->store, images->shape[0]);
    if (status < 0) {
        return cadre_fail_within(status, "%s", self->path);
    }

    cadre_auto(cadre_free) float *x =
        bytes ? NULL : cadre_calloc((size_t)self->features, sizeof(*x));
    for (int64_t i = 0; i < images->shape[0]; i++) {
        status = read_row(self, images, labels, x);
        if (status < 0) {
            return status;
        }
    }

    status = check_ended(images);
    if (status < 0) {
        return status;
    }

    return check_ended(labels);
}

/* Opens the files of images and labels, which must have equally many rows, and reads the rows. */
static int
read_both(cadre_reader_t *self, idx_t *images, idx_t *labels)
{
    int status = idx_open(images, self, self->path);
    if (status < 0) {
        return status;
    }

    status = idx_open(labels, self, self->labels_path);
    if (status < 0) {
        return status;
    }
    if (labels->rank != 1) {
        return refuse_at(labels, 3, "%d dimensions, but labels have one", labels->rank);
    }

    if (labels->shape[0] != images->shape[0]) {
        return refuse_at(labels, 4, "%" PRId64 " labels for %" PRId64 " rows of %s",
                         labels->shape[0], images->shape[0], self->path);
    }

    self->features = images->row_elements;
    self->row_rank = images->rank - 1;
    memcpy(self->row_shape, images->shape + 1, (size_t)self->row_rank * sizeof(int64_t));
    return read_rows(self, images, labels);
}

/* Reads a file of images and a file of labels into the reader's row store. */
int
cadre_idx_read(cadre_reader_t *self)
{
    idx_t images = {0};
    idx_t labels = {0};
    int status = read_both(self, &images, &labels);
    idx_close(&images);
    idx_close(&labels);
    return status;
}
