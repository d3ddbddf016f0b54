/*
 * lock_file - a file that one coordinator keeps locked as long as it lives, and whose text names
 * the coordinator.
 *
 * Owner:   a coordinator; one for its address, one for its directory of checkpoints.
 * Thread:  any; the functions keep no state.
 *
 * The lock belongs to the open file description (F_OFD_SETLK): the kernel releases it when the
 * process ends, for whatever reason; it works on network file systems, and it keeps out another
 * coordinator in the same process. A clean close removes the file. A file that was locked but that
 * the path no longer leads to does not count as the lock. The text of a file that nobody has locked
 * means nothing.
 *
 * A coordinator that is killed leaves its file behind: one line, one file per address and
 * directory. The next holder of the same path takes it over. No coordinator removes files of other
 * paths: it would have to lock such a file first, and a coordinator that opens it at that moment
 * would be refused, in the name of a process that is gone. A user may remove the file while no
 * coordinator uses the path.
 */
#ifndef CADRE_COORDINATOR_LOCK_FILE_H
#define CADRE_COORDINATOR_LOCK_FILE_H

typedef struct {
    char *path; /* path of the locked file; NULL: none is locked */
    int fd;
} cadre_lock_file_t;

/* Takes the lock of the file at `path`, which is made when it is missing but never reached through
 * a link, for the coordinator of `job` in this process. `what` names what is locked, for messages.
 * CADRE_EREFUSED when the file is another user's, no regular one, or has other names: it is left as
 * it is. CADRE_EEXISTS when another holds it, with a text that says who; CADRE_EIO. `self` is
 * zeroed or closed before, and closed by the caller. */
int cadre_lock_file_open(cadre_lock_file_t *self, const char *path, const char *what,
                         const char *job);

/* Takes the lock again if the path no longer leads to the locked file, because its directory was
 * removed and made again, or mounted. Fails as cadre_lock_file_open; the old file then stays
 * locked. */
int cadre_lock_file_keep(cadre_lock_file_t *self, const char *what, const char *job);

/* Releases the lock. Harmless on a zeroed struct. */
void cadre_lock_file_close(cadre_lock_file_t *self);

#endif
