/*
 * initializer - the values a variable begins with.
 *
 * Element i (row-major, over the whole variable) has one value for a given seed, whatever partition
 * or chunk it falls into, because it is made from the counter i (common/base/random.h).
 *
 * Definitions are Keras' (keras/src/initializers/random_initializers.py). fan_in and fan_out come
 * from the shape of the whole variable, as cadre_variance_scaling (cadre/optimizer.h) says. Then
 *
 *     glorot_uniform  uniform on +- sqrt(3 / n), n = max(1, (fan_in + fan_out) / 2)
 *     glorot_normal   truncated normal with standard deviation sqrt(1 / n) / c, n as above
 *     he_uniform      uniform on +- sqrt(6 / n), n = max(1, fan_in)
 *     he_normal       truncated normal with standard deviation sqrt(2 / n) / c, n as for he_uniform
 *     lecun_uniform   uniform on +- sqrt(3 / n), n as for he_uniform
 *     lecun_normal    truncated normal with standard deviation sqrt(1 / n) / c, n as for he_uniform
 *
 * c = 0.87962566103423978 is the standard deviation of the standard normal distribution truncated
 * at +-2. A truncated normal number beyond two standard deviations is drawn again from the same
 * element's numbers. As in Keras, rounding to f32 can make a uniform number equal to its upper end.
 *
 * Owner:   whoever holds the struct (plain data).
 * Thread:  immutable after init.
 */
#ifndef CADRE_PS_CORE_VALUES_INITIALIZER_H
#define CADRE_PS_CORE_VALUES_INITIALIZER_H

#include <stddef.h>
#include <stdint.h>

#include "common/spec/initializer_spec.h"

/* A spec made ready for one variable. */
typedef struct {
    cadre_initializer_kind_t kind; /* CONSTANT, UNIFORM, NORMAL, TRUNCATED_NORMAL or
                                    * IDENTITY */
    cadre_dtype_t dtype;
    uint64_t seed;
    uint64_t columns; /* of a matrix; else 0 */
    double center;    /* the constant, the lower end, the mean, or what stands where row = column */
    double scale;     /* upper minus lower end, or the standard deviation */
} cadre_ps_initializer_t;

/* Makes a spec ready for a variable of this dtype and (whole) shape. Fails as
 * cadre_initializer_spec_check and cadre_shape_size do. */
int cadre_initializer_init(cadre_ps_initializer_t *self, const cadre_initializer_spec_t *spec,
                           cadre_dtype_t dtype, const int64_t *shape, int rank);

/* Returns an initializer of the same distribution whose numbers are those of another seed. */
cadre_ps_initializer_t cadre_initializer_reseed(const cadre_ps_initializer_t *self, uint64_t seed);

/* Writes elements [first, first + count) of the variable to `out`, which is aligned for the dtype.
 */
void cadre_initializer_fill(const cadre_ps_initializer_t *self, uint64_t first, size_t count,
                            void *out);

#endif
