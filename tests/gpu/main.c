/* cadre-gpu-check [cuda:N]: every operation and some models on a GPU beside the CPU. Exit status 0,
 * 1 when something differs, 77 with a reason where there is no device (with CADRE_REQUIRE_CUDA=1
 * that is a failure, too), 2 for a bad command line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/clock.h"
#include "common/status.h"
#include "tests/gpu/gpu_check.h"

enum { EXIT_SKIPPED = 77 };

static int
skip(void)
{
    const char *required = getenv("CADRE_REQUIRE_CUDA");
    bool failure = required && strcmp(required, "1") == 0;
    fprintf(stderr, "%s: %s\n", failure ? "FAILED" : "skipped", cadre_error_text());
    return failure ? 1 : EXIT_SKIPPED;
}

static void
run(gpu_check_t *self, const char *name, void (*check)(gpu_check_t *))
{
    int checks = self->checks;
    int failures = self->failures;
    int64_t begin_us = cadre_clock_now_us();
    check(self);
    printf("%s: %d checks, %d failures, %.1f s\n", name, self->checks - checks,
           self->failures - failures, (double)(cadre_clock_now_us() - begin_us) / 1e6);
    fflush(stdout);
}

int
main(int argc, char **argv)
{
    if (argc > 2) {
        fprintf(stderr, "cadre-gpu-check [cuda:N]\n");
        return 2;
    }
    cadre_device_options_t options = {
        .name = argc > 1 ? argv[1] : "cuda:0", .threads = 1, .math = "f32"};
    gpu_check_t self = {.scale = getenv("CADRE_GPU_CHECK_SMALL") ? 0 : 1};
    if (cadre_device_open_with(&options, &self.device) < 0) {
        return skip();
    }
    cadre_assert(cadre_device_open("cpu", 4, &self.cpu) == 0);
    printf("device %s\n", cadre_device_name(self.device));
    run(&self, "operations", gpu_check_ops);
    run(&self, "models", gpu_check_models);
    run(&self, "memory", gpu_check_memory);
    run(&self, "errors", gpu_check_errors);
    cadre_device_close(&self.device);
    cadre_device_close(&self.cpu);
    printf("%d checks, %d failures\n", self.checks, self.failures);
    return self.failures > 0;
}
