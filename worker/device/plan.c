#include "worker/device/plan.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/tensor.h"
#include "worker/device/arena.h"
#include "worker/device/element.h"
#include "worker/device/plan_chain.h"
#include "worker/device/plan_fuse.h"

/* Bytes of a value, at most: keeps sums of sizes far from overflow, and no device has so much. */
static const size_t value_size_bytes_max = (size_t)1 << 46;

/* Frees the plan with all its lists. */
void
cadre_plan_destroy(cadre_plan_t **self_p)
{
    cadre_plan_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    for (int i = 0; i < self->constant_count; i++) {
        free(self->constants[i]);
    }
    free(self->constants);
    free(self->values);
    free(self->steps);
    free(self->chains);
    free(self->fusions);
    free(self->masks);
    free(self->copies);
    free(self->results);
    free(self);
}

/* Returns whether a step's op is of this kind; a chain (CADRE_STEP_CHAIN) is no op and has no
 * kind. */
static bool
is_kind(cadre_op_t op, cadre_op_kind_t kind)
{
    const cadre_op_info_t *info = cadre_op_info((uint64_t)op);
    return info && info->kind == kind;
}

/* Returns whether an op computes something: leaves (arguments, variables, constants) and views
 * (reshape, detach) have no step. */
static bool
is_step(cadre_op_t op)
{
    return !is_kind(op, CADRE_OP_LEAF) && !is_kind(op, CADRE_OP_VIEW);
}

/* Returns where the value of a leaf is: the argument, variable or constant of the node's number. */
static cadre_plan_place_t
leaf_place(const cadre_program_node_t *node)
{
    enum {
        PLACE_ARG = CADRE_PLACE_ARGUMENT,
        PLACE_VAR = CADRE_PLACE_VARIABLE,
        PLACE_CONST = CADRE_PLACE_CONSTANT,
    };
    static const cadre_plan_place_kind_t kinds[] = {
#define ROW(NAME, ...) [CADRE_OP_##NAME] = (cadre_plan_place_kind_t)PLACE_##NAME,
        CADRE_OP_LEAF_LIST(ROW)
#undef ROW
    };
    return (cadre_plan_place_t){.kind = kinds[node->op],
                                .index = (int)node->attributes[CADRE_LEAF_INDEX]};
}

/* Computes the shape and size of every value, given the sizes behind the symbols. */
static int
size_values(cadre_plan_t *self, const cadre_program_t *program, const int64_t *symbol_values)
{
    for (int32_t i = 0; i < self->value_count; i++) {
        const cadre_program_node_t *node = cadre_program_node(program, i);
        cadre_plan_value_t *value = &self->values[i];
        value->dtype = node->dtype;
        value->rank = node->shape.rank;
        cadre_dtype_t dtype = node->dtype == CADRE_F32 ? CADRE_REAL_DTYPE : node->dtype;
        int status = cadre_program_node_shape(program, i, symbol_values, value->shape);
        if (status == 0) {
            status = cadre_shape_size(dtype, value->shape, value->rank, &value->count,
                                      &value->size_bytes);
        }
        if (status == 0 && value->size_bytes > value_size_bytes_max) {
            status = cadre_fail(CADRE_ETOOLARGE, "%zu bytes in one value", value->size_bytes);
        }
        if (status < 0) {
            return cadre_fail_within(status, "node %d", (int)i);
        }
        /* The root is the value whose memory this one shares: that of its input for a view, else
         * itself. */
        value->root = is_kind(node->op, CADRE_OP_VIEW) ? self->values[node->inputs[0]].root : i;
        value->last_use = -1;
        if (is_kind(node->op, CADRE_OP_LEAF)) {
            value->place = leaf_place(node);
        }
    }
    return 0;
}

/* Marks the values on which a gradient or result depends; no step computes the others. Nodes come
 * after their inputs, so one pass from the last node back finds all. */
static void
mark_live(cadre_plan_t *self, const cadre_program_t *program)
{
    for (int i = 0; i < cadre_program_push_count(program); i++) {
        self->values[cadre_program_push(program, i)->node].live = true;
    }
    for (int i = 0; i < cadre_program_result_count(program); i++) {
        self->values[cadre_program_result(program, i)->node].live = true;
    }
    for (int32_t i = self->value_count - 1; i >= 0; i--) {
        const cadre_program_node_t *node = cadre_program_node(program, i);
        for (int k = 0; k < node->input_count && self->values[i].live; k++) {
            self->values[node->inputs[k]].live = true;
        }
    }
}

/* Has an output (gradient or result) written straight to `to`, or copied there at the end if its
 * value has another place already. In neither case is the value in the arena, so no later step
 * overwrites it. */
static void
place_output(cadre_plan_t *self, int32_t node, cadre_plan_place_t to)
{
    cadre_plan_value_t *root = &self->values[self->values[node].root];
    if (root->place.kind == CADRE_PLACE_NONE) {
        root->place = to;
    } else {
        self->copies[self->copy_count++] = (cadre_plan_copy_t){.value = node, .to = to};
    }
}

/* Gives each gradient and result its place in the caller's memory. Fails when the results are
 * larger than a report may be. */
static int
place_outputs(cadre_plan_t *self, const cadre_program_t *program)
{
    int push_count = cadre_program_push_count(program);
    self->result_count = cadre_program_result_count(program);
    self->results = cadre_calloc((size_t)self->result_count, sizeof(*self->results));
    self->copies = cadre_calloc((size_t)(push_count + self->result_count), sizeof(*self->copies));
    for (int i = 0; i < push_count; i++) {
        place_output(self, cadre_program_push(program, i)->node,
                     (cadre_plan_place_t){.kind = CADRE_PLACE_GRADIENT, .index = i});
    }
    size_t size_bytes = 0;
    for (int i = 0; i < self->result_count; i++) {
        int32_t node = cadre_program_result(program, i)->node;
        self->results[i] = node;
        size_bytes += self->values[node].size_bytes;
        place_output(self, node, (cadre_plan_place_t){.kind = CADRE_PLACE_RESULT, .index = i});
    }
    if (size_bytes > CADRE_RESULT_SIZE_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "results of %zu bytes, not at most %d", size_bytes,
                          CADRE_RESULT_SIZE_MAX);
    }
    return 0;
}

/* Returns how the op of a step walks its inputs; a chain walks as its element operations,
 * broadcasting. */
static cadre_walk_t
walk_of(cadre_op_t op)
{
    return op == CADRE_STEP_CHAIN ? CADRE_WALK_BROADCAST : cadre_op_info((uint64_t)op)->walk;
}

/* Computes how the step walks its inputs in step with its output: for each input and axis, by how
 * many elements the input moves. */
static void
plan_walk(const cadre_plan_t *self, cadre_plan_step_t *step)
{
    const cadre_plan_value_t *out = &self->values[step->output];
    const cadre_plan_value_t *first = step->input_count > 0 ? &self->values[step->inputs[0]] : NULL;
    cadre_strided_t *walk = &step->walk;
    cadre_strided_init(walk, out->shape, out->rank);

    int64_t strides[CADRE_PROGRAM_RANK_MAX] = {0}; /* of the first input, which is contiguous */
    for (int64_t i = first ? first->rank - 1 : -1, next = 1; i >= 0; i--) {
        strides[i] = next;
        next *= first->shape[i];
    }

    int walked = 1;
    switch (walk_of(step->op)) {
    case CADRE_WALK_OWN:
        break;
    case CADRE_WALK_BROADCAST:
        walked = step->input_count;
        for (int i = 0; i < walked; i++) {
            const cadre_plan_value_t *input = &self->values[step->inputs[i]];
            cadre_strided_broadcast(walk, i, input->shape, input->rank);
        }
        break;
    case CADRE_WALK_PERMUTE:
        for (int i = 0; i < out->rank; i++) {
            walk->stride[0][i] = strides[step->attributes[i]];
        }
        break;
    case CADRE_WALK_SLICE: {
        int64_t axis = step->attributes[CADRE_AXIS];
        /* The axis may be a multiple of a symbol, a size that the program leaves open, as the
         * batch's. SLICE_BEGIN and SLICE_LENGTH count the symbol's value (`unit`). */
        int64_t unit = out->shape[axis] / step->attributes[CADRE_SLICE_LENGTH];
        walk->offset[0] = step->attributes[CADRE_SLICE_BEGIN] * unit * strides[axis];
        memcpy(walk->stride[0], strides, sizeof(strides));
        break;
    }
    }

    cadre_strided_merge(walk, walked);
}

/* Fails when a matrix is larger than the libraries' 32-bit dimensions. */
static int
check_matmul(const cadre_plan_t *self, const cadre_plan_step_t *step)
{
    for (int i = 0; i < 2; i++) {
        const cadre_plan_value_t *input = &self->values[step->inputs[i]];
        for (int axis = input->rank - 2; axis < input->rank; axis++) {
            if (input->shape[axis] > INT_MAX) {
                return cadre_fail(CADRE_ETOOLARGE, "matmul: a dimension is beyond 2^31");
            }
        }
    }
    return 0;
}

/* Fails where rows are named by keys of i64, which are no positions: a run over all rows of what
 * has as many as a table. */
static int
check_positions(const cadre_plan_t *self, const cadre_plan_step_t *step)
{
    const cadre_indexes_t indexes = cadre_op_info(step->op)->indexes;
    const bool has_rows = indexes != CADRE_INDEXES_NONE && indexes != CADRE_INDEXES_LABELS;
    if (has_rows && self->values[step->inputs[1]].dtype != CADRE_I32) {
        return cadre_fail(CADRE_EINVALID, "%s: ids of i64 are keys, and only tables have any",
                          cadre_op_text(step->op, 0));
    }
    return 0;
}

/* Makes a step for each node that computes something on which a gradient or result depends (live),
 * in the program's order. */
static int
make_steps(cadre_plan_t *self, const cadre_program_t *program)
{
    int count = 0;
    for (int32_t i = 0; i < self->value_count; i++) {
        cadre_op_t op = cadre_program_node(program, i)->op;
        count += self->values[i].live && is_step(op);
    }
    self->steps = cadre_calloc((size_t)count, sizeof(*self->steps));
    for (int32_t i = 0; i < self->value_count; i++) {
        const cadre_program_node_t *node = cadre_program_node(program, i);
        if (!self->values[i].live || !is_step(node->op)) {
            continue;
        }
        cadre_plan_step_t *step = &self->steps[self->step_count++];
        *step = (cadre_plan_step_t){.op = node->op, .output = i, .input_count = node->input_count};
        memcpy(step->attributes, node->attributes, sizeof(step->attributes));
        memcpy(step->inputs, node->inputs, sizeof(step->inputs));
        if (step->op == CADRE_OP_MATMUL && check_matmul(self, step) < 0) {
            return CADRE_ETOOLARGE;
        }
        if (check_positions(self, step) < 0) {
            return CADRE_EINVALID;
        }
    }
    return 0;
}

/* Returns the step up to which step `at` keeps the value `root` in use: itself, or the last step of
 * its group if the value comes from outside the group, which may run as one. */
static int
read_until(const cadre_plan_t *self, int at, int32_t root)
{
    const cadre_plan_fusion_t *fusion = cadre_plan_fusion_of(self, at);
    return !fusion || cadre_plan_fusion_makes(self, fusion, root)
               ? at
               : fusion->first + fusion->count - 1;
}

/* Completes the steps, in their final order: how each walks its inputs, and for each value which
 * step is the last to read it. */
static void
finish_steps(cadre_plan_t *self)
{
    for (int at = 0; at < self->step_count; at++) {
        cadre_plan_step_t *step = &self->steps[at];
        plan_walk(self, step);
        for (int k = 0; k < step->input_count; k++) {
            int32_t root = self->values[step->inputs[k]].root;
            int until = read_until(self, at, root);
            cadre_plan_value_t *value = &self->values[root];
            value->last_use = value->last_use < until ? until : value->last_use;
        }
    }
}

/* ---- memory ---- */

/* Returns whether the op may write its output to the memory of this input. */
static bool
may_work_in_place(cadre_op_t op, int input)
{
    if (op == CADRE_STEP_CHAIN) {
        return true;
    }
    return (cadre_op_info((uint64_t)op)->in_place_inputs & CADRE_OP_INPUT(input)) != 0;
}

/* Returns whether `step` is the last to read the memory of this root, and that is in the arena. */
static bool
dies_at(const cadre_plan_value_t *root, int step)
{
    return root->place.kind == CADRE_PLACE_ARENA && root->last_use == step;
}

/* Returns an input (its root) whose memory the step's output may take over, or -1. The input must
 * not be read later, and must have as many elements as the output: then it is not broadcast, so
 * element i is read before it is written. That holds too if a second input shares its memory: only
 * reshape and detach share, and keep the number of elements. */
static int32_t
find_donor(const cadre_plan_t *self, int at)
{
    const cadre_plan_step_t *step = &self->steps[at];
    const cadre_plan_value_t *out = &self->values[step->output];
    const cadre_plan_fusion_t *fusion = cadre_plan_fusion_of(self, at);
    for (int i = 0; i < step->input_count; i++) {
        const cadre_plan_value_t *input = &self->values[step->inputs[i]];
        if (!may_work_in_place(step->op, i) || !dies_at(&self->values[input->root], at) ||
            input->count != out->count || input->dtype != out->dtype) {
            continue;
        }
        /* A group may run as one product, which reads inputs from outside the group until its
         * end. */
        if (!fusion || cadre_plan_fusion_makes(self, fusion, input->root)) {
            return input->root;
        }
    }
    return -1;
}

/* Takes memory for the masks (of a relu) whose group of steps begins at step `at`. */
static void
take_masks(cadre_plan_t *self, cadre_arena_t *arena, int at)
{
    for (int i = 0; i < self->mask_count; i++) {
        if (self->masks[i].first == at) {
            self->masks[i].offset = cadre_arena_take(arena, self->masks[i].size_bytes);
        }
    }
}

/* Gives back the memory of the masks that step `at` is the last to read. */
static void
give_masks(const cadre_plan_t *self, cadre_arena_t *arena, int at)
{
    for (int i = 0; i < self->mask_count; i++) {
        if (self->masks[i].last == at) {
            cadre_arena_give(arena, self->masks[i].offset, self->masks[i].size_bytes);
        }
    }
}

/* Gives back the memory of inputs that no later step reads: of this step's inputs, at the end of a
 * group of those of all its steps. */
static void
give_inputs(cadre_plan_t *self, cadre_arena_t *arena, int at)
{
    const cadre_plan_fusion_t *fusion = cadre_plan_fusion_of(self, at);
    bool ends = fusion && at == fusion->first + fusion->count - 1;
    for (int member = ends ? fusion->first : at; member <= at; member++) {
        const cadre_plan_step_t *step = &self->steps[member];
        for (int k = 0; k < step->input_count; k++) {
            cadre_plan_value_t *root = &self->values[self->values[step->inputs[k]].root];
            if (dies_at(root, at)) {
                cadre_arena_give(arena, root->place.offset, root->size_bytes);
                root->last_use = -1; /* so that an input that is read twice is given back once */
            }
        }
    }
    give_masks(self, arena, at);
}

/* Places all values in the arena, step by step: first the step's output, then the memory of inputs
 * that no later step reads is given back. In that order, since a step reads its inputs while it
 * writes its output. */
static void
plan_memory(cadre_plan_t *self, bool reuse)
{
    cadre_arena_t arena;
    cadre_arena_init(&arena);
    for (int at = 0; at < self->step_count; at++) {
        const cadre_plan_step_t *step = &self->steps[at];
        cadre_plan_value_t *out = &self->values[step->output];
        take_masks(self, &arena, at);
        if (out->place.kind == CADRE_PLACE_NONE) {
            int32_t donor = reuse ? find_donor(self, at) : -1;
            out->place.kind = CADRE_PLACE_ARENA;
            if (donor >= 0) {
                out->place.offset = self->values[donor].place.offset;
                self->values[donor].last_use = -1; /* its place is the output's now */
            } else {
                out->place.offset = cadre_arena_take(&arena, out->size_bytes);
            }
        }
        if (reuse) {
            give_inputs(self, &arena, at);
        }
    }
    self->arena_size_bytes = arena.size_bytes_max;
    cadre_arena_fini(&arena);
}

/* Copies the program's constants into the plan; f32 ones become the device's number type, which is
 * f64 in some tests. */
static void
copy_constants(cadre_plan_t *self, const cadre_program_t *program)
{
    self->constant_count = cadre_program_constant_count(program);
    self->constants = cadre_calloc((size_t)self->constant_count, sizeof(*self->constants));
    for (int i = 0; i < self->constant_count; i++) {
        const cadre_tensor_t *tensor = cadre_program_constant(program, i);
        int64_t count = cadre_tensor_count(tensor);
        if (tensor->dtype != CADRE_F32) {
            size_t size_bytes = cadre_tensor_size_bytes(tensor);
            self->constants[i] = cadre_aligned_alloc(size_bytes);
            memcpy(self->constants[i], tensor->data, size_bytes);
            continue;
        }
        const float *from = tensor->data;
        cadre_real_t *to = cadre_aligned_alloc((size_t)count * sizeof(*to));
        for (int64_t k = 0; k < count; k++) {
            to[k] = from[k];
        }
        self->constants[i] = to;
    }
}

/* Plans a program for these numbers of its symbols: which steps compute it, and where each value is
 * in memory. Steps are grouped and joined before memory is planned, since they decide what is in
 * use when. */
int
cadre_plan_new(const cadre_program_t *program, const int64_t *symbol_values, unsigned flags,
               cadre_plan_t **out)
{
    cadre_auto(cadre_plan_destroy) cadre_plan_t *self = cadre_calloc(1, sizeof(*self));
    self->value_count = cadre_program_node_count(program);
    self->values = cadre_calloc((size_t)self->value_count, sizeof(*self->values));
    int status = size_values(self, program, symbol_values);
    if (status < 0) {
        return status;
    }
    mark_live(self, program);
    status = make_steps(self, program);
    status = status < 0 ? status : place_outputs(self, program);
    if (status < 0) {
        return status;
    }
    /* Matrix products take the element operations beside them first; the rest makes chains. */
    if (flags & CADRE_PLAN_FUSE) {
        cadre_plan_fuse(self);
    }
    if (flags & CADRE_PLAN_CHAINS) {
        cadre_plan_make_chains(self);
    }
    cadre_plan_fuse_settle(self);
    finish_steps(self);
    plan_memory(self, (flags & CADRE_PLAN_REUSE) != 0);
    copy_constants(self, program);
    *out = self;
    self = NULL;
    return 0;
}
