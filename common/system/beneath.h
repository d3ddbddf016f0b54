/*
 * beneath - opens a folder below another one: through no symbolic link, and never above it.
 *
 * Thread: any; the functions keep no state.
 *
 * A path that was checked and is then opened by its name may have become another one in between (a
 * race between check and use): whoever can write to a folder on the way replaces it by a link. So
 * the kernel checks and opens in one call (openat2, Linux 5.6). Where it, or a filter of system
 * calls, knows no such call, one folder after the other is opened below the one before, with
 * O_NOFOLLOW: that takes more calls and follows no link either.
 */
#ifndef CADRE_COMMON_SYSTEM_BENEATH_H
#define CADRE_COMMON_SYSTEM_BENEATH_H

#include <stdbool.h>

/* Returns whether some component of the path is "..". */
bool cadre_beneath_goes_up(const char *path);

/* Opens the folder `path`, relative to the open folder `root` ("": `root` itself), so that files in
 * it can be opened by name; its names cannot be listed (O_PATH). Returns a descriptor that the
 * caller closes, or -1 with errno: ELOOP for a link on the way, EXDEV for a path that begins with
 * "/" or contains "..". */
int cadre_beneath_open(int root, const char *path);

#endif
