/*
 * sim_swarm - what a seed makes of its world, each thing drawn by its name.
 *
 * Thread:  any; no state.
 *
 * A name's number depends on the seed and the name alone, so one that is added changes no other,
 * and no seed in which it comes out as nothing. Weights are drawn from none to dominant (swarm
 * testing: a world that lacks some faults reaches states that one with a little of everything never
 * does).
 */
#ifndef CADRE_TESTS_SIM_SIM_SWARM_H
#define CADRE_TESTS_SIM_SIM_SWARM_H

#include <stdbool.h>
#include <stdint.h>

/* Returns a number in [low, high]. */
uint64_t sim_swarm_draw(uint64_t seed, const char *name, uint64_t low, uint64_t high);

/* Returns what the weight `usual` is in the world of this seed: nothing, a part of it, itself, or
 * many times as much. */
uint32_t sim_swarm_weight(uint64_t seed, const char *name, uint32_t usual);

/* Returns whether this seed's world has something that `one_in` seeds have once. */
bool sim_swarm_has(uint64_t seed, const char *name, uint32_t one_in);

#endif
