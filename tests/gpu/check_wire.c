/*
 * Variables and gradients that are bf16 on the host: a device that takes them gives what it gives
 * for the numbers in f32, converted as the host converts, and says which gradient is not finite.
 * One that does not take them refuses them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/tensor/bf16.h"
#include "tests/gpu/gpu_check.h"

/* One small variable, one beyond what is copied at once; each has a gradient. */
enum { VARIABLES = 3, SMALL = 5, LARGE = (1 << 19) + 3 };

static const int64_t counts[VARIABLES] = {SMALL, LARGE, 70};

typedef struct {
    gpu_check_t *check;
    cadre_slot_t *slot;
    cadre_program_t *program;
    float *wide[VARIABLES]; /* as bf16 has them */
    uint16_t *bf16[VARIABLES];
    float *gradients[VARIABLES]; /* what must come */
    uint16_t *bf16_gradients[VARIABLES];
} bench_t;

/* Each variable's gradient is x times its square: enough to see whose numbers came from where. */
static cadre_program_t *
make_program(void)
{
    cadre_program_t *p = cadre_program_new("wire");
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, NULL, 0);
    for (int i = 0; i < VARIABLES; i++) {
        char name[] = {(char)('a' + i), '\0'};
        cadre_node_t v = cadre_op_var(p, name, &counts[i], 1);
        cadre_op_push(p, v, cadre_op_mul(p, cadre_op_mul(p, v, v), x));
        cadre_op_result(p, name, cadre_op_sum_all(p, v));
    }
    cadre_assert(cadre_program_finish(p) == 0);
    return p;
}

static void
make_numbers(bench_t *self, uint64_t round, float x)
{
    for (int i = 0; i < VARIABLES; i++) {
        for (int64_t k = 0; k < counts[i]; k++) {
            uint32_t block[4];
            cadre_random_block(17, round * VARIABLES + (uint64_t)i, (uint64_t)k, block);
            self->wide[i][k] = (float)(int32_t)block[0] * 0x1p-31F;
        }
        cadre_bf16_from_f32(self->wide[i], self->bf16[i], (size_t)counts[i]);
        cadre_bf16_to_f32(self->bf16[i], self->wide[i], (size_t)counts[i]);
        for (int64_t k = 0; k < counts[i]; k++) {
            self->gradients[i][k] = self->wide[i][k] * self->wide[i][k] * x;
        }
        cadre_bf16_from_f32(self->gradients[i], self->bf16_gradients[i], (size_t)counts[i]);
    }
}

typedef struct {
    bool is_bf16[VARIABLES];
    bool pinned;
    bool null; /* no dtypes are given: all are f32 */
} way_t;

static void *
memory_new(bench_t *self, bool pinned, size_t size_bytes)
{
    return pinned ? cadre_device_memory_new(self->check->device, size_bytes)
                  : cadre_aligned_alloc(size_bytes);
}

static void
memory_free(bench_t *self, bool pinned, void *memory)
{
    if (pinned) {
        cadre_device_memory_free(self->check->device, memory);
    } else {
        free(memory);
    }
}

/* Which NaN it is, a device chooses. */
static bool
is_same(const bench_t *self, int i, int64_t k, bool is_bf16, const void *found)
{
    if (is_bf16) {
        uint16_t got = ((const uint16_t *)found)[k];
        uint16_t want = self->bf16_gradients[i][k];
        return got == want || ((got & 0x7fff) > 0x7f80 && (want & 0x7fff) > 0x7f80);
    }
    float got = ((const float *)found)[k];
    float want = self->gradients[i][k];
    return got == want || (isnan(got) && isnan(want));
}

static void
check_gradient(bench_t *self, int i, bool is_bf16, const void *found)
{
    int64_t wrong = 0;
    for (int64_t k = 0; k < counts[i]; k++) {
        wrong += !is_same(self, i, k, is_bf16, found);
    }
    gpu_check_that(self->check, wrong == 0, "gradient %d, %s: %lld numbers are others", i,
                   is_bf16 ? "bf16" : "f32", (long long)wrong);
}

static void
check_flag(bench_t *self, uint64_t round, int i, bool is_bf16, bool said)
{
    bool bad = is_bf16 && !cadre_bf16_finite(self->bf16_gradients[i], (size_t)counts[i]);
    gpu_check_that(self->check, said == bad, "round %d: gradient %d is said to be %s", (int)round,
                   i, said ? "not finite" : "finite");
}

static bool
has_bf16(const way_t *way)
{
    return way->is_bf16[0] || way->is_bf16[1] || way->is_bf16[2];
}

static void
run(bench_t *self, uint64_t round, float x, const way_t *way)
{
    const void *variables[VARIABLES];
    void *gradients[VARIABLES];
    cadre_dtype_t dtypes[VARIABLES];
    bool not_finite[VARIABLES] = {false};
    cadre_tensor_t results[VARIABLES] = {{0}};
    make_numbers(self, round, x);
    for (int i = 0; i < VARIABLES; i++) {
        size_t size_bytes = (size_t)counts[i] * (way->is_bf16[i] ? 2 : 4);
        void *values = memory_new(self, way->pinned, size_bytes);
        memcpy(values, way->is_bf16[i] ? (const void *)self->bf16[i] : self->wide[i], size_bytes);
        variables[i] = values;
        gradients[i] = memory_new(self, way->pinned, size_bytes);
        memset(gradients[i], 0x55, size_bytes);
        dtypes[i] = way->is_bf16[i] ? CADRE_BF16 : CADRE_F32;
    }
    cadre_tensor_t argument = {.dtype = CADRE_F32, .data = &x};
    cadre_slot_run_t one = {.program = self->program,
                            .arguments = &argument,
                            .argument_count = 1,
                            .variables = variables,
                            .variable_dtypes = way->null ? NULL : dtypes,
                            .gradients = gradients,
                            .gradient_dtypes = way->null ? NULL : dtypes,
                            .not_finite = not_finite,
                            .results = results};
    bool refused = has_bf16(way) && !cadre_slot_takes(self->slot, CADRE_BF16);
    int status = cadre_slot_run(self->slot, &one);
    gpu_check_that(self->check, status == (refused ? CADRE_EDTYPE : 0), "round %d: %s", (int)round,
                   status < 0 ? cadre_error_text() : "it takes bf16");
    for (int i = 0; i < VARIABLES; i++) {
        if (status == 0) {
            check_flag(self, round, i, way->is_bf16[i], not_finite[i]);
            check_gradient(self, i, way->is_bf16[i], gradients[i]);
        }
        memory_free(self, way->pinned, (void *)(uintptr_t)variables[i]);
        memory_free(self, way->pinned, gradients[i]);
        cadre_tensor_fini(&results[i]);
    }
}

/* A slot that is plain at first, so that what is bf16 finds memory that was made without it. */
static void
check_ways(bench_t *self)
{
    const way_t ways[] = {
        {.null = true},
        {.is_bf16 = {true, false, true}},
        {.is_bf16 = {true, true, true}, .pinned = true},
        {.is_bf16 = {false, true, false}, .pinned = true},
        {.is_bf16 = {false, false, false}},
        {.is_bf16 = {false, true, true}},
    };
    for (uint64_t round = 0; round < CADRE_COUNT_OF(ways); round++) {
        run(self, round, 1.5F, &ways[round]);
    }
}

/* Squares below 1 times 3.4e38: finite in f32, and a few of them beyond what bf16 holds. */
static void
check_flags(bench_t *self)
{
    const way_t ways[] = {{.is_bf16 = {false, true, false}}, {.is_bf16 = {true, true, true}}};
    static const float factors[] = {3.4028234e38F, 1, INFINITY, 2, NAN, 3};
    for (uint64_t round = 0; round < 2 * CADRE_COUNT_OF(factors); round++) {
        run(self, 100 + round, factors[round / 2], &ways[round % 2]);
    }
}

static void
bench_open(bench_t *self)
{
    cadre_assert(cadre_slot_open(self->check->device, NULL, &self->slot) == 0);
    self->program = make_program();
    for (int i = 0; i < VARIABLES; i++) {
        self->wide[i] = cadre_calloc((size_t)counts[i], sizeof(float));
        self->bf16[i] = cadre_calloc((size_t)counts[i], sizeof(uint16_t));
        self->gradients[i] = cadre_calloc((size_t)counts[i], sizeof(float));
        self->bf16_gradients[i] = cadre_calloc((size_t)counts[i], sizeof(uint16_t));
    }
}

static void
bench_close(bench_t *self)
{
    cadre_slot_close(&self->slot);
    cadre_program_destroy(&self->program);
    for (int i = 0; i < VARIABLES; i++) {
        free(self->wide[i]);
        free(self->bf16[i]);
        free(self->gradients[i]);
        free(self->bf16_gradients[i]);
    }
}

void
gpu_check_wire(gpu_check_t *self)
{
    bench_t bench = {.check = self};
    bench_open(&bench);
    check_ways(&bench);
    check_flags(&bench);
    bench_close(&bench);
}
