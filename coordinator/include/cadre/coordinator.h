/*
 * coordinator - the program that runs a job: it defines variables and functions, schedules closures
 * and reads results.
 *
 *     cadre_coordinator_t *job = NULL;
 *     int s = cadre_coordinator_open(NULL, &job);
 *     s = s ? s : cadre_variable_create(job, "total", CADRE_F32, NULL, 0, &adds, &total);
 *     s = s ? s : cadre_function_native(job, "add_one", &add_one);
 *     s = s ? s : cadre_coordinator_schedule(job, add_one, NULL, -1, NULL);
 *     s = s ? s : cadre_coordinator_join(job, -1);
 *     s = s ? s : cadre_variable_read_number(total, &sum, -1);
 *     cadre_coordinator_close(&job);
 *
 * Closures run on workers in any order, at the same time as one another; each one's updates are
 * applied to every shard exactly once, also when workers die.
 *
 * Names:   a call begins with the class that it acts on or makes. What builds programs begins with
 *          cadre_op_ (program.h).
 * Ends:    one verb for each kind. A coordinator is closed, which ends what it has: functions,
 *          datasets, resources and variables. A variable is dropped from the cluster. Futures,
 *          groups and programs are memory of the caller's and are destroyed. A tensor has
 *          cadre_tensor_fini. Each takes NULL, and a pointer to NULL, and does nothing.
 * Threads: every call may be made from any thread, several at once, on the same coordinator. A
 *          handle must not be used after it was closed, nor closed while another thread uses it.
 * Waiting: a call that can block takes `timeout_ms`: -1 waits without limit, 0 does not wait.
 * Errors:  a call gives 0 or a negative CADRE_E... number; cadre_error_text() has the details.
 *          Outputs are written on success only, and one that is not wanted may be NULL, but for
 *          that of cadre_coordinator_open. Not repeated at each call are
 *            CADRE_EINVALID: a variable, function, program or future is NULL, or an argument is
 *              outside of what its comment says;
 *            CADRE_ETIMEOUT: the time is over;
 *            CADRE_EINTERRUPTED: cadre_coordinator_interrupt was called;
 *            CADRE_ECLOSED: the coordinator was closed meanwhile;
 *            CADRE_EUNAVAILABLE: a ps was away for longer than `ps_timeout_ms`.
 *          A coordinator, dataset or resource that is NULL is a bug of the caller.
 * Structs: one with `size` grows at its end: a program says by it how much of the struct it knows,
 *          and what it does not know is 0, the default of every field. A larger size than the
 *          library's is CADRE_EINVALID. All others cannot grow.
 * Strings: UTF-8. Names are 1 to 128 characters of [A-Za-z0-9._-], beginning with a letter or
 *          digit.
 */
#ifndef CADRE_COORDINATOR_H
#define CADRE_COORDINATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cadre/optimizer.h>
#include <cadre/options.h>
#include <cadre/program.h>
#include <cadre/status.h>
#include <cadre/strategy.h>
#include <cadre/tensor.h>
#include <cadre/variable.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cadre_function cadre_function_t; /* its coordinator's */
typedef struct cadre_dataset cadre_dataset_t;   /* its coordinator's */
typedef struct cadre_resource cadre_resource_t; /* its coordinator's */
typedef struct cadre_future cadre_future_t;     /* the caller's: cadre_future_destroy */
typedef struct cadre_group cadre_group_t;       /* the caller's: cadre_group_destroy (group.h) */

/* --- Opening and closing --- */

/* For example:
 *
 *     cadre_coordinator_options_t options = cadre_coordinator_options();
 *     options.checkpoint_dir = "checkpoints";
 *     options.resume = CADRE_RESUME_AUTO;
 *     s = cadre_coordinator_open(&options, &job);
 */

/* Binds the control socket and starts the coordinator's thread. Tasks may dial in from now on.
 * `options` may be NULL for the defaults. The process's soft limit of open files (RLIMIT_NOFILE) is
 * raised to the hard one. The checkpoint to begin with is verified and read first: variables that
 * are created later with the same name, dtype and shape begin with its values.
 *
 * CADRE_ECONFIG: bad options or environment, or `natives` failed.
 * CADRE_EEXISTS: another coordinator holds the address or `checkpoint_dir`; the text names it.
 * CADRE_EUNAVAILABLE: the port of `http` is in use.
 * CADRE_ENOTFOUND: there is no checkpoint at `resume_path`.
 * CADRE_ECORRUPT: that checkpoint is damaged, or no checkpoint in `checkpoint_dir` can be loaded.
 * CADRE_EIO: a socket, file or thread could not be opened. */
CADRE_API int cadre_coordinator_open(const cadre_coordinator_options_t *options,
                                     cadre_coordinator_t **coordinator);

/* Tells every task to stop, waits up to 2 s for them to leave, ends the thread and frees
 * everything, but for futures that were not destroyed: they say CADRE_ECLOSED. Nulls the pointer.
 */
CADRE_API void cadre_coordinator_close(cadre_coordinator_t **coordinator_p);

/* Waits until all ps and at least `workers` workers are there. */
CADRE_API int cadre_coordinator_wait_ready(cadre_coordinator_t *self, int workers,
                                           int64_t timeout_ms);

/* Asks worker `index` to finish what it runs, hand the rest back and leave, as SIGTERM does, and
 * waits until it has left; its process ends. The worker leaves also when this call gives up
 * waiting.
 *
 * CADRE_ENOTFOUND: there is no such worker. */
CADRE_API int cadre_worker_drain(cadre_coordinator_t *self, uint32_t index, int64_t timeout_ms);

/* Returns the address as bound, such as "tcp://127.0.0.1:40127"; valid as long as the coordinator.
 */
CADRE_API const char *cadre_coordinator_address(const cadre_coordinator_t *self);

/* Returns where `options.http` is bound, such as "127.0.0.1:9090"; NULL if that option was not set.
 * The text lives as long as the coordinator. */
CADRE_API const char *cadre_coordinator_http(const cadre_coordinator_t *self);

/* Makes every blocking call, now and later, end with CADRE_EINTERRUPTED until it is called with
 * false. The one function that may be called from a signal handler. */
CADRE_API void cadre_coordinator_interrupt(cadre_coordinator_t *self, bool interrupted);

/* Gives the state of the job as one JSON object (schema cadre.status/v1), which the caller frees:
 * tasks, closures, shards with their counters, checkpoints; how many variables there are, are being
 * dropped, or were dropped and are kept for closures that may run again; resources, how many
 * workers are ready for their closures, and why a resource has failed; a histogram of how stale the
 * closures that ended were; of each worker also what `waits` there (closure, function, shard, ms),
 * as the worker said last, and the shards that it cannot reach; how many clients are attached. New
 * counters are added to this text, since cadre_totals_t cannot grow. */
CADRE_API int cadre_coordinator_status_json(cadre_coordinator_t *self, char **text);

/* --- Functions --- */

/* For example:
 *
 *     s = cadre_function_register(job, &program, &step);
 *     s = cadre_function_native(job, "add_one", &add_one);
 */

/* Registers a program as a function, which can be scheduled. Finishes the program; on success takes
 * it and nulls the pointer. The same content registered twice is one function.
 *
 * CADRE_ENOTFOUND: a variable that the program names does not exist.
 * CADRE_ESHAPE: a variable has another shape or type than the program says.
 * Else as cadre_program_finish. */
CADRE_API int cadre_function_register(cadre_coordinator_t *self, cadre_program_t **program_p,
                                      cadre_function_t **function);

/* Gives the function that the workers' operator loaded from a shared object under this name
 * (<cadre/worker.h>). Its closures run on the workers that have the function; they fail with
 * CADRE_ENOTFOUND when for 5 s no worker that is there has it. */
CADRE_API int cadre_function_native(cadre_coordinator_t *self, const char *name,
                                    cadre_function_t **function);

/* Drops the function and nulls the pointer; other pointers to it, of the same content registered
 * twice, must not be used any more. Closures that were scheduled before still run, and run again
 * for a ps that is lost. When none of them may run any more - with checkpoints, when two more are
 * committed - coordinator and workers forget the program, but for its name. This function does not
 * wait for that. The same content registered later is another function. Many programs that are used
 * for a while each, as in a search, are dropped for their memory.
 *
 * CADRE_ESTATE: a resource is built by it: cadre_resource_drop before. */
CADRE_API int cadre_function_drop(cadre_function_t **function_p);

/* --- Data --- */

/* For example:
 *
 *     s = cadre_dataset_open(job, "rows", "{\"format\": \"csv\", \"path\": \"a.csv\"}", -1, &rows);
 *     s = s ? s : cadre_dataset_train(rows, step, 0, 20, 32, -1);
 */

/* What is in a dataset, whose files the workers can read. The struct gets no more fields in later
 * versions. */
typedef struct {
    int64_t rows;
    int64_t features;    /* how many columns "x" has */
    cadre_dtype_t label; /* dtype of "y": CADRE_I32 for classes, else CADRE_F32 */
    int64_t classes;     /* how many classes; 0 when labels are no classes */
    int64_t skipped;     /* bad lines that were skipped */
} cadre_dataset_info_t;

/* Opens a dataset. `description` is a JSON object (docs/data.md): format, path and so on. Every
 * worker opens the dataset; the rows that most of them have are the job's, and a worker that has
 * none or others is given no closures that read the dataset. The call returns when more than half
 * of the workers agree or all have answered, 5 s after the first answer at the latest. When later
 * no worker that has the rows is left, closures that read the dataset fail as this call does, with
 * CADRE_EDATA where the workers that are there have other rows.
 *
 * Workers go on after CADRE_ETIMEOUT, and a dataset that they could open is in cadre_dataset_list.
 * The same call again takes it up where it is; a call with another description takes its name,
 * unless it is open by then.
 *
 * CADRE_EINVALID: a bad name or description; the text names the key. Nothing was sent.
 * CADRE_EEXISTS: the name is in use.
 * CADRE_EDATA, CADRE_ENOTFOUND: for 5 s no worker that is there could open the dataset; the text
 *   names file and line.
 * CADRE_ETIMEOUT: it is not decided yet; the text has what a worker that could not open it said. */
CADRE_API int cadre_dataset_open(cadre_coordinator_t *self, const char *name,
                                 const char *description, int64_t timeout_ms,
                                 cadre_dataset_t **dataset);

/* Makes a dataset of rows that the program has in memory, without a file: `x`, f32 [rows,
 * features], and `y`, [rows], either i32 (numbers of classes, from 0) or f32 (values). Both are
 * copied. Further axes of `x` are features too: [rows, 28, 28] has 784. Numbers of an `x` of i64
 * are keys, as in cadre_dataset_from_columns. Everything that takes a
 * dataset takes this one: epochs, orders, reductions, evaluations; the same numbers in a file under
 * the same name make the same batches.
 *
 *     cadre_tensor_t x = cadre_tensor_view(CADRE_F32, pixels, (int64_t[]){1000, 784}, 2);
 *     cadre_tensor_t y = cadre_tensor_view(CADRE_I32, digits, (int64_t[]){1000}, 1);
 *     s = cadre_dataset_from_memory(job, "digits", &x, &y, -1, &rows);
 *
 * The coordinator sends every worker all rows, 4 MiB at a time, also one that joins later, and
 * keeps them until it is closed. So they are bounded: 256 MiB of features and labels. What is
 * larger goes into a file, or into several datasets. A job that resumes makes the dataset again.
 * Waits, and fails later, as cadre_dataset_open; but after CADRE_ETIMEOUT it is given up, and its
 * name is free.
 *
 * CADRE_EINVALID: a bad name, or another dtype or shape.
 * CADRE_EDATA: a number that is not finite, or a label that is no class; the text names the row.
 * CADRE_ETOOLARGE: over 256 MiB, or over 16,777,216 features.
 * CADRE_EEXISTS: the name is in use. */
CADRE_API int cadre_dataset_from_memory(cadre_coordinator_t *self, const char *name,
                                        const cadre_tensor_t *x, const cadre_tensor_t *y,
                                        int64_t timeout_ms, cadre_dataset_t **dataset);

/* Rows in several arrays. The struct gets no more fields in later versions. */
typedef struct {
    const cadre_tensor_t *columns; /* [count], each [rows] or [rows, numbers], f32 or i64 */
    size_t count;
    const cadre_tensor_t *y; /* the labels, as in cadre_dataset_from_memory */
} cadre_columns_t;

/* Makes a dataset of rows whose features are in several arrays, side by side. Those of f32 are
 * features as they are. Those of i64 are keys of tables, with all 64 bits: each is CADRE_KEY_PARTS
 * numbers of "x", which are f32, and cadre_op_key (<cadre/program.h>) makes an i64 of these again.
 *
 *     cadre_tensor_t columns[] = {
 *         cadre_tensor_view(CADRE_I64, users, (int64_t[]){1000}, 1),
 *         cadre_tensor_view(CADRE_F32, numbers, (int64_t[]){1000, 4}, 2),
 *     };
 *     cadre_columns_t rows = {.columns = columns, .count = 2, .y = &y};
 *     s = cadre_dataset_from_columns(job, "visits", &rows, -1, &visits); ("x" is [B, 3 + 4])
 *
 * Limits and errors are those of cadre_dataset_from_memory; a key takes 12 bytes of the 256 MiB. */
CADRE_API int cadre_dataset_from_columns(cadre_coordinator_t *self, const char *name,
                                         const cadre_columns_t *columns, int64_t timeout_ms,
                                         cadre_dataset_t **dataset);

/* Returns how many rows, features and classes the dataset has. */
CADRE_API cadre_dataset_info_t cadre_dataset_info(const cadre_dataset_t *self);

/* Rows of a dataset for one closure. The struct gets no more fields in later versions. */
typedef struct {
    const cadre_dataset_t *dataset;
    uint64_t order; /* seed of the order of this epoch; 0: file order */
    int64_t first;  /* position of the first row in that order */
    int64_t count;
} cadre_batch_t;

/* The order of the rows in an epoch. */
typedef enum {
    CADRE_ORDER_OF_FILE = 0,
    /* Shuffled: the order follows from the job's seed, the dataset's name and the epoch. */
    CADRE_ORDER_SHUFFLED = 1,
} cadre_order_t;

/* What becomes of the rows at the end of an epoch that are fewer than a batch. */
typedef enum {
    CADRE_LAST_BATCH_SMALLER = 0,
    CADRE_LAST_BATCH_DROPPED = 1,
} cadre_last_batch_t;

/* Starts epoch `epoch` in batches of `batch_size` rows from position `first` (0 unless resuming).
 *
 * Batches of a shuffled epoch of a streamed dataset with several "ranges" (docs/data.md) come from
 * these in turn: an epoch that is resumed then begins at a multiple of `batch_size`, behind so many
 * batches as were given.
 *
 * CADRE_EINVALID: `batch_size` is below 1, `first` is no position, or no such multiple. */
CADRE_API int cadre_dataset_begin(cadre_dataset_t *self, uint64_t epoch, int64_t first,
                                  int64_t batch_size, cadre_order_t order, cadre_last_batch_t last);

/* Gives the next batch; false at the end of the epoch, which is not an error. */
CADRE_API bool cadre_dataset_next(cadre_dataset_t *self, cadre_batch_t *batch);

/* --- Closures --- */

/* For example:
 *
 *     cadre_call_t call = cadre_call_batch(&batch);
 *     s = cadre_coordinator_schedule(job, evaluate, &call, -1, &future);
 *     s = s ? s : cadre_future_fetch_number(future, "loss", &loss, -1);
 *     cadre_future_destroy(&future);
 */

/* A tensor as an argument. The struct gets no more fields in later versions. */
typedef struct {
    const char *name;
    const cadre_tensor_t *tensor;
} cadre_argument_t;

/* An argument that is a result of another closure, which need not have ended yet. The struct gets
 * no more fields in later versions. */
typedef struct {
    const char *name; /* of the argument */
    const cadre_future_t *future;
    const char *result; /* name of the result; NULL: the only one, or the first */
} cadre_future_argument_t;

/* Which of the closures that wait is handed out first. */
typedef enum {
    CADRE_PRIORITY_NORMAL = 0,
    CADRE_PRIORITY_HIGH = 1, /* before all others */
    CADRE_PRIORITY_LOW = 2,  /* handed out when no other closure can be */
} cadre_priority_t;

/* What a closure is called with; everything is copied. The columns of a batch of B rows are the
 * arguments "x", f32 [B, features], and "y", [B] of the dataset's label type; with several batches
 * those of the second are "x1", "y1" and so on. The results of a resource are the arguments
 * "NAME.RESULT". No two arguments may have one name: no tensor or future may be called like a
 * column, or like a result of a resource that the call names. Every name that begins with "NAME."
 * counts as a result of resource NAME, so resources "a" and "a.b" do not go into one call. */
typedef struct {
    /* sizeof(cadre_call_t), as cadre_call sets it. */
    size_t size;

    /* Rows of datasets, at most 8. */
    const cadre_batch_t *batches;
    size_t batch_count;

    /* Tensors and results of other closures, together at most 64 and 64 MiB. */
    const cadre_argument_t *tensors;
    size_t tensor_count;
    const cadre_future_argument_t *futures;
    size_t future_count;

    /* Resources that it uses, at most 16. */
    const cadre_resource_t *const *resources;
    size_t resource_count;

    /* Updates that it pushes to one shard at most, up to 65,536. 0: 1. */
    uint32_t steps;

    /* The caller's number of this closure, at most 2^63 - 1, which checkpoints remember
     * (cadre_checkpoint_next). 0: none. */
    uint64_t sequence;

    /* How long an attempt may run. 0: closure_deadline_ms of the coordinator's options; -1: as long
     * as it takes. */
    int64_t deadline_ms;

    /* The group that learns how the closure ends, and that may cancel it. NULL: none; then
     * cadre_coordinator_join raises its failure. */
    cadre_group_t *group;

    /* When the closure is handed out, among those that wait (docs/programs.md). One of high
     * priority finds room in a queue that is full with others. */
    cadre_priority_t priority;
} cadre_call_t;

/* Returns a call without arguments. */
static inline cadre_call_t
cadre_call(void)
{
    cadre_call_t call;
    memset(&call, 0, sizeof(call));
    call.size = sizeof(call);
    return call;
}

/* Returns a call with the rows of `batch`, which stays the caller's and must live as long as the
 * call. */
static inline cadre_call_t
cadre_call_batch(const cadre_batch_t *batch)
{
    cadre_call_t call = cadre_call();
    call.batches = batch;
    call.batch_count = 1;
    return call;
}

/* Returns a call with `count` tensors, which stay the caller's and must live as long as the
 * call. */
static inline cadre_call_t
cadre_call_tensors(const cadre_argument_t *tensors, size_t count)
{
    cadre_call_t call = cadre_call();
    call.tensors = tensors;
    call.tensor_count = count;
    return call;
}

/* Queues one call of `function` (`call` may be NULL) and, when `future` is not NULL, gives a future
 * for its results. Blocks while the queue is full. When an earlier closure has failed, the call
 * raises that error instead, once, after everything queued and in flight was cancelled; the
 * coordinator is usable again afterwards. This holds among closures without a group; a closure with
 * a group is refused for, and cancelled by, failures of its own group alone (group.h).
 *
 * A call that names futures waits in the queue until their closures have ended, and gets their
 * results, also those of futures that were destroyed meanwhile and also when it runs again. When
 * one of these closures fails, the call fails with the same error; when they give no such result it
 * fails with CADRE_ENOTFOUND, and with CADRE_ETOOLARGE when its arguments are more than 64 MiB.
 * What is known to fail is refused here, with that error. While the results that waiting closures
 * are to get are more than 1 GiB, calls that name futures wait as for a full queue; at twice as
 * much those whose results have no room fail with CADRE_EFULL.
 *
 * A closure that runs past its deadline is given to another worker, and the first one is asked to
 * stop; whichever ends it first counts, and no update counts twice. Without another worker it goes
 * on where it is, for as long again. With the third deadline that has passed it fails with
 * CADRE_ETIMEOUT. A function that does not look at cadre_invocation_is_cancelled keeps its slot
 * until it ends.
 *
 * CADRE_EINVALID: no registered function, dataset, resource or future of this coordinator, a
 *   deadline below -1, a count whose array is NULL, an argument that could be two things, or a
 *   priority where CADRE_BOUNDED or CADRE_SYNC says in which order closures run.
 * CADRE_ETOOLARGE: more than 8 batches, 64 tensors and futures, 64 MiB of tensors, 16 resources or
 *   65,536 steps.
 * CADRE_EFULL: the call has a sequence number, and the numbers of closures that have ended are more
 *   than 65,536 ranges. */
CADRE_API int cadre_coordinator_schedule(cadre_coordinator_t *self,
                                         const cadre_function_t *function, const cadre_call_t *call,
                                         int64_t timeout_ms, cadre_future_t **future);

/* Queues a call for the worker with index `worker` alone: its next free slot takes this call before
 * those that any worker may run. While there is no such worker the call waits, until a worker takes
 * the index. cadre_coordinator_join and cadre_coordinator_is_done do not wait for the call, its
 * future does. Where the worker is away, another one may run the call again for a restored shard.
 *
 * CADRE_EINVALID: no worker can have the index.
 * Else as cadre_coordinator_schedule. */
CADRE_API int cadre_coordinator_schedule_on(cadre_coordinator_t *self, uint32_t worker,
                                            const cadre_function_t *function,
                                            const cadre_call_t *call, int64_t timeout_ms,
                                            cadre_future_t **future);

/* The closures of one call of cadre_coordinator_schedule_on_each. The caller ends the struct with
 * cadre_each_fini. It gets no more fields in later versions. */
typedef struct {
    size_t count;
    uint32_t *workers;        /* [count]: indexes of the workers, ascending */
    cadre_future_t **futures; /* [count]: future of each worker's closure */
} cadre_each_t;

/* Queues a call for each worker that is there, as cadre_coordinator_schedule_on does: all of these
 * closures, or none. Waits until at least one worker is there. Workers that come later get none.
 * The closure of a worker that is lost runs on the one that takes its index; where none ever does,
 * its future does not end until the closure is cancelled (give the call a group to cancel these
 * closures alone). `each` may be NULL. For loops that are the workers' own:
 *
 *     s = cadre_coordinator_schedule_on_each(job, train_loop, &call, -1, &each);
 *     s = s ? s : cadre_future_wait_all(each.futures, each.count, -1);
 *     cadre_each_fini(&each);
 *
 * CADRE_EINVALID: the call has a sequence number, which can be of one closure only.
 * Else as cadre_coordinator_schedule. */
CADRE_API int cadre_coordinator_schedule_on_each(cadre_coordinator_t *self,
                                                 const cadre_function_t *function,
                                                 const cadre_call_t *call, int64_t timeout_ms,
                                                 cadre_each_t *each);

/* Destroys the futures and frees both lists of the struct. */
CADRE_API void cadre_each_fini(cadre_each_t *self);

/* Waits until every closure scheduled before this call has ended and what it pushed is on its
 * shards, closures of groups too; closures that are scheduled meanwhile, on other threads, are not
 * waited for. Raises the first error of closures without a group, once, as
 * cadre_coordinator_schedule does, whichever thread's closure failed. The text names function,
 * closure, attempt and worker, and counts further failures. The text of CADRE_ETIMEOUT says how
 * many closures are on workers and how many wait for one, and names one that waits for something
 * else (a worker or ps that is absent, a resource, a result), by function, then the oldest on
 * workers, with function and worker, since when, and the ps that each waits for. */
CADRE_API int cadre_coordinator_join(cadre_coordinator_t *self, int64_t timeout_ms);

/* Tells in `done` whether no closure is queued or in flight, of any thread; never waits. Raises the
 * error of a failed closure as cadre_coordinator_join does, but not before the closures that it
 * cancelled have ended: until then `done` is false. */
CADRE_API int cadre_coordinator_is_done(cadre_coordinator_t *self, bool *done);

/* Cancels all closures that are queued or in flight, of all threads and groups. The futures of
 * queued ones say CADRE_ECANCELLED at once. Running ones are asked to stop; one that ends well all
 * the same counts as ended well. Returns when none of them runs any more. */
CADRE_API int cadre_coordinator_cancel(cadre_coordinator_t *self, int64_t timeout_ms);

/* Schedules `function` for each batch of `epochs` epochs of a dataset, from epoch `epoch` on, each
 * shuffled again, and joins. Batches of an epoch go out while the last ones of the epoch before are
 * being worked on. For numbered closures, or an order of one's own, cadre_dataset_begin.
 *
 *     s = cadre_dataset_train(rows, step, 0, 20, 32, -1);
 *
 * Fails as cadre_dataset_begin, cadre_coordinator_schedule and cadre_coordinator_join do. */
CADRE_API int cadre_dataset_train(cadre_dataset_t *self, const cadre_function_t *function,
                                  uint64_t epoch, uint64_t epochs, int64_t batch_size,
                                  int64_t timeout_ms);

/* What becomes of a result over all batches of a dataset, or over several closures. */
typedef enum {
    CADRE_REDUCTION_SUM = 0,
    CADRE_REDUCTION_MEAN = 1, /* mean over rows: a batch counts as often as it has rows */
    CADRE_REDUCTION_ROWS = 2, /* an entry for each row, those of all batches one behind the other */
} cadre_reduction_kind_t;

/* A result that is reduced over batches. The struct gets no more fields in later versions. */
typedef struct {
    const char *name; /* name of the result; NULL: the only one, or the first */
    cadre_reduction_kind_t kind;
    /* Receives sum or mean, f64, in the shape of the result; with CADRE_REDUCTION_ROWS the entries
     * of all rows in file order, f64, [rows, ..]. NULL: the value is not wanted. */
    cadre_tensor_t *value;
} cadre_reduction_t;

/* Calls `function` for each batch of one epoch in file order, and sums, averages or collects
 * `count` of its results, 1 to 64, element by element, in f64. At most 256 batches are under way at
 * a time. An epoch that cadre_dataset_begin has begun stays where it is.
 *
 *     cadre_tensor_t loss = {0};
 *     cadre_tensor_t confusion = {0};
 *     const cadre_reduction_t reductions[] = {{"loss", CADRE_REDUCTION_MEAN, &loss},
 *                                             {"confusion", CADRE_REDUCTION_SUM, &confusion}};
 *     s = cadre_dataset_reduce(rows, evaluate, reductions, 2, 256, -1);
 *
 * CADRE_ESHAPE: a result has not the same shape for every batch, or, of CADRE_REDUCTION_ROWS, not
 *   as many entries along its first axis as the batch has rows.
 * CADRE_ETOOLARGE: a result of CADRE_REDUCTION_ROWS has over 67,108,864 numbers for all rows.
 * Else as cadre_dataset_train and cadre_future_fetch. */
CADRE_API int cadre_dataset_reduce(cadre_dataset_t *self, const cadre_function_t *function,
                                   const cadre_reduction_t *reductions, size_t count,
                                   int64_t batch_size, int64_t timeout_ms);

/* Reduce one result, which has one element, to a number: the sum over all batches, or the mean over
 * all rows. The sum of what is predicted right, divided by the rows (cadre_dataset_info), is the
 * accuracy.
 *
 *     s = cadre_dataset_sum(rows, evaluate, "correct", 256, -1, &right);
 *     s = cadre_dataset_mean(rows, evaluate, "loss", 256, -1, &loss);
 *
 * CADRE_ESHAPE: the result has several elements.
 * Else as cadre_dataset_reduce. */
CADRE_API int cadre_dataset_sum(cadre_dataset_t *self, const cadre_function_t *function,
                                const char *name, int64_t batch_size, int64_t timeout_ms,
                                double *sum);
CADRE_API int cadre_dataset_mean(cadre_dataset_t *self, const cadre_function_t *function,
                                 const char *name, int64_t batch_size, int64_t timeout_ms,
                                 double *mean);

/* --- Resources --- */

/* For example:
 *
 *     s = cadre_resource_create(job, "index", build, NULL, &index);
 *     const cadre_resource_t *const resources[] = {index};
 *     call.resources = resources;
 *     call.resource_count = 1;
 */

/* Makes a resource, something that every worker has for itself: `function` runs once on each
 * worker, also on those that come later or take the place of another, before any closure that names
 * the resource in its call. What the function puts (cadre_invocation_set_resource of
 * <cadre/worker.h>) is what native functions find under the resource's name there; its results stay
 * on the worker too, and are the arguments "NAME.RESULT" of closures that name the resource, of
 * programs as well. It pulls variables and pushes nothing; its random numbers are the same on every
 * worker.
 *
 * `call` (may be NULL) has tensors only. This function does not wait: closures that name the
 * resource wait for a worker that has it, and others, also those of other resources, go on before
 * them. A build takes a slot of its worker like a closure, in the order in which resources were
 * made: one that never ends costs that slot and the closures that name it, and nothing else where
 * the worker has another slot.
 *
 * Where the build fails, the closures that name the resource fail with CADRE_EINVALID and a text
 * that names resource, worker and function; so they do when the build has failed ten times, a
 * second apart, because of the device (its memory is too small). A build that kills its worker is
 * tried again on the worker that comes in its place. When three workers in a row were lost while
 * they had the resource to build, it is built on one worker at a time, as long as a closure waits
 * for it, and that worker does nothing else meanwhile, for five minutes at most. When twenty were
 * lost, the resource has failed everywhere: closures that name it fail with CADRE_EPOISON and a
 * text that names resource, function and the last worker. A worker that succeeds sets the count
 * back to none. Failures of a resource that no closure names are only logged. Cancelling closures
 * leaves resources as they are; they end with the session, and a coordinator that resumes makes
 * them again.
 *
 * CADRE_EINVALID: a bad name, no function of this coordinator, or batches, resources or steps in
 *   the call.
 * CADRE_EEXISTS: the name is in use.
 * CADRE_EFULL: there are 4,096 resources.
 * CADRE_ETOOLARGE: as cadre_coordinator_schedule. */
CADRE_API int cadre_resource_create(cadre_coordinator_t *self, const char *name,
                                    const cadre_function_t *function, const cadre_call_t *call,
                                    cadre_resource_t **resource);

/* Drops the resource and nulls the pointer. Closures that were scheduled before still use it, also
 * where they run again; when none of them may run any more, workers destroy what they have built.
 * This function does not wait for that. Its name is free for another resource at once; it goes on
 * counting among the 4,096 of the job. */
CADRE_API int cadre_resource_drop(cadre_resource_t **resource_p);

/* Returns the name of the resource, which lives as long as the coordinator. */
CADRE_API const char *cadre_resource_name(const cadre_resource_t *self);

/* --- Futures --- */

/* For example, to wait for a closure beside other things:
 *
 *     struct pollfd item = {.events = POLLIN};
 *     s = cadre_future_fd(future, &item.fd);
 *     poll(&item, 1, 1000);
 */

/* Waits for the end of the closure, and returns 0 or how it failed: the same status and text every
 * time. The text of CADRE_ETIMEOUT names the closure and what it waits for, as that of
 * cadre_coordinator_join does. */
CADRE_API int cadre_future_wait(cadre_future_t *self, int64_t timeout_ms);

/* Waits for the end of the closure, then copies its result `name` (NULL: the only one, or the
 * first) into `value`, an empty tensor or a used one, as cadre_variable_read does.
 *
 * CADRE_ENOTFOUND: there is no such result.
 * Else how the closure failed. */
CADRE_API int cadre_future_fetch(cadre_future_t *self, const char *name, cadre_tensor_t *value,
                                 int64_t timeout_ms);

/* Fetches a result that has one element, as a number, whatever its type.
 *
 * CADRE_ESHAPE: the result has several elements. */
CADRE_API int cadre_future_fetch_number(cadre_future_t *self, const char *name, double *number,
                                        int64_t timeout_ms);

/* Waits for all of `count` futures, and returns the first failure in their order, or 0. */
CADRE_API int cadre_future_wait_all(cadre_future_t *const *futures, size_t count,
                                    int64_t timeout_ms);

/* Waits for all of `count` futures, 1 or more, of a group's closures, of those on each worker or of
 * any others, and sums or averages `reduction_count` of their results, 1 to 64, element by element,
 * in f64, in the order of the futures: a mean counts each closure once. The futures stay, and so
 * do all values of `reductions` on failure.
 *
 *     const cadre_reduction_t reductions[] = {{"loss", CADRE_REDUCTION_MEAN, &loss},
 *                                             {"correct", CADRE_REDUCTION_SUM, &correct}};
 *     s = cadre_future_reduce_all(each.futures, each.count, reductions, 2, -1);
 *
 * CADRE_EINVALID: a bad count, or CADRE_REDUCTION_ROWS, which is of datasets.
 * CADRE_ESHAPE: a result has not the same shape in every closure.
 * Else as cadre_future_fetch, of the first future in their order that fails. */
CADRE_API int cadre_future_reduce_all(cadre_future_t *const *futures, size_t count,
                                      const cadre_reduction_t *reductions, size_t reduction_count,
                                      int64_t timeout_ms);

/* Gives a descriptor that polls readable when the closure has ended. It belongs to the future.
 *
 * CADRE_EIO: too few descriptors are left; the last ones of the process are kept for
 *   connections. */
CADRE_API int cadre_future_fd(cadre_future_t *self, int *fd);

/* Returns the closure's id, 0 while it waits in the queue, and for NULL. */
CADRE_API uint64_t cadre_future_closure_id(const cadre_future_t *self);

/* Destroys the future and nulls the pointer. The closure goes on; its results are not sent back. */
CADRE_API void cadre_future_destroy(cadre_future_t **self_p);

/* --- Checkpoints --- */

/* A cut is a place in the order in which closures are handed out to workers. A checkpoint holds
 * what every closure handed out before its cut has pushed and what was assigned before it, and
 * nothing of later ones. What is queued at the cut is not in it, also where
 * cadre_coordinator_schedule returned long before: only the caller can schedule it again after a
 * resume.
 *
 * Ids are given in that order: 1 to the first closure of the job, and each takes as many as its
 * `steps`, so the next one's id is higher by that. The cut is the id that the next closure will
 * get: those below it are in. A resumed job goes on with the id of its cut. Closures are handed out
 * in the order of cadre_coordinator_schedule, but for those that name futures or resources, which
 * are passed by others while they wait, and those that are cancelled before they have an id.
 * Batches of a shuffled, streamed dataset have their ids some time before they are handed out.
 *
 * An exact resume: number the closures (`sequence` of cadre_call_t) and let cadre_checkpoint_next
 * say which numbers are left, in the first run as in a resumed one (examples/resume.c):
 *
 *     for (uint64_t i = cadre_checkpoint_next(job, 1); i <= count && !s;
 *          i = cadre_checkpoint_next(job, i + 1)) {
 *         call.sequence = i;
 *         s = cadre_coordinator_schedule(job, step, &call, -1, NULL);
 *     }
 */

/* Takes a checkpoint and returns when it is committed, which is when the last closure below its cut
 * has ended; later ones go on meanwhile. Closures that are queued without an id are not waited for:
 * cadre_coordinator_join first where they are to be in it. `progress` is a JSON object of the
 * caller's (epoch, position), or NULL; it comes back from cadre_checkpoint_resumed. If a ps fails
 * during the checkpoint, the checkpoint is retried with the same `progress` when the ps is back,
 * until the timeout.
 *
 * CADRE_EINVALID: `progress` is no JSON object.
 * CADRE_ESTATE: there is no checkpoint directory; or `progress` is NULL and a closure has failed
 *   that the record of cadre_checkpoint_on_cut would count.
 * Else why it could not be written. */
CADRE_API int cadre_checkpoint_save(cadre_coordinator_t *self, const char *progress,
                                    int64_t timeout_ms, uint64_t *checkpoint);

/* Sets what automatic checkpoints record as progress: called with the cut, which is the id that the
 * next closure without one will get, on the coordinator's thread: all closures below that id
 * are in the checkpoint, also those that run still, and no other is. Those that have failed or were
 * cancelled after they had their id are not: it is for the program, which hears of failures, not to
 * count them, or for cadre_checkpoint_on_cut. It returns JSON text that the coordinator frees, or
 * NULL. It must return soon and must not call Cadre.
 *
 * Automatic checkpoints are taken until the coordinator is closed, of what is queued also after the
 * program has scheduled its last closure: `context` lives until then. A checkpoint without a
 * callback (NULL) has no record, and who resumes from it cannot know how far the job was. */
typedef char *(*cadre_progress_callback_t)(void *context, uint64_t cut);
CADRE_API void cadre_checkpoint_on_progress(cadre_coordinator_t *self,
                                            cadre_progress_callback_t callback, void *context);

/* Does the same, in place of it, for a program that counts its closures by their ids in a job with
 * `client_closures`: `of_clients` is how many ids below the cut closures of clients have taken
 * since the coordinator was opened. The program's own closures have the rest of those from the cut
 * on that cadre_checkpoint_resumed gives, or from 1.
 *
 * Once one of these fails or is cancelled after it had its id, ids do not tell any more how far the
 * program is. From then on no automatic checkpoint is taken, one that has the closure below its cut
 * is given up, and cadre_checkpoint_save without `progress` fails with CADRE_ESTATE, until this is
 * called again: by a program that has heard of the failure and counts without the closure. A
 * program that goes on without that has checkpoints only when what is kept for a replay needs room,
 * after 1,000,000 closures or 256 MiB of them, and these have no record. */
typedef char *(*cadre_cut_callback_t)(void *context, uint64_t cut, uint64_t of_clients);
CADRE_API void cadre_checkpoint_on_cut(cadre_coordinator_t *self, cadre_cut_callback_t callback,
                                       void *context);

/* Tells whether a checkpoint was resumed, and gives its path, its cut and the caller's progress
 * record (NULL when none). The strings live as long as the coordinator. */
CADRE_API bool cadre_checkpoint_resumed(const cadre_coordinator_t *self, const char **path,
                                        uint64_t *cut, const char **progress);

/* Returns the first sequence number from `from` on that the checkpoint does not hold which was
 * resumed, or which cadre_checkpoint_restore has restored since; `from` where none was. It holds
 * the numbers of all closures below its cut that ended well, those of earlier parts of the job
 * included; one that failed or was cancelled is not held. */
CADRE_API uint64_t cadre_checkpoint_next(const cadre_coordinator_t *self, uint64_t from);

/* Marks a checkpoint as the best of the job: it stays, beside the newest `checkpoint_keep`, until
 * another is marked, in later sessions too. `checkpoint` is the id that cadre_checkpoint_save
 * gives; 0: the checkpoint that was resumed.
 *
 * CADRE_ESTATE: there is no checkpoint directory; or `checkpoint` is 0 and the job was not resumed,
 *   or not from that directory.
 * CADRE_ENOTFOUND: the checkpoint is not there any more.
 * CADRE_EIO: the mark could not be written. */
CADRE_API int cadre_checkpoint_mark_best(cadre_coordinator_t *self, uint64_t checkpoint);

/* Returns the path of the checkpoint that is marked as the best, by this session or one before, as
 * a string the caller frees; NULL when there is none. */
CADRE_API char *cadre_checkpoint_best(cadre_coordinator_t *self);

/* Returns the path of the newest checkpoint that was committed or resumed, as a string the caller
 * frees; NULL when there is none. Waits up to 10 s for one that is just being committed. */
CADRE_API char *cadre_checkpoint_last(cadre_coordinator_t *self);

/* --- Counters --- */

/* For example:
 *
 *     printf("%d workers, %d ps\n", cadre_coordinator_totals(job).workers,
 *            cadre_coordinator_totals(job).ps);
 */

/* Counters of updates at one shard. The struct gets no more fields in later versions. */
typedef struct {
    uint64_t applied;
    uint64_t duplicate; /* seen before, and not applied again */
    uint64_t refused;
    uint64_t staleness_max; /* the most updates between a pull and its push */
} cadre_shard_totals_t;

/* Counters since the job began: a resumed job goes on from the counters in its checkpoint, which
 * count that checkpoint too. The struct gets no more fields in later versions;
 * cadre_coordinator_status_json does. */
typedef struct {
    uint64_t scheduled;
    uint64_t finished;
    uint64_t failed;
    uint64_t attempts; /* closures handed to a worker, second attempts counted too */
    uint64_t workers_lost;
    uint64_t ps_lost;
    uint64_t ps_restored;      /* restores of shards */
    uint64_t replayed;         /* closures that had ended and ran again for such shards */
    uint64_t closures_at_risk; /* closures that had ended since the cut when a shard was restored to
                                  it without a replay: what they pushed to that shard is lost */
    uint64_t checkpoints;
    uint64_t checkpoints_failed;
    uint64_t retentions_failed; /* commits after which older checkpoints could not be removed */
    uint64_t deadlines_missed;  /* deadlines of closures that their attempts ran past */
    uint64_t reports_refused;   /* reports on closures that their sender was not given */
    int workers;                /* now, like the three counters below */
    int ps;
    uint64_t queued; /* closures, pinned ones too, that wait for a worker or a result */
    uint64_t in_flight;
} cadre_totals_t;

/* Returns the totals as of now. */
CADRE_API cadre_totals_t cadre_coordinator_totals(cadre_coordinator_t *self);

/* Returns the same without closures that clients have scheduled since the coordinator was opened:
 * they are left out of `scheduled`, `finished`, `failed` and `attempts`. */
CADRE_API cadre_totals_t cadre_coordinator_own_totals(cadre_coordinator_t *self);

/* Returns how many closures make one update: `step_closures` with CADRE_SYNC, else 1. What
 * TensorFlow calls num_replicas_in_sync; that many batches are the global batch, for which
 * cadre_scaled_rate gives the learning rate. */
CADRE_API int cadre_coordinator_replicas(const cadre_coordinator_t *self);

/* Asks shard `shard` for its counters as of now, which include what every closure that has ended
 * pushed.
 *
 * CADRE_EINVALID: there is no such shard. */
CADRE_API int cadre_shard_totals(cadre_coordinator_t *self, int shard, cadre_shard_totals_t *totals,
                                 int64_t timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
