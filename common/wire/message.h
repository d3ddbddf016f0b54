/*
 * message - one message as a struct, for every schema of proto-schemas/messages.h.
 *
 * Owner:   who decoded or filled it; ended with cadre_message_fini.
 * Thread:  any one.
 *
 * A decoded message owns its strings and lists (in `storage`) and one reference to each payload
 * chunk. A message that is filled in to be encoded borrows its strings and lists (storage NULL) and
 * owns nothing but the chunk references put into it with cadre_message_add_chunk.
 */
#ifndef CADRE_COMMON_WIRE_MESSAGE_H
#define CADRE_COMMON_WIRE_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/tensor/chunk.h"
#include "common/tensor/tensor.h"
#include "common/wire/plane.h"
#include "proto-schemas/messages.h"

typedef enum {
#define X(name, NAME, number, ...) CADRE_MESSAGE_##NAME = number,
    CADRE_MESSAGE_LIST(X)
#undef X
} cadre_message_type_t;

typedef struct {
    const uint64_t *items;
    size_t count;
} cadre_u64s_t;

typedef struct {
    const double *items;
    size_t count;
} cadre_f64s_t;

typedef struct {
    const char *const *items;
    size_t count;
} cadre_strs_t;

/* A string is never NULL once decoded; NULL encodes as "". */
#define CADRE_FIELD_U64(name)          uint64_t name;
#define CADRE_FIELD_STR(name)          const char *name;
#define CADRE_FIELD_TEXT(name)         const char *name;
#define CADRE_FIELD_U64S(name)         cadre_u64s_t name;
#define CADRE_FIELD_F64S(name)         cadre_f64s_t name;
#define CADRE_FIELD_STRS(name)         cadre_strs_t name;
#define CADRE_FIELD(kind, name, limit) CADRE_FIELD_##kind(name)

#define X(name, NAME, ...)                                                                         \
    typedef struct {                                                                               \
        CADRE_##NAME##_FIELDS(CADRE_FIELD) char nothing; /* a struct has a member */               \
    } cadre_##name##_message_t;
CADRE_MESSAGE_LIST(X)
#undef X

typedef struct {
    cadre_message_type_t type;
    uint64_t request;     /* pairs an answer with its question; 0 where none is awaited */
    uint64_t incarnation; /* of the sender */
    uint64_t epoch;       /* of the session, as the sender knows it; 0 before WELCOME */
    uint64_t key;         /* not on the wire: of the connection it came by, cadre_peer_key_t */
    union {
#define X(name, ...) cadre_##name##_message_t name;
        CADRE_MESSAGE_LIST(X)
#undef X
    };
    cadre_chunk_t **chunks;
    size_t chunk_count;
    void *storage;
} cadre_message_t;

/* Who a task is. `index` is CADRE_INDEX_ANY until the coordinator has chosen one. */
typedef enum {
    CADRE_ROLE_COORDINATOR = 0,
    CADRE_ROLE_PS = 1,
    CADRE_ROLE_WORKER = 2,
    CADRE_ROLE_EVALUATOR = 3,
    CADRE_ROLE_CLIENT = 4, /* looks at a job and is no task of it */
} cadre_role_t;

/* The roles in the rows, while they are read. */
#define COORDINATOR (1 << CADRE_ROLE_COORDINATOR)
#define PS          (1 << CADRE_ROLE_PS)
#define WORKER      (1 << CADRE_ROLE_WORKER)
#define CLIENT      (1 << CADRE_ROLE_CLIENT)
#define ASKERS      (COORDINATOR | WORKER)

/* The types of the messages that are for a role, for a `switch` without `default` over what it
 * receives: the compiler names one that is not handled. All others are 0 here. */
#define X(name, NAME, number, limit, senders, plane, receivers)                                    \
    CADRE_FOR_COORDINATOR_##NAME = ((receivers)&COORDINATOR) != 0 ? (number) : 0,
typedef enum { CADRE_MESSAGE_LIST(X) CADRE_FOR_COORDINATOR_NONE = 0 } cadre_for_coordinator_t;
#undef X
#define X(name, NAME, number, limit, senders, plane, receivers)                                    \
    CADRE_FOR_PS_##NAME = ((receivers)&PS) != 0 ? (number) : 0,
typedef enum { CADRE_MESSAGE_LIST(X) CADRE_FOR_PS_NONE = 0 } cadre_for_ps_t;
#undef X
#define X(name, NAME, number, limit, senders, plane, receivers)                                    \
    CADRE_FOR_WORKER_##NAME = ((receivers)&WORKER) != 0 ? (number) : 0,
typedef enum { CADRE_MESSAGE_LIST(X) CADRE_FOR_WORKER_NONE = 0 } cadre_for_worker_t;
#undef X

#undef COORDINATOR
#undef PS
#undef WORKER
#undef CLIENT
#undef ASKERS

#define CADRE_INDEX_ANY UINT32_MAX

/* What a WANT asks for. */
typedef enum {
    CADRE_WANT_SHARD = 0,
    CADRE_WANT_DEFINITIONS = 1,
    CADRE_WANT_FUNCTION = 2,
    CADRE_WANT_DATASET = 3,
} cadre_want_t;

typedef enum {
    CADRE_FUNCTION_PROGRAM = 1,
    CADRE_FUNCTION_NATIVE = 2,
} cadre_function_kind_t;

typedef enum {
    CADRE_CLOSURE_WANTS_RESULTS = 1, /* else results are dropped on the worker */
} cadre_closure_flag_t;

typedef enum {
    CADRE_FAILURE_USER = 1,   /* the function or its arguments: never run again */
    CADRE_FAILURE_SHARD = 2,  /* a ps is away: run again when it is back */
    CADRE_FAILURE_DEVICE = 3, /* run again elsewhere */
    CADRE_FAILURE_RETURNED =
        4, /* handed back unrun: the worker drains, or the closure was cancelled */
    CADRE_FAILURE_UNABLE = 5, /* this worker lacks what the closure needs: run it elsewhere */
} cadre_failure_t;

typedef enum {
    CADRE_ASSIGN_SET = 0,
    CADRE_ASSIGN_ADD = 1,
    CADRE_ASSIGN_SUB = 2,
} cadre_assign_mode_t;

/* What a ps knows of a request that it is asked after. */
typedef enum {
    CADRE_PROBED_UNKNOWN = 0, /* it never came, or its answer was sent before: say it again */
    CADRE_PROBED_QUEUED = 1,  /* it waits here and will be answered */
    CADRE_PROBED_APPLIED = 2, /* its update or assignment is in, and needs no other answer */
} cadre_probed_t;

/* Positions in the counter lists of HEARTBEAT and SNAPSHOT_WRITTEN. */
enum {
#define C(name) CADRE_PS_COUNTER_##name,
    CADRE_PS_COUNTERS(C)
#undef C
        CADRE_PS_COUNTER_COUNT
};
enum {
#define C(name) CADRE_WORKER_COUNTER_##name,
    CADRE_WORKER_COUNTERS(C)
#undef C
        CADRE_WORKER_COUNTER_COUNT
};

/* "HELLO" and so on; "?" for a number that is no type. */
const char *cadre_message_type_text(cadre_message_type_t type);

/* The plane that messages of `type` travel on: data for values and what asks for or changes them. A
 * REPLY answers on the plane its question came on; this function says control. */
cadre_plane_t cadre_message_plane(cadre_message_type_t type);

/* "coordinator", "ps", "worker", "evaluator", "client"; "?" otherwise. */
const char *cadre_role_text(cadre_role_t role);

/* Returns where a message says for which shard it is, NULL where it does not. */
const uint64_t *cadre_message_shard(const cadre_message_t *self);

/* Appends one payload chunk; takes the caller's reference. */
void cadre_message_add_chunk(cadre_message_t *self, cadre_chunk_t *chunk);

/* Drops the chunk references and the storage. Harmless on a zeroed message. */
void cadre_message_fini(cadre_message_t *self);

#endif
