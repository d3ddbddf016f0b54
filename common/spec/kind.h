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

/* Where a parameter is in the public struct: the offset of a field of type double. */
typedef struct {
    const char *name;
    size_t offset;
} cadre_kind_field_t;

typedef struct {
    const char *what; /* "optimizer" */
    const cadre_kind_t *rows;
    size_t count; /* of rows, whose index is the number on the wire */
    const cadre_kind_field_t *fields;
    size_t field_count;
} cadre_kinds_t;

/* Returns the word of a number; "?" where it is no kind. */
const char *cadre_kinds_text(const cadre_kinds_t *self, uint64_t number);

/* Returns how many parameters a kind has, and their table; none where it is no kind. */
size_t cadre_kinds_parameters(const cadre_kinds_t *self, uint64_t number,
                              const cadre_parameter_t **table);

/* Writes the defaults of a kind's parameters. */
void cadre_kinds_defaults(const cadre_kinds_t *self, uint64_t number, double *parameters);

/* Finds the kind called `text` and writes its defaults; fails with CADRE_ENOTFOUND and the names of
 * all kinds. */
int cadre_kinds_parse(const cadre_kinds_t *self, const char *text, uint64_t *number,
                      double *parameters);

/* Returns whether all fields of the public struct at `given` are 0: the user's program wants the
 * default. */
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

/* Finds the position of a kind's parameter by name; fails with CADRE_ENOTFOUND and the kind's
 * parameters. */
int cadre_kinds_find(const cadre_kinds_t *self, uint64_t number, const char *name,
                     size_t *position);

/* Checks the ranges of a kind's parameters; fails with CADRE_EINVALID. */
int cadre_kinds_check(const cadre_kinds_t *self, uint64_t number, const double *parameters);

#endif
