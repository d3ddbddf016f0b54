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
    double initial; /* what it is unless set */
    double low;     /* the range, ends included */
    double high;
    bool high_open; /* `high` itself is outside */
} cadre_parameter_t;

/* CADRE_EINVALID, naming `owner`, the parameter and its range, when `value` is not finite or lies
 * outside. */
int cadre_parameter_check(const cadre_parameter_t *self, const char *owner, double value);

/* Checks `count` values against a table of the same length. */
int cadre_parameter_check_all(const cadre_parameter_t *table, size_t count, const char *owner,
                              const double *values);

/* The position of `name` in a table; CADRE_ENOTFOUND, naming the ones there are. */
int cadre_parameter_find(const cadre_parameter_t *table, size_t count, const char *owner,
                         const char *name, size_t *position);

#endif
