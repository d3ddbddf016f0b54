/*
 * source - the rows of one file or of several, read at random.
 *
 * Owner:   the caller of cadre_source_open.
 * Thread:  immutable once open, unless it is streamed: any number of threads may read it at the
 *          same time; whoever closes it makes sure that they are done. A streamed one is read by
 *          one thread at a time.
 *
 * Open reads all files and keeps their rows in memory as compact arrays: dense f32 (CSV), dense
 * u8 or f32 (IDX), compressed sparse rows (LIBSVM); or, with "streaming", an index of them alone
 * (stream.h). Both have the same rows, parts and hash. Feature and class counts and the validity of
 * lines are taken from the whole file, also when the description asks for a part, so that the
 * training part and the held-out part of a file agree.
 */
#ifndef CADRE_WORKER_DATA_SOURCE_H
#define CADRE_WORKER_DATA_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include <cadre/tensor.h>

#include "common/spec/data_spec.h"
#include "common/tensor/row_chunks.h"
#include "worker/data/bad_lines.h"

enum {
    CADRE_SOURCE_MEMORY_SHARE = 4,  /* the parsed rows of a dataset may hold a fourth of
                                       cadre_memory_size(): open fails beyond it */
    CADRE_SOURCE_FILES_MAX = 65536, /* files of a dataset; more are refused */
};

typedef struct cadre_source cadre_source_t;

typedef struct {
    const char *base; /* folder for relative paths; NULL: the current one */
    bool confined;    /* no file that is not below the base is opened */
    /* Largest size of the parsed rows that are in memory, and of a file's uncompressed content, in
     * bytes; 0: the memory of the process divided by CADRE_SOURCE_MEMORY_SHARE. Streamed rows may
     * take what the description says, and no more than this; their files any size. */
    uint64_t size_bytes_max;
    /* Set when it fails because of a bad line, one more than may be skipped; may be NULL. */
    bool *is_bad_line;
} cadre_source_options_t;

typedef struct {
    int64_t rows;      /* rows that can be read: those of the asked part */
    int64_t file_rows; /* good rows of the whole file */
    int64_t features;  /* numbers in one row of x */
    /* For labels of kind "class": as described, else the largest label + 1; "binary": 2; "value": 0
     */
    int64_t classes;
    int64_t skipped;       /* bad lines that were skipped */
    uint64_t size_bytes;   /* memory held by the rows; streamed: by the index, and rows at most */
    bool is_streamed;      /* the rows are read from the files again and again */
    uint64_t hash;         /* hash of all rows that the part is taken from */
    cadre_dtype_t y_dtype; /* CADRE_I32 for "class", else CADRE_F32 */
    char doubtful_header[CADRE_BAD_LINES_TOKEN_SIZE]; /* the beginning of a first row that "auto"
                                                         took for names although it has numbers too;
                                                         "": none */
    /* Streamed: the file whose largest frame of zstd has so many bytes of content that its blocks
     * are slow to read; NULL: there is none. The source owns it. */
    const char *large_frame_path;
    uint64_t large_frame_bytes;
    /* row_rank and row_shape: the shape of a row before flattening: [28,28] for MNIST, else
     * [features] */
    int row_rank;
    int64_t row_shape[CADRE_RANK_MAX];
} cadre_source_info_t;

/* Reads the files that `spec` describes, one behind the other; `options` may be NULL. Fails with
 * CADRE_ENOTFOUND when a file is missing or cannot be opened, CADRE_EREFUSED when it is outside the
 * allowed folder, CADRE_EDATA with the text `file:line: reason` when its content is bad (for IDX
 * the byte's offset instead of the line), CADRE_ETOOLARGE beyond a limit. */
int cadre_source_open(const cadre_data_spec_t *spec, const cadre_source_options_t *options,
                      cadre_source_t **out);

/* Copies rows of the program's memory, which come from the wire. `size_bytes_max` as in the
 * options. CADRE_EDATA with the text `memory:row: reason`, rows counted from 0, for what is no
 * number or no label; CADRE_ETOOLARGE beyond the limit. */
int cadre_source_open_rows(const cadre_row_chunks_t *rows, uint64_t size_bytes_max,
                           cadre_source_t **out);

/* Frees the rows and nulls the pointer; NULL inside is fine. */
void cadre_source_close(cadre_source_t **self_p);

const cadre_source_info_t *cadre_source_info(const cadre_source_t *self);

/* Returns the text `file:line: reason` of skipped line number `index`; NULL beyond the first
 * CADRE_BAD_LINES_REPORTS_MAX. */
const char *cadre_source_skipped(const cadre_source_t *self, int index);

/* Copies `count` rows, numbered from 0 within the asked part, in the order given: `x` gets
 * [count, features], `y` [count] of y_dtype. CADRE_EINVALID, with nothing written, when a number is
 * out of range. Of a streamed source fails with CADRE_EDATA when its files are not what they were
 * when it was opened, CADRE_ENOTFOUND when one is gone. */
int cadre_source_read(cadre_source_t *self, const int64_t *rows, int64_t count, float *x, void *y);

/* Chooses the shuffled epoch (window_order.h) of a streamed source that the next two functions read
 * of. */
void cadre_source_choose(cadre_source_t *self, uint64_t seed, uint64_t epoch);

/* Copies the rows at positions [first, first + count) of the chosen epoch, which must have them, as
 * cadre_source_read does. */
int cadre_source_read_shuffled(cadre_source_t *self, int64_t first, int64_t count, float *x,
                               void *y);

/* Reads a block of a streamed source that the next batches of the same range will want, behind the
 * batch of `count` rows at `first`, if there is memory for it: with `is_shuffled` of the chosen
 * epoch. Returns 1; 0 when there is nothing to do; fails as cadre_source_read. */
int cadre_source_read_ahead(cadre_source_t *self, bool is_shuffled, int64_t first, int64_t count);

/* Returns how many blocks of a streamed source were read since it was opened. */
uint64_t cadre_source_blocks_read(const cadre_source_t *self);

#endif
