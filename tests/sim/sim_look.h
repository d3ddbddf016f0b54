/*
 * sim_look - what must hold of the whole cluster, looked at every few seconds of its time.
 *
 * Owner:   the cluster.
 * Thread:  one.
 *
 * (I8) Once nothing goes wrong any more, no closure stays with one worker for longer than a bound.
 * (I9) Where nothing is lost, little is sent again.
 * (I10) A shard that the coordinator takes for ready is, on its ps, of that index and generation;
 * a disagreement is noticed within a bound.
 */
#ifndef CADRE_TESTS_SIM_SIM_LOOK_H
#define CADRE_TESTS_SIM_SIM_LOOK_H

#include <stdbool.h>
#include <stdint.h>

struct sim_cluster;

/* Looks, when it is time to. */
void sim_look(struct sim_cluster *self);

/* Returns the first shard of which the coordinator and its ps, who lives and can be reached, do not
 * believe the same; SIM_NEVER for none. */
uint32_t sim_look_disagreement(struct sim_cluster *self);

#endif
