/*
 * training - a training loop over the rows of a dataset. Beyond cadre_dataset_train it evaluates,
 * stops early, keeps the best state, and calls a hook as training goes on.
 *
 *     static bool
 *     hook(void *context, const cadre_training_event_t *event)
 *     {
 *         if (event->kind == CADRE_TRAINING_EVALUATION) {
 *             printf("epoch %llu: %g\n", (unsigned long long)event->epoch, event->value);
 *         }
 *         return false;
 *     }
 *
 *     cadre_training_options_t options = cadre_training_options();
 *     options.epochs = 100;
 *     options.evaluation = evaluate;
 *     options.evaluation_rows = held_out;
 *     options.evaluation_result = "correct";
 *     options.is_higher_better = true;
 *     options.patience = 5;
 *     options.hook = hook;
 *     s = cadre_training_run(rows, step, &options, -1, &report);
 *
 * Threads: a hook is called on the thread that called cadre_training_run, between two calls that
 *          the loop makes. The hook may make every call of Cadre except cadre_coordinator_close,
 *          and except cadre_dataset_begin and cadre_dataset_next on the rows that are trained on:
 *          the loop itself iterates over these. While a hook runs no further batch is scheduled;
 *          up to CADRE_TRAINING_AHEAD batches are under way, and go on.
 * Waiting: cadre_training_run joins at the end of each epoch, as cadre_coordinator_join does.
 */
#ifndef CADRE_TRAINING_H
#define CADRE_TRAINING_H

#include <cadre/coordinator.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CADRE_TRAINING_AHEAD = 256 }; /* batches under way where there is a hook or a time limit */

/* When a hook is called. */
typedef enum {
    CADRE_TRAINING_START = 0,      /* before the first batch */
    CADRE_TRAINING_STEP = 1,       /* a batch has ended; sent every `hook_every_steps` batches */
    CADRE_TRAINING_EPOCH = 2,      /* an epoch has ended, and all its updates are on the shards */
    CADRE_TRAINING_EVALUATION = 3, /* after an evaluation, which gave `value` */
    CADRE_TRAINING_CHECKPOINT = 4, /* the loop has taken checkpoint number `checkpoint` */
    CADRE_TRAINING_FAILURE = 5,    /* the run fails with `status` and `text`; the last event */
    CADRE_TRAINING_STOP = 6,       /* the run has ended well, for `reason`; the last event */
} cadre_training_event_kind_t;

/* Why a run has ended. */
typedef enum {
    CADRE_TRAINING_BY_EPOCHS = 0,   /* all epochs are done */
    CADRE_TRAINING_BY_STEPS = 1,    /* `stop_steps` batches are done */
    CADRE_TRAINING_BY_TIME = 2,     /* `stop_ms` have passed */
    CADRE_TRAINING_BY_TARGET = 3,   /* an evaluation reached `target` */
    CADRE_TRAINING_BY_PATIENCE = 4, /* `patience` evaluations without improvement */
    CADRE_TRAINING_BY_HOOK = 5,     /* the hook returned true */
} cadre_training_reason_t;

/* What a hook is called with; the struct lives as long as that call. Later versions of Cadre may
 * add kinds, but no fields. */
typedef struct {
    cadre_training_event_kind_t kind;
    uint64_t epoch; /* epochs that have ended in this run */
    uint64_t step;  /* batches that have ended in this run */
    double seconds; /* seconds since the run began */
    double value;   /* STEP: the first result of the batch, where that has one element; EVALUATION:
                         the value of the evaluation; else NaN */
    bool is_best;   /* EVALUATION: this value is better than all before */
    uint64_t checkpoint;            /* CHECKPOINT: its id; else 0 */
    int status;                     /* FAILURE: the error; else 0 */
    const char *text;               /* FAILURE: the text of the error; else NULL */
    cadre_training_reason_t reason; /* STOP: why the run has ended; else 0 */
} cadre_training_event_t;

/* Called for an event. Returns true to end training: no further batch is scheduled, and batches
 * under way end. The result for FAILURE and STOP is not looked at. */
typedef bool (*cadre_training_hook_t)(void *context, const cadre_training_event_t *event);

/* Options of a run. 0 is the default of every field. */
typedef struct {
    /* sizeof(cadre_training_options_t), as cadre_training_options sets it. */
    size_t size;

    /* Epochs to train. 0: 1. */
    uint64_t epochs;

    /* Number of the first epoch: the order in which rows are shuffled follows from seed and number.
     */
    uint64_t first_epoch;

    /* Rows of a batch. 0: 32. */
    int64_t batch_size;

    /* Batches of an epoch. All rows are then read again and again, each time in another order,
     * without regard to where epochs end. 0: an epoch reads all rows once. */
    uint64_t steps_per_epoch;

    /* Batches after which the run ends, and milliseconds after which it ends. 0: no limit. */
    uint64_t stop_steps;
    int64_t stop_ms;

    /* Called for each event; NULL: no calls. */
    cadre_training_hook_t hook;
    void *hook_context;

    /* Batches between two events of kind STEP. 0: there are no events of kind STEP. */
    uint64_t hook_every_steps;

    /* The function that evaluates, and the rows that it evaluates on; both are given or both are
     * NULL. NULL: no evaluations. */
    const cadre_function_t *evaluation;
    cadre_dataset_t *evaluation_rows;

    /* Which result of `evaluation` counts, one of a single element (NULL: the only or first one).
     * CADRE_REDUCTION_SUM, the default: the result counts rows of the batch, such as correct
     * predictions; the value of an evaluation is the counted share of all rows.
     * CADRE_REDUCTION_MEAN: the result is a mean over the batch, such as the loss; the value of an
     * evaluation is the mean over all rows. */
    const char *evaluation_result;
    cadre_reduction_kind_t evaluation_kind;

    /* Rows of one batch of an evaluation. 0: 256. */
    int64_t evaluation_batch_size;

    /* Epochs between evaluations; the run also ends with one, unless a hook ends it. 0: 1. */
    uint64_t evaluate_every;

    /* Whether a higher value of an evaluation is better (accuracy), or a lower one (loss). */
    bool is_higher_better;

    /* Ends the run when the value of an evaluation is `target` or better. */
    bool has_target;
    double target;

    /* Ends the run after `patience` evaluations in a row without an improvement: a value that is
     * better than that of the last improvement by more than `min_delta`. 0: never ends it so. */
    uint64_t patience;
    double min_delta;

    /* Takes a checkpoint after every so many epochs, and at the end of the run. 0: none. */
    uint64_t checkpoint_every_epochs;

    /* Takes a checkpoint after each evaluation that is the best so far, and marks it as the best
     * (cadre_checkpoint_mark_best), so that it is not removed as older ones are. */
    bool keep_best;
} cadre_training_options_t;

/* Returns options with every default in place, as cadre_coordinator_options does. */
static inline cadre_training_options_t
cadre_training_options(void)
{
    cadre_training_options_t options;
    memset(&options, 0, sizeof(options));
    options.size = sizeof(options);
    return options;
}

/* What a run came to. It cannot grow. */
typedef struct {
    cadre_training_reason_t reason;
    uint64_t epochs;      /* epochs that ended */
    uint64_t steps;       /* batches that ended */
    double seconds;       /* seconds from begin to end */
    double value;         /* value of the last evaluation; NaN without evaluations */
    double best;          /* the best value of all evaluations; NaN without evaluations */
    uint64_t best_step;   /* batches that had ended at the best evaluation */
    uint64_t best_saved;  /* id of the checkpoint of the best state; 0: none was taken */
    uint64_t evaluations; /* how many evaluations there were */
} cadre_training_report_t;

/* Trains: calls `step` for each batch of the rows, shuffled again in each pass, until all epochs
 * are done or another condition of the options ends the run. `report` may be NULL. Batches are
 * closures, scheduled as cadre_dataset_train does it. Evaluations are made when no batch is under
 * way, so a checkpoint of the best state holds exactly what was evaluated. A run that steps or time
 * end in the middle of an epoch is evaluated, too.
 *
 * CADRE_EINVALID: evaluations without function or rows; `target`, `patience` or `keep_best` without
 *   evaluations; a negative size or time.
 * CADRE_ESTATE: `keep_best` or `checkpoint_every_epochs` without a checkpoint directory.
 * CADRE_ETIMEOUT: `timeout_ms` is over; batches that were scheduled go on.
 * Also fails as cadre_dataset_train, cadre_dataset_mean and cadre_checkpoint_save do. */
CADRE_API int cadre_training_run(cadre_dataset_t *rows, const cadre_function_t *step,
                                 const cadre_training_options_t *options, int64_t timeout_ms,
                                 cadre_training_report_t *report);

#ifdef __cplusplus
}
#endif
#endif
