/*
 * initializer_spec - which values a variable begins with, as data: chosen by the coordinator, sent
 * to each ps. ps/core/initializer.h computes them.
 *
 * Owner:   whoever holds the struct (plain data).
 * Thread:  any one.
 */
#ifndef CADRE_COMMON_SPEC_INITIALIZER_SPEC_H
#define CADRE_COMMON_SPEC_INITIALIZER_SPEC_H

#include <stddef.h>
#include <stdint.h>

#include <cadre/optimizer.h>

#include "common/spec/parameter.h"
#include "common/tensor/tensor.h"

/* Positions of parameters; the kinds that are not here have none. */
enum {
    CADRE_CONSTANT_VALUE = 0, /* 0 */
    CADRE_UNIFORM_MIN = 0,    /* -0.05 */
    CADRE_UNIFORM_MAX = 1,    /* 0.05 */
    CADRE_NORMAL_MEAN = 0,    /* 0; of normal and truncated_normal */
    CADRE_NORMAL_STDDEV = 1,  /* 0.05 */
    CADRE_INITIALIZER_PARAMETERS_MAX = 4,
};

typedef struct {
    cadre_initializer_kind_t kind;
    double parameters[CADRE_INITIALIZER_PARAMETERS_MAX]; /* unused ones are 0 */
    uint64_t seed; /* of this variable: two variables of a job must not share it */
} cadre_initializer_spec_t;

/* The kind called `text` with its default parameters and seed 0; CADRE_ENOTFOUND, naming the kinds.
 */
int cadre_initializer_spec_parse(cadre_initializer_spec_t *self, const char *text);

/* Takes what a program of the public API gave; `seed` becomes 0. Values are left to
 * cadre_initializer_spec_check. CADRE_EINVALID for what is no kind, and for parameters without a
 * kind. */
int cadre_initializer_spec_take(cadre_initializer_spec_t *self, const cadre_initializer_t *given);

/* Returns the spec as a program of the public API has it. */
cadre_initializer_t cadre_initializer_spec_give(const cadre_initializer_spec_t *self);

/* The spec that came as `kind` and `count` parameters from wire or disk. CADRE_EMALFORMED for an
 * unknown kind or another number of parameters, CADRE_EINVALID for a value. */
int cadre_initializer_spec_decode(cadre_initializer_spec_t *self, uint64_t kind,
                                  const double *parameters, size_t count, uint64_t seed);

/* Checks the values, and that they suit `dtype`: random kinds need f32, zeros and constant f32,
 * f64, i32 or i64 (CADRE_EDTYPE); an integer's constant is one that the type holds
 * (CADRE_EINVALID). */
int cadre_initializer_spec_check(const cadre_initializer_spec_t *self, cadre_dtype_t dtype);

/* "zeros" and so on; "?" for a number that is no kind. */
const char *cadre_initializer_kind_text(cadre_initializer_kind_t kind);

/* The parameters of a kind in their order on the wire. */
size_t cadre_initializer_parameters(cadre_initializer_kind_t kind, const cadre_parameter_t **table);

#endif
