#include "common/checkpoint/table_rows.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/bf16.h"

typedef struct {
    cadre_table_record_t record; /* of the shard that is being read */
    cadre_table_row_visit_t visit;
    void *context;
    float *values; /* [dim] */
} walk_t;

static void
walk_fini(walk_t *self)
{
    free(self->values);
}

/* Hands out the rows of a page that are in use. */
static int
visit_page(void *context, const cadre_table_page_t *page)
{
    walk_t *self = context;
    const uint64_t first = page->position * self->record.page_rows;
    const uint64_t count = cadre_min_u64(self->record.page_rows, self->record.end - first);
    for (uint32_t place = 0; place < count; place++) {
        uint64_t key = 0;
        const void *stored = NULL;
        if (!cadre_table_page_row(&self->record, page->bytes, place, &key, &stored)) {
            continue;
        }
        if (self->record.storage == CADRE_BF16) {
            cadre_bf16_to_f32(stored, self->values, self->record.dim);
        } else {
            memcpy(self->values, stored, self->record.dim * sizeof(*self->values));
        }
        const int status = self->visit(self->context, key, self->values);
        if (status != 0) {
            return status;
        }
    }
    return 0;
}

/* Gives how many shards have a part of the table. */
static int
shard_count(const cadre_checkpoint_reader_t *reader, const char *variable, uint32_t *count)
{
    const cadre_manifest_t *manifest = cadre_checkpoint_reader_manifest(reader);
    const cadre_manifest_variable_t *stored = cadre_manifest_find(manifest, variable);
    if (!stored || !stored->table) {
        return cadre_fail(CADRE_ENOTFOUND, "checkpoint %llu has no table called %s",
                          (unsigned long long)manifest->id, variable);
    }
    *count = (uint32_t)stored->partition_count;
    return 0;
}

int
cadre_table_rows_count(cadre_checkpoint_reader_t *reader, const char *variable, uint64_t *rows,
                       uint32_t *dim)
{
    uint32_t count = 0;
    uint64_t total = 0;
    cadre_table_record_t record = {.dim = 0};
    int status = shard_count(reader, variable, &count);
    for (uint32_t shard = 0; shard < count && status == 0; shard++) {
        status = cadre_checkpoint_reader_table(reader, variable, shard, NULL, &record);
        total += record.rows;
    }
    if (status < 0) {
        return status;
    }
    *rows = total;
    *dim = (uint32_t)record.dim;
    return 0;
}

int
cadre_table_rows_each(cadre_checkpoint_reader_t *reader, const char *variable,
                      cadre_table_row_visit_t visit, void *context)
{
    uint32_t count = 0;
    cadre_auto(walk_fini) walk_t walk = {.visit = visit, .context = context};
    int status = shard_count(reader, variable, &count);
    for (uint32_t shard = 0; shard < count && status == 0; shard++) {
        status = cadre_checkpoint_reader_table(reader, variable, shard, NULL, &walk.record);
        if (status < 0) {
            return status;
        }
        walk.values = cadre_realloc(walk.values, walk.record.dim, sizeof(*walk.values));
        status = cadre_checkpoint_reader_pages(reader, variable, shard, NULL, visit_page, &walk);
    }
    return status;
}
