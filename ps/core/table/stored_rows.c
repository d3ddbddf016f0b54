#include "ps/core/table/stored_rows.h"

#include <string.h>

#include "common/base/status.h"
#include "common/tensor/dtype.h"

/* Returns a store without rows whose pages lie as described; NULL when no table has such. */
static cadre_row_pages_t *
layout_of(const cadre_table_record_t *stored, bool has_uses)
{
    cadre_row_layout_t layout = {
        .value_size = stored->dim * cadre_dtype_size((cadre_dtype_t)stored->storage),
        .slot_count = stored->slots,
        .has_uses = has_uses,
    };
    for (size_t s = 0; s < layout.slot_count; s++) {
        layout.slot_sizes[s] = stored->slot_width * sizeof(float);
    }

    cadre_row_pages_t *pages = cadre_row_pages_new(&layout, NULL);
    if (stored->page_rows != cadre_row_pages_per_page(pages) ||
        stored->page_size != cadre_row_pages_page_size(pages) ||
        stored->value_offset != cadre_row_pages_value_offset(pages) ||
        stored->used_offset != cadre_row_pages_used_offset(pages)) {
        cadre_row_pages_destroy(&pages);
    }
    return pages;
}

/* Returns whether the optimizer is one of tables, and has as many slots, of such a width, as
 * described. */
static bool
has_its_slots(const cadre_table_record_t *stored)
{
    cadre_table_spec_t spec = cadre_table_spec((uint32_t)stored->dim);
    const char *optimizer = cadre_optimizer_kind_text((cadre_optimizer_kind_t)stored->optimizer);
    return stored->optimizer <= INT32_MAX &&
           cadre_optimizer_spec_parse(&spec.optimizer, optimizer) == 0 &&
           cadre_table_spec_check(&spec) == 0 &&
           stored->slots == cadre_optimizer_slot_count(&spec.optimizer) &&
           (stored->slot_width == stored->dim || stored->slot_width == 1);
}

/* Says which slot of the stored rows each slot of the table is. */
static void
match_slots(cadre_stored_rows_t *self, const cadre_table_record_t *stored,
            const cadre_table_record_t *own)
{
    const cadre_optimizer_spec_t before = {.kind = (cadre_optimizer_kind_t)stored->optimizer};
    const cadre_optimizer_spec_t now = {.kind = (cadre_optimizer_kind_t)own->optimizer};
    size_t found = 0;
    for (size_t s = 0; s < own->slots; s++) {
        self->source.slots[s] = -1;
        for (size_t k = 0; k < stored->slots && stored->slot_width == own->slot_width; k++) {
            if (strcmp(cadre_optimizer_slot_name(&now, s), cadre_optimizer_slot_name(&before, k)) ==
                0) {
                self->source.slots[s] = (int)k;
                found++;
            }
        }
    }
    self->source.keeps_steps = found == own->slots;
    for (size_t s = 0; s < own->slots && !self->source.keeps_steps; s++) {
        self->source.slots[s] = -1;
    }
}

int
cadre_stored_rows_init(cadre_stored_rows_t *self, const cadre_table_record_t *stored,
                       const cadre_table_record_t *own)
{
    if (stored->dim != own->dim) {
        return cadre_fail(CADRE_ESHAPE,
                          "its rows have %llu numbers in the checkpoint, and %llu here",
                          (unsigned long long)stored->dim, (unsigned long long)own->dim);
    }
    if (stored->storage != own->storage) {
        return cadre_fail(CADRE_ESHAPE,
                          "its rows were kept as %s, not %s: \"storage\" must be that "
                          "of the checkpoint",
                          cadre_dtype_text((cadre_dtype_t)stored->storage),
                          cadre_dtype_text((cadre_dtype_t)own->storage));
    }

    *self = (cadre_stored_rows_t){.same = false};
    if (has_its_slots(stored)) {
        self->layout = layout_of(stored, false);
        self->layout = self->layout ? self->layout : layout_of(stored, true);
    }
    if (!self->layout) {
        return cadre_fail(CADRE_ECORRUPT, "no table has such pages");
    }
    self->source.pages = self->layout;
    match_slots(self, stored, own);
    self->same = self->source.keeps_steps && stored->slots == own->slots &&
                 stored->page_rows == own->page_rows && stored->page_size == own->page_size &&
                 stored->value_offset == own->value_offset;
    return 0;
}

void
cadre_stored_rows_fini(cadre_stored_rows_t *self)
{
    cadre_row_pages_destroy(&self->layout);
}
