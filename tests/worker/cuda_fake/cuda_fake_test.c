/* The host side of the CUDA device: copies, streams, events, graphs, errors. A plain program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "tests/gpu/gpu_check.h"
#include "tests/worker/cuda_fake/fake_cuda.h"
#include "worker/device/device_module.h"

#ifdef __SANITIZE_THREAD__
enum { SEEDS = 1 }; /* each takes it a minute */
#else
enum { SEEDS = 3 };
#endif

static cadre_device_t *
open_device(const char *math)
{
    const cadre_device_module_t *module = cadre_device_module();
    cadre_assert(module->abi == CADRE_DEVICE_ABI && module->layout == CADRE_DEVICE_LAYOUT);
    cadre_device_options_t options = {.name = "cuda:0", .threads = 1, .math = math};
    cadre_device_t *device = NULL;
    return cadre_device_open_functions(module->functions, &options, &device) == 0 ? device : NULL;
}

static int
open_math(const char *math, cadre_device_t **out)
{
    cadre_device_options_t options = {.name = "cuda:0", .threads = 1, .math = math};
    return cadre_device_open_functions(cadre_device_module()->functions, &options, out);
}

/* Sums over a few numbers, with a variable, a gradient, a constant and a product. */
static void
make_case(gpu_case_t *one)
{
    cadre_program_t *p = cadre_program_new("small");
    cadre_node_t x = gpu_argument(one, p, gpu_random(CADRE_F32, (int64_t[]){6, 4}, 2, -1, 1));
    cadre_node_t w = cadre_op_var(p, "w", (int64_t[]){4, 3}, 2);
    cadre_node_t y = cadre_op_add(p, cadre_op_matmul(p, x, w), cadre_op_const_f32(p, 0.5F));
    cadre_node_t loss = cadre_op_mean_all(p, cadre_op_square(p, y));
    cadre_op_minimize(p, loss);
    cadre_op_result(p, "loss", loss);
    gpu_case_init(one, p);
}

/* Each call that can fail does so once, in each of a few runs: the status is right, nothing stays,
 * and a device that was lost says so to the next run. */
static void
check_failure(gpu_check_t *self, const char *function, int calls, int error, int wanted)
{
    gpu_case_t one = {0};
    make_case(&one);
    fake_cuda_count_t before = fake_cuda_count();
    cadre_device_t *device = open_device("f32");
    cadre_slot_t *slot = NULL;
    cadre_assert(cadre_slot_open(device, NULL, &slot) == 0);
    fake_cuda_break(function, calls, error);
    int status = 0;
    for (int i = 0; i < 4 && status == 0; i++) {
        gpu_outcome_t outcome;
        status = gpu_case_run(&one, slot, 1, &outcome);
        gpu_outcome_fini(&one, &outcome);
    }
    gpu_check_that(self, status == wanted, "%s fails at call %d: %d, %s", function, calls, status,
                   cadre_error_text());
    fake_cuda_break(NULL, 0, 0);
    gpu_outcome_t outcome;
    status = gpu_case_run(&one, slot, 1, &outcome);
    gpu_check_that(self, status == (wanted == CADRE_EDEVICE ? CADRE_EDEVICE : 0),
                   "after %s: %d, %s", function, status, cadre_error_text());
    gpu_outcome_fini(&one, &outcome);
    cadre_slot_close(&slot);
    cadre_device_close(&device);
    fake_cuda_count_t after = fake_cuda_count();
    gpu_check_that(self,
                   after.device_bytes == before.device_bytes &&
                       after.pinned_bytes == before.pinned_bytes && after.objects == before.objects,
                   "%s: something stays: %zu and %zu bytes, %lld objects", function,
                   after.device_bytes - before.device_bytes,
                   after.pinned_bytes - before.pinned_bytes,
                   (long long)(after.objects - before.objects));
    gpu_case_fini(&one);
}

static void
check_text(gpu_check_t *self)
{
    gpu_case_t one = {0};
    make_case(&one);
    cadre_device_t *device = open_device("f32");
    cadre_slot_t *slot = NULL;
    cadre_assert(cadre_slot_open(device, NULL, &slot) == 0);
    fake_cuda_break("cudaEventSynchronize", 0, 700);
    gpu_outcome_t outcome;
    cadre_assert(gpu_case_run(&one, slot, 1, &outcome) == CADRE_EDEVICE);
    gpu_check_that(
        self,
        strcmp(cadre_error_text(), "small: cudaEventSynchronize: some error (cudaErrorFake)") == 0,
        "%s", cadre_error_text());
    gpu_outcome_fini(&one, &outcome);
    cadre_slot_close(&slot);
    cadre_device_close(&device);
    gpu_case_fini(&one);
}

static void
check_failures(gpu_check_t *self)
{
    enum { ANY = 700 };
    static const char *const functions[] = {"cudaMemcpy",
                                            "cudaMemcpyAsync",
                                            "cudaMemsetAsync",
                                            "cudaEventRecord",
                                            "cudaStreamWaitEvent",
                                            "cudaEventSynchronize",
                                            "cudaGraphInstantiate",
                                            "cudaGraphLaunch",
                                            "cudaStreamBeginCapture",
                                            "cudaStreamEndCapture",
                                            "cublasLtMatmul",
                                            "cudaEventRecordWithFlags",
                                            "cudaSetDevice",
                                            "cublasLtMatmulAlgoGetHeuristic"};
    for (size_t i = 0; i < CADRE_COUNT_OF(functions); i++) {
        check_failure(self, functions[i], 0, ANY, CADRE_EDEVICE);
    }
    for (int calls = 1; calls < 8; calls += 2) {
        check_failure(self, "cudaMemcpyAsync", calls, ANY, CADRE_EDEVICE);
        check_failure(self, "cudaEventRecordWithFlags", calls, ANY, CADRE_EDEVICE);
    }
    check_failure(self, "cadre_cuda_map2", 0, 1, CADRE_EDEVICE);
    check_failure(self, "cudaMalloc", 0, cudaErrorMemoryAllocation, CADRE_ENOMEMORY);
    check_failure(self, "cudaMalloc", 1, cudaErrorMemoryAllocation, CADRE_ENOMEMORY);
    check_failure(self, "cudaMallocHost", 0, cudaErrorMemoryAllocation, CADRE_ENOMEMORY);
    check_failure(self, "cudaMallocHost", 1, cudaErrorMemoryAllocation, CADRE_ENOMEMORY);
    check_failure(self, "cudaGraphInstantiate", 0, cudaErrorMemoryAllocation, CADRE_ENOMEMORY);
}

static void
check_opening(gpu_check_t *self)
{
    static const char *const functions[] = {"cudaGetDeviceCount",        "cudaSetDevice",
                                            "cudaGetDeviceProperties",   "cublasLtCreate",
                                            "cudaStreamCreateWithFlags", "cudaMalloc"};
    fake_cuda_count_t before = fake_cuda_count();
    for (size_t i = 0; i < CADRE_COUNT_OF(functions); i++) {
        fake_cuda_break(functions[i], 0, 100);
        cadre_device_t *device = open_device("f32");
        gpu_check_that(self, !device, "it opens although %s failed", functions[i]);
        cadre_device_close(&device);
    }
    fake_cuda_break(NULL, 0, 0);
    gpu_check_that(self, !open_device("f16"), "it opens with a math that is none");
    gpu_check_that(self, strstr(cadre_error_text(), "none of f32, tf32, bf16"), "%s",
                   cadre_error_text());
    gpu_check_that(self,
                   fake_cuda_count().objects == before.objects &&
                       fake_cuda_count().device_bytes == before.device_bytes,
                   "something stays of devices that did not open");
    cadre_device_t *device = open_device("tf32");
    gpu_check_that(self, strcmp(cadre_device_name(device), "cuda:0 Fake tf32") == 0, "it is %s",
                   cadre_device_name(device));
    cadre_device_close(&device);
}

/* From the second run on a graph is launched and nothing is allocated. */
static void
check_steady_state(gpu_check_t *self)
{
    gpu_case_t one = {0};
    make_case(&one);
    cadre_slot_t *slot = NULL;
    cadre_assert(cadre_slot_open(self->device, NULL, &slot) == 0);
    fake_cuda_count_t before = fake_cuda_count();
    for (int i = 0; i < 10; i++) {
        gpu_outcome_t outcome;
        cadre_assert(gpu_case_run(&one, slot, 1, &outcome) == 0);
        gpu_outcome_fini(&one, &outcome);
        if (i == 1) {
            before = fake_cuda_count();
        }
    }
    fake_cuda_count_t after = fake_cuda_count();
    gpu_check_that(self, after.launches - before.launches == 8, "%lld graphs were launched",
                   (long long)(after.launches - before.launches));
    gpu_check_that(self, after.allocations == before.allocations, "%lld allocations",
                   (long long)(after.allocations - before.allocations));
    gpu_check_that(self, after.objects == before.objects, "%lld objects",
                   (long long)(after.objects - before.objects));
    cadre_slot_close(&slot);
    gpu_case_fini(&one);
}

int
main(void)
{
    gpu_check_t self = {0};
    check_opening(&self);
    check_failures(&self);
    check_text(&self);
    fake_cuda_limit((size_t)1 << 30);
    self.device = open_device("f32");
    cadre_assert(self.device && cadre_device_open("cpu", 1, &self.cpu) == 0);
    check_steady_state(&self);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        fake_cuda_seed(seed);
        int failures = self.failures;
        gpu_check_models(&self);
        gpu_check_memory(&self);
        if (self.failures > failures) {
            fprintf(stderr, "with seed %llu\n", (unsigned long long)seed);
        }
    }
    self.open_math = open_math;
    gpu_check_math(&self);
    gpu_check_ops(&self);
    gpu_check_fuse(&self);
    gpu_check_bf16(&self);
    gpu_check_errors(&self);
    cadre_device_close(&self.device);
    cadre_device_close(&self.cpu);
    fake_cuda_count_t left = fake_cuda_count();
    gpu_check_that(&self, left.objects == 0 && left.device_bytes == 0 && left.pinned_bytes == 0,
                   "%lld objects, %zu and %zu bytes stay", (long long)left.objects,
                   left.device_bytes, left.pinned_bytes);
    printf("%d checks, %d failures\n", self.checks, self.failures);
    return self.failures > 0;
}
