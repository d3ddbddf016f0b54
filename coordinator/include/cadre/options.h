/*
 * options - how a coordinator is opened: where, with which checkpoints, and when updates
 * count.
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
    CADRE_RECOVERY_REPLAY = 0,   /* its shard is restored and the closures since run again for it:
                                    nothing is lost, nothing counts twice */
    CADRE_RECOVERY_ROLLBACK = 1, /* every shard is restored, and the closures since run again */
    CADRE_RECOVERY_RELAXED = 2,  /* its shard is restored, the updates since are lost and counted */
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
    CADRE_PLACEMENT_BYTES = 0,       /* to the shard with the fewest bytes */
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

    /* Of initial values, shuffles and random ops. 0: chosen and logged. */
    uint64_t seed;

    /* Closures that may wait; scheduling blocks beyond it. 0: 262,144. */
    size_t queue_capacity;

    /* Silence after which a task is presumed dead. 0: 10,000, over ipc 3,000. */
    int64_t lease_ms;

    /* How long an attempt at a closure may run (see cadre_call_t). 0: as long as it takes. */
    int64_t closure_deadline_ms;

    /* How long a ps may stay away before calls fail; one that is there is waited for while it
     * loads. 0: 60,000. */
    int64_t ps_timeout_ms;

    /* NULL: no checkpoints. */
    const char *checkpoint_dir;

    /* Time between automatic checkpoints, left out where nothing was run or assigned since the last
     * one. 0: none. */
    int64_t checkpoint_every_ms;

    /* Checkpoints that are kept, at least 2. 0: 3. */
    int checkpoint_keep;

    /* With which checkpoint to begin; `resume_path`, where it is not NULL, names it. */
    cadre_resume_t resume;
    const char *resume_path;

    cadre_placement_policy_t placement;

    /* What becomes of the updates that a lost ps had. */
    cadre_recovery_t recovery;

    /* Called for each event. NULL: no output. */
    cadre_log_callback_t log;
    void *log_context;

    /* When closures may start. With CADRE_SYNC what a job computes follows from seed, data and
     * `step_closures` alone, bit for bit, however many workers and ps there are and whatever fails:
     * a lost ps is recovered by CADRE_RECOVERY_ROLLBACK, and CADRE_RECOVERY_RELAXED is refused. */
    cadre_consistency_t consistency;

    /* With CADRE_SYNC: closures of one step, up to 2,048; those of programs that push nothing are
     * not counted. A step ends with fewer where the program waits for one of them. 0: 1. */
    uint32_t step_closures;

    /* With CADRE_BOUNDED: the largest age of an update, in closures, that a pull may miss. 0: the
     * closures run one after the other. */
    uint32_t staleness_bound;

    /* Directory with coordinator.key and allowed/, as `cadre keygen` makes it: tcp connections are
     * then encrypted, and both ends known by their keys. NULL: CADRE_KEYS, else there are none. */
    const char *keys;

    /* Permits an address that other machines reach without keys: whoever reaches it takes part and
     * reads along. Or CADRE_INSECURE_TRANSPORT is 1. Together with keys: CADRE_ECONFIG. */
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

    /* Steps between automatic checkpoints: one begins when closures with so many steps, of
     * functions that may push, were handed out since the cut of the last one. What is handed out
     * until its directory is made is in it too, and while one is under way no other begins. Beside
     * checkpoint_every_ms, whichever comes first. 0: none. */
    int64_t checkpoint_every_steps;

    /* How the job is spread. All but CADRE_STRATEGY_PARAMETER_SERVER mean CADRE_SYNC, with as many
     * closures in a step as CADRE_CLUSTER or TF_CONFIG list workers (`cadre run --strategy NAME --
     * PROGRAM` writes it), or else `step_closures`. What contradicts the strategy is CADRE_ECONFIG:
     * another consistency or step, and a cluster with other tasks than it has. 0: what
     * CADRE_STRATEGY says, else CADRE_STRATEGY_PARAMETER_SERVER. */
    cadre_strategy_t strategy;

    /* Runs the job's one ps and one worker as threads of this process: no other process, no socket
     * of the system. Nothing in the environment but CADRE_DEVICE, CADRE_MATH and CADRE_DATA_DIR is
     * looked at, nor are keys. Both are there when cadre_coordinator_open returns, and end with
     * cadre_coordinator_close. `address` must be NULL, and `ps_count` 0 or 1. Any number of such
     * coordinators may be open at a time. */
    bool local;

    /* With `local`: registers native functions, as the entry point of a shared object does, which
     * it may be (cadre_native_register of <cadre/worker.h>). NULL: there are none. */
    int (*natives)(struct cadre_registry *registry);
} cadre_coordinator_options_t;

/* Returns options with every default in place. It is of the program, not of the library, so that
 * `size` is that of the header the program was built with. */
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
