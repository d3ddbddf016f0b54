/*
 * sim_values - the futures of the user program, and what closures take from each other.
 *
 * Owner:   the script. Thread: one.
 *
 * What an attempt of a call gives is a list of numbers that no other attempt gives. The one whose
 * report ends the closure is the value of the call, and whoever takes it must get those numbers:
 * not those of another attempt, and the same ones when it runs again.
 */
#ifndef CADRE_TESTS_SIM_SIM_VALUES_H
#define CADRE_TESTS_SIM_SIM_VALUES_H

#include "common/base/random.h"
#include "coordinator/core/coordinator_core.h"
#include "tests/sim/sim_check.h"

enum {
    SIM_FUTURES_MAX = 12,
    SIM_VALUE_COUNT = 2,       /* numbers in a value: the call's index, the stamp, then more */
    SIM_VALUE_BIG_COUNT = 700, /* in a big one */
    SIM_STAMP_BITS = 32,
};

typedef struct {
    cadre_results_t *results[SIM_FUTURES_MAX];
    uint32_t calls[SIM_FUTURES_MAX];
    uint32_t count;
} sim_futures_t;

/* Drops all. */
void sim_futures_fini(sim_futures_t *self);

/* Has the new closure take results of some of the futures, and maybe keeps one of its own. */
void sim_futures_link(sim_futures_t *self, cadre_random_t *random, sim_call_t *call,
                      cadre_closure_t *closure);

/* Before it is put into the queue: it takes nothing when it is known that this would fail. */
void sim_futures_check(sim_call_t *call, cadre_closure_t *closure);

/* The value of an attempt, into a list that the caller ends. */
void sim_value_make(const sim_call_t *call, int64_t stamp, cadre_tensor_list_t *list);

/* The stamp of a value; fails unless it is one of this call. */
int64_t sim_value_stamp(const sim_check_t *check, const sim_call_t *call,
                        const cadre_tensor_t *value);

/* A closure begins with these arguments: each is what its call gave. */
void sim_check_values(sim_check_t *check, const sim_call_t *call, const cadre_tensor_t *tensors,
                      size_t count);

#endif
