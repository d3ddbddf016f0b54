/* A module of another version; what follows its number must not be looked at. */
#include "worker/device/device_module.h"

CADRE_API const uint32_t *cadre_device_module(void);

const uint32_t *
cadre_device_module(void)
{
    static const uint32_t abi = CADRE_DEVICE_ABI + 1;
    return &abi;
}
