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
 *
 * Of tables a checkpoint may lack pages that an older one beside it has, its base, which may have a
 * base itself (table_file.h): the chain ends with one that has all. It is followed where pages are
 * read, by the name that the manifest gives, in the directory above.
 */
#ifndef CADRE_COMMON_CHECKPOINT_CHECKPOINT_READER_H
#define CADRE_COMMON_CHECKPOINT_CHECKPOINT_READER_H

#include "common/checkpoint/manifest.h"
#include "common/checkpoint/shard_reader.h"

enum { CADRE_CHECKPOINT_CHAIN_MAX = 64 }; /* checkpoints of a chain; a longer one is refused */

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

/* Reads the description of a table's part on a shard. Errors as cadre_checkpoint_reader_pages, and
 * CADRE_EPROTOCOL when a version of Cadre has written it that described tables otherwise. */
int cadre_checkpoint_reader_table(cadre_checkpoint_reader_t *self, const char *variable,
                                  uint32_t shard, const cadre_give_up_t *give_up,
                                  cadre_table_record_t *record);

/* Calls `visit` for the newest page of each position of a table's part on a shard, verified, each
 * once, in no order; its bytes are valid while the reader is, and may be unaligned. Ends early with
 * the first status that is not 0 and returns it. CADRE_ENOTFOUND when the checkpoint has no such
 * table, or shard; CADRE_ECORRUPT when a file or page of the chain is missing, damaged, or not the
 * one that the newer was written beside; CADRE_ECANCELLED by `give_up`, which is asked before each
 * page. */
int cadre_checkpoint_reader_pages(cadre_checkpoint_reader_t *self, const char *variable,
                                  uint32_t shard, const cadre_give_up_t *give_up,
                                  int (*visit)(void *context, const cadre_table_page_t *page),
                                  void *context);

/* Calls `visit` for each block of sightings of a table's part on a shard, as
 * cadre_checkpoint_reader_pages does for pages; the checkpoint itself has all of them. */
int cadre_checkpoint_reader_sightings(cadre_checkpoint_reader_t *self, const char *variable,
                                      uint32_t shard, const cadre_give_up_t *give_up,
                                      int (*visit)(void *context, const cadre_table_page_t *block),
                                      void *context);

/* Opens every shard file, also those of the chain, and so verifies its size and hash. Returns the
 * first failure in the order of the files. */
int cadre_checkpoint_reader_verify_files(cadre_checkpoint_reader_t *self);

/* Reads and verifies every record of every file, checks that each kind covers each element exactly
 * once and that shard states agree with the manifest, and lists what is there but for tables,
 * ordered by variable (as in the manifest) and kind. Of tables it checks that each page is there,
 * in the files of the chain, that rows are as many as described, and of their shard. Free
 * `contents` with free(); its names belong to the reader. `contents` and `count` may both be NULL.
 * CADRE_ECORRUPT, CADRE_EIO. */
int cadre_checkpoint_reader_contents(cadre_checkpoint_reader_t *self,
                                     cadre_checkpoint_content_t **contents, size_t *count);

#endif
