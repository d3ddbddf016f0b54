#include "common/wire/shard_set.h"

#include "common/base/assert.h"

bool
cadre_shard_set_has(const cadre_shard_set_t *self, uint64_t shard)
{
    return shard < CADRE_SHARDS_MAX && self->words[shard / 64] >> shard % 64 & 1;
}

void
cadre_shard_set_put(cadre_shard_set_t *self, uint64_t shard)
{
    cadre_assert(shard < CADRE_SHARDS_MAX);
    self->words[shard / 64] |= UINT64_C(1) << shard % 64;
}

bool
cadre_shard_set_is_empty(const cadre_shard_set_t *self)
{
    return cadre_shard_set_list(self).count == 0;
}

uint32_t
cadre_shard_set_count(const cadre_shard_set_t *self)
{
    uint32_t count = 0;
    for (uint64_t shard = 0; shard < CADRE_SHARDS_MAX; shard++) {
        count += cadre_shard_set_has(self, shard);
    }
    return count;
}

/* Returns whether some shard is in both sets. */
bool
cadre_shard_set_meets(const cadre_shard_set_t *self, const cadre_shard_set_t *other)
{
    for (int i = 0; i < CADRE_SHARD_WORDS; i++) {
        if (self->words[i] & other->words[i]) {
            return true;
        }
    }
    return false;
}

/* Returns the set as a list for a message, borrowed, without the zeros at its end. */
cadre_u64s_t
cadre_shard_set_list(const cadre_shard_set_t *self)
{
    size_t count = CADRE_SHARD_WORDS;
    while (count > 0 && self->words[count - 1] == 0) {
        count--;
    }
    return (cadre_u64s_t){self->words, count};
}

/* Returns the set that a message's list says; ignores what is too long. */
cadre_shard_set_t
cadre_shard_set_of(cadre_u64s_t list)
{
    cadre_shard_set_t set = {.words = {0}};
    for (size_t i = 0; i < list.count && i < CADRE_SHARD_WORDS; i++) {
        set.words[i] = list.items[i];
    }
    return set;
}
