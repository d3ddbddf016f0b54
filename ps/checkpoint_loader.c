#include "ps/checkpoint_loader.h"

#include <string.h>

#include "common/base/status.h"

/* Closes the checkpoint that is open, if any; `context` is the loader. */
static void
close_reader(void *context)
{
    cadre_checkpoint_loader_t *self = context;
    cadre_checkpoint_reader_destroy(&self->reader);
}

/* Opens the checkpoint at `path`, in place of one that is open, and gives in `state` what it says
 * of shard `index`: zeroes when it has no such shard, because it was written with fewer ps. */
static int
open_reader(void *context, const char *path, uint32_t index, cadre_shard_state_t *state)
{
    cadre_checkpoint_loader_t *self = context;
    close_reader(self);
    int folder = -1;
    int status = cadre_folders_open(self->folders, path, &folder);
    if (status < 0) {
        return status;
    }
    status = cadre_checkpoint_reader_open_in(&folder, path, &self->reader);
    if (status < 0) {
        return status;
    }
    const cadre_manifest_t *manifest = cadre_checkpoint_reader_manifest(self->reader);
    *state = index < manifest->shard_count ? manifest->shards[index].state
                                           : (cadre_shard_state_t){.generation = 0};
    return 0;
}

/* Finds a variable in the open checkpoint, and gives its dtype and shape. Fails with
 * CADRE_ENOTFOUND. */
static int
find(void *context, const char *variable, cadre_stored_variable_t *out)
{
    const cadre_checkpoint_loader_t *self = context;
    const cadre_manifest_variable_t *stored =
        cadre_manifest_find(cadre_checkpoint_reader_manifest(self->reader), variable);
    if (!stored) {
        return cadre_fail(CADRE_ENOTFOUND, "%s is not in the checkpoint", variable);
    }
    *out = (cadre_stored_variable_t){.dtype = stored->dtype,
                                     .rank = stored->rank,
                                     .table_parts =
                                         stored->table ? (uint32_t)stored->partition_count : 0};
    memcpy(out->shape, stored->shape, sizeof(out->shape));
    return 0;
}

static int
prepare(void *context, const cadre_checkpoint_range_t *range, const cadre_give_up_t *give_up)
{
    const cadre_checkpoint_loader_t *self = context;
    return cadre_checkpoint_reader_prepare(self->reader, range, give_up);
}

static int
read_elements(void *context, const cadre_checkpoint_range_t *range, void *out,
              cadre_change_counts_t *counts)
{
    const cadre_checkpoint_loader_t *self = context;
    return cadre_checkpoint_reader_read(self->reader, range, out, counts);
}

static int
read_table(void *context, const char *variable, uint32_t part, const cadre_give_up_t *give_up,
           cadre_table_record_t *record)
{
    const cadre_checkpoint_loader_t *self = context;
    return cadre_checkpoint_reader_table(self->reader, variable, part, give_up, record);
}

static int
read_pages(void *context, const char *variable, uint32_t part, const cadre_give_up_t *give_up,
           int (*visit)(void *visitor, const cadre_table_page_t *page), void *visitor)
{
    const cadre_checkpoint_loader_t *self = context;
    return cadre_checkpoint_reader_pages(self->reader, variable, part, give_up, visit, visitor);
}

static int
read_sightings(void *context, const char *variable, uint32_t part, const cadre_give_up_t *give_up,
               int (*visit)(void *visitor, const cadre_table_page_t *block), void *visitor)
{
    const cadre_checkpoint_loader_t *self = context;
    return cadre_checkpoint_reader_sightings(self->reader, variable, part, give_up, visit, visitor);
}

/* Returns the interface of the loader, with `self` as its context. */
cadre_loader_t
cadre_checkpoint_loader(cadre_checkpoint_loader_t *self)
{
    return (cadre_loader_t){.context = self,
                            .open = open_reader,
                            .find = find,
                            .prepare = prepare,
                            .read = read_elements,
                            .table = read_table,
                            .pages = read_pages,
                            .sightings = read_sightings,
                            .close = close_reader};
}
