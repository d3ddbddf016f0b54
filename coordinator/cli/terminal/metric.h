/*
 * metric - the metrics that an evaluation on held-out rows can give: names and values.
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
    X(TOP_K, top_k_accuracy, true)                                                                 \
    X(CALIBRATION_ERROR, calibration_error, false)                                                 \
    X(AUC_EXACT, auc_exact, true)

typedef enum {
#define X(NAME, word, higher) CADRE_METRIC_##NAME,
    CADRE_METRIC_LIST(X)
#undef X
        CADRE_METRICS,
} cadre_metric_t;

/* The words of all metrics, as in a usage text: "test_loss|test_accuracy|...". Each word comes with
 * a "|" before it; [1] leaves out the first one. */
#define CADRE_METRIC_WORD(NAME, word, higher) "|test_" #word
#define CADRE_METRIC_WORDS                    (&CADRE_METRIC_LIST(CADRE_METRIC_WORD)[1])

/* The words of all metrics after the word "none": "none|test_loss|...". */
#define CADRE_METRIC_WORDS_OR_NONE "none" CADRE_METRIC_LIST(CADRE_METRIC_WORD)

/* Values that an evaluation found, by metric. A struct of zeros has none. */
typedef struct {
    bool known[CADRE_METRICS];    /* whether there is a value */
    double values[CADRE_METRICS]; /* 0 where there is none */
} cadre_metrics_t;

/* Sets a metric; a value that is infinite or NaN makes it unknown. */
void cadre_metrics_set(cadre_metrics_t *self, cadre_metric_t metric, double value);

/* Returns the value of a metric; NaN when it is unknown. */
double cadre_metrics_value(const cadre_metrics_t *self, cadre_metric_t metric);

/* Returns the word of a metric as in events and job files: "test_loss". */
const char *cadre_metric_text(cadre_metric_t metric);

/* Returns the word of a metric without "test_": "loss". */
const char *cadre_metric_word(cadre_metric_t metric);

/* Returns whether a metric is computed only when the job asks for it: all but loss and accuracy. */
bool cadre_metric_is_extra(cadre_metric_t metric);

/* Returns the known metrics but loss and accuracy as an object: {"precision": 0.97}. */
json_t *cadre_metrics_object(const cadre_metrics_t *self);

/* Returns the known metrics but loss and accuracy as text, ", precision 0.9712, f1 0.9698", freed
 * by the caller. */
char *cadre_metrics_words(const cadre_metrics_t *self);

/* Returns a confusion matrix [size, size] as a JSON array of arrays; JSON null for NULL. */
json_t *cadre_confusion_array(const double *counts, int size);

/* Returns whether a higher value of a metric is better. */
bool cadre_metric_is_higher_better(cadre_metric_t metric);

#endif
