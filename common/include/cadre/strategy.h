/*
 * strategy - one word for how a job is spread: on which hosts its shards and workers run, whether
 * updates are synchronous, and how many closures make a step (docs/strategies.md).
 *
 * A change of strategy leaves model, data and program as they are. The words stand in job files, in
 * `--strategy` and in the environment's CADRE_STRATEGY.
 */
#ifndef CADRE_STRATEGY_H
#define CADRE_STRATEGY_H

#ifdef __cplusplus
extern "C" {
#endif

/* name, number, word */
#define CADRE_STRATEGY_LIST(X)                                                                     \
    X(PARAMETER_SERVER, 1, "parameter_server")                                                     \
    X(MULTI_WORKER, 2, "multi_worker")                                                             \
    X(MIRRORED, 3, "mirrored")                                                                     \
    X(CENTRAL, 4, "central")                                                                       \
    X(LOCAL, 5, "local")

/* Which tasks a job has. With PARAMETER_SERVER the job chooses its consistency; all others are
 * CADRE_SYNC, in synchronous steps of as many closures as there are workers:
 *
 *     PARAMETER_SERVER  any number of ps and workers, any consistency
 *     MULTI_WORKER      a shard beside each worker, on the worker's host
 *     MIRRORED          on one host a shard and a worker for each device
 *     CENTRAL           on one host one shard, and a worker for each device
 *     LOCAL             one shard and one worker
 */
typedef enum {
#define CADRE_STRATEGY_ENUM(name, number, word) CADRE_STRATEGY_##name = number,
    CADRE_STRATEGY_LIST(CADRE_STRATEGY_ENUM)
#undef CADRE_STRATEGY_ENUM
} cadre_strategy_t;

#ifdef __cplusplus
}
#endif

#endif
