#include "tests/sim/sim_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/tensor/split.h"
#include "common/tensor/tensor.h"
#include "tests/sim/sim_table.h"

int64_t
sim_weight(int64_t element)
{
    return 1 + element % SIM_WEIGHTS;
}

/* The nearest number of 8 bits, ties to even: what bf16 holds. */
double
sim_round_to_bf16(double value)
{
    int exponent = 0;
    double fraction = frexp(value, &exponent);
    return ldexp(nearbyint(ldexp(fraction, 8)), exponent - 8);
}

void
sim_put(cadre_dtype_t dtype, void *bytes, int64_t at, int64_t value)
{
    if (dtype == CADRE_BF16) {
        float rounded = (float)sim_round_to_bf16((double)value);
        memcpy((char *)bytes + 2 * at, (char *)&rounded + 2, 2);
    } else if (dtype == CADRE_F32) {
        ((float *)bytes)[at] = (float)value;
    } else if (dtype == CADRE_F64) {
        ((double *)bytes)[at] = (double)value;
    } else if (dtype == CADRE_I32) {
        ((int32_t *)bytes)[at] = (int32_t)value;
    } else {
        cadre_assert(dtype == CADRE_I64);
        ((int64_t *)bytes)[at] = value;
    }
}

double
sim_get(cadre_dtype_t dtype, const void *bytes, int64_t at)
{
    if (dtype == CADRE_F32) {
        return (double)((const float *)bytes)[at];
    }
    if (dtype == CADRE_F64) {
        return ((const double *)bytes)[at];
    }
    if (dtype == CADRE_BF16) {
        float number = 0;
        memcpy((char *)&number + 2, (const char *)bytes + 2 * at, 2);
        return (double)number;
    }
    return dtype == CADRE_I32 ? (double)((const int32_t *)bytes)[at]
                              : (double)((const int64_t *)bytes)[at];
}

size_t
sim_variable_size_bytes(const sim_variable_t *self)
{
    return self->row_size_bytes * (size_t)self->rows;
}

/* k * sim_weight(i) for the whole variable, in `dtype`. */
static cadre_chunk_t *
new_values(const sim_variable_t *self, cadre_dtype_t dtype, int64_t k)
{
    size_t count = sim_variable_size_bytes(self) / cadre_dtype_size(self->definition.dtype);
    cadre_chunk_t *chunk = cadre_chunk_new(count * cadre_dtype_size(dtype));
    for (size_t i = 0; i < count; i++) {
        sim_put(dtype, cadre_chunk_data(chunk), (int64_t)i, k * sim_weight((int64_t)i));
    }
    return chunk;
}

bool
sim_is_zero(const sim_variable_t *self, int64_t strength, int64_t element)
{
    return self->definition.momentum > 0 && (element + strength) % SIM_WEIGHTS > 1;
}

/* The gradient of a strength for the whole variable, as it travels; `sign` is that of the
 * optimizer. */
static cadre_chunk_t *
new_gradient(const sim_variable_t *self, int64_t sign, int64_t strength)
{
    cadre_chunk_t *chunk = new_values(self, self->wire, sign * strength);
    const size_t count = cadre_chunk_size_bytes(chunk) / cadre_dtype_size(self->wire);
    for (int64_t i = 0; i < (int64_t)count; i++) {
        if (sim_is_zero(self, strength, i)) {
            sim_put(self->wire, cadre_chunk_data(chunk), i, 0);
        }
    }
    return chunk;
}

void *
sim_variable_values(const sim_variable_t *self, int64_t k)
{
    cadre_chunk_t *chunk = new_values(self, self->definition.dtype, k);
    void *bytes = cadre_aligned_alloc(sim_variable_size_bytes(self));
    memcpy(bytes, cadre_chunk_data(chunk), sim_variable_size_bytes(self));
    cadre_chunk_unref(&chunk);
    return bytes;
}

void
sim_variable_lay(sim_variable_t *self, const cadre_variable_t *variable)
{
    self->part_count = variable->partitions;
    self->parts = cadre_calloc(self->part_count, sizeof(*self->parts));
    int64_t row = (int64_t)(variable->row_size_bytes / cadre_dtype_size(variable->dtype));
    for (uint32_t i = 0; i < self->part_count; i++) {
        sim_part_t *part = &self->parts[i];
        part->shard = variable->shards[i];
        part->first = row * cadre_split_first(variable->rows, variable->partitions, i);
        part->count = row * cadre_split_rows(variable->rows, variable->partitions, i);
        part->keys = self->dim > 0 ? sim_keys_of_shard(self->keys, i, self->part_count) : 0;
    }
}

void
sim_variable_init(sim_variable_t *self, const cadre_variable_t *variable,
                  const sim_definition_t *definition)
{
    *self = (sim_variable_t){.id = variable->id,
                             .definition = *definition,
                             .rows = variable->rows,
                             .row_size_bytes = variable->row_size_bytes,
                             .wire = variable->wire,
                             .has_slot = variable->optimizer.kind == CADRE_OPTIMIZER_MOMENTUM &&
                                         !definition->is_table};
    snprintf(self->name, sizeof(self->name), "%s", variable->name);
    sim_variable_lay(self, variable);
    /* All but `add` subtract, with a learning rate of 1. */
    int64_t sign = variable->optimizer.kind == CADRE_OPTIMIZER_ADD ? 1 : -1;
    if (definition->is_table) {
        sim_table_init(self, variable);
        return;
    }
    for (int64_t k = 1; k <= SIM_STRENGTHS && !definition->too_large; k++) {
        self->gradients[k] = new_gradient(self, sign, k);
    }
}

void
sim_variable_fini(sim_variable_t *self)
{
    free(self->parts);
    free(self->firsts);
    for (int k = 1; k <= SIM_STRENGTHS; k++) {
        cadre_chunk_unref(&self->gradients[k]);
    }
}

bool
sim_variable_is(const sim_variable_t *self, const cadre_variable_t *variable)
{
    bool same = self->id == variable->id && self->part_count == variable->partitions &&
                self->rows == variable->rows && self->row_size_bytes == variable->row_size_bytes;
    for (uint32_t i = 0; same && i < self->part_count; i++) {
        same = self->parts[i].shard == variable->shards[i];
    }
    return same;
}

bool
sim_is_finite(cadre_dtype_t dtype, const void *bytes)
{
    return isfinite(sim_get(dtype, bytes, 0));
}

void
sim_make_infinite(cadre_dtype_t dtype, void *bytes, int64_t element)
{
    cadre_assert(dtype == CADRE_F32 || dtype == CADRE_F64);
    if (dtype == CADRE_F32) {
        ((float *)bytes)[element] = INFINITY;
    } else {
        ((double *)bytes)[element] = (double)INFINITY;
    }
}

int64_t
sim_guess(cadre_dtype_t dtype, const void *bytes, int64_t first)
{
    return (int64_t)(sim_get(dtype, bytes, 0) / (double)sim_weight(first));
}

/* --- numbers --- */

sim_number_t
sim_number(int64_t n)
{
    return (sim_number_t){.n = n};
}

sim_number_t
sim_number_first(const sim_variable_t *variable)
{
    const bool is_compensated = variable->definition.delay_compensation > 0;
    return (sim_number_t){.is_moved = is_compensated || variable->definition.momentum > 0,
                          .is_compensated = is_compensated};
}

/* Gradients are taken off with a learning rate of 1: what is added is minus the gradient. */
sim_number_t
sim_number_push(sim_number_t *self, const sim_variable_t *variable, int64_t strength,
                const sim_number_t *last, const sim_number_t *pulled)
{
    const float lambda = (float)variable->definition.delay_compensation;
    const float momentum = (float)variable->definition.momentum;
    sim_number_t added = {.n = strength, .is_moved = self->is_moved};
    self->n += strength;
    for (int i = 0; self->is_moved && i < SIM_WEIGHTS; i++) {
        const bool is_zero = sim_is_zero(variable, strength, i);
        const float gradient = is_zero ? 0 : (float)(-strength * sim_weight(i));
        const float delay = pulled ? self->moved[i] - pulled->moved[i] : 0;
        added.moved[i] =
            momentum * last->moved[i] - (gradient + lambda * gradient * gradient * delay);
        self->moved[i] += added.moved[i];
    }
    return added;
}

/* What an assignment of `given` makes of a value. */
static double
assigned(cadre_assign_mode_t mode, double value, double given)
{
    switch (mode) {
    case CADRE_ASSIGN_SET:
        return given;
    case CADRE_ASSIGN_ADD:
        return value + given;
    case CADRE_ASSIGN_SUB:
        return value - given;
    case CADRE_ASSIGN_MIN:
        return given < value ? given : value;
    case CADRE_ASSIGN_MAX:
        return given > value ? given : value;
    case CADRE_ASSIGN_MUL:
    case CADRE_ASSIGN_DIV:
        break;
    }
    return -1;
}

void
sim_number_assign(sim_number_t *self, cadre_assign_mode_t mode, int64_t k)
{
    self->n = (int64_t)assigned(mode, (double)self->n, (double)k);
    for (int i = 0; self->is_moved && i < SIM_WEIGHTS; i++) {
        const double given = (double)(k * sim_weight(i));
        self->moved[i] = (float)assigned(mode, (double)self->moved[i], given);
    }
}

static double
expected(cadre_dtype_t dtype, const sim_number_t *number, int64_t element)
{
    double value = number->is_moved ? (double)number->moved[element % SIM_WEIGHTS]
                                    : (double)(number->n * sim_weight(element));
    return dtype == CADRE_BF16 ? sim_round_to_bf16(value) : value;
}

int64_t
sim_differs(cadre_dtype_t dtype, const void *bytes, int64_t first, int64_t count,
            const sim_number_t *number)
{
    /* The pattern repeats: compare its first round by value, the rest with that round. */
    int64_t round = count < SIM_WEIGHTS ? count : SIM_WEIGHTS;
    for (int64_t i = 0; i < round; i++) {
        if (sim_get(dtype, bytes, i) != expected(dtype, number, first + i)) {
            return i;
        }
    }
    size_t size_bytes = cadre_dtype_size(dtype);
    size_t period = size_bytes * SIM_WEIGHTS;
    if (count <= SIM_WEIGHTS ||
        memcmp(bytes, (const char *)bytes + period, (size_t)count * size_bytes - period) == 0) {
        return -1;
    }
    for (int64_t i = round; i < count; i++) {
        if (sim_get(dtype, bytes, i) != expected(dtype, number, first + i)) {
            return i;
        }
    }
    return -1;
}
