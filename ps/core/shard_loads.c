#include "ps/core/shard_loads.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/u64_map.h"

/* A partition that is being loaded. */
typedef struct {
    uint64_t load; /* number of the load */
    cadre_asker_t asker;
    cadre_shard_part_t *part; /* the part, without its partition, which is lent to the load */
} loading_t;

struct cadre_shard_loads {
    uint64_t last;    /* number of the last load that was made */
    uint64_t opening; /* number of the load that opens a checkpoint; 0: none does */
    cadre_asker_t opening_asker;
    bool is_open;          /* a checkpoint is open, so that parts can be loaded from it */
    cadre_u64_map_t parts; /* loading_t by cadre_partition_key */
};

cadre_shard_loads_t *
cadre_shard_loads_new(void)
{
    return cadre_calloc(1, sizeof(cadre_shard_loads_t));
}

void
cadre_shard_loads_destroy(cadre_shard_loads_t **self_p)
{
    if (*self_p) {
        cadre_u64_map_fini(&(*self_p)->parts);
        cadre_free(self_p);
    }
}

/* --- a checkpoint is opened --- */

/* Asks for the checkpoint at `path` to be opened. */
void
cadre_shard_loads_open(cadre_shard_loads_t *self, const char *path, uint32_t index,
                       const cadre_asker_t *asker, cadre_shard_effects_t *effects)
{
    cadre_checkpoint_load_t *load = cadre_checkpoint_load_new(++self->last);
    load->path = cadre_strdup(path);
    load->index = index;
    self->opening = load->number;
    self->opening_asker = *asker;
    cadre_shard_effects_load(effects, &load);
}

bool
cadre_shard_loads_is_opening(const cadre_shard_loads_t *self)
{
    return self->opening > 0;
}

void
cadre_shard_loads_open_again(cadre_shard_loads_t *self, const cadre_asker_t *asker)
{
    self->opening_asker = *asker;
}

bool
cadre_shard_loads_is_open(const cadre_shard_loads_t *self)
{
    return self->is_open;
}

/* --- a partition is loaded --- */

/* Asks for a part to be filled from the checkpoint; the load borrows the partition, and the part
 * waits here until it comes back. */
void
cadre_shard_loads_fill(cadre_shard_loads_t *self, cadre_shard_part_t **part_p, uint64_t room,
                       const cadre_asker_t *asker, cadre_shard_effects_t *effects)
{
    loading_t *loading = cadre_calloc(1, sizeof(*loading));
    cadre_checkpoint_load_t *load = cadre_checkpoint_load_new(++self->last);
    cadre_shard_part_t *part = *part_p;
    *part_p = NULL;
    load->key = cadre_shard_part_key(part);
    cadre_shard_part_lend(part, &load->partition, &load->table);
    load->spec = part->spec;
    load->size_bytes_max = room;
    snprintf(load->name, sizeof(load->name), "%s", part->name);
    loading->load = load->number;
    loading->asker = *asker;
    loading->part = part;
    cadre_u64_map_put(&self->parts, load->key, loading);
    cadre_shard_effects_load(effects, &load);
}

cadre_shard_part_t *
cadre_shard_loads_find(const cadre_shard_loads_t *self, uint64_t variable, uint64_t partition)
{
    const loading_t *loading =
        cadre_u64_map_get(&self->parts, cadre_partition_key(variable, partition));
    return loading ? loading->part : NULL;
}

void
cadre_shard_loads_fill_again(cadre_shard_loads_t *self, uint64_t variable, uint64_t partition,
                             const cadre_asker_t *asker)
{
    loading_t *loading = cadre_u64_map_get(&self->parts, cadre_partition_key(variable, partition));
    loading->asker = *asker;
}

/* --- a load comes back --- */

/* Ends the load that opened a checkpoint; returns who waits for it, and a failure with its text. */
static cadre_load_end_t
end_opening(cadre_shard_loads_t *self, const cadre_checkpoint_load_t *load)
{
    cadre_load_end_t end = {.kind = CADRE_LOAD_CHECKPOINT, .asker = self->opening_asker};
    self->opening = 0;
    self->is_open = load->status == 0;
    if (load->status < 0) {
        end.status = cadre_fail(load->status, "%s: %s", load->path, load->text);
    }
    return end;
}

/* Takes a part out of those that are being loaded, and gives it to the caller. */
static cadre_load_end_t
end_part(cadre_shard_loads_t *self, uint64_t key)
{
    loading_t *loading = cadre_u64_map_take(&self->parts, key);
    cadre_load_end_t end = {
        .kind = CADRE_LOAD_PART, .asker = loading->asker, .part = loading->part};
    free(loading);
    return end;
}

/* Takes a load that has come back: returns which request waits for it, and gives the part its
 * partition again. A load that nobody waits for is stale. */
cadre_load_end_t
cadre_shard_loads_end(cadre_shard_loads_t *self, cadre_checkpoint_load_t *load)
{
    if (load->number == self->opening) {
        return end_opening(self, load);
    }
    const loading_t *loading = load->path ? NULL : cadre_u64_map_get(&self->parts, load->key);
    if (!loading || loading->load != load->number) {
        /* The partition was dropped, and perhaps created again with another load. */
        return (cadre_load_end_t){.kind = CADRE_LOAD_STALE};
    }

    cadre_load_end_t end = end_part(self, load->key);
    if (load->status < 0) {
        end.status = cadre_fail(load->status, "%s, partition %" PRIu64 ": %s", end.part->name,
                                end.part->spec.partition, load->text);
    } else {
        cadre_shard_part_return(end.part, &load->partition, &load->table, load->base);
    }
    return end;
}

/* --- which requests wait for loads --- */

static bool
is_same(const cadre_asker_t *left, const cadre_asker_t *right)
{
    return left->request == right->request && cadre_task_equal(&left->from, &right->from);
}

/* Returns whether this request, a RESTORE or a CREATE, waits for a load. */
bool
cadre_shard_loads_is_awaited(const cadre_shard_loads_t *self, const cadre_asker_t *asker)
{
    if (self->opening > 0 && is_same(&self->opening_asker, asker)) {
        return true;
    }
    const loading_t *loading = NULL;
    for (size_t cursor = 0; (loading = cadre_u64_map_next(&self->parts, &cursor));) {
        if (is_same(&loading->asker, asker)) {
            return true;
        }
    }
    return false;
}

/* --- giving loads up --- */

/* Gives up the load of one part of a variable that is dropped, and gives that part to the caller;
 * false when no part of it is being loaded. To be called again until it is false. */
bool
cadre_shard_loads_drop(cadre_shard_loads_t *self, uint64_t variable, cadre_load_end_t *out)
{
    if (self->parts.count == 0) {
        return false; /* saves a walk over an empty map, which keeps its capacity */
    }
    const loading_t *loading = NULL;
    for (size_t cursor = 0; (loading = cadre_u64_map_next(&self->parts, &cursor));) {
        const cadre_partition_spec_t *spec = &loading->part->spec;
        if (spec->variable == variable) {
            *out = end_part(self, cadre_partition_key(variable, spec->partition));
            out->status = cadre_fail(CADRE_EFENCED, "%s, partition %" PRIu64 ": was dropped",
                                     out->part->name, out->part->spec.partition);
            return true;
        }
    }
    return false;
}

/* Gives up all loads: frees the parts that wait for them, and asks for the open checkpoint to be
 * closed. */
void
cadre_shard_loads_forget(cadre_shard_loads_t *self, cadre_shard_parts_t *parts,
                         cadre_shard_effects_t *effects)
{
    loading_t *loading = NULL;
    for (size_t cursor = 0; (loading = cadre_u64_map_next(&self->parts, &cursor));) {
        cadre_shard_parts_give_up(parts, &loading->part);
        free(loading);
    }
    cadre_u64_map_fini(&self->parts);
    self->opening = 0;
    /* Every load made so far has a lower number. */
    cadre_shard_effects_give_up(effects, self->last + 1);
    if (self->is_open) {
        cadre_checkpoint_load_t *load = cadre_checkpoint_load_new(++self->last);
        load->path = cadre_strdup(""); /* the checkpoint is not needed any more */
        cadre_shard_effects_load(effects, &load);
        self->is_open = false;
    }
}
