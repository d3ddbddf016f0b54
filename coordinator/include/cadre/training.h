/*
 * training - the loop of a program that trains on the rows of a dataset, with hooks: for what
 * cadre_dataset_train does not do, which is to evaluate, to stop early, to keep the best state and
 * to tell how it goes.
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
 *          the loop makes. It may make every call of Cadre but cadre_coordinator_close, and but
 *          cadre_dataset_begin and cadre_dataset_next on the rows that are trained on, whose place
 *          is the loop's. While it runs no further batch is scheduled; up to
 *          CADRE_TRAINING_AHEAD are under way, and go on.
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
    CADRE_TRAINING_STEP = 1,       /* batch number `step` has ended; every `hook_every_steps` */
    CADRE_TRAINING_EPOCH = 2,      /* an epoch has ended, and all its updates are on the shards */
    CADRE_TRAINING_EVALUATION = 3, /* after an evaluation, which gave `value` */
    CADRE_TRAINING_CHECKPOINT = 4, /* the loop has taken checkpoint number `checkpoint` */
    CADRE_TRAINING_FAILURE = 5,    /* the run fails with `status` and `text`; the last event */
    CADRE_TRAINING_STOP = 6,       /* the run has ended well, for `reason`; the last event */
} cadre_training_event_kind_t;

/* Why a run has ended. */
typedef enum {
    CADRE_TRAINING_BY_EPOCHS = 0, /* all epochs are done */
    CADRE_TRAINING_BY_STEPS = 1,
    CADRE_TRAINING_BY_TIME = 2,
    CADRE_TRAINING_BY_TARGET = 3,
    CADRE_TRAINING_BY_PATIENCE = 4,
    CADRE_TRAINING_BY_HOOK = 5, /* a hook said so */
} cadre_training_reason_t;

/* What a hook gets; it lives as long as the call. It cannot grow: `kind` can. */
typedef struct {
    cadre_training_event_kind_t kind;
    uint64_t epoch; /* epochs that have ended, */
    uint64_t step;  /* and batches, in this run */
    double seconds; /* since the run began */
    double value;   /* STEP: the first result of that batch, where it has one element; EVALUATION:
                         what was found; else not a number */
    bool is_best;   /* EVALUATION: no value before was better */
    uint64_t checkpoint;
    int status;
    const char *text;
    cadre_training_reason_t reason;
} cadre_training_event_t;

/* Returns whether training shall end, which START, STEP, EPOCH, EVALUATION and CHECKPOINT take
 * note of: no further batch is scheduled, what is under way ends. */
typedef bool (*cadre_training_hook_t)(void *context, const cadre_training_event_t *event);

/* Options of a run. 0 is the default of every field. */
typedef struct {
    /* sizeof(cadre_training_options_t), as cadre_training_options sets it. */
    size_t size;

    /* Epochs to train, and the number of the first, from which the order of its rows follows. 0: 1
     * epoch. */
    uint64_t epochs;
    uint64_t first_epoch;

    /* Rows of a batch. 0: 32. */
    int64_t batch_size;

    /* Batches of an epoch: the rows are then gone through again and again, each time in another
     * order, without regard to epochs. 0: the batches of all rows. */
    uint64_t steps_per_epoch;

    /* Batches, and milliseconds, after which the run ends. 0: no limit. */
    uint64_t stop_steps;
    int64_t stop_ms;

    /* Called for each event; NULL: no calls. */
    cadre_training_hook_t hook;
    void *hook_context;

    /* Batches between two events of kind STEP. 0: none of these. */
    uint64_t hook_every_steps;

    /* The function that evaluates, and the rows that it does that on. NULL: no evaluations. */
    const cadre_function_t *evaluation;
    cadre_dataset_t *evaluation_rows;

    /* The result of `evaluation` that is looked at (NULL: the only one, or the first). It has one
     * element. CADRE_REDUCTION_SUM, the default: a count of rows, such as of those that are right;
     * the value of an evaluation is its share of all rows. CADRE_REDUCTION_MEAN: a mean over the
     * batch, such as the loss; the value is the mean over all rows. */
    const char *evaluation_result;
    cadre_reduction_kind_t evaluation_kind;

    /* Rows of one batch of an evaluation. 0: 256. */
    int64_t evaluation_batch_size;

    /* Epochs between evaluations; there is one at the end in any case. 0: 1. */
    uint64_t evaluate_every;

    /* Whether a higher value is a better one. */
    bool is_higher_better;

    /* Ends the run when an evaluation is at least as good as `target`. */
    bool has_target;
    double target;

    /* Ends the run after so many evaluations in a row that were not better than the best before by
     * more than `min_delta`. 0: any number. */
    uint64_t patience;
    double min_delta;

    /* Takes a checkpoint after every so many epochs. 0: none. */
    uint64_t checkpoint_every_epochs;

    /* Takes a checkpoint of each state that is the best so far, which stays
     * (cadre_checkpoint_mark_best). */
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
    uint64_t epochs; /* that ended, */
    uint64_t steps;  /* and batches */
    double seconds;
    double value;         /* of the last evaluation; not a number without one, like the next */
    double best;          /* of all evaluations of the run */
    uint64_t best_step;   /* batches before it */
    uint64_t best_saved;  /* its checkpoint; 0: none was taken */
    uint64_t evaluations; /* how many there were */
} cadre_training_report_t;

/* Trains: calls `step` for each batch of the rows, shuffled again in each pass, until the epochs or
 * another condition of the options end it. `report` may be NULL. Batches are scheduled as
 * cadre_dataset_train does it, and may run again elsewhere as any closure; evaluations are made
 * when nothing is under way, so a checkpoint of the best state holds exactly what was evaluated.
 * Ends by steps or time in the middle of an epoch with an evaluation, too.
 *
 * CADRE_EINVALID: evaluations without function or rows; `target`, `patience` or `keep_best` without
 *   evaluations; a negative size or time.
 * CADRE_ESTATE: `keep_best` or `checkpoint_every_epochs` without a checkpoint directory.
 * CADRE_ETIMEOUT: `timeout_ms` is over; what was scheduled goes on.
 * Else as cadre_dataset_train, cadre_dataset_mean and cadre_checkpoint_save. */
CADRE_API int cadre_training_run(cadre_dataset_t *rows, const cadre_function_t *step,
                                 const cadre_training_options_t *options, int64_t timeout_ms,
                                 cadre_training_report_t *report);

#ifdef __cplusplus
}
#endif
#endif
