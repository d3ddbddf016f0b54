#include "ps/core/values/initializer.h"

#include <math.h>

#include "common/base/random.h"
#include "common/base/status.h"

/* The number of the random stream that initial values are drawn from; variables differ by seed. */
#define STREAM UINT64_C(0x696e697469616c)

enum {
    REDRAWS_MAX = 16
}; /* blocks of four random numbers that an element may need: more has
                              probability 1e-86 */

static void
set_uniform(cadre_ps_initializer_t *self, double low, double high)
{
    self->kind = CADRE_INITIALIZER_UNIFORM;
    self->center = low;
    self->scale = high - low;
}

static void
set_truncated_normal(cadre_ps_initializer_t *self, double mean, double stddev)
{
    self->kind = CADRE_INITIALIZER_TRUNCATED_NORMAL;
    self->center = mean;
    self->scale = stddev;
}

/* Sets the distribution and its numbers; kinds of Glorot, He and LeCun become uniform or truncated
 * normal ones whose width depends on the fans. */
static void
resolve(cadre_ps_initializer_t *self, const cadre_initializer_spec_t *spec, double fan_in,
        double fan_out)
{
    const double *parameters = spec->parameters;
    double glorot = fmax(1, (fan_in + fan_out) / 2);
    double in = fmax(1, fan_in); /* of he and lecun */

    switch (spec->kind) {
    case CADRE_INITIALIZER_ZEROS:
        self->kind = CADRE_INITIALIZER_CONSTANT;
        break;
    case CADRE_INITIALIZER_CONSTANT:
        self->kind = CADRE_INITIALIZER_CONSTANT;
        self->center = parameters[CADRE_CONSTANT_VALUE];
        break;
    case CADRE_INITIALIZER_UNIFORM:
        set_uniform(self, parameters[CADRE_UNIFORM_MIN], parameters[CADRE_UNIFORM_MAX]);
        break;
    case CADRE_INITIALIZER_NORMAL:
        self->kind = CADRE_INITIALIZER_NORMAL;
        self->center = parameters[CADRE_NORMAL_MEAN];
        self->scale = parameters[CADRE_NORMAL_STDDEV];
        break;
    case CADRE_INITIALIZER_TRUNCATED_NORMAL:
        set_truncated_normal(self, parameters[CADRE_NORMAL_MEAN], parameters[CADRE_NORMAL_STDDEV]);
        break;
    case CADRE_INITIALIZER_GLOROT_UNIFORM:
        set_uniform(self, -sqrt(3 / glorot), sqrt(3 / glorot));
        break;
    case CADRE_INITIALIZER_GLOROT_NORMAL:
        set_truncated_normal(self, 0, sqrt(1 / glorot) / CADRE_TRUNCATED_STDDEV);
        break;
    case CADRE_INITIALIZER_HE_UNIFORM:
        set_uniform(self, -sqrt(6 / in), sqrt(6 / in));
        break;
    case CADRE_INITIALIZER_HE_NORMAL:
        set_truncated_normal(self, 0, sqrt(2 / in) / CADRE_TRUNCATED_STDDEV);
        break;
    case CADRE_INITIALIZER_LECUN_UNIFORM:
        set_uniform(self, -sqrt(3 / in), sqrt(3 / in));
        break;
    case CADRE_INITIALIZER_LECUN_NORMAL:
        set_truncated_normal(self, 0, sqrt(1 / in) / CADRE_TRUNCATED_STDDEV);
        break;
    case CADRE_INITIALIZER_IDENTITY:
        self->kind = CADRE_INITIALIZER_IDENTITY;
        self->center = parameters[CADRE_IDENTITY_VALUE];
        break;
    }
}

/* Makes a spec ready for one variable: turns the kinds whose width depends on the shape into plain
 * distributions. */
int
cadre_initializer_init(cadre_ps_initializer_t *self, const cadre_initializer_spec_t *spec,
                       cadre_dtype_t dtype, const int64_t *shape, int rank)
{
    int status = cadre_shape_size(dtype, shape, rank, NULL, NULL);
    if (status == 0) {
        status = cadre_initializer_spec_check(spec, dtype, rank);
    }
    if (status < 0) {
        return status;
    }

    double fan_in = 0;
    double fan_out = 0;
    cadre_initializer_fans(shape, rank, &fan_in, &fan_out);
    *self = (cadre_ps_initializer_t){
        .dtype = dtype, .seed = spec->seed, .columns = rank == 2 ? (uint64_t)shape[1] : 0};
    resolve(self, spec, fan_in, fan_out);
    return 0;
}

cadre_ps_initializer_t
cadre_initializer_reseed(const cadre_ps_initializer_t *self, uint64_t seed)
{
    cadre_ps_initializer_t reseeded = *self;
    reseeded.seed = seed;
    return reseeded;
}

/* Writes one element in the dtype of the variable. */
static void
store(const cadre_ps_initializer_t *self, void *out, size_t at, double value)
{
    if (self->dtype == CADRE_F32) {
        ((float *)out)[at] = (float)value;
    } else if (self->dtype == CADRE_F64) {
        ((double *)out)[at] = value;
    } else if (self->dtype == CADRE_I32) {
        ((int32_t *)out)[at] = (int32_t)value;
    } else {
        ((int64_t *)out)[at] = (int64_t)value;
    }
}

static void
fill_constant(const cadre_ps_initializer_t *self, size_t count, void *out)
{
    for (size_t i = 0; i < count; i++) {
        store(self, out, i, self->center);
    }
}

/* Writes elements from `first` on of the matrix that is 0 but where row and column are the same. */
static void
fill_identity(const cadre_ps_initializer_t *self, uint64_t first, size_t count, void *out)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t row = (first + i) / self->columns;
        const uint64_t column = (first + i) % self->columns;
        store(self, out, i, row == column ? self->center : 0);
    }
}

/* Returns the first normal number of element `index` that lies within +-2. The element's numbers
 * are the four of its own Philox block, then the four of the block whose counter is that block's
 * bits, and so on. */
static double
truncated_normal(uint64_t seed, uint64_t index)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t block[4];

    cadre_random_block(seed, STREAM, index, block);
    for (int redraw = 0; redraw < REDRAWS_MAX; redraw++) {
        for (int half = 0; half < 4; half += 2) {
            double pair[2];
            cadre_random_box_muller(block[half], block[half + 1], pair);
            for (int i = 0; i < 2; i++) {
                if (fabs(pair[i]) <= 2) {
                    return pair[i];
                }
            }
        }
        cadre_philox4x32(block, key, block);
    }

    return 0; /* with a probability of 1e-86 */
}

/* Writes the initial values of elements from `first` on: random numbers as
 * f32, the only dtype that they have. */
void
cadre_initializer_fill(const cadre_ps_initializer_t *self, uint64_t first, size_t count, void *out)
{
    if (self->kind == CADRE_INITIALIZER_CONSTANT) {
        fill_constant(self, count, out);
        return;
    }
    if (self->kind == CADRE_INITIALIZER_IDENTITY) {
        fill_identity(self, first, count, out);
        return;
    }

    /* The distributions draw standard numbers, which the last loop scales and shifts. */
    float *values = out;
    if (self->kind == CADRE_INITIALIZER_UNIFORM) {
        cadre_random_fill_uniform(self->seed, STREAM, first, count, values);
    } else if (self->kind == CADRE_INITIALIZER_NORMAL) {
        cadre_random_fill_normal(self->seed, STREAM, first, count, values);
    } else {
        for (size_t i = 0; i < count; i++) {
            values[i] = (float)truncated_normal(self->seed, first + i);
        }
    }

    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(self->center + self->scale * (double)values[i]);
    }
}
