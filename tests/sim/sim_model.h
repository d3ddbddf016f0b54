/*
 * sim_model - a variable as one number per partition: element i is n * weight(i).
 *
 * Owner:   the oracle.
 * Thread:  one.
 *
 * weight(i) = 1 + i % 5 over the whole variable, so values of the wrong rows are seen too. Whole
 * numbers below 2^24 are exact in every type.
 */
#ifndef CADRE_TESTS_SIM_SIM_MODEL_H
#define CADRE_TESTS_SIM_SIM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/catalogue.h"

enum { SIM_VARIABLES_MAX = 16, SIM_WEIGHTS = 5 };

typedef struct {
    uint16_t shard;
    int64_t first; /* element of the variable */
    int64_t count;
    int64_t n;
    int64_t updates;  /* that were applied */
    uint64_t since;   /* version when the read under way began */
    uint64_t version; /* updates and assignments */
    int64_t *history; /* [version + 1]: n at each version */
    size_t history_capacity;
} sim_part_t;

typedef struct {
    const cadre_variable_t *variable; /* the coordinator's */
    cadre_chunk_t *gradient;          /* of one update, the whole variable's */
    uint32_t part_count;
    sim_part_t *parts;
} sim_variable_t;

void sim_variable_init(sim_variable_t *self, const cadre_variable_t *variable);
void sim_variable_fini(sim_variable_t *self);

/* The bytes of k * weight(i) for the whole variable, which the caller frees. */
void *sim_variable_values(const sim_variable_t *self, int64_t k);

size_t sim_variable_size_bytes(const sim_variable_t *self);

/* A change of one part: n becomes this, in a new version. */
void sim_part_change(sim_part_t *self, int64_t n);

/* Whether the part had this n at some version from `since` on. */
bool sim_part_had(const sim_part_t *self, int64_t n);

/* Compares `count` elements from element `first` on with n * weight(i); the first that differs, or
 * -1. */
int64_t sim_differs(cadre_dtype_t dtype, const void *bytes, int64_t first, int64_t count,
                    int64_t n);

/* The n that element `first` would have been made with. */
int64_t sim_guess(cadre_dtype_t dtype, const void *bytes, int64_t first);

#endif
