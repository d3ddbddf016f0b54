/*
 * array_file - files that hold one array each, rows of numbers or their labels: IDX and .npy.
 *
 * Such a file has a header with element type and shape, then the elements, axis 0 outermost. Axis 0
 * counts the rows. Sizes must agree to the byte. The formats differ in the header alone.
 *
 * Owner:   the reader of a format, for as long as it runs.
 * Thread:  one.
 */
#ifndef CADRE_WORKER_DATA_ARRAY_FILE_H
#define CADRE_WORKER_DATA_ARRAY_FILE_H

#include <stdbool.h>

#include "worker/data/reader.h"

/* The types of elements: name, bytes. */
#define CADRE_ELEMENT_LIST(X)                                                                      \
    X(U8, 1)                                                                                       \
    X(I8, 1)                                                                                       \
    X(U16, 2)                                                                                      \
    X(I16, 2)                                                                                      \
    X(U32, 4)                                                                                      \
    X(I32, 4)                                                                                      \
    X(U64, 8)                                                                                      \
    X(I64, 8)                                                                                      \
    X(F32, 4)                                                                                      \
    X(F64, 8)

typedef enum {
#define ROW(NAME, size) CADRE_ELEMENT_##NAME,
    CADRE_ELEMENT_LIST(ROW)
#undef ROW
} cadre_element_t;

typedef struct {
    cadre_data_file_t *file;
    /* What the header says. */
    cadre_element_t type;
    bool is_big_endian;
    int rank; /* 1 to CADRE_RANK_MAX */
    int64_t shape[CADRE_RANK_MAX];
    uint64_t rank_at;                  /* where in the file it says so, for messages */
    uint64_t shape_at[CADRE_RANK_MAX]; /* the same of each dimension */

    int64_t row_elements;
    uint64_t offset; /* offset in the file of the row being read */
    uint8_t *row;    /* [row_elements]: the row being read */
} cadre_array_file_t;

/* Reads the header of an open file, and leaves the file at the first element. */
typedef int (*cadre_array_header_t)(cadre_array_file_t *self);

size_t cadre_element_size(cadre_element_t type);

/* Reads exactly `size_bytes` bytes; fails with CADRE_EDATA when the file ends before. */
int cadre_array_file_read(cadre_array_file_t *self, void *bytes, size_t size_bytes);

/* Fails with CADRE_EDATA and a text that names the byte: `file:offset: reason`. */
#define cadre_array_file_refuse(self, offset, ...)                                                 \
    (cadre_fail(CADRE_EDATA, __VA_ARGS__),                                                         \
     cadre_fail_within(CADRE_EDATA, "%s:%" PRIu64, cadre_data_file_path((self)->file),             \
                       (uint64_t)(offset)))

/* What IDX and .npy have as formats (worker/data/reader.h), but for the header. Bytes are kept as
 * bytes, to take less memory; elements of other types become f32. All files have rows of one type
 * and shape. */
int cadre_array_files_begin(cadre_reader_t *self, cadre_array_header_t read_header);
int cadre_array_files_next(cadre_reader_t *self);
void cadre_array_files_end(cadre_reader_t *self);

/* Goes on to the label of the row at `offset` of the reader's file, which is behind the rows that
 * were read; the reader goes to the row itself. Fails as cadre_data_file_read, and with CADRE_EDATA
 * when there are fewer rows. */
int cadre_array_files_skip_to(cadre_reader_t *self, uint64_t offset);

#endif
