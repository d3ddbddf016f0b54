/*
 * pull_answer - what VALUES tells of a PULL, and the values in it.
 *
 * Owner:   the call that answers. Thread: the shard's.
 */
#ifndef CADRE_PS_CORE_PULL_ANSWER_H
#define CADRE_PS_CORE_PULL_ANSWER_H

#include "common/base/limits.h"
#include "ps/core/shard_pull.h"

/* The lists of VALUES, which have room for those of any PULL. They are large, so they are set where
 * a PULL has them: cadre_pull_answer_init makes one that tells nothing. */
typedef struct {
    cadre_pulled_part_t pulled[CADRE_PARTITIONS_PER_UPDATE_MAX];
    size_t count;
    uint64_t steps[CADRE_PARTITIONS_PER_UPDATE_MAX];
    size_t step_count;
    uint64_t unchanged[CADRE_ROWS_MAX / 64];
    size_t unchanged_words;
    uint64_t absent[CADRE_CLIENT_ROWS_MAX / 64];
    size_t absent_words;
} cadre_pull_answer_t;

void cadre_pull_answer_init(cadre_pull_answer_t *self);

/* Puts the values that the PULL `message` asks for into `answer`: references to whole partitions,
 * or copies of rows; and fills the lists, which were empty. Fails as cadre_shard_pull_prepare and
 * cadre_shard_rows_pull: the lists are empty then, and so is the answer. */
int cadre_pull_answer_take(cadre_pull_answer_t *self, cadre_shard_parts_t *parts,
                           const cadre_message_t *message, cadre_pulled_t what,
                           cadre_ps_counters_t *counters, cadre_message_t *answer);

#endif
