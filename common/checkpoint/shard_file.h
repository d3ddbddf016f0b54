/*
 * shard_file - the format of a shard's LMDB file: keys, record headers, limits.
 *
 * Thread: functions of their arguments only.
 *
 * A shard file holds one record per chunk and one record with the shard's state. Chunk keys sort by
 * variable, kind and first element, so that one cursor finds every chunk of a range. Each value is
 * a fixed little-endian header and then the bytes; the header's hash covers key, header and bytes.
 * So a record that is damaged, or stored under another key, is noticed; LMDB itself notices
 * neither.
 *
 * Elements are counted over the whole variable, row-major, never within a partition: the partitions
 * may be others when the file is read than when it was written.
 */
#ifndef CADRE_COMMON_CHECKPOINT_SHARD_FILE_H
#define CADRE_COMMON_CHECKPOINT_SHARD_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cadre/tensor.h>

#include "common/base/limits.h"

/* The kind of a variable's own values; every other kind is the name of an optimizer slot. */
#define CADRE_CHECKPOINT_KIND_VALUE "value"

/* The slot that is the running average of the values, whatever the optimizer. */
#define CADRE_CHECKPOINT_KIND_AVERAGE "average"

enum {
    /* Most characters of a kind; a longer one is refused. */
    CADRE_CHECKPOINT_KIND_SIZE_MAX = 64,
    /* Most bytes of one record; a larger one is refused. */
    CADRE_CHECKPOINT_CHUNK_SIZE_MAX = 4 << 20,
    CADRE_SHARD_KEY_SIZE_MAX = CADRE_NAME_SIZE_MAX + CADRE_CHECKPOINT_KIND_SIZE_MAX + 2 + 8,
    CADRE_SHARD_HEADER_SIZE = 128,
    CADRE_SHARD_STATE_SIZE = 64,
};

/* A run of elements of one variable, or of one of its optimizer slots. A slot has one element per
 * element of its variable; its dtype may differ. The strings and bytes belong to whoever filled the
 * struct. */
typedef struct {
    const char *variable; /* letters, digits and ._-, the first a letter or digit */
    const char *kind;     /* CADRE_CHECKPOINT_KIND_VALUE or a slot; the same alphabet */
    cadre_dtype_t dtype;
    int rank;
    int64_t shape[CADRE_RANK_MAX]; /* shape of the whole variable */
    int64_t first_element;
    /* For values the partition's version, for slots the number of its optimizer steps. */
    uint64_t version;
    uint64_t steps;    /* number of the partition's optimizer steps; at most `version` */
    const void *bytes; /* little-endian elements, any alignment */
    size_t size_bytes;
} cadre_shard_chunk_t;

/* How often a partition was changed: the largest version, and the largest number of steps, of its
 * chunks. */
typedef struct {
    uint64_t version;
    uint64_t steps;
} cadre_change_counts_t;

/* Returns whether slots that were written after `steps` steps of the optimizer can belong to values
 * with these counts. They were written at one moment; but of values in an older file every change
 * may count as a step. */
bool cadre_change_counts_fit(const cadre_change_counts_t *of_values, uint64_t steps);

/* The counters of updates that a shard has at the cut, by their names in the struct and in the
 * manifest. */
#define CADRE_SHARD_COUNTER_LIST(X)                                                                \
    X(applied)                                                                                     \
    X(duplicate)                                                                                   \
    X(refused)

typedef struct {
    uint64_t window_base; /* base of the applied window: every update id below it is settled */
    uint64_t generation;
#define CADRE_SHARD_COUNTER_FIELD(name) uint64_t name;
    CADRE_SHARD_COUNTER_LIST(CADRE_SHARD_COUNTER_FIELD)
#undef CADRE_SHARD_COUNTER_FIELD
} cadre_shard_state_t;

/* True for `[A-Za-z0-9][A-Za-z0-9._-]*` of at most `size_max` characters. */
bool cadre_checkpoint_name_valid(const char *name, size_t size_max);

/* Checks everything about a chunk but its bytes: names, dtype, shape, a range of whole elements
 * inside the shape, sizes. CADRE_EINVALID, or CADRE_ETOOLARGE beyond
 * CADRE_CHECKPOINT_CHUNK_SIZE_MAX. A chunk without elements is valid only for a variable without
 * elements. */
int cadre_shard_chunk_check(const cadre_shard_chunk_t *chunk);

/* Raises `counts` to the version and steps of a chunk, where those of the chunk are larger. */
void cadre_shard_chunk_count_changes(const cadre_shard_chunk_t *chunk,
                                     cadre_change_counts_t *counts);

/* Returns how many elements a checked chunk has. */
int64_t cadre_shard_chunk_count(const cadre_shard_chunk_t *chunk);

/* Writes the key of (variable, kind, first element) into `key` of CADRE_SHARD_KEY_SIZE_MAX bytes;
 * returns its size. Both names must be valid. */
size_t cadre_shard_key_encode(const char *variable, const char *kind, int64_t first_element,
                              uint8_t *key);

/* Writes the key of the shard's state record, which sorts before every chunk's; returns its
 * size. */
size_t cadre_shard_state_key_encode(uint8_t *key);

/* Writes the header of a checked chunk that is stored under `key`, with its hash. */
void cadre_shard_header_encode(const cadre_shard_chunk_t *chunk, const void *key, size_t key_size,
                               uint8_t *header);

/* Decodes the record under `key`; checks its hash and all its fields. `chunk` then points into the
 * key and the value, and is valid as long as key and value. CADRE_ECORRUPT when anything is
 * wrong. */
int cadre_shard_record_decode(const void *key, size_t key_size, const void *value,
                              size_t value_size, cadre_shard_chunk_t *chunk);

/* Decodes a record without hashing its bytes, to find a range. Before the bytes are used,
 * cadre_shard_record_decode must be called. */
int cadre_shard_record_peek(const void *key, size_t key_size, const void *value, size_t value_size,
                            cadre_shard_chunk_t *chunk);

void cadre_shard_state_encode(const cadre_shard_state_t *state, uint8_t *value);

/* Decodes a shard's state record. CADRE_ECORRUPT when it is damaged. */
int cadre_shard_state_decode(const void *value, size_t value_size, cadre_shard_state_t *state);

#endif
