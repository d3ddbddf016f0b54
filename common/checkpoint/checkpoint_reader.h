/*
 * checkpoint_reader - reads variables and slots from all shard files of one checkpoint.
 *
 * Owner:   whoever restores (a ps: its own elements; the coordinator or a tool: anything).
 * Thread:  one thread at a time; but cadre_checkpoint_reader_read, and nothing else meanwhile, may
 *          be called on several for ranges that were prepared.
 *
 * Values are found by variable, kind and element range, so the reader's shards and partitions need
 * not be those of the writer. A shard file is verified and opened when a range first needs it: a ps
 * of a cluster of the same size reads only its own. All are opened in the directory that the
 * manifest was read in, even if another directory has its name by then.
 */
#ifndef CADRE_COMMON_CHECKPOINT_CHECKPOINT_READER_H
#define CADRE_COMMON_CHECKPOINT_CHECKPOINT_READER_H

#include "common/checkpoint/manifest.h"
#include "common/checkpoint/shard_reader.h"

typedef struct cadre_checkpoint_reader cadre_checkpoint_reader_t;

/* The elements of one kind (values, or a slot) of a variable, summed over all shards. */
typedef struct {
    const char *variable;
    char kind[CADRE_CHECKPOINT_KIND_SIZE_MAX + 1];
    cadre_dtype_t dtype; /* type of this kind's elements */
    int rank;
    int64_t shape[CADRE_RANK_MAX];
    int64_t count;    /* elements stored */
    uint64_t version; /* the highest version of its chunks */
} cadre_checkpoint_content_t;

/* Opens the checkpoint in the directory `path` (DIR/ckpt-<id>, not a symbolic link) and its
 * manifest; no shard file yet. CADRE_ENOTFOUND, CADRE_EIO, CADRE_ECORRUPT or CADRE_EMALFORMED. */
int cadre_checkpoint_reader_open(const char *path, cadre_checkpoint_reader_t **out);

/* Opens the checkpoint in an open directory, which the reader owns from now on, even if this fails;
 * `path` is for error texts. Fails as cadre_checkpoint_reader_open. */
int cadre_checkpoint_reader_open_in(int *directory_fd_p, const char *path,
                                    cadre_checkpoint_reader_t **out);

void cadre_checkpoint_reader_destroy(cadre_checkpoint_reader_t **self_p);

/* Returns the manifest, owned by the reader. */
const cadre_manifest_t *cadre_checkpoint_reader_manifest(const cadre_checkpoint_reader_t *self);

/* Opens, and so verifies, the shard files that hold values of the range, which may take long.
 * Errors as cadre_checkpoint_reader_read, and CADRE_ECANCELLED. */
int cadre_checkpoint_reader_prepare(cadre_checkpoint_reader_t *self,
                                    const cadre_checkpoint_range_t *range,
                                    const cadre_give_up_t *give_up);

/* Copies a range to `out`, and to `counts` (may be NULL) the largest numbers of changes among the
 * chunks that it came from.
 * CADRE_EINVALID for a range outside the variable; CADRE_ENOTFOUND when the variable is
 * not in the checkpoint or has no slot of that kind at all; CADRE_EDTYPE when it was written with
 * another dtype; CADRE_ECORRUPT (or CADRE_EIO) when a file or record is damaged or elements are
 * missing. `out` may then be partly written. */
int cadre_checkpoint_reader_read(cadre_checkpoint_reader_t *self,
                                 const cadre_checkpoint_range_t *range, void *out,
                                 cadre_change_counts_t *counts);

/* Opens every shard file, and so verifies its size and hash. Returns the first failure in the order
 * of the files. */
int cadre_checkpoint_reader_verify_files(cadre_checkpoint_reader_t *self);

/* Reads and verifies every record of every file, checks that each kind covers each element exactly
 * once and that shard states agree with the manifest, and lists what is there, ordered by variable
 * (as in the manifest) and kind. Free `contents` with free(); its names belong to the reader.
 * `contents` and `count` may both be NULL. CADRE_ECORRUPT, CADRE_EIO. */
int cadre_checkpoint_reader_contents(cadre_checkpoint_reader_t *self,
                                     cadre_checkpoint_content_t **contents, size_t *count);

#endif
