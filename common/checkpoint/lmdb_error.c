#include "common/checkpoint/lmdb_error.h"

#include <lmdb.h>

#include "common/checkpoint/disk.h"

#undef cadre_lmdb_fail

/* Returns the status for a code of LMDB's own, which is negative. */
static int
status_of(int code)
{
    switch (code) {
    case MDB_NOTFOUND:
        return CADRE_ENOTFOUND;
    case MDB_KEYEXIST:
        return CADRE_EEXISTS;
    case MDB_MAP_FULL:
        return CADRE_EFULL;
    case MDB_INVALID:
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_VERSION_MISMATCH:
        return CADRE_ECORRUPT;
    default:
        return CADRE_EIO;
    }
}

/* Fails with the status and text of a failed LMDB call; a positive code is an errno. */
int
cadre_lmdb_fail(int code, const char *path, const char *action)
{
    if (code > 0) {
        return cadre_disk_fail(code, "%s: cannot %s", path, action);
    }
    return cadre_fail(status_of(code), "%s: cannot %s: %s", path, action, mdb_strerror(code));
}
