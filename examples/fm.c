/*
 * fm - a factorization machine over tables, trained on handwritten digits: is the digit odd?
 *
 *     cadre run --ps 2 --workers 2 -- build/release/bin/examples/fm examples/data/digits.csv.gz
 *
 * Each pixel's value, 0 to 16, is a feature of its own: 64 x 17 rows of a table, of which an image
 * has 64. The model sums over them and over the products of all pairs (Rendle 2010). A random fifth
 * of the rows is held out.
 */
#define _XOPEN_SOURCE 700 /* realpath */
#include <cadre/coordinator.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 64, VALUES = 17, ROWS = PIXELS * VALUES, SIZE = 16, EPOCHS = 20, BATCH = 32 };

typedef struct {
    cadre_coordinator_t *coordinator;
    cadre_dataset_t *train;
    cadre_dataset_t *test;
    cadre_function_t *step;
    cadre_function_t *evaluate;
} example_t;

static int
define_variables(cadre_coordinator_t *c)
{
    cadre_variable_options_t zeros = cadre_variable_options();
    cadre_variable_options_t random = cadre_variable_options();
    cadre_variable_t *variable = NULL;
    random.initializer = cadre_initializer(CADRE_INITIALIZER_NORMAL);
    random.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADAM);
    random.optimizer.learning_rate = 0.005;
    random.lazy = 1; /* rows that no image of a batch has rest, and do not travel */
    zeros.optimizer = random.optimizer;
    zeros.lazy = random.lazy;
    const int64_t vectors[] = {ROWS, SIZE};
    const int64_t weights[] = {ROWS, 1};
    const int64_t bias[] = {1};
    int s = cadre_variable_create(c, "vectors", CADRE_F32, vectors, 2, &random, &variable);
    s = s ? s : cadre_variable_create(c, "weights", CADRE_F32, weights, 2, &zeros, &variable);
    return s ? s : cadre_variable_create(c, "bias", CADRE_F32, bias, 1, &zeros, &variable);
}

/* The row of each pixel's value in the tables: i32 [B,64]. */
static cadre_node_t
rows_of(cadre_program_t *p, cadre_node_t x)
{
    float first[PIXELS];
    for (int i = 0; i < PIXELS; i++) {
        first[i] = (float)(i * VALUES);
    }
    const cadre_tensor_t tensor = {.dtype = CADRE_F32, .rank = 1, .shape = {PIXELS}, .data = first};
    return cadre_op_cast(p, cadre_op_add(p, x, cadre_op_const(p, &tensor)), CADRE_I32);
}

/* 1 for odd digits, else 0: f32 [B]. */
static cadre_node_t
odd(cadre_program_t *p, cadre_node_t digit)
{
    float is_odd[] = {0, 1, 0, 1, 0, 1, 0, 1, 0, 1};
    const cadre_tensor_t tensor = {.dtype = CADRE_F32, .rank = 1, .shape = {10}, .data = is_odd};
    return cadre_op_take(p, cadre_op_const(p, &tensor), digit);
}

/* One program for training, one for counting what is right: both see a batch as "x" and "y". */
static int
define_function(example_t *self, int training, cadre_function_t **function)
{
    cadre_program_t *p = cadre_program_new(training ? "train" : "evaluate");
    const cadre_dim_t images[] = {cadre_dim_symbol("B"), cadre_dim(PIXELS)};
    const cadre_dim_t digits[] = {cadre_dim_symbol("B")};
    const cadre_node_t none = {0};
    cadre_node_t rows = rows_of(p, cadre_op_arg(p, "x", CADRE_F32, images, 2));
    cadre_node_t target = odd(p, cadre_op_arg(p, "y", CADRE_I32, digits, 1));
    cadre_node_t vectors = cadre_op_var(p, "vectors", (const int64_t[]){ROWS, SIZE}, 2);
    cadre_node_t weights = cadre_op_var(p, "weights", (const int64_t[]){ROWS, 1}, 2);
    cadre_node_t bias = cadre_op_var(p, "bias", (const int64_t[]){1}, 1);
    cadre_node_t linear = cadre_op_embedding_bag(p, weights, rows, none, none, CADRE_BAG_SUM);
    cadre_node_t pairs = cadre_op_factorization_machine(p, vectors, rows, none, none);
    cadre_node_t logit = cadre_op_add(p, cadre_op_add(p, cadre_op_sum(p, linear, 1), pairs), bias);
    if (training) {
        cadre_op_minimize(p, cadre_op_sigmoid_cross_entropy(p, logit, target));
    } else {
        cadre_op_result(p, "correct",
                        cadre_op_sum_all(p, cadre_op_binary_correct(p, logit, target)));
    }
    int s = cadre_function_register(self->coordinator, &p, function);
    cadre_program_destroy(&p);
    return s;
}

static int
open_rows(example_t *self, const char *path, const char *part, cadre_dataset_t **dataset)
{
    char text[PATH_MAX + 256];
    snprintf(text, sizeof(text),
             "{\"format\": \"csv\", \"path\": \"%s\", \"held_out\": 0.2, \"part\": \"%s\"}", path,
             part);
    return cadre_dataset_open(self->coordinator, part, text, 30000, dataset);
}

static int
evaluate(example_t *self, double *accuracy)
{
    int s = cadre_dataset_sum(self->test, self->evaluate, "correct", BATCH, -1, accuracy);
    *accuracy /= (double)cadre_dataset_info(self->test).rows;
    return s;
}

int
main(int argc, char **argv)
{
    char path[PATH_MAX];
    if (argc != 2) {
        fprintf(stderr, "usage: fm examples/data/digits.csv.gz\n");
        return 2;
    }
    if (!realpath(argv[1], path)) {
        fprintf(stderr,
                "fm: %s: %s; give the path of digits.csv.gz, which Cadre has in examples/data\n",
                argv[1], strerror(errno));
        return 66; /* EX_NOINPUT of sysexits.h */
    }
    example_t self = {.coordinator = NULL};
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.seed = 1;
    double accuracy = 0;
    int s = cadre_coordinator_open(&options, &self.coordinator);
    s = s ? s : define_variables(self.coordinator);
    s = s ? s : define_function(&self, 1, &self.step);
    s = s ? s : define_function(&self, 0, &self.evaluate);
    s = s ? s : open_rows(&self, path, "rest", &self.train);
    s = s ? s : open_rows(&self, path, "held_out", &self.test);
    s = s ? s : cadre_dataset_train(self.train, self.step, 0, EPOCHS, BATCH, -1);
    s = s ? s : evaluate(&self, &accuracy);
    if (s) {
        fprintf(stderr, "%s: %s\n", cadre_status_text(s), cadre_error_text());
    } else {
        printf("accuracy %.4f\n", accuracy);
    }
    cadre_coordinator_close(&self.coordinator);
    return s != 0;
}
