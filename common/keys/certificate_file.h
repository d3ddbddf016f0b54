/*
 * certificate_file - reads and writes certificate files, and checks who may read and change them.
 *
 * Thread:  any; the functions keep no state.
 *
 * Whoever can change a public certificate decides who takes part, and whoever can read a secret one
 * takes part as its owner. So a file is accepted only if it is a regular one of this user or root,
 * nobody else can write to it, and nobody else can read it if it has a secret.
 *
 * Symbolic links are followed, and a group may read a secret that root owns: Kubernetes mounts a
 * Secret as links to files of root that the fsGroup of a pod may read (mode 0440). The
 * administrator has chosen that group. A file of the user's own that a group can read is mostly an
 * oversight, so it is refused, as ssh does.
 */
#ifndef CADRE_COMMON_KEYS_CERTIFICATE_FILE_H
#define CADRE_COMMON_KEYS_CERTIFICATE_FILE_H

#include <stdbool.h>

#include "common/keys/certificate.h"

/* Reads the file at `path`: the process's own, which must have a secret (`secret`), or another's
 * public one, which must have none. Every error text begins with the path.
 *
 * CADRE_ENOTFOUND  there is no such file, or the path leads nowhere.
 * CADRE_EREFUSED   it is not a regular file, or its owner or mode is refused: the text ends with
 *                  the remedy, such as `chmod 600 FILE`.
 * CADRE_EDATA, CADRE_ECONFIG  as cadre_certificate_parse; too long; with or without a secret.
 * CADRE_EIO        the system's reason, such as no descriptor left: the file may be a good one. */
int cadre_certificate_file_read(const char *path, bool secret, cadre_certificate_t *out);

/* Writes a new file, mode 0600 with the secret and 0644 without (less the umask), and waits until
 * it is on the disk, with its name. What cannot be finished is removed.
 *
 * CADRE_EEXISTS  something has that name: nothing is changed.
 * CADRE_ENOTFOUND, CADRE_EREFUSED, CADRE_EIO  the system's reason. */
int cadre_certificate_file_write(const cadre_certificate_t *self, const char *path, bool secret);

#endif
