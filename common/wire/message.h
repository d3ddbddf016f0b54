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

/* The members of message structs, by kind of field. A decoded string is never NULL; NULL is encoded
 * as "". */
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
    uint64_t request;     /* the same in a question and its answer; 0: no answer is awaited */
    uint64_t incarnation; /* of the sender */
    uint64_t epoch;       /* of the session, as the sender knows it; 0 before WELCOME */
    /* Not on the wire: id of the key (cadre_peer_key_t) of the connection that brought the message.
     */
    uint64_t key;
    union {
#define X(name, ...) cadre_##name##_message_t name;
        CADRE_MESSAGE_LIST(X)
#undef X
    };
    cadre_chunk_t **chunks;
    size_t chunk_count;
    void *storage;
} cadre_message_t;

/* What a task is in its job. */
typedef enum {
    CADRE_ROLE_COORDINATOR = 0,
    CADRE_ROLE_PS = 1,
    CADRE_ROLE_WORKER = 2,
    CADRE_ROLE_EVALUATOR = 3,
    CADRE_ROLE_CLIENT = 4, /* looks at a job and uses it, and is no task of it */
} cadre_role_t;

/* The names of roles that rows of CADRE_MESSAGE_LIST use; undefined again below. */
#define COORDINATOR (1 << CADRE_ROLE_COORDINATOR)
#define PS          (1 << CADRE_ROLE_PS)
#define WORKER      (1 << CADRE_ROLE_WORKER)
#define CLIENT      (1 << CADRE_ROLE_CLIENT)
#define ASKERS      (COORDINATOR | WORKER)
#define LEAVERS     (PS | WORKER | CLIENT)

/* For each role, the types of the messages that are for it, so that its `switch` over messages
 * needs no `default` and the compiler names a message that is not handled. A message that is not
 * for the role has the number 0 in the role's enum. */
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
#undef LEAVERS

#define CADRE_INDEX_ANY UINT32_MAX

/* What a WANT asks for. */
typedef enum {
    CADRE_WANT_SHARD = 0,
    CADRE_WANT_DEFINITIONS = 1,
    CADRE_WANT_FUNCTION = 2,
    CADRE_WANT_DATASET = 3,
    CADRE_WANT_ROWS = 4, /* a piece of the rows of a dataset from memory */
} cadre_want_t;

/* What the ids of a VARIABLE without partitions are of. */
typedef enum {
    CADRE_DEFINED_VARIABLE = 0,
    CADRE_DEFINED_FUNCTION = 1,
    CADRE_DEFINED_RESOURCE = 2,
} cadre_defined_t;

typedef enum {
    CADRE_FUNCTION_PROGRAM = 1,
    CADRE_FUNCTION_NATIVE = 2,
} cadre_function_kind_t;

typedef enum {
    CADRE_CLOSURE_WANTS_RESULTS = 1, /* the worker reports the results; else it drops them */
} cadre_closure_flag_t;

typedef enum {
    /* The function or its arguments are at fault: the closure is not run again. */
    CADRE_FAILURE_USER = 1,
    CADRE_FAILURE_SHARD = 2,  /* a ps is away: the closure is run again when it is back */
    CADRE_FAILURE_DEVICE = 3, /* the device is at fault: the closure is run again elsewhere */
    /* The closure is handed back without having run: the worker drains, or it was cancelled. */
    CADRE_FAILURE_RETURNED = 4,
    /* This worker lacks what the closure needs: the closure is run elsewhere. */
    CADRE_FAILURE_UNABLE = 5,
} cadre_failure_t;

typedef enum {
    CADRE_VARIABLE_WHOLE = 0, /* gradients come whole: they may be compensated for delays */
    CADRE_VARIABLE_ROWS = 1,  /* gradients may come by rows */
    CADRE_VARIABLE_TABLE = 2, /* rows of [dim] by key; gradients come by keys */
    /* A table of which what an update does follows from how many there were: each names all of its
     * parts, those too of which it has no key. */
    CADRE_VARIABLE_COUNTED_TABLE = 3,
} cadre_variable_kind_t;

typedef enum {
    CADRE_ASSIGN_SET = 0,
    CADRE_ASSIGN_ADD = 1,
    CADRE_ASSIGN_SUB = 2,
    CADRE_ASSIGN_MUL = 3,
    CADRE_ASSIGN_DIV = 4,
    CADRE_ASSIGN_MIN = 5,
    CADRE_ASSIGN_MAX = 6,
} cadre_assign_mode_t;

/* What a LIST asks for. */
typedef enum {
    CADRE_LISTED_VARIABLES = 0,
    CADRE_LISTED_DATASETS = 1,
} cadre_listed_t;

/* What a ps says, in PROBED, of a request that PROBE asks after. */
typedef enum {
    /* The request never came, or was answered before: the asker sends it again. */
    CADRE_PROBED_UNKNOWN = 0,
    CADRE_PROBED_QUEUED = 1, /* the request waits at the ps and will be answered */
    /* Its update or assignment is applied: this is the answer to the request. */
    CADRE_PROBED_APPLIED = 2,
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

/* Positions in the counter list of a REPLY to a COUNT of a table. */
enum {
#define C(name) CADRE_TABLE_COUNTER_##name,
    CADRE_TABLE_COUNTERS(C)
#undef C
        CADRE_TABLE_COUNTER_COUNT
};

/* Returns the name of a type, such as "HELLO"; "?" for a number that is no type. */
const char *cadre_message_type_text(cadre_message_type_t type);

/* Returns the plane on which messages of `type` travel: data for values and requests to read or
 * change them, else control. (A REPLY goes on the plane of its question; this function returns
 * control.) */
cadre_plane_t cadre_message_plane(cadre_message_type_t type);

/* Returns the word for a role ("coordinator", "ps", "worker", "evaluator", "client"), or "?". */
const char *cadre_role_text(cadre_role_t role);

/* Returns a pointer to the field that says for which shard the message is; NULL for a message
 * without such a field. */
const uint64_t *cadre_message_shard(const cadre_message_t *self);

/* Appends one payload chunk; takes the caller's reference. */
void cadre_message_add_chunk(cadre_message_t *self, cadre_chunk_t *chunk);

/* Returns how many bytes all payload chunks have. */
size_t cadre_message_chunks_size_bytes(const cadre_message_t *self);

/* Drops the chunk references and the storage. Harmless on a zeroed message. */
void cadre_message_fini(cadre_message_t *self);

#endif
