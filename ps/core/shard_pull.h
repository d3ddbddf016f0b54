/*
 * shard_pull - which values a PULL asks for, and references to them.
 *
 * Owner:   nobody: it has no state. Thread: the shard's.
 *
 * A worker gets values in the wire dtype of their variable. The coordinator gets them in the
 * variable's own dtype, since it may assign them again, or their running averages.
 */
#ifndef CADRE_PS_CORE_SHARD_PULL_H
#define CADRE_PS_CORE_SHARD_PULL_H

#include "common/wire/record_list.h"
#include "ps/core/ps_counters.h"
#include "ps/core/shard_parts.h"

/* What a PULL gets of a partition. */
typedef enum {
    CADRE_PULLED_WIRE = 0, /* values in the wire dtype */
    CADRE_PULLED_EXACT,    /* values in the variable's own dtype */
    CADRE_PULLED_AVERAGE,  /* their running average */
    CADRE_PULLED_SLOT,     /* a slot of the optimizer */
} cadre_pulled_kind_t;

typedef struct {
    cadre_pulled_kind_t kind;
    size_t slot; /* CADRE_PULLED_SLOT: its number */
} cadre_pulled_t;

/* Fails with CADRE_EINVALID when the part has no average, or no such slot, and that is pulled. */
int cadre_shard_pull_check(const cadre_shard_part_t *part, cadre_pulled_t what);

/* Returns the slot of a partition that is pulled: that of the average, or the one of this number;
 * -1: none, values are. */
int cadre_shard_pull_slot(const cadre_partition_t *partition, cadre_pulled_t what);

/* Finds the parts that the list names, and converts to the wire dtype those that the asker does not
 * hold (of CADRE_PULLED_WIRE). Fails as cadre_shard_parts_find_named, with CADRE_ETOOLARGE when the
 * values do not fit one answer, with CADRE_ENOTFINITE when a value does not fit the wire dtype,
 * with CADRE_EINVALID for a table and as cadre_shard_pull_check. */
int cadre_shard_pull_prepare(cadre_shard_parts_t *parts, const cadre_u64s_t *list,
                             cadre_pulled_t what, cadre_named_parts_t *out);

/* Puts references to the prepared values into `answer`, and into `pulled` [named->count] the
 * version and number of chunks of each part; a part that the asker holds has no chunks. */
void cadre_shard_pull_answer(const cadre_named_parts_t *named, cadre_pulled_t what,
                             cadre_ps_counters_t *counters, cadre_message_t *answer,
                             cadre_pulled_part_t *pulled);

/* Returns the bytes, in the wire dtype, of the values that the list names and the asker does not
 * hold; unknown parts count as 0. */
size_t cadre_shard_pull_size_bytes(const cadre_shard_parts_t *parts, const cadre_u64s_t *list);

#endif
