/*
 * limits - every bound of Cadre in one place, with what happens at it.
 */
#ifndef CADRE_COMMON_BASE_LIMITS_H
#define CADRE_COMMON_BASE_LIMITS_H

#include <stdint.h>

enum {
    /* The versions that this build speaks; a HELLO without one between them is refused. */
    CADRE_PROTOCOL_VERSION = 1,
    CADRE_PROTOCOL_LOWEST = 1,

    CADRE_PROTOCOL_GREETING = 0, /* version of REFUSED, which tasks of all versions can read */

    /* Limits of the wire: a message over one of them is refused as malformed, and counted, when it
     * has arrived. While it arrives common/net/receiving.h bounds its frames and bytes. */
    CADRE_HEADER_SIZE_MAX = 4096,
    /* Bytes of the header of a message that carries lists or definitions. */
    CADRE_LARGE_HEADER_SIZE_MAX = 65536,
    CADRE_HEADER_TOKENS_MAX = 256,
    CADRE_HEADER_DEPTH_MAX = 4,
    CADRE_HEADER_STRING_MAX = 255,
    CADRE_CHUNK_SIZE_MAX = 1 << 20,

    /* Most payload frames (chunks) of one message: a large header has room for the sizes of so many
     * and for the longest lists. A message with a small header carries fewer. */
    CADRE_MESSAGE_CHUNKS_MAX = 4096,
    CADRE_SMALL_MESSAGE_CHUNKS_MAX = 256,

    CADRE_BUILD_SIZE_MAX = 64, /* characters of a build's name on the wire */
    CADRE_NAME_SIZE_MAX = 128, /* characters of a variable, function, dataset or result name */

    /* Characters of an error text on the wire; longer ones are cut. */
    CADRE_TEXT_SIZE_MAX = 255,

    CADRE_TASKS_MAX = 4096, /* the HELLO of one more is refused */
    CADRE_SHARDS_MAX = 1024,

    /* Bytes of a file with a key; a longer file is refused. */
    CADRE_CERTIFICATE_SIZE_MAX = 4096,

    /* Keys in the folder of allowed keys; with more, the whole folder is refused. */
    CADRE_ALLOWED_KEYS_MAX = 4096,

    CADRE_PARTITIONS_PER_VARIABLE_MAX = 65536, /* creating a variable with more is refused */

    /* Most partitions in one PULL or PUSH; a worker spreads more of them over several messages. */
    CADRE_PARTITIONS_PER_UPDATE_MAX = 1024,

    /* Rows of partitions in one PULL or ASSIGN: so many partitions, so many rows (with ids of half
     * a chunk), and so many bytes of values, or a single row that is larger. A ps refuses more;
     * whoever reads or assigns more sends several messages. */
    CADRE_ROW_PARTS_MAX = 192,
    CADRE_ROWS_MAX = 65536,
    CADRE_ROWS_SIZE_MAX = 4 << 20,

    CADRE_OPTIMIZER_SLOTS_MAX = 4, /* at most 3 of the optimizer itself, and the average */

    /* Versions of a partition that a shard keeps for delay compensation; a gradient of an older one
     * is applied as it came, and counted. */
    CADRE_PULLED_VERSIONS_MAX = 16,

    /* Of a table: numbers of a row, keys of one update, and sightings that a key may have to wait
     * for. The spec or the update with more is refused. */
    CADRE_TABLE_DIM_MAX = 8192,
    CADRE_TABLE_KEYS_MAX = 1 << 20,
    CADRE_TABLE_ADMIT_MAX = 255,
    CADRE_TABLE_ROWS_MAX =
        INT32_MAX, /* rows of a table on one shard; beyond, updates are refused */

    /* Checkpoints of which one is full where there are tables, unless the job says another number:
     * what is read for a restore, and kept for it, is at most so many. And the most of these. */
    CADRE_CHECKPOINT_FULL_EVERY = 8,
    CADRE_CHECKPOINT_FULL_EVERY_MAX = 64,

    /* A chain also ends when its incremental checkpoints have more than this part, a half, of the
     * bytes of its full one; but so many bytes are always free to it: files of tables that hold
     * little are as large as full ones. */
    CADRE_CHECKPOINT_CHAIN_SHARE = 2,
    CADRE_CHECKPOINT_CHAIN_BYTES_FREE = 16 << 20,

    /* Rows that one call of the API reads or assigns; a call for more is refused. */
    CADRE_ROWS_PER_CALL_MAX = 1 << 26,

    /* Positions of a sequence that gru or lstm unroll; a longer one is refused. With its gradient a
     * position is some 60 of the 65,536 nodes of a program. */
    CADRE_RECURRENT_STEPS_MAX = 256,

    CADRE_RESULTS_MAX = 64,           /* named results of one closure */
    CADRE_VARIABLE_SHARDS_MAX = 4096, /* partitions described in one VARIABLE message */
    CADRE_SLOTS_MAX = 1024,           /* closures in progress on one worker */
    CADRE_THREADS_MAX = 1024,         /* compute threads of one worker */
    CADRE_LANES_MAX = 256,            /* threads of one ps that apply an update */

    /* Most closures that a worker may hold (credit) when closures are short. A worker with more
     * than half as many slots may hold twice as many closures as it has slots. */
    CADRE_CREDIT_MAX = 512,

    /* Bytes of small variables that a synchronous job puts on one shard before the next gets any:
     * about what a process copies in the time that a question to one more shard takes. */
    CADRE_FILL_SIZE = 64 << 10,

    CADRE_HELD_MAX = 4096,      /* closures held by one worker: running, waiting, unacknowledged */
    CADRE_BATCHES_MAX = 8,      /* dataset batches of one closure */
    CADRE_ARGUMENTS_MAX = 64,   /* arguments of one closure */
    CADRE_RESOURCES_MAX = 4096, /* resources of a job; creating one more is refused */
    CADRE_RESOURCES_PER_CLOSURE_MAX = 16, /* schedule refuses more */

    /* Most native functions that one worker tells the coordinator that it lacks. Closures of any
     * other that it lacks are handed back. */
    CADRE_LACKS_MAX = 1024,

    /* Most tables of which a ps tells what they hold in its heartbeats; of others nothing is
     * known while a job runs. */
    CADRE_TABLES_TOLD_MAX = 64,

    CADRE_STEPS_MAX = 65536, /* updates of one closure to one shard; schedule refuses more */

    /* Bytes of values that a worker may have asked of one shard and not yet received; further PULLs
     * wait. */
    CADRE_IN_FLIGHT_SIZE_MAX = 64 << 20,

    /* Bytes queued for one peer; beyond it the peer is lost. */
    CADRE_SEND_QUEUE_SIZE_MAX = 256 << 20,

    /* The receive window of pushes: bytes of PUSHes that a worker may have unanswered without a
     * grant. The minimum holds until a ps has announced its own, which is at most the maximum. */
    CADRE_WINDOW_SIZE_MIN = 16 << 10,
    CADRE_WINDOW_SIZE_MAX = 4 << 20,

    CADRE_PUSH_PART_SIZE = 4 << 20,   /* a larger PUSH is sent in parts of this size */
    CADRE_RESULT_SIZE_MAX = 64 << 20, /* results of one closure; beyond it the closure fails */

    /* All arguments of one closure, results of other closures included. Beyond it schedule refuses,
     * or the closure fails where an argument is a result that is too large. */
    CADRE_ARGUMENTS_SIZE_MAX = 64 << 20,

    /* Bytes of results that unfinished closures take as arguments. Beyond it schedule blocks;
     * beyond twice as much, closures that still wait for a result fail. */
    CADRE_VALUES_SIZE_MAX = 1 << 30,

    /* Results from this size on are cached by workers for the closures that take them. Smaller ones
     * are sent with every closure. */
    CADRE_KEPT_VALUE_SIZE_MIN = 4096,

    /* Bytes of results that one worker caches; the least recently used is evicted. */
    CADRE_KEPT_VALUES_SIZE_MAX = 256 << 20,

    /* MiB of a worker for rows of tables, which it keeps for its next pulls: by default, and at
     * most. */
    CADRE_ROW_CACHE_MIB = 64,
    CADRE_ROW_CACHE_MIB_MAX = 65536,

    /* Workers that the coordinator remembers as caching one result; one more replaces the first. */
    CADRE_VALUE_HOLDERS_MAX = 64,

    /* Rows of one dataset from memory, with their labels. A larger one is refused; what is larger
     * belongs into a file, which each worker reads by itself. */
    CADRE_MEMORY_ROWS_SIZE_MAX = 256 << 20,
    /* Chunks of such rows in one message: a worker asks for so many at a time, and between two such
     * messages the connection carries what else there is to say. */
    CADRE_MEMORY_PIECE_CHUNKS = 4,
    CADRE_MEMORY_PIECES_MAX =
        CADRE_MEMORY_ROWS_SIZE_MAX / CADRE_CHUNK_SIZE_MAX / CADRE_MEMORY_PIECE_CHUNKS,

    CADRE_CLOSURE_QUEUE_MAX = 262144, /* schedule blocks */
    CADRE_STEP_CLOSURES_MAX = 2048,   /* of one synchronous step */
    /* Backup attempts at a time; opening a coordinator that allows more is refused. */
    CADRE_BACKUP_ATTEMPTS_MAX = 1024,
    /* Update ids above its base that a shard keeps track of. When they are used up, no further
     * closure starts until the base has moved. */
    CADRE_APPLIED_WINDOW_MAX = 1 << 26,

    /* Closures, and bytes of closures, that are kept for a replay. At either limit a checkpoint is
     * taken; at twice as much no further closure starts until it is committed. */
    CADRE_REPLAY_CLOSURES_MAX = 1000000,
    CADRE_REPLAY_SIZE_MAX = 256 << 20,

    /* Closures of a replay that are skipped for a worker which cannot run them. Beyond it the
     * replay waits for another worker. */
    CADRE_REPLAY_PASSED_MAX = 256,

    CADRE_WAITS_MAX = 64, /* closures of one worker that are marked as waiting for a shard */

    /* Closures parked for an absent shard; beyond it no further closure starts. */
    CADRE_ASIDE_MAX = 4096,

    /* Workers that died while they ran a closure or built a resource. After so many deaths the
     * closure or the build is isolated: it runs on one worker at a time, alone there for
     * CADRE_ALONE_MS at most. */
    CADRE_SUSPECT_DEATHS = 3,
    CADRE_ALONE_MS = 300000,

    /* Deaths after which an isolated closure fails as poison, where chance does not explain so many
     * (coordinator/core/closures/suspicion.h). */
    CADRE_POISON_DEATHS = 10,

    /* How long a closure waits while no present worker has its function or its data; then it fails.
     * A new dataset waits as long for further workers to say which rows they have. */
    CADRE_UNSERVED_MS = 5000,

    CADRE_OVERRUNS_MAX = 3,      /* deadlines that a closure runs past; then it fails */
    CADRE_DEVICE_TRIES_MAX = 10, /* attempts that failed on a device; then the closure fails */

    /* Builds of a resource that failed on a worker's device; then the resource fails on that
     * worker. */
    CADRE_BUILD_TRIES_MAX = 10,

    CADRE_HEARTBEAT_MS = 1000,
    CADRE_SUSPECT_MS = 3000,     /* a task silent for this long gets no new work */
    CADRE_LEASE_MS = 10000,      /* a task silent for this long is presumed dead */
    CADRE_LOCAL_LEASE_MS = 3000, /* the lease under the local launcher */
    /* The lease of hosted tasks, which are threads of the coordinator's process: they cannot be
     * lost, and stand still with it in a debugger. */
    CADRE_HOSTED_LEASE_MS = 3600000,
    /* How long a hosted ps or worker, a thread of the coordinator's process, may take to join. */
    CADRE_LOCAL_JOIN_MS = 60000,
    CADRE_LOCAL_STOP_MS = 5000, /* how long a hosted ps or worker may take to end */
    /* Slots of a hosted worker: while one waits for values the other computes; each has its share
     * of the CPUs. */
    CADRE_LOCAL_SLOTS = 2,
    /* Clients, which read and schedule without being members. One more may not attach. */
    CADRE_CLIENTS_MAX = 64,
    /* Requests of one client that have no answer yet; its program waits with a further one. */
    CADRE_CLIENT_REQUESTS_MAX = 64,
    /* Bytes of a partition that a client may read: the coordinator has as much of each client in
     * memory, since a client reads one partition at a time. A larger one is refused. */
    CADRE_CLIENT_READ_SIZE_MAX = 128 << 20,
    /* Rows that one READ of a client names; for more it asks several times. */
    CADRE_CLIENT_ROWS_MAX = 4096,
    /* Rows that one call of a client reads; with more the call fails. */
    CADRE_CLIENT_ROWS_PER_CALL_MAX = 1 << 20,
    /* Bytes of the arguments of a client's closure; scheduling it with more is refused. */
    CADRE_CLIENT_ARGUMENTS_SIZE_MAX = 1 << 20,
    /* Bytes of the results of a client's closure; with more the client gets an error instead. */
    CADRE_CLIENT_RESULTS_SIZE_MAX = 1 << 20,
    CADRE_LISTED_MAX = 128,  /* what one LISTED names */
    CADRE_LISTED_ITEMS = 13, /* numbers for each: five, and eight dimensions */

    CADRE_STATUS_MS = 100, /* minimum interval between status messages to clients */

    /* Minimum interval between log lines about dropped messages. */
    CADRE_DROPPED_LOG_MS = 10000,

    CADRE_RESEND_MS = 1000, /* an unanswered small control message is retransmitted */

    /* An unanswered request is probed after CADRE_PROBE_MS, then with exponential backoff up to
     * CADRE_PROBE_MAX_MS, which is less than CADRE_MUTE_MS. */
    CADRE_PROBE_MS = 1000,
    CADRE_PROBE_MAX_MS = 4000,

    /* Requests in one PROBE, the oldest; the next PROBE has the others. */
    CADRE_PROBE_REQUESTS_MAX = 1024,

    /* A task that does not serve further sessions leaves when the coordinator has been absent for
     * this long. */
    CADRE_COORDINATOR_TIMEOUT_S = 600,

    /* A HELLO that a worker repeats within this time is not answered twice. */
    CADRE_HELLO_ANSWER_MS = 100,

    /* A restore that has read nothing of its checkpoint for this long has stalled: the ps reports
     * that, and is lost after a lease. */
    CADRE_LOAD_STALL_MS = 30000,

    CADRE_REDIAL_MS = 2000, /* pause between a handshake that failed and the next one */

    /* A connection whose HELLO is unanswered for this long may be one that the ROUTER ignores
     * (half-open), so the task replaces it. A data connection is replaced when requests are
     * unanswered and nothing arrives for this long. */
    CADRE_MUTE_MS = 5000,

    /* A worker that receives nothing from a shard for this long, though it asks, hands back the
     * closures that need the shard (--shard-timeout, and its maximum). */
    CADRE_SHARD_TIMEOUT_S = 30,
    CADRE_SHARD_TIMEOUT_S_MAX = 1000000,

    CADRE_WAIT_NAMED_MS = 1000, /* a closure that waits this long for a shard is logged */

    /* A worker or ps whose own timers are this late was stalled itself, and blames no peer for the
     * silence. */
    CADRE_OWN_STALL_MS = 1000,

    /* Bytes per second that the slowest link carries. A data connection on which nothing comes is
     * given, besides CADRE_MUTE_MS, the time that its bytes in flight take at this rate, and twice
     * as long for each connection given up before it, up to CADRE_MUTE_MAX_MS. */
    CADRE_LINK_RATE_MIN = 4 << 20,
    CADRE_MUTE_MAX_MS = 600000,

    /* Probes and metrics (http_server.h). */
    /* HTTP connections at a time; one more waits in the kernel's queue */
    CADRE_HTTP_CONNECTIONS_MAX = 32,

    /* Beyond this many connections the oldest of the address with the most is closed, so that no
     * two addresses keep the others out. */
    CADRE_HTTP_CROWD = 16,

    CADRE_HTTP_CONNECTIONS_PER_ADDRESS_MAX = 8, /* one more is closed */
    CADRE_HTTP_IDLE_S = 10,                     /* an idle connection is closed */
    CADRE_HTTP_CONNECTION_MS = 30000,           /* any connection is closed after this long */
    /* Bytes of a request's line and headers; a longer one is answered with 431 or 414. */
    CADRE_HTTP_REQUEST_SIZE_MAX = 16384,

    /* Interval between two updates of what the HTTP server answers; a change of readiness is
     * published at once. */
    CADRE_HTTP_PUBLISH_MS = 1000,

    /* An actor without a turn for this long: the process counts as not alive. */
    CADRE_HTTP_ALIVE_MS = 30000,

    /* Staleness histograms of one worker, one per variable. Later variables share one under the
     * name "(other)". */
    CADRE_STALENESS_VARIABLES_MAX = 256,

    CADRE_METRICS_TASKS_MAX = 256, /* tasks whose metrics a coordinator lists one by one */
};

#endif
