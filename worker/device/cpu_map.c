/*
 * cpu_map - element by element: map1, map2, where.
 */
#include <stddef.h>

#include "common/assert.h"
#include "worker/device/cpu.h"
#include "worker/device/element.h"

typedef void map1_t(cadre_real_t *out, const cadre_real_t *x, int64_t count);

#define KERNEL(name)                                                                               \
    static void map1_##name(cadre_real_t *out, const cadre_real_t *x, int64_t count)               \
    {                                                                                              \
        CADRE_INDEPENDENT                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                      \
            out[i] = cadre_element_##name(x[i]);                                                   \
        }                                                                                          \
    }
KERNEL(neg)
KERNEL(exp)
KERNEL(log)
KERNEL(sqrt)
KERNEL(rsqrt)
KERNEL(recip)
KERNEL(square)
KERNEL(abs)
KERNEL(sign)
KERNEL(step)
KERNEL(relu)
KERNEL(sigmoid)
KERNEL(tanh)
KERNEL(gelu)
KERNEL(dgelu)
KERNEL(softplus)
#undef KERNEL

static map1_t *
map1_kernel(int64_t function)
{
    static map1_t *const kernels[] = {
        [CADRE_MAP1_NEG] = map1_neg,       [CADRE_MAP1_EXP] = map1_exp,
        [CADRE_MAP1_LOG] = map1_log,       [CADRE_MAP1_SQRT] = map1_sqrt,
        [CADRE_MAP1_RSQRT] = map1_rsqrt,   [CADRE_MAP1_RECIP] = map1_recip,
        [CADRE_MAP1_SQUARE] = map1_square, [CADRE_MAP1_ABS] = map1_abs,
        [CADRE_MAP1_SIGN] = map1_sign,     [CADRE_MAP1_STEP] = map1_step,
        [CADRE_MAP1_RELU] = map1_relu,     [CADRE_MAP1_SIGMOID] = map1_sigmoid,
        [CADRE_MAP1_TANH] = map1_tanh,     [CADRE_MAP1_GELU] = map1_gelu,
        [CADRE_MAP1_DGELU] = map1_dgelu,   [CADRE_MAP1_SOFTPLUS] = map1_softplus,
    };
    return kernels[function];
}

void
cadre_cpu_map1(const cadre_operands_t *operands)
{
    map1_t *kernel = map1_kernel(operands->step->attributes[CADRE_FUNCTION]);
    kernel(operands->out_data, operands->data[0], operands->out->count);
}

/* One inner loop; an input's step is 1, or 0 where it is broadcast. */
typedef void map2_t(cadre_real_t *out, const void *left, int64_t left_step, const void *right,
                    int64_t right_step, int64_t count);

#define KERNEL(kernel, type, element)                                                              \
    static void kernel(cadre_real_t *out, const void *left, int64_t left_step, const void *right,  \
                       int64_t right_step, int64_t count)                                          \
    {                                                                                              \
        const type *a = left;                                                                      \
        const type *b = right;                                                                     \
        if (left_step == 1 && right_step == 1) {                                                   \
            CADRE_INDEPENDENT                                                                      \
            for (int64_t i = 0; i < count; i++) {                                                  \
                out[i] = element(a[i], b[i]);                                                      \
            }                                                                                      \
        } else if (left_step == 1) {                                                               \
            const type one = *b;                                                                   \
            CADRE_INDEPENDENT                                                                      \
            for (int64_t i = 0; i < count; i++) {                                                  \
                out[i] = element(a[i], one);                                                       \
            }                                                                                      \
        } else if (right_step == 1) {                                                              \
            const type one = *a;                                                                   \
            CADRE_INDEPENDENT                                                                      \
            for (int64_t i = 0; i < count; i++) {                                                  \
                out[i] = element(one, b[i]);                                                       \
            }                                                                                      \
        } else {                                                                                   \
            const cadre_real_t value = element(*a, *b);                                            \
            for (int64_t i = 0; i < count; i++) {                                                  \
                out[i] = value;                                                                    \
            }                                                                                      \
        }                                                                                          \
    }
#define I32_GT(left, right) ((left) > (right) ? 1 : 0)
#define I32_EQ(left, right) ((left) == (right) ? 1 : 0)
KERNEL(map2_add, cadre_real_t, cadre_element_add)
KERNEL(map2_sub, cadre_real_t, cadre_element_sub)
KERNEL(map2_mul, cadre_real_t, cadre_element_mul)
KERNEL(map2_div, cadre_real_t, cadre_element_div)
KERNEL(map2_max, cadre_real_t, cadre_element_max)
KERNEL(map2_min, cadre_real_t, cadre_element_min)
KERNEL(map2_gt, cadre_real_t, cadre_element_gt)
KERNEL(map2_eq, cadre_real_t, cadre_element_eq)
KERNEL(map2_gt_i32, int32_t, I32_GT)
KERNEL(map2_eq_i32, int32_t, I32_EQ)
#undef KERNEL

static map2_t *
map2_kernel(int64_t function, bool i32)
{
    switch ((cadre_map2_t)function) {
    case CADRE_MAP2_ADD:
        return map2_add;
    case CADRE_MAP2_SUB:
        return map2_sub;
    case CADRE_MAP2_MUL:
        return map2_mul;
    case CADRE_MAP2_DIV:
        return map2_div;
    case CADRE_MAP2_MAX:
        return map2_max;
    case CADRE_MAP2_MIN:
        return map2_min;
    case CADRE_MAP2_GT:
        return i32 ? map2_gt_i32 : map2_gt;
    case CADRE_MAP2_EQ:
        return i32 ? map2_eq_i32 : map2_eq;
    }
    cadre_assert(false);
    return NULL;
}

static size_t
element_size(const cadre_plan_value_t *value)
{
    return value->dtype == CADRE_I32 ? sizeof(int32_t) : sizeof(cadre_real_t);
}

void
cadre_cpu_map2(const cadre_operands_t *operands)
{
    const cadre_strided_t *walk = &operands->step->walk;
    map2_t *kernel = map2_kernel(operands->step->attributes[CADRE_FUNCTION],
                                 operands->inputs[0]->dtype == CADRE_I32);
    cadre_real_t *out = operands->out_data;
    const char *left = operands->data[0];
    const char *right = operands->data[1];
    int64_t size = (int64_t)element_size(operands->inputs[0]);
    int inner = walk->rank - 1;
    cadre_strided_place_t place;
    cadre_strided_start(walk, &place);
    do {
        kernel(out + place.out, left + place.at[0] * size, walk->stride[0][inner],
               right + place.at[1] * size, walk->stride[1][inner], walk->size[inner]);
    } while (cadre_strided_next(walk, &place));
}

static void
where(cadre_real_t *out, const cadre_cpu_source_t sources[3], int64_t count)
{
    const cadre_real_t *condition = sources[0].data;
    const cadre_real_t *yes = sources[1].data;
    const cadre_real_t *no = sources[2].data;
    CADRE_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        out[i] = cadre_element_where(condition[i * sources[0].step], yes[i * sources[1].step],
                                     no[i * sources[2].step]);
    }
}

void
cadre_cpu_where(const cadre_operands_t *operands)
{
    const cadre_strided_t *walk = &operands->step->walk;
    int inner = walk->rank - 1;
    cadre_strided_place_t place;
    cadre_strided_start(walk, &place);
    do {
        cadre_cpu_source_t sources[3];
        for (int k = 0; k < 3; k++) {
            sources[k] =
                (cadre_cpu_source_t){.data = (const cadre_real_t *)operands->data[k] + place.at[k],
                                     .step = walk->stride[k][inner]};
        }
        where((cadre_real_t *)operands->out_data + place.out, sources, walk->size[inner]);
    } while (cadre_strided_next(walk, &place));
}

void
cadre_cpu_link(const cadre_chain_link_t *link, cadre_real_t *out, const cadre_cpu_source_t *sources,
               int64_t count)
{
    if (link->op == CADRE_OP_MAP1) {
        map1_kernel(link->function)(out, sources[0].data, count);
    } else if (link->op == CADRE_OP_MAP2) {
        map2_kernel(link->function, false)(out, sources[0].data, sources[0].step, sources[1].data,
                                           sources[1].step, count);
    } else {
        where(out, sources, count);
    }
}
