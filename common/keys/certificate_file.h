/*
 * certificate_file - a certificate in a file, and who may open that.
 *
 * Thread:  any; the functions keep no state.
 *
 * Whoever can change a public certificate decides who takes part, and whoever can read a secret one
 * takes part as its owner. So every file is a regular one of this user or root. Others cannot write
 * to it, and cannot read it where it has a secret.
 *
 * Symbolic links are followed, and a group may read a secret that root owns: Kubernetes mounts a
 * Secret as links to files of root that the fsGroup of a pod may read (mode 0440). Who runs the
 * cluster has chosen that group. A file of one's own is mostly open to a group by oversight, so it
 * is refused, as ssh refuses it.
 */
#ifndef CADRE_COMMON_KEYS_CERTIFICATE_FILE_H
#define CADRE_COMMON_KEYS_CERTIFICATE_FILE_H

#include <stdbool.h>

#include "common/keys/certificate.h"

/* Reads the file at `path`: one's own, which must have a secret, or another's public one, which
 * must have none. Every error text begins with the path.
 *
 * CADRE_ENOTFOUND  there is none, or the path leads nowhere.
 * CADRE_EREFUSED   it is not a regular file, or whose it is or who may open it is wrong: the text
 *                  ends with what mends it, such as `chmod 600 FILE`.
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
