/*
 * sim_lacks - workers that lack native functions, or whose data are missing or differ.
 *
 * Thread:  any; no state.
 *
 * What a worker lacks follows from the seed and its node, so that whoever sees a member's process
 * number knows what is true of it.
 */
#ifndef CADRE_TESTS_SIM_SIM_LACKS_H
#define CADRE_TESTS_SIM_SIM_LACKS_H

#include "coordinator/core/coordinator_core.h"
#include "tests/sim/sim_check.h"
#include "worker/core/registry.h"

typedef enum {
    SIM_DATA_GOOD,
    SIM_DATA_MISSING,
    SIM_DATA_OTHER, /* as many rows */
    SIM_DATA_FEWER,
} sim_data_t;

typedef struct {
    uint32_t functions; /* that are not there: bit (id - 1) % SIM_FUNCTIONS */
    sim_data_t data;
} sim_lacks_t;

/* Whether workers of this world lack anything. */
bool sim_lacks_anywhere(uint64_t seed);

/* What the worker at `node` lacks: in most worlds nothing. */
sim_lacks_t sim_lacks_of(uint64_t seed, uint32_t node);

/* Returns how many times as long closures take on a worker: 1 but in worlds with backup attempts,
 * where one worker of three is slow. */
uint32_t sim_slowness_of(uint64_t seed, uint32_t node);

/* The native functions that are there. */
cadre_registry_t *sim_lacks_registry(const sim_lacks_t *self);

/* The rows of a dataset from memory: chunks that know their places, three pieces of them. */
cadre_row_chunks_t sim_rows(void);

/* A worker opens such a dataset: it must have these rows, each once and in their order. */
void sim_rows_check(const sim_check_t *check, uint32_t node, const cadre_row_chunks_t *rows);

/* What it says of the dataset. */
cadre_dataset_ready_message_t sim_lacks_ready(const sim_lacks_t *self);

/* A worker begins a closure: it must have the function, and data that are those of all who read in
 * this life. */
void sim_lacks_check_start(const sim_lacks_t *self, uint32_t node, sim_check_t *check,
                           uint64_t epoch, const cadre_closure_message_t *closure);

/* A closure ends because nobody can run it: no worker that is there can. */
void sim_lacks_check_unserved(const sim_check_t *check, const cadre_core_t *core,
                              const sim_call_t *call);

#endif
