/*
 * trusted - whether nobody but root and this user can change a file or a folder, as far as its
 * owner and its mode say. Access control lists are not seen.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COMMON_SYSTEM_TRUSTED_H
#define CADRE_COMMON_SYSTEM_TRUSTED_H

#include <stdbool.h>
#include <sys/stat.h>

/* Whether it belongs to root or to this user. */
bool cadre_trusted_owner(const struct stat *about);

/* Whether a file belongs to one of them and nobody else may write to it. */
bool cadre_trusted_file(const struct stat *about);

/* Whether names in a folder are theirs alone to replace: as above, or it is sticky, where others
 * may add names, but not replace one that is root's or this user's. */
bool cadre_trusted_folder(const struct stat *about);

#endif
