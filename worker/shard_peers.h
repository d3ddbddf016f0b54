/*
 * shard_peers - the worker's connections to the shards of its session.
 *
 * Owner:   the network actor. Thread: the network actor's.
 */
#ifndef CADRE_WORKER_SHARD_PEERS_H
#define CADRE_WORKER_SHARD_PEERS_H

#include "common/net/context.h"
#include "common/net/peer.h"
#include "worker/core/directory.h"

typedef struct {
    cadre_context_t *context;
    cadre_peer_t *peers; /* [count], by the shard's index */
    uint32_t count;
    uint32_t connections; /* made so far */
} cadre_shard_peers_t;

void cadre_shard_peers_init(cadre_shard_peers_t *self, cadre_context_t *context);
void cadre_shard_peers_fini(cadre_shard_peers_t *self);

/* Begins a session with so many shards; connections to those that stay are kept until another entry
 * replaces them. */
void cadre_shard_peers_resize(cadre_shard_peers_t *self, uint32_t count);

/* Connects `worker` to shard `index` as its entry says: not at all when it is away, again when
 * another process serves it, or `is_mute`, nothing has come on the connection for CADRE_MUTE_MS. */
void cadre_shard_peers_connect(cadre_shard_peers_t *self, const cadre_task_t *worker,
                               uint32_t index, const cadre_shard_entry_t *entry, bool is_mute);

/* Sends the entry to the shard's process that it is for, or drops it where that is not connected:
 * what matters is retransmitted; takes it. */
void cadre_shard_peers_send(cadre_shard_peers_t *self, cadre_outbox_entry_t *entry);

/* Whether the keys of all that are connected are still allowed. */
bool cadre_shard_peers_are_trusted(const cadre_shard_peers_t *self);

#endif
