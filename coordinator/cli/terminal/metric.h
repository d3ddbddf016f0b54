/*
 * metric - what an evaluation on the held-out rows gives, by name.
 *
 * Owner:   whoever evaluates; plain data.
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COORDINATOR_CLI_TERMINAL_METRIC_H
#define CADRE_COORDINATOR_CLI_TERMINAL_METRIC_H

#include <jansson.h>
#include <stdbool.h>

/* The metrics: name, word, whether a higher value is the better one. */
#define CADRE_METRIC_LIST(X)                                                                       \
    X(LOSS, loss, false)                                                                           \
    X(ACCURACY, accuracy, true)                                                                    \
    X(PRECISION, precision, true)                                                                  \
    X(RECALL, recall, true)                                                                        \
    X(F1, f1, true)                                                                                \
    X(AUC, auc, true)                                                                              \
    X(MAE, mae, false)                                                                             \
    X(RMSE, rmse, false)                                                                           \
    X(TOP_K, top_k_accuracy, true)

typedef enum {
#define X(NAME, word, higher) CADRE_METRIC_##NAME,
    CADRE_METRIC_LIST(X)
#undef X
        CADRE_METRICS,
} cadre_metric_t;

/* As job files and events have them, in the list's order: "test_loss|test_accuracy". */
#define CADRE_METRIC_WORD(NAME, word, higher) "|test_" #word
#define CADRE_METRIC_WORDS                    (&CADRE_METRIC_LIST(CADRE_METRIC_WORD)[1])

/* The same behind "none". */
#define CADRE_METRIC_WORDS_OR_NONE "none" CADRE_METRIC_LIST(CADRE_METRIC_WORD)

/* What an evaluation found, by metric. Zeroed: nothing. */
typedef struct {
    bool known[CADRE_METRICS];
    double values[CADRE_METRICS];
} cadre_metrics_t;

/* Sets a metric; a value that is no number leaves it unknown. */
void cadre_metrics_set(cadre_metrics_t *self, cadre_metric_t metric, double value);

/* Returns the value of a metric; not a number when it is not known. */
double cadre_metrics_value(const cadre_metrics_t *self, cadre_metric_t metric);

/* Returns "test_loss" and so on. */
const char *cadre_metric_text(cadre_metric_t metric);

/* Returns "loss" and so on. */
const char *cadre_metric_word(cadre_metric_t metric);

/* Whether a job has it only where it asks for it: all but loss and accuracy. */
bool cadre_metric_is_extra(cadre_metric_t metric);

/* Returns the extra metrics that are known as an object, by word: {"precision": 0.97}. */
json_t *cadre_metrics_object(const cadre_metrics_t *self);

/* Returns the extra metrics that are known as ", precision 0.9712, f1 0.9698"; freed by the caller.
 */
char *cadre_metrics_words(const cadre_metrics_t *self);

/* Returns a matrix [size, size] of counts as an array of arrays; null for NULL. */
json_t *cadre_confusion_array(const double *counts, int size);

/* Whether a higher value is the better one. */
bool cadre_metric_is_higher_better(cadre_metric_t metric);

#endif
