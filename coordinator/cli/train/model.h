/*
 * model - makes the programs and variables of the model that a job describes.
 *
 * Owner:   a trainer.
 * Thread:  the trainer's.
 *
 * The layers of a named model are in model_layers.h, their variables in network.h. What labels are
 * decides the loss: softmax cross entropy for classes, sigmoid cross entropy for two classes, mean
 * squared error for values.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_MODEL_H
#define CADRE_COORDINATOR_CLI_TRAIN_MODEL_H

#include <cadre/coordinator.h>

#include "coordinator/cli/train/job.h"
#include "coordinator/cli/train/network.h"

/* The function for a closure of local steps that has fewer rows than the others, at the end of a
 * pass. */
typedef struct {
    int64_t rows;
    cadre_function_t *train;
} cadre_model_rest_t;

typedef struct {
    cadre_function_t *train;     /* pushes gradients; result "loss": mean over the batch */
    cadre_model_rest_t rests[2]; /* for a pass from its beginning, and from where it was resumed */
    size_t rest_count;
    cadre_function_t *evaluate; /* its results are listed in evaluation.h */
    int64_t parameters;         /* count of numbers that are trained */
    cadre_variable_t *variables[CADRE_NETWORK_VARIABLES_MAX]; /* layer by layer */
    /* [variable_count] For each variable the one that evaluations read in its place, which holds
     * its running average; NULL where evaluations read the variable itself. */
    cadre_variable_t *averages[CADRE_NETWORK_VARIABLES_MAX];
    size_t variable_count;
    bool has_rate
        [CADRE_NETWORK_VARIABLES_MAX]; /* whether the job's learning rate is the variable's */
} cadre_model_t;

/* Builds the program of one step ("train_step") or of an evaluation ("evaluate_step"). The caller
 * destroys it unless it is registered. Fails with CADRE_ECONFIG and a text that names the job file
 * and the layer. */
int cadre_model_program(const cadre_job_t *job, int64_t features, int64_t classes, bool training,
                        cadre_program_t **program);

/* Builds the program for rows of widths[0] features and widths[1] classes into `network`, with its
 * layers and variables. The caller destroys network->program, also after a failure. */
int cadre_model_network(const cadre_job_t *job, const int64_t widths[2], bool training,
                        cadre_network_t *network);

/* Builds the program of a closure of local steps that has just `rows` rows ("train_rest_ROWS"):
 * each step takes batch_size of them, the last one what is left. The caller destroys it. */
int cadre_model_rest(const cadre_job_t *job, const int64_t widths[2], int64_t rows,
                     cadre_program_t **out);

/* Checks that each layer can follow the one before it, as far as that is known before the data is
 * opened: sizes are known only if the model gives the shape of a row. CADRE_ECONFIG when a layer
 * cannot. */
int cadre_model_check(const cadre_job_t *job);

/* Copies the running averages of the variables to the variables that evaluations read; does nothing
 * for a job whose evaluations do not use averages. Fails as reading and assigning do. */
int cadre_model_take_averages(const cadre_model_t *self);

/* Creates the variables on the ps and registers the programs that train and that evaluate as
 * functions. */
int cadre_model_open(const cadre_job_t *job, cadre_coordinator_t *coordinator, int64_t features,
                     int64_t classes, cadre_model_t *model);

/* Registers the function for closures of local steps that have just `rows` rows; does nothing for 0
 * rows, and for a number that has one. At most twice with different numbers. */
int cadre_model_open_rest(const cadre_job_t *job, cadre_coordinator_t *coordinator,
                          const int64_t widths[2], int64_t rows, cadre_model_t *model);

/* Changes the learning rate of all variables that are trained, for updates that at least `updates`
 * others came before. Waits until all shards know. Fails as cadre_variable_change_rate. */
int cadre_model_change_rate(const cadre_model_t *self, uint64_t updates, double rate);

/* Makes the changes of the learning rate again that a run had made before it was resumed. */
int cadre_model_repeat_changes(const cadre_model_t *self, const cadre_training_plateau_t *plateau);

/* Returns the function that trains on a closure of `rows` rows. */
const cadre_function_t *cadre_model_train(const cadre_model_t *self, int64_t rows);

/* Returns the optimizer that the ps apply to what closures push: the outer one of a job with local
 * steps, else that of the section "optimizer" with its learning rate scaled (job_optimizer.h). */
cadre_optimizer_spec_t cadre_model_optimizer(const cadre_job_t *job);

#endif
