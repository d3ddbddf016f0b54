/*
 * initializer_spec - which values a variable begins with, as data: chosen by the coordinator, sent
 * to each ps. ps/core/values/initializer.h computes them.
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

/* Positions of a kind's parameters, with their defaults; kinds that are not listed have none. */
enum {
    CADRE_CONSTANT_VALUE = 0, /* default 0 */
    CADRE_IDENTITY_VALUE = 0, /* default 1 */
    CADRE_UNIFORM_MIN = 0,    /* default -0.05 */
    CADRE_UNIFORM_MAX = 1,    /* default 0.05 */
    CADRE_NORMAL_MEAN = 0,    /* normal and truncated_normal; default 0 */
    CADRE_NORMAL_STDDEV = 1,  /* normal and truncated_normal; default 0.05 */
    CADRE_INITIALIZER_PARAMETERS_MAX = 4,
};

typedef struct {
    cadre_initializer_kind_t kind;
    double parameters[CADRE_INITIALIZER_PARAMETERS_MAX]; /* unused ones are 0 */
    uint64_t seed; /* of the random kinds; two variables of a job must not have the same */
} cadre_initializer_spec_t;

/* Gives the kind called `text` with its default parameters and seed 0. Fails with CADRE_ENOTFOUND,
 * and a text that lists all kinds, when none is called so. */
int cadre_initializer_spec_parse(cadre_initializer_spec_t *self, const char *text);

/* Converts the public struct that a user's program has filled in; `seed` becomes 0. Fails with
 * CADRE_EINVALID for an unknown kind, and for parameters without a kind. The values are checked by
 * cadre_initializer_spec_check only. */
int cadre_initializer_spec_take(cadre_initializer_spec_t *self, const cadre_initializer_t *given);

/* Converts the spec to the public struct. */
cadre_initializer_t cadre_initializer_spec_give(const cadre_initializer_spec_t *self);

/* Reads a spec that came from wire or disk as `kind` and `count` parameters. Fails with
 * CADRE_EMALFORMED for an unknown kind or another number of parameters, CADRE_EINVALID for a bad
 * value. */
int cadre_initializer_spec_decode(cadre_initializer_spec_t *self, uint64_t kind,
                                  const double *parameters, size_t count, uint64_t seed);

/* Checks the values, and that they suit a variable of `dtype` and `rank`. Fails with CADRE_EDTYPE
 * unless random kinds are for f32, the others for f32, f64, i32 or i64; with CADRE_ESHAPE for an
 * identity that is no matrix; with CADRE_EINVALID for a bad value, also for one that an integer
 * dtype cannot hold. */
int cadre_initializer_spec_check(const cadre_initializer_spec_t *self, cadre_dtype_t dtype,
                                 int rank);

/* Standard deviation of the standard normal distribution truncated at +-2; the digits are
 * Keras'. */
#define CADRE_TRUNCATED_STDDEV 0.87962566103423978

/* Gives fan_in and fan_out of a shape, as cadre_variance_scaling defines them. */
void cadre_initializer_fans(const int64_t *shape, int rank, double *fan_in, double *fan_out);

/* Returns the word for a kind, such as "zeros"; "?" for a number that is no kind. */
const char *cadre_initializer_kind_text(cadre_initializer_kind_t kind);

/* Gives the table of a kind's parameters, in their order on the wire; returns how many there
 * are. */
size_t cadre_initializer_parameters(cadre_initializer_kind_t kind, const cadre_parameter_t **table);

#endif
