/*
 * cluster_config - which task of the job this process is, and the addresses of the others.
 *
 * Owner:   main, or the call that opens a coordinator.
 * Thread:  any; the functions keep no state.
 *
 * Three sources: flags, CADRE_CLUSTER, and TF_CONFIG as TensorFlow and its operators write it:
 *
 *     {"cluster": {"chief": ["host:port"], "ps": [...], "worker": [...], "evaluator": [...]},
 *      "task": {"type": "worker", "index": 1}}
 *
 * CADRE_CLUSTER holds the same JSON and wins over TF_CONFIG as a whole; a flag wins over both.
 * "chief" and "coordinator" are one role. Only the coordinator's address is needed, because all
 * tasks connect to it: a description that lists neither ps nor workers is complete. One that lists
 * ps is taken for a fixed list and must have workers too. One that lists workers alone, as that of
 * TensorFlow's MultiWorkerMirroredStrategy, has as many ps: each worker's task brings a shard,
 * which listens at the address of the worker. An evaluator may be listed, and the job never waits
 * for one.
 *
 * If no chief is listed, worker 0 is the coordinator, as in TensorFlow: the coordinator is at the
 * address of worker 0, which no worker needs for itself. The program that opens the coordinator may
 * then say that it is worker 0, or nothing of itself; beside it a worker process may be worker 0
 * too. A shard that worker 0 brings then has the host of worker 0 and any port.
 */
#ifndef CADRE_COMMON_NET_CLUSTER_CONFIG_H
#define CADRE_COMMON_NET_CLUSTER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/endpoint.h"
#include "common/wire/message.h"

/* Texts as the user gave them; NULL or "" for those that are not given. */
typedef struct {
    const char *cadre_cluster; /* the variable CADRE_CLUSTER */
    const char *tf_config;     /* the variable TF_CONFIG */
    const char *role;          /* what the command is, or --role */
    const char *index;         /* --index */
    const char *coordinator;   /* --coordinator */
} cadre_cluster_sources_t;

typedef struct {
    cadre_endpoint_t *items;
    size_t count;
} cadre_endpoints_t;

typedef struct {
    cadre_role_t role;
    /* Index within the role; CADRE_INDEX_ANY: the coordinator chooses it. */
    uint32_t index;
    cadre_endpoint_t coordinator; /* host and port, or an ipc path */
    cadre_endpoints_t ps;         /* empty, or the fixed list */
    cadre_endpoints_t workers;
    cadre_endpoints_t evaluators;
    /* No ps is listed: each address of `ps` is that of a worker, which brings a shard. */
    bool has_shards_beside_workers;
} cadre_cluster_config_t;

/* Puts the two environment variables into `sources`; the texts are the environment's. */
void cadre_cluster_sources_from_environment(cadre_cluster_sources_t *sources);

/* Reads the sources into `config`, which the caller ends with cadre_cluster_config_fini.
 * CADRE_ENOTFOUND when no source names a cluster: the caller may start a local one. CADRE_ECONFIG
 * for anything wrong, with a text that names the source and the place (for JSON that cannot be
 * read, line and column). On failure `config` is untouched. */
int cadre_cluster_config_read(const cadre_cluster_sources_t *sources,
                              cadre_cluster_config_t *config);

/* Frees the lists and zeroes the struct. Harmless on a zeroed one. */
void cadre_cluster_config_fini(cadre_cluster_config_t *self);

#endif
