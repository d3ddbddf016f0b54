/*
 * kind - tables of kinds with parameters, such as the kinds of initializers and of optimizers, and
 * the functions that both use.
 *
 * Owner:   constant tables.
 * Thread:  any.
 */
#ifndef CADRE_COMMON_SPEC_KIND_H
#define CADRE_COMMON_SPEC_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/spec/parameter.h"

typedef struct {
    const char *text;                    /* word in job files; NULL: the number is no kind */
    const cadre_parameter_t *parameters; /* in their order on the wire */
    size_t parameter_count;
} cadre_kind_t;

/* Where a parameter is in the public struct, such as cadre_optimizer_t: the offset of a field of
 * type double. */
typedef struct {
    const char *name;
    size_t offset;
} cadre_kind_field_t;

typedef struct {
    const char *what; /* "optimizer" */
    const cadre_kind_t *rows;
    size_t count; /* number of rows; the index of a row is the kind's number on the wire */
    const cadre_kind_field_t *fields;
    size_t field_count;
} cadre_kinds_t;

/* Returns the word of the kind with this number; "?" where it is no kind. */
const char *cadre_kinds_text(const cadre_kinds_t *self, uint64_t number);

/* Returns how many parameters a kind has, and gives their table; 0 and NULL where `number` is no
 * kind. */
size_t cadre_kinds_parameters(const cadre_kinds_t *self, uint64_t number,
                              const cadre_parameter_t **table);

/* Writes the defaults of a kind's parameters. */
void cadre_kinds_defaults(const cadre_kinds_t *self, uint64_t number, double *parameters);

/* Finds the kind called `text`: writes its number and the defaults of its parameters. Fails with
 * CADRE_ENOTFOUND, and a text that lists all kinds, when none is called so. */
int cadre_kinds_parse(const cadre_kinds_t *self, const char *text, uint64_t *number,
                      double *parameters);

/* Returns whether all fields of the public struct at `given` that are doubles are 0. If its other
 * fields are, too, the user's program has set nothing and gets the default. */
bool cadre_kinds_is_unset(const cadre_kinds_t *self, const void *given);

/* Copies a kind's parameters from the fields of the public struct at `given`; a parameter without a
 * field gets its default. Fails with CADRE_EINVALID when the number is no kind. */
int cadre_kinds_take(const cadre_kinds_t *self, uint64_t number, const void *given,
                     double *parameters);

/* Copies a kind's parameters to the fields of the public struct at `given`. */
void cadre_kinds_give(const cadre_kinds_t *self, uint64_t number, const double *parameters,
                      void *given);

/* Copies `count` parameters of a kind, which came from wire or disk, to `out`, and checks their
 * ranges. Fails with CADRE_EMALFORMED for an unknown kind or another number of parameters,
 * CADRE_EINVALID for a bad value. */
int cadre_kinds_decode(const cadre_kinds_t *self, uint64_t number, const double *parameters,
                       size_t count, double *out);

/* Finds the position of a kind's parameter by name. Fails with CADRE_ENOTFOUND, and a text that
 * lists the kind's parameters, when it has none of that name. */
int cadre_kinds_find(const cadre_kinds_t *self, uint64_t number, const char *name,
                     size_t *position);

/* Checks a kind's parameters; fails with CADRE_EINVALID where one is out of its range. */
int cadre_kinds_check(const cadre_kinds_t *self, uint64_t number, const double *parameters);

#endif
