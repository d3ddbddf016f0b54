#include "ps/core/partition.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"

TestSuite(partition, .timeout = 240);

enum { ROWS = 10, ROW = 65536, CHUNKS = 3 }; /* 4 rows of 256 KiB in a chunk: 4 + 4 + 2 */

static cadre_partition_spec_t
make_spec(const char *optimizer)
{
    cadre_partition_spec_t spec = {
        .variable = 3,
        .partition = 1,
        .dtype = CADRE_F32,
        .rank = 2,
        .shape = {2 * ROWS, ROW},
        .first_row = ROWS,
        .rows = ROWS,
    };
    cr_assert_eq(cadre_initializer_spec_parse(&spec.initializer, "normal"), 0);
    spec.initializer.seed = 5;
    cr_assert_eq(cadre_optimizer_spec_parse(&spec.optimizer, optimizer), 0);
    return spec;
}

typedef struct {
    cadre_chunk_pool_t *pool;
    cadre_partition_t *partition;
    cadre_chunk_t *gradient[CHUNKS]; /* all ones but for the places that a test changes */
} fixture_t;

static void
fixture_init(fixture_t *self, const char *optimizer)
{
    const cadre_partition_spec_t spec = make_spec(optimizer);
    self->pool = cadre_chunk_pool_new(CADRE_CHUNK_POOL_SIZE_MAX);
    cr_assert_eq(cadre_partition_open(&self->partition, &spec, self->pool), 0);
    for (size_t k = 0; k < CHUNKS; k++) {
        size_t size_bytes = cadre_chunk_layout_size(cadre_partition_layout(self->partition), k);
        self->gradient[k] = cadre_chunk_new(size_bytes);
        float *numbers = cadre_chunk_data(self->gradient[k]);
        for (size_t i = 0; i < size_bytes / sizeof(float); i++) {
            numbers[i] = 1;
        }
    }
}

static void
fixture_fini(fixture_t *self)
{
    for (size_t k = 0; k < CHUNKS; k++) {
        cadre_chunk_unref(&self->gradient[k]);
    }
    cadre_partition_close(&self->partition);
    cadre_chunk_pool_destroy(&self->pool);
}

static void
drop(cadre_chunk_t **chunks)
{
    for (size_t k = 0; k < CHUNKS; k++) {
        cadre_chunk_unref(&chunks[k]);
    }
}

/* Where the values are; the references are given back at once. */
static void
places(const cadre_partition_t *partition, void **data)
{
    cadre_chunk_t *chunks[CHUNKS];
    cadre_partition_pull(partition, chunks);
    for (size_t k = 0; k < CHUNKS; k++) {
        data[k] = cadre_chunk_data(chunks[k]);
    }
    drop(chunks);
}

/* A copy of chunks' bytes, end to end; the caller frees it. */
static char *
copy_of(cadre_chunk_t *const *chunks)
{
    char *copy = cadre_calloc((size_t)ROWS * ROW, sizeof(float));
    size_t at = 0;
    for (size_t k = 0; k < CHUNKS; k++) {
        memcpy(copy + at, cadre_chunk_data(chunks[k]), cadre_chunk_size_bytes(chunks[k]));
        at += cadre_chunk_size_bytes(chunks[k]);
    }
    cr_assert_eq(at, (size_t)ROWS * ROW * sizeof(float));
    return copy;
}

static void
expect_bytes(cadre_chunk_t *const *chunks, const char *bytes, const char *what)
{
    cadre_auto(cadre_free) char *copy = copy_of(chunks);
    cr_assert(memcmp(copy, bytes, (size_t)ROWS * ROW * sizeof(float)) == 0, "%s", what);
}

static void
expect_everywhere(const cadre_partition_t *partition, float number)
{
    cadre_chunk_t *chunks[CHUNKS];
    cadre_partition_pull(partition, chunks);
    for (size_t k = 0; k < CHUNKS; k++) {
        const float *numbers = cadre_chunk_data(chunks[k]);
        for (size_t i = 0; i < cadre_chunk_size_bytes(chunks[k]) / sizeof(float); i++) {
            cr_assert_eq(numbers[i], number, "chunk %zu element %zu", k, i);
        }
    }
    drop(chunks);
}

Test(partition, begins_with_the_rows_of_the_whole_variable)
{
    fixture_t fixture;
    fixture_init(&fixture, "sgd");
    cr_assert_eq(cadre_partition_version(fixture.partition), 0);
    cr_assert_eq(cadre_partition_layout(fixture.partition)->count, CHUNKS);
    cadre_chunk_t *chunks[CHUNKS];
    cadre_partition_pull(fixture.partition, chunks);

    /* The whole variable as one partition holds the same numbers from row ROWS on. */
    cadre_partition_spec_t spec = make_spec("sgd");
    spec.partition = 0;
    spec.first_row = 0;
    spec.rows = 2 * ROWS;
    cadre_partition_t *whole = NULL;
    cr_assert_eq(cadre_partition_open(&whole, &spec, fixture.pool), 0);
    size_t chunk_count = cadre_partition_layout(whole)->count;
    cadre_chunk_t **whole_chunks = cadre_calloc(chunk_count, sizeof(*whole_chunks));
    cadre_partition_pull(whole, whole_chunks);
    cadre_auto(cadre_free) char *bytes = cadre_calloc(2 * (size_t)ROWS * ROW, sizeof(float));
    for (size_t k = 0; k < chunk_count; k++) {
        memcpy(bytes + cadre_chunk_layout_offset(cadre_partition_layout(whole), k),
               cadre_chunk_data(whole_chunks[k]), cadre_chunk_size_bytes(whole_chunks[k]));
        cadre_chunk_unref(&whole_chunks[k]);
    }
    expect_bytes(chunks, bytes + (size_t)ROWS * ROW * sizeof(float), "initial values");
    free(whole_chunks);
    drop(chunks);
    cadre_partition_close(&whole);
    fixture_fini(&fixture);
}

Test(partition, never_changes_what_was_pulled)
{
    static const char *const optimizers[] = {"sgd", "adam", "ftrl", "add"};
    for (size_t i = 0; i < CADRE_COUNT_OF(optimizers); i++) {
        fixture_t fixture;
        fixture_init(&fixture, optimizers[i]);
        enum { PULLS = 4 };
        cadre_chunk_t *pulled[PULLS][CHUNKS];
        char *copies[PULLS];
        for (int pull = 0; pull < PULLS; pull++) {
            cadre_partition_pull(fixture.partition, pulled[pull]);
            copies[pull] = copy_of(pulled[pull]);
            cr_assert(pull == 0 || memcmp(copies[pull], copies[pull - 1], ROW) != 0);
            cadre_partition_apply(fixture.partition, fixture.gradient);
            cadre_partition_apply(fixture.partition, fixture.gradient);
            cadre_partition_assign(fixture.partition, CADRE_ASSIGN_ADD, fixture.gradient);
            if (pull % 2) {
                cadre_partition_assign(fixture.partition, CADRE_ASSIGN_SET, fixture.gradient);
            }
        }
        for (int pull = 0; pull < PULLS; pull++) {
            expect_bytes(pulled[pull], copies[pull], optimizers[i]);
            free(copies[pull]);
            drop(pulled[pull]);
        }
        fixture_fini(&fixture);
    }
}

Test(partition, writes_in_place_when_alone_and_elsewhere_when_shared)
{
    fixture_t fixture;
    fixture_init(&fixture, "momentum");
    void *before[CHUNKS];
    void *after[CHUNKS];
    places(fixture.partition, before);
    cadre_partition_apply(fixture.partition, fixture.gradient);
    cadre_partition_assign(fixture.partition, CADRE_ASSIGN_SUB, fixture.gradient);
    places(fixture.partition, after);
    cr_assert_arr_eq(before, after, sizeof(before), "alone");
    cr_assert_eq(cadre_chunk_pool_size_bytes(fixture.pool), 0);

    /* One chunk shared: that one moves, and its slot, which nobody holds, does not. */
    cadre_partition_snapshot_t snapshot;
    cadre_partition_snapshot(fixture.partition, &snapshot);
    void *slot_before = cadre_chunk_data(snapshot.slots[0][1]);
    cadre_chunk_t *held = cadre_chunk_ref(snapshot.values[1]);
    cadre_partition_snapshot_fini(&snapshot);
    cadre_partition_apply(fixture.partition, fixture.gradient);
    places(fixture.partition, after);
    cr_assert_eq(after[0], before[0]);
    cr_assert_neq(after[1], before[1]);
    cr_assert_eq(after[2], before[2]);
    cadre_partition_snapshot(fixture.partition, &snapshot);
    cr_assert_eq(cadre_chunk_data(snapshot.slots[0][1]), slot_before);
    cadre_partition_snapshot_fini(&snapshot);

    /* Let go, its buffer serves the next update that needs one. */
    cadre_chunk_unref(&held);
    cadre_chunk_t *chunks[CHUNKS];
    cadre_partition_pull(fixture.partition, chunks);
    cadre_partition_apply(fixture.partition, fixture.gradient);
    void *last[CHUNKS];
    places(fixture.partition, last);
    cr_assert(last[0] == before[1] || last[1] == before[1]);
    drop(chunks);
    fixture_fini(&fixture);
}

Test(partition, reuses_buffers_instead_of_asking_for_memory)
{
    fixture_t fixture;
    fixture_init(&fixture, "sgd");
    void *seen[64];
    size_t seen_count = 0;
    for (int turn = 0; turn < 50; turn++) {
        cadre_chunk_t *chunks[CHUNKS];
        cadre_partition_pull(fixture.partition, chunks);
        cadre_partition_apply(fixture.partition, fixture.gradient);
        for (size_t k = 0; k < CHUNKS; k++) {
            bool known = false;
            for (size_t i = 0; i < seen_count; i++) {
                known |= seen[i] == cadre_chunk_data(chunks[k]);
            }
            if (!known) {
                cr_assert_lt(seen_count, CADRE_COUNT_OF(seen));
                seen[seen_count++] = cadre_chunk_data(chunks[k]);
            }
        }
        drop(chunks);
    }
    cr_assert_leq(seen_count, 3 * CHUNKS, "%zu buffers", seen_count);
    fixture_fini(&fixture);
}

Test(partition, gives_the_same_values_shared_or_alone)
{
    static const char *const optimizers[] = {"sgd",     "momentum", "nesterov",
                                             "adagrad", "rmsprop",  "adam",
                                             "adamw",   "ftrl",     "delayed_nesterov"};
    for (size_t i = 0; i < CADRE_COUNT_OF(optimizers); i++) {
        fixture_t alone;
        fixture_t shared;
        fixture_init(&alone, optimizers[i]);
        fixture_init(&shared, optimizers[i]);
        for (int step = 0; step < 4; step++) {
            cadre_partition_snapshot_t snapshot;
            cadre_partition_snapshot(shared.partition, &snapshot);
            cadre_partition_apply(alone.partition, alone.gradient);
            cadre_partition_apply(shared.partition, shared.gradient);
            cadre_partition_snapshot_fini(&snapshot);
        }
        cadre_chunk_t *left[CHUNKS];
        cadre_chunk_t *right[CHUNKS];
        cadre_partition_pull(alone.partition, left);
        cadre_partition_pull(shared.partition, right);
        cadre_auto(cadre_free) char *bytes = copy_of(left);
        expect_bytes(right, bytes, optimizers[i]);
        drop(left);
        drop(right);
        fixture_fini(&alone);
        fixture_fini(&shared);
    }
}

Test(partition, pulls_one_version)
{
    fixture_t fixture;
    fixture_init(&fixture, "add");
    cadre_partition_spec_t spec = make_spec("add");
    cr_assert_eq(cadre_initializer_spec_parse(&spec.initializer, "zeros"), 0);
    cadre_partition_close(&fixture.partition);
    cr_assert_eq(cadre_partition_open(&fixture.partition, &spec, fixture.pool), 0);
    for (uint64_t version = 0; version < 5; version++) {
        cr_assert_eq(cadre_partition_version(fixture.partition), version);
        expect_everywhere(fixture.partition, (float)version);
        cadre_partition_apply(fixture.partition, fixture.gradient);
    }
    fixture_fini(&fixture);
}

Test(partition, refuses_numbers_that_are_not_finite_and_changes_nothing)
{
    fixture_t fixture;
    fixture_init(&fixture, "adam");
    cadre_chunk_t *chunks[CHUNKS];
    cadre_partition_pull(fixture.partition, chunks);
    cadre_auto(cadre_free) char *before = copy_of(chunks);
    drop(chunks);
    float *last = cadre_chunk_data(fixture.gradient[CHUNKS - 1]);
    last += cadre_chunk_size_bytes(fixture.gradient[CHUNKS - 1]) / sizeof(float) - 1;

    cr_assert_eq(cadre_partition_check(fixture.partition, fixture.gradient, CHUNKS), 0);
    *last = NAN;
    cr_assert_eq(cadre_partition_check(fixture.partition, fixture.gradient, CHUNKS),
                 CADRE_ENOTFINITE);
    cr_assert_str_eq(cadre_error_text(), "chunk 2 holds an infinite number or NaN");
    *last = -INFINITY;
    cr_assert_eq(cadre_partition_check(fixture.partition, fixture.gradient, CHUNKS),
                 CADRE_ENOTFINITE);
    cr_assert_eq(cadre_partition_version(fixture.partition), 0);
    cadre_partition_pull(fixture.partition, chunks);
    expect_bytes(chunks, before, "a check");
    drop(chunks);
    fixture_fini(&fixture);
}

Test(partition, refuses_chunks_of_another_number_or_size)
{
    fixture_t fixture;
    fixture_init(&fixture, "sgd");
    cr_assert_eq(cadre_partition_check(fixture.partition, fixture.gradient, CHUNKS - 1),
                 CADRE_ESHAPE);
    cr_assert_eq(cadre_partition_check(fixture.partition, fixture.gradient, 0), CADRE_ESHAPE);
    size_t size_bytes = cadre_chunk_size_bytes(fixture.gradient[1]);
    for (size_t wrong = size_bytes - 4; wrong <= size_bytes + 4; wrong += 8) {
        cadre_chunk_t *chunk = cadre_chunk_new(wrong);
        memset(cadre_chunk_data(chunk), 0, wrong);
        cadre_chunk_t *chunks[CHUNKS] = {fixture.gradient[0], chunk, fixture.gradient[2]};
        cr_assert_eq(cadre_partition_check(fixture.partition, chunks, CHUNKS), CADRE_ESHAPE);
        cadre_chunk_unref(&chunk);
    }
    cadre_chunk_t *turned[CHUNKS] = {fixture.gradient[2], fixture.gradient[0], fixture.gradient[1]};
    cr_assert_eq(cadre_partition_check(fixture.partition, turned, CHUNKS), CADRE_ESHAPE);
    fixture_fini(&fixture);
}

static void
release_nothing(void *owner)
{
    (void)owner;
}

Test(partition, takes_gradients_from_any_address)
{
    fixture_t aligned;
    fixture_t shifted;
    fixture_init(&aligned, "adam");
    fixture_init(&shifted, "adam");
    cadre_auto(cadre_free) char *memory = cadre_calloc(CHUNKS + 1, CADRE_CHUNK_SIZE_MAX);
    cadre_chunk_t *chunks[CHUNKS];
    for (size_t k = 0; k < CHUNKS; k++) {
        char *bytes = memory + k * (CADRE_CHUNK_SIZE_MAX + 1) + 1;
        size_t size_bytes = cadre_chunk_size_bytes(aligned.gradient[k]);
        memcpy(bytes, cadre_chunk_data(aligned.gradient[k]), size_bytes);
        chunks[k] = cadre_chunk_new_foreign(bytes, size_bytes, release_nothing, NULL);
    }
    cr_assert_eq(cadre_partition_check(shifted.partition, chunks, CHUNKS), 0);
    cadre_partition_apply(aligned.partition, aligned.gradient);
    cadre_partition_apply(shifted.partition, chunks);
    cadre_partition_assign(aligned.partition, CADRE_ASSIGN_SUB, aligned.gradient);
    cadre_partition_assign(shifted.partition, CADRE_ASSIGN_SUB, chunks);
    drop(chunks);
    cadre_partition_pull(aligned.partition, chunks);
    cadre_auto(cadre_free) char *expected = copy_of(chunks);
    drop(chunks);
    cadre_partition_pull(shifted.partition, chunks);
    expect_bytes(chunks, expected, "unaligned");
    drop(chunks);
    fixture_fini(&aligned);
    fixture_fini(&shifted);
}

Test(partition, assigns_values_and_leaves_slots_and_steps)
{
    fixture_t fixture;
    fixture_init(&fixture, "adagrad");
    cadre_partition_apply(fixture.partition, fixture.gradient);
    cadre_partition_assign(fixture.partition, CADRE_ASSIGN_SET, fixture.gradient);
    expect_everywhere(fixture.partition, 1);
    cadre_partition_assign(fixture.partition, CADRE_ASSIGN_ADD, fixture.gradient);
    cadre_partition_assign(fixture.partition, CADRE_ASSIGN_ADD, fixture.gradient);
    expect_everywhere(fixture.partition, 3);
    cadre_partition_assign(fixture.partition, CADRE_ASSIGN_SUB, fixture.gradient);
    expect_everywhere(fixture.partition, 2);
    cr_assert_eq(cadre_partition_version(fixture.partition), 5);
    cr_assert_eq(cadre_partition_steps(fixture.partition), 1);
    cadre_partition_snapshot_t snapshot;
    cadre_partition_snapshot(fixture.partition, &snapshot);
    cr_assert_eq(*(float *)cadre_chunk_data(snapshot.slots[0][0]), 0.1F + 1);
    cadre_partition_snapshot_fini(&snapshot);
    fixture_fini(&fixture);
}

/* A blank partition that is given the contents of a snapshot. */
static void
copy_snapshot(fixture_t *fixture, const cadre_partition_snapshot_t *snapshot)
{
    cadre_partition_spec_t spec = *cadre_partition_spec(fixture->partition);
    cadre_partition_close(&fixture->partition);
    cr_assert_eq(cadre_partition_open_blank(&fixture->partition, &spec, fixture->pool), 0);
    for (int slot = -1; slot < (int)snapshot->slot_count; slot++) {
        cadre_chunk_t **chunks = slot < 0 ? snapshot->values : snapshot->slots[slot];
        for (size_t k = 0; k < snapshot->chunk_count; k++) {
            memcpy(cadre_partition_blank(fixture->partition, slot, k), cadre_chunk_data(chunks[k]),
                   cadre_chunk_size_bytes(chunks[k]));
        }
    }
    cadre_partition_restore_counts(fixture->partition, snapshot->version, snapshot->steps);
}

Test(partition, goes_on_from_a_snapshot_with_its_slots_and_counts)
{
    fixture_t first;
    fixture_t second;
    fixture_init(&first, "adam");
    fixture_init(&second, "adam");
    for (int step = 0; step < 3; step++) {
        cadre_partition_apply(first.partition, first.gradient);
    }
    cadre_partition_assign(first.partition, CADRE_ASSIGN_ADD, first.gradient);
    cadre_partition_snapshot_t snapshot;
    cadre_partition_snapshot(first.partition, &snapshot);
    cr_assert_eq(snapshot.version, 4);
    cr_assert_eq(snapshot.steps, 3);
    cr_assert_eq(snapshot.slot_count, 2);
    cr_assert_eq(snapshot.chunk_count, CHUNKS);

    /* What happens after the snapshot is not in it. */
    cadre_auto(cadre_free) char *velocity = copy_of(snapshot.slots[1]);
    cadre_partition_apply(first.partition, first.gradient);
    expect_bytes(snapshot.slots[1], velocity, "slots of a snapshot");

    copy_snapshot(&second, &snapshot);
    cadre_partition_snapshot_fini(&snapshot);

    /* The same next step leads to the same bits: values, slots and counts are all there. */
    cadre_partition_apply(second.partition, second.gradient);
    cr_assert_eq(cadre_partition_version(second.partition), 5);
    cr_assert_eq(cadre_partition_steps(second.partition), 4);
    cadre_chunk_t *chunks[CHUNKS];
    cadre_partition_pull(first.partition, chunks);
    cadre_auto(cadre_free) char *expected = copy_of(chunks);
    drop(chunks);
    cadre_partition_pull(second.partition, chunks);
    expect_bytes(chunks, expected, "after the load");
    drop(chunks);
    fixture_fini(&first);
    fixture_fini(&second);
}

/* Adam's first step moves every element by the learning rate, however often values were assigned
 * before it. */
Test(partition, does_not_count_an_assignment_as_an_optimizer_step)
{
    fixture_t fixture;
    fixture_init(&fixture, "adam");
    for (int i = 0; i < 5; i++) {
        cadre_partition_assign(fixture.partition, CADRE_ASSIGN_SET, fixture.gradient);
    }
    cadre_partition_apply(fixture.partition, fixture.gradient);
    cadre_chunk_t *chunks[CHUNKS];
    cadre_partition_pull(fixture.partition, chunks);
    cr_assert_float_eq(*(float *)cadre_chunk_data(chunks[0]), 1 - 0.001, 1e-6);
    drop(chunks);
    fixture_fini(&fixture);
}

Test(partition, refuses_rows_and_specs_that_make_no_sense)
{
    cadre_auto(cadre_chunk_pool_destroy) cadre_chunk_pool_t *pool = cadre_chunk_pool_new(0);
    cadre_partition_t *partition = NULL;
    static const int64_t rows[][2] = {{-1, 5}, {0, -1}, {0, 21}, {20, 1}, {21, 0}, {1, INT64_MAX}};
    for (size_t i = 0; i < CADRE_COUNT_OF(rows); i++) {
        cadre_partition_spec_t spec = make_spec("sgd");
        spec.first_row = rows[i][0];
        spec.rows = rows[i][1];
        cr_assert_eq(cadre_partition_open(&partition, &spec, pool), CADRE_EINVALID, "case %zu", i);
    }
    cadre_partition_spec_t spec = make_spec("sgd");
    spec.dtype = CADRE_I32;
    cr_assert_eq(cadre_partition_open(&partition, &spec, pool), CADRE_EDTYPE);
    spec = make_spec("sgd");
    spec.rank = CADRE_RANK_MAX + 1;
    cr_assert_eq(cadre_partition_open(&partition, &spec, pool), CADRE_EINVALID);
    spec = make_spec("sgd");
    spec.shape[0] = INT64_MAX;
    cr_assert_eq(cadre_partition_open(&partition, &spec, pool), CADRE_ETOOLARGE);
    cr_assert_null(partition);
}

Test(partition, may_be_empty_or_a_single_number)
{
    cadre_auto(cadre_chunk_pool_destroy) cadre_chunk_pool_t *pool = cadre_chunk_pool_new(0);
    cadre_auto(cadre_partition_close) cadre_partition_t *empty = NULL;
    cadre_partition_spec_t spec = make_spec("adam");
    spec.first_row = 20;
    spec.rows = 0;
    cr_assert_eq(cadre_partition_open(&empty, &spec, pool), 0);
    cr_assert_eq(cadre_partition_check(empty, NULL, 0), 0);
    cadre_partition_apply(empty, NULL);
    cr_assert_eq(cadre_partition_version(empty), 1);
    cadre_partition_snapshot_t snapshot;
    cadre_partition_snapshot(empty, &snapshot);
    cr_assert_eq(snapshot.chunk_count, 0);
    cadre_partition_snapshot_fini(&snapshot);

    cadre_auto(cadre_partition_close) cadre_partition_t *scalar = NULL;
    spec = make_spec("add");
    spec.dtype = CADRE_I64;
    spec.rank = 0;
    spec.first_row = 0;
    spec.rows = 1;
    cr_assert_eq(cadre_initializer_spec_parse(&spec.initializer, "zeros"), 0);
    cr_assert_eq(cadre_partition_open(&scalar, &spec, pool), 0);
    cr_assert_eq(cadre_partition_layout(scalar)->size_bytes, 8);
    int64_t one = 1;
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *gradient = cadre_chunk_new_copy(&one, 8);
    cr_assert_eq(cadre_partition_check(scalar, &gradient, 1), 0);
    for (int i = 0; i < 1000; i++) {
        cadre_partition_apply(scalar, &gradient);
    }
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *value = NULL;
    cadre_partition_pull(scalar, &value);
    cr_assert_eq(*(int64_t *)cadre_chunk_data(value), 1000);
}
