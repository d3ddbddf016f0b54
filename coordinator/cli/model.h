/*
 * model - the model of a job as programs and variables.
 *
 * Owner:   a trainer.
 * Thread:  the trainer's.
 *
 * Layer i has the variables w<i> [in, out] and b<i> [out], counted from 1. Weights before a relu or
 * gelu begin as He, others as Glorot, biases as zeros. The loss follows from what labels are:
 * softmax cross entropy for classes, sigmoid cross entropy for two, mean squared error for values.
 */
#ifndef CADRE_COORDINATOR_CLI_MODEL_H
#define CADRE_COORDINATOR_CLI_MODEL_H

#include <cadre/coordinator.h>

#include "coordinator/cli/job.h"

enum { CADRE_MODEL_VARIABLES_MAX = 2 * (CADRE_JOB_HIDDEN_MAX + 1) };

typedef struct {
    cadre_function_t *train;    /* pushes gradients; result "loss": mean over the batch */
    cadre_function_t *evaluate; /* results "loss" (mean) and, but for values, "correct" (count) */
    int64_t parameters;         /* numbers that are trained */
    cadre_variable_t *variables[CADRE_MODEL_VARIABLES_MAX]; /* layer by layer: weight, bias */
    size_t variable_count;
} cadre_model_t;

/* Builds the program of one step ("train_step") or of an evaluation ("evaluate_step"), to be ended
 * by the caller unless it is registered. CADRE_ECONFIG and others as the builder says. */
int cadre_model_program(const cadre_job_t *job, int64_t features, int64_t classes, bool training,
                        cadre_program_t **program);

/* Creates the variables and registers both programs. */
int cadre_model_open(const cadre_job_t *job, cadre_coordinator_t *coordinator, int64_t features,
                     int64_t classes, cadre_model_t *model);

#endif
