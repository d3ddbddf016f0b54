/*
 * hooks - a program that trains a linear classifier of handwritten digits until it gets no better,
 * and is told how it goes:
 *
 *     cadre run --ps 2 --workers 2 -- build/release/bin/examples/hooks examples/data/digits.csv.gz
 *
 * cadre_training_run is the loop: it evaluates after each epoch on the rows held out, and ends when
 * three evaluations in a row were no better than the best before. The hook is called on this
 * program's thread at the start, every 20 batches, after each epoch and evaluation, and in the end;
 * whatever it returns true for ends the run.
 */
#define _XOPEN_SOURCE 700 /* realpath */
#include <cadre/training.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 64, CLASSES = 10, BATCH = 32, EPOCHS_MAX = 200, PATIENCE = 3 };

typedef struct {
    cadre_coordinator_t *coordinator;
    cadre_dataset_t *train;
    cadre_dataset_t *test;
    cadre_function_t *step;
    cadre_function_t *evaluate;
    double losses; /* of batches since the last epoch, */
    int count;     /* and of how many */
} example_t;

static bool
hook(void *context, const cadre_training_event_t *event)
{
    example_t *self = context;
    switch (event->kind) {
    case CADRE_TRAINING_START:
        printf("training begins\n");
        break;
    case CADRE_TRAINING_STEP:
        self->losses += event->value;
        self->count++;
        break;
    case CADRE_TRAINING_EPOCH:
        printf("epoch %llu: loss %.3f, ", (unsigned long long)event->epoch,
               self->losses / self->count);
        self->losses = 0;
        self->count = 0;
        break;
    case CADRE_TRAINING_EVALUATION:
        printf("accuracy %.4f%s\n", event->value, event->is_best ? ", the best so far" : "");
        break;
    case CADRE_TRAINING_CHECKPOINT:
        printf("checkpoint %llu\n", (unsigned long long)event->checkpoint);
        break;
    case CADRE_TRAINING_FAILURE:
        fprintf(stderr, "%s: %s\n", cadre_status_text(event->status), event->text);
        break;
    case CADRE_TRAINING_STOP:
        printf("training ends after %llu batches\n", (unsigned long long)event->step);
        break;
    }
    return false;
}

static int
create_variables(const example_t *self)
{
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer.learning_rate = 0.1;
    const int64_t weight[] = {PIXELS, CLASSES};
    const int64_t bias[] = {CLASSES};
    int s =
        cadre_variable_create(self->coordinator, "weight", CADRE_F32, weight, 2, &options, NULL);
    return s ? s
             : cadre_variable_create(self->coordinator, "bias", CADRE_F32, bias, 1, &options, NULL);
}

static int
define_function(const example_t *self, int training, cadre_function_t **function)
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
        cadre_node_t loss = cadre_op_softmax_cross_entropy(p, logits, y);
        cadre_op_minimize(p, loss);
        cadre_op_result(p, "loss", loss);
    } else {
        cadre_op_result(p, "correct", cadre_op_sum_all(p, cadre_op_correct(p, logits, y)));
    }
    int s = cadre_function_register(self->coordinator, &p, function);
    cadre_program_destroy(&p);
    return s;
}

static int
open_rows(const example_t *self, const char *path, const char *part, cadre_dataset_t **dataset)
{
    char text[PATH_MAX + 256];
    snprintf(text, sizeof(text),
             "{\"format\": \"csv\", \"path\": \"%s\", \"scale\": 0.0625,"
             " \"held_out\": 0.2, \"part\": \"%s\"}",
             path, part);
    return cadre_dataset_open(self->coordinator, part, text, 30000, dataset);
}

static int
run(example_t *self, const char *path, cadre_training_report_t *report)
{
    int s = open_rows(self, path, "rest", &self->train);
    s = s ? s : open_rows(self, path, "held_out", &self->test);
    s = s ? s : create_variables(self);
    s = s ? s : define_function(self, 1, &self->step);
    s = s ? s : define_function(self, 0, &self->evaluate);

    cadre_training_options_t options = cadre_training_options();
    options.epochs = EPOCHS_MAX;
    options.batch_size = BATCH;
    options.hook = hook;
    options.hook_context = self;
    options.hook_every_steps = 20;
    options.evaluation = self->evaluate;
    options.evaluation_rows = self->test;
    options.is_higher_better = true;
    options.patience = PATIENCE;
    return s ? s : cadre_training_run(self->train, self->step, &options, -1, report);
}

int
main(int argc, char **argv)
{
    char path[PATH_MAX];
    if (argc != 2) {
        fprintf(stderr, "usage: hooks examples/data/digits.csv.gz\n");
        return 2;
    }
    if (!realpath(argv[1], path)) {
        fprintf(stderr,
                "hooks: %s: %s; give the path of digits.csv.gz, which Cadre has in examples/data\n",
                argv[1], strerror(errno));
        return 66; /* EX_NOINPUT of sysexits.h */
    }

    example_t self = {.coordinator = NULL};
    cadre_training_report_t report = {.best = 0};
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.seed = 1;
    int s = cadre_coordinator_open(&options, &self.coordinator);
    s = s ? s : run(&self, path, &report);
    if (s) {
        fprintf(stderr, "%s: %s\n", cadre_status_text(s), cadre_error_text());
    } else {
        printf("best accuracy %.4f after %llu batches, %llu evaluations\n", report.best,
               (unsigned long long)report.best_step, (unsigned long long)report.evaluations);
    }
    cadre_coordinator_close(&self.coordinator);
    return s != 0;
}
