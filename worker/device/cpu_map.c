/*
 * cpu_map - element by element: the functions of map1, map2 and where over a block.
 */
#include "worker/device/cpu.h"
#include "worker/device/cpu_vector.h"
#include "worker/device/element.h"

typedef void map1_t(cadre_real_t *out, const cadre_real_t *x, int64_t count);

#define KERNEL(NAME, number, name, ...)                                                            \
    CADRE_VECTOR static void map1_##name(cadre_real_t *out, const cadre_real_t *x, int64_t count)  \
    {                                                                                              \
        CADRE_INDEPENDENT                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                      \
            out[i] = cadre_element_##name(x[i]);                                                   \
        }                                                                                          \
    }
CADRE_MAP1_LIST(KERNEL)
#undef KERNEL

/* Returns the loop that computes this function of one number. */
static map1_t *
map1_kernel(int64_t function)
{
#define ROW(NAME, number, word, ...) [CADRE_MAP1_##NAME] = map1_##word,
    static map1_t *const kernels[] = {CADRE_MAP1_LIST(ROW)};
#undef ROW
    return kernels[function];
}

typedef void map2_t(cadre_real_t *out, const cadre_cpu_source_t *const sources[2], int64_t count);

#define KERNEL(NAME, number, name, ...)                                                            \
    CADRE_VECTOR static void map2_##name(                                                          \
        cadre_real_t *out, const cadre_cpu_source_t *const sources[2], int64_t count)              \
    {                                                                                              \
        const cadre_real_t *a = sources[0]->data;                                                  \
        const cadre_real_t *b = sources[1]->data;                                                  \
        if (sources[0]->step == 1 && sources[1]->step == 1) {                                      \
            CADRE_INDEPENDENT                                                                      \
            for (int64_t i = 0; i < count; i++) {                                                  \
                out[i] = cadre_element_##name(a[i], b[i]);                                         \
            }                                                                                      \
        } else if (sources[0]->step == 1) {                                                        \
            const cadre_real_t one = *b;                                                           \
            CADRE_INDEPENDENT                                                                      \
            for (int64_t i = 0; i < count; i++) {                                                  \
                out[i] = cadre_element_##name(a[i], one);                                          \
            }                                                                                      \
        } else if (sources[1]->step == 1) {                                                        \
            const cadre_real_t one = *a;                                                           \
            CADRE_INDEPENDENT                                                                      \
            for (int64_t i = 0; i < count; i++) {                                                  \
                out[i] = cadre_element_##name(one, b[i]);                                          \
            }                                                                                      \
        } else {                                                                                   \
            const cadre_real_t value = cadre_element_##name(*a, *b);                               \
            for (int64_t i = 0; i < count; i++) {                                                  \
                out[i] = value;                                                                    \
            }                                                                                      \
        }                                                                                          \
    }
CADRE_MAP2_LIST(KERNEL)
#undef KERNEL

/* Returns the loop that computes this function of two numbers. */
static map2_t *
map2_kernel(int64_t function)
{
#define ROW(NAME, number, word, ...) [CADRE_MAP2_##NAME] = map2_##word,
    static map2_t *const kernels[] = {CADRE_MAP2_LIST(ROW)};
#undef ROW
    return kernels[function];
}

#define KERNEL(name, yes_of, no_of)                                                                \
    CADRE_VECTOR static void name(cadre_real_t *out, const cadre_cpu_source_t *const sources[3],   \
                                  int64_t count)                                                   \
    {                                                                                              \
        const cadre_real_t *condition = sources[0]->data;                                          \
        const cadre_real_t *yes = sources[1]->data;                                                \
        const cadre_real_t *no = sources[2]->data;                                                 \
        const cadre_real_t one_yes = *yes;                                                         \
        const cadre_real_t one_no = *no;                                                           \
        (void)one_yes;                                                                             \
        (void)one_no;                                                                              \
        CADRE_INDEPENDENT                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                      \
            out[i] = cadre_element_where(condition[i], yes_of, no_of);                             \
        }                                                                                          \
    }
KERNEL(where_numbers, one_yes, one_no)
KERNEL(where_yes, yes[i], one_no)
KERNEL(where_no, one_yes, no[i])
KERNEL(where_both, yes[i], no[i])
#undef KERNEL

/* Computes where() for a condition that is one number: all elements come from the same input. */
static void
where_uniform(cadre_real_t *out, const cadre_cpu_source_t *const sources[3], int64_t count)
{
    const cadre_cpu_source_t *chosen = sources[*sources[0]->data != 0 ? 1 : 2];
    for (int64_t i = 0; i < count; i++) {
        out[i] = chosen->data[i * chosen->step];
    }
}

/* Computes where(condition, yes, no) by element. The step of a source is 1 for an array and 0 for
 * one number, and so chooses the kernel by [yes][no]. */
static void
where(cadre_real_t *out, const cadre_cpu_source_t *const sources[3], int64_t count)
{
    static map2_t *const kernels[2][2] = {{where_numbers, where_no}, {where_yes, where_both}};
    if (sources[0]->step == 0) {
        where_uniform(out, sources, count);
    } else {
        kernels[sources[1]->step][sources[2]->step](out, sources, count);
    }
}

/* Computes one link (operation) of a chain for `count` elements: MAP1, MAP2 or WHERE. */
void
cadre_cpu_link(const cadre_chain_link_t *link, cadre_real_t *out,
               const cadre_cpu_source_t *const sources[3], int64_t count)
{
    if (link->op == CADRE_OP_MAP1) {
        map1_kernel(link->function)(out, sources[0]->data, count);
    } else if (link->op == CADRE_OP_MAP2) {
        map2_kernel(link->function)(out, sources, count);
    } else {
        where(out, sources, count);
    }
}

/* Compares two i32 inputs element by element, broadcast to the output: equal, or greater; 1 or
 * 0. */
void
cadre_cpu_compare(const cadre_operands_t *operands)
{
    const cadre_strided_t *walk = &operands->step->walk;
    bool equal = operands->step->attributes[CADRE_FUNCTION] == CADRE_MAP2_EQ;
    int inner = walk->rank - 1;
    cadre_strided_place_t place;
    cadre_strided_start(walk, &place);
    do {
        cadre_real_t *out = (cadre_real_t *)operands->out_data + place.out;
        const int32_t *left = (const int32_t *)operands->data[0] + place.at[0];
        const int32_t *right = (const int32_t *)operands->data[1] + place.at[1];
        for (int64_t i = 0; i < walk->size[inner]; i++) {
            int32_t a = left[i * walk->stride[0][inner]];
            int32_t b = right[i * walk->stride[1][inner]];
            out[i] = equal ? a == b : a > b;
        }
    } while (cadre_strided_next(walk, &place));
}
