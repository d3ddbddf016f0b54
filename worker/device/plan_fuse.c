/*
 * Three kinds of groups, in the order of their steps:
 *
 *     forward    matmul, [add of a bias], [relu]      one of the two at least
 *     backward   matmul, step, mul, [reduce]          the mask of a relu, the sum over its rows
 *     weight     reduce, matmul                       the sum over the rows of one factor
 *
 * The steps of a group are moved side by side, to the place of one of them. In `backward` the
 * reduce moves forward to the mul, which is all that it reads. In `weight` it moves back to the
 * matmul, unless another step reads its sum before. So whatever a step reads is computed before it
 * runs.
 */
#include "worker/device/plan_fuse.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

enum { MEMBERS_MAX = CADRE_FUSION_STEPS_MAX, MASK_UNIT = 128 };

/* A group as it is found; step numbers are those before any step moves. */
typedef struct {
    int members[MEMBERS_MAX]; /* in the order in which they are to run */
    int count;
    int anchor; /* the member to whose place all others move */
    cadre_plan_fusion_t fusion;
} group_t;

typedef struct {
    cadre_plan_t *plan;
    int *uses;   /* [value_count]: for a root, how often steps read it, plus 1 if it has a place
                    already (an output) */
    int *reader; /* [value_count]: for a root, the last step that reads it, or -1 */
    int *maker;  /* [value_count]: for a root, the step that writes it, or -1 */
    group_t *groups;
    int group_count;
} finder_t;

/* ---- questions about values and steps ---- */

/* Returns the value whose memory `value` shares: itself, unless it is a reshape or detach. */
static int32_t
root_of(const finder_t *self, int32_t value)
{
    return self->plan->values[value].root;
}

/* Notes for each root (value with memory of its own) which step writes it, which is the last to
 * read it, and how often it is read. A value with a place already is an output, which counts as a
 * use. */
static void
look_at_uses(finder_t *self)
{
    const cadre_plan_t *plan = self->plan;
    for (int i = 0; i < plan->value_count; i++) {
        self->reader[i] = self->maker[i] = -1;
        self->uses[i] = plan->values[i].place.kind != CADRE_PLACE_NONE;
    }
    for (int at = 0; at < plan->step_count; at++) {
        const cadre_plan_step_t *step = &plan->steps[at];
        self->maker[step->output] = at;
        for (int i = 0; i < step->input_count; i++) {
            int32_t root = root_of(self, step->inputs[i]);
            self->uses[root]++;
            self->reader[root] = at;
        }
    }
}

/* Returns the step that reads the value, if it is the only one, no output is the value, and the
 * step is in no group yet; else -1. */
static int
only_reader(const finder_t *self, int32_t value)
{
    int32_t root = root_of(self, value);
    int at = self->uses[root] == 1 ? self->reader[root] : -1;
    return at >= 0 && self->plan->steps[at].fusion == 0 ? at : -1;
}

/* Returns whether the value is f32. */
static bool
is_f32(const finder_t *self, int32_t value)
{
    return self->plan->values[value].dtype == CADRE_F32;
}

/* Returns whether the step is this op with this function (of MAP1, MAP2 or REDUCE). */
static bool
is_function(const cadre_plan_step_t *step, cadre_op_t op, int64_t function)
{
    return step->op == op && step->attributes[CADRE_FUNCTION] == function;
}

/* Returns whether the value, whatever its shape, is `rows` rows of `columns` columns in memory. */
static bool
has_columns(const finder_t *self, int32_t value, int64_t rows, int64_t columns)
{
    const cadre_plan_value_t *x = &self->plan->values[value];
    return x->dtype == CADRE_F32 && x->rank > 0 && x->shape[x->rank - 1] == columns &&
           x->count == rows * columns;
}

/* Returns whether the step is a single matrix product (no batch) of matrices that are not empty. */
static bool
is_product(const finder_t *self, const cadre_plan_step_t *step)
{
    const cadre_plan_value_t *out = &self->plan->values[step->output];
    return step->op == CADRE_OP_MATMUL && step->fusion == 0 && out->rank == 2 && out->count > 0 &&
           self->plan->values[step->inputs[0]].count > 0 && is_f32(self, step->output) &&
           is_f32(self, step->inputs[0]) && is_f32(self, step->inputs[1]);
}

/* Returns whether `step` sums its input, seen as `rows` rows of `columns`, over the rows. */
static bool
is_column_sum(const finder_t *self, const cadre_plan_step_t *step, int64_t rows, int64_t columns)
{
    if (!is_function(step, CADRE_OP_REDUCE, CADRE_REDUCE_SUM) || step->fusion != 0 ||
        step->attributes[CADRE_REDUCE_BEGIN] != 0) {
        return false;
    }
    const cadre_plan_value_t *input = &self->plan->values[step->inputs[0]];
    return has_columns(self, step->inputs[0], rows, columns) &&
           step->attributes[CADRE_REDUCE_END] == input->rank - 1;
}

/* Returns the step that sums `value` over its rows and is in no group yet, or -1. */
static int
find_column_sum(const finder_t *self, int32_t value, int64_t rows, int64_t columns)
{
    const cadre_plan_t *plan = self->plan;
    for (int at = 0; at < plan->step_count; at++) {
        const cadre_plan_step_t *step = &plan->steps[at];
        if (step->input_count > 0 && root_of(self, step->inputs[0]) == root_of(self, value) &&
            is_column_sum(self, step, rows, columns)) {
            return at;
        }
    }
    return -1;
}

/* Returns the first step that reads this root; the number of steps when none does. */
static int
first_read(const finder_t *self, int32_t root)
{
    const cadre_plan_t *plan = self->plan;
    for (int at = 0; at < plan->step_count; at++) {
        for (int i = 0; i < plan->steps[at].input_count; i++) {
            if (root_of(self, plan->steps[at].inputs[i]) == root) {
                return at;
            }
        }
    }
    return plan->step_count;
}

/* ---- the three kinds ---- */

/* Adds step `at` to the group. */
static void
add_member(group_t *group, int at)
{
    group->members[group->count++] = at;
}

/* Returns a group of no steps yet around the matrix product in step `at`; -1 stands for none. */
static group_t
new_group(const finder_t *self, int at)
{
    const cadre_plan_value_t *out = &self->plan->values[self->plan->steps[at].output];
    return (group_t){.anchor = at,
                     .fusion = {.bias = -1,
                                .mask = -1,
                                .column_sum = -1,
                                .output = self->plan->steps[at].output,
                                .rows = out->shape[0],
                                .columns = out->shape[1]}};
}

/* Takes the addition of a bias after `group`, if there is one. */
static void
take_bias(const finder_t *self, group_t *group)
{
    cadre_plan_fusion_t *fusion = &group->fusion;
    int at = only_reader(self, fusion->output);
    const cadre_plan_step_t *step = at < 0 ? NULL : &self->plan->steps[at];
    if (!step || !is_function(step, CADRE_OP_MAP2, CADRE_MAP2_ADD) ||
        !has_columns(self, step->output, fusion->rows, fusion->columns)) {
        return;
    }
    /* Input `side` of the addition must be the product, the other one a single row. */
    int side = root_of(self, step->inputs[0]) == root_of(self, fusion->output) ? 0 : 1;
    if (has_columns(self, step->inputs[side], fusion->rows, fusion->columns) &&
        has_columns(self, step->inputs[1 - side], 1, fusion->columns)) {
        fusion->bias = step->inputs[1 - side];
        fusion->output = step->output;
        add_member(group, at);
        group->anchor = at;
    }
}

/* Takes the relu after the group, if only that reads the group's output. */
static void
take_relu(const finder_t *self, group_t *group)
{
    int at = only_reader(self, group->fusion.output);
    if (at >= 0 && is_function(&self->plan->steps[at], CADRE_OP_MAP1, CADRE_MAP1_RELU)) {
        group->fusion.relu = true;
        group->fusion.output = self->plan->steps[at].output;
        add_member(group, at);
        group->anchor = at;
    }
}

/* Fills in the group matmul, add of a bias, relu, of which the product in step `at` is the first;
 * returns false when neither bias nor relu follows. */
static bool
match_forward(const finder_t *self, int at, group_t *group)
{
    *group = new_group(self, at);
    add_member(group, at);
    take_bias(self, group);
    take_relu(self, group);
    return group->count > 1;
}

/* Returns the index of the group whose relu computes this root, or -1. */
static int
find_relu(const finder_t *self, int32_t root)
{
    for (int i = 0; i < self->group_count; i++) {
        if (self->groups[i].fusion.relu && self->groups[i].fusion.output == root) {
            return i;
        }
    }
    return -1;
}

/* Returns the step that computes step(relu), 1 where the relu's output is above 0, if that is the
 * other factor of `mul` beside `value`; else -1. */
static int
find_step(const finder_t *self, const cadre_plan_step_t *mul, int32_t value)
{
    int side = root_of(self, mul->inputs[0]) == root_of(self, value) ? 0 : 1;
    int32_t other = root_of(self, mul->inputs[1 - side]);
    int at = self->maker[other];
    bool fits = at >= 0 && self->uses[other] == 1 && self->plan->steps[at].fusion == 0 &&
                is_function(&self->plan->steps[at], CADRE_OP_MAP1, CADRE_MAP1_STEP);
    return fits ? at : -1;
}

/* Returns the index of the mask that the group of a relu writes; adds the mask to the plan when the
 * first reader asks for it. A mask has a bit for each number, and rows of a multiple of MASK_UNIT
 * bits, as cuBLAS wants it. */
static int
mask_of(finder_t *self, int relu)
{
    cadre_plan_fusion_t *fusion = &self->groups[relu].fusion;
    cadre_plan_t *plan = self->plan;
    if (fusion->mask < 0) {
        fusion->mask = plan->mask_count++;
        int64_t row = (fusion->columns + MASK_UNIT - 1) / MASK_UNIT * MASK_UNIT;
        plan->masks = cadre_realloc(plan->masks, (size_t)plan->mask_count, sizeof(*plan->masks));
        plan->masks[fusion->mask] = (cadre_plan_mask_t){
            .row_bits = row, .size_bytes = (size_t)fusion->rows * (size_t)row / 8};
    }
    return fusion->mask;
}

/* Returns whether the product in step `at` is the gradient through a relu: product * step(relu),
 * where the relu ends a group of its own, whose mask is used. Fills in the group, with the sum of
 * the output's rows if a step computes that. */
static bool
match_backward(finder_t *self, int at, group_t *group)
{
    *group = new_group(self, at);
    cadre_plan_fusion_t *fusion = &group->fusion;
    int mul_at = only_reader(self, fusion->output);
    const cadre_plan_step_t *mul = mul_at < 0 ? NULL : &self->plan->steps[mul_at];
    if (!mul || !is_function(mul, CADRE_OP_MAP2, CADRE_MAP2_MUL)) {
        return false;
    }
    int step_at = find_step(self, mul, fusion->output);
    int relu =
        step_at < 0 ? -1 : find_relu(self, root_of(self, self->plan->steps[step_at].inputs[0]));
    if (relu < 0 || self->groups[relu].fusion.rows != fusion->rows ||
        self->groups[relu].fusion.columns != fusion->columns ||
        self->plan->values[mul->output].count != fusion->rows * fusion->columns) {
        return false;
    }
    fusion->mask = mask_of(self, relu);
    fusion->output = mul->output;
    add_member(group, at);
    add_member(group, step_at);
    add_member(group, mul_at);
    group->anchor = mul_at;
    int sum = find_column_sum(self, mul->output, fusion->rows, fusion->columns);
    if (sum >= 0) {
        fusion->column_sum = self->plan->steps[sum].output;
        fusion->sum = CADRE_FUSION_SUM_OUTPUT;
        add_member(group, sum);
    }
    return true;
}

/* Returns whether the product in step `at` sums over the rows of its factor `side` (0: left, 1:
 * right) and another step sums that factor over its rows, as for the gradients of a weight and a
 * bias. Fills in the group of both. */
static bool
match_weight_side(const finder_t *self, int at, int side, group_t *group)
{
    const cadre_plan_step_t *step = &self->plan->steps[at];
    /* The product sums over the rows of its left factor if that is transposed, and over those of
     * its right factor if that is not. */
    bool flipped =
        step->attributes[side == 0 ? CADRE_MATMUL_TRANSPOSE_LEFT : CADRE_MATMUL_TRANSPOSE_RIGHT] !=
        0;
    if (flipped != (side == 0)) {
        return false;
    }
    const cadre_plan_value_t *factor = &self->plan->values[step->inputs[side]];
    int sum = find_column_sum(self, step->inputs[side], factor->shape[0], factor->shape[1]);
    /* The sum is moved to the product's place, so no step before the product may read it. */
    if (sum < 0 || first_read(self, self->plan->steps[sum].output) <= at) {
        return false;
    }
    *group = new_group(self, at);
    group->fusion.column_sum = self->plan->steps[sum].output;
    group->fusion.sum = side == 0 ? CADRE_FUSION_SUM_LEFT : CADRE_FUSION_SUM_RIGHT;
    add_member(group, sum);
    add_member(group, at);
    return true;
}

/* Fills in the group of the product in step `at` and the sum over the rows of one of its
 * factors; returns false when no step sums either. The right factor goes first: it is mostly the
 * gradient. */
static bool
match_weight(const finder_t *self, int at, group_t *group)
{
    return match_weight_side(self, at, 1, group) || match_weight_side(self, at, 0, group);
}

/* ---- finding and moving ---- */

/* Adds a group that was found, and marks its steps with the number of the group, from 1. */
static void
add_group(finder_t *self, const group_t *group)
{
    self->groups[self->group_count++] = *group;
    for (int i = 0; i < group->count; i++) {
        self->plan->steps[group->members[i]].fusion = self->group_count;
    }
}

/* Finds all groups. The sum of a gradient over its rows goes first to the product that computes the
 * gradient (backward), and only then to one that reads it (weight). */
static void
find_groups(finder_t *self)
{
    const cadre_plan_t *plan = self->plan;
    group_t group;
    for (int at = 0; at < plan->step_count; at++) {
        if (is_product(self, &plan->steps[at]) &&
            (match_forward(self, at, &group) || match_backward(self, at, &group))) {
            add_group(self, &group);
        }
    }
    for (int at = 0; at < plan->step_count; at++) {
        if (is_product(self, &plan->steps[at]) && match_weight(self, at, &group)) {
            add_group(self, &group);
        }
    }
}

/* Moves the steps of each group side by side, to the place of the group's anchor. */
static void
move_steps(const finder_t *self)
{
    cadre_plan_t *plan = self->plan;
    cadre_plan_step_t *moved = cadre_calloc((size_t)plan->step_count, sizeof(*moved));
    int count = 0;
    for (int at = 0; at < plan->step_count; at++) {
        int fusion = plan->steps[at].fusion;
        if (fusion == 0) {
            moved[count++] = plan->steps[at];
            continue;
        }
        const group_t *group = &self->groups[fusion - 1];
        for (int i = 0; i < group->count && group->anchor == at; i++) {
            moved[count++] = plan->steps[group->members[i]];
        }
    }
    free(plan->steps);
    plan->steps = moved;
}

/* Finds the groups of steps that may run as one matrix product, and puts their steps side by
 * side. */
void
cadre_plan_fuse(cadre_plan_t *plan)
{
    size_t values = (size_t)plan->value_count;
    finder_t self = {.plan = plan,
                     .uses = cadre_calloc(values, sizeof(int)),
                     .reader = cadre_calloc(values, sizeof(int)),
                     .maker = cadre_calloc(values, sizeof(int)),
                     .groups = cadre_calloc((size_t)plan->step_count, sizeof(group_t))};
    look_at_uses(&self);
    find_groups(&self);
    move_steps(&self);
    plan->fusion_count = self.group_count;
    plan->fusions = cadre_calloc((size_t)self.group_count, sizeof(*plan->fusions));
    for (int i = 0; i < self.group_count; i++) {
        plan->fusions[i] = self.groups[i].fusion;
        plan->fusions[i].count = self.groups[i].count;
    }
    free(self.uses);
    free(self.reader);
    free(self.maker);
    free(self.groups);
}

/* Notes the first step and the product of each group, and for each mask the steps that first and
 * last need it, once no more steps are removed. */
void
cadre_plan_fuse_settle(cadre_plan_t *plan)
{
    for (int at = plan->step_count - 1; at >= 0; at--) {
        int index = plan->steps[at].fusion - 1;
        if (index < 0) {
            continue;
        }
        cadre_plan_fusion_t *fusion = &plan->fusions[index];
        fusion->first = at;
        fusion->product = plan->steps[at].op == CADRE_OP_MATMUL ? at : fusion->product;
    }
    for (int at = 0; at < plan->step_count; at++) {
        const cadre_plan_fusion_t *fusion = cadre_plan_fusion_of(plan, at);
        if (fusion && fusion->mask >= 0) {
            cadre_plan_mask_t *mask = &plan->masks[fusion->mask];
            mask->first = fusion->relu ? fusion->first : mask->first;
            mask->last = at;
        }
    }
}

/* Returns whether a step of the group writes the memory of this root. */
bool
cadre_plan_fusion_makes(const cadre_plan_t *plan, const cadre_plan_fusion_t *fusion, int32_t root)
{
    for (int at = fusion->first; at < fusion->first + fusion->count; at++) {
        if (plan->steps[at].output == root) {
            return true;
        }
    }
    return false;
}
