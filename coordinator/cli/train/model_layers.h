/*
 * model_layers - the layers that a named model stands for.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_MODEL_LAYERS_H
#define CADRE_COORDINATOR_CLI_TRAIN_MODEL_LAYERS_H

#include "coordinator/cli/train/job.h"

enum { CADRE_MODEL_LAYERS_MAX = 128 };

/* Writes the layers of the job's model before its last, dense one, and returns how many there are:
 *
 *     linear, logistic   none
 *     mlp                for each of `hidden`: dense, dropout
 *     cnn                for each of `filters`: conv2d with as much padding as keeps the size,
 *                        max_pool2d where the image is not smaller than its window; flatten, and as
 *                        an mlp
 *     transformer        dense, positions, `blocks` of transformer, layer_norm, mean
 *     layers             as they are in the file */
size_t cadre_model_layers(const cadre_job_t *job, cadre_layer_t layers[CADRE_MODEL_LAYERS_MAX]);

#endif
