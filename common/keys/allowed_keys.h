/*
 * allowed_keys - which keys may connect, and in which role: a folder of public certificates.
 *
 * Owner:   the task that authenticates others.
 * Thread:  one at a time.
 *
 * Each file of the folder is a certificate (certificate_file.h says which files are accepted).
 * Names that begin with "." are skipped: Kubernetes keeps `..data` beside the files that it mounts.
 * The folder and its parent folder must belong to root or this user, and nobody else may write to
 * them: another user could link a key in that is no longer wanted. A sticky folder of root is
 * accepted, which is what kubelet mounts; so are symbolic links of root and this user, and no
 * others.
 *
 * A file that is wrong makes the whole folder wrong. Skipping the file would let a task start
 * that keeps out tasks which should come in, or hide a typing error until a worker is missed.
 *
 * While the folder is wrong no key is added, and a key whose own file is gone or does not hold it
 * any more is withdrawn: an attacker who can spoil one file must not keep the keys of other files
 * alive. A file that the system cannot read just now (no descriptors, a file system that does not
 * answer) does not count as removed.
 *
 * A change is found by looking: at the names, and at what stat says of each file. Notifications of
 * the kernel do not cross network file systems, and Kubernetes replaces a folder as a whole.
 */
#ifndef CADRE_COMMON_KEYS_ALLOWED_KEYS_H
#define CADRE_COMMON_KEYS_ALLOWED_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/keys/certificate.h"

typedef struct cadre_allowed_keys cadre_allowed_keys_t;

/* Reads all certificates in `directory`. Every error text names the file at fault.
 *
 * CADRE_ENOTFOUND  there is no such directory, or no certificate in it.
 * CADRE_EDATA      what cadre_certificate_file_read says of a file; the same key in two files.
 * CADRE_EREFUSED   a file or folder that others may write to, or that is no regular file; a link
 *                  that is neither root's nor this user's.
 * CADRE_ETOOLARGE  more than CADRE_ALLOWED_KEYS_MAX.
 * CADRE_ECONFIG, CADRE_EIO  as cadre_certificate_file_read. */
int cadre_allowed_keys_open(const char *directory, cadre_allowed_keys_t **out);

void cadre_allowed_keys_close(cadre_allowed_keys_t **self_p);

/* Returns whether the directory has changed since it was last read, or could not be read then:
 * until it can, it is tried at each look. Costs one stat for each file. */
bool cadre_allowed_keys_changed(const cadre_allowed_keys_t *self);

/* Reads the directory once more. Fails as cadre_allowed_keys_open; then no key is added, and a key
 * is withdrawn if its file, by the name under which it was read, is gone or holds another key or
 * none. All keys are withdrawn when the directory itself is not there, or may not be opened, for
 * the second time in a row: the first time it may be about to be replaced. A directory that changes
 * while it is read is read again, a few times. */
int cadre_allowed_keys_reload(cadre_allowed_keys_t *self);

/* Returns the certificate of `public_key`, CADRE_KEY_TEXT_LENGTH characters; NULL when that key is
 * not allowed. Valid until the next reload. The time it takes may depend on the key, which reveals
 * nothing: these keys are public. */
const cadre_certificate_t *cadre_allowed_keys_find(const cadre_allowed_keys_t *self,
                                                   const char *public_key);

/* Return how many keys are allowed, and the certificate at `index` below the count, in the order of
 * public keys; valid until the next reload. */
size_t cadre_allowed_keys_count(const cadre_allowed_keys_t *self);
const cadre_certificate_t *cadre_allowed_keys_item(const cadre_allowed_keys_t *self, size_t index);

#endif
