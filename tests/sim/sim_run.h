/*
 * sim_run - one job from its seed to its end: how bad it is, how it goes on, when it is stuck, what
 * must hold at the end.
 *
 * Thread:  one; no state between runs.
 */
#ifndef CADRE_TESTS_SIM_SIM_RUN_H
#define CADRE_TESTS_SIM_SIM_RUN_H

#include <stdbool.h>
#include <stdint.h>

enum { SIM_FAULTS_MIN = 5 }; /* in every job but a quiet one */

/* What the worlds of seeds may hold besides, by name (`sim_test --with NAME`): faults and checks
 * whose mend is on its way. Once the cores stand them they belong to every seed, and the switch
 * goes. */
#define SIM_SWITCHES(X)                                                                            \
    X(BANDWIDTH, "bandwidth")                                                                      \
    X(STUCK_SHARDS, "stuck-shards")

typedef enum {
#define SIM_SWITCH_NUMBER(name, text) SIM_SWITCH_NUMBER_##name,
    SIM_SWITCHES(SIM_SWITCH_NUMBER)
#undef SIM_SWITCH_NUMBER
} sim_switch_number_t;

enum {
#define SIM_SWITCH_BIT(name, text) SIM_WITH_##name = 1 << SIM_SWITCH_NUMBER_##name,
    SIM_SWITCHES(SIM_SWITCH_BIT)
#undef SIM_SWITCH_BIT
};

typedef struct {
    uint64_t seed;
    bool quiet; /* messages suffer, and nothing else */
    bool verbose;
    uint32_t with; /* bits: SIM_WITH_... */
} sim_options_t;

/* What a run was. */
typedef struct {
    uint64_t trace; /* two runs of one seed have the same */
    uint64_t events;
    uint64_t closures;
    uint64_t faults;
    uint64_t time_ms;
    uint64_t messages;
    uint64_t restores; /* of shards, the first one of each session included */
    uint64_t replayed; /* updates applied again after a restore */
    uint64_t taken;    /* results that closures had as arguments, each attempt anew */
    uint64_t found;    /* of them on the worker already */
    uint64_t lives;    /* of the coordinator */
    uint64_t committed;
    uint64_t given_up; /* checkpoints */
    uint64_t errors;
} sim_summary_t;

/* Returns the bit of a switch; 0 for a name that is none. */
uint32_t sim_switch(const char *name);

/* Runs the job of a seed to its end; a broken invariant ends the process. */
sim_summary_t sim_run(const sim_options_t *options);

#endif
