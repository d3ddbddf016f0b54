/*
 * messages - the schema of every message: the single source of structs, codec, checks, log form and
 * document.
 *
 * A message is one header frame and up to CADRE_MESSAGE_CHUNKS_MAX payload frames. The header is a
 * msgpack array
 *
 *     [protocol, type, request, incarnation, epoch, sizes, field, field, ...]
 *
 * with the fields in the order of the tables below; `sizes` is a bin of little-endian u64, the
 * bytes of each payload frame. README.md beside this file holds the grammar: who sends what, when,
 * and what answers it.
 *
 * Message rows:  X(name, NAME, number, header limit, senders, plane, receivers)
 *   number   on the wire; never reused
 *   limit    SMALL (CADRE_HEADER_SIZE_MAX) or LARGE (CADRE_LARGE_HEADER_SIZE_MAX)
 *   senders  roles that may send it: COORDINATOR, PS, WORKER, CLIENT, joined with |, ASKERS for
 *            COORDINATOR | WORKER, and LEAVERS for PS | WORKER | CLIENT; anyone else is refused
 *   plane    CONTROL or DATA: how it travels; a REPLY, and PROBE with PROBED, on the other one too
 *   receivers  roles that it is for, in the same words
 *
 * Field rows:  F(kind, name, limit)
 *   U64   uint64_t, limit: the largest value
 *   STR   const char *, UTF-8 without control characters, limit: bytes
 *   TEXT  a STR for people: the encoder cuts it at the limit and replaces what is not clean UTF-8
 *   U64S  list of uint64_t, limit: count; travels as one bin of little-endian values
 *   F64S  list of finite doubles, the same way
 *   STRS  list of strings of at most CADRE_NAME_SIZE_MAX bytes, limit: count
 *
 * A message for ps alone with a field `shard` says there for which it is: a ps that serves another
 * one does not take it.
 *
 * A field named `status` is minus the CADRE_E number: 0 for success, 2000 and up for a failure.
 */
#ifndef CADRE_PROTO_SCHEMAS_MESSAGES_H
#define CADRE_PROTO_SCHEMAS_MESSAGES_H

/* clang-format off */
#define CADRE_MESSAGE_LIST(X)                                                             \
    /* membership, control plane */                                                       \
    X(hello,            HELLO,             1, LARGE, PS | WORKER, CONTROL, COORDINATOR)   \
    X(welcome,          WELCOME,           2, SMALL, COORDINATOR, CONTROL, PS | WORKER)   \
    X(unknown_peer,     UNKNOWN_PEER,      3, SMALL, COORDINATOR, CONTROL, LEAVERS)       \
    X(heartbeat,        HEARTBEAT,         4, LARGE, PS | WORKER, CONTROL, COORDINATOR)   \
    X(drain,            DRAIN,             5, SMALL, COORDINATOR, CONTROL, PS | WORKER)   \
    X(stop,             STOP,              6, SMALL, COORDINATOR, CONTROL, LEAVERS)       \
    X(goodbye,          GOODBYE,           7, SMALL, LEAVERS,     CONTROL, COORDINATOR)   \
    X(reply,            REPLY,             8, SMALL, PS,          CONTROL, COORDINATOR)   \
    X(refused,          REFUSED,           9, SMALL, COORDINATOR, CONTROL, PS | WORKER)   \
    X(status,           STATUS,           10, SMALL, CLIENT,      CONTROL, COORDINATOR)   \
    X(status_text,      STATUS_TEXT,      11, SMALL, COORDINATOR, CONTROL, CLIENT)        \
    /* definitions, control plane */                                                      \
    X(shard,            SHARD,            16, SMALL, COORDINATOR, CONTROL, WORKER)        \
    X(variable,         VARIABLE,         17, LARGE, COORDINATOR, CONTROL, WORKER)        \
    X(function,         FUNCTION,         18, SMALL, COORDINATOR, CONTROL, WORKER)        \
    X(dataset,          DATASET,          19, SMALL, COORDINATOR, CONTROL, WORKER)        \
    X(dataset_ready,    DATASET_READY,    20, SMALL, WORKER,      CONTROL, COORDINATOR)   \
    X(want,             WANT,             21, SMALL, WORKER,      CONTROL, COORDINATOR)   \
    X(resource,         RESOURCE,         22, LARGE, COORDINATOR, CONTROL, WORKER)        \
    X(definitions,      DEFINITIONS,      23, SMALL, COORDINATOR, CONTROL, WORKER)        \
    /* closures, control plane */                                                         \
    X(closure,          CLOSURE,          32, LARGE, COORDINATOR, CONTROL, WORKER)        \
    X(cancel,           CANCEL,           33, LARGE, COORDINATOR, CONTROL, WORKER)        \
    X(closure_done,     CLOSURE_DONE,     34, LARGE, WORKER,      CONTROL, COORDINATOR)   \
    X(closure_failed,   CLOSURE_FAILED,   35, SMALL, WORKER,      CONTROL, COORDINATOR)   \
    X(ack,              ACK,              36, LARGE, COORDINATOR, CONTROL, PS | WORKER)   \
    /* shards, control plane */                                                           \
    X(create,           CREATE,           48, SMALL, COORDINATOR, CONTROL, PS)            \
    X(settle,           SETTLE,           49, SMALL, COORDINATOR, CONTROL, PS)            \
    X(snapshot,         SNAPSHOT,         50, SMALL, COORDINATOR, CONTROL, PS)            \
    X(snapshot_taken,   SNAPSHOT_TAKEN,   51, SMALL, PS,          CONTROL, COORDINATOR)   \
    X(snapshot_written, SNAPSHOT_WRITTEN, 52, SMALL, PS,          CONTROL, COORDINATOR)   \
    X(checkpoint_end,   CHECKPOINT_END,   53, SMALL, COORDINATOR, CONTROL, PS)            \
    X(restore,          RESTORE,          54, SMALL, COORDINATOR, CONTROL, PS)            \
    X(count,            COUNT,            55, SMALL, COORDINATOR, CONTROL, PS)            \
    X(close_cut,        CLOSE_CUT,        56, SMALL, COORDINATOR, CONTROL, PS)            \
    X(drop,             DROP,             60, SMALL, COORDINATOR, CONTROL, PS)            \
    X(retire,           RETIRE,           61, SMALL, COORDINATOR, CONTROL, PS)            \
    X(end_step,         END_STEP,         62, LARGE, COORDINATOR, CONTROL, PS)            \
    /* values, data plane */                                                              \
    X(pull,             PULL,             64, LARGE, ASKERS,      DATA,    PS)            \
    X(values,           VALUES,           65, LARGE, PS,          DATA,    ASKERS)        \
    X(push,             PUSH,             66, LARGE, WORKER,      DATA,    PS)            \
    X(applied,          APPLIED,          67, LARGE, PS,          DATA,    WORKER)        \
    X(assign,           ASSIGN,           68, LARGE, COORDINATOR, DATA,    PS)            \
    X(probe,            PROBE,            69, LARGE, ASKERS,      DATA,    PS)            \
    X(probed,           PROBED,           70, LARGE, PS,          DATA,    ASKERS)        \
    X(reserve,          RESERVE,          71, SMALL, WORKER,      DATA,    PS)            \
    X(grant,            GRANT,            72, SMALL, PS,          DATA,    WORKER)        \
    /* clients, control plane */                                                          \
    X(attach,           ATTACH,           80, SMALL, CLIENT,      CONTROL, COORDINATOR)   \
    X(attached,         ATTACHED,         81, SMALL, COORDINATOR, CONTROL, CLIENT)        \
    X(list,             LIST,             82, SMALL, CLIENT,      CONTROL, COORDINATOR)   \
    X(listed,           LISTED,           83, LARGE, COORDINATOR, CONTROL, CLIENT)        \
    X(read,             READ,             84, SMALL, CLIENT,      CONTROL, COORDINATOR)   \
    X(part,             PART,             85, LARGE, COORDINATOR, CONTROL, CLIENT)        \
    X(schedule,         SCHEDULE,         86, LARGE, CLIENT,      CONTROL, COORDINATOR)   \
    X(result,           RESULT,           87, LARGE, COORDINATOR, CONTROL, CLIENT)

/* A task introduces itself: first, after every reconnect, and when told UNKNOWN_PEER. Resent
 * until WELCOME. index: CADRE_INDEX_ANY lets the coordinator choose. address: a ps's data
 * endpoint. session: the coordinator incarnation it served last, 0 for none. generation: of the
 * shard it holds, 0 for none. held: closures running or with an unacknowledged report. process:
 * its id on that host, for people. lowest, highest: the protocols that it speaks. schema:
 * cadre_message_schema_hash of the highest. build: its release. These four stand first for ever
 * (README.md, "Versions"). Of a worker, round: goes up when it may not have taken what it was told:
 * with each connection, and each time that it no longer counts itself in; so a HELLO that is only
 * repeated is not answered with every definition again. definitions, functions: how many of
 * `session` it has, from the first on. folderless: 1 of a ps that may write and read checkpoints
 * nowhere, else 0. */
#define CADRE_HELLO_FIELDS(F)                                                      \
    F(U64,  lowest,      UINT32_MAX)                                               \
    F(U64,  highest,     UINT32_MAX)                                               \
    F(U64,  schema,      UINT64_MAX)                                               \
    F(STR,  build,       CADRE_BUILD_SIZE_MAX)                                     \
    F(U64,  role,        3)                                                        \
    F(U64,  index,       UINT32_MAX)                                               \
    F(STR,  host,        255)                                                      \
    F(U64,  process,     UINT32_MAX)                                               \
    F(STR,  address,     255)                                                      \
    F(STR,  devices,     255)                                                      \
    F(U64,  slots,       CADRE_SLOTS_MAX)                                          \
    F(U64,  session,     UINT64_MAX)                                               \
    F(U64,  generation,  UINT64_MAX)                                               \
    F(U64S, held,        CADRE_HELD_MAX)                                           \
    F(U64,  round,       UINT64_MAX)                                               \
    F(U64,  definitions, UINT64_MAX)                                               \
    F(U64,  functions,   UINT32_MAX)                                               \
    F(U64,  folderless,  1)

/* generation: what a ps's shard is to be; 0 for a worker. protocol: the one that both speak from
 * now on, the highest that they have in common. */
#define CADRE_WELCOME_FIELDS(F)                                                    \
    F(U64,  index,       UINT32_MAX)                                               \
    F(STR,  job,         CADRE_NAME_SIZE_MAX)                                      \
    F(U64,  heartbeat_ms, 600000)                                                  \
    F(U64,  lease_ms,    3600000)                                                  \
    F(U64,  resend_ms,   600000)                                                   \
    F(U64,  shards,      CADRE_SHARDS_MAX)                                         \
    F(U64,  generation,  UINT64_MAX)                                               \
    F(U64,  protocol,    UINT32_MAX)

/* A HELLO is refused, for the reason that `text` says: leave. lowest to build: the coordinator's.
 * It is written in CADRE_PROTOCOL_GREETING and has these fields for ever, so that whoever it
 * refuses can read it. */
#define CADRE_REFUSED_FIELDS(F)                                                    \
    F(U64,  lowest,      UINT32_MAX)                                               \
    F(U64,  highest,     UINT32_MAX)                                               \
    F(U64,  schema,      UINT64_MAX)                                               \
    F(STR,  build,       CADRE_BUILD_SIZE_MAX)                                     \
    F(U64,  status,      9999)                                                     \
    F(TEXT, text,        CADRE_TEXT_SIZE_MAX)

/* A client, who looks at a job and is no member of it, asks how it stands. */
#define CADRE_STATUS_FIELDS(F)

/* What cadre_coordinator_status_json gives, in the payload. */
#define CADRE_STATUS_TEXT_FIELDS(F)

/* The coordinator does not know the sender: say HELLO again. */
#define CADRE_UNKNOWN_PEER_FIELDS(F)

/* counters: CADRE_WORKER_COUNTERS or CADRE_PS_COUNTERS by position. known, built: the resources
 * whose RESOURCE the worker has, and those of them that it has built or failed to; id n is bit
 * (n - 1) % 64 of item (n - 1) / 64, and what lies beyond the list is 0. unreachable: shards from
 * which the worker, though it asks, hears nothing; shard n is bit n % 64 of item n / 64. shard,
 * generation: what a ps serves; progress: grows each time that the shard itself, and not only its
 * process, has answered the ps's own question, asked with each HEARTBEAT. waits: (closure, shard,
 * ms) for what runs on the worker and has waited so long for that shard, the longest first of each
 * shard. lacks: native functions that were told and this worker has not, the first CADRE_LACKS_MAX
 * of them. tables: what a ps holds of the first CADRE_TABLES_TOLD_MAX tables, for each its
 * variable, then CADRE_TABLE_COUNTERS. */
#define CADRE_HEARTBEAT_FIELDS(F)                                                  \
    F(U64,  sequence,    UINT64_MAX)                                               \
    F(U64S, held,        CADRE_HELD_MAX)                                           \
    F(U64S, counters,    64)                                                       \
    F(U64S, known,       CADRE_RESOURCES_MAX / 64)                                 \
    F(U64S, built,       CADRE_RESOURCES_MAX / 64)                                 \
    F(U64S, unreachable, CADRE_SHARDS_MAX / 64)                                    \
    F(U64,  shard,       UINT32_MAX)                                               \
    F(U64,  generation,  UINT64_MAX)                                               \
    F(U64,  progress,    UINT64_MAX)                                               \
    F(U64S, waits,       3 * CADRE_WAITS_MAX)                                      \
    F(U64S, lacks,       CADRE_LACKS_MAX)                                          \
    F(U64S, tables,      8 * CADRE_TABLES_TOLD_MAX)

/* Finish what runs, take nothing new, say GOODBYE. */
#define CADRE_DRAIN_FIELDS(F)

/* The session is over: say GOODBYE. */
#define CADRE_STOP_FIELDS(F)                                                       \
    F(TEXT, reason,      CADRE_TEXT_SIZE_MAX)

#define CADRE_GOODBYE_FIELDS(F)                                                    \
    F(TEXT, reason,      CADRE_TEXT_SIZE_MAX)

/* The answer to CREATE, SETTLE, RESTORE, COUNT, DROP, RETIRE, CLOSE_CUT, CHECKPOINT_END, END_STEP
 * and ASSIGN, by request id.
 * counters: CADRE_PS_COUNTERS; to a COUNT of a table CADRE_TABLE_COUNTERS. */
#define CADRE_REPLY_FIELDS(F)                                                      \
    F(U64,  status,      9999)                                                     \
    F(TEXT, text,        CADRE_TEXT_SIZE_MAX)                                      \
    F(U64S, counters,    64)

/* Where shard `index` is served. Without address and incarnation: nowhere, it is away. */
#define CADRE_SHARD_FIELDS(F)                                                      \
    F(U64,  index,       CADRE_SHARDS_MAX - 1)                                     \
    F(STR,  address,     255)                                                      \
    F(U64,  incarnation, UINT64_MAX)                                               \
    F(U64,  generation,  UINT64_MAX)

/* A variable, and the shard of each partition from `first` on; many partitions take several
 * messages. Without partitions: the ids from `id` to `last` are of no variable, or no more, or, as
 * `of` says (cadre_defined_t), of no function or resource any more; with `drop` the variable `id`
 * is dropped, as the job's drop of that number: a CLOSURE that says as many `drops` or more does
 * not find it. wire: the dtype of its values in VALUES to workers and of its gradients in PUSH,
 * where that is not `dtype`: CADRE_BF16 for f32; else 0. kind: cadre_variable_kind_t. */
#define CADRE_VARIABLE_FIELDS(F)                                                   \
    F(U64,  id,          UINT32_MAX)                                               \
    F(STR,  name,        CADRE_NAME_SIZE_MAX)                                      \
    F(U64,  dtype,       255)                                                      \
    F(U64,  wire,        255)                                                      \
    F(U64S, shape,       CADRE_RANK_MAX)                                           \
    F(U64,  partitions,  CADRE_PARTITIONS_PER_VARIABLE_MAX)                        \
    F(U64,  first,       CADRE_PARTITIONS_PER_VARIABLE_MAX)                        \
    F(U64S, shards,      CADRE_VARIABLE_SHARDS_MAX)                                \
    F(U64,  last,        UINT32_MAX)                                               \
    F(U64,  drop,        UINT32_MAX)                                               \
    F(U64,  kind,        3)                                                        \
    F(U64,  of,          2)

/* Payload: the encoded program; none for a native function, which the worker knows by name.
 * hash: XXH3-64 of it. */
#define CADRE_FUNCTION_FIELDS(F)                                                   \
    F(U64,  id,          UINT32_MAX)                                               \
    F(U64,  kind,        2)                                                        \
    F(STR,  name,        CADRE_NAME_SIZE_MAX)                                      \
    F(U64,  hash,        UINT64_MAX)

/* Payload: the description of the data as JSON text; or, where `pieces` is not 0, of rows that the
 * program has in memory: none with piece 0, which only names the dataset, else the chunks of that
 * piece, from 1 to `pieces`, sent on WANT. features, label: of such rows, and the dtype of their
 * labels (common/tensor/row_chunks.h). */
#define CADRE_DATASET_FIELDS(F)                                                    \
    F(U64,  id,          UINT32_MAX)                                               \
    F(STR,  name,        CADRE_NAME_SIZE_MAX)                                      \
    F(U64,  features,    CADRE_DATA_FEATURES_MAX)                                  \
    F(U64,  label,       255)                                                      \
    F(U64,  pieces,      CADRE_MEMORY_PIECES_MAX)                                  \
    F(U64,  piece,       CADRE_MEMORY_PIECES_MAX)

/* text: why not; with status 0, what is doubtful, or "". classes: highest class + 1, 0 where labels
 * are no classes. skipped: bad lines left out. hash: of the content of all rows, the same on
 * every worker whose data are the same. */
#define CADRE_DATASET_READY_FIELDS(F)                                              \
    F(U64,  id,          UINT32_MAX)                                               \
    F(U64,  status,      9999)                                                     \
    F(TEXT, text,        CADRE_TEXT_SIZE_MAX)                                      \
    F(U64,  rows,        CADRE_DATA_ROWS_MAX)                                      \
    F(U64,  features,    CADRE_DATA_FEATURES_MAX)                                  \
    F(U64,  label_dtype, 255)                                                      \
    F(U64,  classes,     CADRE_DATA_CLASSES_MAX)                                   \
    F(U64,  skipped,     INT64_MAX)                                                \
    F(U64,  hash,        UINT64_MAX)

/* Many VARIABLEs in one message: `count` of them, of which the first is number `first` + 1 of all
 * there have been. A worker that lacks some before those asks for them; those it has it skips.
 * Payload: for each its length, u32 little-endian, and its header as if it came alone. */
#define CADRE_DEFINITIONS_FIELDS(F)                                                \
    F(U64,  first,       UINT64_MAX)                                               \
    F(U64,  count,       UINT32_MAX)

/* The worker misses a definition that a closure needs. kind: cadre_want_t. id: of it; for
 * CADRE_WANT_DEFINITIONS how many of those it has. piece: of the rows of a dataset from memory, for
 * CADRE_WANT_ROWS; else 0. */
#define CADRE_WANT_FIELDS(F)                                                       \
    F(U64,  kind,        4)                                                        \
    F(U64,  id,          UINT32_MAX)                                               \
    F(U64,  piece,       CADRE_MEMORY_PIECES_MAX)

/* Run a function once here, before any closure that names the resource, and keep what it puts and
 * its results for those. A run that the function is not to blame for not ending well is repeated.
 * Names and tensors as in CLOSURE, and seed, variables, generations, workers. */
#define CADRE_RESOURCE_FIELDS(F)                                                   \
    F(U64,  id,          CADRE_RESOURCES_MAX)                                      \
    F(STR,  name,        CADRE_NAME_SIZE_MAX)                                      \
    F(U64,  function,    UINT32_MAX)                                               \
    F(U64,  seed,        UINT64_MAX)                                               \
    F(U64,  variables,   UINT32_MAX)                                               \
    F(STRS, names,       CADRE_ARGUMENTS_MAX)                                      \
    F(U64S, tensors,     (CADRE_RANK_MAX + 2) * CADRE_ARGUMENTS_MAX)               \
    F(U64,  generations, UINT64_MAX)                                               \
    F(U64,  workers,     CADRE_TASKS_MAX)

/* Run a function. batches: (dataset, order seed, first position, count) each, an order seed of 0
 * meaning file order. tensors: (dtype, rank, dims...) each; their bytes in the payload, every
 * tensor beginning a new chunk; names: theirs. seed: of the program's random numbers, the same
 * for every attempt. generations: the sum, over all shards, of the generation that SHARD told last
 * with an address: a worker whose own sum is smaller has missed one and waits. workers: places of
 * workers in the job, the highest index that one has had plus 1. resources: ids of those that the
 * function uses. values: (closure, attempt, result, told) for each of the last names: what the
 * attempt gave as its result of that position; told 1: it stands in tensors, after the closure's
 * own; 0: the worker has it, or hands this closure back. checkpoint, cut: of the open cut that the
 * closure belongs after, 0 for none; its PUSHes say the same. drops: variables dropped before it
 * was scheduled: names mean what they meant then. step: the synchronous step that the closure is
 * part of, 0 for none; its PUSHes say the same. */
#define CADRE_CLOSURE_FIELDS(F)                                                    \
    F(U64,  id,          UINT64_MAX)                                               \
    F(U64,  attempt,     UINT32_MAX)                                               \
    F(U64,  function,    UINT32_MAX)                                               \
    F(U64,  steps,       UINT32_MAX)                                               \
    F(U64,  flags,       1)                                                        \
    F(U64,  seed,        UINT64_MAX)                                               \
    F(U64,  variables,   UINT32_MAX)                                               \
    F(U64S, batches,     4 * CADRE_BATCHES_MAX)                                    \
    F(STRS, names,       CADRE_ARGUMENTS_MAX)                                      \
    F(U64S, tensors,     (CADRE_RANK_MAX + 2) * CADRE_ARGUMENTS_MAX)               \
    F(U64,  generations, UINT64_MAX)                                               \
    F(U64,  workers,     CADRE_TASKS_MAX)                                          \
    F(U64S, resources,   CADRE_RESOURCES_PER_CLOSURE_MAX)                          \
    F(U64S, values,      4 * CADRE_ARGUMENTS_MAX)                                  \
    F(U64,  checkpoint,  UINT64_MAX)                                               \
    F(U64,  cut,         UINT64_MAX)                                               \
    F(U64,  drops,       UINT32_MAX)                                               \
    F(U64,  step,        UINT64_MAX)

#define CADRE_CANCEL_FIELDS(F)                                                     \
    F(U64S, ids,         CADRE_HELD_MAX)

/* A closure has ended and each shard it touched has its update. Kept and resent until ACK.
 * Payload: the results. updates, duplicates: pushes answered applied, duplicate. staleness:
 * largest over its partitions, in versions. */
#define CADRE_CLOSURE_DONE_FIELDS(F)                                               \
    F(U64,  id,          UINT64_MAX)                                               \
    F(U64,  attempt,     UINT32_MAX)                                               \
    F(U64,  updates,     UINT32_MAX)                                               \
    F(U64,  duplicates,  UINT32_MAX)                                               \
    F(U64,  staleness,   UINT64_MAX)                                               \
    F(U64,  compute_us,  UINT64_MAX)                                               \
    F(U64,  total_us,    UINT64_MAX)                                               \
    F(STRS, names,       CADRE_RESULTS_MAX)                                        \
    F(U64S, tensors,     (CADRE_RANK_MAX + 2) * CADRE_RESULTS_MAX)

/* Kept and resent until ACK. reason: cadre_failure_t; returned with CADRE_ECLOSED: the worker
 * drains, give it no more; with CADRE_ENOTFOUND: it lacks a value that was not told. shard: the one
 * that is away, for CADRE_FAILURE_SHARD. unable: the worker lacks the function, or a dataset. */
#define CADRE_CLOSURE_FAILED_FIELDS(F)                                             \
    F(U64,  id,          UINT64_MAX)                                               \
    F(U64,  attempt,     UINT32_MAX)                                               \
    F(U64,  reason,      5)                                                        \
    F(U64,  status,      9999)                                                     \
    F(U64,  shard,       CADRE_SHARDS_MAX)                                         \
    F(TEXT, text,        CADRE_TEXT_SIZE_MAX)

/* Reports that have arrived, (closure, attempt) each: the worker forgets them. Many take several
 * messages. With the request of a HEARTBEAT, and maybe without reports, it says that the worker was
 * heard. */
#define CADRE_ACK_FIELDS(F)                                                        \
    F(U64S, reports,     CADRE_HELD_MAX)

/* Create one partition; after a RESTORE, from the checkpoint where that holds the variable.
 * Idempotent; where the partition is there, a schedule that goes on behind its own takes its place.
 * shape: of the whole variable. wire: as in VARIABLE. schedule: of the learning rate, 0 for none;
 * schedule_numbers: its parameters, boundaries and values. clip_value: of each element of a
 * gradient, average_momentum: of the running average; empty for none. average_overwrite: the steps
 * after which that becomes the values, 0 for never. fresh: 1 when the checkpoint does not hold it,
 * whatever other variable it holds under this name: it is not looked at. delay_compensation: lambda
 * of late gradients; empty for none. table: storage dtype, row_wise, admit_after, rows_max,
 * when_full, age_max of a table (common/spec/table_spec.h); empty for a dense variable;
 * table_numbers: its group_lasso, norm_min. Of a table shape is [dim], first_row and rows are 0,
 * and partition k of as many as there are shards is the part of shard k. lazy: 1 where rows that a
 * PUSH of rows does not name rest, whatever the optimizer would make of a gradient of zero. */
#define CADRE_CREATE_FIELDS(F)                                                     \
    F(U64,  variable,    UINT32_MAX)                                               \
    F(STR,  name,        CADRE_NAME_SIZE_MAX)                                      \
    F(U64,  partition,   CADRE_PARTITIONS_PER_VARIABLE_MAX - 1)                    \
    F(U64,  partitions,  CADRE_PARTITIONS_PER_VARIABLE_MAX)                        \
    F(U64,  dtype,       255)                                                      \
    F(U64,  wire,        255)                                                      \
    F(U64S, shape,       CADRE_RANK_MAX)                                           \
    F(U64,  first_row,   INT64_MAX)                                                \
    F(U64,  rows,        INT64_MAX)                                                \
    F(U64,  initializer, 255)                                                      \
    F(F64S, initializer_parameters, 16)                                            \
    F(U64,  seed,        UINT64_MAX)                                               \
    F(U64,  optimizer,   255)                                                      \
    F(F64S, optimizer_parameters, 16)                                              \
    F(U64,  schedule,    255)                                                      \
    F(F64S, schedule_numbers, 40)                                                  \
    F(F64S, clip_value,  1)                                                        \
    F(F64S, average_momentum, 1)                                                   \
    F(U64,  average_overwrite, UINT32_MAX)                                         \
    F(U64,  generation,  UINT64_MAX)                                               \
    F(U64,  shard,       CADRE_SHARDS_MAX - 1)                                     \
    F(U64,  fresh,       1)                                                        \
    F(F64S, delay_compensation, 1)                                                 \
    F(U64S, table,       6)                                                        \
    F(F64S, table_numbers, 2)                                                      \
    F(U64,  lazy,        1)

/* Every update id below `base` is settled: the shard may forget its bit. */
#define CADRE_SETTLE_FIELDS(F)                                                     \
    F(U64,  base,        UINT64_MAX)                                               \
    F(U64,  generation,  UINT64_MAX)                                               \
    F(U64,  shard,       CADRE_SHARDS_MAX - 1)

/* Open the cut, unless a PUSH or an ASSIGN that names it came first: take references to everything.
 * From then on updates below `cut` go to these too (SNAPSHOT_TAKEN). */
#define CADRE_SNAPSHOT_FIELDS(F)                                                   \
    F(U64,  checkpoint,  UINT64_MAX)                                               \
    F(U64,  cut,         UINT64_MAX)                                               \
    F(U64,  generation,  UINT64_MAX)                                               \
    F(U64,  shard,       CADRE_SHARDS_MAX - 1)

/* Every closure below the cut has ended: write what the cut holds to a file in `directory`
 * (SNAPSHOT_WRITTEN). Every update id below `cut` is settled. since: a checkpoint of this session,
 * or the one that it began with: what tables have not changed since may be left out; 0: all is
 * written. Answered by REPLY. */
#define CADRE_CLOSE_CUT_FIELDS(F)                                                  \
    F(U64,  checkpoint,  UINT64_MAX)                                               \
    F(U64,  cut,         UINT64_MAX)                                               \
    F(STR,  directory,   255)                                                      \
    F(U64,  generation,  UINT64_MAX)                                               \
    F(U64,  shard,       CADRE_SHARDS_MAX - 1)                                     \
    F(U64,  since,       INT64_MAX)

#define CADRE_SNAPSHOT_TAKEN_FIELDS(F)                                             \
    F(U64,  checkpoint,  UINT64_MAX)                                               \
    F(U64,  status,      9999)                                                     \
    F(TEXT, text,        CADRE_TEXT_SIZE_MAX)

/* counters: CADRE_PS_COUNTERS at the cut. step: the synchronous step that had ended last on the
 * shard when it opened the cut; 0: none since RESTORE. */
#define CADRE_SNAPSHOT_WRITTEN_FIELDS(F)                                           \
    F(U64,  checkpoint,  UINT64_MAX)                                               \
    F(U64,  status,      9999)                                                     \
    F(TEXT, text,        CADRE_TEXT_SIZE_MAX)                                      \
    F(STR,  file,        CADRE_NAME_SIZE_MAX)                                      \
    F(U64,  size_bytes,  INT64_MAX)                                                \
    F(U64,  hash,        UINT64_MAX)                                               \
    F(U64S, counters,    64)                                                       \
    F(U64,  step,        UINT64_MAX)

#define CADRE_CHECKPOINT_END_FIELDS(F)                                             \
    F(U64,  checkpoint,  UINT64_MAX)                                               \
    F(U64,  committed,   1)

/* The shard restarts at window base `cut`; every CREATE that follows loads its partition from
 * the checkpoint at `path` where that holds the variable. An empty path: initial values. The cuts
 * of checkpoints up to `ended` are over: what still names one opens it no more. */
#define CADRE_RESTORE_FIELDS(F)                                                    \
    F(STR,  path,        255)                                                      \
    F(U64,  cut,         UINT64_MAX)                                               \
    F(U64,  generation,  UINT64_MAX)                                               \
    F(U64,  shard,       CADRE_SHARDS_MAX - 1)                                     \
    F(U64,  ended,       UINT64_MAX)

/* Forget every partition of the variable, also one whose CREATE comes only now: ids are never used
 * again, and no CREATE of an earlier one is on its way. Idempotent. */
#define CADRE_DROP_FIELDS(F)                                                       \
    F(U64,  variable,    UINT32_MAX)                                               \
    F(U64,  generation,  UINT64_MAX)                                               \
    F(U64,  shard,       CADRE_SHARDS_MAX - 1)

/* The variable is dropped: checkpoints after number `checkpoint` leave it out. Its partitions stay,
 * for closures from before that run again, until DROP. Idempotent. */
#define CADRE_RETIRE_FIELDS(F)                                                     \
    F(U64,  variable,    UINT32_MAX)                                               \
    F(U64,  checkpoint,  UINT64_MAX)                                               \
    F(U64,  generation,  UINT64_MAX)                                               \
    F(U64,  shard,       CADRE_SHARDS_MAX - 1)

/* The synchronous step `step` is over: make one update of what its closures pushed here. updates:
 * (update, rows) each, in the order in which they are summed: each counts in the mean by its share
 * of all rows. Whatever else is held of this step and those before it is dropped. A step that is
 * over is not ended again. after: the step before it on this shard since RESTORE, 0: none. Answered
 * by REPLY; refused when it names an update twice, with no rows, or one that is held for another
 * step, and where another step than `after` has ended last. */
#define CADRE_END_STEP_FIELDS(F)                                                   \
    F(U64,  step,        UINT64_MAX)                                               \
    F(U64S, updates,     2 * CADRE_STEP_CLOSURES_MAX)                              \
    F(U64,  generation,  UINT64_MAX)                                               \
    F(U64,  shard,       CADRE_SHARDS_MAX - 1)                                     \
    F(U64,  after,       UINT64_MAX)

/* Tell the counters: those of the ps, or, of a part of the table `variable`,
 * CADRE_TABLE_COUNTERS. */
#define CADRE_COUNT_FIELDS(F)                                                      \
    F(U64,  variable,    UINT32_MAX)

/* partitions: (variable, partition, held) each, held being the version the sender has plus 1, 0
 * for none. average: 1 for the running averages of the values, in f32. slot: 0 for values, else the
 * number of a slot of the optimizer plus 1, in f32; whoever asks for a slot or an average names 0
 * as held. rows: instead of partitions,
 * some of their rows, (variable, partition, first, count) each: `count` rows of the variable from
 * number `first` on, all in that partition; or, with first UINT64_MAX, the rows whose numbers, u64
 * little-endian, are the next `count` in the payload, one chunk for all records. Of a table these
 * are keys, in any order and as often as wanted. held: of each record the newest version of which
 * the asker holds a row; none where it holds no row of any. Then a second chunk has for each listed
 * row, u16 little-endian, 0 where it is not held, else 1 plus how many versions it is older than
 * that. absence: 1 where the answer is to say which rows a table has not; the PULL lists at most
 * CADRE_CLIENT_ROWS_MAX rows then. */
#define CADRE_PULL_FIELDS(F)                                                       \
    F(U64,  generation,  UINT64_MAX)                                               \
    F(U64S, partitions,  3 * CADRE_PARTITIONS_PER_UPDATE_MAX)                      \
    F(U64,  average,     1)                                                        \
    F(U64S, rows,        4 * CADRE_ROW_PARTS_MAX)                                  \
    F(U64,  slot,        CADRE_OPTIMIZER_SLOTS_MAX)                                \
    F(U64S, held,        CADRE_ROW_PARTS_MAX)                                      \
    F(U64,  absence,     1)

/* partitions: (version, chunks) each in the order asked; 0 chunks where the asker holds the current
 * version. window: how many bytes of PUSHes the asker may have unanswered without a RESERVE, 0
 * where that is not said. A worker gets values in the variable's wire dtype, the coordinator in its
 * dtype; chunk k holds the same elements in both. Of rows: a pair for each record, the rows one
 * after the other, cut as a partition of so many rows. steps: of a slot, how many updates the
 * optimizer of each partition has made; else none. unchanged: none, or a bit for each listed row of
 * the PULL, row n being bit n % 64 of item n / 64: 1 where it is now what the asker holds, and does
 * not follow. absent: as `unchanged`, of a PULL with `absence`: 1 where a table has no row of that
 * key, whose first values follow. */
#define CADRE_VALUES_FIELDS(F)                                                     \
    F(U64,  status,      9999)                                                     \
    F(TEXT, text,        CADRE_TEXT_SIZE_MAX)                                      \
    F(U64,  generation,  UINT64_MAX)                                               \
    F(U64S, partitions,  2 * CADRE_PARTITIONS_PER_UPDATE_MAX)                      \
    F(U64,  window,      UINT32_MAX)                                               \
    F(U64S, steps,       CADRE_PARTITIONS_PER_UPDATE_MAX)                          \
    F(U64S, unchanged,   CADRE_ROWS_MAX / 64)                                      \
    F(U64S, absent,      CADRE_CLIENT_ROWS_MAX / 64)

/* partitions: (variable, partition, version pulled) each; payload: the gradient chunks of each
 * in that order, in the variable's wire dtype. checkpoint, cut: as in CLOSURE; a shard that has not
 * opened that cut opens it first. part of parts: where one message does not hold it, or a RESERVE
 * was needed, a PUSH goes in several with one request, numbered from 0; their partitions and their
 * chunks, one after the other, are those of the whole. 0 parts: it is whole. step: as in CLOSURE;
 * such an update is checked and answered at once, and held until END_STEP. rows: gradients of some
 * rows alone, (variable, partition, version pulled, count) each, with at least one row and behind
 * those of `partitions`, where none of these stands; payload: of each the numbers of its rows, u64
 * little-endian and ascending, in chunks of CADRE_CHUNK_SIZE_MAX but the last, then its rows, cut
 * as in VALUES. What is not named has gradients of zero, or rests (lazy in CREATE). Of a table
 * numbers are keys, at most CADRE_TABLE_KEYS_MAX of a partition; one in `partitions` has no chunks:
 * the update has no key there, and counts. */
#define CADRE_PUSH_FIELDS(F)                                                       \
    F(U64,  update,      UINT64_MAX)                                               \
    F(U64,  attempt,     UINT32_MAX)                                               \
    F(U64,  generation,  UINT64_MAX)                                               \
    F(U64S, partitions,  3 * CADRE_PARTITIONS_PER_UPDATE_MAX)                      \
    F(U64,  checkpoint,  UINT64_MAX)                                               \
    F(U64,  cut,         UINT64_MAX)                                               \
    F(U64,  part,        UINT32_MAX)                                               \
    F(U64,  parts,       UINT32_MAX)                                               \
    F(U64,  step,        UINT64_MAX)                                               \
    F(U64S, rows,        4 * CADRE_ROW_PARTS_MAX)

/* status: CADRE_EDUPLICATE, which is a success, where the update was seen before. staleness:
 * largest over the partitions. versions: after the apply, in the order of the PUSH, none where
 * there are more than this list takes. window: as in VALUES. Also the answer to a RESERVE of an
 * update that need not come. */
#define CADRE_APPLIED_FIELDS(F)                                                    \
    F(U64,  update,      UINT64_MAX)                                               \
    F(U64,  status,      9999)                                                     \
    F(TEXT, text,        CADRE_TEXT_SIZE_MAX)                                      \
    F(U64,  generation,  UINT64_MAX)                                               \
    F(U64,  staleness,   UINT64_MAX)                                               \
    F(U64S, versions,    CADRE_PARTITIONS_PER_UPDATE_MAX)                          \
    F(U64,  window,      UINT32_MAX)

/* Answered by REPLY. sequence grows by one per ASSIGN to a shard: one seen before changes
 * nothing. mode: cadre_assign_mode_t. Payload: the whole partition, in the variable's
 * dtype. checkpoint, cut: of the last cut that was opened before it, 0 for none; as in PUSH. rows:
 * instead of one partition, some rows of partitions of the variable, as in PULL, of which
 * `partition` is the first; payload: the ids, where there are, then the rows of each record, cut
 * as in VALUES. A row that is named again is changed again. */
#define CADRE_ASSIGN_FIELDS(F)                                                     \
    F(U64,  sequence,    UINT64_MAX)                                               \
    F(U64,  generation,  UINT64_MAX)                                               \
    F(U64,  mode,        6)                                                        \
    F(U64,  variable,    UINT32_MAX)                                               \
    F(U64,  partition,   CADRE_PARTITIONS_PER_VARIABLE_MAX - 1)                    \
    F(U64,  checkpoint,  UINT64_MAX)                                               \
    F(U64,  cut,         UINT64_MAX)                                               \
    F(U64S, rows,        4 * CADRE_ROW_PARTS_MAX)

/* A PUSH of `size_bytes` in all, with this message's request and this update, is to come: may it?
 * 0 bytes: it is not coming, what was reserved for it is free. */
#define CADRE_RESERVE_FIELDS(F)                                                    \
    F(U64,  update,      UINT64_MAX)                                               \
    F(U64,  generation,  UINT64_MAX)                                               \
    F(U64,  size_bytes,  INT64_MAX)

/* The PUSH of this request may come. window: as in VALUES. */
#define CADRE_GRANT_FIELDS(F)                                                      \
    F(U64,  window,      UINT32_MAX)

/* What has become of these? requests: (request, update, sequence) each, unanswered on this
 * connection: the update id of a PUSH, the sequence of an ASSIGN, 0 elsewhere. */
#define CADRE_PROBE_FIELDS(F)                                                      \
    F(U64,  generation,  UINT64_MAX)                                               \
    F(U64S, requests,    3 * CADRE_PROBE_REQUESTS_MAX)

/* states: (request, cadre_probed_t) each, of all that were asked after. */
#define CADRE_PROBED_FIELDS(F)                                                     \
    F(U64S, states,      2 * CADRE_PROBE_REQUESTS_MAX)

/* A client, which is no member of the job, begins to use the job, and goes on: sent at first with
 * epoch 0, then with each heartbeat, until GOODBYE. schema, build: as in HELLO. awaited: requests
 * of this client that were sent before this message and are unanswered. settled: the client has
 * the answers of all SCHEDULEs with a request below this number. */
#define CADRE_ATTACH_FIELDS(F)                                                     \
    F(U64,  schema,      UINT64_MAX)                                               \
    F(STR,  build,       CADRE_BUILD_SIZE_MAX)                                     \
    F(U64S, awaited,     CADRE_CLIENT_REQUESTS_MAX)                                \
    F(U64,  settled,     UINT64_MAX)

/* status: why the client may not attach. unknown: those of `awaited` that are not under way: they,
 * or their answers, were lost, and the client sends them again. may_schedule: 1 where the job takes
 * closures of clients. */
#define CADRE_ATTACHED_FIELDS(F)                                                   \
    F(U64,  status,      9999)                                                     \
    F(TEXT, text,        CADRE_TEXT_SIZE_MAX)                                      \
    F(STR,  job,         CADRE_NAME_SIZE_MAX)                                      \
    F(U64,  heartbeat_ms, 600000)                                                  \
    F(U64,  lease_ms,    3600000)                                                  \
    F(U64,  may_schedule, 1)                                                       \
    F(U64S, unknown,     CADRE_CLIENT_REQUESTS_MAX)

/* A client asks what there is. kind: cadre_listed_t. after: id behind which the answer begins. */
#define CADRE_LIST_FIELDS(F)                                                       \
    F(U64,  kind,        1)                                                        \
    F(U64,  after,       UINT32_MAX)

/* names, and CADRE_LISTED_ITEMS numbers for each: of a variable its id, dtype, partitions, whether
 * it keeps an average, rank and dimensions, of a table 0 and dim; of a dataset its id and rows.
 * more: 1 where there are further ones behind the last. */
#define CADRE_LISTED_FIELDS(F)                                                     \
    F(STRS, names,       CADRE_LISTED_MAX)                                         \
    F(U64S, items,       CADRE_LISTED_ITEMS * CADRE_LISTED_MAX)                    \
    F(U64,  more,        1)

/* A client asks for the values of one partition, or their running average. rows: 0 for all of it,
 * else of so many rows: the payload, one chunk, has their numbers in the variable, of a table their
 * keys, u64 little-endian. slot: "" for values, else the name of a slot of the optimizer. */
#define CADRE_READ_FIELDS(F)                                                       \
    F(U64,  variable,    UINT32_MAX)                                               \
    F(U64,  partition,   CADRE_PARTITIONS_PER_VARIABLE_MAX - 1)                    \
    F(U64,  average,     1)                                                        \
    F(U64,  rows,        CADRE_CLIENT_ROWS_MAX)                                    \
    F(STR,  slot,        CADRE_NAME_SIZE_MAX)

/* Payload: the partition, or its rows in the order asked, in the variable's dtype; of a slot f32,
 * cut as in VALUES. absent: as in VALUES. */
#define CADRE_PART_FIELDS(F)                                                       \
    F(U64,  status,      9999)                                                     \
    F(TEXT, text,        CADRE_TEXT_SIZE_MAX)                                      \
    F(U64,  version,     UINT64_MAX)                                               \
    F(U64S, absent,      CADRE_CLIENT_ROWS_MAX / 64)

/* A client wants a closure of the newest function of that name. The request is what a repetition
 * is known by. dataset: "" for none; else the closure gets `count` rows of it in file order, from
 * `first` on. names, tensors: as in CLOSURE. steps: as in CLOSURE. deadline_ms: of an attempt; 0:
 * as the job's own closures. */
#define CADRE_SCHEDULE_FIELDS(F)                                                   \
    F(STR,  function,    CADRE_NAME_SIZE_MAX)                                      \
    F(STR,  dataset,     CADRE_NAME_SIZE_MAX)                                      \
    F(U64,  first,       INT64_MAX)                                                \
    F(U64,  count,       INT64_MAX)                                                \
    F(STRS, names,       CADRE_ARGUMENTS_MAX)                                      \
    F(U64S, tensors,     (CADRE_RANK_MAX + 2) * CADRE_ARGUMENTS_MAX)               \
    F(U64,  steps,       CADRE_STEPS_MAX)                                          \
    F(U64,  deadline_ms, INT64_MAX)

/* How the closure of a SCHEDULE has ended, or why there was none. Kept until the client has
 * settled it. closure: its id, 0 where it was not begun. Payload: the results. */
#define CADRE_RESULT_FIELDS(F)                                                     \
    F(U64,  status,      9999)                                                     \
    F(TEXT, text,        CADRE_TEXT_SIZE_MAX)                                      \
    F(U64,  closure,     UINT64_MAX)                                               \
    F(STRS, names,       CADRE_RESULTS_MAX)                                        \
    F(U64S, tensors,     (CADRE_RANK_MAX + 2) * CADRE_RESULTS_MAX)

/* Counters that heartbeats carry, by position; each only grows within one incarnation. */
#define CADRE_PS_COUNTERS(C)                                                       \
    C(applied) C(duplicate) C(refused) C(malformed) C(pulls) C(unchanged)          \
    C(pull_bytes) C(push_bytes) C(staleness_sum) C(staleness_max) C(assigned)      \
    C(compensated) C(uncompensated) C(rows_pulled) C(rows_pushed) C(rows_unchanged)
/* Of one part of a table: rows and size_bytes are of now, the others only grow. */
#define CADRE_TABLE_COUNTERS(C)                                                    \
    C(rows) C(size_bytes) C(steps) C(created) C(evicted) C(expired) C(unadmitted)
#define CADRE_WORKER_COUNTERS(C)                                                   \
    C(finished) C(failed) C(cancelled) C(applied) C(duplicate) C(refused)          \
    C(pull_bytes) C(push_bytes) C(examples) C(compute_us) C(malformed)             \
    C(values_found) C(values_missed) C(rows_pulled) C(rows_pushed)                 \
    C(rows_held) C(rows_unchanged) C(blocks_read)
/* clang-format on */

#endif
