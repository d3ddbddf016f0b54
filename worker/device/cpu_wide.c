/*
 * cpu_wide - arithmetic in f64 and i64: map2, where, and reductions.
 *
 * These are for counts and statistics beside a model, so there is one plain loop for each function,
 * and no chains. A reduction goes through its elements from first to last, so that a sum of f64 is
 * the same in every run.
 */
#include "common/base/assert.h"
#include "worker/device/cpu.h"
#include "worker/device/element_wide.h"

/* ---- functions of two elements ---- */

/* The operands of an inner loop: the steps are 1, or 0 where an input is broadcast along it. */
typedef struct {
    void *out;
    const void *data[3];
    int64_t step[3];
    int64_t count;
} row_t;

typedef void compute_t(const row_t *row);

#define KERNEL(name, type, out_type)                                                               \
    static void name(const row_t *row)                                                             \
    {                                                                                              \
        out_type *out = row->out;                                                                  \
        const type *left = row->data[0];                                                           \
        const type *right = row->data[1];                                                          \
        for (int64_t i = 0; i < row->count; i++) {                                                 \
            out[i] = cadre_##name(left[i * row->step[0]], right[i * row->step[1]]);                \
        }                                                                                          \
    }
KERNEL(f64_add, double, double)
KERNEL(f64_sub, double, double)
KERNEL(f64_mul, double, double)
KERNEL(f64_div, double, double)
KERNEL(f64_max, double, double)
KERNEL(f64_min, double, double)
KERNEL(f64_gt, double, cadre_real_t)
KERNEL(f64_eq, double, cadre_real_t)
KERNEL(i64_add, int64_t, int64_t)
KERNEL(i64_sub, int64_t, int64_t)
KERNEL(i64_mul, int64_t, int64_t)
KERNEL(i64_div, int64_t, int64_t)
KERNEL(i64_max, int64_t, int64_t)
KERNEL(i64_min, int64_t, int64_t)
KERNEL(i64_gt, int64_t, cadre_real_t)
KERNEL(i64_eq, int64_t, cadre_real_t)
#undef KERNEL

#define KERNEL(name, type)                                                                         \
    static void name(const row_t *row)                                                             \
    {                                                                                              \
        type *out = row->out;                                                                      \
        const cadre_real_t *condition = row->data[0];                                              \
        const type *yes = row->data[1];                                                            \
        const type *no = row->data[2];                                                             \
        for (int64_t i = 0; i < row->count; i++) {                                                 \
            bool holds = condition[i * row->step[0]] != 0;                                         \
            out[i] = holds ? yes[i * row->step[1]] : no[i * row->step[2]];                         \
        }                                                                                          \
    }
KERNEL(where_f64, double)
KERNEL(where_i64, int64_t)
#undef KERNEL

/* Returns the loop for a step: map2 or where, of this dtype. */
static compute_t *
compute_of(const cadre_plan_step_t *step, cadre_dtype_t dtype)
{
#define ROW_F64(NAME, number, word, ...) [CADRE_MAP2_##NAME] = f64_##word,
#define ROW_I64(NAME, number, word, ...) [CADRE_MAP2_##NAME] = i64_##word,
    static compute_t *const of_f64[] = {CADRE_MAP2_LIST(ROW_F64)};
    static compute_t *const of_i64[] = {CADRE_MAP2_LIST(ROW_I64)};
#undef ROW_F64
#undef ROW_I64
    if (step->op == CADRE_OP_WHERE) {
        return dtype == CADRE_F64 ? where_f64 : where_i64;
    }
    return (dtype == CADRE_F64 ? of_f64 : of_i64)[step->attributes[CADRE_FUNCTION]];
}

/* Computes inner loops begin..end of the output, with the inputs where the walk has them. */
static void
compute_rows(const void *context, int64_t begin, int64_t end)
{
    const cadre_operands_t *operands = context;
    const cadre_strided_t *walk = &operands->step->walk;
    const int inner = walk->rank - 1;
    const int count = operands->step->input_count;
    cadre_assert(count == (operands->step->op == CADRE_OP_WHERE ? 3 : 2));
    compute_t *compute = compute_of(operands->step, operands->inputs[count - 1]->dtype);
    int64_t out_size = (int64_t)operands->out->size_bytes / operands->out->count;
    int64_t sizes[3] = {0};
    for (int i = 0; i < count; i++) {
        sizes[i] = (int64_t)operands->inputs[i]->size_bytes / operands->inputs[i]->count;
    }
    cadre_strided_place_t place;
    cadre_strided_seek(walk, begin, &place);
    for (int64_t at = begin; at < end; at++) {
        row_t row = {.out = (char *)operands->out_data + place.out * out_size,
                     .count = walk->size[inner]};
        for (int i = 0; i < count; i++) {
            row.data[i] = (const char *)operands->data[i] + place.at[i] * sizes[i];
            row.step[i] = walk->stride[i][inner];
        }
        compute(&row);
        cadre_strided_next(walk, &place);
    }
}

void
cadre_cpu_wide_element(const cadre_operands_t *operands)
{
    int64_t inner = operands->step->walk.size[operands->step->walk.rank - 1];
    cadre_cpu_pool_run(operands->pool, operands->out->count / inner, CADRE_CPU_PART_COST / inner,
                       compute_rows, operands);
}

/* ---- reductions, of [outer, size, inner] over `size` ---- */

typedef void fold_t(void *out, const void *x, int64_t size, int64_t inner);

/* Folds a matrix [size, inner], at least one row, to one row. */
#define KERNEL(name, type)                                                                         \
    static void fold_##name(void *to, const void *from, int64_t size, int64_t inner)               \
    {                                                                                              \
        type *out = to;                                                                            \
        const type *x = from;                                                                      \
        for (int64_t i = 0; i < inner; i++) {                                                      \
            out[i] = x[i];                                                                         \
        }                                                                                          \
        for (int64_t s = 1; s < size; s++) {                                                       \
            for (int64_t i = 0; i < inner; i++) {                                                  \
                out[i] = cadre_##name(out[i], x[s * inner + i]);                                   \
            }                                                                                      \
        }                                                                                          \
    }
KERNEL(f64_add, double)
KERNEL(f64_max, double)
KERNEL(i64_add, int64_t)
KERNEL(i64_max, int64_t)
#undef KERNEL

/* Folds to sums, and divides these by the number of rows. */
static void
fold_f64_mean(void *to, const void *from, int64_t size, int64_t inner)
{
    double *out = to;
    fold_f64_add(to, from, size, inner);
    for (int64_t i = 0; i < inner; i++) {
        out[i] /= (double)size;
    }
}

/* Returns the loop for a function of REDUCE and a dtype that has it. */
static fold_t *
fold_of(cadre_reduce_t function, cadre_dtype_t dtype)
{
    switch (function) {
    case CADRE_REDUCE_SUM:
        return dtype == CADRE_F64 ? fold_f64_add : fold_i64_add;
    case CADRE_REDUCE_MEAN:
        return fold_f64_mean;
    case CADRE_REDUCE_MAX:
        return dtype == CADRE_F64 ? fold_f64_max : fold_i64_max;
    case CADRE_REDUCE_ARGMAX:
        break;
    }
    cadre_assert(false); /* positions are found in f32 only (infer_arithmetic.c) */
    return NULL;
}

typedef struct {
    const cadre_operands_t *operands;
    fold_t *fold;
    int64_t size;
    int64_t inner;
} folding_t;

/* Folds matrices begin..end of the `outer` ones. */
static void
fold_matrices(const void *context, int64_t begin, int64_t end)
{
    const folding_t *self = context;
    const int64_t width = sizeof(int64_t); /* of both dtypes */
    for (int64_t o = begin; o < end; o++) {
        self->fold((char *)self->operands->out_data + o * self->inner * width,
                   (const char *)self->operands->data[0] + o * self->size * self->inner * width,
                   self->size, self->inner);
    }
}

void
cadre_cpu_wide_reduce(const cadre_operands_t *operands, int64_t outer, int64_t size, int64_t inner)
{
    folding_t self = {.operands = operands, .size = size, .inner = inner};
    self.fold = fold_of((cadre_reduce_t)operands->step->attributes[CADRE_FUNCTION],
                        operands->inputs[0]->dtype);
    cadre_cpu_pool_run(operands->pool, outer, CADRE_CPU_PART_COST / (size * inner + 1),
                       fold_matrices, &self);
}
