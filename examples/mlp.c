/*
 * mlp - a program that defines a network, trains it on handwritten digits and evaluates it:
 *
 *     cadre run --ps 2 --workers 2 -- build/release/bin/examples/mlp examples/data/digits.csv.gz
 *
 * A random fifth of the rows is held out.
 */
#define _XOPEN_SOURCE 700 /* realpath */
#include <cadre/coordinator.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 64, HIDDEN = 96, CLASSES = 10, EPOCHS = 30, BATCH = 32 };

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
    cadre_variable_options_t weight = cadre_variable_options();
    cadre_variable_options_t bias = cadre_variable_options();
    cadre_variable_t *variable = NULL;
    weight.initializer = cadre_initializer(CADRE_INITIALIZER_GLOROT_UNIFORM);
    weight.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADAM);
    weight.optimizer.learning_rate = 0.003;
    bias.optimizer = weight.optimizer;
    weight.partitioner = CADRE_PARTITION_FIXED;
    weight.count = 2; /* half of the rows on each of two ps */
    const int64_t w1[] = {PIXELS, HIDDEN};
    const int64_t b1[] = {HIDDEN};
    const int64_t w2[] = {HIDDEN, CLASSES};
    const int64_t b2[] = {CLASSES};
    int s = cadre_variable_create(c, "w1", CADRE_F32, w1, 2, &weight, &variable);
    s = s ? s : cadre_variable_create(c, "b1", CADRE_F32, b1, 1, &bias, &variable);
    s = s ? s : cadre_variable_create(c, "w2", CADRE_F32, w2, 2, &weight, &variable);
    return s ? s : cadre_variable_create(c, "b2", CADRE_F32, b2, 1, &bias, &variable);
}

/* One program for training, one for counting what is right: both see a batch as "x" and "y". */
static int
define_function(example_t *self, int training, cadre_function_t **function)
{
    cadre_program_t *p = cadre_program_new(training ? "train" : "evaluate");
    const cadre_dim_t images[] = {cadre_dim_symbol("B"), cadre_dim(PIXELS)};
    const cadre_dim_t digits[] = {cadre_dim_symbol("B")};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, images, 2);
    cadre_node_t y = cadre_op_arg(p, "y", CADRE_I32, digits, 1);
    cadre_node_t w1 = cadre_op_var(p, "w1", (const int64_t[]){PIXELS, HIDDEN}, 2);
    cadre_node_t b1 = cadre_op_var(p, "b1", (const int64_t[]){HIDDEN}, 1);
    cadre_node_t w2 = cadre_op_var(p, "w2", (const int64_t[]){HIDDEN, CLASSES}, 2);
    cadre_node_t b2 = cadre_op_var(p, "b2", (const int64_t[]){CLASSES}, 1);
    cadre_node_t logits = cadre_op_dense(p, cadre_op_relu(p, cadre_op_dense(p, x, w1, b1)), w2, b2);
    if (training) {
        cadre_op_minimize(p, cadre_op_softmax_cross_entropy(p, logits, y));
    } else {
        cadre_op_result(p, "correct", cadre_op_sum_all(p, cadre_op_correct(p, logits, y)));
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
             "{\"format\": \"csv\", \"path\": \"%s\", \"scale\": 0.0625,"
             " \"held_out\": 0.2, \"part\": \"%s\"}",
             path, part);
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
        fprintf(stderr, "usage: mlp examples/data/digits.csv.gz\n");
        return 2;
    }
    if (!realpath(argv[1], path)) {
        fprintf(stderr,
                "mlp: %s: %s; give the path of digits.csv.gz, which Cadre has in examples/data\n",
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
