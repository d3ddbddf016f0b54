/*
 * shard_reader - reads one finished shard file.
 *
 * Owner:   a checkpoint reader, or whoever opened it.
 * Thread:  one thread at a time; but cadre_shard_reader_read, and nothing else meanwhile, may be
 *          called on several. Records are found by one thread at a time, under a lock, as an LMDB
 *          transaction has one cursor here; they are hashed and copied without the lock, as the map
 *          does not change.
 *
 * The whole file is read and hashed before LMDB maps it, and its tree is checked (btree_check.h):
 * reading a truncated file would raise SIGBUS, a damaged tree cause an out-of-bounds read. The hash
 * protects against accidents, the check of the tree against a malicious file. Neither protects
 * against a process that writes or truncates the file while it is mapped: that still causes SIGBUS
 * or an out-of-bounds read. Records are hashed again when they are used, since the file may be
 * damaged after it was opened.
 */
#ifndef CADRE_COMMON_CHECKPOINT_SHARD_READER_H
#define CADRE_COMMON_CHECKPOINT_SHARD_READER_H

#include "common/checkpoint/disk.h"
#include "common/checkpoint/shard_file.h"
#include "common/checkpoint/table_file.h"

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
    int directory_fd; /* of the file's directory; needed only until the file is open */
    const char *name; /* name of the file in that directory; a symbolic link is refused */
    const char *path; /* for messages */
    uint64_t size_bytes;
    uint64_t hash; /* hash of its content, by cadre_disk_hash */
} cadre_shard_reader_file_t;

/* Opens the file if its size, hash and tree are right; it is hashed on as many threads as there are
 * CPUs. CADRE_ENOTFOUND, CADRE_EIO, CADRE_ECORRUPT when it is damaged, CADRE_ECANCELLED by
 * `give_up`. */
int cadre_shard_reader_open(const cadre_shard_reader_file_t *file, const cadre_give_up_t *give_up,
                            cadre_shard_reader_t **out);

/* Closes the file, and frees the reader; *self_p may be NULL. */
void cadre_shard_reader_destroy(cadre_shard_reader_t **self_p);

/* Reads the shard's state. CADRE_ECORRUPT when its record is missing or damaged. */
int cadre_shard_reader_state(cadre_shard_reader_t *self, cadre_shard_state_t *out);

/* Copies the range to `out` (count elements), and to `counts` (may be NULL) the largest numbers of
 * changes among the chunks that it came from. CADRE_ENOTFOUND when the file holds nothing of that
 * variable and kind, CADRE_EDTYPE when it was written with another dtype, CADRE_ECORRUPT when
 * elements are missing or damaged; `out` may then be partly written. */
int cadre_shard_reader_read(cadre_shard_reader_t *self, const cadre_checkpoint_range_t *range,
                            void *out, cadre_change_counts_t *counts);

/* Reads the description of a table. CADRE_ENOTFOUND when the file has no such table, and as
 * cadre_table_record_decode. */
int cadre_shard_reader_table(cadre_shard_reader_t *self, const char *variable,
                             cadre_table_record_t *record);

/* Calls `visit` for every record of a table that the file has of a kind, pages or blocks of
 * sightings, in the order of positions, verified;
 * the bytes are valid while the file is open. Ends early with the first status that is not 0 and
 * returns it. CADRE_ECORRUPT. */
int cadre_shard_reader_each_page(cadre_shard_reader_t *self, const char *variable, const char *kind,
                                 int (*visit)(void *context, const cadre_table_page_t *page),
                                 void *context);

/* Calls `visit` for every chunk in key order (variable, kind, first element), verified; the chunk
 * is valid during the call. Ends early with the first status that is not 0 and returns it.
 * CADRE_ECORRUPT. */
int cadre_shard_reader_each(cadre_shard_reader_t *self,
                            int (*visit)(void *context, const cadre_shard_chunk_t *chunk),
                            void *context);

#endif
