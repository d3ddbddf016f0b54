/*
 * word_ids - what the ids of words mean, as it is kept with the checkpoints of a job.
 *
 * A hash makes the ids of words in a column; with another number of ids, or another seed, each word
 * has another id, and rows of tables that were trained are those of other words. Nothing else would
 * tell: sizes may be the same. So a checkpoint's progress record says what the ids were, and a job
 * whose data.train has others is not resumed from it.
 *
 * A text needs none of it: its ids are ranks by frequency, which "vocabulary" only cuts off.
 *
 * Thread:  any; there is no state.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_WORD_IDS_H
#define CADRE_COORDINATOR_CLI_TRAIN_WORD_IDS_H

#include <jansson.h>

/* Returns what the ids of words in rows of `train`, a dataset description, mean, as JSON: of each
 * hashed column its "hash" and "hash_seed", of a click log its "buckets". Freed by the caller; NULL
 * when there are no such words. */
char *cadre_word_ids_text(const json_t *train);

/* Checks that ids mean now what they meant when checkpoint `path` was taken, whose progress record
 * is `progress`; `words` is of cadre_word_ids_text, and may be NULL. Columns that one of them has
 * alone are left out, and so is all of a record that says nothing. Fails with CADRE_ECONFIG,
 * naming both numbers. */
int cadre_word_ids_check(const char *path, const char *progress, const char *words);

#endif
