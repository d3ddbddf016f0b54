/*
 * row_cache - rows of tables that this worker has pulled more than once lately.
 *
 * Owner:   the worker core. Thread: the network actor.
 *
 * A pull says of which version a row is here; if the shard finds it unchanged since, the row does
 * not travel again. What a shard of a table is kept in is a set-associative cache: a key has one
 * place among WAYS, so that a look-up takes one or two lines of memory, and rows are dropped about
 * least recently used first. A key is kept when it comes a second time while its set remembers the
 * first.
 *
 * Asking costs a little, and is for nothing where every row changes between two pulls, as those do
 * that a worker pulls only to train them. So each shard of a table is on trial: when too few rows
 * of a trial were unchanged, nothing is asked or kept while PAUSE_FACTOR times as many rows are
 * pulled.
 *
 * Memory is bounded: the shards of all tables share `size_bytes_max` equally.
 */
#ifndef CADRE_WORKER_CORE_ROW_CACHE_H
#define CADRE_WORKER_CORE_ROW_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cadre_row_cache cadre_row_cache_t;

/* Where rows come from. */
typedef struct {
    uint32_t variable;
    uint32_t partition;
    uint64_t generation; /* of the shard: after a restore the same version may have other values */
    size_t row_size_bytes;
} cadre_row_source_t;

/* A row that is looked for. */
typedef struct {
    const void *values; /* [row_size_bytes], until the next call that is not a look-up; NULL: not
                           here */
    uint64_t version;   /* of which the row is known to be */
} cadre_held_row_t;

/* Returns an empty cache; of 0 bytes it keeps nothing. `is_patient`: it never pauses, for tests of
 * what is rare. */
cadre_row_cache_t *cadre_row_cache_new(size_t size_bytes_max, bool is_patient);
void cadre_row_cache_destroy(cadre_row_cache_t **self_p);

/* Drops everything: a session ends. */
void cadre_row_cache_clear(cadre_row_cache_t *self);

/* Drops the rows of a table that has `partitions` partitions. */
void cadre_row_cache_forget(cadre_row_cache_t *self, uint32_t variable, uint32_t partitions);

/* Looks for the rows of `count` keys, and counts them as pulled; returns how many are here. While
 * the source is on pause, and where its rows are too large to keep any, none is; `rows` is not
 * written then. */
size_t cadre_row_cache_find(cadre_row_cache_t *self, const cadre_row_source_t *source, size_t count,
                            const uint64_t *keys, cadre_held_row_t *rows);

/* Keeps rows, which stand one after the other in `values`, as of `version`: those that were here,
 * unless they are of a later version by now, and those that came a second time. */
void cadre_row_cache_put(cadre_row_cache_t *self, const cadre_row_source_t *source,
                         uint64_t version, size_t count, const uint64_t *keys, const void *values);

/* Tells how many of the rows that the shard was asked about were unchanged, before they are put. */
void cadre_row_cache_judge(cadre_row_cache_t *self, const cadre_row_source_t *source, size_t asked,
                           size_t unchanged);

/* Returns the bytes of all arrays. */
size_t cadre_row_cache_size_bytes(const cadre_row_cache_t *self);

#endif
