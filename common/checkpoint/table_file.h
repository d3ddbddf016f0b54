/*
 * table_file - how a shard's file holds its part of a table: one record that describes it, one for
 * each page of rows, and one for each block of counters of sightings, where the table has them.
 *
 * Thread: functions of their arguments only.
 *
 * Keys are those of chunks (shard_file.h), of kinds that no slot has, with the position of the page
 * in place of the first element. A page is stored as it lies in memory; the description says where
 * in it keys and values stand, so that rows can be read without the code that keeps them. Each
 * record has a hash of its key and all its bytes.
 *
 * Blocks of counters are all in the file. It may leave out pages that have not changed since an
 * earlier checkpoint, its base: whoever reads takes the newest page of each position, going from
 * file to base until one has no base. A file and its base are tied by the stamp, a number that no
 * other writing of pages has: a base that was written again is noticed.
 */
#ifndef CADRE_COMMON_CHECKPOINT_TABLE_FILE_H
#define CADRE_COMMON_CHECKPOINT_TABLE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CADRE_CHECKPOINT_KIND_TABLE     ".table"
#define CADRE_CHECKPOINT_KIND_PAGE      ".page"
#define CADRE_CHECKPOINT_KIND_SIGHTINGS ".sightings"

/* What describes a part of a table, each a u64:
 *
 * dim, storage, optimizer, slots, slot_width, page_rows, page_size, value_offset, used_offset:
 * numbers of a row, their dtype, the kind of the optimizer, how many slots a row has by it, of how
 * many f32 each, and how a page of page_rows rows is laid out: keys, u64, from its begin on; a bit
 * for each row that is in use at used_offset; values at value_offset.
 * end, free_row, victim_hand, expiry_hand, sighting_layers, sighting_keys: where the table goes on:
 * rows were ever below `end`, free_row - 1 is handed out next (0: none is free); so many layers of
 * sightings were begun (0: none are counted), and the last has so many keys.
 * rows to unadmitted: its figures.
 * checkpoint, stamp, base, base_stamp: of this file, and of the one that has what is left out; base
 * 0: nothing is.
 * shard, shards: which part of the table it is. */
#define CADRE_TABLE_RECORD_LIST(X)                                                                 \
    X(dim)                                                                                         \
    X(storage)                                                                                     \
    X(optimizer)                                                                                   \
    X(slots)                                                                                       \
    X(slot_width)                                                                                  \
    X(page_rows)                                                                                   \
    X(page_size)                                                                                   \
    X(value_offset)                                                                                \
    X(used_offset)                                                                                 \
    X(end)                                                                                         \
    X(free_row)                                                                                    \
    X(victim_hand)                                                                                 \
    X(expiry_hand)                                                                                 \
    X(sighting_layers)                                                                             \
    X(sighting_keys)                                                                               \
    X(rows)                                                                                        \
    X(version)                                                                                     \
    X(steps)                                                                                       \
    X(created)                                                                                     \
    X(evicted)                                                                                     \
    X(expired)                                                                                     \
    X(unadmitted)                                                                                  \
    X(checkpoint)                                                                                  \
    X(stamp)                                                                                       \
    X(base)                                                                                        \
    X(base_stamp)                                                                                  \
    X(shard)                                                                                       \
    X(shards)

typedef struct {
#define CADRE_TABLE_RECORD_FIELD(name) uint64_t name;
    CADRE_TABLE_RECORD_LIST(CADRE_TABLE_RECORD_FIELD)
#undef CADRE_TABLE_RECORD_FIELD
} cadre_table_record_t;

#define CADRE_TABLE_RECORD_ONE(name) +1
enum {
    CADRE_TABLE_RECORD_SIZE = 8 * (3 CADRE_TABLE_RECORD_LIST(CADRE_TABLE_RECORD_ONE)),
    CADRE_PAGE_HEADER_SIZE = 32,
};
#undef CADRE_TABLE_RECORD_ONE

/* The bytes of a page, or of a block of counters, as a record has them: they point into its
 * value. */
typedef struct {
    uint32_t position;
    const void *bytes;
    size_t size_bytes;
} cadre_table_page_t;

/* Returns whether a key is that of a record of a table. */
bool cadre_table_key_is(const void *key, size_t key_size);

/* Returns how many positions the pages of a table have. */
uint64_t cadre_table_record_pages(const cadre_table_record_t *self);

/* Writes the description, CADRE_TABLE_RECORD_SIZE bytes. */
void cadre_table_record_encode(const cadre_table_record_t *self, const void *key, size_t key_size,
                               uint8_t *value);

/* Reads a description. Fails with CADRE_ECORRUPT when it is damaged or cannot be, with
 * CADRE_EPROTOCOL when a version of Cadre has written it that described tables otherwise. */
int cadre_table_record_decode(const void *key, size_t key_size, const void *value,
                              size_t value_size, cadre_table_record_t *out);

/* Writes the header of a page, CADRE_PAGE_HEADER_SIZE bytes, behind which its bytes stand. */
void cadre_table_page_encode(const void *key, size_t key_size, const void *bytes, size_t size_bytes,
                             uint8_t *header);

/* Reads the record of a page, and checks its hash. CADRE_ECORRUPT. */
int cadre_table_page_decode(const void *key, size_t key_size, const void *value, size_t value_size,
                            cadre_table_page_t *out);

/* Gives the key of row `place` of a page, and where its values stand; returns whether that row is
 * in use. `bytes` may be unaligned. */
bool cadre_table_page_row(const cadre_table_record_t *self, const void *bytes, uint32_t place,
                          uint64_t *key, const void **values);

/* Writes the values of such a row as f32, [dim]; they may be unaligned. */
void cadre_table_row_numbers(const cadre_table_record_t *self, const void *values, float *numbers);

#endif
