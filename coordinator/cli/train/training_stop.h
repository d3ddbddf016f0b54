/*
 * training_stop - when a training run ends before its epochs do, and which of its states is the
 * best: conditions on what evaluations find, and what must be remembered for them.
 *
 * Owner:   a trainer; plain data.
 * Thread:  any; the functions keep no state.
 *
 * What is remembered (the watch) stands in the progress record of each checkpoint, so that a run
 * that is resumed stops where one that was never interrupted does. Whether it stops is computed
 * from the conditions each time: a job file with other conditions goes on, or stops, by these.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_TRAINING_STOP_H
#define CADRE_COORDINATOR_CLI_TRAIN_TRAINING_STOP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "coordinator/cli/terminal/metric.h"

/* Why training stopped: name, word in results. */
#define CADRE_STOP_LIST(X)                                                                         \
    X(NOT, "")                                                                                     \
    X(EPOCHS, "epochs")                                                                            \
    X(STEPS, "steps")                                                                              \
    X(SECONDS, "seconds")                                                                          \
    X(TARGET, "target")                                                                            \
    X(PATIENCE, "patience")                                                                        \
    X(COMMAND, "command")                                                                          \
    X(FAILURE, "failure")

typedef enum {
#define X(NAME, word) CADRE_STOP_##NAME,
    CADRE_STOP_LIST(X)
#undef X
} cadre_stop_t;

/* The conditions on one metric. */
typedef struct {
    cadre_metric_t metric;
    bool has_target;
    double target;    /* at least it, or at most where lower is better */
    int64_t patience; /* evaluations in a row without an improvement; 0: any number */
    double min_delta; /* what is no more than this is no improvement */
} cadre_stop_conditions_t;

/* What the evaluations so far found, and how long training took. Zeroed: there were none. */
typedef struct {
    bool has_latest;
    double latest; /* of the conditions' metric, at the last evaluation that gave a number */
    bool has_best;
    double best;     /* of it, by more than min_delta */
    int64_t without; /* evaluations since, without an improvement */
    bool has_kept;
    double kept;           /* the best value of checkpoint.keep_best's metric, */
    int64_t kept_closures; /* and after how many closures that train */
    int64_t elapsed_ms;    /* of training, all runs of the job together */
} cadre_training_watch_t;

/* Notes what an evaluation found for the conditions' metric. A value that is no number is no
 * improvement. */
void cadre_training_watch_note(cadre_training_watch_t *self,
                               const cadre_stop_conditions_t *conditions, double value);

/* Notes what an evaluation after `closures` closures found for the metric by which the best
 * checkpoint is kept; returns whether it is the best so far. */
bool cadre_training_watch_keep(cadre_training_watch_t *self, cadre_metric_t metric, double value,
                               int64_t closures);

/* Returns CADRE_STOP_TARGET, CADRE_STOP_PATIENCE, or CADRE_STOP_NOT. */
cadre_stop_t cadre_training_watch_stop(const cadre_training_watch_t *self,
                                       const cadre_stop_conditions_t *conditions);

/* As a checkpoint's progress record has it: NULL where there is nothing to remember, and back from
 * an object of that record. CADRE_EMALFORMED. */
json_t *cadre_training_watch_encode(const cadre_training_watch_t *self);
int cadre_training_watch_decode(json_t *object, cadre_training_watch_t *out);

/* Returns the word of a reason. */
const char *cadre_stop_word(cadre_stop_t stop);

#endif
