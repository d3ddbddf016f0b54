/*
 * client - a program beside a running job: it reads variables and, where the job allows it,
 * schedules closures of the job's functions and fetches their results.
 *
 *     cadre_client_options_t options = cadre_client_options();
 *     options.address = "tcp://127.0.0.1:7000";
 *     s = cadre_client_open(&options, &client);
 *     s = s ? s : cadre_client_read(client, "weight", &weight, 10000);
 *     cadre_client_close(&client);
 *
 * A client is no member of the job: it takes no place, and nothing of the job depends on it. The
 * coordinator answers it, and pulls from the ps what it reads. Its right to read is that of the key
 * of a client (docs/keys.md); closures are refused unless the coordinator was opened with
 * `client_closures`.
 *
 * Exactly once: a closure is scheduled once, however often its message is sent, and ends as those
 * of the job's own program do. When the client is closed, dies, or is not heard for the lease of
 * the job, its closures that wait are cancelled and those that run are asked to stop; one that ends
 * well all the same counts. A client that was given up for dead does not come back: its calls fail
 * with CADRE_ECLOSED, and the program opens another.
 *
 * Names, waiting, errors and structs are as in coordinator.h. Every call may be made from any
 * thread; a client must not be used after it was closed, nor closed while another thread uses it.
 * Not repeated at each call are
 *   CADRE_ETIMEOUT: the time is over; a closure that was scheduled goes on;
 *   CADRE_ECLOSED: the job has ended, or the coordinator does not know this client any more.
 */
#ifndef CADRE_CLIENT_H
#define CADRE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cadre/status.h>
#include <cadre/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cadre_client cadre_client_t; /* the caller's: cadre_client_close */

/* Options of a client. 0 is the default of every field. */
typedef struct {
    /* sizeof(cadre_client_options_t), as cadre_client_options sets it. */
    size_t size;

    /* Where the coordinator is: "tcp://HOST:PORT", "HOST:PORT" or "ipc:///PATH". NULL: as
     * CADRE_CLUSTER or TF_CONFIG says. */
    const char *address;

    /* Directory with client.key and allowed/, as `cadre keygen` makes it. NULL: what CADRE_KEYS
     * says, else no keys. */
    const char *keys;

    /* Permits tcp to another machine without keys, as does CADRE_INSECURE_TRANSPORT=1. */
    bool insecure_transport;

    /* Milliseconds in which the coordinator must answer cadre_client_open. 0: 10,000. */
    int64_t timeout_ms;
} cadre_client_options_t;

/* Returns options with every default in place. */
static inline cadre_client_options_t
cadre_client_options(void)
{
    cadre_client_options_t options;
    memset(&options, 0, sizeof(options));
    options.size = sizeof(options);
    return options;
}

/* Attaches to the job at the address, and starts the client's thread. `options` may be NULL for the
 * defaults.
 *
 * CADRE_ECONFIG: bad options or environment, or nothing says where the coordinator is.
 * CADRE_EREFUSED: the coordinator does not accept the key, or a key is missing on one side.
 * CADRE_EPROTOCOL: the coordinator is of another release.
 * CADRE_EFULL: the job has 64 clients.
 * CADRE_ETIMEOUT: nobody answered there. */
CADRE_API int cadre_client_open(const cadre_client_options_t *options, cadre_client_t **client);

/* Leaves the job and frees everything; closures that have not ended are cancelled. Nulls the
 * pointer. NULL, and a pointer to NULL, do nothing. */
CADRE_API void cadre_client_close(cadre_client_t **client_p);

/* Returns the name of the job; it lives as long as the client. */
CADRE_API const char *cadre_client_job(const cadre_client_t *self);

/* Returns whether the job takes closures of clients. */
CADRE_API bool cadre_client_may_schedule(const cadre_client_t *self);

/* --- Variables --- */

/* A variable of the job. The struct gets no more fields in later versions. */
typedef struct {
    char name[129];
    cadre_dtype_t dtype;
    int rank;
    int64_t shape[CADRE_RANK_MAX]; /* of a table (<cadre/table.h>) [0, dim], of others never 0 */
    uint32_t partitions;
    bool has_average; /* it keeps a running average, for cadre_client_read_average */
} cadre_client_variable_t;

/* Lists the variables that exist, in the order in which they were created. The caller frees
 * `*variables`; it is NULL when there are none. */
CADRE_API int cadre_client_variables(cadre_client_t *self, int64_t timeout_ms,
                                     cadre_client_variable_t **variables, size_t *count);

/* Reads the whole value of a variable, the partitions joined in order, into `value`: an empty
 * tensor, {0}, or a used one, whose memory is freed. Each partition is of one version; while
 * closures run, partitions may be of different ones. One partition is on its way at a time, and the
 * calls of several threads follow each other.
 *
 * CADRE_ENOTFOUND: the job has no such variable, or dropped it meanwhile.
 * CADRE_EINVALID: the variable is a table, which is read by rows (cadre_client_read_rows); and
 *   `cadre checkpoint export` writes all that a checkpoint holds.
 * CADRE_ETOOLARGE: a partition has more than 128 MiB. */
CADRE_API int cadre_client_read(cadre_client_t *self, const char *name, cadre_tensor_t *value,
                                int64_t timeout_ms);

/* Reads the running average of the values, as cadre_client_read reads the values.
 *
 * CADRE_EINVALID: the variable keeps none. */
CADRE_API int cadre_client_read_average(cadre_client_t *self, const char *name,
                                        cadre_tensor_t *value, int64_t timeout_ms);

/* Rows of a variable. Begins empty, {0}; the struct gets no more fields in later versions. */
typedef struct {
    cadre_tensor_t values; /* [count, then the variable's shape without its first dimension] */
    bool *found;           /* [count]: whether there is such a row; always, but for tables */
} cadre_client_rows_t;

/* Reads some rows of a variable, in the order of `keys` [count]: of a table those of these keys, of
 * another variable those with these numbers on axis 0, from 0 on. A key may stand there several
 * times. A key of a table that has no row (yet, or any more) is not `found`, and its values are the
 * first ones that a row would get; reading makes no row. Each row is of one version; while closures
 * run, rows may be of different ones. `rows` is empty or was read before, and is freed; on an error
 * it stays as it was. The coordinator is asked for at most 4,096 rows and 4 MiB at a time, and the
 * calls of several threads follow each other.
 *
 * CADRE_ENOTFOUND: the job has no such variable, or dropped it meanwhile.
 * CADRE_EINVALID: there is no key; or one is not the number of a row: the error names it and its
 *   place in `keys`.
 * CADRE_ESHAPE: the variable is a scalar, and has no rows.
 * CADRE_ETOOLARGE: there are more than 1,048,576 keys, or a row has more than 128 MiB. */
CADRE_API int cadre_client_read_rows(cadre_client_t *self, const char *name, const uint64_t *keys,
                                     size_t count, cadre_client_rows_t *rows, int64_t timeout_ms);

/* Rows of a slot. The struct gets no more fields in later versions. */
typedef struct {
    const char *variable;
    const char *slot;     /* a name that docs/optimizers.md has, such as "accumulator" */
    const uint64_t *keys; /* [count], as cadre_client_read_rows has them */
    size_t count;
} cadre_client_slot_rows_t;

/* Reads rows of what the optimizer of a variable keeps, as cadre_client_read_rows reads rows of the
 * values: f32, of a table with `row_wise` Adagrad [count, 1]. A key that has no row is not `found`,
 * and has what the slot begins with.
 *
 * CADRE_ENOTFOUND: the job has no such variable, or its optimizer no such slot; the error names
 *   those that it has.
 * Fails otherwise as cadre_client_read_rows. */
CADRE_API int cadre_client_read_slot_rows(cadre_client_t *self,
                                          const cadre_client_slot_rows_t *what,
                                          cadre_client_rows_t *rows, int64_t timeout_ms);

/* Frees what was read, and leaves it empty. NULL does nothing. */
CADRE_API void cadre_client_rows_fini(cadre_client_rows_t *rows);

/* --- Closures --- */

/* For example, the loss of the first 100 rows of a dataset:
 *
 *     cadre_client_call_t call = cadre_client_call();
 *     call.dataset = "rows";
 *     call.count = 100;
 *     s = cadre_client_schedule(client, "evaluate", &call, &closure);
 *     s = s ? s : cadre_client_closure_fetch(closure, "loss", &loss, 60000);
 *     cadre_client_closure_destroy(&closure);
 */

/* A closure that a client has scheduled; the caller's: cadre_client_closure_destroy, before the
 * client is closed. */
typedef struct cadre_client_closure cadre_client_closure_t;

/* A tensor as an argument. The struct gets no more fields in later versions. */
typedef struct {
    const char *name;
    const cadre_tensor_t *tensor;
} cadre_client_argument_t;

/* What a closure is called with; everything is copied. */
typedef struct {
    /* sizeof(cadre_client_call_t), as cadre_client_call sets it. */
    size_t size;

    /* Tensors, at most 64 and 1 MiB. */
    const cadre_client_argument_t *tensors;
    size_t tensor_count;

    /* Rows of a dataset that the job has opened under this name, as arguments "x" and "y": `count`
     * rows in file order, from row `first` on. NULL: none. */
    const char *dataset;
    int64_t first;
    int64_t count;

    /* Updates that it pushes to one shard at most. 0: 1. */
    uint32_t steps;

    /* How long an attempt may run. 0: closure_deadline_ms of the coordinator's options. */
    int64_t deadline_ms;
} cadre_client_call_t;

/* Returns a call without arguments. */
static inline cadre_client_call_t
cadre_client_call(void)
{
    cadre_client_call_t call;
    memset(&call, 0, sizeof(call));
    call.size = sizeof(call);
    return call;
}

/* Schedules a closure of the newest function that the job's program has registered under `function`
 * (the name of its program, or of a native function). Does not wait: what the coordinator answers,
 * a refusal too, is the closure's end. `call` may be NULL.
 *
 * The closure runs behind those that were scheduled before it, and a cadre_coordinator_join of the
 * job's program waits for it, too; of its failure the client alone hears. Where the job is not
 * asynchronous (CADRE_SYNC, CADRE_BOUNDED), the closures of a client may not push, and read the
 * values as they are.
 *
 * It ends with
 *   CADRE_EREFUSED where the job takes no closures of clients, or the function may push and the job
 *     is not asynchronous;
 *   CADRE_ENOTFOUND where the job has no such function or dataset;
 *   CADRE_EINVALID for rows that are not there, or a name of an argument that is none or is twice
 *     there;
 *   CADRE_ETOOLARGE where its results are more than 1 MiB: it has ended well, and counts.
 *
 * CADRE_EINVALID: a bad call.
 * CADRE_ETOOLARGE: the tensors are more than 64, or more than 1 MiB.
 * CADRE_EFULL: 64 requests of this client have not been answered: wait for some of its closures. */
CADRE_API int cadre_client_schedule(cadre_client_t *self, const char *function,
                                    const cadre_client_call_t *call,
                                    cadre_client_closure_t **closure);

/* Waits for the end of the closure, and returns 0 or how it failed: the same every time. */
CADRE_API int cadre_client_closure_wait(cadre_client_closure_t *self, int64_t timeout_ms);

/* Waits for the end of the closure, then copies its result `name` (NULL: the only one, or the
 * first) into `value`, an empty tensor or a used one.
 *
 * CADRE_ENOTFOUND: there is no such result.
 * Else how the closure failed. */
CADRE_API int cadre_client_closure_fetch(cadre_client_closure_t *self, const char *name,
                                         cadre_tensor_t *value, int64_t timeout_ms);

/* Frees the closure and nulls the pointer. One that has not ended goes on. */
CADRE_API void cadre_client_closure_destroy(cadre_client_closure_t **self_p);

/* What is evaluated. The struct gets no more fields in later versions. */
typedef struct {
    const char *function;
    const char *dataset; /* called with all of its rows, in file order */
    const char *result;  /* name of the result, which has one element; NULL: the only one, or the
                            first */
    int64_t batch_size;  /* rows of one call */
} cadre_client_evaluation_t;

/* Calls a function for all rows of a dataset of the job, at most 16 batches at a time, and gives
 * the mean over rows of its result: a mean loss, or an accuracy.
 *
 * CADRE_ENOTFOUND: the job has no such dataset, or the function no such result.
 * CADRE_EINVALID: there is no dataset, or `batch_size` is below 1.
 * CADRE_ESHAPE: the result has several elements.
 * Else as cadre_client_schedule. */
CADRE_API int cadre_client_evaluate(cadre_client_t *self,
                                    const cadre_client_evaluation_t *evaluation, int64_t timeout_ms,
                                    double *mean);

#ifdef __cplusplus
}
#endif
#endif
