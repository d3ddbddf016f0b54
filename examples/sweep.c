/*
 * sweep - a program that trains a linear classifier of handwritten digits with several learning
 * rates, one after the other in one job:
 *
 *     cadre run --ps 2 --workers 2 -- build/release/bin/examples/sweep examples/data/digits.csv.gz
 *
 * Each round creates its variables, with the round's optimizer, and drops them in the end: the ps
 * forget them, and the next round takes their names. The programs are registered once. A random
 * fifth of the rows is held out.
 */
#define _XOPEN_SOURCE 700 /* realpath */
#include <cadre/coordinator.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 64, CLASSES = 10, EPOCHS = 8, BATCH = 32, ROUNDS = 3 };

static const double RATES[ROUNDS] = {0.001, 0.1, 1};

typedef struct {
    cadre_coordinator_t *coordinator;
    cadre_dataset_t *train;
    cadre_dataset_t *test;
    cadre_function_t *step;
    cadre_function_t *evaluate;
    cadre_variable_t *weight;
    cadre_variable_t *bias;
} example_t;

static int
create_variables(example_t *self, double rate)
{
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer.learning_rate = rate;
    const int64_t weight[] = {PIXELS, CLASSES};
    const int64_t bias[] = {CLASSES};
    int s = cadre_variable_create(self->coordinator, "weight", CADRE_F32, weight, 2, &options,
                                  &self->weight);
    return s ? s
             : cadre_variable_create(self->coordinator, "bias", CADRE_F32, bias, 1, &options,
                                     &self->bias);
}

static int
drop_variables(example_t *self)
{
    int s = cadre_variable_drop(&self->weight, -1);
    return s ? s : cadre_variable_drop(&self->bias, -1);
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
    cadre_node_t weight = cadre_op_var(p, "weight", (const int64_t[]){PIXELS, CLASSES}, 2);
    cadre_node_t bias = cadre_op_var(p, "bias", (const int64_t[]){CLASSES}, 1);
    cadre_node_t logits = cadre_op_dense(p, x, weight, bias);
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

/* The programs are made where their variables are there for the first time. */
static int
run_round(example_t *self, double rate, double *accuracy)
{
    int s = create_variables(self, rate);
    if (!s && !self->step) {
        s = define_function(self, 1, &self->step);
        s = s ? s : define_function(self, 0, &self->evaluate);
    }
    s = s ? s : cadre_dataset_train(self->train, self->step, 0, EPOCHS, BATCH, -1);
    s = s ? s : evaluate(self, accuracy);
    return s ? s : drop_variables(self);
}

int
main(int argc, char **argv)
{
    char path[PATH_MAX];
    if (argc != 2) {
        fprintf(stderr, "usage: sweep examples/data/digits.csv.gz\n");
        return 2;
    }
    if (!realpath(argv[1], path)) {
        fprintf(stderr,
                "sweep: %s: %s; give the path of digits.csv.gz, which Cadre has in examples/data\n",
                argv[1], strerror(errno));
        return 66; /* EX_NOINPUT of sysexits.h */
    }
    example_t self = {.coordinator = NULL};
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.seed = 1;
    int s = cadre_coordinator_open(&options, &self.coordinator);
    s = s ? s : open_rows(&self, path, "rest", &self.train);
    s = s ? s : open_rows(&self, path, "held_out", &self.test);
    for (int round = 0; round < ROUNDS && !s; round++) {
        double accuracy = 0;
        s = run_round(&self, RATES[round], &accuracy);
        if (!s) {
            printf("learning rate %g: accuracy %.4f\n", RATES[round], accuracy);
        }
    }
    if (s) {
        fprintf(stderr, "%s: %s\n", cadre_status_text(s), cadre_error_text());
    }
    cadre_coordinator_close(&self.coordinator);
    return s != 0;
}
