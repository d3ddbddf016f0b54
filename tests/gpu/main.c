/* cadre-gpu-check [DEVICE [PART ...]]: compare, operations, bf16, wire, fused, models, math,
 * memory, errors and killed, or those of them that are named, on a device (cuda:0) beside the CPU;
 * "cpu" compares the CPU with itself, which tests the checks. Exit status 0, 1 when something
 * differs, 77 with a reason where there is no device (with CADRE_REQUIRE_CUDA=1 that is a failure,
 * too), 2 for a bad command line, to which a name that no device can have belongs.
 *
 * For the tools of compute-sanitizer: with CADRE_GPU_CHECK_SMALL set the sizes are small, and with
 * CADRE_GPU_CHECK_EVERY=N one in N programs of the operations is run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/device_name.h"
#include "common/system/clock.h"
#include "tests/gpu/gpu_check.h"

enum { EXIT_USAGE = 2, EXIT_SKIPPED = 77 };

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

static const char *device_name = "cuda:0";

static int
open_math(const char *math, cadre_device_t **out)
{
    const cadre_device_options_t options = {.name = device_name, .threads = 1, .math = math};
    return cadre_device_open_with(&options, out);
}

static const struct {
    const char *name;
    void (*check)(gpu_check_t *);
} parts[] = {{"compare", gpu_check_compares}, {"operations", gpu_check_ops},
             {"bf16", gpu_check_bf16},        {"wire", gpu_check_wire},
             {"fused", gpu_check_fuse},       {"models", gpu_check_models},
             {"math", gpu_check_math},        {"memory", gpu_check_memory},
             {"errors", gpu_check_errors},    {"killed", gpu_check_killed}};

/* Whether part `index` is in the list of names; an empty list has all. */
static bool
is_wanted(size_t index, char *const *names)
{
    bool wanted = !names[0];
    for (; *names; names++) {
        wanted = wanted || strcmp(*names, parts[index].name) == 0;
    }
    return wanted;
}

/* The first of `names` that is no part; NULL when there is none. */
static const char *
no_part(char *const *names)
{
    for (; *names; names++) {
        bool known = false;
        for (size_t i = 0; i < CADRE_COUNT_OF(parts); i++) {
            known = known || strcmp(*names, parts[i].name) == 0;
        }
        if (!known) {
            return *names;
        }
    }
    return NULL;
}

/* Says what is wrong, and how the program is called. */
static int
refuse(const char *what, const char *name)
{
    fprintf(stderr,
            "cadre-gpu-check: %s%s\nusage: cadre-gpu-check [DEVICE [PART ...]]\n  PART:", what,
            name);
    for (size_t i = 0; i < CADRE_COUNT_OF(parts); i++) {
        fprintf(stderr, " %s", parts[i].name);
    }
    fprintf(stderr, "\n");
    return EXIT_USAGE;
}

static int
run_all(gpu_check_t *self, char *const *names)
{
    cadre_assert(cadre_device_open("cpu", 4, &self->cpu) == 0);
    printf("device %s\n", cadre_device_name(self->device));
    for (size_t i = 0; i < CADRE_COUNT_OF(parts); i++) {
        if (is_wanted(i, names)) {
            run(self, parts[i].name, parts[i].check);
        }
    }
    cadre_device_close(&self->cpu);
    printf("%d checks, %d failures\n", self->checks, self->failures);
    return self->failures > 0;
}

int
main(int argc, char **argv)
{
    bool hold = argc == 3 && strcmp(argv[1], "--hold") == 0;
    char *const *names = argv + (argc < 2 ? 1 : 2);
    const char *unknown = hold ? NULL : no_part(names);
    if (unknown) {
        return refuse("no part ", unknown);
    }
    device_name = hold ? argv[2] : argc > 1 ? argv[1] : device_name;
    const char *every = getenv("CADRE_GPU_CHECK_EVERY");
    gpu_check_t self = {.name = device_name,
                        .scale = getenv("CADRE_GPU_CHECK_SMALL") ? 0 : 1,
                        .every = every ? (int)strtol(every, NULL, 10) : 1};
    if (strcmp(device_name, "cpu") != 0) {
        self.open_math = open_math;
    }
    if (cadre_device_name_parse(device_name, &(int){0}) < 0) {
        return refuse("", cadre_error_text());
    }
    if (open_math("f32", &self.device) < 0) {
        return skip();
    }
    if (self.open_math && strncmp(cadre_device_name(self.device), "cpu ", 4) == 0) {
        cadre_fail(CADRE_EINVALID, "%s is the CPU on this machine", device_name);
        cadre_device_close(&self.device);
        return skip();
    }
    int status = hold ? gpu_check_hold(self.device) < 0 : run_all(&self, names);
    cadre_device_close(&self.device);
    return status;
}
