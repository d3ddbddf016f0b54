/* A module of the same version whose structs are others. */
#include "worker/device/device_module.h"

const cadre_device_module_t *
cadre_device_module(void)
{
    static const cadre_device_module_t module = {.abi = CADRE_DEVICE_ABI,
                                                 .layout = CADRE_DEVICE_LAYOUT + 1};
    return &module;
}
