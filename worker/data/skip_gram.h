/*
 * skip_gram - the rows that a text has for skip-gram with negative sampling (Mikolov and others
 * 2013, "Distributed representations of words and phrases and their compositionality").
 *
 * A word and one that is near it are a row with label 1, ids [center, context]; behind it come
 * `negatives` rows with label 0, whose context is drawn by frequency^0.75. All that is drawn
 * follows from the seed and the place in the text. As in word2vec.c of the authors:
 *
 * - a word with the share f of the text stays with the probability sqrt(s / f) + s / f, s the
 *   description's "subsample"; others are near it as if it were not there;
 * - near are the words up to a distance that is drawn for each center from 1 to "window";
 * - a negative that is the context itself is left out.
 *
 * Owner:   the reader of the text.
 * Thread:  one at a time.
 */
#ifndef CADRE_WORKER_DATA_SKIP_GRAM_H
#define CADRE_WORKER_DATA_SKIP_GRAM_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/vocabulary.h"
#include "common/spec/data_spec.h"
#include "worker/data/row_store.h"

/* Stands among the words of a text for a place that no row reaches across. */
#define CADRE_SKIP_GRAM_BREAK UINT32_MAX

/* Adds all rows of the `count` words of a text to the store, whose rows are 2 floats.
 * `words` are numbers of the ranked vocabulary, and breaks; the array is changed.
 *
 * CADRE_EDATA: fewer than two words have an id, so there is none to be drawn.
 * CADRE_ETOOLARGE: beyond the limit of the store. */
int cadre_skip_gram_add(const cadre_data_spec_t *spec, const cadre_vocabulary_t *vocabulary,
                        uint32_t *words, size_t count, cadre_row_store_t *store);

#endif
