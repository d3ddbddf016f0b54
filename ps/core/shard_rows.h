/*
 * shard_rows - the rows of partitions that a PULL asks for, copied into its answer, and those that
 * an ASSIGN brings, checked.
 *
 * Owner:   nobody: it has no state. Thread: the shard's.
 *
 * Whole partitions are answered by references to their chunks (shard_pull.h); a few rows of a chunk
 * are copied, so that no more travels than was asked for. All rows of one PULL are of the versions
 * that the answer tells, one for each record. How much is copied in one turn is bounded by
 * CADRE_ROWS_MAX and CADRE_ROWS_SIZE_MAX.
 */
#ifndef CADRE_PS_CORE_SHARD_ROWS_H
#define CADRE_PS_CORE_SHARD_ROWS_H

#include "common/wire/row_list.h"
#include "ps/core/shard_pull.h"

/* What VALUES says of the rows of a PULL. */
typedef struct {
    cadre_pulled_part_t *parts; /* [the records of the PULL]: version and number of chunks */
    uint64_t *unchanged;        /* [CADRE_ROWS_MAX / 64], zeroed: bits of the rows left out */
    size_t words;               /* how many of these the PULL has rows for; 0: none is left out */
    /* Zeroed, [CADRE_CLIENT_ROWS_MAX / 64]: bits of the rows that tables lack. */
    uint64_t *absent;
    size_t absent_words; /* how many of these the PULL has rows for; 0: it does not ask */
} cadre_pulled_rows_t;

/* Adds the rows that the PULL `message` names to `answer`, without rows of tables of which the
 * asker holds the present values, and writes the arrays of `pulled`. Changes nothing but these when
 * it fails: as cadre_row_list_init and cadre_row_list_read_held, with CADRE_ENOTFOUND for an
 * unknown partition, with CADRE_EINVALID for a row that is not in its partition and for a partition
 * without average, with CADRE_ETOOLARGE for several rows of more than CADRE_ROWS_SIZE_MAX bytes
 * together, or for more than CADRE_CLIENT_ROWS_MAX of which it asks whether they are there, with
 * CADRE_ENOTFINITE when a value does not fit the wire dtype. */
int cadre_shard_rows_pull(const cadre_shard_parts_t *parts, const cadre_message_t *message,
                          cadre_pulled_t what, cadre_ps_counters_t *counters,
                          cadre_message_t *answer, cadre_pulled_rows_t *pulled);

/* Returns the bytes, in the wire dtype, of the rows that a PULL names; unknown parts count as 0,
 * and so do all of a list that is malformed. */
size_t cadre_shard_rows_size_bytes(const cadre_shard_parts_t *parts,
                                   const cadre_message_t *message);

/* Checks the rows that an ASSIGN brings; `list` becomes their list. Fails as cadre_row_list_init,
 * with CADRE_ENOTFOUND for an unknown partition, with CADRE_EINVALID for a row that is not in its
 * partition or a partition of another variable, with CADRE_ETOOLARGE as cadre_shard_rows_pull, with
 * CADRE_ESHAPE for chunks of other number or sizes, with CADRE_ENOTFINITE for infinity or NaN, with
 * CADRE_EFULL when a table has no room for its rows, or the shard none for the table. */
int cadre_shard_rows_check(const cadre_shard_parts_t *parts, const cadre_message_t *message,
                           cadre_row_list_t *list);

/* Returns into how many chunks the rows of one record are cut. */
size_t cadre_shard_rows_chunk_count(const cadre_shard_part_t *part, const cadre_part_rows_t *rows);

#endif
