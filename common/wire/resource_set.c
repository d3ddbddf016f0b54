#include "common/wire/resource_set.h"

#include "common/base/assert.h"

static bool
is_id(uint64_t id)
{
    return id >= 1 && id <= CADRE_RESOURCES_MAX;
}

static uint64_t
bit(uint64_t id)
{
    return UINT64_C(1) << (id - 1) % 64;
}

bool
cadre_resource_set_has(const cadre_resource_set_t *self, uint64_t id)
{
    return is_id(id) && self->words[(id - 1) / 64] & bit(id);
}

/* Returns whether the set has all of these resources. */
bool
cadre_resource_set_has_all(const cadre_resource_set_t *self, const uint64_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!cadre_resource_set_has(self, ids[i])) {
            return false;
        }
    }
    return true;
}

void
cadre_resource_set_put(cadre_resource_set_t *self, uint64_t id)
{
    cadre_assert(is_id(id));
    self->words[(id - 1) / 64] |= bit(id);
}

/* Returns the set as a list for a message, borrowed, without the zeros at its end. */
cadre_u64s_t
cadre_resource_set_list(const cadre_resource_set_t *self)
{
    size_t count = CADRE_RESOURCE_WORDS;
    while (count > 0 && self->words[count - 1] == 0) {
        count--;
    }
    return (cadre_u64s_t){self->words, count};
}

/* Returns the set that a message's list says; ignores what is too long. */
cadre_resource_set_t
cadre_resource_set_of(cadre_u64s_t list)
{
    cadre_resource_set_t set = {.words = {0}};
    for (size_t i = 0; i < list.count && i < CADRE_RESOURCE_WORDS; i++) {
        set.words[i] = list.items[i];
    }
    return set;
}
