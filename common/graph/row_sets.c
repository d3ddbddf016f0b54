#include "common/graph/row_sets.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

enum { NONE = -1 };

/* That `op` reads, or adds to, the rows of a row-wise value at the ids `index`. */
typedef struct {
    int32_t of; /* a node of the row-wise value; later the number of its set, or NONE */
    int32_t index;
    cadre_op_t op;
} read_t;

/* Groups of row-wise nodes that need the same rows, as a union-find forest. */
typedef struct {
    const cadre_program_t *program;
    const bool *may;
    int32_t *parents; /* [nodes], like the next six; NONE: not row-wise */
    bool *is_fixed;   /* the node depends on no variable */
    bool *is_zero;    /* a row-wise node is zero where no id of its group points */
    int32_t *bases;   /* the variable that it is equal to there; NONE: it is not */
    bool *is_whole;   /* of a root: the variables of its group stay whole */
    bool *is_pulled;  /* of a root: there is a variable in its group */
    bool *is_summed;  /* of a root: its rows are added up */
    read_t *reads;
    size_t read_count;
    size_t read_capacity;
} finder_t;

/* Returns the root of a row-wise node's group. Halves the way to it, so that the next look is
 * short. */
static int32_t
root_of(finder_t *self, int32_t node)
{
    while (self->parents[node] != node) {
        self->parents[node] = self->parents[self->parents[node]];
        node = self->parents[node];
    }
    return node;
}

/* Begins a group with one node. */
static void
begin_group(finder_t *self, int32_t node, bool is_pulled)
{
    self->parents[node] = node;
    self->is_pulled[node] = is_pulled;
    self->is_zero[node] = !is_pulled;
    self->bases[node] = is_pulled ? node : NONE;
}

/* Makes one group of the groups of two row-wise nodes. */
static void
join(finder_t *self, int32_t left, int32_t right)
{
    int32_t to = root_of(self, left);
    int32_t from = root_of(self, right);
    self->parents[from] = to;
    self->is_whole[to] = self->is_whole[to] || self->is_whole[from];
    self->is_pulled[to] = self->is_pulled[to] || self->is_pulled[from];
    self->is_summed[to] = self->is_summed[to] || self->is_summed[from];
}

/* Leaves the variables in the group of `node` whole, if it is row-wise. */
static void
keep_whole(finder_t *self, int32_t node)
{
    if (self->parents[node] != NONE) {
        self->is_whole[root_of(self, node)] = true;
    }
}

/* Leaves whole what the inputs of a node are part of, but for input `except` (NONE: all). */
static void
keep_inputs_whole(finder_t *self, const cadre_program_node_t *node, int except)
{
    for (int i = 0; i < node->input_count; i++) {
        if (i != except) {
            keep_whole(self, node->inputs[i]);
        }
    }
}

/* Notes that rows of the group of `of` are read at the ids that input 1 of the node is. Ids that
 * depend on a variable are known too late. */
static void
note_read(finder_t *self, const cadre_program_node_t *node, int32_t of)
{
    if (!self->is_fixed[node->inputs[1]]) {
        keep_whole(self, of);
        return;
    }
    self->reads =
        cadre_grow(self->reads, self->read_count, &self->read_capacity, sizeof(*self->reads));
    self->reads[self->read_count++] = (read_t){.of = of, .index = node->inputs[1], .op = node->op};
}

/* Returns whether a shape has an axis 0 of at least two rows, whose number is no symbol: a first
 * axis of one row would be broadcast like a missing one. */
static bool
has_rows(const cadre_extents_t *shape)
{
    return shape->rank >= 1 && shape->extents[0].symbol < 0 && shape->extents[0].factor >= 2;
}

/* Takes a node that reads rows of its input `table` at the ids of its input 1. */
static void
take_lookup(finder_t *self, const cadre_program_node_t *node, int table)
{
    keep_inputs_whole(self, node, table);
    if (self->parents[node->inputs[table]] != NONE) {
        note_read(self, node, node->inputs[table]);
    }
}

/* Returns whether a node adds up all rows of a value that is zero where no id points: those rows
 * add nothing, so that the sum needs none of them. */
static bool
is_sum_of_rows(finder_t *self, const cadre_program_node_t *node)
{
    return node->op == CADRE_OP_REDUCE && node->attributes[CADRE_FUNCTION] == CADRE_REDUCE_SUM &&
           node->attributes[CADRE_REDUCE_BEGIN] == 0 && self->parents[node->inputs[0]] != NONE &&
           self->is_zero[node->inputs[0]];
}

/* Takes a node that adds rows to a table of zeros at the ids of its input 1. */
static void
take_sum(finder_t *self, const cadre_program_node_t *node, int32_t index)
{
    keep_inputs_whole(self, node, NONE);
    if (has_rows(&node->shape) && self->is_fixed[node->inputs[1]]) {
        begin_group(self, index, false);
        note_read(self, node, index);
    }
}

/* Returns whether an input has the rows of the node, one for one. */
static bool
has_rows_of(finder_t *self, const cadre_program_node_t *node, int32_t input)
{
    const cadre_extents_t *shape = &cadre_program_node(self->program, input)->shape;
    return self->parents[input] != NONE && shape->rank == node->shape.rank &&
           cadre_extent_equal(shape->extents[0], node->shape.extents[0]);
}

/* Returns whether an input gives the same numbers to all rows of the node: it has no such axis, or
 * one of size 1. */
static bool
is_alike(finder_t *self, const cadre_program_node_t *node, int32_t input)
{
    const cadre_extents_t *shape = &cadre_program_node(self->program, input)->shape;
    return self->parents[input] == NONE &&
           (shape->rank < node->shape.rank ||
            cadre_extent_equal(shape->extents[0], cadre_extent_number(1)));
}

/* Returns whether an element of the node is zero wherever its row-wise inputs that are zero outside
 * of their ids are. */
static bool
stays_zero(finder_t *self, const cadre_program_node_t *node)
{
    bool first = self->is_zero[node->inputs[0]];
    bool second = node->input_count > 1 && self->is_zero[node->inputs[1]];
    int64_t function = node->attributes[CADRE_FUNCTION];
    if (node->op == CADRE_OP_WHERE) {
        return second && self->is_zero[node->inputs[2]];
    }
    if (node->op == CADRE_OP_MAP2) {
        bool both = function == CADRE_MAP2_ADD || function == CADRE_MAP2_SUB ||
                    function == CADRE_MAP2_MAX || function == CADRE_MAP2_MIN;
        return (both && first && second) || (function == CADRE_MAP2_MUL && (first || second)) ||
               (function == CADRE_MAP2_DIV && first && !second);
    }
    bool keeps = node->op != CADRE_OP_MAP1 || function == CADRE_MAP1_NEG ||
                 function == CADRE_MAP1_SQUARE || function == CADRE_MAP1_ABS ||
                 function == CADRE_MAP1_SQRT || function == CADRE_MAP1_SIGN ||
                 function == CADRE_MAP1_RELU;
    return keeps && first;
}

/* Returns the variable that a sum or difference is equal to where its zero terms are zero: what
 * some steps of training have made of it. NONE where it is no such sum. */
static int32_t
base_of(finder_t *self, const cadre_program_node_t *node)
{
    int64_t function = node->attributes[CADRE_FUNCTION];
    if (node->op != CADRE_OP_MAP2 || (function != CADRE_MAP2_ADD && function != CADRE_MAP2_SUB)) {
        return NONE;
    }
    if (self->is_zero[node->inputs[1]]) {
        return self->bases[node->inputs[0]];
    }
    bool is_sum = function == CADRE_MAP2_ADD && self->is_zero[node->inputs[0]];
    return is_sum ? self->bases[node->inputs[1]] : NONE;
}

/* Returns whether a node is the difference of two that are equal to one variable where no id
 * points: how far steps of training have led it. */
static bool
is_way(finder_t *self, const cadre_program_node_t *node)
{
    return node->op == CADRE_OP_MAP2 && node->attributes[CADRE_FUNCTION] == CADRE_MAP2_SUB &&
           self->bases[node->inputs[0]] != NONE &&
           self->bases[node->inputs[0]] == self->bases[node->inputs[1]];
}

/* Takes a function of single elements: its result is row-wise if every input either has the same
 * rows or gives all rows the same numbers. */
static void
take_element(finder_t *self, const cadre_program_node_t *node, int32_t index)
{
    int32_t rows = NONE; /* an input that has the node's rows */
    bool others = false;
    for (int i = 0; i < node->input_count; i++) {
        int32_t input = node->inputs[i];
        if (!has_rows_of(self, node, input)) {
            others = others || !is_alike(self, node, input);
        } else if (rows == NONE) {
            rows = input;
        } else {
            join(self, rows, input);
        }
    }
    if (rows == NONE || others) {
        keep_inputs_whole(self, node, NONE);
        return;
    }
    begin_group(self, index, false);
    join(self, rows, index);
    self->bases[index] = base_of(self, node);
    self->is_zero[index] = stays_zero(self, node) || is_way(self, node);
}

/* Takes the next node of the program. */
static void
take_node(finder_t *self, int32_t index)
{
    const cadre_program_node_t *node = cadre_program_node(self->program, index);
    self->parents[index] = NONE;
    self->bases[index] = NONE;
    self->is_fixed[index] = node->op != CADRE_OP_VAR;
    for (int i = 0; i < node->input_count; i++) {
        self->is_fixed[index] = self->is_fixed[index] && self->is_fixed[node->inputs[i]];
    }

    bool is_element = cadre_op_info(node->op)->kind == CADRE_OP_ELEMENT;
    if (node->op == CADRE_OP_VAR) {
        if (has_rows(&node->shape) && self->may[node->attributes[CADRE_LEAF_INDEX]]) {
            begin_group(self, index, true);
        }
    } else if (is_element || node->op == CADRE_OP_CAST || node->op == CADRE_OP_DETACH) {
        take_element(self, node, index);
    } else if (node->op == CADRE_OP_TAKE || node->op == CADRE_OP_BAG) {
        take_lookup(self, node, 0);
    } else if (node->op == CADRE_OP_BAG_GRAD && node->attributes[CADRE_BAG_GRAD_OF_WEIGHTS] != 0) {
        take_lookup(self, node, 3);
    } else if (node->op == CADRE_OP_BAG_GRAD || node->op == CADRE_OP_SCATTER) {
        take_sum(self, node, index);
    } else if (is_sum_of_rows(self, node)) {
        self->is_summed[root_of(self, node->inputs[0])] = true;
    } else {
        keep_inputs_whole(self, node, NONE);
    }
}

/* Takes pushes and results: what is pushed to a variable of a group is part of the group, and must
 * be zero where no id points; a result shows all rows. */
static void
take_outputs(finder_t *self)
{
    for (int i = 0; i < cadre_program_push_count(self->program); i++) {
        const cadre_program_push_t *push = cadre_program_push(self->program, i);
        int32_t variable = cadre_program_variable(self->program, push->variable)->node;
        bool are_rows = self->parents[variable] != NONE && self->parents[push->node] != NONE;
        if (are_rows && self->is_zero[push->node]) {
            join(self, variable, push->node);
        } else {
            keep_whole(self, variable);
            keep_whole(self, push->node);
        }
    }
    for (int i = 0; i < cadre_program_result_count(self->program); i++) {
        keep_whole(self, cadre_program_result(self->program, i)->node);
    }
}

/* --- sets of the groups --- */

static bool
is_bag(cadre_op_t op)
{
    return op == CADRE_OP_BAG || op == CADRE_OP_BAG_GRAD;
}

/* Orders reads by group, those of a group by ids, and else as they are in the program. */
static int
compare_reads(const void *left, const void *right)
{
    const read_t *a = left;
    const read_t *b = right;
    if (a->of != b->of) {
        return a->of < b->of ? -1 : 1;
    }
    return (a->index > b->index) - (a->index < b->index);
}

/* Writes the lookups of one group, whose reads are sorted by ids: one for all reads at the same
 * ids. Returns how many there are. */
static int
make_lookups(const read_t *reads, size_t count, int set, cadre_row_lookup_t *lookups)
{
    int made = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && reads[i].index == reads[i - 1].index) {
            cadre_row_lookup_t *last = &lookups[made - 1];
            last->op = last->pads && !is_bag(reads[i].op) ? reads[i].op : last->op;
            last->pads = last->pads && is_bag(reads[i].op);
        } else {
            lookups[made++] = (cadre_row_lookup_t){.set = set,
                                                   .index = reads[i].index,
                                                   .op = reads[i].op,
                                                   .pads = is_bag(reads[i].op)};
        }
    }
    return made;
}

/* Returns whether the lookups of `set` are the `count` given ones, so that both need the same rows
 * of equally many. */
static bool
has_lookups(const cadre_row_sets_t *self, int set, const cadre_row_lookup_t *lookups, int count)
{
    int found = 0;
    for (int i = 0; i < self->lookup_count; i++) {
        const cadre_row_lookup_t *own = &self->lookups[i];
        if (own->set != set) {
            continue;
        }
        if (found == count || own->index != lookups[found].index ||
            own->pads != lookups[found].pads) {
            return false;
        }
        found++;
    }
    return found == count;
}

/* Returns the set of a group with these rows and lookups, which lie behind those of the sets so
 * far: one that is there, or a new one; NONE when there are too many lookups. */
static int
set_for(cadre_row_sets_t *self, int64_t rows, int count, int lookups_max)
{
    const cadre_row_lookup_t *lookups = &self->lookups[self->lookup_count];
    for (int i = 0; i < self->count; i++) {
        if (self->rows[i] == rows && has_lookups(self, i, lookups, count)) {
            return i;
        }
    }
    if (count > lookups_max - self->lookup_count) {
        return NONE;
    }
    self->rows[self->count] = rows;
    self->lookup_count += count;
    return self->count++;
}

/* Gives the groups that are looked up their sets: sets[root] becomes the number of each. */
static void
make_sets(finder_t *finder, cadre_row_sets_t *self, int32_t *sets, int lookups_max)
{
    for (size_t i = 0; i < finder->read_count; i++) {
        finder->reads[i].of = root_of(finder, finder->reads[i].of);
    }
    if (finder->read_count > 1) {
        qsort(finder->reads, finder->read_count, sizeof(*finder->reads), compare_reads);
    }
    self->lookups = cadre_calloc(finder->read_count, sizeof(*self->lookups));
    self->rows = cadre_calloc(finder->read_count, sizeof(*self->rows));
    for (size_t first = 0, end = 0; first < finder->read_count; first = end) {
        const read_t *reads = &finder->reads[first];
        for (end = first; end < finder->read_count && finder->reads[end].of == reads->of;) {
            end++;
        }
        if (!finder->is_whole[reads->of] && finder->is_pulled[reads->of]) {
            int64_t rows = cadre_program_node(finder->program, reads->of)->shape.extents[0].factor;
            int count =
                make_lookups(reads, end - first, self->count, &self->lookups[self->lookup_count]);
            sets[reads->of] = set_for(self, rows, count, lookups_max);
        }
    }
}

static void
finder_fini(finder_t *self)
{
    free(self->parents);
    free(self->is_fixed);
    free(self->is_zero);
    free(self->bases);
    free(self->is_whole);
    free(self->is_pulled);
    free(self->is_summed);
    free(self->reads);
}

/* Finds the groups of row-wise nodes in one pass, since inputs come before the nodes that read
 * them, and makes sets of those that are looked up only. */
void
cadre_row_sets_init(cadre_row_sets_t *self, const cadre_program_t *program, const bool *may,
                    int lookups_max)
{
    size_t count = (size_t)cadre_program_node_count(program);
    cadre_auto(finder_fini) finder_t finder = {.program = program,
                                               .may = may,
                                               .parents = cadre_calloc(count, sizeof(int32_t)),
                                               .is_fixed = cadre_calloc(count, sizeof(bool)),
                                               .is_zero = cadre_calloc(count, sizeof(bool)),
                                               .bases = cadre_calloc(count, sizeof(int32_t)),
                                               .is_whole = cadre_calloc(count, sizeof(bool)),
                                               .is_pulled = cadre_calloc(count, sizeof(bool)),
                                               .is_summed = cadre_calloc(count, sizeof(bool))};
    for (int32_t i = 0; i < (int32_t)count; i++) {
        take_node(&finder, i);
    }
    take_outputs(&finder);

    *self = (cadre_row_sets_t){.sets = cadre_calloc(count, sizeof(*self->sets)),
                               .sums = cadre_calloc(count, sizeof(*self->sums))};
    cadre_auto(cadre_free) int32_t *sets = cadre_calloc(count, sizeof(*sets));
    memset(sets, 0xff, count * sizeof(*sets)); /* NONE */
    make_sets(&finder, self, sets, lookups_max);
    for (int32_t i = 0; i < (int32_t)count; i++) {
        const int32_t root = finder.parents[i] == NONE ? NONE : root_of(&finder, i);
        self->sets[i] = root == NONE ? NONE : sets[root];
        self->sums[i] = root != NONE && finder.is_summed[root];
    }
}

void
cadre_row_sets_fini(cadre_row_sets_t *self)
{
    free(self->sets);
    free(self->rows);
    free(self->sums);
    free(self->lookups);
    *self = (cadre_row_sets_t){0};
}
