#include "worker/data/array_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

static const size_t sizes[] = {
#define ROW(NAME, size) [CADRE_ELEMENT_##NAME] = (size),
    CADRE_ELEMENT_LIST(ROW)
#undef ROW
};

size_t
cadre_element_size(cadre_element_t type)
{
    return sizes[type];
}

/* Returns the bits of an element, whose bytes come in the order of the file. */
static uint64_t
bits_of(const cadre_array_file_t *self, const uint8_t *bytes)
{
    const size_t size = cadre_element_size(self->type);
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        value = value << 8 | bytes[self->is_big_endian ? i : size - 1 - i];
    }
    return value;
}

/* Returns element `index` of the current row as a number. */
static double
element(const cadre_array_file_t *self, int64_t index)
{
    uint64_t bits = bits_of(self, self->row + (size_t)index * cadre_element_size(self->type));
    uint32_t low = (uint32_t)bits;
    float single = 0;
    double number = 0;

    switch (self->type) {
    case CADRE_ELEMENT_I8:
        return (int8_t)bits;
    case CADRE_ELEMENT_I16:
        return (int16_t)bits;
    case CADRE_ELEMENT_I32:
        return (int32_t)low;
    case CADRE_ELEMENT_I64:
        return (double)(int64_t)bits;
    case CADRE_ELEMENT_F32:
        memcpy(&single, &low, sizeof(single));
        return (double)single;
    case CADRE_ELEMENT_F64:
        memcpy(&number, &bits, sizeof(number));
        return number;
    case CADRE_ELEMENT_U8:
    case CADRE_ELEMENT_U16:
    case CADRE_ELEMENT_U32:
    case CADRE_ELEMENT_U64:
        break;
    }
    return (double)bits;
}

/* Reads exactly `size_bytes` bytes; fails when the file ends before. */
int
cadre_array_file_read(cadre_array_file_t *self, void *bytes, size_t size_bytes)
{
    size_t got = 0;
    int status = cadre_data_file_read(self->file, bytes, size_bytes, &got);
    if (status < 0) {
        return status;
    }
    if (got < size_bytes) {
        return cadre_array_file_refuse(self, cadre_data_file_offset(self->file),
                                       "the file ends too early");
    }
    return 0;
}

/* Checks the shape that the header gives, and works out how many elements a row has. */
static int
measure(cadre_array_file_t *self)
{
    self->row_elements = 1;
    for (int i = 0; i < self->rank; i++) {
        if (self->shape[i] == 0) {
            return cadre_array_file_refuse(self, self->shape_at[i], "dimension %d is 0", i);
        }
        if (i > 0 && (self->shape[i] > CADRE_DATA_FEATURES_MAX ||
                      self->row_elements * self->shape[i] > CADRE_DATA_FEATURES_MAX)) {
            return cadre_array_file_refuse(
                self, self->shape_at[i], "more than %d elements in a row", CADRE_DATA_FEATURES_MAX);
        }
        self->row_elements *= i > 0 ? self->shape[i] : 1;
    }
    return 0;
}

/* Fails when the header promises more content than a file of this size can hold: before memory is
 * allocated for it. */
static int
check_promise(cadre_array_file_t *self)
{
    const uint64_t row_size = (uint64_t)self->row_elements * cadre_element_size(self->type);
    const uint64_t content_max = cadre_data_file_content_max(self->file);
    uint64_t promised = 0;
    if (__builtin_mul_overflow((uint64_t)self->shape[0], row_size, &promised) ||
        __builtin_add_overflow(promised, cadre_data_file_offset(self->file), &promised)) {
        promised = UINT64_MAX;
    }
    if (promised > content_max) {
        return cadre_array_file_refuse(
            self, content_max, "the file ends too early: the header promises %" PRIu64 " bytes",
            promised);
    }

    return 0;
}

struct cadre_arrays {
    cadre_array_file_t xs; /* its file is the reader's */
    cadre_array_file_t labels;
    int64_t row; /* of the file: the next one to be read */
    /* Of the first file, which all must be like. */
    bool is_known;
    cadre_element_t type;
    int rank;
    int64_t shape[CADRE_RANK_MAX];
    float *x; /* [features]: the row being read; NULL where bytes are kept as bytes */
};

/* Reads the header of an open file. */
static int
array_begin(cadre_array_file_t *self, cadre_data_file_t *file, cadre_array_header_t read_header)
{
    *self = (cadre_array_file_t){.file = file};
    int status = read_header(self);
    if (status < 0) {
        return status;
    }
    status = measure(self);
    if (status < 0) {
        return status;
    }
    return check_promise(self);
}

/* Closes the file of labels; that of rows is the reader's. */
static void
close_both(cadre_arrays_t *self)
{
    cadre_free(&self->xs.row);
    cadre_free(&self->labels.row);
    cadre_data_file_close(&self->labels.file);
}

/* Reads the next row of the file into self->row. */
static int
next_row(cadre_array_file_t *self)
{
    size_t size_bytes = (size_t)self->row_elements * cadre_element_size(self->type);
    if (!self->row) {
        self->row = cadre_calloc(size_bytes, 1);
    }
    self->offset = cadre_data_file_offset(self->file);
    return cadre_array_file_read(self, self->row, size_bytes);
}

/* Fails when bytes follow the last row. */
static int
check_ended(cadre_array_file_t *self)
{
    char byte = 0;
    size_t got = 0;
    uint64_t offset = cadre_data_file_offset(self->file);
    int status = cadre_data_file_read(self->file, &byte, 1, &got);
    if (status < 0) {
        return status;
    }
    if (got > 0) {
        return cadre_array_file_refuse(self, offset, "more bytes than the header promises");
    }

    return 0;
}

/* Adds the current row with the current label to the store: converted into `arrays->x`, or as the
 * bytes that it is. */
static int
add_row(cadre_reader_t *self, const cadre_arrays_t *arrays)
{
    const cadre_array_file_t *xs = &arrays->xs;
    const cadre_array_file_t *labels = &arrays->labels;
    float *x = arrays->x;
    cadre_label_t label;
    int status = cadre_label_rule_read(&self->label, element(labels, 0), &label);
    if (status < 0) {
        return cadre_fail_within(status, "%s:%" PRIu64, cadre_reader_labels_path(self),
                                 labels->offset);
    }

    for (int64_t i = 0; x && i < xs->row_elements; i++) {
        double number = element(xs, i);
        if (!cadre_reader_scale(self, number, x + i)) {
            return cadre_array_file_refuse(xs,
                                           xs->offset + (uint64_t)i * cadre_element_size(xs->type),
                                           "%g is not a finite f32", number);
        }
    }

    return cadre_row_store_add(self->store, x ? (const void *)x : xs->row, label);
}

/* Learns of the first file what its rows are like, and makes the store for them: bytes are kept as
 * bytes, to take less memory; any other type becomes f32. */
static void
learn(cadre_reader_t *self, cadre_arrays_t *arrays)
{
    const cadre_array_file_t *xs = &arrays->xs;
    const bool bytes = xs->type == CADRE_ELEMENT_U8;
    arrays->is_known = true;
    arrays->type = xs->type;
    arrays->rank = xs->rank;
    memcpy(arrays->shape, xs->shape, sizeof(arrays->shape));
    arrays->x = bytes ? NULL : cadre_calloc((size_t)xs->row_elements, sizeof(*arrays->x));
    self->features = xs->row_elements;
    self->row_rank = xs->rank - 1;
    memcpy(self->row_shape, xs->shape + 1, (size_t)self->row_rank * sizeof(int64_t));
    cadre_reader_make_store(self, bytes ? CADRE_ROWS_U8 : CADRE_ROWS_F32, self->features);
}

/* Fails when the rows of a further file are of another type or shape than those of the first. */
static int
check_like_first(const cadre_reader_t *self, cadre_arrays_t *arrays)
{
    cadre_array_file_t *xs = &arrays->xs;
    bool like = xs->type == arrays->type && xs->rank == arrays->rank;
    for (int i = 1; like && i < xs->rank; i++) {
        like = xs->shape[i] == arrays->shape[i];
    }
    return like ? 0
                : cadre_array_file_refuse(xs, xs->rank_at, "rows of another type or shape than %s",
                                          self->files.items[0]);
}

/* Fails when the labels are not one for each row. */
static int
check_labels(const cadre_reader_t *self, cadre_arrays_t *arrays)
{
    cadre_array_file_t *labels = &arrays->labels;
    if (labels->row_elements != 1) {
        return cadre_array_file_refuse(labels, labels->rank_at,
                                       "%d dimensions, but labels have one", labels->rank);
    }

    if (labels->shape[0] != arrays->xs.shape[0]) {
        return cadre_array_file_refuse(
            labels, labels->shape_at[0], "%" PRId64 " labels for %" PRId64 " rows of %s",
            labels->shape[0], arrays->xs.shape[0], cadre_reader_path(self));
    }
    return 0;
}

/* Fails when the store cannot hold the rows that the file has. */
static int
check_size(const cadre_reader_t *self, const cadre_arrays_t *arrays)
{
    if (self->points) {
        return 0; /* the store has a block of them at a time */
    }
    int status = cadre_row_store_check_size(self->store, arrays->xs.shape[0]);
    return status < 0 ? cadre_fail_within(status, "%s", cadre_reader_path(self)) : 0;
}

/* Reads the headers of the reader's file and of its labels' file, which it opens. */
static int
begin_both(cadre_reader_t *self, cadre_arrays_t *arrays, cadre_array_header_t read_header)
{
    int status = array_begin(&arrays->xs, self->file, read_header);
    if (status < 0) {
        return status;
    }

    cadre_data_file_t *file = NULL;
    status = cadre_data_file_open(cadre_reader_labels_path(self), self->root,
                                  self->content_bytes_max, &file);
    if (status < 0) {
        return status;
    }
    status = array_begin(&arrays->labels, file, read_header);
    if (status < 0) {
        return status;
    }
    return check_labels(self, arrays);
}

int
cadre_array_files_skip_to(cadre_reader_t *self, uint64_t offset)
{
    cadre_arrays_t *arrays = self->arrays;
    const cadre_array_file_t *xs = &arrays->xs;
    cadre_data_file_t *labels = arrays->labels.file;
    const uint64_t row_size = (uint64_t)xs->row_elements * cadre_element_size(xs->type);
    const uint64_t here = cadre_data_file_offset(xs->file);
    if (offset <= here) {
        return 0;
    }
    const uint64_t rows = (offset - here) / row_size;
    if (rows > (uint64_t)(xs->shape[0] - arrays->row)) {
        return cadre_array_file_refuse(xs, xs->shape_at[0], "fewer rows than before");
    }
    arrays->row += (int64_t)rows;
    return cadre_data_file_seek(
        labels, NULL, 0,
        cadre_data_file_offset(labels) + rows * cadre_element_size(arrays->labels.type), 0);
}

int
cadre_array_files_begin(cadre_reader_t *self, cadre_array_header_t read_header)
{
    if (!self->arrays) {
        self->arrays = cadre_calloc(1, sizeof(*self->arrays));
    }
    cadre_arrays_t *arrays = self->arrays;
    close_both(arrays);
    arrays->row = 0;
    int status = begin_both(self, arrays, read_header);
    if (status < 0) {
        return status;
    }

    if (!arrays->is_known) {
        learn(self, arrays);
    }
    status = check_like_first(self, arrays);
    if (status < 0) {
        return status;
    }
    status = check_size(self, arrays);
    return status < 0 ? status : cadre_array_files_skip_to(self, self->from);
}

int
cadre_array_files_next(cadre_reader_t *self)
{
    cadre_arrays_t *arrays = self->arrays;
    if (arrays->row == arrays->xs.shape[0]) {
        int status = check_ended(&arrays->xs);
        return status < 0 ? status : check_ended(&arrays->labels);
    }

    int status = next_row(&arrays->xs);
    if (status < 0) {
        return status;
    }
    status = next_row(&arrays->labels);
    if (status < 0) {
        return status;
    }
    arrays->row++;
    status = add_row(self, arrays);
    return status < 0 ? status : 1;
}

void
cadre_array_files_end(cadre_reader_t *self)
{
    if (self->arrays) {
        close_both(self->arrays);
        free(self->arrays->x);
        cadre_free(&self->arrays);
    }
}
