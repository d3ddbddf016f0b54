/*
 * sim_faults - what goes wrong, and when.
 *
 * Thread:  one; the state is the cluster's.
 *
 * Every fault is a row of one table: a kind of task and something that happens to one of them. A
 * new fault is a function and its row.
 */
#ifndef CADRE_TESTS_SIM_SIM_FAULTS_H
#define CADRE_TESTS_SIM_SIM_FAULTS_H

#include "tests/sim/sim_cluster.h"

/* Draws how bad this seed's world is. */
void sim_faults_init(sim_cluster_t *self);

/* Whether so much is lost or late that a ps which is not heard for a few seconds may be well: its
 * loss would end the job. */
bool sim_faults_are_harsh(const sim_cluster_t *self);

/* SIM_FAULT: one fault, and the next one is set up. With `value` other than 0: a place, plus 1,
 * where a worker starts again. */
void sim_faults_event(sim_cluster_t *self, const sim_event_t *event);

/* A supervisor starts a worker again at a place. */
void sim_faults_restart_later(sim_cluster_t *self, const sim_place_t *place);

/* From now on nothing goes wrong: everything cut is whole, everything paused goes on, every place
 * has a worker. */
void sim_faults_end(sim_cluster_t *self);

#endif
