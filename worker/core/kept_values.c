#include "worker/core/kept_values.h"

#include <stdlib.h>

#include "common/base/limits.h"
#include "common/base/memory.h"

/* Returns the key of the map for `key` (closure, attempt, result). The attempt is not part of it:
 * the last attempt's value replaces an earlier one's. Ids of closures are far below 2^58. */
static uint64_t
place_of(const uint64_t key[3])
{
    return key[0] * CADRE_RESULTS_MAX + key[2];
}

static uint64_t
place_of_value(const cadre_kept_value_t *value)
{
    return place_of((const uint64_t[]){value->closure, value->attempt, value->result});
}

/* Gives a reference back, and frees the value with the last one. */
void
cadre_kept_value_unref(cadre_kept_value_t **value_p)
{
    cadre_kept_value_t *value = *value_p;
    *value_p = NULL;
    if (value && --value->references == 0) {
        cadre_tensor_list_fini(&value->tensor);
        free(value);
    }
}

/* --- the list from least to most recently used --- */

/* Takes a value out of the list from least to most recently used. */
static void
leave_order(cadre_kept_values_t *self, cadre_kept_value_t *value)
{
    if (value->newer) {
        value->newer->older = value->older;
    } else {
        self->newest = value->older;
    }
    if (value->older) {
        value->older->newer = value->newer;
    } else {
        self->oldest = value->newer;
    }
    value->newer = NULL;
    value->older = NULL;
}

/* Appends a value to the list as the most recently used one. */
static void
become_newest(cadre_kept_values_t *self, cadre_kept_value_t *value)
{
    value->older = self->newest;
    if (self->newest) {
        self->newest->newer = value;
    } else {
        self->oldest = value;
    }
    self->newest = value;
}

/* Evicts a value. Runs that hold a reference go on reading it. */
static void
drop(cadre_kept_values_t *self, cadre_kept_value_t *value)
{
    cadre_u64_map_take(&self->values, place_of_value(value));
    leave_order(self, value);
    self->size_bytes -= value->tensor.size_bytes;
    cadre_kept_value_unref(&value);
}

/* Drops all kept values; the limit of bytes stays. */
void
cadre_kept_values_clear(cadre_kept_values_t *self)
{
    while (self->oldest) {
        drop(self, self->oldest);
    }
    cadre_u64_map_fini(&self->values);
}

/* Keeps the tensor at `position` of a list under `key` (closure, attempt, result), and evicts the
 * least recently used values where that takes room. Keeps nothing that is too small to be worth it,
 * or larger than the whole cache may be. */
void
cadre_kept_values_put(cadre_kept_values_t *self, const uint64_t key[3],
                      const cadre_tensor_list_t *list, size_t position)
{
    cadre_tensor_list_t tensor = {.count = 0};
    if (cadre_tensor_list_part(list, position, &tensor) < 0) {
        return;
    }
    if (tensor.size_bytes < CADRE_KEPT_VALUE_SIZE_MIN || tensor.size_bytes > self->size_max) {
        cadre_tensor_list_fini(&tensor);
        return;
    }
    cadre_kept_value_t *before = cadre_u64_map_get(&self->values, place_of(key));
    if (before) {
        drop(self, before);
    }
    while (self->size_bytes > self->size_max - tensor.size_bytes) {
        drop(self, self->oldest);
    }
    cadre_kept_value_t *value = cadre_calloc(1, sizeof(*value));
    *value = (cadre_kept_value_t){
        .references = 1, .closure = key[0], .attempt = key[1], .result = key[2], .tensor = tensor};
    cadre_u64_map_put(&self->values, place_of(key), value);
    become_newest(self, value);
    self->size_bytes += tensor.size_bytes;
}

/* Returns a reference to the value under `key` (closure, attempt, result), which becomes the most
 * recently used one; NULL when it is not kept. */
cadre_kept_value_t *
cadre_kept_values_take(cadre_kept_values_t *self, const uint64_t key[3])
{
    cadre_kept_value_t *value = cadre_u64_map_get(&self->values, place_of(key));
    /* The map has one value for all attempts of a closure: this one may be of another attempt. */
    if (!value || value->closure != key[0] || value->attempt != key[1] || value->result != key[2]) {
        return NULL;
    }
    leave_order(self, value);
    become_newest(self, value);
    value->references++;
    return value;
}
