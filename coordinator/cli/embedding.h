/*
 * embedding - the rows of a variable in a checkpoint as vectors, each with a word.
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
};

typedef struct {
    cadre_tensor_t values; /* f32 [rows or more, width] */
    int64_t rows;          /* those with a word; without words all */
    int64_t width;
    char **words; /* [rows]; NULL: a row's word is its number, from 0 */
} cadre_embedding_t;

typedef struct {
    int64_t row;
    double cosine; /* 0 where a vector is all zeros */
} cadre_neighbour_t;

/* Reads the values of a variable of two axes.
 *
 * CADRE_ENOTFOUND: the checkpoint has no such variable.
 * CADRE_EINVALID: it has other axes, or is not f32.
 * Fails as cadre_checkpoint_reader_read besides. */
int cadre_embedding_read(cadre_checkpoint_reader_t *reader, const char *variable,
                         cadre_embedding_t *out);

/* Takes the word of each row from a file, a word a line; rows behind the last line are left out.
 *
 * CADRE_ENOTFOUND: the file cannot be opened.
 * CADRE_EDATA: it has no line, more lines than there are rows, or one that is no word: empty, with
 * a space in it, or longer than CADRE_EMBEDDING_WORD_SIZE_MAX. */
int cadre_embedding_read_words(cadre_embedding_t *self, const char *path);

/* Finds the row of a word. CADRE_ENOTFOUND: there is none. */
int cadre_embedding_find(const cadre_embedding_t *self, const char *word, int64_t *row);

/* Finds the `most` (1 to CADRE_EMBEDDING_NEAREST_MAX) other rows with the largest cosine to `row`,
 * largest first, of equal ones that of the lower number. Returns how many there are. */
size_t cadre_embedding_nearest(const cadre_embedding_t *self, int64_t row, size_t most,
                               cadre_neighbour_t *out);

/* Writes the word of a row. */
void cadre_embedding_print_word(const cadre_embedding_t *self, int64_t row, FILE *file);

/* Writes all vectors as word2vec's text: a line with rows and width, then a word and its numbers a
 * line, with the digits by which a reader has the same f32. */
void cadre_embedding_print(const cadre_embedding_t *self, FILE *file);

void cadre_embedding_fini(cadre_embedding_t *self);

#endif
