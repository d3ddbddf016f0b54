/*
 * trusted - checks that only root and this user can change a file or a folder, by its owner and its
 * mode. Access control lists are not checked.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COMMON_SYSTEM_TRUSTED_H
#define CADRE_COMMON_SYSTEM_TRUSTED_H

#include <stdbool.h>
#include <sys/stat.h>

/* Returns whether a file or folder belongs to root or to this user. */
bool cadre_trusted_owner(const struct stat *about);

/* Returns whether a file belongs to root or this user, and nobody else may write to it. */
bool cadre_trusted_file(const struct stat *about);

/* Returns whether only root and this user can replace files of theirs in a folder: it is as
 * cadre_trusted_file wants, or it is sticky, so that others may add files but not replace these. */
bool cadre_trusted_folder(const struct stat *about);

#endif
