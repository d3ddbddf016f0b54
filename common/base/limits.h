/*
 * limits - every bound of Cadre in one place, with what happens at it.
 */
#ifndef CADRE_COMMON_BASE_LIMITS_H
#define CADRE_COMMON_BASE_LIMITS_H

#include <stdint.h>

enum {
    CADRE_PROTOCOL_VERSION = 1,  /* the highest that this build speaks, */
    CADRE_PROTOCOL_LOWEST = 1,   /* and the lowest: a HELLO without one between is refused */
    CADRE_PROTOCOL_GREETING = 0, /* what REFUSED is written in, whatever both speak */

    /* Wire: a message beyond one of these is refused as malformed and counted, once it is there.
     * While it comes, receiving.h bounds the frames and bytes of it. */
    CADRE_HEADER_SIZE_MAX = 4096,
    CADRE_LARGE_HEADER_SIZE_MAX = 65536, /* messages that carry lists or definitions */
    CADRE_HEADER_TOKENS_MAX = 256,
    CADRE_HEADER_DEPTH_MAX = 4,
    CADRE_HEADER_STRING_MAX = 255,
    CADRE_CHUNK_SIZE_MAX = 1 << 20,
    CADRE_MESSAGE_CHUNKS_MAX = 4096,      /* payload frames of one message: their sizes and the
                                             longest lists fit a large header together */
    CADRE_SMALL_MESSAGE_CHUNKS_MAX = 256, /* the same for messages with a small header */

    CADRE_BUILD_SIZE_MAX = 64, /* characters of a build's name on the wire */
    CADRE_NAME_SIZE_MAX = 128, /* characters of a variable, function, dataset or result name */
    CADRE_TEXT_SIZE_MAX = 255, /* characters of an error text on the wire; longer ones are cut */
    CADRE_TASKS_MAX = 4096,    /* HELLO beyond it is refused */
    CADRE_SHARDS_MAX = 1024,

    CADRE_CERTIFICATE_SIZE_MAX = 4096, /* bytes of a file with a key: a longer one is refused */
    CADRE_ALLOWED_KEYS_MAX = 4096,     /* keys in the folder of those that may connect: it is
                                          refused as a whole */

    CADRE_PARTITIONS_PER_VARIABLE_MAX = 65536, /* refused when the variable is created */
    CADRE_PARTITIONS_PER_UPDATE_MAX = 1024,    /* in one PULL or PUSH: a worker sends several */
    CADRE_RESULTS_MAX = 64,                    /* named results of one closure */
    CADRE_VARIABLE_SHARDS_MAX = 4096,          /* partitions told in one VARIABLE message */
    CADRE_SLOTS_MAX = 1024,                    /* closures in progress on one worker */
    CADRE_LANES_MAX = 256,                     /* threads of one ps that apply an update */
    CADRE_CREDIT_MAX = 512,     /* closures that a worker is given ahead when they are short; with
                                   more than half as many slots, twice its slots */
    CADRE_HELD_MAX = 4096,      /* closures held by one worker: running, waiting, unacknowledged */
    CADRE_BATCHES_MAX = 8,      /* dataset batches of one closure */
    CADRE_ARGUMENTS_MAX = 64,   /* arguments of one closure */
    CADRE_RESOURCES_MAX = 4096, /* of a job; creating one more is refused */
    CADRE_RESOURCES_PER_CLOSURE_MAX = 16, /* schedule refuses more */
    CADRE_LACKS_MAX = 1024,  /* native functions that one worker says it lacks; closures of further
                                ones it hands back */
    CADRE_STEPS_MAX = 65536, /* updates of one closure to one shard; schedule refuses more */

    CADRE_IN_FLIGHT_SIZE_MAX =
        64 << 20, /* bytes per worker and shard; further messages wait their turn */
    CADRE_SEND_QUEUE_SIZE_MAX = 256 << 20, /* bytes that wait for one peer; then it is lost */
    CADRE_WINDOW_SIZE_MIN = 16 << 10, /* bytes of PUSHes unanswered that a worker has not asked for:
                                         before a ps has told it how many, */
    CADRE_WINDOW_SIZE_MAX = 4 << 20,  /* and the most that one tells */
    CADRE_PUSH_PART_SIZE = 4 << 20,   /* a larger PUSH goes in parts of that size */
    CADRE_RESULT_SIZE_MAX = 64 << 20, /* the closure fails */
    CADRE_ARGUMENTS_SIZE_MAX = 64 << 20, /* all arguments of one closure, those that are results of
                                            others included: schedule refuses more, or it fails */
    CADRE_VALUES_SIZE_MAX = 1 << 30,     /* results that closures which have not ended take as
                                            arguments: schedule of one more of them waits; at twice
                                            as much those that wait for another result fail */
    CADRE_KEPT_VALUE_SIZE_MIN = 4096,    /* a smaller result is sent with every closure that takes
                                            it; workers keep larger ones for those */
    CADRE_KEPT_VALUES_SIZE_MAX = 256 << 20, /* of them on one worker: the one that was used longest
                                               ago goes */
    CADRE_VALUE_HOLDERS_MAX = 64,           /* workers that are known to have a result; of further
                                               ones the first is forgotten */
    CADRE_CLOSURE_QUEUE_MAX = 262144,       /* schedule blocks */
    CADRE_APPLIED_WINDOW_MAX = 1 << 26,     /* update ids above the base; dispatch stops at it */
    CADRE_REPLAY_CLOSURES_MAX = 1000000, /* kept since the last checkpoint: one is taken; at twice
                                            as many nothing new is begun until it is there */
    CADRE_REPLAY_SIZE_MAX = 256 << 20,   /* bytes of them, the same */
    CADRE_REPLAY_PASSED_MAX = 256,       /* of them, that a worker cannot take and that are passed
                                            over for it; then they are waited for */
    CADRE_WAITS_MAX = 64,     /* closures of one worker that are told to wait for a shard */
    CADRE_ASIDE_MAX = 4096,   /* closures that wait for a shard that is away; then nothing new is
                                 begun */
    CADRE_SUSPECT_DEATHS = 3, /* of workers while they had a closure, or a resource to build; then
                                 it is tried on one worker at a time, which does nothing else */
    CADRE_ALONE_MS = 300000,  /* that long; then the worker does other things beside */
    CADRE_POISON_DEATHS = 10, /* then it has failed as poison, where so many were not to be expected
                                 (coordinator/core/suspicion.h) */
    CADRE_UNSERVED_MS = 5000, /* that long a closure waits when no worker that is there has its
                                 function or its data; then it fails. So long, too, a dataset waits
                                 for more workers to say which rows they have */
    CADRE_OVERRUNS_MAX = 3,   /* attempts that ran past the closure's deadline; then it fails */
    CADRE_DEVICE_TRIES_MAX = 10, /* attempts that devices have ended; then the closure fails */
    CADRE_BUILD_TRIES_MAX = 10,  /* of a resource on one worker, ended by its device; then it has
                                    failed there */

    CADRE_HEARTBEAT_MS = 1000,
    CADRE_SUSPECT_MS = 3000,      /* silent that long: no new work */
    CADRE_LEASE_MS = 10000,       /* silent that long: presumed dead */
    CADRE_LOCAL_LEASE_MS = 3000,  /* the same under the local launcher */
    CADRE_STATUS_MS = 100,        /* clients are told how the job stands no more often */
    CADRE_DROPPED_LOG_MS = 10000, /* the log tells of dropped messages no more often */
    CADRE_RESEND_MS = 1000,       /* small control messages that nobody has answered go again */
    CADRE_PROBE_MS = 1000,     /* a request unanswered that long is asked after with PROBE, then */
    CADRE_PROBE_MAX_MS = 4000, /* ever more seldom up to this, less than CADRE_MUTE_MS */
    CADRE_PROBE_REQUESTS_MAX = 1024,   /* that one PROBE asks after, the oldest; the next one asks
                                          after the others */
    CADRE_COORDINATOR_TIMEOUT_S = 600, /* a task that exits with its session leaves when the
                                          coordinator has been away that long */
    CADRE_HELLO_ANSWER_MS = 100,       /* a worker that says the same HELLO again that soon is not
                                          answered again */
    CADRE_LOAD_STALL_MS = 30000, /* a checkpoint of which nothing was read for so long: the ps says
                                    that its shard stands still, and is lost after a lease */
    CADRE_REDIAL_MS = 2000,      /* after a handshake that failed, until the next one */
    CADRE_MUTE_MS = 5000,        /* connected, and HELLO unanswered that long: the connection may be
                                    one that the ROUTER ignores, so the task makes another one. The
                                    same for a data connection with requests unanswered and nothing
                                    heard for that long */
    CADRE_SHARD_TIMEOUT_S = 30,  /* a worker that has heard nothing from a shard for so long, though
                                    it asks, gives back what needs it: --shard-timeout, */
    CADRE_SHARD_TIMEOUT_S_MAX = 1000000, /* and the most that it takes */
    CADRE_WAIT_NAMED_MS = 1000,          /* a closure that waits so long for a shard is told of */
    CADRE_OWN_STALL_MS = 1000, /* a worker or ps that comes so late to its own timers stood still
                                  itself, and counts that against nobody */
    CADRE_LINK_RATE_MIN = 4 << 20, /* bytes per second: a data connection gets that much longer for
                                      what is under way on it, and twice as long for each one that
                                      was given up before it, up to */
    CADRE_MUTE_MAX_MS = 600000,

    /* Probes and metrics (http_server.h). */
    CADRE_HTTP_CONNECTIONS_MAX = 32, /* a further one waits in the kernel's queue; */
    CADRE_HTTP_CROWD = 16,           /* of more than these, the oldest is ended of the address that
                                        has the most: no two addresses keep the others out */
    CADRE_HTTP_CONNECTIONS_PER_ADDRESS_MAX = 8, /* a further one is closed */
    CADRE_HTTP_IDLE_S = 10,              /* a connection that brings and takes nothing is closed, */
    CADRE_HTTP_CONNECTION_MS = 30000,    /* and one that takes longer than this, whatever it does */
    CADRE_HTTP_REQUEST_SIZE_MAX = 16384, /* bytes of a request's line and headers: 431 or 414 */
    CADRE_HTTP_PUBLISH_MS = 1000,        /* figures are told so often, or when readiness changes */
    CADRE_HTTP_ALIVE_MS = 30000,         /* an actor that takes no turn for so long: not alive */
    CADRE_STALENESS_VARIABLES_MAX = 256, /* histograms of one worker, one for each variable: later
                                            variables share one of the name "(other)" */
    CADRE_METRICS_TASKS_MAX = 256,       /* tasks that a coordinator tells figures of one by one */
};

#endif
