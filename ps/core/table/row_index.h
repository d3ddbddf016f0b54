/*
 * row_index - which row of a table has a key.
 *
 * A key is found by its mixed bits (cadre_table_mix). The lower ones choose one of many small hash
 * tables, the segments (extendible hashing: Fagin, Nievergelt, Pippenger and Strong 1979), the
 * upper ones where a search in it begins; it goes on place by place (linear probing). A place has
 * the number of a row and eight more bits of the hash. Keys themselves stand with their rows
 * (row_pages.h), so that they take no memory twice; these are asked where the eight bits agree.
 *
 * A segment that becomes full is written again a quarter larger; one with
 * CADRE_ROW_SEGMENT_KEYS / 2 to CADRE_ROW_SEGMENT_KEYS keys, a number of its own, is split in two.
 * So adding a key never takes longer than writing one segment, however many keys there are, few of
 * some hundred keys split one, and four fifths to two thirds of all places are in use at any time.
 * What remains is the list of segments, which is doubled by copying 8 bytes for each:
 * for 100 million keys a megabyte. A fork copies that list, and shares the segments until one of
 * the two changes them.
 *
 * Owner:   one table.
 * Thread:  the shard's actor only.
 */
#ifndef CADRE_PS_CORE_TABLE_ROW_INDEX_H
#define CADRE_PS_CORE_TABLE_ROW_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "ps/core/table/row_pages.h"

enum { CADRE_ROW_SEGMENT_KEYS = 4096 }; /* of a segment, at most, before it is split */

typedef struct cadre_row_index cadre_row_index_t;

/* No row. */
#define CADRE_ROW_NONE UINT32_MAX

/* Returns an empty index of the rows of `pages`, which is borrowed and must outlive it. */
cadre_row_index_t *cadre_row_index_new(const cadre_row_pages_t *pages);

/* Returns an index of the same rows, of `pages`, a fork of those of this index: a change of one
 * does not show in the other. */
cadre_row_index_t *cadre_row_index_fork(cadre_row_index_t *self, const cadre_row_pages_t *pages);

void cadre_row_index_destroy(cadre_row_index_t **self_p);

/* Makes an empty index ready for about `count` rows, so that adding these splits no segment; or for
 * fewer, where they are many millions. */
void cadre_row_index_reserve(cadre_row_index_t *self, uint64_t count);

/* Returns the row that was added with `key`, or CADRE_ROW_NONE. */
uint32_t cadre_row_index_find(const cadre_row_index_t *self, uint64_t key);

/* Finds the rows of `count` keys, as cadre_row_index_find; a multiple faster than one by one, since
 * memory is asked for many of them at a time. */
void cadre_row_index_find_all(const cadre_row_index_t *self, size_t count, const uint64_t *keys,
                              uint32_t *rows);

/* Adds a row of the pages, which has its key there; no other row has that key. */
void cadre_row_index_add(cadre_row_index_t *self, uint32_t row);

/* Removes a row that was added, while the pages still have its key. */
void cadre_row_index_remove(cadre_row_index_t *self, uint32_t row);

/* Returns how many segments there are. */
size_t cadre_row_index_segments(const cadre_row_index_t *self);

/* Returns the bytes of all segments and of their list; and about how many more they would be with
 * `count` more keys. */
uint64_t cadre_row_index_size_bytes(const cadre_row_index_t *self);
uint64_t cadre_row_index_growth(const cadre_row_index_t *self, uint64_t count);

#endif
