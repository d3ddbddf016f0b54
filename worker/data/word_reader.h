/*
 * word_reader - the words of a text file, one after the other.
 *
 * Owner:   whoever reads the text.
 * Thread:  one at a time.
 *
 * Words are vocabulary.h's. A text may be one line, so it is read by bytes, and memory is the same
 * for lines of any length.
 */
#ifndef CADRE_WORKER_DATA_WORD_READER_H
#define CADRE_WORKER_DATA_WORD_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/vocabulary.h"
#include "worker/data/data_file.h"
#include "worker/data/text_check.h"

enum { CADRE_WORD_BUFFER_SIZE = 16 << 10 };

/* Zeroed memory is one that has read nothing. */
typedef struct {
    char word[CADRE_WORD_SIZE]; /* that was read last; empty: a line without words */
    uint64_t offset;            /* where in the content it begins */
    bool has_words;             /* the line that is being read has some */
    bool is_checked;            /* what is read must be text */
    cadre_text_check_t check;
    size_t at; /* bytes [at, stop) of the buffer are read next */
    size_t stop;
    char buffer[CADRE_WORD_BUFFER_SIZE];
} cadre_word_reader_t;

/* Begins to read a file, or to read on where it is: at its begin, or at that of a word. */
void cadre_word_reader_begin(cadre_word_reader_t *self);

/* Begins to read a file that may be no text (text_check.h): it is at its begin. */
void cadre_word_reader_begin_checked(cadre_word_reader_t *self);

/* Reads the next word, or the end of a line without words, into `word`. Returns 1; 0 at the end of
 * the file. Fails as cadre_data_file_read, and where the file is no text: CADRE_EDATA, with the
 * file and the line. */
int cadre_word_reader_next(cadre_word_reader_t *self, cadre_data_file_t *file);

#endif
