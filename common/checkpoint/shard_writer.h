/*
 * shard_writer - writes the file of one shard, once, from the start to the finished, hashed file.
 *
 * Owner:   whoever writes a snapshot (the store actor of a ps).
 * Thread:  one thread at a time.
 *
 * A fresh LMDB file with LMDB's default durability: a commit is on disk when it returns. The puts
 * are committed in transactions of CADRE_SHARD_TRANSACTION_SIZE_MAX, because many small ones are
 * slower, and LMDB holds one in memory, which malloc keeps for the next file. No WRITEMAP (SIGBUS
 * on a full disk), no lock file (nobody else knows the file yet). The map grows between
 * transactions, always by more than the next one can use, so that no transaction fails with
 * MDB_MAP_FULL and no record has to be put again. LMDB opens by path: it gets that of the
 * descriptor which created the file (disk.h), and the same descriptor is synced and hashed at the
 * end.
 *
 * After the first failure of the disk the file is closed and removed at once, and every further
 * call fails with the status and the text of that failure. A failed fsync is never tried again: the
 * kernel may have dropped the pages.
 */
#ifndef CADRE_COMMON_CHECKPOINT_SHARD_WRITER_H
#define CADRE_COMMON_CHECKPOINT_SHARD_WRITER_H

#include "common/checkpoint/disk.h"
#include "common/checkpoint/shard_file.h"
#include "common/checkpoint/table_file.h"

enum { CADRE_SHARD_TRANSACTION_SIZE_MAX = 16 << 20 };

typedef struct cadre_shard_writer cadre_shard_writer_t;

/* Creates the file `name`, which must not exist, in the open directory, on a local disk; the
 * directory stays open as long as the writer is, `path` is for messages. `expected_size_bytes` is
 * the sum of all values and slots; a wrong one only costs a few calls. CADRE_EEXISTS, CADRE_EIO. */
int cadre_shard_writer_open(int directory_fd, const char *name, const char *path,
                            uint64_t expected_size_bytes, cadre_shard_writer_t **out);

/* Adds a chunk; its bytes are copied before the call returns. CADRE_EINVALID or CADRE_ETOOLARGE for
 * a bad chunk and CADRE_EEXISTS for one that starts where another did change nothing; CADRE_EIO
 * ends the file. Any order of chunks is fine. */
int cadre_shard_writer_put_chunk(cadre_shard_writer_t *self, const cadre_shard_chunk_t *chunk);

/* Add the description of a table, and a page of one or its counters (`kind`). Fail as
 * cadre_shard_writer_put_chunk, but for CADRE_EINVALID and CADRE_ETOOLARGE. */
int cadre_shard_writer_put_table(cadre_shard_writer_t *self, const char *variable,
                                 const cadre_table_record_t *record);
int cadre_shard_writer_put_page(cadre_shard_writer_t *self, const char *variable, const char *kind,
                                const cadre_table_page_t *page);

/* Adds the shard's state; once per file. Fails as cadre_shard_writer_put_chunk. */
int cadre_shard_writer_put_state(cadre_shard_writer_t *self, const cadre_shard_state_t *state);

/* Commits, closes, fsyncs, then reads the finished file again with read(2) for its size and hash
 * (disk.h), and nulls the caller's pointer. CADRE_ESTATE when no state was put; on any failure the
 * file is removed. The caller (or cadre_checkpoint_draft_commit) fsyncs the directory. */
int cadre_shard_writer_close(cadre_shard_writer_t **self_p, const cadre_give_up_t *give_up,
                             uint64_t *size_bytes, uint64_t *hash);

/* Gives the file up and removes it. *self_p may be NULL, as after a close. */
void cadre_shard_writer_destroy(cadre_shard_writer_t **self_p);

#endif
