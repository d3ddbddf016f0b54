/*
 * lmdb_error - the one translation of LMDB's codes into statuses.
 *
 * Thread: functions of their arguments only.
 */
#ifndef CADRE_COMMON_CHECKPOINT_LMDB_ERROR_H
#define CADRE_COMMON_CHECKPOINT_LMDB_ERROR_H

#include "common/base/status.h"

/* Keeps "<path>: cannot <action>: <text>" as the error text. `code` is the result of an LMDB call,
 * an MDB_... or errno number other than 0. Returns CADRE_ENOTFOUND, CADRE_EEXISTS, CADRE_EFULL (the
 * map is full), CADRE_ECORRUPT, or CADRE_EIO for every failure of the disk or the kernel: with LMDB
 * a full disk is EIO, too. */
int cadre_lmdb_fail(int code, const char *path, const char *action);

#ifdef __clang_analyzer__
#define cadre_lmdb_fail(...)                                                                       \
    (cadre_lmdb_fail(__VA_ARGS__), CADRE_EIO) /* as in common/base/status.h */
#endif

#endif
