/* Clipping by value where a partition is updated: of one gradient, of a weighted sum, and of what
 * was converted; against w -= max(-limit, min(limit, sum)), in numbers that f32 and bf16 hold. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "ps/core/partition.h"
#include "ps/core/update.h"

TestSuite(partition_clip, .timeout = 240);

enum { COUNT = 9001 }; /* two blocks and some */

static const float LIMIT = 0.5F;

/* From -2 to 2 in quarters, another one for each term. */
static float
gradient_at(size_t term, size_t i)
{
    return (float)((int)((i * (term + 3)) % 17) - 8) * 0.25F;
}

static cadre_partition_t *
open_partition(cadre_dtype_t wire, double clip_value, double lambda, cadre_chunk_pool_t *pool)
{
    cadre_partition_spec_t spec = {.variable = 1,
                                   .dtype = CADRE_F32,
                                   .wire = wire,
                                   .rank = 1,
                                   .shape = {COUNT},
                                   .rows = COUNT};
    cadre_partition_t *partition = NULL;
    cr_assert_eq(cadre_initializer_spec_parse(&spec.initializer, "zeros"), 0);
    cr_assert_eq(cadre_optimizer_spec_parse(&spec.optimizer, "sgd"), 0);
    cr_assert_eq(cadre_optimizer_spec_set(&spec.optimizer, "learning_rate", 1), 0);
    spec.optimizer.clip_value = clip_value;
    spec.optimizer.delay_compensation = lambda;
    cr_assert_eq(cadre_partition_open(&partition, &spec, pool), 0, "%s", cadre_error_text());
    return partition;
}

static cadre_chunk_t *
new_chunk(const float *numbers, cadre_dtype_t wire)
{
    cadre_chunk_t *chunk = cadre_chunk_new(COUNT * cadre_dtype_size(wire));
    if (wire == CADRE_F32) {
        memcpy(cadre_chunk_data(chunk), numbers, COUNT * sizeof(float));
    } else {
        cr_assert(cadre_dtype_traits(wire)->from_f32(numbers, cadre_chunk_data(chunk), COUNT));
    }
    return chunk;
}

static cadre_chunk_t *
new_gradient(size_t term, cadre_dtype_t wire)
{
    float numbers[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        numbers[i] = gradient_at(term, i);
    }
    return new_chunk(numbers, wire);
}

/* Updates once with `terms` gradients of equal weight. */
static void
update(cadre_partition_t *partition, size_t terms, cadre_dtype_t wire)
{
    cadre_chunk_t *chunks[2] = {NULL};
    cadre_gradient_term_t list[2];
    for (size_t term = 0; term < terms; term++) {
        chunks[term] = new_gradient(term, wire);
        list[term] = (cadre_gradient_term_t){.chunks = &chunks[term], .weight = 1 / (float)terms};
    }
    size_t count = cadre_partition_piece_count(partition);
    cadre_auto(cadre_free) cadre_partition_piece_t *pieces = cadre_calloc(count, sizeof(*pieces));
    cadre_partition_begin_apply(partition, &(cadre_gradient_sum_t){list, terms}, pieces);
    for (size_t i = 0; i < count; i++) {
        cadre_partition_apply_piece(&pieces[i]);
    }
    cadre_partition_end_apply(partition);
    for (size_t term = 0; term < terms; term++) {
        cadre_chunk_unref(&chunks[term]);
    }
}

static void
check(size_t terms, cadre_dtype_t wire, double clip_value)
{
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(CADRE_CHUNK_POOL_SIZE_MAX);
    cadre_partition_t *partition = open_partition(wire, clip_value, 0, pool);
    update(partition, terms, wire);
    cadre_chunk_t *values = NULL;
    cadre_partition_pull(partition, &values);
    for (size_t i = 0; i < COUNT; i++) {
        float sum = 0;
        for (size_t term = 0; term < terms; term++) {
            sum += gradient_at(term, i) / (float)terms;
        }
        float wanted = clip_value > 0 ? fmaxf(-LIMIT, fminf(LIMIT, sum)) : sum;
        float found = ((const float *)cadre_chunk_data(values))[i];
        cr_assert_eq(found, -wanted, "%zu terms, %s, element %zu: %g, not %g", terms,
                     cadre_dtype_text(wire), i, (double)found, (double)-wanted);
    }
    cadre_chunk_unref(&values);
    cadre_partition_close(&partition);
    cadre_chunk_pool_destroy(&pool);
}

Test(partition_clip, limits_each_element_of_what_the_optimizer_sees)
{
    static const cadre_dtype_t wires[] = {CADRE_F32, CADRE_BF16};
    for (size_t terms = 1; terms <= 2; terms++) {
        for (size_t i = 0; i < CADRE_COUNT_OF(wires); i++) {
            check(terms, wires[i], (double)LIMIT);
            check(terms, wires[i], 0);
        }
    }
}

Test(partition_clip, refuses_limits_that_are_none)
{
    cadre_optimizer_spec_t spec;
    cr_assert_eq(cadre_optimizer_spec_parse(&spec, "adam"), 0);
    spec.clip_value = -1;
    cr_assert_eq(cadre_optimizer_spec_check(&spec, CADRE_F32), CADRE_EINVALID);
    spec.clip_value = (double)INFINITY;
    cr_assert_eq(cadre_optimizer_spec_check(&spec, CADRE_F32), CADRE_EINVALID);
    spec.clip_value = (double)NAN;
    cr_assert_eq(cadre_optimizer_spec_check(&spec, CADRE_F32), CADRE_EINVALID);
    spec.clip_value = 1;
    cr_assert_eq(cadre_optimizer_spec_check(&spec, CADRE_F32), 0);
    cr_assert_eq(cadre_optimizer_spec_parse(&spec, "add"), 0);
    spec.clip_value = 1;
    cr_assert_eq(cadre_optimizer_spec_check(&spec, CADRE_F32), CADRE_EINVALID);
}

static cadre_chunk_t *
new_ones(cadre_dtype_t wire)
{
    float ones[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        ones[i] = 1;
    }
    return new_chunk(ones, wire);
}

/* Updates with a gradient that was computed from the values of `version`. */
static void
apply_late(cadre_partition_t *partition, cadre_chunk_t *gradient, uint64_t version)
{
    static const cadre_lanes_t none = {.run = NULL};
    cadre_update_t update = {.parts = NULL};
    cadre_update_add(&update, partition, &gradient);
    cadre_update_compensate(&update, cadre_partition_pulled(partition, version));
    cadre_update_apply(&update, &none);
    cadre_update_fini(&update);
}

/* From 0 the values have moved to -1, or with clipping to -limit, when a gradient g comes late. The
 * optimizer sees max(-limit, min(limit, g + lambda g^2 moved)), here with a lambda of 0.25. */
Test(partition_clip, limits_what_compensating_a_delay_has_made_of_a_gradient)
{
    static const cadre_dtype_t wires[] = {CADRE_F32, CADRE_BF16};
    for (size_t w = 0; w < CADRE_COUNT_OF(wires) * 2; w++) {
        const cadre_dtype_t wire = wires[w / 2];
        const bool clips = w % 2 == 1;
        cadre_chunk_pool_t *pool = cadre_chunk_pool_new(CADRE_CHUNK_POOL_SIZE_MAX);
        cadre_partition_t *partition = open_partition(wire, clips ? (double)LIMIT : 0, 0.25, pool);
        cadre_partition_note_pulled(partition);
        const float moved = clips ? -LIMIT : -1;
        cadre_chunk_t *gradient = new_ones(wire);
        apply_late(partition, gradient, 0);
        cadre_chunk_unref(&gradient);
        gradient = new_gradient(0, wire);
        apply_late(partition, gradient, 0);

        float found[COUNT];
        cadre_partition_copy(partition, -1, 0, COUNT, found);
        for (size_t i = 0; i < COUNT; i++) {
            const float g = gradient_at(0, i);
            const float seen = g + 0.25F * g * g * moved;
            const float wanted = moved - (clips ? fmaxf(-LIMIT, fminf(LIMIT, seen)) : seen);
            cr_assert_eq(found[i], wanted, "%s, element %zu: %g, not %g", cadre_dtype_text(wire), i,
                         (double)found[i], (double)wanted);
        }
        cadre_chunk_unref(&gradient);
        cadre_partition_close(&partition);
        cadre_chunk_pool_destroy(&pool);
    }
}
