/*
 * lock_file - a file that one coordinator holds as long as it lives, and that says who it is.
 *
 * Owner:   a coordinator; one for its address, one for its directory of checkpoints.
 * Thread:  any; the functions keep no state.
 *
 * The lock is an open file description's (F_OFD_SETLK): the kernel lets go of it when the process
 * ends, however that goes, it works on network file systems, and it holds against another
 * coordinator in the same process. A clean close removes the file; one that was locked and is no
 * longer what the path leads to is not taken for the lock. What stands in a file that nobody holds
 * means nothing.
 *
 * A coordinator that is killed leaves its file: one line, one file per address and directory. The
 * next holder of the same path takes it over. Nobody tidies up other paths: whoever locks a dead
 * file to remove it would for that moment refuse the coordinator that is just opening it, in the
 * name of a process that is gone. By hand it may be removed while no coordinator uses the path.
 */
#ifndef CADRE_COORDINATOR_LOCK_FILE_H
#define CADRE_COORDINATOR_LOCK_FILE_H

typedef struct {
    char *path; /* NULL: nothing is held */
    int fd;
} cadre_lock_file_t;

/* Takes the lock of the file at `path`, which is made when it is missing but never reached through
 * a link, for the coordinator of `job` in this process. `what` names what is locked, for messages.
 * CADRE_EREFUSED when the file is another user's, no regular one, or has other names: it is left as
 * it is. CADRE_EEXISTS when another holds it, with a text that says who; CADRE_EIO. `self` is
 * zeroed or closed before, and closed by the caller. */
int cadre_lock_file_open(cadre_lock_file_t *self, const char *path, const char *what,
                         const char *job);

/* Takes it again where the path no longer leads to what is held: its directory was removed and made
 * again, or mounted. As cadre_lock_file_open; on failure what was held is held still. */
int cadre_lock_file_keep(cadre_lock_file_t *self, const char *what, const char *job);

/* Releases the lock. Harmless on a zeroed struct. */
void cadre_lock_file_close(cadre_lock_file_t *self);

#endif
