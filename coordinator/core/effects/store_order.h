/*
 * store_order - what the core asks of the store, and what that answers.
 *
 * Owner:   plain data: an order is the event's that carries it, an answer its caller's.
 * Thread:  any; both are handed over whole.
 */
#ifndef CADRE_COORDINATOR_CORE_EFFECTS_STORE_ORDER_H
#define CADRE_COORDINATOR_CORE_EFFECTS_STORE_ORDER_H

#include <stdint.h>

struct cadre_manifest;

typedef enum {
    CADRE_STORE_OPEN,   /* begin a draft; answer with id and path */
    CADRE_STORE_COMMIT, /* manifest from the core's catalogue, `shards` and `progress`; rename */
    CADRE_STORE_ABORT,  /* remove the draft */
    CADRE_STORE_RETAIN, /* a commit was taken: older checkpoints may go, but none from `checkpoint`
                           on, with which a shard may have to begin; no answer */
} cadre_store_order_kind_t;

typedef struct {
    cadre_store_order_kind_t kind;
    uint64_t checkpoint;
    struct cadre_manifest *manifest; /* COMMIT: the receiver ends and frees it */
} cadre_store_order_t;

typedef struct {
    cadre_store_order_kind_t kind;
    uint64_t checkpoint;
    int status;
    const char
        *text; /* the failure, or the path: of the draft (OPEN), of the checkpoint (COMMIT) */
} cadre_store_answer_t;

#endif
