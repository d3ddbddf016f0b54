/*
 * strategy - what the strategy of a job means for its coordinator: consistency and step, as options
 * that the caller has left open.
 *
 * Where tasks stand is up to who starts them: `cadre run`, or whoever wrote the description of the
 * cluster. The coordinator refuses a cluster of another shape.
 *
 * Thread:  any; it reads CADRE_STRATEGY and keeps no state.
 */
#ifndef CADRE_COORDINATOR_STRATEGY_H
#define CADRE_COORDINATOR_STRATEGY_H

#include <stdbool.h>
#include <stdint.h>

#include <cadre/coordinator.h>

/* The tasks of a cluster. */
typedef struct {
    uint32_t ps;
    uint32_t workers;               /* that its description lists; 0: it lists none */
    bool has_shards_beside_workers; /* it lists workers alone, each of which brings a shard */
} cadre_cluster_shape_t;

/* Puts what the strategy says into `options`: that of the options, else of CADRE_STRATEGY, else
 * multi_worker where the cluster has a shard beside each worker, else parameter_server, which says
 * nothing. CADRE_ECONFIG, naming both, where options or cluster contradict the strategy. */
int cadre_coordinator_follow_strategy(cadre_coordinator_options_t *options,
                                      const cadre_cluster_shape_t *shape);

#endif
