/*
 * table_spec - how the rows of a table are kept, as data: chosen by the coordinator, known to each
 * ps. ps/core/table/table.h keeps them.
 *
 * A table is a sparse variable: rows of `dim` numbers by 64-bit key. Keys are spread over the
 * shards by a hash, so every shard has the same spec and rows of its own.
 *
 * Owner:   whoever holds the struct (plain data).
 * Thread:  any one.
 */
#ifndef CADRE_COMMON_SPEC_TABLE_SPEC_H
#define CADRE_COMMON_SPEC_TABLE_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/spec/initializer_spec.h"
#include "common/spec/optimizer_spec.h"

/* The kinds of initializers that rows may have, for messages. */
#define CADRE_TABLE_INITIALIZERS "zeros, constant, uniform, normal, truncated_normal"

/* What happens to a key that would be one row more than `rows_max`. */
typedef enum {
    CADRE_TABLE_REFUSE = 1,    /* the update is refused */
    CADRE_TABLE_EVICT_LRU = 2, /* a row that was not updated for long goes */
    CADRE_TABLE_EVICT_LFU = 3, /* a row that was updated seldom goes */
} cadre_table_policy_t;

/* Returns the word for a policy, such as "lru", as job files and manifests have it; "?" for a
 * number that is none. */
const char *cadre_table_policy_text(cadre_table_policy_t policy);

typedef struct {
    uint32_t dim; /* numbers of a row */

    /* In which values are stored: f32, or bf16, which are f32 rounded after every update. Gradients
     * and optimizer slots are f32. */
    cadre_dtype_t storage;

    /* Seed and distribution of a row's first values. They are a function of seed, key and
     * column. */
    cadre_initializer_spec_t initializer;

    /* sgd, momentum, adagrad, adam (which moves the moments of updated rows alone: "lazy") or ftrl.
     * The t of adam and of a schedule counts the updates of the table, whichever keys they name. */
    cadre_optimizer_spec_t optimizer;

    /* Of adagrad: one accumulator for the row, of the mean of its squared gradients, instead of one
     * for each number. */
    bool row_wise;

    /* Strength of the penalty on the length of each row; 0: none. Rows that do not earn it become
     * 0 as a whole (row_optimizer.h has the formula). */
    double group_lasso;

    /* A key gets a row at its sighting with this number; 0 and 1: at the first. At most 255. */
    uint32_t admit_after;

    /* Rows on one shard; 0: as many as fit. And what happens beyond. */
    uint64_t rows_max;
    cadre_table_policy_t when_full;

    /* Rows that were not updated by so many updates of the table are evicted; 0: none is. */
    uint32_t age_max;

    /* Rows whose Euclidean norm is below it after their last update are evicted; 0: none is. */
    double norm_min;
} cadre_table_spec_t;

/* Returns a spec with `dim` columns of zeros in f32, updated by sgd with its defaults, and without
 * any limit. */
cadre_table_spec_t cadre_table_spec(uint32_t dim);

/* Checks all fields. Fails with CADRE_EINVALID for a bad value, for an initializer whose width
 * depends on a number of rows, for an optimizer that is not for tables, and for an average; with
 * CADRE_EDTYPE for another storage than f32 and bf16. */
int cadre_table_spec_check(const cadre_table_spec_t *self);

/* Mixes all bits of a key (the finalizer of SplitMix64: Steele, Lea and Flood 2014, "Fast
 * splittable pseudorandom number generators"); different keys give different numbers. */
uint64_t cadre_table_mix(uint64_t key);

/* Returns which of `shard_count` shards, at least 1, has a key. */
uint32_t cadre_table_shard(uint64_t key, uint32_t shard_count);

#endif
