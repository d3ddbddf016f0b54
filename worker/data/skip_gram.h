/*
 * skip_gram - what is drawn for skip-gram with negative sampling (Mikolov and others 2013,
 * "Distributed representations of words and phrases and their compositionality").
 *
 * As in word2vec.c of the authors:
 *
 * - a word with the share f of the text stays with the probability sqrt(s / f) + s / f, s the
 *   description's "subsample"; others are near it as if it were not there;
 * - near are the words up to a distance that is drawn for each center from 1 to "window";
 * - negatives are drawn by frequency^0.75.
 *
 * All that is drawn follows from the seed and the position of a word in the text, so a reader that
 * begins in its middle draws what one from its begin does.
 *
 * Owner:   the reader of the text.
 * Thread:  one at a time.
 */
#ifndef CADRE_WORKER_DATA_SKIP_GRAM_H
#define CADRE_WORKER_DATA_SKIP_GRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/vocabulary.h"
#include "common/spec/data_spec.h"

typedef struct cadre_skip_gram cadre_skip_gram_t;

/* Makes what draws the words of a ranked vocabulary, which must outlive it. Fails with CADRE_EDATA
 * when fewer than two words have an id, so that there is none to be drawn. */
int cadre_skip_gram_new(const cadre_data_spec_t *spec, const cadre_vocabulary_t *vocabulary,
                        cadre_skip_gram_t **out);

/* Frees and nulls the pointer; NULL inside is fine. */
void cadre_skip_gram_destroy(cadre_skip_gram_t **self_p);

/* Returns the memory that it takes, in bytes, without the vocabulary's. */
uint64_t cadre_skip_gram_size_bytes(const cadre_skip_gram_t *self);

/* Returns whether the word at `position` of the text, which has this id, stays. */
bool cadre_skip_gram_stays(const cadre_skip_gram_t *self, uint64_t position, uint32_t id);

/* Returns how far a word may be from the center at `position`, from 1. */
uint32_t cadre_skip_gram_reach(const cadre_skip_gram_t *self, uint64_t position);

/* Returns the id of the word that is drawn for row `row` of the center at `position`: fastest for
 * rows that follow each other. */
uint32_t cadre_skip_gram_negative(cadre_skip_gram_t *self, uint64_t position, uint32_t row);

#endif
