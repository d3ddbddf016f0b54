/*
 * sim_table - a table as the oracle sees it: of each of a few keys, how much was added to its row.
 *
 * Owner:   the oracle.
 * Thread:  one.
 *
 * All tables of a world have the same keys, among which are the smallest and the largest, and of
 * any number of shards each has some. Which of them a pull, an update or an assignment names
 * follows from its number, at least one of every shard: so what holds of the parts of a dense
 * variable holds of those of a table. An update of strength k adds k * weight(key, column) to the
 * rows of its keys: a row is its first values, or 0 once it was set, and n * weight. First values
 * are those of a table that is on one shard. A synchronous step adds the mean of its updates, by
 * the rows that their closures read. The first numbers of a row are kept as floats, too, computed
 * in the order of the updates: they must be the same to the last bit.
 */
#ifndef CADRE_TESTS_SIM_SIM_TABLE_H
#define CADRE_TESTS_SIM_SIM_TABLE_H

#include "ps/core/table/table.h"
#include "tests/sim/sim_places.h"

/* The rows of one part; keys that other parts have stay as they began. */
typedef struct sim_rows {
    double n[SIM_KEYS];
    float numbers[SIM_KEYS][SIM_ROW_MAX]; /* the first of each row */
    uint64_t firsts;        /* keys of whose values the first ones are still a part: bits */
    uint64_t rows;          /* keys that have a row: bits */
    uint8_t seen[SIM_KEYS]; /* updates that named a key without one, where that counts */
    uint64_t unadmitted;    /* gradients that were dropped for want of a row */
    uint32_t admit_after;   /* updates that name a key before it has a row; 0: it has one */
    uint32_t steps;         /* updates */
    uint64_t evicted;       /* rows that made room for others, */
    uint64_t expired;       /* and that were too old or too small */
    sim_places_t places;
} sim_rows_t;

/* The sum of the updates of a step, in their order; zeroed: of none. */
typedef struct {
    double n[SIM_KEYS];
    float numbers[SIM_KEYS][SIM_ROW_MAX];
    uint64_t keys; /* that any of them names: bits */
} sim_row_sum_t;

/* What names keys: each kind draws others. */
typedef enum {
    SIM_KEYS_PULLED,
    SIM_KEYS_PUSHED,
    SIM_KEYS_ASSIGNED,
} sim_keys_kind_t;

/* Gives the keys of all tables, ascending, and those of each of `shard_count` shards: bits. */
void sim_keys_init(uint64_t keys[SIM_KEYS]);
uint64_t sim_keys_of_shard(const uint64_t keys[SIM_KEYS], uint32_t shard, uint32_t shard_count);

/* Fills in what the model has of a table beyond a dense variable. */
void sim_table_init(sim_variable_t *self, const cadre_variable_t *variable);

/* How often keys of table `number` must be seen before they have rows in a life of the coordinator,
 * the first of which is 0: in half of the tables more than once. In half of the worlds each life
 * has a number of its own. */
uint32_t sim_table_admit_after(uint64_t seed, uint32_t number, uint32_t life);

/* The keys of one part that a pull or update (of step `step` of call `number`) or an assignment
 * (`number`, step 0) names: bits; at least one, but for updates of a counted table. */
uint64_t sim_table_named(const sim_variable_t *self, uint32_t part, sim_keys_kind_t kind,
                         uint32_t number, uint32_t step);

/* Writes those of all parts, those of one part after those of another, as workers name them; their
 * number. */
size_t sim_table_list(const sim_variable_t *self, sim_keys_kind_t kind, uint32_t number,
                      uint32_t step, uint64_t keys[SIM_KEYS]);

/* k * weight of these rows, in their order, as `dtype`. */
cadre_chunk_t *sim_table_numbers(const sim_variable_t *self, const uint64_t *keys, size_t count,
                                 int64_t k, cadre_dtype_t dtype);

/* The rows that a part begins with. */
sim_rows_t sim_rows_first(const sim_variable_t *variable);

/* A shard goes on with rows of a checkpoint, and counts sightings or does not: those that there
 * were count on only where both do. */
void sim_rows_resume(sim_rows_t *self, uint32_t admit_after);

/* Adds an update of strength k to a sum, times `weight`; applies the sum to the keys that have a
 * row, or have been seen often enough to get one. */
void sim_row_sum_add(sim_row_sum_t *self, const sim_variable_t *variable, uint64_t keys, int64_t k,
                     float weight);
void sim_rows_push(sim_rows_t *self, const sim_variable_t *variable, const sim_row_sum_t *sum);

/* Whether an update of these keys needs more rows than there may be. */
bool sim_rows_refuse(const sim_rows_t *self, const sim_variable_t *variable, uint64_t keys);

/* An assignment of k, whose mode is one of set, add and sub, to keys in their order. */
void sim_rows_assign(sim_rows_t *self, const sim_variable_t *variable, const uint64_t *keys,
                     size_t count, cadre_assign_mode_t mode, int64_t k);

/* The position of a key among those of all tables; SIM_KEYS for none of them. */
uint32_t sim_table_find(const sim_variable_t *self, uint64_t key);

/* Whether `bytes` are the rows of these keys, of one part, in their order. */
bool sim_table_are(const sim_variable_t *self, const sim_rows_t *rows, const uint64_t *keys,
                   size_t count, cadre_dtype_t dtype, const void *bytes);

/* The same of a set of keys. */
bool sim_table_are_named(const sim_variable_t *self, const sim_rows_t *rows, uint64_t named,
                         cadre_dtype_t dtype, const void *bytes);

/* Why a part of a table is not these rows, as often updated; "" when it is. */
const char *sim_table_differs(const sim_variable_t *self, const sim_rows_t *rows, uint64_t of_part,
                              const cadre_table_t *table, char text[160]);

#endif
