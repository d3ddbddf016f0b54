/*
 * store_order - orders of the core to the store, which writes checkpoints to disk, and its answers.
 *
 * Owner:   plain data: an order belongs to the effect that carries it, an answer to the caller.
 * Thread:  any; both are handed over whole.
 */
#ifndef CADRE_COORDINATOR_CORE_EFFECTS_STORE_ORDER_H
#define CADRE_COORDINATOR_CORE_EFFECTS_STORE_ORDER_H

#include <stdint.h>

struct cadre_manifest;

typedef enum {
    CADRE_STORE_OPEN,   /* begin a draft; answer with id and path */
    CADRE_STORE_COMMIT, /* write the manifest and rename the draft; answer with the path */
    CADRE_STORE_ABORT,  /* remove the draft */
    /* Delete checkpoints older than `checkpoint`; from that one on, a shard may have to be restored
     * from them; answered when that is done, well or not. */
    CADRE_STORE_RETAIN,
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
    /* Why the order failed; else the path of the draft (OPEN) or of the checkpoint (COMMIT). */
    const char *text;
} cadre_store_answer_t;

#endif
