/* What travels as bf16, on the fake device: in several orders of its streams. A plain program. */
#include <stdio.h>

#include "common/base/assert.h"
#include "tests/gpu/gpu_check.h"
#include "tests/worker/cuda_fake/fake_cuda.h"
#include "worker/device/device_module.h"

enum { SEEDS = 3 };

int
main(void)
{
    gpu_check_t self = {.scale = 0};
    cadre_device_options_t options = {.name = "cuda:0", .threads = 1};
    fake_cuda_count_t before = fake_cuda_count();
    cadre_assert(
        cadre_device_open_functions(cadre_device_module()->functions, &options, &self.device) == 0);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        fake_cuda_seed(seed);
        gpu_check_wire(&self);
    }
    cadre_device_close(&self.device);
    fake_cuda_count_t after = fake_cuda_count();
    gpu_check_that(&self,
                   after.device_bytes == before.device_bytes &&
                       after.pinned_bytes == before.pinned_bytes && after.objects == before.objects,
                   "something stays");
    printf("%d checks, %d failed\n", self.checks, self.failures);
    return self.failures > 0;
}
