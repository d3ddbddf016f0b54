/* A module with three devices, which compute on the CPU and are told apart by their names. */
#include <stdio.h>

#include "common/base/status.h"
#include "worker/device/device_module.h"

static char own_name[32];

static int
open_numbered(const cadre_device_request_t *request, void **device)
{
    snprintf(own_name, sizeof(own_name), "cuda:%d Made-up f32", request->index);
    return cadre_cpu_functions.open(request, device);
}

static const char *
name(const void *device)
{
    (void)device;
    return own_name;
}

static int
count(void)
{
    return 3;
}

const cadre_device_module_t *
cadre_device_module(void)
{
    static cadre_device_functions_t functions;
    static const cadre_device_module_t module = {
        .abi = CADRE_DEVICE_ABI, .layout = CADRE_DEVICE_LAYOUT, .functions = &functions};
    functions = cadre_cpu_functions;
    functions.error_text = cadre_error_text;
    functions.open = open_numbered;
    functions.count = count;
    functions.name = name;
    return &module;
}
