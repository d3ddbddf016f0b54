/*
 * reader - what the formats have in common: they fill a row store from files, row by row.
 *
 * Owner:   the source that opened it.
 * Thread:  one at a time.
 *
 * A format reads on from where the file is, by one line or row at a time: so the same code reads
 * whole files at once, and a few rows from the middle of one later.
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
#include "common/system/file_pattern.h"
#include "common/tensor/row_chunks.h"
#include "worker/data/bad_lines.h"
#include "worker/data/data_file.h"
#include "worker/data/label.h"
#include "worker/data/row_store.h"

typedef struct cadre_csv cadre_csv_t;
typedef struct cadre_libsvm cadre_libsvm_t;
typedef struct cadre_arrays cadre_arrays_t;
typedef struct cadre_text cadre_text_t;

/* A place between two lines or rows. Those of large files are many, so it has no more than this. */
typedef struct {
    uint64_t offset; /* in the content of the file; 0: at its begin */
    uint64_t number; /* of the line in front; of a text: of the word at the offset, in all files */
    uint64_t center; /* of a text: number of the word whose rows are next; else 0 */
    uint32_t row;    /* and which of them */
    uint32_t next_file; /* how many files were opened */
    bool is_open;       /* the place is in the last of them; else in front of the next */
} cadre_reader_place_t;

typedef struct {
    const cadre_data_spec_t *spec;
    /* Rows of the program's memory; NULL: the rows of files, and `spec` says which. */
    const cadre_row_chunks_t *rows;
    cadre_file_names_t files;        /* the names, with the base folder in front; owned */
    cadre_file_names_t labels_files; /* as many; none where labels are in the same file; owned */
    const char *root;                /* folder that all files must be below; NULL: anywhere */
    uint64_t size_bytes_max;         /* limit of the parsed rows; a text's words are taken off */
    uint64_t content_bytes_max;      /* limit of one file, uncompressed */
    cadre_restart_points_t *points;  /* of the files; NULL: they are read once, and not on */
    bool is_indexed;                 /* all files were read once: the points are there */
    cadre_label_rule_t label;
    cadre_bad_lines_t *bad;
    cadre_row_store_t *store; /* made and filled by the format's reader, finished by the source */
    int64_t features;
    char doubtful_header[CADRE_BAD_LINES_TOKEN_SIZE]; /* as in cadre_source_info_t */
    int row_rank;
    int64_t row_shape[CADRE_RANK_MAX];

    size_t next_file;        /* how many files were opened */
    cadre_data_file_t *file; /* the last of them; NULL: none, or it was read to its end */
    uint64_t from; /* where in the file, that begins to be read, this reading begins; 0: in front */
    /* What a format remembers of the files; NULL until the first is opened, and for others. */
    cadre_csv_t *csv;
    cadre_libsvm_t *libsvm;
    cadre_arrays_t *arrays;
    cadre_text_t *text;
} cadre_reader_t;

/* Declares what each format has. cadre_csv_begin and so on: the file was opened, and is at its
 * first byte; it is read from `from` on. cadre_csv_next reads on by one line or row, which adds a
 * row to the store or none (a header, a blank line, a bad one); returns 1, 0 at the end of the
 * file. cadre_csv_end frees what the format remembers. */
#define ROW(NAME, word, has)                                                                       \
    int cadre_##word##_begin(cadre_reader_t *self);                                                \
    int cadre_##word##_next(cadre_reader_t *self);                                                 \
    void cadre_##word##_end(cadre_reader_t *self);
CADRE_DATA_FORMAT_LIST(ROW)
#undef ROW

/* Fills in what a text has of a place, and goes there within the file. */
void cadre_text_tell(const cadre_reader_t *self, cadre_reader_place_t *place);
void cadre_text_go_to(cadre_reader_t *self, const cadre_reader_place_t *place);

/* Reads on by one line or row, into the next file at the end of one. Returns 1, 0 at the end of
 * the last file. */
int cadre_reader_next(cadre_reader_t *self);

/* Returns the place of what cadre_reader_next reads next. */
cadre_reader_place_t cadre_reader_place(const cadre_reader_t *self);

/* Goes to a place in the files, which were all read once. Fails as cadre_reader_next when the file
 * is not there any more, or does not begin as it did. */
int cadre_reader_go_to(cadre_reader_t *self, const cadre_reader_place_t *place);

/* Reads all files, or the rows of the program's memory, into the reader's row store. */
int cadre_reader_read_all(cadre_reader_t *self);

/* Closes what is open and frees what the formats remember and the names of the files, not the
 * store; harmless on a zeroed one. */
void cadre_reader_fini(cadre_reader_t *self);

/* Returns the name of the file that is being read. */
const char *cadre_reader_path(const cadre_reader_t *self);

/* Returns the name of the file of labels beside it. */
const char *cadre_reader_labels_path(const cadre_reader_t *self);

/* Fails with `status` and the names of the files in front of this thread's error text. */
int cadre_reader_fail_whole(const cadre_reader_t *self, int status);

/* Makes the store, for rows of `features` numbers; a later call finds it made and does nothing. */
void cadre_reader_make_store(cadre_reader_t *self, cadre_row_kind_t kind, int64_t features);

/* Reads the rows of the program's memory into the reader's row store. */
int cadre_memory_read(cadre_reader_t *self);

/* Scales a number of the file and converts it to f32; false when the result is not finite. */
bool cadre_reader_scale(const cadre_reader_t *self, double number, float *out);

#endif
