/*
 * private_directory - a directory of this user's own, for what one coordinator says to the next.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COORDINATOR_PRIVATE_DIRECTORY_H
#define CADRE_COORDINATOR_PRIVATE_DIRECTORY_H

#include <sys/types.h>

/* The first that is this user's and that nobody else may enter, freed by the caller: `runtime`
 * (XDG_RUNTIME_DIR as the caller read it; NULL: none), /run/user/UID; else TEMPORARY/cadre-UID,
 * which is made with mode 0700. CADRE_EREFUSED when somebody else made that one, or it is open to
 * others; CADRE_EIO. */
int cadre_private_directory(const char *runtime, const char *temporary, uid_t user, char **out);

#endif
