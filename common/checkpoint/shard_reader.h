/*
 * shard_reader - reads one finished shard file.
 *
 * Owner:   a checkpoint reader, or whoever opened it.
 * Thread:  one thread at a time; but cadre_shard_reader_read, and nothing else meanwhile, may be
 *          called on several. Only finding a record is done by one of them at a time, under a lock:
 *          LMDB has one place in the file per transaction. Hashing and copying what was found is
 *          not: the map does not change.
 *
 * The whole file is read and hashed before LMDB maps it, and its tree is checked (btree_check.h): a
 * truncated file would be SIGBUS, a damaged tree an out-of-bounds read. The hash guards against
 * accidents, the check against a file that was made to harm. Neither holds against somebody who
 * writes or truncates the file while it is mapped: that is SIGBUS, or a read outside the map,
 * still. Records are hashed again when they are used, since the file may rot after it was opened.
 */
#ifndef CADRE_COMMON_CHECKPOINT_SHARD_READER_H
#define CADRE_COMMON_CHECKPOINT_SHARD_READER_H

#include "common/checkpoint/disk.h"
#include "common/checkpoint/shard_file.h"

typedef struct cadre_shard_reader cadre_shard_reader_t;

/* What a read asks for: elements [first_element, first_element + count) of a variable or slot. */
typedef struct {
    const char *variable;
    const char *kind;
    cadre_dtype_t dtype;
    int64_t first_element;
    int64_t count;
} cadre_checkpoint_range_t;

/* A shard's file, and the size and hash that it must have. */
typedef struct {
    int directory_fd; /* open while the file is being opened */
    const char *name; /* of the file in the folder; a symbolic link is refused */
    const char *path; /* for messages */
    uint64_t size_bytes;
    uint64_t hash; /* of its content, as cadre_disk_hash has it */
} cadre_shard_reader_file_t;

/* Opens the file when its size and hash are as given, which is read on as many threads as there are
 * CPUs. CADRE_ENOTFOUND, CADRE_EIO, CADRE_ECORRUPT, CADRE_ECANCELLED. */
int cadre_shard_reader_open(const cadre_shard_reader_file_t *file, const cadre_give_up_t *give_up,
                            cadre_shard_reader_t **out);

/* NULL inside is fine. */
void cadre_shard_reader_destroy(cadre_shard_reader_t **self_p);

/* CADRE_ECORRUPT when the record is missing or damaged. */
int cadre_shard_reader_state(cadre_shard_reader_t *self, cadre_shard_state_t *out);

/* Copies the range to `out` (count elements) and the largest version among the chunks it came from
 * to `version` (may be NULL). CADRE_ENOTFOUND when the file holds nothing of that variable and
 * kind, CADRE_EDTYPE when it was written with another dtype, CADRE_ECORRUPT when elements are
 * missing or damaged; `out` may then be partly written. */
int cadre_shard_reader_read(cadre_shard_reader_t *self, const cadre_checkpoint_range_t *range,
                            void *out, uint64_t *version);

/* Calls `visit` for every chunk in key order (variable, kind, first element), verified; the chunk
 * is valid during the call. Ends early with the first status that is not 0 and returns it.
 * CADRE_ECORRUPT. */
int cadre_shard_reader_each(cadre_shard_reader_t *self,
                            int (*visit)(void *context, const cadre_shard_chunk_t *chunk),
                            void *context);

#endif
