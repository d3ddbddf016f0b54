/*
 * kind - the kinds that there are of something that a variable is created with, as a table: what an
 * initializer and an optimizer have in common.
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
    const char *text;                    /* in job files; NULL: this number is none */
    const cadre_parameter_t *parameters; /* in their order on the wire */
    size_t parameter_count;
} cadre_kind_t;

/* A member of the public struct, a double, that is the parameter of that name. */
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

/* Finds the kind called `text` and writes its defaults. CADRE_ENOTFOUND, naming the kinds. */
int cadre_kinds_parse(const cadre_kinds_t *self, const char *text, uint64_t *number,
                      double *parameters);

/* Whether all fields of the public struct at `given` are 0: the program left it to us. */
bool cadre_kinds_is_unset(const cadre_kinds_t *self, const void *given);

/* Copies a kind's parameters from the fields of the public struct at `given`; what has no field
 * becomes its default. CADRE_EINVALID where the number is no kind. */
int cadre_kinds_take(const cadre_kinds_t *self, uint64_t number, const void *given,
                     double *parameters);

/* Copies a kind's parameters to the fields of the public struct at `given`. */
void cadre_kinds_give(const cadre_kinds_t *self, uint64_t number, const double *parameters,
                      void *given);

/* Takes what came from wire or disk: copies `count` parameters of a kind to `out`, and checks their
 * ranges. CADRE_EMALFORMED for an unknown kind or another number of parameters, CADRE_EINVALID for
 * a value. */
int cadre_kinds_decode(const cadre_kinds_t *self, uint64_t number, const double *parameters,
                       size_t count, double *out);

/* Finds the position of a kind's parameter by name. CADRE_ENOTFOUND, naming those that it has. */
int cadre_kinds_find(const cadre_kinds_t *self, uint64_t number, const char *name,
                     size_t *position);

/* Checks the ranges of a kind's parameters. CADRE_EINVALID. */
int cadre_kinds_check(const cadre_kinds_t *self, uint64_t number, const double *parameters);

#endif
