#include "worker/device/cuda/guard.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/memory.h"

/* Limits as exponents of 2. Weights above 2^12 do not occur where training goes well; other numbers
 * may be raw features, up to 2^30. Sums must stay below 2^127, half of the largest f32. */
enum { VARIABLE_LIMIT = 12, OTHER_LIMIT = 30, SUM_LIMIT = 126, UNKNOWN = -1 };

typedef struct {
    const cadre_plan_t *plan;
    int *bounds; /* [value_count]: for a root, the exponent of 2 that its numbers do not exceed, or
                    UNKNOWN */
    cadre_cuda_guard_t *guards;
    int count;
} finder_t;

/* Returns the smallest power p for which 2^p is at least `count`. */
static int
log2_above(int64_t count)
{
    int power = 0;
    while (((int64_t)1 << power) < count) {
        power++;
    }
    return power;
}

/* Adds a guard: before group `fusion` runs the numbers of `root` are checked, and so have a
 * bound. */
static void
look_at(finder_t *self, int fusion, int32_t root)
{
    bool variable = self->plan->values[root].place.kind == CADRE_PLACE_VARIABLE;
    self->bounds[root] = variable ? VARIABLE_LIMIT : OTHER_LIMIT;
    self->guards = cadre_realloc(self->guards, (size_t)self->count + 1, sizeof(*self->guards));
    self->guards[self->count++] = (cadre_cuda_guard_t){
        .fusion = fusion, .value = root, .limit = ldexpf(1, self->bounds[root])};
}

/* Returns the bound of sums of `terms` products of roots 0 and 1, plus the bias in root 2 if
 * any. */
static int
bound_of(const finder_t *self, const int32_t roots[3], int root_count, int64_t terms)
{
    int bound = self->bounds[roots[0]] + self->bounds[roots[1]] + log2_above(terms);
    bool bias = root_count > 2 && self->bounds[roots[2]] > bound;
    return (bias ? self->bounds[roots[2]] : bound) + 1;
}

/* Guards the factors of a product, and its bias: a kernel checks before the group runs that none of
 * their numbers exceeds a limit, which then is their bound. Guarded are those whose bounds are
 * unknown; then one after the other of those with large bounds, until the sum cannot overflow. */
static void
guard_fusion(finder_t *self, int index, const cadre_cuda_fused_t *fused)
{
    const cadre_plan_t *plan = self->plan;
    const cadre_plan_fusion_t *fusion = &plan->fusions[index];
    const cadre_plan_step_t *product = &plan->steps[fusion->product];
    int32_t roots[3] = {plan->values[product->inputs[0]].root,
                        plan->values[product->inputs[1]].root};
    int root_count = 2;
    if (fusion->bias >= 0) {
        roots[root_count++] = plan->values[fusion->bias].root;
    }
    for (int i = 0; i < root_count; i++) {
        if (self->bounds[roots[i]] == UNKNOWN) {
            look_at(self, index, roots[i]);
        }
    }
    int64_t terms = plan->values[product->inputs[0]].count / fusion->rows;
    for (int i = 0; i < root_count && bound_of(self, roots, root_count, terms) > SUM_LIMIT; i++) {
        if (self->bounds[roots[i]] > OTHER_LIMIT) {
            look_at(self, index, roots[i]);
        }
    }
    self->bounds[fused->output] = bound_of(self, roots, root_count, terms);
}

/* Finds which values are checked before which groups (guards), for the groups whose epilogue would
 * turn a NaN into 0. Goes in the order of the steps, as the bound of a group's output is known for
 * later groups. */
int
cadre_cuda_guards_new(const cadre_plan_t *plan, const cadre_cuda_fused_t *fused,
                      cadre_cuda_guard_t **guards)
{
    finder_t self = {.plan = plan, .bounds = cadre_calloc((size_t)plan->value_count, sizeof(int))};
    for (int i = 0; i < plan->value_count; i++) {
        self.bounds[i] = UNKNOWN;
    }
    for (int at = 0; at < plan->step_count; at++) {
        int index = plan->steps[at].fusion - 1;
        if (index >= 0 && plan->fusions[index].first == at && fused[index].matmul &&
            fused[index].loses_nan) {
            guard_fusion(&self, index, &fused[index]);
        }
    }
    free(self.bounds);
    *guards = self.guards;
    return self.count;
}
