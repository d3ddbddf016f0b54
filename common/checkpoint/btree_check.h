/*
 * btree_check - checks the pages of a finished LMDB file before LMDB maps it.
 *
 * Thread: functions of their arguments only.
 *
 * LMDB trusts the contents of pages: a page number, an offset or a size that leads out of the file
 * makes it read outside the map, an unknown kind of page fails one of its asserts. So all pages
 * that a read-only transaction on the main tree can reach are read with pread first: both meta
 * pages, every branch and leaf page, the first page of every run of overflow pages. Each must be of
 * the kind that its place requires, lie in the file whole, and be reached once; all leaves must lie
 * at one depth. Keys and values are not checked here: their records are hashed, and are checked
 * where they are decoded. The format is that of LMDB 0.9 on a 64-bit machine (mdb.c: MDB_page,
 * MDB_node, MDB_db, MDB_meta), as our writer makes it: one unnamed tree, without duplicates.
 */
#ifndef CADRE_COMMON_CHECKPOINT_BTREE_CHECK_H
#define CADRE_COMMON_CHECKPOINT_BTREE_CHECK_H

#include <stdint.h>

/* Checks the file of `size_bytes` bytes behind `fd`; `path` is for error texts. CADRE_ECORRUPT,
 * with a text that names the page and its fault; CADRE_EIO when it cannot be read. */
int cadre_btree_check(int fd, const char *path, uint64_t size_bytes);

#endif
