/*
 * shard_tables - what PULL, PUSH and ASSIGN do to the rows of a table: found in their messages,
 * checked, carried out.
 *
 * Owner:   nobody: it has no state. Thread: the shard's.
 *
 * Rows of a table travel as those of a partition do (shard_rows.h, row_gradient.h), with keys in
 * place of numbers of rows, and are cut as f32 of so many rows of [dim].
 */
#ifndef CADRE_PS_CORE_SHARD_TABLES_H
#define CADRE_PS_CORE_SHARD_TABLES_H

#include "common/wire/row_list.h"
#include "ps/core/row_gradient.h"
#include "ps/core/shard_parts.h"

/* The keys of one record of a PULL, without those of which the asker holds the present values. */
typedef struct {
    const uint64_t *items; /* [count] */
    size_t count;
    uint64_t *copy; /* of them, from malloc; NULL: they stand in the message */
} cadre_table_keys_t;

/* Gives the keys of one record, and sets in `unchanged` the bits, from bit `first` on, of those
 * that it leaves out; the others are 0 already. The caller ends them with cadre_table_keys_fini. */
cadre_table_keys_t cadre_shard_tables_keys(const cadre_shard_part_t *part,
                                           const cadre_part_rows_t *rows, uint64_t *unchanged,
                                           size_t first);

void cadre_table_keys_fini(cadre_table_keys_t *self);

/* Copies the values of some keys into `chunks`, cut as `count` rows of the table in `dtype`, f32 or
 * its wire dtype; the lanes help with many. Fails with CADRE_ENOTFINITE when a value does not fit
 * it. */
int cadre_shard_tables_pull(const cadre_shard_part_t *part, const cadre_table_keys_t *keys,
                            cadre_dtype_t dtype, cadre_chunk_t *const *chunks,
                            const cadre_lanes_t *lanes);

/* Copies slot number `slot` of some keys into `chunks`, cut as `count` rows of
 * cadre_table_slot_width numbers, f32. */
void cadre_shard_tables_pull_slot(const cadre_shard_part_t *part, const cadre_table_keys_t *keys,
                                  size_t slot, cadre_chunk_t *const *chunks);

/* Returns how many chunks gradients of `count` keys come in. Fails with CADRE_ETOOLARGE above
 * CADRE_TABLE_KEYS_MAX. */
int cadre_shard_tables_chunk_count(const cadre_shard_part_t *part, uint64_t count, size_t *out);

/* Checks gradients of which all chunks are there, before any row is changed. Fails with
 * CADRE_ESHAPE for chunks of other sizes, and as cadre_table_check. */
int cadre_shard_tables_check(const cadre_shard_part_t *part, const cadre_row_gradient_t *gradient,
                             const cadre_lanes_t *lanes);

/* Returns about how many bytes larger the table can be after checked gradients: as if no key had a
 * row, which takes no time; or `exactly`, for which each key is looked for. */
uint64_t cadre_shard_tables_growth(const cadre_shard_part_t *part,
                                   const cadre_row_gradient_t *gradient, bool exactly);

/* Applies checked gradients to a table of this spec: a part's own, or its image. */
void cadre_shard_tables_apply(cadre_table_t *table, const cadre_partition_spec_t *spec,
                              const cadre_row_gradient_t *gradient, const cadre_lanes_t *lanes);

/* Applies the weighted sum of gradients as one update: of each key the sum of those that have it,
 * in the order of the terms. */
void cadre_shard_tables_apply_sum(cadre_table_t *table, const cadre_partition_spec_t *spec,
                                  const cadre_row_term_t *terms, size_t count,
                                  const cadre_lanes_t *lanes);

/* Checks that there is room for the rows that an ASSIGN brings; gives how many bytes larger the
 * table can be then. Fails as cadre_table_check_assign. */
int cadre_shard_tables_check_assign(const cadre_shard_part_t *part, const cadre_part_rows_t *rows,
                                    uint64_t *growth);

/* Assigns rows, which stand in `chunks` as f32. */
void cadre_shard_tables_assign(cadre_table_t *table, cadre_assign_mode_t mode,
                               const cadre_part_rows_t *rows, cadre_chunk_t *const *chunks);

#endif
