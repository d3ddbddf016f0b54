#include "ps/core/pull_answer.h"

#include <string.h>

#include "ps/core/shard_rows.h"

/* Empties the lists by their counts: to zero all that they have room for would take longer than to
 * answer a small PULL. */
void
cadre_pull_answer_init(cadre_pull_answer_t *self)
{
    self->count = 0;
    self->step_count = 0;
    self->unchanged_words = 0;
    self->absent_words = 0;
}

/* Writes the optimizer's steps of the partitions that a PULL of a slot names. */
static void
tell_steps(cadre_pull_answer_t *self, const cadre_shard_parts_t *parts,
           const cadre_pull_message_t *pull)
{
    const cadre_part_list_t asked = cadre_part_list_view(&pull->partitions);
    for (; self->step_count < self->count; self->step_count++) {
        const cadre_part_t *at = &asked.items[self->step_count];
        const cadre_shard_part_t *part = NULL;
        (void)cadre_shard_parts_find(parts, at->variable, at->partition, &part);
        self->steps[self->step_count] = cadre_partition_steps(part->partition);
    }
}

/* Copies rows. Bits are set in the lists of rows, so those are zeroed before. */
static int
take_rows(cadre_pull_answer_t *self, const cadre_shard_parts_t *parts,
          const cadre_message_t *message, cadre_pulled_t what, cadre_ps_counters_t *counters,
          cadre_message_t *answer)
{
    memset(self->unchanged, 0, sizeof(self->unchanged));
    memset(self->absent, 0, sizeof(self->absent));
    cadre_pulled_rows_t pulled = {
        .parts = self->pulled, .unchanged = self->unchanged, .absent = self->absent};
    int status = cadre_shard_rows_pull(parts, message, what, counters, answer, &pulled);
    if (status < 0) {
        return status;
    }
    self->count = cadre_row_part_list_view(&message->pull.rows).count;
    self->unchanged_words = pulled.words;
    self->absent_words = pulled.absent_words;
    return 0;
}

int
cadre_pull_answer_take(cadre_pull_answer_t *self, cadre_shard_parts_t *parts,
                       const cadre_message_t *message, cadre_pulled_t what,
                       cadre_ps_counters_t *counters, cadre_message_t *answer)
{
    const cadre_pull_message_t *pull = &message->pull;
    if (pull->rows.count > 0) {
        return take_rows(self, parts, message, what, counters, answer);
    }

    cadre_named_parts_t named = {.count = 0};
    int status = cadre_shard_pull_prepare(parts, &pull->partitions, what, &named);
    if (status < 0) {
        return status;
    }
    cadre_shard_pull_answer(&named, what, counters, answer, self->pulled);
    self->count = named.count;
    if (pull->slot > 0) {
        tell_steps(self, parts, pull);
    }
    return 0;
}
