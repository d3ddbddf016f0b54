/*
 * result - the result of a training run, as the JSON object that scripts read (cadre.result/v1) and
 * as text.
 *
 * Owner:   the caller; ended with cadre_result_fini.
 * Thread:  one at a time: the trainer's thread fills it and ends before the main thread reads.
 */
#ifndef CADRE_COORDINATOR_CLI_TERMINAL_RESULT_H
#define CADRE_COORDINATOR_CLI_TERMINAL_RESULT_H

#include <cadre/coordinator.h>
#include <jansson.h>

#include "coordinator/cli/terminal/metric.h"

#define CADRE_RESULT_SCHEMA "cadre.result/v1"

enum { CADRE_RESULT_STOPPED_SIZE = 256 }; /* bytes of the text that says why training ended */

typedef struct {
    bool is_known; /* the shard's ps has answered */
    cadre_shard_totals_t totals;
} cadre_result_shard_t;

typedef struct {
    const char *strategy; /* word of the strategy; NULL where no job was read */
    /* Share of held-out rows that are classified correctly; NaN: no classes or no such rows. */
    double accuracy;
    /* Mean over held-out rows, or if there are none over the latest batches; NaN: not known. */
    double loss;
    cadre_metrics_t metrics; /* over held-out rows; `loss` and `accuracy` are among them */
    double *confusion;       /* [classes, classes], a row for each label; NULL: not asked for */
    int classes;
    int64_t test_rows;
    int64_t examples; /* rows of closures that finished, each epoch counted, in the whole job */
    int64_t resumed_examples; /* those of `examples` that were trained on before this run */
    double seconds;           /* duration of this run, from the first closure to the last */
    uint64_t scheduled; /* closures that train, in the whole job; evaluations are not counted */
    uint64_t finished;
    uint64_t attempts;
    size_t shard_count;
    cadre_result_shard_t *shards;
    uint64_t workers_lost;
    uint64_t ps_lost;
    json_t *staleness; /* histogram over this run's closures, as in the status; NULL: not known */
    /* What each table of the model holds, as the object has it; NULL: it has none. */
    json_t *tables;
    char *checkpoint;    /* path of the newest checkpoint; NULL: none */
    const char *stopped; /* why: "epochs", "patience" and so on, a literal; NULL: not known */
    char stopped_text[CADRE_RESULT_STOPPED_SIZE]; /* why in more words, or "" */
    const char *best_metric; /* metric by which the best checkpoint is chosen; NULL: none is kept */
    double best;
    int64_t best_step;     /* how many closures had trained by then */
    char *best_checkpoint; /* or NULL */
} cadre_result_t;

/* Initialises a result of which nothing is known. */
void cadre_result_init(cadre_result_t *self);
void cadre_result_fini(cadre_result_t *self);

/* Returns the JSON object; the caller releases it. Numbers that are not known are null. */
json_t *cadre_result_object(const cadre_result_t *self);

/* Returns the object as one line of text, freed by the caller. */
char *cadre_result_json(const cadre_result_t *self);

/* Returns the result in words, "accuracy 97.21 % and loss 0.0912 on 359 rows held out; ...", freed
 * by the caller. */
char *cadre_result_text(const cadre_result_t *self);

#endif
