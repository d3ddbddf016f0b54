/*
 * recommenders - four models of what users click, over tables with a row for each user and item
 *
 *     cadre run --ps 2 --workers 2 -- build/release/bin/examples/recommenders
 *
 * A visit is a user, an item, and two numbers of its context; a click is what a model is to tell.
 * Sparse logistic regression (by FTRL), matrix factorization and wide & deep give its probability;
 * the two towers find the item that a user has clicked among those of a batch, from clicks alone.
 * Visits are drawn here from a model whose loss nobody can pass: users and items are known by keys
 * of 64 bits, as hashes of names are, and no program says how many there are. The last fifth is
 * held out.
 *
 * Each model is one function of the keys and numbers of a batch, made of the helpers of
 * <cadre/program.h>: copy what you need.
 */
#include <cadre/coordinator.h>
#include <cadre/program.h>
#include <cadre/table.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

enum {
    USERS = 200,
    ITEMS = 100,
    TASTES = 3, /* numbers by which the model that draws visits knows users and items */
    VISITS = 40000,
    TRAINED = VISITS / 5 * 4,
    CONTEXT = 2,
    KEYS = 2, /* of a visit: its user and its item */
    SIZE = 8, /* of a vector */
    HIDDEN = 16,
    EPOCHS = 10,
    BATCH = 128,
};

/* --- Visits --- */

typedef struct {
    int64_t users[VISITS]; /* keys */
    int64_t items[VISITS];
    float context[VISITS][CONTEXT];
    int32_t clicked[VISITS];
} visits_t;

/* A number from 0 to below 1 for each (a, b), the same in each run. */
static double
drawn(uint64_t a, uint64_t b)
{
    uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) ^ (b + 1) * UINT64_C(0xd1b54a32d192ed03);
    for (int i = 0; i < 3; i++) { /* the finalizer of MurmurHash3, repeated */
        x ^= x >> 33;
        x *= UINT64_C(0xff51afd7ed558ccd);
    }
    return (double)(x >> 11) / 9007199254740992.0; /* 2^53 */
}

/* A key of 64 bits for a user or an item. */
static int64_t
key_of(uint64_t kind, uint64_t number)
{
    return (int64_t)((uint64_t)(drawn(kind, number) * 9007199254740992.0) * 2048 + number);
}

/* The logit of a click: what each likes in general, and how well their tastes meet. */
static double
logit_of(uint64_t user, uint64_t item, const float *context)
{
    double logit = 2 * drawn(1, user) + 2 * drawn(2, item) - 3 + context[0] - context[1];
    for (uint64_t i = 0; i < TASTES; i++) {
        logit += 12 * (drawn(3 + i, user) - 0.5) * (drawn(13 + i, item) - 0.5);
    }
    return logit;
}

/* Draws all visits. Gives two losses on those held out: of the model that drew them, and of a guess
 * that knows how many of the others were clicked. */
static void
draw_visits(visits_t *self, double *least, double *guess)
{
    double trained_clicks = 0;
    double clicks = 0;
    *least = 0;
    for (int v = 0; v < VISITS; v++) {
        const uint64_t user = (uint64_t)(drawn(30, (uint64_t)v) * USERS);
        const uint64_t item = (uint64_t)(drawn(31, (uint64_t)v) * ITEMS);
        self->users[v] = key_of(40, user);
        self->items[v] = key_of(41, item);
        for (int i = 0; i < CONTEXT; i++) {
            self->context[v][i] = (float)(drawn(32 + (uint64_t)i, (uint64_t)v) - 0.5);
        }
        const double p = 1 / (1 + exp(-logit_of(user, item, self->context[v])));
        self->clicked[v] = drawn(34, (uint64_t)v) < p;
        if (v < TRAINED) {
            trained_clicks += self->clicked[v];
        } else {
            clicks += self->clicked[v];
            *least -= log(self->clicked[v] ? p : 1 - p) / (VISITS - TRAINED);
        }
    }
    const double rate = trained_clicks / TRAINED;
    const double share = clicks / (VISITS - TRAINED);
    *guess = -share * log(rate) - (1 - share) * log(1 - rate);
}

/* Makes a dataset of visits from `first` on: of all of them, or of clicks, which move to the front
 * of the arrays. */
static int
open_visits(cadre_coordinator_t *c, const char *name, visits_t *self, int first, int count,
            cadre_dataset_t **dataset)
{
    const int64_t rows = count;
    const cadre_tensor_t columns[] = {
        cadre_tensor_view(CADRE_I64, self->users + first, &rows, 1),
        cadre_tensor_view(CADRE_I64, self->items + first, &rows, 1),
        cadre_tensor_view(CADRE_F32, self->context + first, (int64_t[]){rows, CONTEXT}, 2)};
    const cadre_tensor_t y = cadre_tensor_view(CADRE_I32, self->clicked + first, &rows, 1);
    return cadre_dataset_from_columns(
        c, name, &(cadre_columns_t){.columns = columns, .count = 3, .y = &y}, 30000, dataset);
}

/* Moves the users and items of clicks to the front of visits, for the towers, which look at nothing
 * else; returns how many there are. */
static int
keep_clicks(visits_t *self, int first, int count)
{
    int kept = first;
    for (int v = first; v < first + count; v++) {
        if (self->clicked[v]) {
            self->users[kept] = self->users[v];
            self->items[kept] = self->items[v];
            self->clicked[kept++] = 1;
        }
    }
    return kept - first;
}

/* --- Models: what a program sees of a batch of visits --- */

typedef struct {
    cadre_node_t keys;    /* i64 [B, 2]: users and items */
    cadre_node_t context; /* f32 [B, 2] */
    cadre_node_t clicked; /* i32 [B] */
} batch_t;

static const cadre_node_t none = {0};

/* The keys of a dataset stand in three numbers each, before the others. */
static batch_t
batch_of(cadre_program_t *p)
{
    const int64_t numbers = KEYS * CADRE_KEY_PARTS;
    const cadre_dim_t rows[] = {cadre_dim_symbol("B"), cadre_dim(numbers + CONTEXT)};
    const cadre_dim_t parts[] = {rows[0], cadre_dim(KEYS), cadre_dim(CADRE_KEY_PARTS)};
    const cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, rows, 2);
    const cadre_node_t keys = cadre_op_slice(p, x, 1, 0, numbers);
    return (batch_t){.keys = cadre_op_key(p, cadre_op_reshape(p, keys, parts, 3)),
                     .context = cadre_op_slice(p, x, 1, numbers, CONTEXT),
                     .clicked = cadre_op_arg(p, "y", CADRE_I32, rows, 1)};
}

/* The keys of users (0) or items (1): i64 [B]. */
static cadre_node_t
keys_of(cadre_program_t *p, const batch_t *batch, int kind)
{
    const cadre_dim_t rows[] = {cadre_dim_symbol("B")};
    return cadre_op_reshape(p, cadre_op_slice(p, batch->keys, 1, kind, 1), rows, 1);
}

/* A weight for each key, their sum and a bias: [B]. */
static cadre_node_t
linear_of(cadre_program_t *p, const batch_t *batch, const char *table, const char *bias)
{
    const cadre_node_t bag = cadre_op_embedding_bag(p, cadre_op_table(p, table, 1), batch->keys,
                                                    none, none, CADRE_BAG_SUM);
    return cadre_op_add(p, cadre_op_sum(p, bag, 1), cadre_op_var(p, bias, (int64_t[]){1}, 1));
}

/* Sparse logistic regression: its logits. */
static cadre_node_t
logistic(cadre_program_t *p, const batch_t *batch)
{
    return linear_of(p, batch, "logistic_weights", "logistic_bias");
}

/* Matrix factorization with biases: a factorization machine over two keys has one product. */
static cadre_node_t
factorization(cadre_program_t *p, const batch_t *batch)
{
    const cadre_node_t product = cadre_op_factorization_machine(
        p, cadre_op_table(p, "factorization_vectors", SIZE), batch->keys, none, none);
    return cadre_op_add(p, product,
                        linear_of(p, batch, "factorization_weights", "factorization_bias"));
}

/* Wide & deep (Cheng and others 2016): a weight for each key, beside dense layers over the vectors
 * of both keys and the context. */
static cadre_node_t
wide_deep(cadre_program_t *p, const batch_t *batch)
{
    const cadre_dim_t side_by_side[] = {cadre_dim_symbol("B"), cadre_dim((int64_t)KEYS * SIZE)};
    const cadre_node_t vectors =
        cadre_op_embedding(p, cadre_op_table(p, "deep_vectors", SIZE), batch->keys);
    const cadre_node_t inputs[] = {cadre_op_reshape(p, vectors, side_by_side, 2), batch->context};
    const cadre_node_t w1 =
        cadre_op_var(p, "deep_w1", (int64_t[]){KEYS * SIZE + CONTEXT, HIDDEN}, 2);
    const cadre_node_t b1 = cadre_op_var(p, "deep_b1", (int64_t[]){HIDDEN}, 1);
    const cadre_node_t w2 = cadre_op_var(p, "deep_w2", (int64_t[]){HIDDEN, 1}, 2);
    const cadre_node_t hidden =
        cadre_op_relu(p, cadre_op_dense(p, cadre_op_concat(p, inputs, 2, 1), w1, b1));
    const cadre_node_t deep = cadre_op_sum(p, cadre_op_dense(p, hidden, w2, none), 1);
    return cadre_op_add(p, deep, linear_of(p, batch, "wide_weights", "wide_bias"));
}

/* Two towers: the loss of a user's vector that is to find the item of its visit among all items of
 * the batch. */
static cadre_node_t
two_towers(cadre_program_t *p, const batch_t *batch)
{
    const cadre_node_t items = keys_of(p, batch, 1);
    const cadre_node_t user =
        cadre_op_embedding(p, cadre_op_table(p, "towers_users", SIZE), keys_of(p, batch, 0));
    const cadre_node_t item = cadre_op_embedding(p, cadre_op_table(p, "towers_items", SIZE), items);
    const cadre_node_t w = cadre_op_var(p, "towers_w", (int64_t[]){SIZE, SIZE}, 2);
    const cadre_node_t b = cadre_op_var(p, "towers_b", (int64_t[]){SIZE}, 1);
    return cadre_op_in_batch_softmax(p, user, cadre_op_dense(p, item, w, b), items, none);
}

/* --- The job --- */

typedef struct {
    const char *name;
    cadre_node_t (*logits)(cadre_program_t *p, const batch_t *batch); /* NULL: the two towers */
} model_t;

/* Makes a table of rows of `dim` numbers that begin at random, or at 0. */
static int
create_table(cadre_coordinator_t *c, const char *name, uint32_t dim, cadre_optimizer_kind_t kind)
{
    cadre_table_options_t options = cadre_table_options();
    options.optimizer = cadre_optimizer(kind);
    options.optimizer.learning_rate = kind == CADRE_OPTIMIZER_FTRL ? 0.3 : 0.01;
    if (dim > 1) {
        options.initializer = cadre_initializer(CADRE_INITIALIZER_NORMAL);
        options.initializer.stddev = 0.1;
    }
    cadre_variable_t *table = NULL;
    return cadre_variable_create_table(c, name, dim, &options, &table);
}

static int
create_variable(cadre_coordinator_t *c, const char *name, const int64_t *shape, int rank)
{
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADAM);
    options.optimizer.learning_rate = 0.01;
    if (rank > 1) {
        options.initializer = cadre_initializer(CADRE_INITIALIZER_GLOROT_UNIFORM);
    }
    cadre_variable_t *variable = NULL;
    return cadre_variable_create(c, name, CADRE_F32, shape, rank, &options, &variable);
}

static int
create_variables(cadre_coordinator_t *c)
{
    const int64_t one[] = {1};
    int s = create_table(c, "logistic_weights", 1, CADRE_OPTIMIZER_FTRL);
    s = s ? s : create_variable(c, "logistic_bias", one, 1);
    s = s ? s : create_table(c, "factorization_weights", 1, CADRE_OPTIMIZER_ADAM);
    s = s ? s : create_table(c, "factorization_vectors", SIZE, CADRE_OPTIMIZER_ADAM);
    s = s ? s : create_variable(c, "factorization_bias", one, 1);
    s = s ? s : create_table(c, "wide_weights", 1, CADRE_OPTIMIZER_FTRL);
    s = s ? s : create_variable(c, "wide_bias", one, 1);
    s = s ? s : create_table(c, "deep_vectors", SIZE, CADRE_OPTIMIZER_ADAM);
    s = s ? s : create_variable(c, "deep_w1", (int64_t[]){KEYS * SIZE + CONTEXT, HIDDEN}, 2);
    s = s ? s : create_variable(c, "deep_b1", (int64_t[]){HIDDEN}, 1);
    s = s ? s : create_variable(c, "deep_w2", (int64_t[]){HIDDEN, 1}, 2);
    s = s ? s : create_table(c, "towers_users", SIZE, CADRE_OPTIMIZER_ADAM);
    s = s ? s : create_table(c, "towers_items", SIZE, CADRE_OPTIMIZER_ADAM);
    s = s ? s : create_variable(c, "towers_w", (int64_t[]){SIZE, SIZE}, 2);
    return s ? s : create_variable(c, "towers_b", (int64_t[]){SIZE}, 1);
}

/* Registers a model's program: one that trains, or one that gives the loss of a batch. */
static int
define(cadre_coordinator_t *c, const model_t *model, int trains, cadre_function_t **function)
{
    cadre_program_t *p = cadre_program_new(trains ? "train" : "evaluate");
    const batch_t batch = batch_of(p);
    const cadre_node_t loss =
        model->logits ? cadre_op_sigmoid_cross_entropy(p, model->logits(p, &batch), batch.clicked)
                      : two_towers(p, &batch);
    if (trains) {
        cadre_op_minimize(p, loss);
    } else {
        cadre_op_result(p, "loss", loss);
    }
    int s = cadre_function_register(c, &p, function);
    cadre_program_destroy(&p);
    return s;
}

/* Trains a model, and prints its loss on visits that are held out. */
static int
train(cadre_coordinator_t *c, const model_t *model, cadre_dataset_t *rows, cadre_dataset_t *test)
{
    cadre_function_t *step = NULL;
    cadre_function_t *evaluate = NULL;
    double loss = 0;
    int s = define(c, model, 1, &step);
    s = s ? s : define(c, model, 0, &evaluate);
    s = s ? s : cadre_dataset_train(rows, step, 0, EPOCHS, BATCH, -1);
    s = s ? s : cadre_dataset_mean(test, evaluate, "loss", BATCH, -1, &loss);
    if (!s) {
        printf("%s: %.4f\n", model->name, loss);
    }
    return s;
}

int
main(void)
{
    static const model_t models[] = {{"logistic regression", logistic},
                                     {"matrix factorization", factorization},
                                     {"wide & deep", wide_deep}};
    static const model_t towers = {"two towers", NULL};
    static visits_t visits;
    double least = 0;
    double guess = 0;
    draw_visits(&visits, &least, &guess);

    cadre_coordinator_t *c = NULL;
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.seed = 1;
    cadre_dataset_t *rows = NULL;
    cadre_dataset_t *test = NULL;
    int s = cadre_coordinator_open(&options, &c);
    s = s ? s : create_variables(c);
    s = s ? s : open_visits(c, "train", &visits, 0, TRAINED, &rows);
    s = s ? s : open_visits(c, "test", &visits, TRAINED, VISITS - TRAINED, &test);
    if (!s) {
        printf("a guess: %.4f\n", guess);
    }
    for (size_t i = 0; i < sizeof(models) / sizeof(*models) && !s; i++) {
        s = train(c, &models[i], rows, test);
    }
    if (!s) {
        printf("the model that drew them: %.4f\n", least);
    }

    const int trained_clicks = keep_clicks(&visits, 0, TRAINED);
    const int clicks = keep_clicks(&visits, TRAINED, VISITS - TRAINED);
    s = s ? s : open_visits(c, "clicks", &visits, 0, trained_clicks, &rows);
    s = s ? s : open_visits(c, "test_clicks", &visits, TRAINED, clicks, &test);
    if (!s) {
        printf("a guess among the items of %d visits: %.4f at most\n", BATCH, log(BATCH));
    }
    s = s ? s : train(c, &towers, rows, test);
    if (s) {
        fprintf(stderr, "%s: %s\n", cadre_status_text(s), cadre_error_text());
    }
    cadre_coordinator_close(&c);
    return s != 0;
}
