#include "coordinator/cli/train/model_layers.h"

#include <string.h>

#include "common/base/assert.h"

_Static_assert(2 * CADRE_JOB_FILTERS_MAX + 1 + 2 * CADRE_JOB_HIDDEN_MAX <= CADRE_MODEL_LAYERS_MAX,
               "a cnn fits");
_Static_assert((int)CADRE_JOB_LAYERS_MAX <= (int)CADRE_MODEL_LAYERS_MAX, "a list fits");
_Static_assert(CADRE_JOB_BLOCKS_MAX + 4 <= CADRE_MODEL_LAYERS_MAX, "a transformer fits");

typedef struct {
    cadre_layer_t *layers;
    size_t count;
} list_t;

/* Adds a layer of the type, with the defaults of its keys, and returns it. */
static cadre_layer_t *
add(list_t *list, cadre_layer_type_t type)
{
    cadre_assert(list->count < CADRE_MODEL_LAYERS_MAX);
    cadre_layer_t *layer = &list->layers[list->count++];
    *layer = cadre_layer_of(type);
    return layer;
}

/* Adds the hidden layers of an mlp: dense, each with a dropout behind it if the job has any. */
static void
add_hidden(list_t *list, const cadre_job_t *job)
{
    for (size_t i = 0; i < job->hidden_count; i++) {
        cadre_layer_t *layer = add(list, CADRE_LAYER_DENSE);
        layer->units = job->hidden[i];
        layer->activation = job->activation;
        if (job->dropout > 0) {
            add(list, CADRE_LAYER_DROPOUT)->rate = job->dropout;
        }
    }
}

/* Adds the convolutions of a cnn, each with a pooling that halves the image while that is larger
 * than one pixel, then a flatten. */
static void
add_convolutions(list_t *list, const cadre_job_t *job)
{
    int64_t height = job->input[0];
    int64_t width = job->input[1];
    int64_t padding = (job->kernel - 1) / 2;

    for (size_t i = 0; i < job->filter_count; i++) {
        cadre_layer_t *layer = add(list, CADRE_LAYER_CONV2D);
        layer->units = job->filters[i];
        layer->size = job->kernel;
        layer->padding = padding;
        layer->activation = job->activation;
        height += 2 * padding - job->kernel + 1;
        width += 2 * padding - job->kernel + 1;
        if (height > 1 && width > 1) {
            add(list, CADRE_LAYER_MAX_POOL2D);
            height /= 2;
            width /= 2;
        }
    }

    add(list, CADRE_LAYER_FLATTEN);
}

/* Adds the layers of a transformer: a dense one that gives each position the model's width, learned
 * positions, the blocks, and the mean over all positions. */
static void
add_blocks(list_t *list, const cadre_job_t *job)
{
    add(list, CADRE_LAYER_DENSE)->units = job->width;
    add(list, CADRE_LAYER_POSITIONS);
    for (int64_t i = 0; i < job->blocks; i++) {
        cadre_layer_t *layer = add(list, CADRE_LAYER_TRANSFORMER);
        layer->heads = job->heads;
        layer->rate = job->dropout;
    }
    add(list, CADRE_LAYER_LAYER_NORM);
    add(list, CADRE_LAYER_MEAN);
}

/* Writes the layers of the job's model, but for the last, dense one, and returns how many there
 * are. */
size_t
cadre_model_layers(const cadre_job_t *job, cadre_layer_t layers[CADRE_MODEL_LAYERS_MAX])
{
    list_t list = {.layers = layers};
    switch ((cadre_model_type_t)job->model) {
    case CADRE_MODEL_LINEAR:
    case CADRE_MODEL_LOGISTIC:
    case CADRE_MODEL_FACTORIZATION_MACHINE:
        break;
    case CADRE_MODEL_MLP:
        add_hidden(&list, job);
        break;
    case CADRE_MODEL_CNN:
        add_convolutions(&list, job);
        add_hidden(&list, job);
        break;
    case CADRE_MODEL_TRANSFORMER:
        add_blocks(&list, job);
        break;
    case CADRE_MODEL_LAYERS:
        memcpy(layers, job->layers, job->layer_count * sizeof(*layers));
        list.count = job->layer_count;
        break;
    }

    return list.count;
}
