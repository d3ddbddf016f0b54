/* Local steps of a program: a closure that runs several steps of an optimizer itself, and pushes
 * how far it came, leads a variable to where as many closures of one step lead one that has this
 * optimizer on its ps. */
#include <string.h>

#include "common/base/memory.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_inner, .timeout = 900);

enum { FEATURES = 5, OUTPUTS = 3, BATCH = 4, STEPS = 6, CLOSURES = 3 };

typedef struct {
    local_cluster_t cluster;
    cadre_optimizer_t optimizer;
    cadre_variable_t *variables[2][2]; /* by local steps, and by closures of one step: w and b */
    const cadre_function_t *local;
    const cadre_function_t *single;
} job_t;

static const char *const names[2][2] = {{"local.w", "local.b"}, {"w", "b"}};

/* Creates the weights of a layer, which begin as one number. */
static void
create(job_t *self, bool is_local, const cadre_optimizer_t *optimizer)
{
    static const int64_t shapes[2][2] = {{FEATURES, OUTPUTS}, {OUTPUTS, 0}};
    for (int i = 0; i < 2; i++) {
        cadre_variable_options_t options = cadre_variable_options();
        options.initializer = cadre_initializer(CADRE_INITIALIZER_CONSTANT);
        options.initializer.value = 0.5;
        options.optimizer = *optimizer;
        OK(cadre_variable_create(self->cluster.coordinator, names[is_local ? 0 : 1][i], CADRE_F32,
                                 shapes[i], 2 - i, &options,
                                 &self->variables[is_local ? 0 : 1][i]));
    }
}

/* The loss of the layer over rows from `first` on. */
static cadre_node_t
loss_of(cadre_program_t *p, const cadre_node_t layer[2], const cadre_node_t rows[2], int first)
{
    cadre_node_t x = cadre_op_slice(p, rows[0], 0, first, BATCH);
    cadre_node_t y = cadre_op_slice(p, rows[1], 0, first, BATCH);
    return cadre_op_mse(p, cadre_op_dense(p, x, layer[0], layer[1]), y);
}

/* Begins a program over so many rows of x and y. */
static cadre_program_t *
begin(const char *name, bool is_local, int count, cadre_node_t rows[2], cadre_node_t layer[2])
{
    cadre_program_t *p = cadre_program_new(name);
    const cadre_dim_t x[] = {cadre_dim(count), cadre_dim(FEATURES)};
    const cadre_dim_t y[] = {cadre_dim(count), cadre_dim(OUTPUTS)};
    rows[0] = cadre_op_arg(p, "x", CADRE_F32, x, 2);
    rows[1] = cadre_op_arg(p, "y", CADRE_F32, y, 2);
    layer[0] = cadre_op_var(p, names[is_local ? 0 : 1][0], (int64_t[]){FEATURES, OUTPUTS}, 2);
    layer[1] = cadre_op_var(p, names[is_local ? 0 : 1][1], (int64_t[]){OUTPUTS}, 1);
    return p;
}

static const cadre_function_t *
register_program(job_t *self, cadre_program_t **p)
{
    cadre_function_t *function = NULL;
    OK(cadre_function_register(self->cluster.coordinator, p, &function));
    return function;
}

static const cadre_function_t *
local_steps(job_t *self)
{
    cadre_node_t rows[2];
    cadre_node_t pulled[2];
    cadre_program_t *p = begin("local", true, STEPS * BATCH, rows, pulled);
    cadre_inner_optimizer_t inner = {.optimizer = self->optimizer};
    cadre_inner_slots_t slots[2] = {0};
    cadre_node_t now[2] = {pulled[0], pulled[1]};
    for (int i = 0; i < STEPS; i++) {
        cadre_node_t gradients[2];
        cadre_op_gradient(p, loss_of(p, now, rows, i * BATCH), now, 2, gradients);
        cadre_op_inner_step(p, &inner, now, gradients, slots, 2);
    }
    cadre_op_push(p, pulled[0], cadre_op_sub(p, pulled[0], now[0]));
    cadre_op_push(p, pulled[1], cadre_op_sub(p, pulled[1], now[1]));
    return register_program(self, &p);
}

static const cadre_function_t *
single_step(job_t *self)
{
    cadre_node_t rows[2];
    cadre_node_t layer[2];
    cadre_program_t *p = begin("single", false, BATCH, rows, layer);
    cadre_op_minimize(p, loss_of(p, layer, rows, 0));
    return register_program(self, &p);
}

static void
job_open(job_t *self, const cadre_optimizer_t *optimizer)
{
    const local_cluster_options_t options = {.ps = 2, .workers = 1, .slots = 1};
    cadre_optimizer_t taken_over = cadre_optimizer(CADRE_OPTIMIZER_SGD);
    taken_over.learning_rate = 1;
    *self = (job_t){.optimizer = *optimizer};
    local_cluster_open(&self->cluster, &options);
    create(self, true, &taken_over);
    create(self, false, optimizer);
    self->local = local_steps(self);
    self->single = single_step(self);
}

/* Schedules a closure over rows of x and y that are the same for the same `first`, and waits. */
static void
run(job_t *self, const cadre_function_t *function, int first, int count)
{
    float x[STEPS * BATCH][FEATURES];
    float y[STEPS * BATCH][OUTPUTS];
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < FEATURES; k++) {
            x[i][k] = (float)((first + i) * 7 % 11 - 5 + k * 3 % 5) / 8;
        }
        for (int k = 0; k < OUTPUTS; k++) {
            y[i][k] = (float)((first + i) * 5 % 7 - k) / 4;
        }
    }
    const cadre_tensor_t tensors[] = {
        {.dtype = CADRE_F32, .rank = 2, .shape = {count, FEATURES}, .data = x},
        {.dtype = CADRE_F32, .rank = 2, .shape = {count, OUTPUTS}, .data = y}};
    const cadre_argument_t arguments[] = {{"x", &tensors[0]}, {"y", &tensors[1]}};
    cadre_call_t call = cadre_call_tensors(arguments, 2);
    OK(cadre_coordinator_schedule(self->cluster.coordinator, function, &call, LOCAL_WAIT_MS, NULL));
    OK(cadre_coordinator_join(self->cluster.coordinator, LOCAL_WAIT_MS));
}

/* Expects both layers to be the same but for rounding, and to have left where they began. */
static void
compare(job_t *self, const char *optimizer, int closures)
{
    for (int i = 0; i < 2; i++) {
        cadre_tensor_t local = {.data = NULL};
        cadre_tensor_t single = {.data = NULL};
        OK(cadre_variable_read(self->variables[0][i], &local, LOCAL_WAIT_MS));
        OK(cadre_variable_read(self->variables[1][i], &single, LOCAL_WAIT_MS));
        for (int k = 0; k < (i == 0 ? FEATURES * OUTPUTS : OUTPUTS); k++) {
            const float got = ((float *)local.data)[k];
            const float wanted = ((float *)single.data)[k];
            cr_expect_float_eq(got, wanted, 2e-5, "%s, after %d: %s at %d: %.9g, not %.9g",
                               optimizer, closures, names[1][i], k, (double)got, (double)wanted);
            cr_expect_neq(wanted, 0.5F, "%s: %s at %d", optimizer, names[1][i], k);
        }
        cadre_tensor_fini(&local);
        cadre_tensor_fini(&single);
    }
}

/* The optimizer on the ps goes on where the one of a closure begins anew, so that after the first
 * closure only sgd, which keeps nothing, comes to the same. */
Test(conformance_inner, S9_local_steps_of_a_program_lead_where_closures_of_one_step_do)
{
    static const char *const words[] = {"sgd", "momentum", "nesterov", "adam", "adamw"};
    for (size_t i = 0; i < CADRE_COUNT_OF(words); i++) {
        job_t job;
        cadre_optimizer_t optimizer;
        OK(cadre_optimizer_named(words[i], &optimizer));
        optimizer.learning_rate = 0.05;
        job_open(&job, &optimizer);
        for (int closure = 0; closure < (i == 0 ? CLOSURES : 1); closure++) {
            run(&job, job.local, closure * STEPS * BATCH, STEPS * BATCH);
            for (int step = 0; step < STEPS; step++) {
                run(&job, job.single, (closure * STEPS + step) * BATCH, BATCH);
            }
            compare(&job, words[i], closure + 1);
        }
        local_cluster_close(&job.cluster);
    }
}
