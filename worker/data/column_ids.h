/*
 * column_ids - the ids of a column that does not hold one number: words, which are hashed, and bags
 * of ids or words.
 *
 * Thread: any; no state.
 */
#ifndef CADRE_WORKER_DATA_COLUMN_IDS_H
#define CADRE_WORKER_DATA_COLUMN_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "common/spec/data_column.h"

/* Returns the id of a word: 1 + its XXH3-64 with `seed` modulo `buckets` - 1, from 1 to `buckets` -
 * 1; 0 for the empty word. The same on all machines. */
int64_t cadre_column_ids_of_word(const char *word, size_t length, uint64_t seed, int64_t buckets);

/* Returns the key of a word: its XXH3-64 with `seed`; 0 for the empty word. The same on all
 * machines. */
uint64_t cadre_column_ids_key_of_word(const char *word, size_t length, uint64_t seed);

/* Reads the field [start, end), without blanks and quotes around it, of a column that
 * cadre_data_column_has_words: `x` gets as many numbers as cadre_data_column_width says. An empty
 * field is no word, and an empty bag. Fails with CADRE_EDATA and the bare reason. */
int cadre_column_ids_read(const cadre_data_column_t *column, const char *start, const char *end,
                          float *x);

#endif
