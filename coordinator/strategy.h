/*
 * strategy - sets the consistency and the closures of a step that the strategy of a job implies, in
 * options that the caller has left open.
 *
 * On which hosts tasks run is decided by whoever starts them (`cadre run`, or the author of the
 * cluster's description). The coordinator only refuses a cluster with other numbers of tasks.
 *
 * Thread:  any; it reads CADRE_STRATEGY and keeps no state.
 */
#ifndef CADRE_COORDINATOR_STRATEGY_H
#define CADRE_COORDINATOR_STRATEGY_H

#include <stdbool.h>
#include <stdint.h>

#include <cadre/coordinator.h>

/* How many tasks a cluster has. */
typedef struct {
    uint32_t ps;
    uint32_t workers;               /* workers that its description lists; 0: it lists none */
    bool has_shards_beside_workers; /* the cluster's description lists only workers: a ps runs
                                     * beside each of them */
    uint32_t slots; /* of a job in one process, whose slots stand for workers; 0: no such job */
} cadre_cluster_shape_t;

/* Finds the strategy (of the options, else of CADRE_STRATEGY, else multi_worker where the cluster
 * has a shard beside each worker, else parameter_server) and puts its consistency and step into
 * `options`; parameter_server leaves both as they are. Fails with CADRE_ECONFIG, and a text that
 * names both sides, when options or cluster contradict the strategy. */
int cadre_coordinator_follow_strategy(cadre_coordinator_options_t *options,
                                      const cadre_cluster_shape_t *shape);

#endif
