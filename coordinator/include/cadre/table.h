/*
 * table - sparse variables: rows of numbers by 64-bit key, which come to be when they are first
 * updated.
 *
 *     cadre_table_options_t options = cadre_table_options();
 *     options.initializer = cadre_initializer(CADRE_INITIALIZER_NORMAL);
 *     options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADAGRAD);
 *     options.admit_after = 3;
 *     s = cadre_variable_create_table(job, "users", 16, &options, &users);
 *     ...
 *     const uint64_t keys[] = {0x9f3c51aa07e4d211, 42};
 *     s = cadre_variable_read_keys(users, keys, 2, &rows, -1); (a tensor of [2, 16])
 *
 * A table is for embeddings of things whose number nobody knows: users, words, hashes of features.
 * Any key may be read at any time: one without a row has its first values, which follow from seed,
 * key and column alone, and reading it makes no row. The first update of a key makes its row.
 *
 * Keys are spread over all ps by a hash. What a ps keeps for a key are its values, what the
 * optimizer needs for them, and 16 bytes or so; rows that are not updated any more can be evicted.
 * Checkpoints hold all rows, and a job may be resumed with another number of ps.
 *
 * A table is a variable, with the calls of <cadre/variable.h> for its name, parts, learning rate
 * and end (cadre_variable_drop); its shape is that of a row, [dim], its dtype f32. Calls that read
 * or assign a variable as a whole, or a whole slot, fail for a table with CADRE_EINVALID. Names,
 * errors, waiting and threads are as <cadre/coordinator.h> says.
 */
#ifndef CADRE_TABLE_H
#define CADRE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cadre/coordinator.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What happens to a key that would be one row more than `rows_max`. */
typedef enum {
    CADRE_TABLE_FULL_REFUSE = 1, /* the update fails with CADRE_EFULL, and its closure with it */
    CADRE_TABLE_FULL_LRU = 2,    /* a row that was not updated for long is evicted */
    CADRE_TABLE_FULL_LFU = 3,    /* a row that was updated seldom is evicted */
} cadre_table_full_t;

/* How a table keeps its rows. 0 is the default of every field, optimizer and initializer
 * included. */
typedef struct {
    /* sizeof(cadre_table_options_t), as cadre_table_options sets it. */
    size_t size;

    /* Type in which values are kept: CADRE_BF16 takes half the memory; values are then rounded
     * after each update. Gradients and the optimizer's numbers are f32. 0: CADRE_F32. */
    cadre_dtype_t storage;

    /* Type of values and gradients between workers and ps, as in cadre_variable_options_t. */
    cadre_dtype_t wire;

    /* The first values of a row: zeros, constant, uniform, normal or truncated_normal. Default:
     * zeros. */
    cadre_initializer_t initializer;

    /* Seed of random first values. 0: from the job's seed and the table's name. */
    uint64_t seed;

    /* How gradients change rows: sgd, momentum, adagrad, adam or ftrl. Rows that an update does not
     * name rest, momentum and Adam's moments included ("lazy"). Adam's t, and that of a schedule,
     * counts the updates of the table, whichever keys they name. Default: sgd with learning rate
     * 0.01. */
    cadre_optimizer_t optimizer;
    cadre_schedule_t schedule;

    /* Limits each element of a gradient, as in cadre_variable_options_t. 0: no limit. */
    double clip_value;

    /* Of adagrad: one accumulator for each row, of the mean of its squared gradients, instead of
     * one for each number (row-wise Adagrad). */
    bool row_wise;

    /* A key gets its row at its sighting with this number; the gradients before are dropped. 0 and
     * 1: at the first. At most 255. A sketch counts, of 12 to 24 bytes for each key without a row:
     * never too low, and too high for few keys. Beyond 1 GiB on one ps, 89 million keys, it forgets
     * those that it has not seen for longest; and all of them when the job is resumed with another
     * number of ps, or was without admit_after. */
    uint32_t admit_after;

    /* Strength of a penalty on the length of each row, by which rows that do not earn it become 0
     * as a whole (group lasso). 0: none. */
    double group_lasso;

    /* The most rows on one ps, at most 2,147,483,647, and what happens beyond. 0: as many as fit
     * into its memory, and CADRE_TABLE_FULL_REFUSE. Whatever `when_full`, an update with more keys
     * than this on one ps fails with CADRE_EFULL. A job that is resumed with fewer ps, or with a
     * smaller number, may begin with more rows: where rows are evicted each update takes as many of
     * them as it has keys, and 64. */
    uint64_t rows_max;
    cadre_table_full_t when_full;

    /* Rows that were not updated by so many updates of the table are evicted. 0: none is. */
    uint32_t age_max;

    /* Rows whose Euclidean norm is below it after an update are evicted. 0: none is. */
    double norm_min;

    /* How long its creation may take, as in cadre_variable_options_t. */
    int64_t timeout_ms;
} cadre_table_options_t;

/* Returns options with every default in place. */
static inline cadre_table_options_t
cadre_table_options(void)
{
    cadre_table_options_t options;
    memset(&options, 0, sizeof(options));
    options.size = sizeof(options);
    options.initializer = cadre_initializer(CADRE_INITIALIZER_ZEROS);
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_SGD);
    return options;
}

/* Creates a table of rows of `dim` numbers, 1 to 8,192, and returns when it exists on all ps. It
 * begins without rows, or after a resume with those of the checkpoint. `options` may be NULL.
 *
 * CADRE_EINVALID: a bad name, `dim` or option.
 * CADRE_EDTYPE: rows are stored as neither f32 nor bf16, or travel as something else.
 * CADRE_EEXISTS, CADRE_ESTATE, CADRE_ETIMEOUT: as cadre_variable_create. */
CADRE_API int cadre_variable_create_table(cadre_coordinator_t *self, const char *name, uint32_t dim,
                                          const cadre_table_options_t *options,
                                          cadre_variable_t **table);

/* Returns whether the variable is a table. */
CADRE_API bool cadre_variable_is_table(const cadre_variable_t *self);

/* Reads the rows of `keys` [count] into `rows`, in their order: a tensor of [count, dim] f32, which
 * the caller ends with cadre_tensor_fini. A key may stand there several times. Otherwise as
 * cadre_variable_read_rows (<cadre/rows.h>).
 *
 * CADRE_EINVALID: the variable is no table, or there is no key.
 * CADRE_ETOOLARGE: there are more than 67,108,864 keys. */
CADRE_API int cadre_variable_read_keys(cadre_variable_t *self, const uint64_t *keys, size_t count,
                                       cadre_tensor_t *rows, int64_t timeout_ms);

/* Reads a slot of the table's optimizer, such as Adagrad's "accumulator", of `keys` [count] as
 * cadre_variable_read_keys reads their values: a tensor of [count, dim] f32, or of [count, 1] where
 * the table is `row_wise`. A key without a row has what the slot begins with.
 * cadre_variable_slot_count and cadre_variable_slot_name (<cadre/variable.h>) list the slots.
 *
 * CADRE_ENOTFOUND: the optimizer has no such slot; the error names those that it has. */
CADRE_API int cadre_variable_read_slot_keys(cadre_variable_t *self, const char *slot,
                                            const uint64_t *keys, size_t count,
                                            cadre_tensor_t *rows, int64_t timeout_ms);

/* Assigns to the rows of `keys` [count], exactly once, as cadre_variable_assign_rows: row i of
 * `rows` [count, dim] belongs to keys[i]. CADRE_VARIABLE_SET gives a key without a row its row,
 * whatever `admit_after` says; other modes work on its first values, and give it a row, too. A sum
 * or product that is too large becomes infinite, as in any variable (cadre_variable_assign): only
 * the rows that are given are checked. What the optimizer keeps for a row stays as it is, or
 * begins.
 *
 * Where rows are evicted (`when_full`) rows go that were not updated for long, or seldom, and when
 * all others are gone, those that the newest update has changed or earlier assignments gave. All of
 * `keys` have their rows afterwards, if those of one ps are at most 65,536 with 4 MiB of values;
 * more are assigned in parts, of which a later one may evict rows of one before when no older are
 * left.
 *
 * CADRE_EFULL: a table has rows_max rows on a ps and evicts none, or more of such a part on one ps
 *   than rows_max. Of this call, rows on other ps may be assigned.
 * Fails otherwise as cadre_variable_read_keys and cadre_variable_assign_rows. */
CADRE_API int cadre_variable_assign_keys(cadre_variable_t *self, cadre_assign_t mode,
                                         const uint64_t *keys, size_t count,
                                         const cadre_tensor_t *rows, int64_t timeout_ms);

/* What all ps count of a table, since it was created, also over resumes. The struct gets no more
 * fields in later versions. */
typedef struct {
    uint64_t rows;       /* now */
    uint64_t size_bytes; /* of memory, for rows and what finds them */
    uint64_t steps;      /* updates: of the ps that has had most */
    uint64_t created;    /* rows, ever */
    uint64_t evicted;    /* rows that went to make room for others */
    uint64_t expired;    /* rows that were too old, or too small */
    uint64_t unadmitted; /* gradients that were dropped since their key was not yet seen often */
} cadre_table_counts_t;

/* Asks all ps what they count of a table; while closures run each answers of another moment.
 *
 * CADRE_EINVALID: the variable is no table. */
CADRE_API int cadre_variable_read_counts(cadre_variable_t *self, cadre_table_counts_t *counts,
                                         int64_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
