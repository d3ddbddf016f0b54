/*
 * options - with what a coordinator is opened: address, tasks, checkpoints, consistency, recovery.
 *
 *     cadre_coordinator_options_t options = cadre_coordinator_options();
 *     options.checkpoint_dir = "checkpoints";
 *     options.consistency = CADRE_SYNC;
 *     s = cadre_coordinator_open(&options, &job);
 *
 * The struct grows at its end (coordinator.h, "Structs").
 */
#ifndef CADRE_OPTIONS_H
#define CADRE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cadre/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Called on the coordinator's own thread for each event worth a line: `level` is one of 'D', 'I',
 * 'W', 'E', `event` a word such as "worker_lost", `pairs` the details as key=value. It must return
 * soon and must not call Cadre. */
typedef void (*cadre_log_callback_t)(void *context, char level, const char *event,
                                     const char *pairs);

/* What happens to the updates that a lost ps had applied since the last checkpoint, or since the
 * initial values when there is none. */
typedef enum {
    /* The shard of that ps is restored, and the closures since run again for it: nothing is lost,
     * and nothing counts twice. */
    CADRE_RECOVERY_REPLAY = 0,
    /* Every shard is restored, and the closures since run again. */
    CADRE_RECOVERY_ROLLBACK = 1,
    /* The shard of that ps is restored; the updates since are lost, and counted. */
    CADRE_RECOVERY_RELAXED = 2,
} cadre_recovery_t;

/* When a closure may start, and when its update counts (docs/strategies.md). */
typedef enum {
    CADRE_ASYNC = 0,   /* at once; an update is applied when it arrives */
    CADRE_BOUNDED = 1, /* once every closure more than `staleness_bound` before it has ended */
    CADRE_SYNC = 2,    /* in steps of `step_closures` closures: all pull the values that the step
                          before made, and their updates are applied as one, of their mean */
} cadre_consistency_t;

/* Where the parts of variables go. */
typedef enum {
    /* To the shard with the fewest bytes; in a synchronous job variables of one partition go to the
     * first that has at most 64 KiB with it, where there is one. */
    CADRE_PLACEMENT_BYTES = 0,
    CADRE_PLACEMENT_ROUND_ROBIN = 1, /* to one shard after the other */
} cadre_placement_policy_t;

/* With which checkpoint a job begins. */
typedef enum {
    CADRE_RESUME_NEVER = 0, /* with none */
    CADRE_RESUME_AUTO = 1,  /* with the newest valid one of `checkpoint_dir`, where there is one */
} cadre_resume_t;

struct cadre_registry; /* <cadre/worker.h> */

/* Options of a coordinator. 0 is the default of every field. */
typedef struct {
    /* sizeof(cadre_coordinator_options_t), as cadre_coordinator_options sets it. */
    size_t size;

    /* Name of the job; NULL: "job". */
    const char *job;

    /* Where to bind: "tcp://127.0.0.1:*", "ipc:///path". NULL: what CADRE_CLUSTER or TF_CONFIG
     * says, else ipc in a directory that only this user may enter and that goes when the
     * coordinator is closed. */
    const char *address;

    /* Shards of the job, at most 1,024 (4,096 tasks may join, these included). 0: as in
     * CADRE_CLUSTER or TF_CONFIG, else 1. With address and ps_count neither variable is read. */
    int ps_count;

    /* Seed of initial values, shuffles and random operations. 0: one is chosen, and logged. */
    uint64_t seed;

    /* Closures that may be queued; scheduling blocks while there are so many. 0: 262,144. */
    size_t queue_capacity;

    /* Milliseconds of silence after which a task is presumed dead. 0: 10,000, over ipc 3,000. */
    int64_t lease_ms;

    /* How long an attempt at a closure may run (see cadre_call_t). 0: as long as it takes. */
    int64_t closure_deadline_ms;

    /* Milliseconds that a ps may be away before calls fail; a ps that is connected and loads a
     * checkpoint is waited for longer. 0: 60,000. */
    int64_t ps_timeout_ms;

    /* Directory in which checkpoints are written. NULL: no checkpoints are taken. */
    const char *checkpoint_dir;

    /* Milliseconds between automatic checkpoints; one is skipped when nothing was run or assigned
     * since the last. 0: no checkpoints by time. */
    int64_t checkpoint_every_ms;

    /* Checkpoints that are kept, at least 2. 0: 3. */
    int checkpoint_keep;

    /* With which checkpoint to begin. `resume_path` names one and then wins over `resume`. */
    cadre_resume_t resume;
    const char *resume_path;

    /* On which shards the partitions of new variables are placed. */
    cadre_placement_policy_t placement;

    /* What becomes of the updates that a lost ps had applied. */
    cadre_recovery_t recovery;

    /* Called for each event that is worth a line in a log. NULL: events are not logged. */
    cadre_log_callback_t log;
    void *log_context;

    /* When closures may start. With CADRE_SYNC what a job computes follows from seed, data and
     * `step_closures` alone, bit for bit, however many workers and ps there are and whatever fails:
     * a lost ps is recovered by CADRE_RECOVERY_ROLLBACK, and CADRE_RECOVERY_RELAXED is refused.
     * Of tables under a clip by norms, of those from which rows go, and of those with admit_after,
     * it follows from the number of ps too (docs/strategies.md, "Tables and the number of ps"). */
    cadre_consistency_t consistency;

    /* With CADRE_SYNC: closures of one step, up to 2,048; those of programs that push nothing are
     * not counted. A step ends with fewer where the program waits for one of them. A ps holds the
     * gradients of a step, in up to half of its memory; a closure whose gradient does not fit fails
     * with CADRE_EFULL. 0: 1. */
    uint32_t step_closures;

    /* With CADRE_BOUNDED: the largest age of an update, in closures, that a pull may miss. 0: the
     * closures run one after the other. */
    uint32_t staleness_bound;

    /* Directory with coordinator.key and allowed/, as `cadre keygen` makes it: tcp connections are
     * then encrypted, and both ends known by their keys. NULL: what CADRE_KEYS says, else no
     * keys. */
    const char *keys;

    /* Permits an address that other machines reach although there are no keys: whoever reaches it
     * can take part and read along. CADRE_INSECURE_TRANSPORT=1 in the environment permits it, too.
     * With keys it is refused as CADRE_ECONFIG. */
    bool insecure_transport;

    /* Where to answer /livez, /readyz and /metrics (docs/metrics.md): "PORT" on 127.0.0.1,
     * "HOST:PORT", "*:PORT" or "[IPV6]:PORT", port 0 for any free one. NULL: nowhere. */
    const char *http;

    /* Closures that may have a second attempt on an idle slot of another worker at a time, up to
     * 1,024, when they are in flight for more than one and a half times what is usual for their
     * function, and for 50 ms: the first attempt to end counts, the other is cancelled. Updates
     * count once all the same; unless with CADRE_SYNC, the shards of one closure may take those of
     * different attempts. 0: none. */
    uint32_t backup_attempts;

    /* Steps between automatic checkpoints. A checkpoint begins when closures that may push have
     * been handed out with so many steps since the cut of the last; closures that are handed out
     * until its directory is made are in it too. While a checkpoint is under way no other begins.
     * With checkpoint_every_ms too, whichever comes first. 0: no checkpoints by steps. */
    int64_t checkpoint_every_steps;

    /* How the job is spread. All but CADRE_STRATEGY_PARAMETER_SERVER mean CADRE_SYNC, with as many
     * closures in a step as CADRE_CLUSTER or TF_CONFIG list workers (`cadre run --strategy NAME --
     * PROGRAM` sets CADRE_CLUSTER), or else `step_closures`. Opening fails with CADRE_ECONFIG when
     * options or cluster contradict the strategy: another consistency, step or number of tasks. 0:
     * what CADRE_STRATEGY in the environment says, else CADRE_STRATEGY_MULTI_WORKER for a cluster
     * that lists workers alone, else CADRE_STRATEGY_PARAMETER_SERVER. */
    cadre_strategy_t strategy;

    /* Runs the job's one ps and one worker as threads of this process, without other processes or
     * sockets of the system. Of the environment only CADRE_DEVICE, CADRE_MATH and CADRE_DATA_DIR
     * are read, and keys are not used. Ps and worker run when cadre_coordinator_open returns, and
     * end with cadre_coordinator_close. `ps_count` must be 0 or 1, and `address` NULL, or an ipc
     * address for clients, `cadre status` and more workers: the job then has sockets there and at
     * the same path with "-ps" behind it. Any number of such coordinators may be open at a time.
     * The first one on the CPU loads OpenBLAS, which changes the environment for a moment where
     * the processor is newer than OpenBLAS (cadre_program_evaluate). */
    bool local;

    /* With `local`: called to register native functions, as the entry point of a shared object is
     * (cadre_native_register of <cadre/worker.h>). NULL: there are no native functions. */
    int (*natives)(struct cadre_registry *registry);

    /* Lets clients (<cadre/client.h>) schedule closures of the job's functions. Without it they
     * read variables and nothing else. A client is whoever has the key of a client, or without keys
     * whoever reaches the address. */
    bool client_closures;

    /* Of a job with tables (<cadre/table.h>) every n-th checkpoint is a full one; the others hold
     * of tables what has changed since the one before, which stays on disk as long as they do. 1:
     * all are full. At most 64. 0: 8. The next one is also full when those since the last full one
     * have more than half of its bytes, and more than 16 MiB. */
    uint32_t checkpoint_full_every;

    /* With `local`: how many closures the worker runs at a time, up to 1,024. Where a strategy is
     * synchronous and not CADRE_STRATEGY_LOCAL, each slot stands for a worker of it: a step has as
     * many closures, or `step_closures` where that divides the slots, which several share a worker
     * then. With 1, steps of one closure and no `natives` the slot runs closures in
     * series, and no further worker is taken. 0: 2, which stand for one worker. */
    int local_slots;

    /* With `local`: threads of the host that one slot computes with. 0: CPUs / slots. */
    int local_threads;

    /* With `local`: threads of the ps that apply large updates, up to 256. 0: half of the CPUs, 16
     * at most. */
    int local_ps_lanes;

    /* With `local`: the device, as CADRE_DEVICE names it. NULL: what CADRE_DEVICE says, else a GPU
     * if there is one. */
    const char *local_device;

    /* With `local`: where relative paths of datasets begin. NULL: what CADRE_DATA_DIR says, else
     * the current folder. */
    const char *local_data_dir;

    /* With `local`: file that the worker writes its trace to (docs/tracing.md). NULL: none. */
    const char *local_trace;
} cadre_coordinator_options_t;

/* Returns options with every default in place. Inline, so that it is compiled into the program and
 * `size` is that of the header which the program was built with. */
static inline cadre_coordinator_options_t
cadre_coordinator_options(void)
{
    cadre_coordinator_options_t options;
    memset(&options, 0, sizeof(options));
    options.size = sizeof(options);
    return options;
}

#ifdef __cplusplus
}
#endif
#endif
