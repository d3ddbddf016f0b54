#include "common/spec/initializer_spec.h"

#include <math.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/kind.h"
#include "common/tensor/dtype.h"

/* Bounds of parameters: what f32 and f64 can hold. A standard deviation is bounded far below, so
 * that no element becomes infinite. */
#define F32_MAX 3.4e38
#define F64_MAX 1.7e308

/* The largest scale of a variance: no standard deviation is beyond that of normal. */
#define SCALE_MAX 1e30

static const cadre_parameter_t constant_parameters[] = {
    {"value", 0, -F64_MAX, F64_MAX, false},
};
static const cadre_parameter_t identity_parameters[] = {
    {"value", 1, -F64_MAX, F64_MAX, false},
};
static const cadre_parameter_t uniform_parameters[] = {
    {"min", -0.05, -F32_MAX, F32_MAX, false},
    {"max", 0.05, -F32_MAX, F32_MAX, false},
};
static const cadre_parameter_t normal_parameters[] = {
    {"mean", 0, -1e30, 1e30, false},
    {"stddev", 0.05, 0, 1e30, false},
};

#define ZEROS_PARAMETERS            NULL, 0
#define CONSTANT_PARAMETERS         constant_parameters, CADRE_COUNT_OF(constant_parameters)
#define UNIFORM_PARAMETERS          uniform_parameters, CADRE_COUNT_OF(uniform_parameters)
#define NORMAL_PARAMETERS           normal_parameters, CADRE_COUNT_OF(normal_parameters)
#define TRUNCATED_NORMAL_PARAMETERS NORMAL_PARAMETERS
#define GLOROT_UNIFORM_PARAMETERS   NULL, 0
#define GLOROT_NORMAL_PARAMETERS    NULL, 0
#define HE_UNIFORM_PARAMETERS       NULL, 0
#define HE_NORMAL_PARAMETERS        NULL, 0
#define LECUN_UNIFORM_PARAMETERS    NULL, 0
#define LECUN_NORMAL_PARAMETERS     NULL, 0
#define IDENTITY_PARAMETERS         identity_parameters, CADRE_COUNT_OF(identity_parameters)

static const cadre_kind_t rows[] = {
#define X(name, number, text) [number] = {text, name##_PARAMETERS},
    CADRE_INITIALIZER_LIST(X)
#undef X
};

/* Which field of the public struct is which parameter. */
#define FIELD(name) #name, offsetof(cadre_initializer_t, name)
static const cadre_kind_field_t fields[] = {
    {FIELD(value)}, {FIELD(min)}, {FIELD(max)}, {FIELD(mean)}, {FIELD(stddev)}};
#undef FIELD

static const cadre_kinds_t kinds = {"initializer", rows, CADRE_COUNT_OF(rows), fields,
                                    CADRE_COUNT_OF(fields)};

const char *
cadre_initializer_kind_text(cadre_initializer_kind_t kind)
{
    return cadre_kinds_text(&kinds, kind);
}

size_t
cadre_initializer_parameters(cadre_initializer_kind_t kind, const cadre_parameter_t **table)
{
    return cadre_kinds_parameters(&kinds, kind, table);
}

/* Gives the kind called `text` with its default parameters and seed 0. */
int
cadre_initializer_spec_parse(cadre_initializer_spec_t *self, const char *text)
{
    cadre_initializer_spec_t spec = {0};
    uint64_t kind = 0;
    int status = cadre_kinds_parse(&kinds, text, &kind, spec.parameters);
    if (status < 0) {
        return status;
    }
    spec.kind = (cadre_initializer_kind_t)kind;
    *self = spec;
    return 0;
}

/* Converts the public struct of a user's program. A struct that is all 0 stands for "zeros". */
int
cadre_initializer_spec_take(cadre_initializer_spec_t *self, const cadre_initializer_t *given)
{
    if (given->kind == 0 && cadre_kinds_is_unset(&kinds, given)) {
        return cadre_initializer_spec_parse(self, "zeros");
    }

    cadre_initializer_spec_t spec = {.kind = given->kind};
    int status = cadre_kinds_take(&kinds, spec.kind, given, spec.parameters);
    if (status < 0) {
        return status;
    }
    *self = spec;
    return 0;
}

cadre_initializer_t
cadre_initializer_spec_give(const cadre_initializer_spec_t *self)
{
    cadre_initializer_t given = {.kind = self->kind};
    cadre_kinds_give(&kinds, self->kind, self->parameters, &given);
    return given;
}

cadre_initializer_t
cadre_initializer(cadre_initializer_kind_t kind)
{
    cadre_initializer_spec_t spec = {.kind = kind};
    cadre_kinds_defaults(&kinds, kind, spec.parameters);
    return cadre_initializer_spec_give(&spec);
}

/* Gives the public struct for the initializer called `word`, with its defaults. `initializer` may
 * be NULL: the word is only checked. */
int
cadre_initializer_named(const char *word, cadre_initializer_t *initializer)
{
    cadre_initializer_spec_t spec;
    int status = cadre_initializer_spec_parse(&spec, word ? word : "");
    if (status == 0 && initializer) {
        *initializer = cadre_initializer_spec_give(&spec);
    }
    return status;
}

/* Checks the one limit that depends on two parameters: min and max of uniform. */
static int
check_together(const cadre_initializer_spec_t *self)
{
    if (self->kind == CADRE_INITIALIZER_UNIFORM &&
        self->parameters[CADRE_UNIFORM_MIN] > self->parameters[CADRE_UNIFORM_MAX]) {
        return cadre_fail(CADRE_EINVALID, "uniform: min %g is above max %g",
                          self->parameters[CADRE_UNIFORM_MIN], self->parameters[CADRE_UNIFORM_MAX]);
    }
    return 0;
}

/* Reads a spec that came from wire or disk, and checks its parameters; not whether they suit a
 * dtype. */
int
cadre_initializer_spec_decode(cadre_initializer_spec_t *self, uint64_t kind,
                              const double *parameters, size_t count, uint64_t seed)
{
    cadre_initializer_spec_t spec = {.kind = (cadre_initializer_kind_t)kind, .seed = seed};
    int status = cadre_kinds_decode(&kinds, kind, parameters, count, spec.parameters);
    if (status < 0) {
        return status;
    }
    status = check_together(&spec);
    if (status < 0) {
        return status;
    }
    *self = spec;
    return 0;
}

/* Returns whether `value` is a whole number that a signed integer of `bits` bits can hold. */
static bool
fits_integer(double value, int bits)
{
    double limit = ldexp(1, bits - 1);
    return value == trunc(value) && value >= -limit && value < limit;
}

/* Checks that an element of `dtype` can hold the value of an initializer of this kind. */
static int
check_value(cadre_initializer_kind_t kind, double value, cadre_dtype_t dtype)
{
    bool fits = dtype == CADRE_F64 || (dtype == CADRE_F32 && fabs(value) <= F32_MAX) ||
                (dtype == CADRE_I32 && fits_integer(value, 32)) ||
                (dtype == CADRE_I64 && fits_integer(value, 64));
    if (!fits) {
        return cadre_fail(CADRE_EINVALID, "%s: %s cannot hold %g",
                          cadre_initializer_kind_text(kind), cadre_dtype_text(dtype), value);
    }
    return 0;
}

/* Checks the parameters, and that the initializer can make values of `dtype`: random kinds make f32
 * only, the others every dtype that a variable may have. */
int
cadre_initializer_spec_check(const cadre_initializer_spec_t *self, cadre_dtype_t dtype, int rank)
{
    int status = cadre_kinds_check(&kinds, self->kind, self->parameters);
    status = status < 0 ? status : check_together(self);
    if (status < 0) {
        return status;
    }
    const bool has_value =
        self->kind == CADRE_INITIALIZER_CONSTANT || self->kind == CADRE_INITIALIZER_IDENTITY;
    const bool is_plain = has_value || self->kind == CADRE_INITIALIZER_ZEROS;
    if (dtype != CADRE_F32 && !(is_plain && cadre_dtype_traits(dtype)->is_of_variables)) {
        return cadre_fail(CADRE_EDTYPE, "initializer %s does not make %s",
                          cadre_initializer_kind_text(self->kind), cadre_dtype_text(dtype));
    }
    if (self->kind == CADRE_INITIALIZER_IDENTITY && rank != 2) {
        return cadre_fail(CADRE_ESHAPE, "initializer identity is for matrices, of rank 2, not %d",
                          rank);
    }
    return has_value ? check_value(self->kind, self->parameters[CADRE_CONSTANT_VALUE], dtype) : 0;
}

/* --- Keras' VarianceScaling --- */

void
cadre_initializer_fans(const int64_t *shape, int rank, double *fan_in, double *fan_out)
{
    if (rank < 2) {
        *fan_in = rank == 1 ? (double)shape[0] : 1;
        *fan_out = *fan_in;
        return;
    }

    double receptive_field = 1;
    for (int i = 0; i < rank - 2; i++) {
        receptive_field *= (double)shape[i];
    }

    *fan_in = (double)shape[rank - 2] * receptive_field;
    *fan_out = (double)shape[rank - 1] * receptive_field;
}

int
cadre_variance_scaling(double scale, cadre_fan_t fan, cadre_initializer_kind_t distribution,
                       const int64_t *shape, int rank, cadre_initializer_t *initializer)
{
    if (!(scale > 0 && scale <= SCALE_MAX)) {
        return cadre_fail(CADRE_EINVALID,
                          "variance scaling: the scale %g is not above 0, or above %g", scale,
                          SCALE_MAX);
    }
    if (cadre_shape_size(CADRE_F32, shape, rank, NULL, NULL) < 0) {
        return cadre_fail_within(CADRE_EINVALID, "variance scaling");
    }

    double fans[3];
    cadre_initializer_fans(shape, rank, &fans[CADRE_FAN_IN], &fans[CADRE_FAN_OUT]);
    fans[CADRE_FAN_AVERAGE] = (fans[CADRE_FAN_IN] + fans[CADRE_FAN_OUT]) / 2;
    if ((unsigned)fan >= CADRE_COUNT_OF(fans)) {
        return cadre_fail(CADRE_EINVALID, "variance scaling: there is no fan %d", (int)fan);
    }

    const double variance = scale / fmax(1, fans[fan]);
    cadre_initializer_t made = cadre_initializer(distribution);
    switch (distribution) {
    case CADRE_INITIALIZER_UNIFORM:
        made.max = sqrt(3 * variance);
        made.min = -made.max;
        break;
    case CADRE_INITIALIZER_NORMAL:
        made.stddev = sqrt(variance);
        break;
    case CADRE_INITIALIZER_TRUNCATED_NORMAL:
        made.stddev = sqrt(variance) / CADRE_TRUNCATED_STDDEV;
        break;
    default:
        return cadre_fail(CADRE_EINVALID,
                          "variance scaling: the distribution is uniform, normal or "
                          "truncated_normal, not %s",
                          cadre_initializer_kind_text(distribution));
    }
    *initializer = made;
    return 0;
}
