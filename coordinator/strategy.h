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

#include <stdint.h>

#include <cadre/coordinator.h>

/* Puts what the strategy says into `options`: that of the options, else of CADRE_STRATEGY, else
 * parameter_server, which says nothing. `ps`: shards of the job; `workers`: those that the
 * description of the cluster lists, 0 where it lists none. CADRE_ECONFIG, naming both, where
 * options or cluster contradict the strategy. */
int cadre_coordinator_follow_strategy(cadre_coordinator_options_t *options, uint32_t ps,
                                      uint32_t workers);

#endif
