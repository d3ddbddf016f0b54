/*
 * variable - tensors that the ps keep: created, read, assigned and dropped by the coordinator,
 * changed by the updates that closures push.
 *
 *     cadre_variable_options_t options = cadre_variable_options();
 *     options.initializer = cadre_initializer(CADRE_INITIALIZER_GLOROT_UNIFORM);
 *     options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADAM);
 *     options.optimizer.learning_rate = 0.003;
 *     const int64_t shape[] = {64, 10};
 *     s = cadre_variable_create(job, "weight", CADRE_F32, shape, 2, &options, &weight);
 *
 * Names, errors, waiting and threads are as <cadre/coordinator.h> says, which includes this header.
 */
#ifndef CADRE_VARIABLE_H
#define CADRE_VARIABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cadre/optimizer.h>
#include <cadre/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cadre_coordinator cadre_coordinator_t; /* the caller's: cadre_coordinator_close */
typedef struct cadre_variable cadre_variable_t; /* its coordinator's, until dropped or closed */

/* How a variable is cut along axis 0, into at most 65,536 parts and never more than it has rows. */
typedef enum {
    CADRE_PARTITION_MIN_BYTES = 0, /* parts of at least `bytes`, at most `max_partitions` */
    CADRE_PARTITION_FIXED = 1,     /* `count` parts */
    CADRE_PARTITION_MAX_BYTES = 2, /* parts of at most `bytes`, at most `max_partitions` */
    CADRE_PARTITION_GIVEN = 3,     /* `parts`: one number per axis, which is 1 for all but axis 0 */
} cadre_partitioner_t;

enum { CADRE_PARTITION_BYTES = 262144 };

/* Options of a variable. 0 is the default of every field, optimizer and initializer included. */
typedef struct {
    /* sizeof(cadre_variable_options_t), as cadre_variable_options sets it. */
    size_t size;

    /* The initial values of the variable. Default: zeros. */
    cadre_initializer_t initializer;

    /* Seed of random initial values. 0: from the job's seed and the variable's name. */
    uint64_t seed;

    /* How gradients change the variable. Default: sgd with learning rate 0.01. */
    cadre_optimizer_t optimizer;

    /* How the variable is cut. Default, as in job files: CADRE_PARTITION_MIN_BYTES. */
    cadre_partitioner_t partitioner;

    /* How many parts of CADRE_PARTITION_FIXED. 0: as many as there are ps. */
    int count;

    /* How large parts of MIN_BYTES and MAX_BYTES are. 0: CADRE_PARTITION_BYTES. */
    int64_t bytes;

    /* The most parts of MIN_BYTES and MAX_BYTES. 0: as many as there are ps. */
    int max_partitions;

    /* [part_count] for CADRE_PARTITION_GIVEN. */
    const int64_t *parts;
    int part_count;

    /* Places this variable, without cutting it, on the shard that has the first part of another
     * one. NULL: it is placed by itself. */
    const cadre_variable_t *colocate_with;

    /* Type of its values and gradients between workers and ps: CADRE_BF16 halves the bytes of an
     * f32 variable: each value and gradient is rounded to 8 significant bits when it is sent. The
     * ps keeps, updates and saves the variable in f32, and this program reads and assigns it in
     * f32. 0: the variable's own type. */
    cadre_dtype_t wire;

    /* How long its creation may take, as in other calls; -1: without limit. 0: as long as no ps is
     * away for ps_timeout_ms of the coordinator's options. */
    int64_t timeout_ms;

    /* Whether the variable is placed on shard `shard` (its ps), below `ps_count`, without being
     * cut. A job that resumes, with another `shard` or without, reads it where it is then. */
    bool is_pinned;
    int shard;

    /* How the optimizer's learning rate changes with its updates. Default: it stays. A job that is
     * resumed uses the schedule it now has, from the number of updates that the checkpoint has. */
    cadre_schedule_t schedule;

    /* Limits each element of a gradient to -clip_value and clip_value before the optimizer sees it
     * (Keras' clipvalue); with CADRE_SYNC each element of the mean of a step's gradients. Not for
     * the optimizer add. 0: no limit. Norms are limited before gradients are pushed:
     * cadre_op_clip_by_norm and cadre_op_clip_by_global_norm. */
    double clip_value;

    /* Above 0 and below 1: the ps keeps a running average of the values, which must be f32, as
     * Keras' use_ema and ema_momentum; it takes as much memory as the values. After the first
     * update the average is the values; each further update makes it average_momentum times itself
     * plus 1 - average_momentum times the values. cadre_variable_read_average reads it. 0: there is
     * none. */
    double average_momentum;

    /* Updates after which the values become their average (Keras' ema_overwrite_frequency). 0:
     * never. */
    uint32_t average_overwrite;

    /* Compensates a gradient g for what others have changed between the pull that it was computed
     * from and its update: g + delay_compensation * g * g * (now - pulled), element by element,
     * before clip_value (Zheng and others 2017, DC-ASGD). The ps keeps the values of the last 16
     * versions that workers pulled, which count in its memory as if all of them had changed; an
     * older gradient is applied as it came, and so is one from before an assignment or from before
     * the ps was restored. From 0 to 1e6; not for CADRE_SYNC, where no gradient is late, nor for
     * the optimizer add. What a closure of several local steps pushes is no gradient: it is not
     * meant for that. 0: none. */
    double delay_compensation;

    /* Not 0: of a variable that a program only looks up (take, bag and what is made of them), rows
     * that no id of a closure points to rest: their values, and the optimizer's numbers of them,
     * stay as they are, though momentum or Adam would go on to move them (lazy, or sparse, Adam of
     * other libraries), and an update costs the ps what its rows cost. sgd, adagrad and add do so
     * anyway: they change nothing where a gradient is zero. Only rows that were looked up travel,
     * lazy or not. Not together with average_momentum or delay_compensation. */
    uint32_t lazy;
} cadre_variable_options_t;

/* Returns options with every default in place, as cadre_coordinator_options does. */
static inline cadre_variable_options_t
cadre_variable_options(void)
{
    cadre_variable_options_t options;
    memset(&options, 0, sizeof(options));
    options.size = sizeof(options);
    options.initializer = cadre_initializer(CADRE_INITIALIZER_ZEROS);
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_SGD);
    return options;
}

/* Creates a variable, and returns when it exists on all shards. `shape` has 1 to 8 dimensions, or 0
 * (and may be NULL) for a scalar; `options` may be NULL. dtypes: f32; f64, i32 and i64 with the
 * optimizer add only.
 *
 * A closure whose gradient of a variable is infinite or NaN in its wire type fails with
 * CADRE_ENOTFINITE, naming the variable, and pushes nothing; so does a closure that pulls a finite
 * value which would be infinite in the wire type: bf16 ends at 3.39e38, f32 at 3.40e38.
 *
 * CADRE_EEXISTS: the name is in use.
 * CADRE_EDTYPE: the optimizer, initializer or wire type does not go with the dtype; or the resumed
 *   checkpoint holds the variable with another dtype.
 * CADRE_ESHAPE: the resumed checkpoint holds the variable with another shape.
 * CADRE_ESTATE: the resumed checkpoint holds the variable, but the job has taken another checkpoint
 *   since, which does not.
 * CADRE_ETIMEOUT: `timeout_ms` of the options is over, or a ps was away for `ps_timeout_ms`. */
CADRE_API int cadre_variable_create(cadre_coordinator_t *self, const char *name,
                                    cadre_dtype_t dtype, const int64_t *shape, int rank,
                                    const cadre_variable_options_t *options,
                                    cadre_variable_t **variable);

/* One variable of cadre_variable_create_many: the arguments of cadre_variable_create. The struct
 * gets no more fields in later versions; its options may. */
typedef struct {
    const char *name;
    cadre_dtype_t dtype;
    const int64_t *shape; /* [rank] */
    int rank;
    const cadre_variable_options_t *options; /* or NULL */
} cadre_variable_definition_t;

/* Creates `count` variables, in their order, as cadre_variable_create does each, and returns when
 * all exist on all shards. On failure none exists, and the error names the first that could not be
 * created. The shards are asked for many at a time, so that a thousand take little longer than a
 * few (docs/scale.md). `variables` has room for `count`, or is NULL. `timeout_ms` of the first
 * one's options is that of the whole call. A variable that others are to be colocated with is
 * created by a call before. */
CADRE_API int cadre_variable_create_many(cadre_coordinator_t *self,
                                         const cadre_variable_definition_t *definitions,
                                         size_t count, cadre_variable_t **variables);

/* Reads the whole value, the parts joined in order, into `value`, which the caller ends with
 * cadre_tensor_fini. `value` is an empty tensor, {0}, or a used one, whose memory is freed. Each
 * part is of one version; while closures run, parts may be of different ones
 * (cadre_variable_read_many reads one moment). */
CADRE_API int cadre_variable_read(cadre_variable_t *self, cadre_tensor_t *value,
                                  int64_t timeout_ms);

/* Reads `count` variables as they are at one moment between two closures: the values hold every
 * update of each closure that was begun, and none of any other. `values` [count] as for
 * cadre_variable_read.
 *
 *     cadre_variable_t *both[] = {weights, bias};
 *     cadre_tensor_t values[2] = {{0}, {0}};
 *     s = cadre_variable_read_many(job, both, 2, values, -1);
 *
 * No closure is begun during the call: those in flight end, the variables are read, and then
 * closures are handed out again, so workers idle for about as long as the longest closure takes. A
 * closure that goes on for long, such as a worker's own loop, is waited for until the time is over.
 * With consistency `sync` the step that is being filled ends with the closures that it has, as for
 * cadre_coordinator_join. Where workers must not wait, cadre_checkpoint_save and
 * cadre_checkpoint_read give the values of one moment, too.
 *
 * An assignment that another thread makes meanwhile may be in some of the values and not in others.
 * With recovery `relaxed` the updates that a lost shard has cost are missing in its parts alone.
 *
 * CADRE_EINVALID: a variable is NULL or of another coordinator. */
CADRE_API int cadre_variable_read_many(cadre_coordinator_t *self,
                                       cadre_variable_t *const *variables, size_t count,
                                       cadre_tensor_t *values, int64_t timeout_ms);

/* Reads the running average of the values, as cadre_variable_read reads the values. Before the
 * first update the average is the initial values. Checkpoints hold it; after a resume from one that
 * does not, it begins with the values of that checkpoint.
 *
 * CADRE_EINVALID: the variable was created without average_momentum. */
CADRE_API int cadre_variable_read_average(cadre_variable_t *self, cadre_tensor_t *value,
                                          int64_t timeout_ms);

/* Changes the learning rate of a variable, whose rate is constant until now or was changed by this
 * call before: every update that at least `updates` others came before has the rate `rate`. All
 * shards of the variable change at that update, also when they are restored and run closures again.
 * `updates` counts as for a schedule (<cadre/optimizer.h>): a program which has joined gives the
 * number of updates that it has made; with a smaller number the rate changes at once, and a
 * restored shard may use it for some updates that had the rate before. The changes belong to the
 * variable's schedule: a program that resumes a checkpoint creates the variable with its schedule,
 * or repeats the changes. Called twice with the same numbers, it changes the rate once.
 *
 * CADRE_EINVALID: a rate that is not in [0, 1e10], `updates` is 0 or not above that of the change
 *   before, or the variable has another schedule, or the optimizer `add`.
 * CADRE_EFULL: the rate has changed CADRE_SCHEDULE_BOUNDARIES_MAX times.
 * CADRE_ETIMEOUT, CADRE_EINTERRUPTED: the change stands, but not all shards may have it: the call
 *   must be repeated with the same numbers. */
CADRE_API int cadre_variable_change_rate(cadre_variable_t *self, uint64_t updates, double rate,
                                         int64_t timeout_ms);

/* Returns how many slots the optimizer of the variable keeps, the running average included, and the
 * name of one, 0 <= slot < that, as checkpoints have it (docs/optimizers.md); NULL for
 * any other number. The name lives for ever. */
CADRE_API int cadre_variable_slot_count(const cadre_variable_t *self);
CADRE_API const char *cadre_variable_slot_name(const cadre_variable_t *self, int slot);

/* Reads a slot of the variable's optimizer, such as Adam's "momentum", as cadre_variable_read reads
 * the values: a tensor of the variable's shape, f32. `steps` [cadre_variable_partition_count]: how
 * many updates the optimizer of each part has made, which is Adam's t, of the same version as the
 * slot there; or NULL. While closures run, values and slots that are read by several calls may be
 * of different versions; after cadre_coordinator_join they are not.
 *
 * CADRE_ENOTFOUND: the optimizer has no such slot; the error names those that it has. */
CADRE_API int cadre_variable_read_slot(cadre_variable_t *self, const char *slot,
                                       cadre_tensor_t *value, uint64_t *steps, int64_t timeout_ms);

/* Reads a variable that has one element, as a number, whatever its type.
 *
 * CADRE_ESHAPE: the variable has several elements. */
CADRE_API int cadre_variable_read_number(cadre_variable_t *self, double *number,
                                         int64_t timeout_ms);

/* What cadre_variable_assign does with the value. */
typedef enum {
    CADRE_VARIABLE_SET = 0,
    CADRE_VARIABLE_ADD = 1,
    CADRE_VARIABLE_SUBTRACT = 2,
    CADRE_VARIABLE_MULTIPLY = 3,
    CADRE_VARIABLE_DIVIDE = 4,  /* integers toward zero */
    CADRE_VARIABLE_MINIMUM = 5, /* of each element and its value */
    CADRE_VARIABLE_MAXIMUM = 6,
} cadre_assign_t;

/* Assigns, adds, subtracts and so on a tensor of the variable's shape and dtype, on every part,
 * exactly once. Integers wrap around; a sum or product of f32 that is too large becomes infinite,
 * also in rows: only the value that is given is checked. Waits where the memory for a replay is
 * full, until a checkpoint has made room; and while a checkpoint is under way, until its closures
 * that read a shuffled, streamed dataset have a worker.
 *
 * CADRE_ESHAPE, CADRE_EDTYPE: the value has another shape or dtype than the variable.
 * CADRE_EINVALID: it divides by 0; nothing is assigned.
 * CADRE_ENOTFINITE: the value holds infinity or NaN; the parts in which it does stay as they were,
 *   the others are assigned.
 * CADRE_ETIMEOUT, CADRE_EINTERRUPTED: nothing is taken back: the assignment is made as soon as its
 *   shards are there, and must not be repeated. */
CADRE_API int cadre_variable_assign(cadre_variable_t *self, cadre_assign_t mode,
                                    const cadre_tensor_t *value, int64_t timeout_ms);

/* Drops the variable and nulls the pointer: the ps forget it, which frees its memory there.
 * Closures that were scheduled before this call still use the variable; one that is scheduled later
 * and names it fails with CADRE_ENOTFOUND and a text that says that it was dropped. Returns when
 * the earlier closures have ended, those of cadre_coordinator_schedule_on too. From then on its
 * name is free for another variable, which begins with initial values of its own, and new
 * checkpoints leave the variable out. A job that is resumed from an older checkpoint, which holds
 * the variable, creates it again.
 *
 * Closures that may run again for a lost ps may need the values, so the ps keep them until no such
 * closure is left: with recovery `relaxed` until this call returns, else until two more checkpoints
 * are committed with closures run before each; automatic checkpoints are taken for that, too.
 * Without a checkpoint directory the job keeps its closures, and so the values, until the closures
 * are more than there is room for. The function of a resource does not find the variable when it is
 * built later, on a worker that comes then.
 *
 * A failure of an earlier closure is not raised here.
 *
 * CADRE_ETIMEOUT, CADRE_EINTERRUPTED: nothing is taken back: the variable is dropped as soon as the
 *   earlier closures have ended; the text of a timeout names such closures. */
CADRE_API int cadre_variable_drop(cadre_variable_t **variable_p, int64_t timeout_ms);

/* Return the name and the dtype that the variable was created with; the name lives as long as the
 * variable. */
CADRE_API const char *cadre_variable_name(const cadre_variable_t *self);
CADRE_API cadre_dtype_t cadre_variable_dtype(const cadre_variable_t *self);

/* Returns the type in which values and gradients of the variable travel between workers and ps: its
 * dtype unless another was asked for. */
CADRE_API cadre_dtype_t cadre_variable_wire(const cadre_variable_t *self);

/* Returns the rank, and gives the dimensions in `shape`. */
CADRE_API int cadre_variable_shape(const cadre_variable_t *self, int64_t shape[CADRE_RANK_MAX]);

/* Returns into how many parts the variable is cut. */
CADRE_API int cadre_variable_partition_count(const cadre_variable_t *self);

/* Gives the rows and the shard of part `partition`, which must be below the count. */
CADRE_API void cadre_variable_partition(const cadre_variable_t *self, int partition,
                                        int64_t *first_row, int64_t *rows, int *shard);

#ifdef __cplusplus
}
#endif

#endif
