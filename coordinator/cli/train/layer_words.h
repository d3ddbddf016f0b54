/*
 * layer_words - whether a layer has as many ids as the columns of words or items that it takes.
 *
 * Words of a hashed column become ids below its "hash", those of a click log ids below "buckets",
 * those of a text ids below "vocabulary"; the items of LIBSVM's rows are ids from 1 to "features",
 * and 0. A layer with fewer would fail in training, at the first beyond: the job file is refused.
 *
 * Thread:  any; there is no state.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_LAYER_WORDS_H
#define CADRE_COORDINATOR_CLI_TRAIN_LAYER_WORDS_H

#include "coordinator/cli/train/json_source.h"
#include "coordinator/cli/train/layer.h"

/* Checks a layer over ids, the object at `pointer`, which takes the numbers of a row from its
 * `first_column` on: `column_count`, or all where that is 0. Rows of a table have any ids. Columns
 * that cannot be read are left out; the reader of data.train says why. Fails with CADRE_ECONFIG
 * at "ids" or "fields", naming the column and both numbers. */
int cadre_layer_words_check(const cadre_json_source_t *source, const char *pointer,
                            const cadre_layer_t *layer);

#endif
