#include "ps/core/table/row_eviction.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/bf16.h"

enum { WORD_BITS = 64 };

void
cadre_row_eviction_init(cadre_row_eviction_t *self, const cadre_table_spec_t *spec)
{
    *self = (cadre_row_eviction_t){.row = cadre_calloc(spec->dim, sizeof(float))};
}

int
cadre_row_eviction_load(cadre_row_eviction_t *self, uint32_t victim_hand, uint32_t expiry_hand,
                        uint64_t end)
{
    if ((victim_hand > 0 && victim_hand >= end) || (expiry_hand > 0 && expiry_hand >= end)) {
        return cadre_fail(CADRE_ECORRUPT, "hands at rows %u and %u of %llu", victim_hand,
                          expiry_hand, (unsigned long long)end);
    }
    self->victim_hand = victim_hand;
    self->expiry_hand = expiry_hand;
    return 0;
}

void
cadre_row_eviction_fini(cadre_row_eviction_t *self)
{
    free(self->row);
    self->row = NULL;
}

/* Moves a hand on; returns where it was. */
static uint32_t
advance(uint32_t *hand, const cadre_row_pages_t *pages)
{
    const uint32_t row = *hand;
    *hand = row + 1 < cadre_row_pages_end(pages) ? row + 1 : 0;
    return row;
}

/* Returns whether row `left` is to go rather than `right`. */
static bool
goes_before(const cadre_table_spec_t *spec, uint32_t step, const cadre_row_pages_t *pages,
            uint32_t left, uint32_t right)
{
    if (spec->when_full == CADRE_TABLE_EVICT_LFU) {
        const uint32_t left_uses = cadre_row_pages_uses(pages, left);
        const uint32_t right_uses = cadre_row_pages_uses(pages, right);
        if (left_uses != right_uses) {
            return left_uses < right_uses;
        }
    }
    return step - cadre_row_pages_step(pages, left) > step - cadre_row_pages_step(pages, right);
}

void
cadre_row_eviction_begin_naming(cadre_row_eviction_t *self, uint64_t rows)
{
    self->named = cadre_calloc(rows / WORD_BITS + 1, sizeof(*self->named));
}

void
cadre_row_eviction_name(cadre_row_eviction_t *self, uint32_t row)
{
    self->named[row / WORD_BITS] |= UINT64_C(1) << row % WORD_BITS;
}

void
cadre_row_eviction_end_naming(cadre_row_eviction_t *self)
{
    cadre_free(&self->named);
}

/* Returns whether an assignment takes rows that the newest update has changed, or one before it. */
static bool
takes_newest(const cadre_row_eviction_t *self, uint32_t step)
{
    return self->named && self->has_no_older && self->no_older_step == step;
}

/* Returns whether a row may not go. */
static bool
stays(const cadre_row_eviction_t *self, uint32_t step, const cadre_row_pages_t *pages, uint32_t row)
{
    if (cadre_row_pages_step(pages, row) == step && !takes_newest(self, step)) {
        return true;
    }
    return self->named && (self->named[row / WORD_BITS] >> row % WORD_BITS & 1) != 0;
}

/* Looks at a sample of rows, and on until one was found that may go. Rows that are not in use do
 * not count. Uses are halved when the victim is known: they are compared as they were. */
static uint32_t
find_in_sample(cadre_row_eviction_t *self, const cadre_table_spec_t *spec, uint32_t step,
               cadre_row_pages_t *pages)
{
    const uint64_t end = cadre_row_pages_end(pages);
    const int size = takes_newest(self, step) ? 1 : CADRE_EVICTION_SAMPLE;
    uint32_t sample[CADRE_EVICTION_SAMPLE];
    uint32_t victim = UINT32_MAX;
    int seen = 0;
    for (uint64_t visits = 0; visits < end && seen < size; visits++) {
        const uint32_t row = advance(&self->victim_hand, pages);
        if (!cadre_row_pages_used(pages, row) || stays(self, step, pages, row)) {
            continue;
        }

        sample[seen++] = row;
        if (victim == UINT32_MAX || goes_before(spec, step, pages, row, victim)) {
            victim = row;
        }
    }

    for (int i = 0; i < seen; i++) {
        cadre_row_pages_halve(pages, sample[i]);
    }
    return victim;
}

uint32_t
cadre_row_eviction_victim(cadre_row_eviction_t *self, const cadre_table_spec_t *spec, uint32_t step,
                          cadre_row_pages_t *pages)
{
    const uint32_t victim = find_in_sample(self, spec, step, pages);
    if (victim != UINT32_MAX || !self->named || takes_newest(self, step)) {
        return victim;
    }
    self->has_no_older = true;
    self->no_older_step = step;
    return find_in_sample(self, spec, step, pages);
}

/* Returns the Euclidean norm of a row. */
static double
norm_of(const cadre_row_eviction_t *self, const cadre_table_spec_t *spec,
        const cadre_row_pages_t *pages, uint32_t row)
{
    const float *values = cadre_row_pages_read(pages, row, -1);
    if (spec->storage == CADRE_BF16) {
        cadre_bf16_to_f32(values, self->row, spec->dim);
        values = self->row;
    }

    double sum = 0;
    for (uint32_t i = 0; i < spec->dim; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    return sqrt(sum);
}

uint32_t
cadre_row_eviction_expired(cadre_row_eviction_t *self, const cadre_table_spec_t *spec,
                           uint32_t step, const cadre_row_pages_t *pages, uint64_t *visits)
{
    while (*visits > 0 && cadre_row_pages_end(pages) > 0) {
        --*visits;
        const uint32_t row = advance(&self->expiry_hand, pages);
        if (!cadre_row_pages_used(pages, row) || cadre_row_pages_step(pages, row) == step) {
            continue;
        }

        const uint32_t age = step - cadre_row_pages_step(pages, row);
        if ((spec->age_max > 0 && age > spec->age_max) ||
            (spec->norm_min > 0 && norm_of(self, spec, pages, row) < spec->norm_min)) {
            return row;
        }
    }
    return UINT32_MAX;
}
