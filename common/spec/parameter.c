#include "common/spec/parameter.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/status.h"

/* Checks that the value is finite and in the parameter's range; `owner` begins the error text. */
int
cadre_parameter_check(const cadre_parameter_t *self, const char *owner, double value)
{
    bool below = value < self->high || (!self->high_open && value == self->high);
    if (!isfinite(value) || value < self->low || !below) {
        return cadre_fail(CADRE_EINVALID, "%s: %s must be in [%g, %g%c, not %g", owner, self->name,
                          self->low, self->high, self->high_open ? ')' : ']', value);
    }
    return 0;
}

/* Checks each value against the parameter at the same position of the table. */
int
cadre_parameter_check_all(const cadre_parameter_t *table, size_t count, const char *owner,
                          const double *values)
{
    for (size_t i = 0; i < count; i++) {
        int status = cadre_parameter_check(&table[i], owner, values[i]);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Finds the position of the parameter called `name`; fails with a text that lists the names in the
 * table (as far as they fit). */
int
cadre_parameter_find(const cadre_parameter_t *table, size_t count, const char *owner,
                     const char *name, size_t *position)
{
    char known[256] = "";
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(table[i].name, name) == 0) {
            *position = i;
            return 0;
        }
        int length = snprintf(known + at, sizeof(known) - at, "%s%s", i ? ", " : "", table[i].name);
        at += length > 0 && (size_t)length < sizeof(known) - at ? (size_t)length : 0;
    }
    return cadre_fail(CADRE_ENOTFOUND, "%s has no parameter '%.64s'; it has %s", owner, name,
                      count ? known : "none");
}
