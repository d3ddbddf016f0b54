/*
 * private_directory - a directory that only this user may enter, for the lock files of
 * coordinators.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COORDINATOR_PRIVATE_DIRECTORY_H
#define CADRE_COORDINATOR_PRIVATE_DIRECTORY_H

#include <sys/types.h>

/* Gives the path, which the caller frees, of the first directory that belongs to this user and that
 * no other user may enter: `runtime` (XDG_RUNTIME_DIR as the caller read it; NULL: none),
 * /run/user/UID, or HOME/.cache/cadre, which is made with mode 0700 (`home` as the caller read it;
 * NULL: none). Never one in a folder that users share. CADRE_ENOTFOUND when there is none. */
int cadre_private_directory(const char *runtime, const char *home, uid_t user, char **out);

#endif
