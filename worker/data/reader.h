/*
 * reader - what the formats have in common: they fill a row store from files.
 *
 * Owner:   cadre_source_open, for as long as it runs.
 * Thread:  one.
 *
 * A line that is bad by itself fails with CADRE_EDATA and the bare reason as text;
 * cadre_bad_lines_add puts file and line in front and decides whether reading continues. Other
 * failures name their file themselves.
 */
#ifndef CADRE_WORKER_DATA_READER_H
#define CADRE_WORKER_DATA_READER_H

#include <stdbool.h>
#include <stdint.h>

#include <cadre/tensor.h>

#include "common/spec/data_spec.h"
#include "common/tensor/row_chunks.h"
#include "worker/data/bad_lines.h"
#include "worker/data/data_file.h"
#include "worker/data/label.h"
#include "worker/data/row_store.h"

typedef struct {
    const cadre_data_spec_t *spec;
    /* Rows of the program's memory; NULL: the rows of a file, and `spec` says which. */
    const cadre_row_chunks_t *rows;
    const char *path;        /* of the file; with the base folder in front */
    const char *labels_path; /* of the file of labels; NULL where labels are in the same file */
    const char *root;        /* folder that both files must be below; NULL: they may be anywhere */
    uint64_t size_bytes_max; /* limit of the parsed rows */
    uint64_t content_bytes_max; /* limit of one file, uncompressed */
    cadre_label_rule_t label;
    cadre_bad_lines_t *bad;
    cadre_row_store_t *store; /* made and filled by the format's reader, finished by the source */
    int64_t features;
    char doubtful_header[CADRE_BAD_LINES_TOKEN_SIZE]; /* as in cadre_source_info_t */
    int row_rank;
    int64_t row_shape[CADRE_RANK_MAX];
} cadre_reader_t;

/* Declares cadre_csv_read and so on, a function for each format, which reads the whole file. */
#define ROW(NAME, word, has) int cadre_##word##_read(cadre_reader_t *self);
CADRE_DATA_FORMAT_LIST(ROW)
#undef ROW

/* Reads the rows of the program's memory into the reader's row store. */
int cadre_memory_read(cadre_reader_t *self);

/* Scales a number of the file and converts it to f32; false when the result is not finite. */
bool cadre_reader_scale(const cadre_reader_t *self, double number, float *out);

#endif
