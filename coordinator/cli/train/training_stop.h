/*
 * training_stop - early stopping and the choice of the best state: conditions on the values that
 * evaluations find, and the record of past evaluations that the conditions need (the watch).
 *
 * Owner:   a trainer; plain data.
 * Thread:  any; the functions keep no state.
 *
 * The watch is stored in the progress record of each checkpoint, so that a resumed run stops where
 * an uninterrupted one would. Whether to stop is not stored but computed from watch and conditions:
 * a run that is resumed with other conditions follows the new ones.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_TRAINING_STOP_H
#define CADRE_COORDINATOR_CLI_TRAIN_TRAINING_STOP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "coordinator/cli/terminal/metric.h"
#include "coordinator/cli/train/training_plateau.h"

/* Why training stopped: name, word in results. NOT: it has not. COMMAND: the user ended it. */
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
    double target;    /* value that ends training: at least this, or at most if lower is better */
    int64_t patience; /* evaluations in a row without an improvement that end training; 0: none */
    double min_delta; /* an improvement is a value that is better by more than this */
} cadre_stop_conditions_t;

/* What evaluations found so far, and how long training took. A struct of zeros is the beginning. */
typedef struct {
    bool has_latest;
    double latest; /* value of the conditions' metric at the last evaluation; 0 unless has_latest */
    bool has_best;
    double best;     /* value of the conditions' metric at the last improvement */
    int64_t without; /* evaluations since the last improvement */
    bool has_kept;
    double kept;                      /* best value of the metric that checkpoint.keep_best names */
    int64_t kept_closures;            /* training closures that had ended at that value */
    int64_t elapsed_ms;               /* time spent on training, all runs of the job together */
    cadre_training_plateau_t plateau; /* when the learning rate was lowered */
} cadre_training_watch_t;

/* Notes the value that an evaluation found for the conditions' metric. NaN is no improvement. */
void cadre_training_watch_note(cadre_training_watch_t *self,
                               const cadre_stop_conditions_t *conditions, double value);

/* Notes the value that an evaluation found, after `closures` training closures, for the metric by
 * which the best checkpoint is chosen. Returns whether the value is the best so far. */
bool cadre_training_watch_keep(cadre_training_watch_t *self, cadre_metric_t metric, double value,
                               int64_t closures);

/* Returns whether evaluations end training: CADRE_STOP_TARGET, CADRE_STOP_PATIENCE, or
 * CADRE_STOP_NOT. */
cadre_stop_t cadre_training_watch_stop(const cadre_training_watch_t *self,
                                       const cadre_stop_conditions_t *conditions);

/* Returns whether there is a target which training could not reach, as none of its evaluations
 * found a value of the metric: it is undefined. */
bool cadre_training_watch_lacks(const cadre_training_watch_t *self,
                                const cadre_stop_conditions_t *conditions);

/* Writes why no evaluation found a better value of the metric, for people: which value was the best
 * (`best`), or, where there never was one (NULL), that the metric is undefined and why. `count`:
 * how many evaluations that were; 0: the text leaves it out. `has_loss`: they did find a loss. */
void cadre_training_describe_rest(cadre_metric_t metric, const double *best, int64_t count,
                                  bool has_loss, char *text, size_t size);

/* Convert the watch to the JSON object that a checkpoint's progress record holds, NULL where all is
 * zero, and back. Decoding fails with CADRE_EMALFORMED when a field is unknown or out of range. */
json_t *cadre_training_watch_encode(const cadre_training_watch_t *self);
int cadre_training_watch_decode(json_t *object, cadre_training_watch_t *out);

/* Returns the word of a reason in results, such as "patience". */
const char *cadre_stop_word(cadre_stop_t stop);

#endif
