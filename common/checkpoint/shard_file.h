/*
 * shard_file - what stands in the LMDB file of one shard: keys, record headers, limits.
 *
 * Thread: functions of their arguments only.
 *
 * A shard file holds one record per chunk and one record with the shard's state. Chunk keys sort by
 * variable, kind and first element, so that one cursor finds every chunk of a range. Each value is
 * a fixed little-endian header and then the bytes; the header's hash covers key, header and bytes,
 * so that a record cannot be damaged, nor stand under another key, without being noticed: LMDB
 * itself notices neither.
 *
 * Elements are counted over the whole variable, row-major, never over a partition: the partitions
 * of the time of reading need not be those of the time of writing.
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

enum {
    CADRE_CHECKPOINT_KIND_SIZE_MAX = 64,       /* characters; a put beyond it is refused */
    CADRE_CHECKPOINT_CHUNK_SIZE_MAX = 4 << 20, /* bytes of one record; a put beyond it is refused */
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
    int64_t shape[CADRE_RANK_MAX]; /* of the whole variable */
    int64_t first_element;
    uint64_t version;  /* of the partition: for values its version, for slots its optimizer steps */
    const void *bytes; /* little-endian elements, any alignment */
    size_t size_bytes;
} cadre_shard_chunk_t;

/* What a shard's counters say at the cut: name in the struct and in the manifest. */
#define CADRE_SHARD_COUNTER_LIST(X)                                                                \
    X(applied)                                                                                     \
    X(duplicate)                                                                                   \
    X(refused)

typedef struct {
    uint64_t window_base; /* every update id below it is settled */
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

/* Elements of a checked chunk. */
int64_t cadre_shard_chunk_count(const cadre_shard_chunk_t *chunk);

/* The key of (variable, kind, first element) into `key` of CADRE_SHARD_KEY_SIZE_MAX bytes; returns
 * its size. Both names are valid. */
size_t cadre_shard_key_encode(const char *variable, const char *kind, int64_t first_element,
                              uint8_t *key);

/* The key of the shard's state, before every chunk key. */
size_t cadre_shard_state_key_encode(uint8_t *key);

/* The header of a checked chunk under `key`, hash included. */
void cadre_shard_header_encode(const cadre_shard_chunk_t *chunk, const void *key, size_t key_size,
                               uint8_t *header);

/* Reads what stands under `key`, checks its hash and everything in it. `chunk` then points into the
 * key and the value and is valid as long as they are. CADRE_ECORRUPT. */
int cadre_shard_record_decode(const void *key, size_t key_size, const void *value,
                              size_t value_size, cadre_shard_chunk_t *chunk);

/* The same without hashing the bytes: for finding a range. Whoever then uses the bytes decodes. */
int cadre_shard_record_peek(const void *key, size_t key_size, const void *value, size_t value_size,
                            cadre_shard_chunk_t *chunk);

void cadre_shard_state_encode(const cadre_shard_state_t *state, uint8_t *value);

/* CADRE_ECORRUPT. */
int cadre_shard_state_decode(const void *value, size_t value_size, cadre_shard_state_t *state);

#endif
