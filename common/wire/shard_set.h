/*
 * shard_set - a set of shards, by their numbers from 0 to CADRE_SHARDS_MAX - 1.
 *
 * Owner:   whoever it is part of. Thread: its owner's.
 *
 * A bitmap: the dispatcher asks for each closure whether a worker fails to reach a shard that it
 * needs. As a list of the wire it has no trailing zeros: no shards are no bytes.
 */
#ifndef CADRE_COMMON_WIRE_SHARD_SET_H
#define CADRE_COMMON_WIRE_SHARD_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/wire/message.h"

enum { CADRE_SHARD_WORDS = CADRE_SHARDS_MAX / 64 };

/* Zeroed memory is an empty set. */
typedef struct {
    uint64_t words[CADRE_SHARD_WORDS]; /* shard n is bit n % 64 of word n / 64 */
} cadre_shard_set_t;

/* Returns whether the set has a shard; a number that no shard can have is in no set. */
bool cadre_shard_set_has(const cadre_shard_set_t *self, uint64_t shard);

/* Adds a shard, whose number must be one that a shard can have. */
void cadre_shard_set_put(cadre_shard_set_t *self, uint64_t shard);

/* Return whether the set is empty, and how many shards it has. */
bool cadre_shard_set_is_empty(const cadre_shard_set_t *self);
uint32_t cadre_shard_set_count(const cadre_shard_set_t *self);

/* Returns whether some shard is in both sets. */
bool cadre_shard_set_meets(const cadre_shard_set_t *self, const cadre_shard_set_t *other);

/* Returns the set as a list for a message, borrowed; and the set that a message's list says. */
cadre_u64s_t cadre_shard_set_list(const cadre_shard_set_t *self);
cadre_shard_set_t cadre_shard_set_of(cadre_u64s_t list);

#endif
