/*
 * shard_pull - which values a PULL asks for, and references to them.
 *
 * Owner:   nobody: it has no state. Thread: the shard's.
 *
 * A worker gets values in the wire dtype of their variable. The coordinator reads what it may
 * assign again: values as they are (`exact`).
 */
#ifndef CADRE_PS_CORE_SHARD_PULL_H
#define CADRE_PS_CORE_SHARD_PULL_H

#include "common/wire/record_list.h"
#include "ps/core/ps_counters.h"
#include "ps/core/shard_parts.h"

/* Makes ready what the list names and its sender does not hold; `out` as
 * cadre_shard_parts_find_named, whose failures it has. CADRE_ETOOLARGE when it does not fit one
 * answer, CADRE_ENOTFINITE when a value does not fit the wire dtype. */
int cadre_shard_pull_prepare(cadre_shard_parts_t *parts, const cadre_u64s_t *list, bool exact,
                             cadre_named_parts_t *out);

/* Puts references to what was prepared into `answer`, and says in `pulled`, which has room for as
 * many as are named, what each part is. */
void cadre_shard_pull_answer(const cadre_named_parts_t *named, bool exact,
                             cadre_ps_counters_t *counters, cadre_message_t *answer,
                             cadre_pulled_part_t *pulled);

/* The bytes of the values that the list names and its sender does not hold, in the wire dtype. */
size_t cadre_shard_pull_size_bytes(const cadre_shard_parts_t *parts, const cadre_u64s_t *list);

#endif
