/*
 * sim_call - a closure of the user program, drawn at random, and its record.
 *
 * Thread:  one; no state.
 */
#ifndef CADRE_TESTS_SIM_SIM_CALL_H
#define CADRE_TESTS_SIM_SIM_CALL_H

#include "tests/sim/sim_script.h"

enum { SIM_FUNCTIONS = 3 };

/* A new closure of one of the functions; its record is in `check`. */
cadre_closure_t *sim_call_new(cadre_random_t *random, const sim_plan_t *plan, sim_check_t *check,
                              const cadre_core_t *core);

/* A record of what a client will ask for, of variables that are there for good. */
sim_call_t *sim_call_new_of_client(cadre_random_t *random, const sim_plan_t *plan,
                                   sim_check_t *check, uint64_t client);

#endif
