/*
 * Programs over rows of their variables compute the bits that the programs over whole variables do,
 * and where they clip by norms, which are sums over rows, the same numbers but for rounding.
 */
#include <math.h>

#include "tests/worker/device/run_program.h"

#include "common/graph/program_data.h"
#include "common/graph/row_program.h"

TestSuite(row_program, .timeout = 240);

enum { SEEDS = 400, BATCH = 5, TABLE = 13, OTHER = 7, WIDTH = 3, VARIABLES = 5, CAPACITY = 16 };

static const char *const names[VARIABLES] = {"a", "b", "c", "d", "m"};
static const int64_t shapes[VARIABLES][2] = {
    {TABLE, WIDTH}, {TABLE, WIDTH}, {TABLE, 1}, {OTHER, WIDTH}, {WIDTH, WIDTH}};

/* What a random program is drawn from. */
typedef struct {
    cadre_program_t *program;
    cadre_random_t random;
    cadre_node_t variables[VARIABLES];
    cadre_node_t ids[3];  /* [B], [B,2], and computed from f32 [B,2] */
    cadre_node_t bags[3]; /* entries [2*B] with padding, offsets [B], weights [2*B] */
    cadre_node_t tables[8];
    int count;
} draw_t;

static cadre_node_t
argument(cadre_program_t *p, const char *name, cadre_dtype_t dtype, int64_t factor, int64_t width)
{
    const cadre_dim_t dims[2] = {cadre_dim_symbol_times("B", factor), cadre_dim(width)};
    return cadre_op_arg(p, name, dtype, dims, width == 0 ? 1 : 2);
}

static void
begin(draw_t *self, uint64_t seed)
{
    cadre_program_t *p = cadre_program_new("random");
    *self = (draw_t){.program = p};
    cadre_random_init(&self->random, seed, 1);
    self->ids[0] = argument(p, "i", CADRE_I32, 1, 0);
    self->ids[1] = argument(p, "k", CADRE_I32, 1, 2);
    cadre_node_t x = argument(p, "x", CADRE_F32, 1, 2);
    self->ids[2] = cadre_op_cast(p, cadre_op_add(p, x, cadre_op_const_f32(p, 1)), CADRE_I32);
    self->bags[0] = argument(p, "entries", CADRE_I32, 2, 0);
    self->bags[1] = argument(p, "offsets", CADRE_I32, 1, 0);
    self->bags[2] = argument(p, "weights", CADRE_F32, 2, 0);
    for (int i = 0; i < VARIABLES; i++) {
        self->variables[i] = cadre_op_var(p, names[i], shapes[i], 2);
    }
    self->tables[0] = self->variables[0];
    self->tables[1] = self->variables[1];
    self->count = 2;
}

static int
below(draw_t *self, int limit)
{
    return (int)cadre_random_below(&self->random, (uint64_t)limit);
}

/* A row-wise function of the tables so far. */
static cadre_node_t
random_table(draw_t *self)
{
    cadre_program_t *p = self->program;
    cadre_node_t left = self->tables[below(self, self->count)];
    cadre_node_t right = self->tables[below(self, self->count)];
    switch (below(self, 7)) {
    case 0:
        return cadre_op_square(p, left);
    case 1:
        return cadre_op_sub(p, left, right);
    case 2:
        return cadre_op_mul(p, left, cadre_op_const_f32(p, 0.5F));
    case 3:
        return cadre_op_mul(p, left, self->variables[2]);
    case 4:
        return cadre_op_where(p, cadre_op_gt(p, left, right), left, cadre_op_neg(p, right));
    case 5:
        return cadre_op_cast(p, cadre_op_cast(p, left, CADRE_BF16), CADRE_F32);
    default:
        return cadre_op_detach(p, cadre_op_tanh(p, left));
    }
}

/* Something that is read of a table, [B,3]. */
static cadre_node_t
random_read(draw_t *self, cadre_node_t table)
{
    cadre_program_t *p = self->program;
    cadre_node_t weights = {0};
    switch (below(self, 4)) {
    case 0:
        return cadre_op_take(p, table, self->ids[0]);
    case 1:
        return cadre_op_sum(p, cadre_op_take(p, table, self->ids[1]), 1);
    case 2:
        return cadre_op_bag(p, table, self->bags[0], self->bags[1], self->bags[2], CADRE_BAG_SUM);
    default:
        return cadre_op_bag(p, table, self->bags[0], self->bags[1], weights, CADRE_BAG_MEAN);
    }
}

/* Pushes how far two steps lead the variables a and d: one of the loss, and one of what the first
 * has made. */
static void
push_way(draw_t *self, cadre_node_t loss)
{
    cadre_program_t *p = self->program;
    cadre_node_t begin[2] = {self->variables[0], self->variables[3]};
    cadre_node_t now[2] = {begin[0], begin[1]};
    cadre_node_t first = cadre_op_take(p, begin[0], self->ids[0]);
    loss = cadre_op_add(p, loss, cadre_op_mean_all(p, cadre_op_square(p, first)));
    for (int step = 0; step < 2; step++) {
        cadre_node_t gradients[2];
        cadre_op_gradient(p, loss, now, 2, gradients);
        for (int i = 0; i < 2; i++) {
            cadre_node_t way = cadre_op_mul(p, gradients[i], cadre_op_const_f32(p, 0.1F));
            now[i] = cadre_op_sub(p, now[i], way);
        }
        cadre_node_t read = cadre_op_sum(p, cadre_op_take(p, now[0], self->ids[1]), 1);
        cadre_node_t other = cadre_op_mean(p, cadre_op_take(p, now[1], self->ids[2]), 1);
        loss = cadre_op_mean_all(p, cadre_op_square(p, cadre_op_mul(p, read, other)));
    }
    for (int i = 0; i < 2; i++) {
        cadre_op_push(p, begin[i], cadre_op_sub(p, now[i], begin[i]));
    }
}

/* Pushes the gradients of four variables, of which a and b are read once more: clipped each by its
 * own norm, or by that of all. */
static void
push_clipped(draw_t *self, cadre_node_t loss, bool together)
{
    enum { CLIPPED = 4 };
    const float norm = 0.05F;
    cadre_program_t *p = self->program;
    const cadre_node_t *of = self->variables;
    const cadre_node_t variables[CLIPPED] = {of[0], of[1], of[3], of[4]};
    cadre_node_t read = cadre_op_mul(p, cadre_op_take(p, of[0], self->ids[0]),
                                     cadre_op_sum(p, cadre_op_take(p, of[1], self->ids[1]), 1));
    loss = cadre_op_add(p, loss, cadre_op_mean_all(p, cadre_op_square(p, read)));
    cadre_node_t gradients[CLIPPED];
    cadre_op_gradient(p, loss, variables, CLIPPED, gradients);
    if (together) {
        cadre_op_clip_by_global_norm(p, gradients, CLIPPED, norm);
    }
    for (int i = 0; i < CLIPPED; i++) {
        cadre_node_t gradient =
            together ? gradients[i] : cadre_op_clip_by_norm(p, gradients[i], norm);
        cadre_op_push(p, variables[i], gradient);
    }
}

/* A model that reads tables, and now and then one of them whole. */
static cadre_program_t *
random_program(uint64_t seed, bool clips)
{
    draw_t self;
    begin(&self, seed);
    cadre_program_t *p = self.program;
    for (int i = below(&self, 5); i > 0; i--) {
        cadre_node_t made = random_table(&self);
        self.tables[self.count++] = made;
    }
    cadre_node_t sum = random_read(&self, self.tables[self.count - 1]);
    for (int i = below(&self, 4); i > 0; i--) {
        sum = cadre_op_add(p, sum, random_read(&self, self.tables[below(&self, self.count)]));
    }
    cadre_node_t other = cadre_op_mean(p, cadre_op_take(p, self.variables[3], self.ids[2]), 1);
    sum = cadre_op_matmul(p, cadre_op_mul(p, sum, other), self.variables[4]);
    cadre_node_t loss = cadre_op_mean_all(p, cadre_op_square(p, sum));
    if (below(&self, 4) == 0) {
        cadre_node_t whole = cadre_op_mean_all(p, self.tables[below(&self, self.count)]);
        loss = cadre_op_add(p, loss, whole);
    }
    if (clips) {
        push_clipped(&self, loss, seed % 2 == 0);
    } else if (below(&self, 4) == 0) {
        push_way(&self, loss);
    } else {
        cadre_op_minimize(p, loss);
    }
    cadre_op_result(p, "loss", loss);
    cr_assert_eq(cadre_program_finish(p), 0, "seed %d: %s", (int)seed, cadre_error_text());
    return p;
}

/* One run: what it is given, and the gradients that came. */
typedef struct {
    cadre_tensor_t arguments[CADRE_ARGUMENTS_MAX];
    cadre_tensor_t variables[VARIABLES];
    float gradients[VARIABLES][CAPACITY * WIDTH]; /* by variable */
    float loss;
} run_t;

static void
fill(cadre_tensor_t *tensor, uint64_t stream, int low, int high)
{
    for (int64_t i = 0; i < cadre_tensor_count(tensor); i++) {
        float value = cadre_random_uniform(5, stream, (uint64_t)i);
        int number = low + (int)(value * (float)(high - low));
        if (tensor->dtype == CADRE_F32) {
            ((float *)tensor->data)[i] = (float)number;
        } else {
            ((int32_t *)tensor->data)[i] = number;
        }
    }
}

static void
fill_run(run_t *self, uint64_t seed)
{
    static const struct {
        cadre_dtype_t dtype;
        int rank;
        int64_t shape[2];
        int low;
        int high;
    } given[] = {{CADRE_I32, 1, {BATCH}, 0, TABLE},
                 {CADRE_I32, 2, {BATCH, 2}, 0, TABLE},
                 {CADRE_F32, 2, {BATCH, 2}, -1, OTHER - 1},
                 {CADRE_I32, 1, {2 * BATCH}, -1, TABLE},
                 {CADRE_I32, 1, {BATCH}, 0, 1},
                 {CADRE_F32, 1, {2 * BATCH}, -2, 3}};
    *self = (run_t){.loss = 0};
    for (size_t i = 0; i < CADRE_COUNT_OF(given); i++) {
        cr_assert_eq(
            cadre_tensor_init(&self->arguments[i], given[i].dtype, given[i].shape, given[i].rank),
            0);
        fill(&self->arguments[i], 10 * seed + i, given[i].low, given[i].high);
    }
    int32_t *offsets = self->arguments[4].data;
    for (int i = 0; i < BATCH; i++) {
        offsets[i] = i < 2 ? 0 : 2 * i - 1;
    }
    for (int i = 0; i < VARIABLES; i++) {
        self->variables[i] = random_tensor(CADRE_F32, shapes[i], 2, 100 * seed + (uint64_t)i);
    }
}

static void
run_fini(run_t *self)
{
    for (int i = 0; i < CADRE_ARGUMENTS_MAX; i++) {
        cadre_tensor_fini(&self->arguments[i]);
    }
    for (int i = 0; i < VARIABLES; i++) {
        cadre_tensor_fini(&self->variables[i]);
    }
}

static int
number_of(const char *name)
{
    int i = 0;
    while (strcmp(names[i], name) != 0) {
        i++;
    }
    return i;
}

/* Runs a program with the variables in `values`, by number of `names`, of `rows` rows where the
 * program is one of rows. */
static void
run(cadre_slot_t *slot, const cadre_program_t *p, run_t *self, float *const *values, int64_t rows)
{
    const void *variables[VARIABLES];
    void *gradients[VARIABLES];
    cadre_tensor_t result = {0};
    for (int i = 0; i < p->variable_count; i++) {
        variables[i] = values[number_of(p->variables[i].name)];
    }
    for (int i = 0; i < p->push_count; i++) {
        gradients[i] = self->gradients[number_of(p->variables[p->pushes[i].variable].name)];
    }
    cadre_slot_run_t request = {.program = p,
                                .arguments = self->arguments,
                                .argument_count = p->argument_count,
                                .variables = variables,
                                .rows = rows,
                                .gradients = gradients,
                                .results = &result};
    cr_assert_eq(cadre_slot_run(slot, &request), 0, "%s", cadre_error_text());
    self->loss = f32_at(&result, 0);
    cadre_tensor_fini(&result);
}

/* The ids of a set, without duplicates and in their order. */
typedef struct {
    int32_t ids[CAPACITY];
    int count;
} list_t;

static int
position_of(const list_t *list, int32_t id)
{
    int i = 0;
    while (i < list->count && list->ids[i] != id) {
        i++;
    }
    return i < list->count ? i : -1;
}

/* Makes the lists of the sets, and the positions that stand for the ids. */
static void
find_rows(cadre_slot_t *slot, const cadre_row_program_t *rows, run_t *self, list_t *lists)
{
    cadre_tensor_t results[CADRE_RESULTS_MAX] = {0};
    if (rows->ids) {
        cadre_slot_run_t request = {.program = rows->ids,
                                    .arguments = self->arguments,
                                    .argument_count = rows->argument_count,
                                    .results = results};
        cr_assert_eq(cadre_slot_run(slot, &request), 0, "%s", cadre_error_text());
    }
    for (int i = 0; i < rows->sets.lookup_count; i++) {
        const cadre_row_ids_t *from = &rows->sources[i];
        const cadre_tensor_t *ids =
            from->argument >= 0 ? &self->arguments[from->argument] : &results[from->result];
        list_t *list = &lists[rows->sets.lookups[i].set];
        for (int64_t k = 0; k < cadre_tensor_count(ids); k++) {
            if (i32_at(ids, k) >= 0 && position_of(list, i32_at(ids, k)) < 0) {
                list->ids[list->count++] = i32_at(ids, k);
            }
        }
    }
    for (int i = 0; i < rows->sets.lookup_count; i++) {
        const cadre_row_ids_t *from = &rows->sources[i];
        const cadre_tensor_t *ids =
            from->argument >= 0 ? &self->arguments[from->argument] : &results[from->result];
        cadre_tensor_t *positions = &self->arguments[rows->argument_count + i];
        cr_assert_eq(cadre_tensor_init(positions, CADRE_I32, ids->shape, ids->rank), 0);
        for (int64_t k = 0; k < cadre_tensor_count(ids); k++) {
            ((int32_t *)positions->data)[k] =
                position_of(&lists[rows->sets.lookups[i].set], i32_at(ids, k));
        }
    }
    for (int i = 0; i < CADRE_RESULTS_MAX; i++) {
        cadre_tensor_fini(&results[i]);
    }
}

/* Expects a row of two gradients to be the same: to the bit, or so near as sums are that are
 * rounded otherwise. */
static void
compare_row(const float *left, const float *right, int variable, bool is_clipped, int seed)
{
    const int64_t width = shapes[variable][1];
    for (int64_t k = 0; k < width && is_clipped; k++) {
        cr_assert_leq(fabsf(left[k] - right[k]), 1e-5F * fabsf(left[k]), "seed %d, %s: %.9g, %.9g",
                      seed, names[variable], (double)left[k], (double)right[k]);
    }
    if (!is_clipped) {
        cr_assert_arr_eq(left, right, (size_t)width * sizeof(float), "seed %d, %s", seed,
                         names[variable]);
    }
}

/* Expects the gradient of rows of a variable to be those rows of the whole gradient, whose other
 * rows are zero. */
static void
compare(const run_t *runs[2], int variable, const list_t *list, bool is_clipped, int seed)
{
    const run_t *whole = runs[0];
    const run_t *part = runs[1];
    int64_t width = shapes[variable][1];
    for (int32_t row = 0; row < shapes[variable][0]; row++) {
        const float *left = &whole->gradients[variable][row * width];
        int position = list ? position_of(list, row) : row;
        for (int64_t k = 0; k < width && position < 0; k++) {
            cr_assert_float_eq(left[k], 0, 0, "seed %d, %s, row %d", seed, names[variable], row);
        }
        if (position >= 0) {
            compare_row(left, &part->gradients[variable][position * width], variable, is_clipped,
                        seed);
        }
    }
}

/* Runs the program of a seed over whole variables and over rows; returns how many variables were
 * pulled by rows. */
static int
compare_programs(cadre_slot_t *slot, uint64_t seed, int64_t capacity, bool clips)
{
    cadre_program_t *p = random_program(seed, clips);
    const bool may[VARIABLES] = {true, true, true, true, true};
    cadre_row_program_t *rows = NULL;
    cr_assert_eq(cadre_row_program_new(p, may, &rows), 0, "%s", cadre_error_text());
    cr_assert_not_null(rows); /* of d, at least */

    run_t whole;
    run_t part;
    fill_run(&whole, seed);
    fill_run(&part, seed);
    float *values[VARIABLES];
    for (int i = 0; i < VARIABLES; i++) {
        values[i] = whole.variables[i].data;
    }
    run(slot, p, &whole, values, 0);

    list_t lists[CADRE_ARGUMENTS_MAX] = {0};
    find_rows(slot, rows, &part, lists);
    float some[VARIABLES][CAPACITY * WIDTH] = {0}; /* rows beyond the list are zero */
    int by_rows = 0;
    for (int i = 0; i < p->variable_count; i++) {
        int number = number_of(p->variables[i].name);
        int64_t width = shapes[number][1];
        for (int k = 0; rows->variables[i] >= 0 && k < lists[rows->variables[i]].count; k++) {
            memcpy(&some[number][k * width],
                   &values[number][lists[rows->variables[i]].ids[k] * width],
                   (size_t)width * sizeof(float));
        }
        by_rows += rows->variables[i] >= 0;
    }
    for (int i = 0; i < p->variable_count; i++) {
        int number = number_of(p->variables[i].name);
        values[number] = rows->variables[i] >= 0 ? some[number] : values[number];
    }
    run(slot, rows->program, &part, values, capacity);

    cr_assert_arr_eq(&whole.loss, &part.loss, sizeof(float), "seed %d", (int)seed);
    for (int i = 0; i < p->push_count; i++) {
        int variable = p->pushes[i].variable;
        int set = rows->variables[variable];
        const run_t *runs[2] = {&whole, &part};
        compare(runs, number_of(p->variables[variable].name), set >= 0 ? &lists[set] : NULL, clips,
                (int)seed);
    }
    run_fini(&whole);
    run_fini(&part);
    cadre_row_program_destroy(&rows);
    cadre_program_destroy(&p);
    return by_rows;
}

Test(row_program, of_any_program_gives_the_bits_of_the_program_over_whole_variables)
{
    cadre_slot_options_t options = {.checks.poison = true};
    runner_t runner = runner_open(&options);
    int by_rows = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        by_rows += compare_programs(runner.slot, seed, TABLE, false);
    }
    cr_assert_gt(by_rows, 3 * SEEDS / 2, "%d", by_rows); /* d, and of many programs others */
    runner_close(&runner);
}

Test(row_program, computes_the_same_whatever_lies_behind_its_rows)
{
    runner_t runner = runner_open(NULL);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        compare_programs(runner.slot, seed, CAPACITY, false);
        compare_programs(runner.slot, seed, CAPACITY, true);
    }
    runner_close(&runner);
}

Test(row_program, clips_by_the_norms_of_whole_gradients)
{
    cadre_slot_options_t options = {.checks.poison = true};
    runner_t runner = runner_open(&options);
    int by_rows = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        by_rows += compare_programs(runner.slot, seed, TABLE, true);
    }
    cr_assert_gt(by_rows, 2 * SEEDS, "%d", by_rows); /* a, b and d, unless they are read whole */
    runner_close(&runner);
}
