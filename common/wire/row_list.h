/*
 * row_list - the rows that a message names.
 *
 * A message names rows by records (cadre_row_part_t), one for each partition: a stretch of rows, or
 * how many of the ids in its first chunk. An id is the row's number in the variable, u64
 * little-endian, so that a ps finds out when it is asked for a row of another partition.
 *
 * Owner: whoever holds the struct; it borrows from the message. Thread: any one.
 */
#ifndef CADRE_COMMON_WIRE_ROW_LIST_H
#define CADRE_COMMON_WIRE_ROW_LIST_H

#include "common/wire/record_list.h"

/* `first` of a record whose rows are listed in the payload. */
#define CADRE_ROWS_LISTED UINT64_MAX

/* The rows of one record. */
typedef struct {
    uint64_t variable;
    uint64_t partition;
    uint64_t first;     /* of a stretch: its first row */
    const uint8_t *ids; /* numbers of the rows, unaligned; NULL: a stretch */
    size_t count;
    uint64_t newest;     /* the newest version of which the asker holds one of these rows */
    const uint8_t *ages; /* of each row a u16, unaligned: 0 where it is not held, else 1 plus how
                            many versions it is older than that; NULL: none is held */
} cadre_part_rows_t;

/* The records of a message, from the next one on; a copy begins where this one stands. */
typedef struct {
    cadre_row_part_list_t parts;
    size_t next;            /* number of the next record */
    const uint8_t *ids;     /* those of the next record that lists its rows */
    size_t id_chunks;       /* chunks of the message that are ids: 0 or 1 */
    size_t listed;          /* rows of all records that list them */
    const uint64_t *newest; /* of each record; NULL: the asker holds no rows */
    const uint8_t *ages;    /* those of the next record that lists its rows */
} cadre_row_list_t;

/* Reads the rows that `message` names by `rows`, a field of it. Fails with CADRE_EMALFORMED when
 * there is no record, half a record or a record without rows, when the ids in the payload are more
 * or fewer than the records say, with CADRE_ETOOLARGE above CADRE_ROWS_MAX rows. */
int cadre_row_list_init(cadre_row_list_t *self, const cadre_u64s_t *rows,
                        const cadre_message_t *message);

/* Reads which of the rows the asker of a PULL holds, by its field `held`, before the first record
 * is given. Fails with CADRE_EMALFORMED when that has not a number for each record, or the second
 * chunk not one for each listed row. */
int cadre_row_list_read_held(cadre_row_list_t *self, const cadre_u64s_t *held,
                             const cadre_message_t *message);

/* Gives the rows of the next record; false when there is none. */
bool cadre_row_list_next(cadre_row_list_t *self, cadre_part_rows_t *out);

/* Returns the number, in the variable, of row `k`, k < count. */
uint64_t cadre_part_rows_at(const cadre_part_rows_t *self, size_t k);

/* Returns the version plus 1 of which the asker holds row `k`, k < count; 0 where it holds none. */
uint64_t cadre_part_rows_held(const cadre_part_rows_t *self, size_t k);

#endif
