/*
 * metric - what an evaluation on the held-out rows gives, by name.
 *
 * Owner:   whoever evaluates; plain data.
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_METRIC_H
#define CADRE_COORDINATOR_CLI_TRAIN_METRIC_H

#include <stdbool.h>

/* The metrics: name, word, whether a higher value is the better one. */
#define CADRE_METRIC_LIST(X)                                                                       \
    X(LOSS, loss, false)                                                                           \
    X(ACCURACY, accuracy, true)

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

/* What an evaluation found, by metric; not a number where there is none. */
typedef struct {
    double values[CADRE_METRICS];
} cadre_metrics_t;

/* Returns values none of which is known. */
cadre_metrics_t cadre_metrics_none(void);

/* Returns "test_loss" and so on. */
const char *cadre_metric_text(cadre_metric_t metric);

/* Whether a higher value is the better one. */
bool cadre_metric_is_higher_better(cadre_metric_t metric);

#endif
