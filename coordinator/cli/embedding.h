/*
 * embedding - the rows of a variable, or table, in a checkpoint as vectors, each with a word.
 *
 * A row has a key: of a variable its number, from 0, of a table that by which it is found, and only
 * rows that exist are there.
 *
 * Owner:   the caller; ended with cadre_embedding_fini.
 * Thread:  any one.
 */
#ifndef CADRE_COORDINATOR_CLI_EMBEDDING_H
#define CADRE_COORDINATOR_CLI_EMBEDDING_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cadre/tensor.h>

#include "common/checkpoint/checkpoint_reader.h"

enum {
    CADRE_EMBEDDING_WORD_SIZE_MAX = 1024, /* bytes of a word; a longer one is refused */
    CADRE_EMBEDDING_NEAREST_MAX = 1000,   /* rows that are the nearest ones of one */
    CADRE_EMBEDDING_WORDS_MAX = 1 << 24,  /* lines of a list of words: ids of a job */
};

/* A row of a table. */
typedef struct {
    uint64_t key;
    int64_t place; /* of its vector among the values */
} cadre_embedding_key_t;

typedef struct {
    cadre_tensor_t values; /* f32 [rows or more, width] */
    int64_t rows;          /* those with a word; without words all */
    int64_t width;
    cadre_embedding_key_t *keys; /* of a table: [rows or more], ascending; NULL: row i has key i */
    char **words;                /* [word_count], by key; NULL: a row's word is its key */
    int64_t word_count;
} cadre_embedding_t;

typedef struct {
    int64_t row;
    double cosine; /* 0 where a vector is all zeros */
} cadre_neighbour_t;

/* Keys from `first` on, so many: such as those of one field. */
typedef struct {
    uint64_t first;
    uint64_t count;
} cadre_embedding_keys_t;

/* Reads the values of a variable of two axes, or all rows of a table.
 *
 * CADRE_ENOTFOUND: the checkpoint has no such variable.
 * CADRE_EINVALID: it has other axes, or is not f32; the table has no row.
 * Fails as cadre_checkpoint_reader_read and cadre_table_rows_each besides. */
int cadre_embedding_read(cadre_checkpoint_reader_t *reader, const char *variable,
                         cadre_embedding_t *out);

/* Takes words from a file, a word a line: line i, from 0, is that of key i. Rows whose keys are
 * behind the last line are left out; of a table a line may have no row.
 *
 * CADRE_ENOTFOUND: the file cannot be opened.
 * CADRE_EDATA: it has no line, more than CADRE_EMBEDDING_WORDS_MAX, of a variable more than there
 * are rows, or one that is no word: empty, with a space in it, or longer than
 * CADRE_EMBEDDING_WORD_SIZE_MAX; no line is that of a row. */
int cadre_embedding_read_words(cadre_embedding_t *self, const char *path);

/* Finds the row of a word: by its key where there are no words. CADRE_ENOTFOUND: there is none. */
int cadre_embedding_find(const cadre_embedding_t *self, const char *word, int64_t *row);

/* Finds the row of a key, that of `word`, which texts name. CADRE_ENOTFOUND: there is none. */
int cadre_embedding_find_key(const cadre_embedding_t *self, uint64_t key, const char *word,
                             int64_t *row);

/* Finds the `most` (1 to CADRE_EMBEDDING_NEAREST_MAX) other rows with the largest cosine to `row`
 * that have one of the keys `among`, NULL: any; largest first, of equal ones that of the lower key.
 * Returns how many there are. */
size_t cadre_embedding_nearest(const cadre_embedding_t *self, int64_t row,
                               const cadre_embedding_keys_t *among, size_t most,
                               cadre_neighbour_t *out);

/* Returns the key of a row. */
uint64_t cadre_embedding_key(const cadre_embedding_t *self, int64_t row);

/* Returns the word of a row; NULL where there are no words. */
const char *cadre_embedding_word(const cadre_embedding_t *self, int64_t row);

/* Writes the word of a row. */
void cadre_embedding_print_word(const cadre_embedding_t *self, int64_t row, FILE *file);

/* Writes all vectors as word2vec's text: a line with rows and width, then a word and its numbers a
 * line, with the digits by which a reader has the same f32. */
void cadre_embedding_print(const cadre_embedding_t *self, FILE *file);

void cadre_embedding_fini(cadre_embedding_t *self);

#endif
