/*
 * Variables and gradients that are bf16 on the host: the device gives what it gives for the widened
 * numbers, narrowed as the host narrows, and says which gradient is not finite. A plain program.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/bf16.h"
#include "common/memory.h"
#include "common/random.h"
#include "common/status.h"
#include "tests/gpu/gpu_check.h"
#include "tests/worker/cuda_fake/fake_cuda.h"
#include "worker/device/device_module.h"

/* One small variable, one beyond what is copied at once; each has a gradient. */
enum { VARIABLES = 3, SMALL = 5, LARGE = (1 << 19) + 3, ROUNDS = 24 };

static const int64_t counts[VARIABLES] = {SMALL, LARGE, 70};

typedef struct {
    gpu_check_t check;
    cadre_device_t *device;
    cadre_slot_t *slot;
    cadre_program_t *program;
    float *wide[VARIABLES]; /* as bf16 has them */
    uint16_t *narrow[VARIABLES];
    float *gradients[VARIABLES]; /* what must come */
    uint16_t *narrow_gradients[VARIABLES];
} bench_t;

/* Each variable's gradient is x times its square: enough to see whose numbers came from where. */
static cadre_program_t *
make_program(void)
{
    cadre_program_t *p = cadre_program_new("narrow");
    cadre_node_t x = cadre_arg(p, "x", CADRE_F32, NULL, 0);
    for (int i = 0; i < VARIABLES; i++) {
        char name[] = {(char)('a' + i), '\0'};
        cadre_node_t v = cadre_var(p, name, &counts[i], 1);
        cadre_push(p, v, cadre_mul(p, cadre_mul(p, v, v), x));
        cadre_result(p, name, cadre_sum_all(p, v));
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
        cadre_bf16_narrow(self->wide[i], self->narrow[i], (size_t)counts[i]);
        cadre_bf16_widen(self->narrow[i], self->wide[i], (size_t)counts[i]);
        for (int64_t k = 0; k < counts[i]; k++) {
            self->gradients[i][k] = self->wide[i][k] * self->wide[i][k] * x;
        }
        cadre_bf16_narrow(self->gradients[i], self->narrow_gradients[i], (size_t)counts[i]);
    }
}

typedef struct {
    bool narrow[VARIABLES];
    bool pinned;
    bool null; /* no dtypes are given: all are f32 */
} way_t;

static void *
memory_new(bench_t *self, bool pinned, size_t size_bytes)
{
    return pinned ? cadre_device_memory_new(self->device, size_bytes)
                  : cadre_aligned_alloc(size_bytes);
}

static void
memory_free(bench_t *self, bool pinned, void *memory)
{
    if (pinned) {
        cadre_device_memory_free(self->device, memory);
    } else {
        free(memory);
    }
}

static void
check_gradient(bench_t *self, int i, bool narrow, const void *found)
{
    const void *wanted = narrow ? (const void *)self->narrow_gradients[i] : self->gradients[i];
    size_t size_bytes = (size_t)counts[i] * (narrow ? 2 : 4);
    gpu_check_that(&self->check, memcmp(found, wanted, size_bytes) == 0, "gradient %d, %s", i,
                   narrow ? "bf16" : "f32");
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
        size_t size_bytes = (size_t)counts[i] * (way->narrow[i] ? 2 : 4);
        void *values = memory_new(self, way->pinned, size_bytes);
        memcpy(values, way->narrow[i] ? (const void *)self->narrow[i] : self->wide[i], size_bytes);
        variables[i] = values;
        gradients[i] = memory_new(self, way->pinned, size_bytes);
        memset(gradients[i], 0x55, size_bytes);
        dtypes[i] = way->narrow[i] ? CADRE_BF16 : CADRE_F32;
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
    int status = cadre_slot_run(self->slot, &one);
    gpu_check_that(&self->check, status == 0, "%s", status < 0 ? cadre_error_text() : "");
    for (int i = 0; i < VARIABLES; i++) {
        bool bad =
            way->narrow[i] && !cadre_bf16_finite(self->narrow_gradients[i], (size_t)counts[i]);
        gpu_check_that(&self->check, not_finite[i] == bad, "round %d: gradient %d is said to be %s",
                       (int)round, i, not_finite[i] ? "not finite" : "finite");
        check_gradient(self, i, way->narrow[i], gradients[i]);
        memory_free(self, way->pinned, (void *)(uintptr_t)variables[i]);
        memory_free(self, way->pinned, gradients[i]);
        cadre_tensor_fini(&results[i]);
    }
}

/* A slot that is plain at first, so that what is narrow finds memory that was made without it. */
static void
check_ways(bench_t *self)
{
    const way_t ways[] = {
        {.null = true},
        {.narrow = {true, false, true}},
        {.narrow = {true, true, true}, .pinned = true},
        {.narrow = {false, true, false}, .pinned = true},
        {.narrow = {false, false, false}},
        {.narrow = {false, true, true}},
    };
    for (uint64_t round = 0; round < ROUNDS; round++) {
        fake_cuda_seed(round);
        run(self, round, 1.5F, &ways[round % CADRE_COUNT_OF(ways)]);
    }
}

/* Squares below 1 times 3.4e38: finite in f32, and a few of them beyond what bf16 holds. */
static void
check_flags(bench_t *self)
{
    const way_t ways[] = {{.narrow = {false, true, false}}, {.narrow = {true, true, true}}};
    static const float factors[] = {3.4028234e38F, 1, INFINITY, 2, NAN, 3};
    for (uint64_t round = 0; round < 2 * CADRE_COUNT_OF(factors); round++) {
        fake_cuda_seed(100 + round);
        run(self, 100 + round, factors[round / 2], &ways[round % 2]);
    }
}

static void
bench_open(bench_t *self)
{
    cadre_device_options_t options = {.name = "cuda:0", .threads = 1};
    cadre_assert(cadre_device_open_functions(cadre_device_module()->functions, &options,
                                             &self->device) == 0);
    cadre_assert(cadre_slot_open(self->device, NULL, &self->slot) == 0);
    cadre_assert(cadre_slot_takes_bf16(self->slot));
    self->program = make_program();
    for (int i = 0; i < VARIABLES; i++) {
        self->wide[i] = cadre_calloc((size_t)counts[i], sizeof(float));
        self->narrow[i] = cadre_calloc((size_t)counts[i], sizeof(uint16_t));
        self->gradients[i] = cadre_calloc((size_t)counts[i], sizeof(float));
        self->narrow_gradients[i] = cadre_calloc((size_t)counts[i], sizeof(uint16_t));
    }
}

static void
bench_close(bench_t *self)
{
    cadre_slot_close(&self->slot);
    cadre_device_close(&self->device);
    cadre_program_destroy(&self->program);
    for (int i = 0; i < VARIABLES; i++) {
        free(self->wide[i]);
        free(self->narrow[i]);
        free(self->gradients[i]);
        free(self->narrow_gradients[i]);
    }
}

int
main(void)
{
    bench_t self = {.check = {.scale = 0}};
    fake_cuda_count_t before = fake_cuda_count();
    bench_open(&self);
    check_ways(&self);
    check_flags(&self);
    bench_close(&self);
    fake_cuda_count_t after = fake_cuda_count();
    gpu_check_that(&self.check,
                   after.device_bytes == before.device_bytes &&
                       after.pinned_bytes == before.pinned_bytes && after.objects == before.objects,
                   "something stays");
    printf("%d checks, %d failed\n", self.check.checks, self.check.failures);
    return self.check.failures > 0;
}
