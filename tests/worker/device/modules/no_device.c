/* A module that loads, on a machine without its hardware. */
#include "worker/device/device_module.h"

static const char *
error_text(void)
{
    return "no such hardware";
}

static int
no_open(const cadre_device_request_t *request, void **device)
{
    (void)request;
    (void)device;
    return CADRE_EUNAVAILABLE;
}

const cadre_device_module_t *
cadre_device_module(void)
{
    static const cadre_device_functions_t functions = {.error_text = error_text, .open = no_open};
    static const cadre_device_module_t module = {
        .abi = CADRE_DEVICE_ABI, .layout = CADRE_DEVICE_LAYOUT, .functions = &functions};
    return &module;
}
