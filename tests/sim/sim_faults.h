/*
 * sim_faults - what goes wrong, and when.
 *
 * Thread:  one; the state is the cluster's.
 *
 * Every fault is a row of one table in sim_faults.c. A new fault is a function and its row.
 */
#ifndef CADRE_TESTS_SIM_SIM_FAULTS_H
#define CADRE_TESTS_SIM_SIM_FAULTS_H

#include "tests/sim/sim_cluster.h"

/* Draws how bad this seed's world is; in a quiet one messages suffer, and nothing else. */
void sim_faults_init(sim_cluster_t *self);

/* SIM_FAULT: one fault, and the next one is set up; or, by `value`, a task that starts again. */
void sim_faults_event(sim_cluster_t *self, const sim_event_t *event);

/* A supervisor starts a task again at a place, not before `least_ms`; or the coordinator. */
void sim_faults_restart_later(sim_cluster_t *self, const sim_place_t *place, uint64_t least_ms);
void sim_faults_restart_coordinator_later(sim_cluster_t *self);

/* Returns whether a worker has the place of one that is bound to its index: closures may be for
 * that one alone, and it is refused as long as the other one is heard. */
bool sim_faults_in_the_way(const sim_cluster_t *self, const sim_worker_t *worker);

/* A supervisor kills the task at a place, and starts another, once the coordinator has given it up.
 */
void sim_faults_watch(sim_cluster_t *self, const sim_place_t *place);

/* A worker that is cut off for good is killed once it is in the way of another one. */
void sim_faults_watch_worker(sim_cluster_t *self, const sim_worker_t *worker);

/* After every turn of the coordinator: whether the trap that was laid snaps. */
void sim_faults_look(sim_cluster_t *self);

/* From now on nothing goes wrong: everything cut is whole but what is so for good, disks are sound,
 * every place has a task, what is paused goes on when its time has come. */
void sim_faults_end(sim_cluster_t *self);

/* --- the faults: true when they happened --- */

bool sim_fault_kill_worker(sim_cluster_t *self);
bool sim_fault_pause_worker(sim_cluster_t *self);
bool sim_fault_replace_worker(sim_cluster_t *self);
bool sim_fault_reconnect_worker(sim_cluster_t *self);
bool sim_fault_drain_worker(sim_cluster_t *self);
bool sim_fault_kill_ps(sim_cluster_t *self);
bool sim_fault_pause_ps(sim_cluster_t *self);
bool sim_fault_replace_ps(sim_cluster_t *self);
bool sim_fault_reconnect_ps(sim_cluster_t *self);
bool sim_fault_ps_leaves(sim_cluster_t *self);
bool sim_fault_stick_ps(sim_cluster_t *self);
bool sim_fault_stall_coordinator(sim_cluster_t *self);
bool sim_fault_kill_coordinator(sim_cluster_t *self);
bool sim_fault_resize(sim_cluster_t *self);
bool sim_fault_pause_coordinator(sim_cluster_t *self);
bool sim_fault_second_coordinator(sim_cluster_t *self);
bool sim_fault_lay_trap(sim_cluster_t *self);

bool sim_fault_cut_worker(sim_cluster_t *self);
bool sim_fault_cut_ps(sim_cluster_t *self);
bool sim_fault_cut_data(sim_cluster_t *self);
bool sim_fault_swizzle(sim_cluster_t *self);
bool sim_fault_part_for_good(sim_cluster_t *self);
bool sim_fault_isolate_worker(sim_cluster_t *self);
bool sim_fault_isolate_ps(sim_cluster_t *self);

/* --- between the files --- */

uint64_t sim_faults_draw(sim_cluster_t *self, uint64_t low, uint64_t high);
void sim_faults_say(const sim_cluster_t *self, const char *what, uint32_t node, uint64_t ms);

/* A place of this role with a living task, at random; NULL when there is none. */
sim_place_t *sim_faults_pick(sim_cluster_t *self, cadre_role_t role);

#endif
