/*
 * parameter - a named number with a default and a range, as initializers and optimizers have them.
 *
 * Owner:   constant tables.
 * Thread:  any.
 */
#ifndef CADRE_COMMON_SPEC_PARAMETER_H
#define CADRE_COMMON_SPEC_PARAMETER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *name;
    double initial; /* default */
    double low;     /* smallest allowed value */
    double high;    /* largest allowed value, unless `high_open` */
    bool high_open; /* `high` itself is not allowed */
} cadre_parameter_t;

/* Checks a value. Fails with CADRE_EINVALID, and a text with `owner`, the parameter and its range,
 * when `value` is not finite or outside the range. */
int cadre_parameter_check(const cadre_parameter_t *self, const char *owner, double value);

/* Checks `count` values against a table of the same length. */
int cadre_parameter_check_all(const cadre_parameter_t *table, size_t count, const char *owner,
                              const double *values);

/* Finds the position of `name` in a table. Fails with CADRE_ENOTFOUND, and a text that lists the
 * names in the table, when it is not among them. */
int cadre_parameter_find(const cadre_parameter_t *table, size_t count, const char *owner,
                         const char *name, size_t *position);

#endif
