/* A module whose device computes on the CPU until it is lost: at the fifth run of a process, if the
 * file named by CADRE_TEST_LOSS can be removed, so in one process only. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/status.h"
#include "worker/device/device_module.h"

enum { RUNS = 5 };

static atomic_int runs;
static atomic_bool lost;

static int
run_or_lose(void *slot, void *prepared, const cadre_slot_run_t *run)
{
    const char *path = getenv("CADRE_TEST_LOSS");
    if (atomic_fetch_add(&runs, 1) + 1 == RUNS && path && unlink(path) == 0) {
        atomic_store(&lost, true);
    }
    return atomic_load(&lost) ? cadre_fail(CADRE_EDEVICE, "the made-up device is gone")
                              : cadre_cpu_functions.run(slot, prepared, run);
}

static const char *
name(const void *device)
{
    (void)device;
    return "cuda:0 Made-up f32";
}

const cadre_device_module_t *
cadre_device_module(void)
{
    static cadre_device_functions_t functions;
    static const cadre_device_module_t module = {
        .abi = CADRE_DEVICE_ABI, .layout = CADRE_DEVICE_LAYOUT, .functions = &functions};
    functions = cadre_cpu_functions;
    functions.error_text = cadre_error_text;
    functions.name = name;
    functions.run = run_or_lose;
    return &module;
}
