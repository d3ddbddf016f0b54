/*
 * private_directory - a directory of this user's own, for what one coordinator says to the next.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COORDINATOR_PRIVATE_DIRECTORY_H
#define CADRE_COORDINATOR_PRIVATE_DIRECTORY_H

#include <sys/types.h>

/* The first that is this user's and that nobody else may enter, freed by the caller: `runtime`
 * (XDG_RUNTIME_DIR as the caller read it; NULL: none), /run/user/UID; else HOME/.cache/cadre, which
 * is made with mode 0700 (`home` as the caller read it; NULL: none). Never in a folder that users
 * share. CADRE_ENOTFOUND when there is none. */
int cadre_private_directory(const char *runtime, const char *home, uid_t user, char **out);

#endif
