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
    cadre_task_t *names; /* [count]: what each connection calls this worker, its routing id */
    uint32_t count;
    uint32_t connections; /* how many connections were made so far */
} cadre_shard_peers_t;

void cadre_shard_peers_init(cadre_shard_peers_t *self, cadre_context_t *context);
void cadre_shard_peers_fini(cadre_shard_peers_t *self);

/* Begins a session with so many shards; connections to those that stay are kept until another entry
 * replaces them. */
void cadre_shard_peers_resize(cadre_shard_peers_t *self, uint32_t count);

/* Connects `worker` to shard `index` at the address in its entry; closes the connection when the
 * shard is away. Replaces a connection when another process serves the shard, or if `is_mute`:
 * nothing has come on it although answers are owed (half-open). */
void cadre_shard_peers_connect(cadre_shard_peers_t *self, const cadre_task_t *worker,
                               uint32_t index, const cadre_shard_entry_t *entry, bool is_mute);

/* Sends an entry to the ps that it is addressed to; takes the entry. Drops it when that process is
 * not connected: requests to shards are retransmitted. */
void cadre_shard_peers_send(cadre_shard_peers_t *self, cadre_outbox_entry_t *entry);

/* Returns what the connection to this ps calls this worker; NULL when there is none. */
const cadre_task_t *cadre_shard_peers_name(const cadre_shard_peers_t *self,
                                           const cadre_task_t *shard);

/* Decodes a message of a shard, as cadre_message_decode; CADRE_EMALFORMED also where it is of
 * another process, or of a type that a ps may not send. */
int cadre_shard_peers_decode(const cadre_task_t *shard, cadre_chunk_t *header,
                             cadre_chunk_t **chunks, size_t count, cadre_message_t *message);

/* Returns whether the keys of all connected ps are still allowed. */
bool cadre_shard_peers_are_trusted(const cadre_shard_peers_t *self);

#endif
