/* A module of another version; what follows its number must not be looked at. */
#include "worker/device/device_module.h"

const cadre_device_module_t *
cadre_device_module(void)
{
    static const uint32_t abi = CADRE_DEVICE_ABI + 1;
    return (const cadre_device_module_t *)(const void *)&abi;
}
