/*
 * job - the settings of one job that `cadre run` or `cadre train` runs: defaults, overridden by a
 * job file, that by the environment, and that by flags.
 *
 * Owner:   the caller; ended with cadre_job_fini.
 * Thread:  one at a time while it is being set; then any number may read it.
 *
 * Every setting that is one plain value stands in one table (job.c), with its place in the file,
 * environment variable, type, range and default. Data, layers and optimizer parameters are read by
 * job_file.c and job_model.c.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_JOB_H
#define CADRE_COORDINATOR_CLI_TRAIN_JOB_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/spec/optimizer_spec.h"
#include "coordinator/cli/train/layer.h"
#include "coordinator/cli/train/training_stop.h"

enum {
    CADRE_JOB_HIDDEN_MAX = 32,         /* hidden layers */
    CADRE_JOB_FILTERS_MAX = 16,        /* convolutions of a cnn */
    CADRE_JOB_BLOCKS_MAX = 16,         /* blocks of a transformer */
    CADRE_JOB_LAYERS_MAX = 64,         /* layers of a list */
    CADRE_JOB_INPUT_RANK_MAX = 3,      /* axes of one row */
    CADRE_JOB_SETTINGS_MAX = 96,       /* of the table in job.c */
    CADRE_JOB_DEVICES_SIZE_MAX = 4095, /* characters of a list of devices */
    CADRE_JOB_RESTARTS_UNLIMITED = -1, /* "unlimited" */
    CADRE_JOB_LOCAL_STEPS_MAX = 1024,  /* local steps of one closure, if its program has room */
    CADRE_JOB_STEPS_MAX = 1000000000,  /* closures of an epoch, and of a limit for the job */
    CADRE_JOB_SECONDS_MAX = 31536000,  /* a year */
};

/* Seconds: the shortest time of a setting that is not 0. Times are counted in milliseconds; a
 * shorter one would be taken for none. */
#define CADRE_JOB_SECONDS_MIN 0.001

/* The types of models: name, word in job files. */
#define CADRE_MODEL_LIST(X)                                                                        \
    X(MLP, mlp)                                                                                    \
    X(LOGISTIC, logistic)                                                                          \
    X(LINEAR, linear)                                                                              \
    X(CNN, cnn)                                                                                    \
    X(TRANSFORMER, transformer)                                                                    \
    X(LAYERS, layers)                                                                              \
    X(FACTORIZATION_MACHINE, factorization_machine)

typedef enum {
#define X(NAME, word) CADRE_MODEL_##NAME,
    CADRE_MODEL_LIST(X)
#undef X
} cadre_model_type_t;

/* The words in the list's order: "mlp|logistic". */
#define CADRE_MODEL_WORDS CADRE_LIST_WORDS(CADRE_MODEL_LIST)

/* The kind of label, which decides the loss: a class (softmax cross entropy), one of two classes
 * (sigmoid cross entropy), or a number (mean squared error). */
typedef enum {
    CADRE_JOB_CLASS = 0,
    CADRE_JOB_BINARY,
    CADRE_JOB_VALUE,
} cadre_job_label_t;

typedef enum {
    CADRE_JOB_PARTITION_FIXED = 0,
    CADRE_JOB_PARTITION_MIN_BYTES,
    CADRE_JOB_PARTITION_MAX_BYTES,
} cadre_job_partition_t;

/* What the ps and workers of `cadre run` are: threads of its own process, or processes. AUTO is
 * resolved by cadre_host_devices_place. */
typedef enum {
    CADRE_JOB_TASKS_AUTO = 0,
    CADRE_JOB_TASKS_THREADS,
    CADRE_JOB_TASKS_PROCESSES,
} cadre_job_tasks_t;

/* Where a setting's value is from; a later one wins. */
typedef enum {
    CADRE_ORIGIN_DEFAULT = 0,
    CADRE_ORIGIN_STRATEGY,    /* what the job's strategy says (job_strategy.h) */
    CADRE_ORIGIN_CONSISTENCY, /* what its consistency says: of a lost ps */
    CADRE_ORIGIN_FILE,
    CADRE_ORIGIN_ENVIRONMENT,
    CADRE_ORIGIN_FLAG,
} cadre_origin_t;

typedef struct {
    char *file;   /* the job file as given */
    char *folder; /* folder of that file */
    /* Where each setting's value is from, by its position in the table. */
    cadre_origin_t origins[CADRE_JOB_SETTINGS_MAX];

    char *name;
    int64_t seed; /* 0: chosen at the start */
    char *data_dir;
    json_t *train; /* dataset description of the rows to train on, path as in the file */
    /* Dataset description of the test rows; NULL with a fraction or without held-out rows. */
    json_t *test;
    double test_fraction; /* part of the training rows that is held out at random; 0: none */
    int64_t test_seed;    /* seed of drawing `test_fraction`; 0: the default of datasets */
    cadre_job_label_t label;

    int64_t model; /* cadre_model_type_t */
    int64_t hidden[CADRE_JOB_HIDDEN_MAX];
    size_t hidden_count;
    /* Shape of one row; with input_rank 0 a row is a plain list of features. */
    int64_t input[CADRE_JOB_INPUT_RANK_MAX];
    size_t input_rank;
    int64_t filters[CADRE_JOB_FILTERS_MAX]; /* filters of each convolution of a cnn */
    size_t filter_count;
    int64_t kernel;  /* kernel size of the convolutions */
    int64_t width;   /* of a transformer */
    int64_t heads;   /* attention heads of each block of a transformer; must divide `width` */
    int64_t blocks;  /* number of blocks of a transformer */
    int64_t ids;     /* ids in rows of items are below it; 0: rows are fields or plain numbers */
    bool keys;       /* ids of a model over a table are keys of 64 bits */
    int64_t factors; /* of a factorization machine */
    int64_t softmax; /* cadre_softmax_t, of classes (candidates.h) */
    bool linear;     /* a factorization machine has the linear model of its items */
    cadre_layer_t lookup; /* of a model over items: its ids or fields, and as units its factors */
    int64_t activation;   /* cadre_activation_t */
    cadre_layer_t layers[CADRE_JOB_LAYERS_MAX];
    size_t layer_count;
    json_t *layer_list;   /* "layers" as the file has it; NULL when the file has none */
    json_t *lookup_table; /* "table" of the model as the file has it; NULL: none */
    double dropout;
    double l1;
    double l2;
    /* dtype of messages for variables of layers without their own "wire": position in
     * CADRE_WIRE_DTYPE_LIST. */
    int64_t wire;

    char *optimizer;
    json_t *optimizer_parameters;          /* object of parameters in the file; may be empty */
    cadre_optimizer_spec_t optimizer_spec; /* the optimizer with these parameters */
    int64_t scale_with;                    /* cadre_scale_t */
    int64_t base_batch_size;               /* rows that the learning rate is for; 0: batch_size */
    double clip_value;                     /* bound on each element of a gradient; 0: none */
    double clip_norm;                      /* bound on the norm of each gradient; 0: none */
    bool lazy;                             /* rows that nothing looks up rest */
    bool use_ema;                          /* whether ps keep running averages of variables */
    double ema_momentum;
    int64_t ema_overwrite_frequency; /* in updates; 0: never */
    double global_clip_norm;         /* bound on the norm of all gradients together; 0: none */

    int64_t local_steps;               /* steps of the inner optimizer in one closure */
    char *inner;                       /* NULL: "optimizer" is the inner one (job_local.h) */
    cadre_optimizer_spec_t inner_spec; /* the optimizer `inner` with its parameters */

    int64_t epochs;
    int64_t batch_size; /* rows of one step */
    char *history;      /* file of the history; NULL: none is written */
    bool shuffle;
    bool drop_last;
    double target_accuracy;    /* 0: none */
    int64_t consistency;       /* cadre_consistency_t */
    int64_t step_closures;     /* closures in one synchronous step */
    int64_t staleness_bound;   /* in closures */
    double delay_compensation; /* lambda; 0: none */
    bool evaluate_average;     /* evaluations use the running averages */
    int64_t evaluate_every;    /* epochs; 0: only at the end */
    int64_t evaluation_batch_size;
    int64_t steps_per_epoch;      /* closures; 0: those of a pass over the rows */
    int64_t stop_steps;           /* closures that train, in the whole job; 0: any number */
    double stop_seconds;          /* limit for training, all runs of the job together; 0: none */
    double stop_at_least;         /* value of the metric that ends training; read it from `stop` */
    double stop_at_most;          /* as stop_at_least, for a metric of which lower is better */
    int64_t stop_metric;          /* cadre_metric_t */
    int64_t stop_patience;        /* evaluations without an improvement; 0: any number */
    double stop_min_delta;        /* least difference that is an improvement */
    bool metrics[CADRE_METRICS];  /* which metrics besides loss and accuracy are computed */
    bool confusion_matrix;        /* whether the result holds the confusion matrix */
    int64_t top_k;                /* k of CADRE_METRIC_TOP_K */
    cadre_stop_conditions_t stop; /* made of the stop_ settings by cadre_job_finish */
    int64_t plateau_metric;       /* cadre_metric_t */
    int64_t plateau_patience;     /* evaluations without an improvement; 0: the rate stays */
    double plateau_min_delta;     /* least difference that is an improvement */
    double plateau_factor;        /* the rate is multiplied by this */
    double plateau_min_rate;      /* and is not lowered below this */

    int64_t strategy; /* place in CADRE_STRATEGY_LIST; see cadre_job_strategy */
    /* The settings of the file that the strategy replaces, as "cluster.ps 2, cluster.workers 2";
     * NULL: none. */
    char *overruled;

    int64_t tasks; /* cadre_job_tasks_t; see cadre_job_is_in_one_process */
    int64_t ps;
    int64_t workers;
    int64_t slots;
    int64_t threads;     /* of a worker; 0: its share of the CPUs of this machine */
    int64_t row_cache;   /* MiB of a worker for rows of tables; 0: it keeps none */
    int64_t ps_lanes;    /* 0: half of the CPUs */
    char *device;        /* devices of the workers in turn: a list (device_list.h) */
    int64_t math;        /* position in CADRE_MATH_WORDS */
    char *trace;         /* folder for the workers' traces; NULL: none are written */
    int64_t partitioner; /* cadre_job_partition_t */
    int64_t partitions;  /* 0: as many as there are ps */
    int64_t partition_bytes;
    int64_t placement;         /* 0: by bytes, 1: round-robin */
    int64_t max_restarts;      /* CADRE_JOB_RESTARTS_UNLIMITED for no limit */
    int64_t recovery;          /* cadre_recovery_t: of a ps that was lost */
    double ps_timeout_s;       /* how long a lost ps has to come back */
    double closure_deadline_s; /* how long one attempt may run; 0: any time */
    int64_t backup_attempts;   /* most backup attempts at a time; 0: none */
    bool client_closures;      /* clients may schedule closures */
    int64_t shard_timeout_s;   /* how long a ps may leave a worker without an answer; 0: any time */
    double wait_s;             /* how long the start waits for ps and a worker */

    char *checkpoint_dir; /* NULL until cadre_job_finish; "none": see cadre_job_checkpoints */
    double checkpoint_every_s;
    int64_t checkpoint_every_steps;  /* closures between checkpoints; 0: none by their number */
    int64_t checkpoint_every_epochs; /* 0: none at the ends of epochs */
    int64_t checkpoint_full_every;   /* of tables: one of so many is full */
    int64_t checkpoint_keep;
    int64_t checkpoint_keep_best; /* metric that says which is the best, plus 1; 0: none is kept */
    char *resume;
} cadre_job_t;

typedef enum {
    CADRE_SETTING_INTEGER,
    CADRE_SETTING_NUMBER,
    CADRE_SETTING_SWITCH,
    CADRE_SETTING_TEXT,
    CADRE_SETTING_DEVICE, /* a text that cadre_device_list_check takes */
    CADRE_SETTING_CHOICE, /* an int64_t: position in `choices` */
} cadre_setting_kind_t;

typedef struct {
    const char *name;        /* "training.epochs": section and key in the file */
    const char *environment; /* "CADRE_EPOCHS", or NULL */
    cadre_setting_kind_t kind;
    double low; /* smallest value allowed, or shortest text */
    double high;
    const char *choices; /* "relu|tanh" */
    const char *initial; /* default value as text; NULL: none */
    size_t offset;       /* of the setting's member in cadre_job_t */
} cadre_setting_t;

/* Returns the table of all plain settings, with its number of rows. */
const cadre_setting_t *cadre_job_settings(size_t *count);

/* Fills in a job with every setting at its default. */
void cadre_job_init(cadre_job_t *self);

/* Frees what the job holds; does nothing for a zeroed struct. */
void cadre_job_fini(cadre_job_t *self);

/* Sets one setting from text. `from` names the place of the text in messages, such as "--epochs".
 * CADRE_EINVALID for a value of the wrong type or out of range, and for a name that no setting
 * has. */
int cadre_job_set(cadre_job_t *self, const char *name, const char *text, cadre_origin_t origin,
                  const char *from);

/* Sets one setting from JSON; CADRE_EINVALID for a wrong value, and the caller adds the place in
 * the file to its text. */
int cadre_job_set_json(cadre_job_t *self, const cadre_setting_t *setting, const json_t *value);

/* Sets every setting whose environment variable is set. */
int cadre_job_set_environment(cadre_job_t *self);

/* Fills in what follows from other settings (the checkpoint directory from the name) and checks
 * settings against each other; call it after all were set. CADRE_ECONFIG when they do not go
 * together. */
int cadre_job_finish(cadre_job_t *self);

/* Sets which metrics the evaluations of a finished job find: none where it holds out no rows. */
void cadre_job_metrics(const cadre_job_t *self, bool found[CADRE_METRICS]);

/* Returns when the learning rate of a finished job is lowered. */
cadre_plateau_conditions_t cadre_job_plateau(const cadre_job_t *self);

/* Returns whether evaluations count a confusion matrix, from which several metrics are computed. */
bool cadre_job_counts_confusion(const cadre_job_t *self);

/* Returns whether evaluations count the rows above each of many scores, for the AUC and the
 * calibration error. */
bool cadre_job_counts_scores(const cadre_job_t *self);

/* Returns whether an evaluation may change what comes next: end training, take a checkpoint, or
 * lower the learning rate. */
bool cadre_job_watches(const cadre_job_t *self);

/* Returns the folder of the checkpoints of a finished job; NULL when none are taken. */
const char *cadre_job_checkpoints(const cadre_job_t *self);

/* Checks that the checkpoints of a finished job would not go into a file. CADRE_EIO. */
int cadre_job_check_checkpoints(const cadre_job_t *self);

/* Returns the value of a setting as text, "" where it has none; freed by the caller. */
char *cadre_job_text(const cadre_job_t *self, const cadre_setting_t *setting);

/* Returns where the value of setting `name` is from, for messages: "--FLAG" (`flag` without "--"),
 * "CADRE_TRACE" or "job.json: cluster.trace"; just `name` for a default. Freed by the caller. */
char *cadre_job_place(const cadre_job_t *self, const char *name, const char *flag);

/* Returns "default", "strategy", "consistency", "file", "environment" or "flag". */
const char *cadre_origin_text(cadre_origin_t origin);

/* Writes word number `position` of a `choices` list ("relu|tanh") into `text`, "?" when it has no
 * such word; returns `text`. */
const char *cadre_choice_text(const char *choices, int64_t position, char *text, size_t size_bytes);

#endif
