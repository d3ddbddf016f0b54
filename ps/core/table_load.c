#include "ps/core/table_load.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

/* A table that is being filled. */
typedef struct {
    cadre_table_t *table;
    const cadre_table_load_t *load;
    void *copy; /* of a page, aligned */
    size_t copy_size;
} filling_t;

static void
filling_fini(filling_t *self)
{
    free(self->copy);
}

/* Fails with CADRE_EFULL when the table has become too large. */
static int
check_size(const filling_t *self)
{
    const uint64_t size_bytes = cadre_table_figures(self->table).size_bytes;
    if (size_bytes > self->load->size_bytes_max) {
        return cadre_fail(CADRE_EFULL, "its rows take more than the %llu bytes that are left",
                          (unsigned long long)self->load->size_bytes_max);
    }
    return 0;
}

/* Puts a page in its place. */
static int
take_page(void *context, const cadre_table_page_t *page)
{
    const filling_t *self = context;
    int status = cadre_table_load_page(self->table, page->position, page->bytes, page->size_bytes);
    return status < 0 ? status : check_size(self);
}

/* Takes the rows of a page that belong to this part. */
static int
adopt_page(void *context, const cadre_table_page_t *page)
{
    filling_t *self = context;
    const void *bytes = page->bytes;
    if ((uintptr_t)bytes % sizeof(uint64_t) != 0) {
        if (!self->copy) {
            self->copy_size = page->size_bytes;
            self->copy = cadre_aligned_alloc(page->size_bytes);
        }
        if (page->size_bytes > self->copy_size) {
            return cadre_fail(CADRE_ECORRUPT, "pages of a table are of several sizes");
        }
        memcpy(self->copy, bytes, page->size_bytes);
        bytes = self->copy;
    }
    int status = cadre_table_adopt_page(self->table, bytes, page->size_bytes, self->load->part,
                                        self->load->parts);
    return status < 0 ? status : check_size(self);
}

/* Loads the part as it was. */
static int
load_same(filling_t *self, const cadre_loader_t *loader, const cadre_give_up_t *give_up,
          cadre_table_base_t *base)
{
    const cadre_table_load_t *load = self->load;
    cadre_table_record_t record;
    cadre_table_page_t sightings;
    int status =
        loader->table(loader->context, load->name, load->part, give_up, &record, &sightings);
    if (status < 0) {
        return status;
    }
    status = cadre_table_check_record(self->table, &record);
    if (status < 0) {
        return status;
    }

    cadre_auto(cadre_chunk_unref) cadre_chunk_t *counters =
        sightings.bytes ? cadre_chunk_new_copy(sightings.bytes, sightings.size_bytes) : NULL;
    const cadre_table_snapshot_t snapshot = cadre_table_described(&record, counters);
    status = cadre_table_load_begin(self->table, &snapshot);
    if (status < 0) {
        return status;
    }
    status = loader->pages(loader->context, load->name, load->part, give_up, take_page, self);
    if (status < 0) {
        return status;
    }
    *base = (cadre_table_base_t){record.checkpoint, record.stamp};
    return cadre_table_load_end(self->table);
}

/* Takes what belongs to this part from another one that there was. */
static int
adopt_part(filling_t *self, uint32_t part, const cadre_loader_t *loader,
           const cadre_give_up_t *give_up)
{
    const cadre_table_load_t *load = self->load;
    cadre_table_record_t record;
    cadre_table_page_t sightings;
    int status = loader->table(loader->context, load->name, part, give_up, &record, &sightings);
    if (status < 0) {
        return status;
    }
    status = cadre_table_check_record(self->table, &record);
    if (status < 0) {
        return status;
    }
    const cadre_table_snapshot_t snapshot = cadre_table_described(&record, NULL);
    cadre_table_begin(self->table, record.checkpoint);
    cadre_table_adopt_counts(self->table, &snapshot.figures);
    return loader->pages(loader->context, load->name, part, give_up, adopt_page, self);
}

int
cadre_table_load(cadre_table_t *table, const cadre_table_load_t *load, uint32_t stored,
                 const cadre_loader_t *loader, const cadre_give_up_t *give_up,
                 cadre_table_base_t *base)
{
    cadre_auto(filling_fini) filling_t self = {.table = table, .load = load};
    *base = (cadre_table_base_t){.checkpoint = 0};
    if (stored == load->parts) {
        return load_same(&self, loader, give_up, base);
    }

    int status = 0;
    for (uint32_t part = 0; part < stored && status == 0; part++) {
        status = adopt_part(&self, part, loader, give_up);
    }
    return status;
}
