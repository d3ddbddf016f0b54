#include "common/spec/device_list.h"

#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/device_name.h"

/* Returns how many names a list has, which commas separate. */
size_t
cadre_device_list_count(const char *list)
{
    size_t count = 1;
    for (const char *c = list; *c; c++) {
        count += *c == ',';
    }
    return count;
}

/* Returns a copy of the name for worker `index`: workers take the names in turn. The list has been
 * checked. */
char *
cadre_device_list_item(const char *list, size_t index)
{
    const char *item = list;
    for (size_t i = index % cadre_device_list_count(list); i > 0; i--) {
        item = strchr(item, ',') + 1;
    }
    return cadre_strndup(item, strcspn(item, ","));
}

/* Checks that each name is that of a device, and that "auto" or "auto:N" is the only one. */
int
cadre_device_list_check(const char *list)
{
    size_t count = cadre_device_list_count(list);
    for (size_t i = 0; i < count; i++) {
        int device = 0;
        cadre_auto(cadre_free) char *name = cadre_device_list_item(list, i);
        if (cadre_device_name_parse(name, &device) < 0) {
            return CADRE_EINVALID;
        }
        if (device <= CADRE_DEVICE_AUTO && count > 1) {
            return cadre_fail(CADRE_EINVALID,
                              "device \"auto\" stands alone: it is all GPUs of a host in turn");
        }
    }
    return 0;
}
