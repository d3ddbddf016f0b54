#include "tests/sim/sim_pages.h"

#include <stdio.h>

#include "common/base/memory.h"
#include "common/base/status.h"

void
sim_pages_init(sim_pages_t *self, cadre_shard_snapshot_part_t *part)
{
    *self = (sim_pages_t){.spec = part->spec};
    snprintf(self->name, sizeof(self->name), "%s", part->name);
    cadre_table_snapshot(part->table, part->base.checkpoint, part->own.checkpoint, &self->snapshot);
    cadre_table_describe(part->table, &self->snapshot, &self->record);
    self->record.stamp = part->own.stamp;
    self->record.base = part->base.checkpoint;
    self->record.base_stamp = part->base.stamp;
    self->record.shard = part->spec.partition;
    self->record.shards = part->spec.partitions;
    cadre_table_close(&part->table);
}

void
sim_pages_fini(sim_pages_t *self)
{
    cadre_table_snapshot_fini(&self->snapshot);
}

void
sim_pages_walk_init(sim_pages_walk_t *self, const sim_pages_t *newest)
{
    const uint64_t pages = cadre_table_record_pages(&newest->record);
    *self = (sim_pages_walk_t){
        .seen = cadre_calloc(pages + 1, sizeof(bool)), .pages = pages, .record = newest->record};
}

void
sim_pages_walk_fini(sim_pages_walk_t *self)
{
    cadre_free(&self->seen);
}

int
sim_pages_walk(sim_pages_walk_t *self, const sim_pages_t *file,
               int (*visit)(void *visitor, const cadre_table_page_t *page), void *visitor)
{
    const cadre_row_snapshot_t *rows = &file->snapshot.rows;
    if (file->record.checkpoint != self->record.checkpoint &&
        (file->record.checkpoint != self->record.base ||
         file->record.stamp != self->record.base_stamp)) {
        return cadre_fail(CADRE_ECORRUPT, "%s has another base", file->name);
    }
    self->record = file->record;
    for (size_t i = 0; i < rows->count; i++) {
        const cadre_table_page_t page = {.position = rows->positions[i],
                                         .bytes = cadre_chunk_data(rows->chunks[i]),
                                         .size_bytes = cadre_chunk_size_bytes(rows->chunks[i])};
        if (page.position >= self->pages) {
            return cadre_fail(CADRE_ECORRUPT, "%s has a page too many", file->name);
        }
        if (self->seen[page.position]) {
            continue;
        }
        self->seen[page.position] = true;
        self->count++;
        int status = visit(visitor, &page);
        if (status != 0) {
            return status;
        }
    }
    return 0;
}
