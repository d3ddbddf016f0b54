/*
 * Variables and gradients in bf16, converted on the device: the bits that the host would make of
 * the same run in f32. A plain program.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/bf16.h"
#include "common/memory.h"
#include "common/status.h"
#include "tests/gpu/gpu_check.h"
#include "tests/worker/cuda_fake/fake_cuda.h"
#include "worker/device/device_module.h"

const cadre_device_module_t *cadre_device_module(void);

enum { ROWS = 7, VARIABLES = 4, SIZE_MAX_OF_ONE = 1200 * 600 };

static const int64_t shapes[VARIABLES][2] = {{1200, 600}, {600, 1}, {600, 3}, {3, 1}};

typedef struct {
    gpu_check_t check;
    cadre_device_t *device;
    cadre_program_t *program;
    cadre_tensor_t x;
    float *wide[VARIABLES];      /* numbers that bf16 has */
    uint16_t *narrow[VARIABLES]; /* the same */
} bench_t;

static size_t
count_of(int variable)
{
    return (size_t)(shapes[variable][0] * shapes[variable][1]);
}

static void
make_program(bench_t *self)
{
    static const char *const names[] = {"w0", "b0", "w1", "b1"};
    cadre_program_t *p = self->program = cadre_program_new("narrow");
    cadre_dim_t dims[] = {cadre_dim(ROWS), cadre_dim(shapes[0][0])};
    cadre_node_t v[VARIABLES];
    for (int i = 0; i < VARIABLES; i++) {
        v[i] = cadre_var(p, names[i], shapes[i], i % 2 ? 1 : 2);
    }
    cadre_node_t h = cadre_arg(p, "x", CADRE_F32, dims, 2);
    h = cadre_dense(p, cadre_relu(p, cadre_dense(p, h, v[0], v[1])), v[2], v[3]);
    cadre_minimize(p, cadre_mean_all(p, cadre_square(p, h)));
    cadre_assert(cadre_program_finish(p) == 0);
}

static void
open_bench(bench_t *self)
{
    cadre_device_options_t options = {.name = "cuda:0", .threads = 1};
    cadre_assert(cadre_device_open_functions(cadre_device_module()->functions, &options,
                                             &self->device) == 0);
    make_program(self);
    self->x = gpu_random(CADRE_F32, (int64_t[]){ROWS, shapes[0][0]}, 2, -1, 1);
    for (int i = 0; i < VARIABLES; i++) {
        cadre_tensor_t numbers = gpu_random(CADRE_F32, shapes[i], i % 2 ? 1 : 2, -0.1F, 0.1F);
        self->wide[i] = numbers.data;
        self->narrow[i] = cadre_calloc(count_of(i), sizeof(uint16_t));
        cadre_assert(cadre_bf16_narrow(self->wide[i], self->narrow[i], count_of(i)));
        cadre_bf16_widen(self->narrow[i], self->wide[i], count_of(i));
    }
}

static void
close_bench(bench_t *self)
{
    for (int i = 0; i < VARIABLES; i++) {
        free(self->wide[i]);
        free(self->narrow[i]);
    }
    cadre_tensor_fini(&self->x);
    cadre_program_destroy(&self->program);
    cadre_device_close(&self->device);
}

/* One run; bit i of `narrow_in` and `narrow_out`: variable i and its gradient are bf16. */
typedef struct {
    unsigned narrow_in;
    unsigned narrow_out;
    const uint64_t *versions;
    void *gradients[VARIABLES];
    bool not_finite[VARIABLES];
} one_t;

static int
run(bench_t *self, cadre_slot_t *slot, one_t *one)
{
    const void *variables[VARIABLES];
    cadre_dtype_t in[VARIABLES];
    cadre_dtype_t out[VARIABLES];
    cadre_assert(cadre_program_push_count(self->program) == VARIABLES);
    for (int i = 0; i < VARIABLES; i++) {
        bool narrow = one->narrow_in >> i & 1;
        variables[i] = narrow ? (const void *)self->narrow[i] : self->wide[i];
        in[i] = narrow ? CADRE_BF16 : CADRE_F32;
        int variable = cadre_program_push(self->program, i)->variable;
        out[i] = one->narrow_out >> variable & 1 ? CADRE_BF16 : CADRE_F32;
        size_t size_bytes = count_of(variable) * (out[i] == CADRE_BF16 ? 2 : 4);
        one->gradients[i] = cadre_calloc(1, size_bytes);
        one->not_finite[i] = false;
    }
    cadre_slot_run_t job = {.program = self->program,
                            .arguments = &self->x,
                            .argument_count = 1,
                            .variables = variables,
                            .variable_dtypes = in,
                            .versions = one->versions,
                            .gradients = one->gradients,
                            .gradient_dtypes = out,
                            .not_finite = one->not_finite};
    return cadre_slot_run(slot, &job);
}

static void
end(one_t *one)
{
    for (int i = 0; i < VARIABLES; i++) {
        free(one->gradients[i]);
    }
}

/* `got` is what the host makes of `wide`, a run in f32. */
static void
compare(bench_t *self, const one_t *got, const one_t *wide, const char *what)
{
    uint16_t *wanted = cadre_calloc(SIZE_MAX_OF_ONE, sizeof(*wanted));
    for (int i = 0; i < VARIABLES; i++) {
        int variable = cadre_program_push(self->program, i)->variable;
        size_t count = count_of(variable);
        bool narrow = got->narrow_out >> variable & 1;
        bool finite = cadre_bf16_narrow(wide->gradients[i], wanted, count);
        const void *numbers = narrow ? (const void *)wanted : wide->gradients[i];
        gpu_check_that(&self->check,
                       memcmp(got->gradients[i], numbers, count * (narrow ? 2 : 4)) == 0,
                       "%s: the gradient of variable %d differs", what, variable);
        gpu_check_that(&self->check, got->not_finite[i] == (narrow && !finite),
                       "%s: variable %d: not finite %d", what, variable, got->not_finite[i]);
    }
    free(wanted);
}

/* All mixtures, three runs of each: as it is, and from a graph. */
static void
check_mixtures(bench_t *self, const char *what)
{
    cadre_slot_options_t options = {.poison = true};
    cadre_slot_t *slot = NULL;
    cadre_assert(cadre_slot_open(self->device, &options, &slot) == 0);
    one_t wide = {0};
    cadre_assert(run(self, slot, &wide) == 0);
    static const unsigned mixtures[][2] = {{15, 15}, {0, 15}, {15, 0}, {5, 10}, {10, 5}, {0, 0}};
    for (size_t i = 0; i < CADRE_COUNT_OF(mixtures); i++) {
        for (int k = 0; k < 3; k++) {
            char text[64];
            snprintf(text, sizeof(text), "%s, %u and %u", what, mixtures[i][0], mixtures[i][1]);
            one_t one = {.narrow_in = mixtures[i][0], .narrow_out = mixtures[i][1]};
            int status = run(self, slot, &one);
            gpu_check_that(&self->check, status == 0, "%s: %s", text, cadre_error_text());
            compare(self, &one, &wide, text);
            end(&one);
        }
    }
    end(&wide);
    cadre_slot_close(&slot);
}

/* What is there already is neither copied nor converted again. */
static void
check_versions(bench_t *self)
{
    cadre_slot_t *slot = NULL;
    cadre_assert(cadre_slot_open(self->device, NULL, &slot) == 0);
    one_t first = {.narrow_in = 15, .narrow_out = 15, .versions = (uint64_t[]){1, 2, 3, 4}};
    one_t second = first;
    size_t begin = fake_cuda_count().bytes_in;
    cadre_assert(run(self, slot, &first) == 0);
    size_t middle = fake_cuda_count().bytes_in;
    cadre_assert(run(self, slot, &second) == 0);
    size_t after = fake_cuda_count().bytes_in;
    gpu_check_that(&self->check, middle - begin < 3 * count_of(0), "%zu bytes copied",
                   middle - begin);
    gpu_check_that(&self->check, after - middle < count_of(0), "%zu bytes copied again",
                   after - middle);
    for (int i = 0; i < VARIABLES; i++) {
        int variable = cadre_program_push(self->program, i)->variable;
        gpu_check_that(&self->check,
                       memcmp(first.gradients[i], second.gradients[i], 2 * count_of(variable)) == 0,
                       "variable %d of the same version", variable);
    }
    end(&first);
    end(&second);
    cadre_slot_close(&slot);
}

/* A device without memory for it says so, and goes on once there is some. */
static void
check_memory(bench_t *self)
{
    for (int calls = 0; calls < 6; calls++) {
        cadre_slot_t *slot = NULL;
        cadre_assert(cadre_slot_open(self->device, NULL, &slot) == 0);
        fake_cuda_break(calls % 2 ? "cudaMallocHost" : "cudaMalloc", calls / 2,
                        cudaErrorMemoryAllocation);
        one_t one = {.narrow_in = 15, .narrow_out = 15};
        int status = run(self, slot, &one);
        gpu_check_that(&self->check, status == 0 || status == CADRE_ENOMEMORY, "%d: %s", calls,
                       cadre_error_text());
        end(&one);
        fake_cuda_break(NULL, 0, 0);
        gpu_check_that(&self->check, run(self, slot, &one) == 0, "%d, then: %s", calls,
                       cadre_error_text());
        end(&one);
        cadre_slot_close(&slot);
    }
}

int
main(void)
{
    bench_t self = {0};
    open_bench(&self);
    check_mixtures(&self, "numbers");
    check_versions(&self);
    check_memory(&self);
    ((float *)self.x.data)[5] = NAN;
    check_mixtures(&self, "NaN");
    ((float *)self.x.data)[5] = 3.4e38F;
    check_mixtures(&self, "overflow");
    close_bench(&self);
    fake_cuda_count_t left = fake_cuda_count();
    gpu_check_that(&self.check,
                   left.objects == 0 && left.device_bytes == 0 && left.pinned_bytes == 0,
                   "%lld objects, %zu and %zu bytes stay", (long long)left.objects,
                   left.device_bytes, left.pinned_bytes);
    printf("%d checks, %d failures\n", self.check.checks, self.check.failures);
    return self.check.failures > 0;
}
