/* A module that describes nothing. */
#include "worker/device/device_module.h"

const cadre_device_module_t *
cadre_device_module(void)
{
    return NULL;
}
