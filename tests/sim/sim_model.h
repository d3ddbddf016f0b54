/*
 * sim_model - a variable as one number per partition: element i is n * weight(i).
 *
 * Owner:   the oracle.
 * Thread:  one.
 *
 * weight(i) = 1 + i % 5 over the whole variable, so values of the wrong rows are seen too. Whole
 * numbers below 2^24 are exact in every type. Updates come in strengths of 1 to SIM_STRENGTHS, so
 * that what a version holds depends on the order of updates, and one that is lost is not made good
 * by another that is applied twice. A variable may travel as bf16: its updates are exact there, and
 * what a worker pulls is n * weight(i) rounded.
 *
 * Where late gradients are compensated there is no such n: g + lambda g^2 (w - u) depends on the
 * weight. Of such a variable there is one float for each weight, computed by that formula in the
 * order of the updates: they must be the same to the last bit.
 */
#ifndef CADRE_TESTS_SIM_SIM_MODEL_H
#define CADRE_TESTS_SIM_SIM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/tensor/chunk.h"
#include "coordinator/core/catalogue/catalogue.h"

enum {
    SIM_VARIABLES_MAX = 16,
    SIM_WEIGHTS = 5,
    SIM_STRENGTHS = 3,
    SIM_SHARDS_MAX = 16,
    SIM_KEYS = 64,       /* of every table: a set of them is a u64 */
    SIM_ROW_MAX = 4,     /* numbers of a table's row, but for */
    SIM_ROW_WIDE = 1024, /* those of a wide one, of which a page has few */
};

/* What the elements of a part are: n * weight(i), or where delays are compensated, or gradients are
 * sparse, moved[of i]. */
typedef struct {
    int64_t n;
    bool is_moved;
    bool is_compensated;
    float moved[SIM_WEIGHTS];
} sim_number_t;

/* What the user program makes of it, in every life of the coordinator the same. */
typedef struct {
    cadre_dtype_t dtype;
    cadre_dtype_t wire; /* between shards and workers; 0: dtype */
    int rank;
    int64_t shape[2];
    const char *optimizer;
    int partitions;                 /* asked for; 0: as the coordinator likes */
    double delay_compensation;      /* lambda; 0: none */
    double momentum;                /* above 0: gradients are sparse (sim_is_zero) */
    bool too_large;                 /* for a shard that is short of memory: nothing uses it */
    bool is_table;                  /* of rows of shape[0] numbers by key (sim_table.h) */
    const char *initializer;        /* of a table; NULL: zeros */
    uint64_t rows_max;              /* of a table: rows of a part, at most; 0: any number */
    cadre_table_policy_t when_full; /* what happens then */
    uint32_t age_max;               /* of a table: updates that a row stays without one; 0: any */
    double norm_min;                /* of a table: a row below it goes; 0: none does */
} sim_definition_t;

typedef struct {
    uint16_t shard;
    int64_t first; /* element of the variable */
    int64_t count;
    uint64_t keys; /* of a table: those that the part has, bits */
} sim_part_t;

typedef struct {
    uint32_t id;
    char name[16];
    sim_definition_t definition;
    int64_t rows;
    size_t row_size_bytes;
    cadre_dtype_t wire;
    bool has_slot;                               /* of the optimizer: holds the last update */
    cadre_chunk_t *gradients[SIM_STRENGTHS + 1]; /* the whole variable's, of each strength from 1,
                                                    as they travel */
    uint32_t part_count;
    sim_part_t *parts;
    uint32_t dim;            /* of a table; 0: a dense variable */
    bool is_counted;         /* a table of which updates name parts without keys, too */
    uint64_t keys[SIM_KEYS]; /* of a table, ascending */
    float *firsts;           /* [SIM_KEYS, dim] the first values of their rows */
    bool given_up;    /* its creation was, in every life of the coordinator: no shard keeps it */
    bool dropped;     /* the program has dropped it in this life, or left it out: */
    uint64_t drop;    /* with this number; 0: left out */
    bool was_dropped; /* in some life */
    size_t rates;     /* changes of its learning rate that its shards have said to have taken */
} sim_variable_t;

/* Follows `variable`, which was made of `definition`. */
void sim_variable_init(sim_variable_t *self, const cadre_variable_t *variable,
                       const sim_definition_t *definition);

/* Lays the parts of a variable out anew, in memory of its own: the parts before stay the caller's.
 */
void sim_variable_lay(sim_variable_t *self, const cadre_variable_t *variable);
void sim_variable_fini(sim_variable_t *self);

/* Whether `variable`, made in another life of the coordinator, is cut and placed the same. */
bool sim_variable_is(const sim_variable_t *self, const cadre_variable_t *variable);

/* The bytes of k * weight(i) for the whole variable, which the caller frees. */
void *sim_variable_values(const sim_variable_t *self, int64_t k);

size_t sim_variable_size_bytes(const sim_variable_t *self);

/* Whether the gradient of this strength is zero in an element, though its momentum moves that. */
bool sim_is_zero(const sim_variable_t *self, int64_t strength, int64_t element);

/* What element `element` is a multiple of. */
int64_t sim_weight(int64_t element);

/* The nearest number that bf16 holds. */
double sim_round_to_bf16(double value);

/* Writes and reads number `at` of `bytes`. */
void sim_put(cadre_dtype_t dtype, void *bytes, int64_t at, int64_t value);
double sim_get(cadre_dtype_t dtype, const void *bytes, int64_t at);

/* n * weight(i). */
sim_number_t sim_number(int64_t n);

/* What a variable begins with. */
sim_number_t sim_number_first(const sim_variable_t *variable);

/* An update of strength `strength`, in place, after one that added `last`; `pulled`, unless it is
 * NULL, are the values that its gradient was computed from, for whose age it is compensated.
 * Returns what was added. */
sim_number_t sim_number_push(sim_number_t *self, const sim_variable_t *variable, int64_t strength,
                             const sim_number_t *last, const sim_number_t *pulled);

/* What an assignment of k makes of it; the model has no products. */
void sim_number_assign(sim_number_t *self, cadre_assign_mode_t mode, int64_t k);

/* Compares `count` elements from element `first` on with what they must be, rounded to the dtype;
 * the first that differs, or -1. */
int64_t sim_differs(cadre_dtype_t dtype, const void *bytes, int64_t first, int64_t count,
                    const sim_number_t *number);

/* Whether the first element is a finite number; makes it one that is not. */
bool sim_is_finite(cadre_dtype_t dtype, const void *bytes);
void sim_make_infinite(cadre_dtype_t dtype, void *bytes, int64_t element);

/* The n that element `first` would have been made with. */
int64_t sim_guess(cadre_dtype_t dtype, const void *bytes, int64_t first);

#endif
