#include "ps/core/table_load.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

/* A table that is being filled. */
typedef struct {
    cadre_table_t *table;
    const cadre_table_load_t *load;
    const cadre_loader_t *loader;
    const cadre_give_up_t *give_up;
    const cadre_stored_rows_t *stored; /* how the pages at hand lie */
    void *copy;                        /* of a page, aligned */
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
    int status = cadre_table_adopt_page(self->table, self->stored, bytes, page->size_bytes,
                                        self->load->part, self->load->parts);
    return status < 0 ? status : check_size(self);
}

/* Visits the pages of a part. */
static int
each_page(filling_t *self, uint32_t part,
          int (*visit)(void *context, const cadre_table_page_t *page))
{
    return self->loader->pages(self->loader->context, self->load->name, part, self->give_up, visit,
                               self);
}

/* A part of the table as the checkpoint has it. */
typedef struct {
    cadre_table_record_t record;
    cadre_stored_rows_t rows;
} stored_part_t;

static void
stored_part_fini(stored_part_t *self)
{
    cadre_stored_rows_fini(&self->rows);
}

/* Reads how a part is described, and compares it with the table. */
static int
describe(const filling_t *self, uint32_t part, stored_part_t *out)
{
    int status = self->loader->table(self->loader->context, self->load->name, part, self->give_up,
                                     &out->record);
    return status < 0 ? status : cadre_table_compare(self->table, &out->record, &out->rows);
}

/* Loads the part as it was. */
static int
load_same(filling_t *self, const stored_part_t *stored, cadre_table_base_t *base)
{
    const cadre_table_snapshot_t snapshot = cadre_table_described(&stored->record);
    int status = cadre_table_load_begin(self->table, &snapshot);
    if (status < 0) {
        return status;
    }
    status = each_page(self, self->load->part, take_page);
    if (status < 0) {
        return status;
    }
    *base = (cadre_table_base_t){stored->record.checkpoint, stored->record.stamp};
    return cadre_table_load_end(self->table);
}

/* Takes what belongs to this part from one that there was. */
static int
adopt_part(filling_t *self, uint32_t part, const stored_part_t *stored)
{
    const cadre_table_snapshot_t snapshot = cadre_table_described(&stored->record);
    self->stored = &stored->rows;
    cadre_table_begin(self->table, stored->record.checkpoint);
    cadre_table_adopt_counts(self->table, self->stored, &snapshot.figures);
    return each_page(self, part, adopt_page);
}

/* Takes the rows of another part. */
static int
take_part(filling_t *self, uint32_t part)
{
    cadre_auto(stored_part_fini) stored_part_t stored = {.rows = {.same = false}};
    int status = describe(self, part, &stored);
    return status < 0 ? status : adopt_part(self, part, &stored);
}

static int
take_block(void *context, const cadre_table_page_t *block)
{
    return cadre_sighting_sketch_load(context, block->position, block->bytes, block->size_bytes);
}

/* Goes on with the sightings of the part, where both the table and the checkpoint count them. */
static int
load_sightings(const filling_t *self, const stored_part_t *stored)
{
    const cadre_table_record_t *record = &stored->record;
    if (record->sighting_layers == 0 || cadre_table_get_spec(self->table)->admit_after <= 1) {
        return 0;
    }

    cadre_auto(cadre_sighting_sketch_destroy) cadre_sighting_sketch_t *sketch = NULL;
    int status =
        cadre_sighting_sketch_restore(record->sighting_layers, record->sighting_keys, &sketch);
    if (status < 0) {
        return status;
    }
    status = self->loader->sightings(self->loader->context, self->load->name, self->load->part,
                                     self->give_up, take_block, sketch);
    if (status < 0) {
        return status;
    }
    cadre_table_take_sightings(self->table, &sketch);
    return check_size(self);
}

/* Takes all that there was of this very part. */
static int
take_own(filling_t *self, cadre_table_base_t *base)
{
    cadre_auto(stored_part_fini) stored_part_t stored = {.rows = {.same = false}};
    int status = describe(self, self->load->part, &stored);
    if (status < 0) {
        return status;
    }
    status = stored.rows.same ? load_same(self, &stored, base)
                              : adopt_part(self, self->load->part, &stored);
    return status < 0 ? status : load_sightings(self, &stored);
}

int
cadre_table_load(cadre_table_t *table, const cadre_table_load_t *load, uint32_t stored,
                 const cadre_loader_t *loader, const cadre_give_up_t *give_up,
                 cadre_table_base_t *base)
{
    cadre_auto(filling_fini)
        filling_t self = {.table = table, .load = load, .loader = loader, .give_up = give_up};
    *base = (cadre_table_base_t){.checkpoint = 0};
    if (stored == load->parts) {
        return take_own(&self, base);
    }

    int status = 0;
    for (uint32_t part = 0; part < stored && status == 0; part++) {
        status = take_part(&self, part);
    }
    return status;
}
