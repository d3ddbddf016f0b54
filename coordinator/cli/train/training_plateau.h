/*
 * training_plateau - lowers the learning rate when the metric of evaluations does not improve any
 * more, as ReduceLROnPlateau of Keras does.
 *
 * Owner:   a trainer; plain data.
 * Thread:  any; the functions keep no state.
 *
 * What happened so far is stored in the progress record of each checkpoint, as a part of the watch
 * (training_stop.h): each change of the rate with the number of updates after which it came. A run
 * that resumes makes these changes again (cadre_variable_change_rate).
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_TRAINING_PLATEAU_H
#define CADRE_COORDINATOR_CLI_TRAIN_TRAINING_PLATEAU_H

#include <cadre/optimizer.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "coordinator/cli/terminal/metric.h"

/* When the rate is lowered, and how far. */
typedef struct {
    cadre_metric_t metric;
    int64_t
        patience; /* evaluations in a row without an improvement; 0: the rate is never lowered */
    double min_delta; /* an improvement is a value that is better by more than this */
    double factor;    /* the rate is multiplied by this */
    double min_rate;  /* the rate is not lowered below this */
} cadre_plateau_conditions_t;

/* A struct of zeros is the beginning. */
typedef struct {
    bool has_best;
    double best;     /* value of the metric at the last improvement */
    int64_t without; /* evaluations since the last improvement, or since the rate was lowered */
    int64_t changes; /* how often the rate was lowered */
    double updates[CADRE_SCHEDULE_BOUNDARIES_MAX]; /* of each variable before each change */
    double rates[CADRE_SCHEDULE_BOUNDARIES_MAX];   /* the rate from then on */
} cadre_training_plateau_t;

/* Notes the value that an evaluation found after `updates` updates. Lowers the rate if there was no
 * improvement for so long, from `initial` at first; returns whether it did: the last change is then
 * a new one. NaN is no improvement. */
bool cadre_training_plateau_note(cadre_training_plateau_t *self,
                                 const cadre_plateau_conditions_t *conditions, double initial,
                                 double value, uint64_t updates);

/* Convert it to a JSON object, NULL where all is zero, and back. Decoding fails with
 * CADRE_EMALFORMED when a field is unknown or out of range. */
json_t *cadre_training_plateau_encode(const cadre_training_plateau_t *self);
int cadre_training_plateau_decode(json_t *object, cadre_training_plateau_t *out);

#endif
