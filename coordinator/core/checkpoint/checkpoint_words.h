/*
 * checkpoint_words - what the checkpoint under way waits for, in words.
 *
 * Thread: under the coordinator's lock. It only looks.
 */
#ifndef CADRE_COORDINATOR_CORE_CHECKPOINT_CHECKPOINT_WORDS_H
#define CADRE_COORDINATOR_CORE_CHECKPOINT_CHECKPOINT_WORDS_H

#include "coordinator/core/checkpoint/checkpoint.h"

enum { CADRE_CHECKPOINT_WAITS_SIZE = 512 }; /* bytes of cadre_checkpoint_waits */

/* Writes what the checkpoint under way waits for, in words; a closure below the cut with its
 * function and worker. */
void cadre_checkpoint_waits(const cadre_checkpoint_t *self, char text[CADRE_CHECKPOINT_WAITS_SIZE]);

#endif
