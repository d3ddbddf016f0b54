/*
 * btree_check - looks at the pages of a finished LMDB file before LMDB maps it.
 *
 * Thread: functions of their arguments only.
 *
 * LMDB takes what stands in a page for true: a page number, an offset or a size that leads out of
 * the file is a read outside the map, an odd kind of page one of its asserts. So everything that a
 * read-only transaction on the main tree can reach is read with pread first: both meta pages, every
 * branch and leaf page, the first page of every run of overflow pages. Each must be what its place
 * says, lie in the file whole, and be reached once; all leaves lie at one depth. Keys and values
 * are not looked at: their records are hashed, and are checked where they are decoded. The format
 * is that of LMDB 0.9 on a 64-bit machine (mdb.c: MDB_page, MDB_node, MDB_db, MDB_meta), as our
 * writer makes it: one unnamed tree, without duplicates.
 */
#ifndef CADRE_COMMON_CHECKPOINT_BTREE_CHECK_H
#define CADRE_COMMON_CHECKPOINT_BTREE_CHECK_H

#include <stdint.h>

/* Checks the file of `size_bytes` bytes behind `fd`; `path` is for messages. CADRE_ECORRUPT, with
 * what is wrong with which page; CADRE_EIO. */
int cadre_btree_check(int fd, const char *path, uint64_t size_bytes);

#endif
