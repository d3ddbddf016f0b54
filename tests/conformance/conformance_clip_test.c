/* A gradient of rows is clipped by the norm of the whole gradient: variables that are only looked
 * up become what a variable becomes of which all rows are read, and tables too, but for the
 * rounding of norms. */
#include <math.h>
#include <string.h>

#include <cadre/rows.h>
#include <cadre/table.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_clip, .timeout = 900);

enum { KEYS = 53, WIDTH = 4, BATCH = 6, IDS = 3, CLOSURES = 12, OUTPUTS = 2 };

typedef enum { WHOLE, LOOKED_UP, TABLE, WAYS } way_t;

static const char *const ways[WAYS] = {"whole", "looked up", "table"};

typedef struct {
    way_t way;
    bool together; /* gradients of embedding and weight are clipped by the norm of both */
    float norm;
    local_cluster_t cluster;
    const cadre_function_t *step;
    cadre_variable_t *embedding;
    cadre_variable_t *weight;
} job_t;

typedef struct {
    float embedding[KEYS][WIDTH];
    float weight[WIDTH][OUTPUTS];
} weights_t;

static void
create(job_t *self)
{
    cadre_coordinator_t *coordinator = self->cluster.coordinator;
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer.learning_rate = 0.5;
    options.initializer = cadre_initializer(CADRE_INITIALIZER_CONSTANT);
    options.initializer.value = 0.25;
    OK(cadre_variable_create(coordinator, "weight", CADRE_F32, (int64_t[]){WIDTH, OUTPUTS}, 2,
                             &options, &self->weight));
    if (self->way != TABLE) {
        options.partitioner = CADRE_PARTITION_FIXED;
        options.count = 2;
        OK(cadre_variable_create(coordinator, "embedding", CADRE_F32, (int64_t[]){KEYS, WIDTH}, 2,
                                 &options, &self->embedding));
        return;
    }
    cadre_table_options_t table = cadre_table_options();
    table.optimizer.learning_rate = 0.5;
    table.initializer = options.initializer;
    OK(cadre_variable_create_table(coordinator, "embedding", WIDTH, &table, &self->embedding));
}

/* Adds what is read of the embedding, [B, WIDTH]: by three arguments, of which two may name one
 * row, and one of them each row several times. */
static cadre_node_t
read_rows(cadre_program_t *p, cadre_node_t embedding)
{
    const cadre_dim_t many[] = {cadre_dim(BATCH), cadre_dim(IDS)};
    const cadre_dim_t one[] = {cadre_dim(BATCH)};
    const cadre_dim_t flat[] = {cadre_dim(BATCH * IDS)};
    const cadre_node_t none = {0};
    cadre_node_t index = cadre_op_arg(p, "ids", CADRE_I32, many, 2);
    cadre_node_t other = cadre_op_arg(p, "other", CADRE_I32, one, 1);
    cadre_node_t entries = cadre_op_arg(p, "entries", CADRE_I32, flat, 1);
    cadre_node_t offsets = cadre_op_arg(p, "offsets", CADRE_I32, one, 1);
    cadre_node_t sum = cadre_op_sum(p, cadre_op_take(p, embedding, index), 1);
    sum = cadre_op_mul(p, sum, cadre_op_take(p, embedding, other));
    return cadre_op_add(p, sum, cadre_op_bag(p, embedding, entries, offsets, none, CADRE_BAG_SUM));
}

static const cadre_function_t *
network(job_t *self)
{
    cadre_program_t *p = cadre_program_new("step");
    const cadre_node_t variables[2] = {
        self->way == TABLE ? cadre_op_table(p, "embedding", WIDTH)
                           : cadre_op_var(p, "embedding", (int64_t[]){KEYS, WIDTH}, 2),
        cadre_op_var(p, "weight", (int64_t[]){WIDTH, OUTPUTS}, 2)};
    cadre_node_t gradients[2];
    cadre_node_t outputs = cadre_op_matmul(p, read_rows(p, variables[0]), variables[1]);
    cadre_node_t gap = cadre_op_sub(p, outputs, cadre_op_const_f32(p, 1));
    cadre_op_gradient(p, cadre_op_mean_all(p, cadre_op_square(p, gap)), variables, 2, gradients);
    if (self->together) {
        cadre_op_result(p, "norm", cadre_op_clip_by_global_norm(p, gradients, 2, self->norm));
    }
    for (int i = 0; i < 2; i++) {
        cadre_op_push(p, variables[i],
                      self->together ? gradients[i]
                                     : cadre_op_clip_by_norm(p, gradients[i], self->norm));
    }
    if (self->way == WHOLE) {
        cadre_op_result(p, "all", cadre_op_sum_all(p, variables[0])); /* needs every row */
    }
    cadre_function_t *function = NULL;
    OK(cadre_function_register(self->cluster.coordinator, &p, &function));
    return function;
}

/* Ids of closure `number`: two rows alone in every third, else any; of the bag a third are
 * padding. */
static void
run(job_t *self, uint64_t number)
{
    int32_t ids[BATCH * IDS];
    int32_t other[BATCH];
    int32_t entries[BATCH * IDS];
    int32_t offsets[BATCH];
    cadre_random_t random;
    cadre_random_init(&random, 29, number);
    const uint64_t keys = number % 3 == 0 ? 2 : KEYS;
    for (int i = 0; i < BATCH * IDS; i++) {
        ids[i] = (int32_t)cadre_random_below(&random, keys);
        entries[i] = (int32_t)cadre_random_below(&random, 3) - 1;
    }
    for (int i = 0; i < BATCH; i++) {
        other[i] = (int32_t)cadre_random_below(&random, keys);
        offsets[i] = i * IDS;
    }
    const cadre_tensor_t tensors[] = {
        {.dtype = CADRE_I32, .rank = 2, .shape = {BATCH, IDS}, .data = ids},
        {.dtype = CADRE_I32, .rank = 1, .shape = {BATCH}, .data = other},
        {.dtype = CADRE_I32, .rank = 1, .shape = {BATCH * IDS}, .data = entries},
        {.dtype = CADRE_I32, .rank = 1, .shape = {BATCH}, .data = offsets}};
    const cadre_argument_t arguments[] = {{"ids", &tensors[0]},
                                          {"other", &tensors[1]},
                                          {"entries", &tensors[2]},
                                          {"offsets", &tensors[3]}};
    cadre_call_t call = cadre_call_tensors(arguments, 4);
    cadre_coordinator_t *coordinator = self->cluster.coordinator;
    OK(cadre_coordinator_schedule(coordinator, self->step, &call, LOCAL_WAIT_MS, NULL));
    OK(cadre_coordinator_join(coordinator, LOCAL_WAIT_MS));
}

static void
read_weights(job_t *self, weights_t *out)
{
    int64_t ids[KEYS];
    uint64_t keys[KEYS];
    cadre_tensor_t value = {.data = NULL};
    for (int i = 0; i < KEYS; i++) {
        ids[i] = i;
        keys[i] = (uint64_t)i;
    }
    if (self->way == TABLE) {
        OK(cadre_variable_read_keys(self->embedding, keys, KEYS, &value, LOCAL_WAIT_MS));
    } else {
        OK(cadre_variable_read_rows(self->embedding, ids, KEYS, &value, LOCAL_WAIT_MS));
    }
    memcpy(out->embedding, value.data, sizeof(out->embedding));
    cadre_tensor_fini(&value);
    OK(cadre_variable_read(self->weight, &value, LOCAL_WAIT_MS));
    memcpy(out->weight, value.data, sizeof(out->weight));
    cadre_tensor_fini(&value);
}

/* Trains closures one after the other, so that what they compute depends on nothing else. */
static void
train(way_t way, bool together, float norm, weights_t *out)
{
    const local_cluster_options_t options = {.ps = 2, .workers = 1, .slots = 1};
    job_t job = {.way = way, .together = together, .norm = norm};
    local_cluster_open(&job.cluster, &options);
    create(&job);
    job.step = network(&job);
    for (uint64_t i = 0; i < CLOSURES; i++) {
        run(&job, i);
    }
    read_weights(&job, out);
    local_cluster_close(&job.cluster);
}

/* Returns the largest difference of two models. */
static float
distance(const weights_t *left, const weights_t *right)
{
    const float *a = &left->embedding[0][0];
    const float *b = &right->embedding[0][0];
    float most = 0;
    for (size_t i = 0; i < KEYS * WIDTH; i++) {
        most = fmaxf(most, fabsf(a[i] - b[i]));
    }
    for (size_t i = 0; i < WIDTH * OUTPUTS; i++) {
        most = fmaxf(most, fabsf((&left->weight[0][0])[i] - (&right->weight[0][0])[i]));
    }
    return most;
}

/* With a norm that no gradient reaches it is another model: clipping was seen. */
static void
compare(bool together)
{
    weights_t whole;
    weights_t other;
    train(WHOLE, together, 0.05F, &whole);
    for (way_t way = LOOKED_UP; way < WAYS; way++) {
        train(way, together, 0.05F, &other);
        cr_expect_leq(distance(&whole, &other), way == TABLE ? 1e-5F : 0, "%s: %g", ways[way],
                      (double)distance(&whole, &other));
    }
    train(TABLE, together, 1e6F, &other);
    cr_expect_gt(distance(&whole, &other), 1e-2F, "%g", (double)distance(&whole, &other));
}

Test(conformance_clip, V22_gradients_of_rows_are_clipped_each_by_its_whole_norm)
{
    compare(false);
}

Test(conformance_clip, V22_gradients_of_rows_and_others_are_clipped_by_the_norm_of_all)
{
    compare(true);
}
