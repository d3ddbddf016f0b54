#include "coordinator/core/catalogue/variable_slots.h"

#include <string.h>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"

/* Fails because the optimizer has no slot of this name, and names those that it has. */
static int
fail_unknown(const cadre_variable_t *variable, const char *name)
{
    char names[CADRE_TEXT_SIZE_MAX];
    cadre_optimizer_slot_names(&variable->optimizer, names, sizeof(names));
    return cadre_fail(CADRE_ENOTFOUND, "the optimizer of variable %s has no slot %s, it has %s",
                      variable->name, name ? name : "NULL", names);
}

int
cadre_variable_slots_find(const cadre_variable_t *variable, const char *name, uint64_t *slot)
{
    const size_t count = cadre_optimizer_slot_count(&variable->optimizer);
    for (size_t i = 0; name && i < count; i++) {
        if (strcmp(cadre_optimizer_slot_name(&variable->optimizer, i), name) == 0) {
            *slot = i + 1;
            return 0;
        }
    }
    return fail_unknown(variable, name);
}

size_t
cadre_variable_slots_row_elements(const cadre_variable_t *variable)
{
    const bool is_one = variable->table && variable->table->row_wise;
    return is_one ? 1 : variable->row_size_bytes / cadre_dtype_size(variable->dtype);
}
