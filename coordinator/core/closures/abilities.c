#include "coordinator/core/closures/abilities.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

bool
cadre_id_set_has(const cadre_id_set_t *self, uint32_t id)
{
    return id / 64 < self->word_count && self->words[id / 64] >> id % 64 & 1;
}

/* Puts an id into the set: sets its bit, and grows the array of words where it is too short. */
void
cadre_id_set_put(cadre_id_set_t *self, uint32_t id)
{
    size_t needed = id / 64 + 1;
    if (needed > self->word_count) {
        self->words = cadre_realloc(self->words, needed, sizeof(*self->words));
        memset(self->words + self->word_count, 0,
               (needed - self->word_count) * sizeof(*self->words));
        self->word_count = needed;
    }
    self->words[id / 64] |= UINT64_C(1) << id % 64;
}

static void
id_set_fini(cadre_id_set_t *self)
{
    free(self->words);
    *self = (cadre_id_set_t){.words = NULL};
}

/* Returns whether two closures need the same: function, resources in the same order, and
 * datasets. */
bool
cadre_needs_equal(const cadre_needs_t *left, const cadre_needs_t *right)
{
    if (left->function != right->function || left->resource_count != right->resource_count ||
        left->batch_items != right->batch_items) {
        return false;
    }
    for (size_t i = 0; i < left->resource_count; i++) {
        if (left->resources[i] != right->resources[i]) {
            return false;
        }
    }
    /* four numbers for each batch, of which the first is its dataset */
    for (size_t i = 0; i < left->batch_items; i += 4) {
        if (left->batches[i] != right->batches[i]) {
            return false;
        }
    }
    return true;
}

void
cadre_abilities_fini(cadre_abilities_t *self)
{
    id_set_fini(&self->lacked);
    id_set_fini(&self->admitted);
    id_set_fini(&self->refused);
}

/* Returns whether a worker with these abilities has all that a closure needs: function, datasets
 * with the job's rows, and resources that it has built. */
bool
cadre_abilities_meet(const cadre_abilities_t *self, const cadre_needs_t *needs)
{
    if (cadre_id_set_has(&self->lacked, needs->function)) {
        return false;
    }
    for (size_t i = 0; i < needs->batch_items; i += 4) {
        if (!cadre_id_set_has(&self->admitted, (uint32_t)needs->batches[i])) {
            return false;
        }
    }
    return cadre_resource_set_has_all(&self->built, needs->resources, needs->resource_count);
}
