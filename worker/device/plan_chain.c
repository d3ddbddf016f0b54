#include "worker/device/plan_chain.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

typedef struct {
    cadre_plan_t *plan;
    int *makers; /* per value: the step that makes it, or -1 */
    int *uses;   /* per root: how many inputs of steps read it */
    bool *taken; /* per step: it is an inner link of some chain */
} finder_t;

/* A chain that is being built: its steps from the last one back. */
typedef struct {
    int steps[CADRE_CHAIN_LINKS_MAX];
    int step_count;
    int32_t inputs[CADRE_CHAIN_INPUTS_MAX]; /* values */
    int input_count;
} growth_t;

/* Returns the value whose memory `value` shares: itself, unless it is a reshape or detach. */
static int32_t
root_of(const cadre_plan_t *plan, int32_t value)
{
    return plan->values[value].root;
}

/* Returns whether a step may be a link of a chain: an element operation on f32 (those of other
 * dtypes are steps of their own) that is not part of a matrix product's group (plan_fuse.h). */
static bool
is_link(const cadre_plan_t *plan, const cadre_plan_step_t *step)
{
    if (step->fusion > 0) {
        return false;
    }
    const cadre_op_info_t *info = cadre_op_info((uint64_t)step->op);
    if (!info || info->kind != CADRE_OP_ELEMENT) {
        return false;
    }
    for (int i = 0; i < step->input_count; i++) {
        if (plan->values[step->inputs[i]].dtype != CADRE_F32) {
            return false;
        }
    }
    return true;
}

/* Returns whether two values have the same shape. */
static bool
same_shape(const cadre_plan_value_t *left, const cadre_plan_value_t *right)
{
    return left->rank == right->rank &&
           memcmp(left->shape, right->shape, (size_t)left->rank * sizeof(left->shape[0])) == 0;
}

/* Adds `value` to the inputs of the chain, if it is none yet; false when there is no room. */
static bool
add_input(growth_t *growth, int32_t value)
{
    for (int i = 0; i < growth->input_count; i++) {
        if (growth->inputs[i] == value) {
            return true;
        }
    }
    if (growth->input_count == CADRE_CHAIN_INPUTS_MAX) {
        return false;
    }
    growth->inputs[growth->input_count++] = value;
    return true;
}

/* Adds a step to a chain, if that has room. The step's output is then inside the chain, so it is no
 * longer an input of the chain; the step's own inputs become inputs of the chain. */
static bool
add_step(const cadre_plan_t *plan, growth_t *growth, int at)
{
    const cadre_plan_step_t *step = &plan->steps[at];
    if (growth->step_count == CADRE_CHAIN_LINKS_MAX) {
        return false;
    }
    growth_t grown = {.step_count = growth->step_count};
    memcpy(grown.steps, growth->steps, sizeof(grown.steps));
    for (int i = 0; i < growth->input_count; i++) {
        if (root_of(plan, growth->inputs[i]) != step->output) {
            grown.inputs[grown.input_count++] = growth->inputs[i];
        }
    }
    for (int i = 0; i < step->input_count; i++) {
        if (!add_input(&grown, step->inputs[i])) {
            return false;
        }
    }
    grown.steps[grown.step_count++] = at;
    *growth = grown;
    return true;
}

/* Returns whether the step at `maker` may join the chain: it has the shape of the chain's output,
 * and only steps of the chain read its result. These may read it reshaped: as it has the number of
 * elements of the chain's output, it is walked element by element beside that. */
static bool
belongs(const finder_t *self, const growth_t *growth, int maker)
{
    const cadre_plan_t *plan = self->plan;
    int32_t made = plan->steps[maker].output;
    const cadre_plan_value_t *out = &plan->values[plan->steps[growth->steps[0]].output];
    if (!is_link(plan, &plan->steps[maker]) || plan->values[made].place.kind != CADRE_PLACE_NONE ||
        !same_shape(&plan->values[made], out)) {
        return false;
    }
    int uses = 0;
    for (int i = 0; i < growth->step_count; i++) {
        const cadre_plan_step_t *step = &plan->steps[growth->steps[i]];
        for (int k = 0; k < step->input_count; k++) {
            uses += root_of(plan, step->inputs[k]) == made;
        }
    }
    return uses == self->uses[made];
}

/* Returns the last step before `before` that makes an input of the chain and may join it; -1 when
 * there is none. All readers of a step's output come after it, so a search from the end back looks
 * at each step once. */
static int
find_member(const finder_t *self, const growth_t *growth, int before)
{
    int found = -1;
    for (int i = 0; i < growth->input_count; i++) {
        int maker = self->makers[root_of(self->plan, growth->inputs[i])];
        if (maker > found && maker < before && belongs(self, growth, maker)) {
            found = maker;
        }
    }
    return found;
}

/* ---- from steps to links ---- */

/* Returns the number by which a link names `value`: of an input, or of the link that computes it
 * (cadre_chain_link_t). Links are in the order of computing, which is growth->steps reversed. */
static int
source_of(const cadre_plan_t *plan, const growth_t *growth, int32_t value)
{
    for (int i = 0; i < growth->step_count; i++) {
        if (plan->steps[growth->steps[i]].output == root_of(plan, value)) {
            return growth->input_count + growth->step_count - 1 - i;
        }
    }
    for (int i = 0; i < growth->input_count; i++) {
        if (growth->inputs[i] == value) {
            return i;
        }
    }
    return -1;
}

/* Replaces the last of the growing chain's steps by the chain, whose links (operations) are in the
 * order of computing; marks the other steps as taken. */
static void
write_chain(finder_t *self, const growth_t *growth)
{
    cadre_plan_t *plan = self->plan;
    cadre_chain_t *chain = &plan->chains[plan->chain_count];
    chain->link_count = growth->step_count;
    for (int i = 0; i < growth->step_count; i++) {
        int at = growth->steps[growth->step_count - 1 - i];
        const cadre_plan_step_t *step = &plan->steps[at];
        cadre_chain_link_t *link = &chain->links[i];
        link->op = step->op;
        link->function = step->attributes[CADRE_FUNCTION];
        for (int k = 0; k < step->input_count; k++) {
            link->sources[k] = source_of(plan, growth, step->inputs[k]);
        }
        self->taken[at] = i < growth->step_count - 1;
    }
    cadre_plan_step_t *last = &plan->steps[growth->steps[0]];
    *last = (cadre_plan_step_t){.op = CADRE_STEP_CHAIN,
                                .output = last->output,
                                .input_count = growth->input_count,
                                .chain = plan->chain_count++};
    memcpy(last->inputs, growth->inputs, sizeof(growth->inputs));
}

/* Makes a chain that ends with step `last`, of all steps before it that may join; leaves the step
 * as it is when none may. */
static void
grow_chain(finder_t *self, int last)
{
    growth_t growth = {0};
    if (!is_link(self->plan, &self->plan->steps[last]) || !add_step(self->plan, &growth, last)) {
        return;
    }
    for (int at = find_member(self, &growth, last); at >= 0; at = find_member(self, &growth, at)) {
        (void)add_step(self->plan, &growth, at); /* without room its result stays an input */
    }
    if (growth.step_count > 1) {
        write_chain(self, &growth);
    }
}

/* Removes the steps that have become inner links of a chain. */
static void
drop_taken_steps(finder_t *self)
{
    cadre_plan_t *plan = self->plan;
    int kept = 0;
    for (int at = 0; at < plan->step_count; at++) {
        if (!self->taken[at]) {
            plan->steps[kept++] = plan->steps[at];
        }
    }
    plan->step_count = kept;
}

/* Joins element operations that feed each other into chains: one step that reads memory once.
 * Goes from the last step back, so that each chain takes in all that leads to it. */
void
cadre_plan_make_chains(cadre_plan_t *plan)
{
    finder_t self = {.plan = plan};
    self.makers = cadre_calloc((size_t)plan->value_count, sizeof(*self.makers));
    self.uses = cadre_calloc((size_t)plan->value_count, sizeof(*self.uses));
    self.taken = cadre_calloc((size_t)plan->step_count, sizeof(*self.taken));
    plan->chains = cadre_calloc((size_t)plan->step_count / 2, sizeof(*plan->chains));
    for (int i = 0; i < plan->value_count; i++) {
        self.makers[i] = -1;
    }
    for (int at = 0; at < plan->step_count; at++) {
        const cadre_plan_step_t *step = &plan->steps[at];
        self.makers[step->output] = at;
        for (int k = 0; k < step->input_count; k++) {
            self.uses[root_of(plan, step->inputs[k])]++;
        }
    }
    for (int at = plan->step_count - 1; at >= 0; at--) {
        if (!self.taken[at]) {
            grow_chain(&self, at);
        }
    }
    drop_taken_steps(&self);
    free(self.makers);
    free(self.uses);
    free(self.taken);
}
