#include "common/checkpoint/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Frees all that a manifest owns, and clears it. */
void
cadre_manifest_fini(cadre_manifest_t *self)
{
    for (size_t i = 0; i < self->variable_count; i++) {
        cadre_manifest_variable_t *variable = &self->variables[i];
        free(variable->name);
        json_decref(variable->initializer);
        json_decref(variable->optimizer);
        json_decref(variable->table);
        free(variable->partitions);
    }

    for (size_t k = 0; k < self->shard_count; k++) {
        free(self->shards[k].file);
    }

    cadre_name_map_fini(&self->variable_names);
    free(self->variables);
    free(self->shards);
    free(self->job);
    free(self->created);
    json_decref(self->progress);
    memset(self, 0, sizeof(*self));
}

/* Returns the variable called `name`, or NULL. Only a manifest that was decoded has a map of names.
 * */
const cadre_manifest_variable_t *
cadre_manifest_find(const cadre_manifest_t *self, const char *name)
{
    if (self->variable_names.count > 0) {
        return cadre_name_map_get(&self->variable_names, name);
    }
    for (size_t i = 0; i < self->variable_count; i++) {
        if (strcmp(self->variables[i].name, name) == 0) {
            return &self->variables[i];
        }
    }
    return NULL;
}

const char *
cadre_checkpoint_shard_name(uint32_t shard, char *text)
{
    snprintf(text, CADRE_CHECKPOINT_NAME_SIZE, "shard-%" PRIu32 ".mdb", shard);
    return text;
}

const char *
cadre_checkpoint_name(uint64_t id, char *text)
{
    snprintf(text, CADRE_CHECKPOINT_NAME_SIZE, "ckpt-%08" PRIu64, id);
    return text;
}
