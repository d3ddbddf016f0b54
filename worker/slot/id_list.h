/*
 * id_list - the rows that one run of a program looks up in its variables: a list without
 * duplicates, and positions in it instead of ids.
 *
 * Ids are sorted by their digits, so that the same ids give the same list and positions whatever
 * their order was, in a time that grows with their number alone.
 *
 * Owner:   one slot, one for each set of ids (common/graph/row_sets.h). Thread: the slot's.
 */
#ifndef CADRE_WORKER_SLOT_ID_LIST_H
#define CADRE_WORKER_SLOT_ID_LIST_H

#include <cadre/tensor.h>

#include "common/graph/row_sets.h"

typedef struct {
    uint64_t id;
    uint64_t place; /* of its position; CADRE_ID_NOWHERE: the row is listed, and nothing reads it */
} cadre_id_entry_t;

#define CADRE_ID_NOWHERE UINT64_MAX

/* Zeroed memory is an empty list; what it has allocated is used again by the next run. */
typedef struct {
    uint64_t *ids; /* [count]: strictly ascending once finished, unless they were spread */
    size_t count;
    size_t id_capacity;
    int32_t *positions; /* of all lookups, one after the other */
    size_t position_count;
    size_t position_capacity;
    cadre_id_entry_t *entries; /* [entry_count]: an id for each position but padding */
    cadre_id_entry_t *spare;   /* of the same capacity: what sorting writes to */
    size_t entry_count;
    size_t entry_capacity;
} cadre_id_list_t;

/* Begins the next run: forgets ids and positions. */
void cadre_id_list_begin(cadre_id_list_t *self);

/* The rows of a table, each of which an i64 names by its bits. */
#define CADRE_ID_ALL INT64_MAX

/* Adds the ids of a lookup: i32, which must be below `rows`, or i64, each of which is a key by its
 * bits. -1 is no id where the lookup pads. `*first`: where its positions, of the ids' number, will
 * begin in `positions`. Fails with CADRE_EDATA for an id that is out of range, with the text that a
 * device has for it. */
int cadre_id_list_add(cadre_id_list_t *self, const cadre_row_lookup_t *lookup,
                      const cadre_tensor_t *ids, int64_t rows, size_t *first);

/* Adds ids that are no part of a program: below `rows`, or with CADRE_ID_ALL keys by their bits.
 * Fails with CADRE_EDATA for an id that is out of range; `what` names the variable in the text. */
int cadre_id_list_add_numbers(cadre_id_list_t *self, const char *what, const int64_t *ids,
                              int64_t count, int64_t rows);

/* Lists the ids, and writes the positions. */
void cadre_id_list_finish(cadre_id_list_t *self);

/* Orders the ids of a finished list by which of `shards` shards has them
 * (common/spec/table_spec.h), those of one shard ascending; positions follow. */
void cadre_id_list_spread(cadre_id_list_t *self, uint32_t shards);

/* Adds to a finished list the first row of each of `partitions` into which `rows` rows are split
 * (common/tensor/split.h), if the list has no row of that partition; positions follow. */
void cadre_id_list_cover(cadre_id_list_t *self, int64_t rows, uint32_t partitions);

void cadre_id_list_fini(cadre_id_list_t *self);

#endif
